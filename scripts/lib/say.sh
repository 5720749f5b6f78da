# shellcheck shell=bash
# Messages of the scripts.

say() {
    printf '%s\n' "$*"
}

warn() {
    printf '%s\n' "$*" >&2
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

# Rewrites one line on a terminal; otherwise every fifth call prints a line: progress COUNT MESSAGE
progress() {
    if [ -t 1 ]; then
        printf '\r\033[K%s' "$2"
    elif [ $(($1 % 5)) -eq 0 ]; then
        say "$2"
    fi
}

# Ends the line of `progress`.
progress_done() {
    if [ -t 1 ]; then
        printf '\n'
    fi
}
