#!/usr/bin/env bash
# Builds cnitool of this module, the reference client of CNI, into a folder:
#   build.sh VERSION FOLDER
set -euo pipefail
cd "$(dirname "$0")"

CGO_ENABLED=0 go build -trimpath -o "$2/cnitool" -ldflags "-s -w" \
    github.com/containernetworking/cni/cnitool
