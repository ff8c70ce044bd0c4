#!/usr/bin/env bash
# Runs all test programs in lanes beside each other, since most of them wait: for certificates to age, for pods,
# for packets that do not come. A free lane takes the longest program that is left, by the table in docs/testing.md.
# With --unit, runs the programs that need neither `make setup` nor root. The further arguments are passed to cargo.
# The output of a program comes in one piece when it has ended.
set -euo pipefail
script=$(realpath "${BASH_SOURCE[0]}")
checkout=$(realpath "$(dirname "$script")/..")

lanes=3
# A program that hangs is ended, in minutes.
longest=40

# The group of a test program. `unit` needs no set-up and no root; a new program belongs to it. `shipped` looks into
# dist/.
group_of() {
    case "$1" in
    "e2e packages") echo shipped ;;
    "e2e repository" | "pilot-agent pilot_agent" | "pilot-discovery pilot_discovery") echo unit ;;
    "e2e "* | "pilot-agent "* | "pilot-discovery "*) echo machine ;;
    "injector cluster" | "injector kubernetes" | "injector reports") echo machine ;;
    "webhook-certs cluster" | "webhook-certs storm" | "webhook-certs workload") echo machine ;;
    "install-cni api_server" | "install-cni repair" | "istioctl reports") echo machine ;;
    "pilot-registry kubernetes" | "pilot-routing generation" | "pilot-xds envoy") echo machine ;;
    *) echo unit ;;
    esac
}

main() {
    local status=0 groups="unit machine"
    cd "$checkout"
    case "${1:-}" in
    --unit) groups=unit && shift ;;
    --shipped) groups=shipped && shift ;;
    esac
    cargo test --locked "$@" --no-run
    work=$(mktemp --directory)
    trap 'rm -rf "$work"' EXIT
    mkdir "$work/programs"
    # Tests add a line for what they leave out: tests/src/skipped_tests.rs.
    export OUTRIGGER_LEFT_OUT="$work/left-out"
    # The day, as in tests/src/random.rs; one for all, also around midnight.
    export OUTRIGGER_SEED="${OUTRIGGER_SEED:-$(($(date +%s) / 86400))}"
    touch "$OUTRIGGER_LEFT_OUT" "$work/seconds"
    collect "$groups" "$@"
    run_all | tee "$work/log" || status=$?
    [[ $status -eq 0 ]] || repeat_failures "$work/log" >&2
    tell_seconds >&2
    summarize || status=1
    return "$status"
}

# Cargo names each program of tests to this script instead of running it: none is forgotten, and each has the
# environment that cargo gives it.
collect() {
    local groups=$1 host
    shift
    host=$(rustc -vV | sed -n 's/^host: //p')
    cargo test --locked --quiet --config "target.$host.runner = ['$script', '--collect', '$groups', '$work']" "$@" --tests
    [[ " $groups " != *" unit "* ]] ||
        printf '%q ' cargo test --locked "$@" --doc --no-fail-fast >"$work/programs/doc tests"
}

# collect_program GROUPS WORK PROGRAM [ARGUMENT...]
collect_program() {
    local groups=$1 work=$2 name=${3##*/}
    shift 2
    name="$CARGO_PKG_NAME ${name%-*}"
    [[ " $groups " == *" $(group_of "$name") "* ]] || return 0
    # The tests in a program have the file name of those in the library.
    [[ ! -e "$work/programs/$name" ]] || name+=" (program)"
    [[ ! -e "$work/programs/$name" ]] || { echo "lanes.sh: two test programs are called $name" >&2 && exit 1; }
    {
        compgen -e | grep -E '^(CARGO|RUSTUP|LD_LIBRARY_PATH$)' | while read -r variable; do declare -p "$variable"; done
        printf 'cd %q\n' "$PWD"
        printf 'exec '
        printf '%q ' "$@"
    } >"$work/programs/$name"
}

run_all() {
    exec 3>&1
    longest_first | xargs --delimiter='\n' --max-args=1 --max-procs="$lanes" "$script" --run "$work"
}

# A program that the table does not have may be long.
longest_first() {
    local name seconds
    for name in "$work"/programs/*; do
        name=${name##*/}
        [[ $name != "$after_node" || ! -e $work/programs/$node ]] || continue
        seconds=$(before "$name" 3)
        printf '%s\t%s\n' "${seconds:-60}" "$name"
    done | sort --numeric-sort --reverse | cut --fields=2
}

