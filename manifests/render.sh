#!/bin/sh
# Renders install.yaml from base/. With --check, says whether install.yaml is what would be
# rendered, and changes nothing: 0 current, 1 not. Without any kubectl: 2.
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
{
  echo "# Made from base/ by render.sh: edit there, then run it again."
  "$kubectl" kustomize "$dir/base"
} >"$rendered"

if [ "$mode" = write ]; then
  cat "$rendered" >"$dir/install.yaml"
elif ! diff -u "$dir/install.yaml" "$rendered" >&2; then
  echo "manifests/install.yaml is not what manifests/base renders to" >&2
  echo "hint: run manifests/render.sh" >&2
  exit 1
fi
