#!/usr/bin/env bash
# Builds Helm of this module into a folder, with the libraries of tests/kubernetes, which are built already:
#   build.sh VERSION FOLDER
set -euo pipefail
cd "$(dirname "$0")"

CGO_ENABLED=0 go build -trimpath -o "$2/helm" \
    -ldflags "-s -w -X helm.sh/helm/v3/internal/version.version=$1" helm.sh/helm/v3/cmd/helm
