#!/usr/bin/env bash
# Runs all tests in two lanes beside each other, since much of them waits: for certificates to age, for pods,
# for packets that do not come. With --unit, runs the tests that need neither `make setup` nor root. The further
# arguments are passed to cargo. The output of a test program comes in one piece when it has ended.
set -euo pipefail

# Each lane runs the programs of its groups, one after the other.
lanes=(servers "machine unit")

# The group of a test program. `unit` needs no set-up and no root; a new program belongs to it.
group_of() {
    case "$1" in
    "e2e acceptance" | "e2e installation" | "e2e packages" | "e2e site" | "injector reports" | "install-cni api_server" | "istioctl reports" | "pilot-discovery beside_istiod" | "pilot-discovery certificates" | "pilot-discovery sources" | "pilot-registry kubernetes" | "webhook-certs cluster" | "webhook-certs storm") echo servers ;;
    "e2e dependencies" | "e2e licences" | "e2e links" | "pilot-agent pilot_agent" | "pilot-discovery pilot_discovery") echo unit ;;
    "e2e "* | "injector cluster" | "injector kubernetes" | "pilot-agent "* | "pilot-discovery "* | "pilot-routing generation" | "pilot-xds envoy" | "webhook-certs workload") echo machine ;;
    *) echo unit ;;
    esac
}

main() {
    local status=0
    if [[ ${1:-} == --unit ]]; then
        lanes=(unit)
        shift
    fi
    cargo test --locked "$@" --no-run
    work=$(mktemp --directory)
    trap 'rm -rf "$work"' EXIT
    # Tests add a line for what they leave out: tests/src/skipped_tests.rs.
    export OUTRIGGER_LEFT_OUT="$work/left-out"
    touch "$OUTRIGGER_LEFT_OUT"
    run_all "$@" | tee "$work/log" || status=$?
    [[ $status -eq 0 ]] || repeat_failures "$work/log" >&2
    summarize || status=1
    return "$status"
}

run_all() {
    local lane status=0 running=()
    exec 3>&1
    cargo test --locked "$@" --doc --no-fail-fast 2>&1 || status=1
    for lane in "${lanes[@]}"; do
        run_lane "$lane" "$@" &
        running+=($!)
    done
    for lane in "${running[@]}"; do
        wait "$lane" || status=1
    done
    return "$status"
}

# Cargo runs each program of tests by way of this script, which leaves out those of other lanes: none is
# forgotten, and each has the environment that cargo gives it. Descriptor 3 is where they print.
run_lane() {
    local lane=$1 host runner status=0
    shift
    host=$(rustc -vV | sed -n 's/^host: //p')
    runner="target.$host.runner = ['$(realpath "${BASH_SOURCE[0]}")', '--in', '$lane', '$work']"
    cargo test --locked --config "$runner" "$@" --tests --no-fail-fast >"$work/$lane" 2>&1 || status=$?
    in_one_piece sed "/^     Running .*(.*)$/d" "$work/$lane"
    return "$status"
}

# run_if_here LANE WORK PROGRAM [ARGUMENT...]
run_if_here() {
    local lane=$1 name=${3##*/} output status=0
    work=$2
    shift 2
    name="$CARGO_PKG_NAME ${name%-*}"
    [[ " $lane " == *" $(group_of "$name") "* ]] || exit 0
    in_one_piece printf 'started: %s\n' "$name"
    output="$work/$name"
    printf '\n     Running %s\n' "$name" >"$output"
    "$@" >>"$output" 2>&1 3>&- || status=$?
    in_one_piece cat "$output"
    exit "$status"
}

# Prints what a command prints, while nothing of the other lane comes between.
in_one_piece() {
    flock "$work" "$@" >&3
}

# Of a long log, often the end alone is kept: what failed is told there again, the reason cut short.
repeat_failures() {
    printf '\n== what failed\n'
    awk '/^---- .+ ----$/ { left = 15 } /^failures:$/ { left = 0 }
        left > 0 { left--; print substr($0, 1, 400) }
        /^error(\[|:)/ { print substr($0, 1, 400) }' "$1"
}

# Prints the counts and what was left out. In CI, everything has to run.
summarize() {
    local left_out
    awk '/^test result: / { passed += $4; failed += $6; ignored += $8 }
        END { printf "\n%d passed, %d failed, %d ignored\n", passed, failed, ignored }' "$work/log"
    left_out=$(sort -u "$OUTRIGGER_LEFT_OUT")
    [[ -n $left_out ]] || return 0
    printf '%s\n' "$left_out"
    [[ -z ${CI:-} ]]
}

if [[ ${1:-} == --in ]]; then
    shift
    run_if_here "$@"
else
    main "$@"
fi
