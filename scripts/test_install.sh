#!/usr/bin/env bash
# Tries the wheels on bare systems, in namespaces: from `pip install` to a picture of the live page, timed.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/machines.sh
. "$root/scripts/lib/machines.sh"

systems=$SYSTEMS
offered=$target/wheels
out=$target/install

usage() {
    cat <<'END'
Usage: scripts/test_install.sh [--system NAME] [--wheels DIR] [--yes]

Installs the wheels with pip into a bare Debian 12, Debian 13 and Ubuntu 24.04, which have Python and no compiler, and then GStreamer
as the error of `foveate` says. Starts `foveate demo`, reads its tokens in Python, takes a picture of its page with this machine's
Chromium, and says how long each step took. Pictures are left in target/install. Needs root. Bare systems and their packages are
kept in ~/.cache/foveate.

  --system NAME  only on debian-12, debian-13 or ubuntu-24.04
  --wheels DIR   the folder of foveate-*.whl and foveate_daemon-*.whl (target/wheels, built by scripts/wheels.sh if it is missing)
  --yes          install missing packages without asking
  --help         this
END
}

read_option() {
    case "$1" in
    --system)
        check_system "$2"
        systems=$2
        ;;
    --wheels)
        [ -d "$2" ] || usage_error "--wheels $2: no such folder"
        offered=$(cd "$2" && pwd)
        ;;
    esac
}

# Runs a command, and sets `seconds` to how long it took: timed COMMAND...
timed() {
    local began
    began=$(date +%s%N)
    "$@" || return
    seconds=$(awk -v ns="$(($(date +%s%N) - began))" 'BEGIN { printf "%.1f", ns / 1e9 }')
}

# Where pip finds packages, as on this machine: with_pip COMMAND...
with_pip() {
    local name settings=(PIP_DISABLE_PIP_VERSION_CHECK=1)
    for name in PIP_INDEX_URL PIP_DEFAULT_TIMEOUT; do
        [ -z "${!name:-}" ] || settings+=("$name=${!name}")
    done
    [ ! -e "$folder/certificates.crt" ] || settings+=(PIP_CERT=/certificates.crt)
    inside "$first" env "${settings[@]}" "$@"
}

try_wheels() {
    local folder=$work/$system first running remedy address socket pip boxed installed
    say "== $system"
    new_machine "$folder" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    cp -L "${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}" "$folder/certificates.crt" || true
    in_new "$folder" env DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes --no-install-recommends install python3-venv \
        >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    start "$work/machine.log" "$folder" sleep infinity
    inside "$first" python3 -m venv /environment

    timed with_pip /environment/bin/pip install --quiet --find-links /packages foveate foveate-daemon >"$work/log" 2>&1 \
        || fail "the wheels cannot be installed: $(cat "$work/log")"
    pip=$seconds
    if inside "$first" /environment/bin/foveate --version 2>"$work/log"; then
        fail 'a system without GStreamer was expected'
    fi
    remedy=$(sed -n 's/^ *apt-get install \([^#]*\).*/\1/p' "$work/log")
    [ -n "$remedy" ] || fail "the error names no packages: $(cat "$work/log")"
    # shellcheck disable=SC2086 # A list of packages.
    timed apt_quietly "$first" install $remedy >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    installed=$seconds

    timed start_demo
    inside "$first" /environment/bin/python -c 'import foveate, sys
print(foveate.open("demo/main", socket=sys.argv[1]).read().pixels.shape)' "$socket" || fail 'the reader in Python fails; see above'
    boxed=$seconds
    timed take_picture || fail "there is no picture of $address; see above"
    say "pip $pip s, apt $installed s, demo $boxed s, browser $seconds s: $out/$system.png"
    # shellcheck disable=SC2016 # What that shell expands.
    inside "$first" sh -c 'kill -TERM "$(cat /tmp/demo.pid)"' || fail 'the demo has ended'
    wait "${started[-1]}" || fail "the demo ended with $?: $(cat "$work/demo.log")"
}

# Starts `foveate demo`, and sets `address` to that of its page and `socket` to its daemon's.
start_demo() {
    # shellcheck disable=SC2016 # What that shell expands.
    inside "$first" sh -c 'echo $$ >/tmp/demo.pid; exec /environment/bin/foveate demo --no-open --listen 127.0.0.1:0' \
        >"$work/demo.log" 2>&1 &
    started+=("$!")
    await "the demo shows its page: $work/demo.log" grep -q 'http://' "$work/demo.log"
    address=$(grep -o 'http://[^ ]*' "$work/demo.log")
    socket=$(grep -o '/[^ ]*\.sock' "$work/demo.log")
}

# The machine has the network of this one.
take_picture() {
    local browser
    for browser in chromium chromium-browser google-chrome; do
        browser=$(type -P "$browser") || continue
        mkdir -p "$out"
        python3 -B "$root/scripts/lib/screenshot.py" "$browser" "$address" "$out/$system.png"
        return
    done
    warn 'no browser; install chromium'
    return 1
}

main() {
    read_arguments "$@"
    [ "$(id -u)" -eq 0 ] || fail 'a system in a folder needs root'
    ensure_packages machine chromium
    ls "$offered"/foveate_daemon-*.whl >/dev/null 2>&1 || run_script wheels.sh --without-engine || fail 'there are no wheels; see above'
    work=$(mktemp -d)
    trap clean_up_machines EXIT
    for system in $systems; do
        if ensure_system; then
            try_wheels
        else
            left_out "wheels on $system" 'a bare system cannot be made; see above'
        fi
    done
}

main "$@"
