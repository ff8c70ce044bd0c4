#!/bin/sh
# Renders install.yaml from base/. With --check, says whether install.yaml is what would be
# rendered, and changes nothing: 0 current, 1 not.
set -eu

dir=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
built=${XDG_CACHE_HOME:-$HOME/.cache}/outrigger/kubernetes-v1.35.4/kubectl

case $# in
  0) mode=write ;;
  1) [ "$1" = --check ] || { echo "usage: $0 [--check]" >&2; exit 2; }; mode=check ;;
  *) echo "usage: $0 [--check]" >&2; exit 2 ;;
esac

if command -v kubectl >/dev/null 2>&1; then
  kubectl=kubectl
elif [ -x "$built" ]; then
  kubectl=$built
else
  echo "$0: no kubectl on PATH and none at $built" >&2
  echo "hint: the tests' Kubernetes build makes one; any kubectl from 1.32 on will do" >&2
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
