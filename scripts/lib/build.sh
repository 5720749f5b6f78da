# shellcheck shell=bash
# Builds programs, and shows how far that is. Needs say.sh.

# Builds a release of the programs of the repository ROOT: build_release ROOT [OPTION OF CARGO]...
build_release() {
    local root=$1 total
    shift
    with_progress 'Downloading crates' cargo fetch --locked --manifest-path "$root/Cargo.toml" \
        --target "$(rustc --version --verbose | sed -n 's/^host: //p')" || return
    total=$(count_crates "$root" "$@") || return
    say "Building $total crates as a release; the first time takes minutes"
    # Errors and warnings go to standard error, and artifacts, which are counted, to standard output.
    cargo build --release --locked --manifest-path "$root/Cargo.toml" --quiet \
        --message-format json-render-diagnostics "$@" | show_crates "$total"
}

# Crates that a build needs, of this machine.
count_crates() {
    local root=$1
    shift
    cargo tree --locked --manifest-path "$root/Cargo.toml" --package foveate-programs --edges normal,build \
        --prefix none --no-dedupe --format '{p}' "$@" | sort -u | wc -l
}

# Reads the artifacts of a build of so many crates: which one was built, how far that is, and, once a tenth is built, how long the rest
# takes if it goes on like that. On a terminal it rewrites one line; otherwise it prints one every ten seconds.
show_crates() {
    local is_terminal=0
    [ ! -t 1 ] || is_terminal=1
    awk -v total="$1" -v terminal="$is_terminal" '
        function now(  line) { "date +%s" | getline line; close("date +%s"); return line }
        function left(seconds) {
            return seconds < 60 ? "less than a minute" : sprintf("about %d min", (seconds + 59) / 60)
        }
        BEGIN { shown = now() }
        !/"reason":"compiler-artifact"/ || /"kind":\["custom-build"\]/ { next }
        match($0, /"package_id":"[^"]*"/) {
            id = substr($0, RSTART + 14, RLENGTH - 15)
            if (id in done) next
            done[id]
            count++
            # Nothing was to be done for it.
            if (/"fresh":true/) { fresh++; next }
            match($0, /"target":\{[^}]*"name":"[^"]*"/)
            name = substr($0, RSTART, RLENGTH); sub(/.*"name":"/, "", name); sub(/"$/, "", name)
            time = now()
            # The time before the first crate says nothing of the others.
            if (count - fresh == 1) started = time
            if (!terminal && time - shown < 10) next
            shown = time
            text = sprintf("  %d of %d: %s", count, total, name)
            built = count - fresh - 1
            if (10 <= time - started && (total - fresh) / 10 <= built && 0 < built)
                text = text ", " left((time - started) * (total - count) / built) " left"
            printf (terminal ? "\r\033[K%s" : "%s\n"), text
            fflush()
        }
        END { if (terminal && fresh < count) printf "\r\033[K" }'
}
