#!/usr/bin/env bash
# Runs the steps of `make test`, some of them beside each other, and prints the seconds of each at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
    local status=0
    work=$(mktemp --directory)
    trap 'rm -rf "$work"' EXIT
    # What stops a set-up is told first. Then downloads and Go on one side, cargo on the other.
    tests/setup.sh packages
    beside setup
    chain fmt clippy doc test-programs || status=1
    join || status=1
    [[ $status -ne 0 ]] || chain generated || status=1
    if [[ $status -eq 0 ]]; then
        # The release programs are for the last step alone: their build takes what the tests leave of the processors.
        beside build
        chain test-all || status=1
        join && chain test-shipped || status=1
    fi
    tell
    return "$status"
}

# Runs steps one after the other, until one fails.
chain() {
    local step
    for step in "$@"; do
        run "$step" || return 1
    done
}

# Starts a step that runs beside the next chain. `join` waits for it, and prints its output if it failed.
beside() {
    beside=$1
    run "$beside" >"$work/output" 2>&1 &
    beside_pid=$!
    trap 'pkill --parent "$beside_pid"; exit 130' INT TERM
}

join() {
    local status=0
    wait "$beside_pid" || status=1
    [[ $status -eq 0 ]] || cat "$work/output" >&2
    return "$status"
}

run() {
    local step=$1 start=$SECONDS status=0 priority=0
    [[ $step != build ]] || priority=19
    printf '\n== make %s\n' "$step" >&2
    PATH="$PWD/tests/linker:$PATH" OUTRIGGER_LINKS="$work/links-of-$step" \
        nice --adjustment="$priority" "${MAKE:-make}" --no-print-directory "$step" || status=1
    printf '%s\t%d\n' "$step" "$((SECONDS - start))" >>"$work/seconds"
    [[ $status -eq 0 ]] || printf 'make test: FAILED in make %s\n' "$step" | tee -a "$work/failed" >&2
    return "$status"
}

tell() {
    local links
    {
        printf '\n| step | s |\n| --- | --- |\n'
        awk -F '\t' '{ printf "| %s | %d |\n", $1, $2 }' "$work/seconds"
        printf '| all | %d |\n' "$SECONDS"
        # Two links at a time, as two compilers.
        for links in "$work"/links-of-*; do
            [[ ! -e $links ]] || awk -v step="${links##*/links-of-}" \
                '{ sum += $1 } END { printf "%s: %d s in %d links\n", step, sum / 1000, NR }' "$links"
        done
        [[ ! -e $work/failed ]] || cat "$work/failed"
    } >&2
}

main
