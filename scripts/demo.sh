#!/usr/bin/env bash
# The first of the two commands: a real clip in, foveated tokens out, read by a second process and drawn.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

readonly VIEW=demo/main
readonly CLIP_NAME=vtest.avi
# A cold software GPU compiles its shaders at the start, and a camera may need seconds for its first frame.
readonly START_LIMIT_SECONDS=60
readonly STOP_LIMIT_SECONDS=5

seconds=10
out=./demo-out
# The choice of --clip, --camera, --uri and --test-pattern; "default" is the downloaded clip.
source_kind=default
source_text=
backend=auto
device=

# Created in `start`, removed in `clean_up`.
work=
daemon=
reader=

usage() {
    cat <<'END'
Usage: scripts/demo.sh [options]

Installs what is missing, builds Foveate, starts the daemon on a video, reads its tokens in a second process,
and leaves pictures of what it saw.

  --seconds N        how long to read tokens (10)
  --out DIR          where the pictures and the log go (./demo-out)

  Instead of the clip that is fetched once into ~/.cache/foveate (people, seen by a fixed camera):
  --clip FILE        a video file, played over and over
  --camera DEVICE    a camera, such as /dev/video0
  --uri URI          a network camera, rtsp://, rtsps://, http:// or https://
  --test-pattern     GStreamer's test pattern

  --backend NAME     auto, cpu or vulkan (auto)
  --device NAME      part of the name of the Vulkan device, such as llvmpipe
  --yes              install missing packages without asking
  --help             this
END
}

read_option() {
    case "$1" in
    --seconds)
        [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || usage_error "--seconds $2: expected a whole number from 1"
        seconds=$2
        ;;
    --out) out=$2 ;;
    --clip)
        [[ -f $2 && -r $2 ]] || usage_error "--clip $2: no such file, or not readable"
        choose_source file "$(realpath "$2")"
        ;;
    --camera)
        [[ $2 == /dev/* ]] || usage_error "--camera $2: expected a device such as /dev/video0"
        choose_source live "$2"
        ;;
    --uri)
        [[ $2 =~ ^(rtsps?|https?):// ]] || usage_error '--uri: expected rtsp://..., rtsps://..., http://... or https://...'
        choose_source live "$2"
        ;;
    --backend)
        [[ $2 =~ ^(auto|cpu|vulkan)$ ]] || usage_error "--backend $2: expected auto, cpu or vulkan"
        backend=$2
        ;;
    --test-pattern) choose_source test test ;;
    --device) device=$2 ;;
    esac
}

# Checks combinations of options.
check_arguments() {
    if [ -n "$device" ] && [ "$backend" = cpu ]; then
        usage_error '--device names a Vulkan device and has no effect with --backend cpu: remove one of them'
    fi
}

choose_source() {
    if [ "$source_kind" != default ]; then
        usage_error 'only one of --clip, --camera, --uri and --test-pattern'
    fi
    source_kind=$1
    source_text=$2
}

# Chooses the source if none was given.
ensure_source() {
    if [ "$source_kind" != default ]; then
        return
    fi
    if ensure_clips "$CLIP_NAME"; then
        source_kind='file'
        source_text=$(clip_cache)/$CLIP_NAME
    else
        say 'Using the test pattern instead.'
        source_kind='test'
        source_text='test'
    fi
}

build() {
    say 'Building a release; the first time takes minutes'
    # Without what the demo does not need: the live page, recordings, decoders of pictures, and files of NumPy.
    build_release --no-default-features --features gst,vulkan
    bin=$target/release
}

foveate() {
    "$bin/foveate" --socket "$work/foveate.sock" "$@"
}

write_config() {
    cat <<END
[daemon]
socket = $(toml_string "$work/foveate.sock")

[[stream]]
name = "${VIEW%/*}"
source = $(toml_string "$source_text")
loop = $([ "$source_kind" = file ] && printf true || printf false)
backend = "$backend"
${device:+device = $(toml_string "$device")}

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
    # This demo's own daemon, not one that is already running.
    unset FOVEATE_SOCKET
    mkdir -p "$out"
    work=$(mktemp -d)
    write_config >"$work/demo.toml"
    say 'Starting foveated'
    "$bin/foveated" --config "$work/demo.toml" >"$out/foveated.log" 2>&1 &
    daemon=$!
    # Not the function `foveate`, here and below, so that $! is the program's process.
    "$bin/foveate" --socket "$work/foveate.sock" wait "$VIEW" --timeout "$START_LIMIT_SECONDS" >/dev/null 2>&1 &
    reader=$!
    # Until the first of both ends.
    wait -n "$daemon" "$reader" || true
    is_running "$daemon" || daemon_failed 'foveated ended before its first token frame'
    wait "$reader" || daemon_failed "no token frame within $START_LIMIT_SECONDS s"
}

is_running() {
    kill -0 "$1" 2>/dev/null
}

daemon_failed() {
    tail -n 20 "$out/foveated.log" >&2
    fail "$1; the log is $out/foveated.log"
}

# Reads tokens in a separate process, and takes pictures halfway through.
read_tokens() {
    say "Reading tokens of $VIEW for $seconds s"
    "$bin/foveate" --socket "$work/foveate.sock" watch "$VIEW" --json --seconds "$seconds" \
        >"$out/tokens.jsonl" 2>"$work/watch.log" &
    reader=$!
    sleep $(((seconds + 1) / 2))
    take_pictures
    if ! wait "$reader"; then
        cat "$work/watch.log" >&2
        daemon_failed 'the reader failed'
    fi
    reader=
}

take_pictures() {
    if ! foveate snap "$VIEW" --out "$out" >"$work/snap.log" 2>&1; then
        cat "$work/snap.log" >&2
        daemon_failed 'foveate snap failed'
    fi
}

# Stops the daemon, and kills it after a timeout.
stop() {
    local deadline=$((SECONDS + STOP_LIMIT_SECONDS))
    kill -TERM "$daemon" 2>/dev/null || true
    while is_running "$daemon"; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            kill -KILL "$daemon"
            fail "foveated did not end within $STOP_LIMIT_SECONDS s of SIGTERM; the log is $out/foveated.log"
        fi
        sleep 0.1
    done
    wait "$daemon" || fail "foveated ended with $?; the log is $out/foveated.log"
    daemon=
}

# What was read, from the last line of `foveate watch`, and where it is.
summarise() {
    say ''
    cat "$work/list.txt"
    say ''
    tail -n 1 "$work/watch.log"
    say "pictures        $(find "$out" -maxdepth 1 -name '*.png' | sort | tr '\n' ' ')"
    say "every frame     $out/tokens.jsonl"
    say "the log         $out/foveated.log"
}

# In every case nothing keeps running, and only $out remains.
clean_up() {
    local process
    for process in $reader $daemon; do
        kill -KILL "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    if [ -n "$work" ]; then
        rm -rf "$work"
    fi
}

main() {
    read_arguments "$@"
    check_arguments
    ensure_rust
    ensure_packages build_packages run_packages
    ensure_source
    build
    trap clean_up EXIT
    trap 'exit 130' INT TERM
    start
    read_tokens
    foveate ls >"$work/list.txt"
    stop
    summarise
}

main "$@"
