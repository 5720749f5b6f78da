# shellcheck shell=bash
# Summary of the demo. Needs say.sh.

# Prints figures and file names, and fails if no frame was read: summarise OUT LIST
summarise() {
    local out=$1 list=$2
    if [ ! -s "$out/tokens.jsonl" ]; then
        fail "no token frame was read; the log is $out/foveated.log"
    fi
    say ''
    cat "$list"
    say ''
    frame_figures "$out/tokens.jsonl"
    say "pictures        $(pictures "$out")"
    say "every frame     $out/tokens.jsonl"
    say "the log         $out/foveated.log"
}

pictures() {
    find "$1" -maxdepth 1 -name '*.png' | sort | tr '\n' ' '
}

# Figures from the JSON lines of `foveate watch`. An age is the time from a frame's capture to the read of its tokens.
frame_figures() {
    number_of publish_ns "$1" | awk '
        NR == 1 { first = $1 }
        { last = $1 }
        END {
            printf "token frames    %d read by a second process", NR
            if (first < last) printf ", %.1f a second", (NR - 1) / ((last - first) / 1e9)
            printf "\n"
        }'
    number_of age_ns "$1" | sort -n | awk '
        { age[NR] = $1 / 1e6 }
        END {
            if (NR == 0) exit
            printf "age             %.1f ms median, %.1f ms p99\n", age[int((NR + 1) / 2)], age[int(NR * 0.99 + 0.5)]
        }'
    number_of token_count "$1" | sort -n | awk '
        { tokens[NR] = $1 }
        END { if (NR > 0) printf "tokens          %d a frame (median)\n", tokens[int((NR + 1) / 2)] }'
}

# The whole number behind a key, one a line: number_of KEY FILE
number_of() {
    sed -n "s/.*\"$1\": *\\(-\\{0,1\\}[0-9]\\{1,\\}\\).*/\\1/p" "$2"
}
