#!/usr/bin/env bash
# Builds the eight release programs of a platform, static: build.sh PLATFORM FOLDER
# With --missing, prints what this machine lacks to build for a platform: build.sh --missing PLATFORM
#
# The same revision gives the same bytes in any folder: no path of this machine is in the programs. Paths of the
# workspace are relative already, so that a build in another folder uses the dependencies again.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
    if [[ ${1:-} == --missing ]]; then
        missing "$2"
        return
    fi
    local platform=$1 folder=$2 target lacks target_dir
    target=$(target_of "$platform")
    lacks=$(missing "$platform")
    [[ -z $lacks ]] || die "$lacks"
    target_dir=$(realpath -m "${CARGO_TARGET_DIR:-target}")
    set_flags "$target_dir"
    set_commit
    use_linker "$target"
    build "$target" --release --package injector --package istioctl --package pilot-discovery --package webhook-certs
    # A static program relocates itself; packed, the list of places is 1 % of its size.
    RUSTFLAGS+=" -C link-arg=-Wl,-z,pack-relative-relocs"
    # One after the other: together, each would have the features of crates that another one asks for.
    build "$target" --profile small --package pilot-agent
    build "$target" --profile small --package install-cni
    # With RUST_BACKTRACE, an error of anyhow reads the index of the tables for unwinding, and a program without it
    # aborts. These two have no such errors.
    RUSTFLAGS+=" -C link-arg=-Wl,--no-eh-frame-hdr"
    build "$target" --profile small --package istio-init --package cni
    mkdir -p "$folder"
    install "$target_dir/$target"/release/{sidecar-injector,istioctl,pilot-discovery,webhook-certs} \
        "$target_dir/$target"/small/{istio-init,istio-cni,pilot-agent,install-cni} "$folder/"
}

die() {
    printf 'build.sh: %s\n' "$*" >&2
    exit 1
}

target_of() {
    case "$1" in
    amd64) echo x86_64-unknown-linux-gnu ;;
    arm64) echo aarch64-unknown-linux-gnu ;;
    *) die "$1 is not a platform: expected amd64 or arm64" ;;
    esac
}

missing() {
    local target
    target=$(target_of "$1")
    [[ -d $(rustc --print sysroot)/lib/rustlib/$target/lib ]] ||
        echo "the standard library of $target is not installed; hint: rustup target add $target"
    [[ -z $(linker_of "$target") ]] || command -v "$(linker_of "$target")" >/dev/null ||
        echo "$(linker_of "$target") is not installed; hint: apt-get install gcc-${target%%-*}-linux-gnu libc6-dev-$1-cross"
}

# Prints the cross linker of a target; nothing for that of this machine.
linker_of() {
    [[ $(rustc -vV | sed -n 's/^host: //p') == "$1" ]] || echo "${1%%-*}-linux-gnu-gcc"
}

use_linker() {
    local linker name=${1//-/_}
    linker=$(linker_of "$1")
    [[ -n $linker ]] || return 0
    export "CARGO_TARGET_${name^^}_LINKER=$linker" "CC_$name=$linker"
}

# An explicit target keeps the flags from build scripts and procedural macros.
set_flags() {
    local sysroot commit
    sysroot=$(rustc --print sysroot)
    commit=$(rustc -vV | sed -n 's/^commit-hash: //p')
    export RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static"
    RUSTFLAGS+=" --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$1=/target"
    RUSTFLAGS+=" --remap-path-prefix=$sysroot/lib/rustlib/src/rust=/rustc/$commit"
}

# `version` of each program names it. A tree without git has none.
set_commit() {
    local commit
    [[ -z ${OUTRIGGER_COMMIT:-} ]] || return 0
    commit=$(git rev-parse HEAD 2>/dev/null) || return 0
    [[ -z $(git status --porcelain) ]] || commit+=-dirty
    export OUTRIGGER_COMMIT=$commit
}

build() {
    local target=$1
    shift
    cargo build --locked --target "$target" --bins "$@"
}

main "$@"
