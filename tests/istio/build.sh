#!/usr/bin/env bash
# Builds Istio's programs of this module into a folder, with the definitions of its kinds:
#   build.sh VERSION FOLDER
# The tests call them as programs only; nothing of Istio is in this repository or in a release.
set -euo pipefail
cd "$(dirname "$0")"

folder=$2

# build PACKAGE TAGS
build() {
    CGO_ENABLED=0 go build -trimpath -tags "$2" -o "$folder/${1##*/}" \
        -ldflags "-s -w" "istio.io/istio/$1"
}

build pilot/cmd/pilot-discovery vtprotobuf,disable_pgv
build pilot/cmd/pilot-agent agent,disable_pgv,grpcnotrace,retrynotrace
build cni/cmd/istio-cni ""
install --mode 644 "$(go list -m -f '{{.Dir}}' istio.io/api)/kubernetes/customresourcedefinitions.gen.yaml" \
    "$folder/istio-crds.yaml"
