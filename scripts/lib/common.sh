# shellcheck shell=bash
# What every script begins with: the folders, messages, and the command line. A script has `usage`, which prints its help, and, if it
# has options, `read_option`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck disable=SC2034 # Scripts read it.
target=${CARGO_TARGET_DIR:-$root/target}

# shellcheck source-path=SCRIPTDIR source=lib/setup.sh
. "$root/scripts/lib/setup.sh"
# shellcheck source-path=SCRIPTDIR source=lib/fetch.sh
. "$root/scripts/lib/fetch.sh"

say() {
    printf '%s\n' "$*"
}

warn() {
    printf '%s\n' "$*" >&2
}

# Says that something cannot be checked here, to scripts/test.sh as tests do: left_out WHAT WHY
left_out() {
    warn "*** LEFT OUT $1: $2 ***"
    [ -z "${FOVEATE_LEFT_OUT:-}" ] || printf 'checks\t%s\t%s\n' "$1" "$2" >>"$FOVEATE_LEFT_OUT"
}

# Ends the script: fail MESSAGE [EXIT_CODE]
fail() {
    printf '%s: %s\n' "$(basename "$0")" "$1" >&2
    exit "${2:-1}"
}

# Wrong usage exits with 2, as in the programs.
usage_error() {
    fail "$1 (try --help)" 2
}

# Reads a command line, which ends the script if it is wrong: read_arguments ARGUMENT... Calls `read_option NAME [VALUE]` for each
# option that `usage` lists at the beginning of a line, except --help and --yes, which all scripts have. An option has a value if
# `usage` names it in capitals, as in `--out DIR`.
# shellcheck disable=SC2034 # assume_yes is read in setup.sh.
read_arguments() {
    while [ $# -gt 0 ]; do
        case "$1" in
        --help | -h)
            usage
            exit
            ;;
        --yes) assume_yes=true ;;
        *)
            if has_option "$1 [A-Z]+"; then
                [ -n "${2:-}" ] || usage_error "$1 needs a value"
                read_option "$1" "$2"
                shift
            elif has_option "$1"; then
                read_option "$1"
            else
                usage_error "unknown option '$1'"
            fi
            ;;
        esac
        shift
    done
}

# Whether `usage` lists an option: has_option PATTERN
has_option() {
    [[ $1 =~ ^--[a-z-]+( \[A-Z\]\+)?$ ]] && usage | grep -Eq "^  $1( {2,}|\$)"
}

# Runs another script, which asks no more than this one: run_script NAME [OPTION]...
run_script() {
    local name=$1
    shift
    [ "$assume_yes" = false ] || set -- "$@" --yes
    "$root/scripts/$name" "$@"
}

# Runs a command, with a line now and then to show that it has not hung. Its output is shown only if it fails:
# with_progress MESSAGE COMMAND...
with_progress() {
    local message=$1 log ticker status=0
    shift
    say "$message"
    log=$(mktemp)
    tick "$message" &
    ticker=$!
    "$@" >"$log" 2>&1 || status=$?
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    if [ "$status" -ne 0 ]; then
        tail -n 20 "$log" >&2
    fi
    rm -f "$log"
    return "$status"
}

# Prints a line every five seconds until it is killed or the script has ended.
tick() {
    local started=$SECONDS
    while sleep 5 && kill -0 "$$" 2>/dev/null; do
        say "  ... $1 ($((SECONDS - started)) s)"
    done
}
