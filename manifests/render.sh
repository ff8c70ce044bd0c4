#!/bin/sh
# Renders install.yaml from base/ and install-mesh.yaml from mesh/. With --check, says whether they are
# what would be rendered, and changes nothing: 0 current, 1 not. Without any kubectl: 2.
set -eu

dir=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

case "$*" in
  "") mode=write ;;
  --check) mode=check ;;
  *) echo "usage: $0 [--check]" >&2; exit 2 ;;
esac

kubectl=$(command -v kubectl || true)
# The one that the tests build, whichever its version.
for built in "${XDG_CACHE_HOME:-$HOME/.cache}"/outrigger/kubernetes-*/kubectl; do
  if [ -z "$kubectl" ] && [ -x "$built" ]; then kubectl=$built; fi
done
if [ -z "$kubectl" ]; then
  echo "$0: no kubectl on PATH and none at $built" >&2
  echo "hint: tests/setup.sh builds one" >&2
  exit 2
fi

rendered=$(mktemp)
trap 'rm -f "$rendered"' EXIT
trap 'exit 1' HUP INT TERM

# install.yaml is the injector alone, install-mesh.yaml has its control plane besides.
current=0
for pair in base=install.yaml mesh=install-mesh.yaml; do
  folder=${pair%=*} file=${pair#*=}
  {
    echo "# Made from $folder/ by render.sh: edit there, then run it again."
    "$kubectl" kustomize "$dir/$folder"
  } >"$rendered"
  if [ "$mode" = write ]; then
    cat "$rendered" >"$dir/$file"
  elif ! diff -u "$dir/$file" "$rendered" >&2; then
    echo "manifests/$file is not what manifests/$folder renders to" >&2
    echo "hint: run manifests/render.sh" >&2
    current=1
  fi
done
exit "$current"