# There is one node at a time, so one lane has both programs.
node="e2e node"
after_node="e2e mesh"

# run_lane WORK NAME
run_lane() {
    local status=0
    run_program "$@" || status=1
    if [[ $2 == "$node" && -e $1/programs/$after_node ]]; then
        run_program "$1" "$after_node" || status=1
    fi
    return "$status"
}

# run_program WORK NAME
run_program() {
    local work=$1 name=$2 output="$1/$2" status=0 TIMEFORMAT='%0R %0U %0S' wall user system
    in_one_piece printf 'started: %s\n' "$name"
    printf '\n     Running %s\n' "$name" >"$output"
    { time timeout --foreground --kill-after=60 "${longest}m" bash "$work/programs/$name" >>"$output" 2>&1 3>&-; } 2>"$output.time" || status=$?
    read -r wall user system < <(tail -n 1 "$output.time")
    [[ $status -eq 0 ]] ||
        printf '\nerror: %s ended with exit code %d; 124 means not within %d minutes\n' "$name" "$status" "$longest" >>"$output"
    printf '%s\t%d\t%d\n' "$name" "$wall" "$((user + system))" >>"$work/seconds"
    printf '     Ended %s: %d s, %d s of CPU\n' "$name" "$wall" "$((user + system))" >>"$output"
    in_one_piece cat "$output"
    return "$status"
}

# Prints what a command prints, while nothing of the other lanes comes between.
in_one_piece() {
    flock "$work" "$@" >&3
}

# Of a long log, often the end alone is kept: what failed is told there again, the reason cut short.
repeat_failures() {
    printf '\n== what failed\n'
    awk '/^---- .+ ----$/ { left = 15 } /^failures:$/ { left = 0 }
        left > 0 { left--; print substr($0, 1, 400) }
        /^[Ee]rror(\[|:)/ { print substr($0, 1, 400) }' "$1"
}

# Prints the longest programs as rows of the table, and warns of those that have grown.
tell_seconds() {
    local name wall cpu before
    printf '\n| program | s | s of CPU |\n| --- | --- | --- |\n'
    sort --field-separator=$'\t' --key=2,2nr "$work/seconds" | head -n "${OUTRIGGER_PROGRAMS_SHOWN:-10}" |
        while IFS=$'\t' read -r name wall cpu; do printf '| %s | %d | %d |\n' "$name" "$wall" "$cpu"; done
    # Seconds of a clock depend on what runs beside the program.
    while IFS=$'\t' read -r name wall cpu; do
        # The table leaves out programs under five seconds.
        before=$(before "$name" 4)
        before=${before:-4}
        ((cpu <= before * 3 / 2 + 5)) ||
            printf 'warning: %s took %d s of CPU; docs/testing.md has %d s\n' "$name" "$cpu" "$before"
    done <"$work/seconds"
}

# Prints a column of a program in the table of docs/testing.md.
before() {
    awk -F ' *[|] *' -v name="$1" -v column="$2" '$2 == name && $3 ~ /^[0-9]+$/ { print $column; exit }' docs/testing.md
}

# Prints the counts and what was left out. In CI, everything has to run.
summarize() {
    local left_out
    awk '/^test result: / { passed += $4; failed += $6; ignored += $8 }
        END { printf "\n%d passed, %d failed, %d ignored\n", passed, failed, ignored }' "$work/log"
    printf 'random choices of OUTRIGGER_SEED=%s\n' "$OUTRIGGER_SEED"
    left_out=$(sort -u "$OUTRIGGER_LEFT_OUT")
    [[ -n $left_out ]] || return 0
    printf '%s\n' "$left_out"
    [[ -z ${CI:-} ]]
}

case "${1:-}" in
--collect)
    shift
    collect_program "$@"
    ;;
--run)
    shift
    work=$1
    run_lane "$@"
    ;;
*) main "$@" ;;
esac
