#!/usr/bin/env bash
# Runs all tests in two lanes beside each other, since much of them waits: for certificates to age, for pods,
# for packets that do not come. The arguments are what cargo is told to test. A line begins with its lane.
set -euo pipefail

lanes=(servers rest)

# What runs in which lane, one after the other; what nobody names is in `rest`.
home_of() {
    case "$1" in
    "e2e acceptance" | "e2e installation" | "webhook-certs cluster" | "webhook-certs storm") echo servers ;;
    *) echo rest ;;
    esac
}

main() {
    local log status=0
    cargo test --locked "$@" --no-run
    log=$(mktemp)
    # shellcheck disable=SC2064 # the name as it is now
    trap "rm -f '$log'" EXIT
    run_all "$@" | tee "$log" || status=$?
    [[ $status -eq 0 ]] || repeat_failures "$log" >&2
    return "$status"
}

run_all() {
    local lane status=0 running=()
    for lane in "${lanes[@]}"; do
        run_lane "$lane" "$@" &
        running+=($!)
    done
    for lane in "${running[@]}"; do
        wait "$lane" || status=1
    done
    cargo test --locked "$@" --doc --no-fail-fast 2>&1 || status=1
    return "$status"
}

# Cargo runs each program of tests by way of this script, which leaves out those of other lanes: none is
# forgotten, and each has the environment that cargo gives it.
run_lane() {
    local lane=$1 host runner
    shift
    host=$(rustc -vV | sed -n 's/^host: //p')
    runner="target.$host.runner = ['$(realpath "${BASH_SOURCE[0]}")', '--in', '$lane']"
    cargo test --locked --config "$runner" "$@" --tests --no-fail-fast 2>&1 |
        sed --unbuffered "/^     Running .*(.*)$/d; s/^/$lane| /"
}

# run_if_here LANE PROGRAM [ARGUMENT...]
run_if_here() {
    local lane=$1 name=${2##*/} home
    shift
    name="$CARGO_PKG_NAME ${name%-*}"
    home=$(home_of "$name")
    [[ " ${lanes[*]} " == *" $home "* ]] || {
        printf '%s belongs to %s, which is no lane\n' "$name" "$home" >&2
        exit 1
    }
    [[ $home == "$lane" ]] || exit 0
    printf '\n     Running %s\n' "$name"
    exec "$@"
}

# Of a long log, often the end alone is kept: what failed is told there again, the reason cut short.
repeat_failures() {
    printf '\n== what failed\n'
    awk '{ lane = ""; line = $0 }
        match(line, /^[a-z]+\| /) { lane = substr(line, 1, RLENGTH); line = substr(line, RLENGTH + 1) }
        line ~ /^---- .+ ----$/ { left[lane] = 15 } line == "failures:" { left[lane] = 0 }
        left[lane] > 0 { left[lane]--; print lane substr(line, 1, 400) }
        line ~ /^error(\[|:)/ { print lane substr(line, 1, 400) }' "$1"
}

if [[ ${1:-} == --in ]]; then
    shift
    run_if_here "$@"
else
    main "$@"
fi
