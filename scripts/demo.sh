#!/usr/bin/env bash
# The first of the two commands: a real clip in, foveated tokens out, read by a second process and drawn.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

readonly VIEW=demo/main
readonly CLIP=vtest.avi
# A cold software GPU compiles its shaders at the start, and a camera may need seconds for its first frame.
readonly START_LIMIT_SECONDS=60
readonly STOP_LIMIT_SECONDS=5
readonly READ_SECONDS=4

out=./demo-out
# What --camera or --uri names; otherwise the clip.
source=
# Created in `main`, and ended or removed in `clean_up`.
work=
daemon=

usage() {
    cat <<'END'
Usage: scripts/demo.sh [--camera DEVICE | --uri URI] [--yes]

Installs what is missing, builds Foveate, starts the daemon on a video, reads its tokens in a second process, leaves pictures of what
it saw in ./demo-out, and in a terminal shows the live page until Ctrl-C. The video is a clip of people, which is fetched once into
~/.cache/foveate.

  --camera DEVICE  a camera instead, such as /dev/video0
  --uri URI        a network camera instead, rtsp://, rtsps://, http:// or https://
  --yes            install missing packages without asking
  --help           this
END
}

read_option() {
    [ -z "$source" ] || usage_error 'only one of --camera and --uri'
    case "$1" in
    --camera) [[ $2 == /dev/* ]] || usage_error "--camera $2: expected a device such as /dev/video0" ;;
    --uri) [[ $2 =~ ^(rtsps?|https?):// ]] || usage_error '--uri: expected rtsp://..., rtsps://..., http://... or https://...' ;;
    esac
    source=$2
}

write_config() {
    local is_clip=false
    if [ -z "$source" ] && ensure_clips "$CLIP"; then
        is_clip=true source=$(clip_cache)/$CLIP
    fi
    [ -n "$source" ] || say 'Using the test scene instead.'
    cat >"$work/demo.toml" <<END
[daemon]
socket = $(toml_string "$work/foveate.sock")

[[stream]]
name = "${VIEW%/*}"
source = $(toml_string "${source:-test}")
loop = $is_clip

[[stream.view]]
name = "${VIEW#*/}"
END
}

# Its argument as a TOML string.
toml_string() {
    local text=$1
    text=${text//\\/\\\\}
    text=${text//\"/\\\"}
    text=${text//\$\{/\$\$\{}
    printf '"%s"' "$text"
}

# Starts the daemon, and returns once a second process knows of a token frame.
start() {
    local waiting
    # This demo's own daemon, not one that is already running.
    unset FOVEATE_SOCKET
    say 'Starting foveated'
    "$target/release/foveated" --config "$work/demo.toml" >"$out/foveated.log" 2>&1 &
    daemon=$!
    "${foveate[@]}" wait "$VIEW" --timeout "$START_LIMIT_SECONDS" >/dev/null 2>&1 &
    waiting=$!
    # Until the first of both ends.
    wait -n "$daemon" "$waiting" || true
    kill -0 "$daemon" 2>/dev/null || daemon_failed 'foveated ended before its first token frame'
    wait "$waiting" || daemon_failed "no token frame within $START_LIMIT_SECONDS s"
}

daemon_failed() {
    tail -n 20 "$out/foveated.log" >&2
    fail "$1; the log is $out/foveated.log"
}

# Reads tokens in a separate process, and takes pictures halfway through.
read_tokens() {
    local reader
    say "Reading tokens of $VIEW for $READ_SECONDS s"
    "${foveate[@]}" watch "$VIEW" --json --seconds "$READ_SECONDS" >"$out/tokens.jsonl" 2>"$work/watch.log" &
    reader=$!
    sleep $((READ_SECONDS / 2))
    "${foveate[@]}" snap "$VIEW" --out "$out" >/dev/null || daemon_failed 'foveate snap failed'
    wait "$reader" || daemon_failed "the reader failed: $(cat "$work/watch.log")"
}

# Stops the daemon, and kills it after a timeout.
stop() {
    kill -TERM "$daemon" 2>/dev/null || true
    timeout "$STOP_LIMIT_SECONDS" tail --pid="$daemon" -f /dev/null \
        || daemon_failed "foveated did not end within $STOP_LIMIT_SECONDS s of SIGTERM"
    wait "$daemon" || daemon_failed "foveated ended with $?"
}

# Shows the page until Ctrl-C, which ends only that; without a terminal nobody could end it.
show_page() {
    if [ ! -t 1 ]; then
        say "the live page   $target/release/foveate demo    # http://127.0.0.1:8707/"
        return
    fi
    trap : INT
    "${foveate[@]}" web "$VIEW" || warn 'There is no page; see above.'
    trap 'exit 130' INT
}

# In every case nothing keeps running, and only $out remains.
clean_up() {
    jobs -p | xargs --no-run-if-empty kill -KILL 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}

main() {
    read_arguments "$@"
    ensure_rust
    ensure_packages build run
    work=$(mktemp -d)
    foveate=("$target/release/foveate" --socket "$work/foveate.sock")
    mkdir -p "$out"
    trap clean_up EXIT
    trap 'exit 130' INT TERM
    write_config
    say 'Building a release; the first time takes minutes'
    # Without what the demo does not need: recordings, decoders of pictures, files of NumPy, and lines in backtraces.
    CARGO_PROFILE_RELEASE_DEBUG=false build_release --no-default-features --features gst,vulkan,web
    start
    read_tokens
    "${foveate[@]}" ls >"$work/list.txt"
    # What was read, from the last line of `foveate watch`, and where it is.
    printf '\n%s\n\n%s\n' "$(cat "$work/list.txt")" "$(tail -n 1 "$work/watch.log")"
    say "pictures        $(find "$out" -maxdepth 1 -name '*.png' | sort | tr '\n' ' ')"
    say "every frame     $out/tokens.jsonl"
    say "the log         $out/foveated.log"
    show_page
    stop
}

main "$@"
