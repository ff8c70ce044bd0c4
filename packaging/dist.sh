#!/usr/bin/env bash
# Writes dist/release, after `make build`: dist.sh [PLATFORM...]
# Without platforms, those that this machine can build for. A platform that is named has to be built.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
    local platform lacks folder envoy args=()
    local host=amd64
    [[ $(uname -m) != aarch64 ]] || host=arm64
    for platform in ${*:-amd64 arm64}; do
        lacks=$(packaging/build.sh --missing "$platform")
        if [[ -n $lacks ]]; then
            [[ $# -eq 0 ]] || die "$platform: $lacks"
            say "LEFT OUT: programs, packages and images for linux/$platform: $lacks"
            continue
        fi
        folder=dist
        if [[ $platform != "$host" ]]; then
            folder="dist/linux-$platform"
            packaging/build.sh "$platform" "$folder"
        fi
        envoy=$(tests/setup.sh envoy "$platform")
        args+=(--programs "$platform=$folder" --envoy "$platform=$envoy")
    done
    add_revision
    cargo run --locked --quiet --package packaging -- release --output dist/release \
        --envoy-version "$(<tests/envoy-version)" "${args[@]}"
    ls -l dist/release >&2
}

say() { printf 'make dist: %s\n' "$*" >&2; }

die() {
    say "$*"
    exit 1
}

# Time and name of the commit. A work tree with changes has the time alone: its commit is not its source.
add_revision() {
    [[ -n ${SOURCE_DATE_EPOCH:-} ]] || SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    export SOURCE_DATE_EPOCH
    if [[ -z $(git status --porcelain) ]]; then
        args+=(--revision "$(git rev-parse HEAD)")
    else
        say "LEFT OUT: the revision; the work tree has changes that are not committed"
    fi
}

main "$@"
