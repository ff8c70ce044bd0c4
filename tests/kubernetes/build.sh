#!/usr/bin/env bash
# Builds the Kubernetes programs of this module into a folder:
#   build.sh VERSION FOLDER
set -euo pipefail
cd "$(dirname "$0")"

version=$1
folder=$2
minor=${version#v1.}
minor=${minor%%.*}
package=k8s.io/component-base/version

CGO_ENABLED=0 go build -trimpath -o "$folder/kubernetes" -ldflags "-s -w \
    -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor" .
for program in kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubectl kubelet; do
    ln -sf kubernetes "$folder/$program"
done
