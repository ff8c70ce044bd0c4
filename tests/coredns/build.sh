#!/usr/bin/env bash
# Builds CoreDNS, of the version in go.mod, into a folder:
#   build.sh VERSION FOLDER
set -euo pipefail
cd "$(dirname "$0")"

CGO_ENABLED=0 go build -trimpath -o "$2/coredns" -ldflags "-s -w" .
