#!/usr/bin/env bash
# The laws on ARM, without an ARM machine: cross built for aarch64, and run by qemu-user.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/say.sh
. "$root/scripts/lib/say.sh"
# shellcheck source-path=SCRIPTDIR source=lib/options.sh
. "$root/scripts/lib/options.sh"
# shellcheck source-path=SCRIPTDIR source=lib/setup.sh
. "$root/scripts/lib/setup.sh"

readonly TRIPLE=aarch64-unknown-linux-gnu
# Of the cross compiler's C library.
readonly LIBRARIES=/usr/aarch64-linux-gnu
# As scripts/bench/kernels.rs and attention.rs name them, and what their instructions are divided by.
readonly KERNELS='compare|pixel
convert|pixel
ingest|pixel
features|pixel
sample-0|texel
sample-1|texel
sample-boxes|texel
halves|number
attention|query-and-key'

target=${CARGO_TARGET_DIR:-$root/target}/arm
part=laws

usage() {
    cat <<'END'
Usage: scripts/arm.sh [--short | --count] [--yes]

Cross builds Foveate for 64-bit ARM, in target/arm, and runs its laws under qemu-user: those of the vector layer, of core and
engine on the CPU, of attention, the thread pool and the ring. qemu-user on x86-64 reorders no memory accesses: of their order it
shows nothing. That is for loom (scripts/test.sh).

  --short   only the laws of the vector layers of engine and attention, two minutes when nothing was built before
  --count   instead, prints how many instructions each kernel executes, plain and with NEON; these are no times
  --yes     install missing packages without asking
  --help    this

Without Rust's library for ARM (rustup target add aarch64-unknown-linux-gnu) it says that nothing was checked, and ends with 0.
END
}

read_flag() { part=${1#--}; }

arm_packages() {
    cat <<'END'
gcc||links Rust programs
libc6-dev||links Rust programs
gcc-aarch64-linux-gnu|aarch64-linux-gnu-gcc|links Rust programs for ARM
libc6-dev-arm64-cross||the C library of these
qemu-user|qemu-aarch64|runs them, and counts their instructions
END
}

# Whether Rust can build for ARM, after an attempt to make it so.
has_target() {
    [ -d "$(rustc --print target-libdir --target "$TRIPLE")" ] && return
    command -v rustup >/dev/null || return
    with_progress "Installing Rust's library for ARM" rustup target add "$TRIPLE"
}

# Cargo, for ARM: arm_cargo ARGUMENT...
arm_cargo() {
    CARGO_TARGET_DIR=$target CARGO_BUILD_TARGET=$TRIPLE \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L $LIBRARIES" \
        cargo "$@"
}

# One command for all packages, so that Cargo builds what they depend on once.
check_vectors() {
    arm_cargo test --locked --package foveate-attention --package foveate-engine \
        --test hierarchical_attention --test simd_laws
}

# Of the ring, not the laws between processes: the kernel cannot run the programs that they begin. Nor the one that has to hold
# within five seconds.
check_laws() {
    arm_cargo test --locked --package foveate-attention --package foveate-engine --package foveate-ring \
        --test hierarchical_attention --test simd_laws --test pool_order --test ring_order || return
    warn 'NOT RUN ON ARM: the laws of the ring between processes (ring_processes), and that of stolen wakes.'
    arm_cargo test --locked --package foveate-ring --test ring -- --skip ring_processes \
        --skip a_reader_whose_wakes_are_stolen || return
    arm_cargo test --locked --no-default-features --test laws --test engine
}

# Prints a table.
count_instructions() {
    local folder kernel unit plain neon
    folder=$(mktemp -d)
    # shellcheck disable=SC2064 # The folder of now.
    trap "rm -rf '$folder'" EXIT
    {
        arm_cargo build --release --locked --package foveate-engine --package foveate-attention --examples || return
        cc -shared -fPIC -O2 -o "$folder/plugin.so" "$root/scripts/bench/instructions.c" || return
    } >&2
    say '| Kernel | Plain | NEON | of plain | for each |'
    say '| --- | ---: | ---: | ---: | --- |'
    while IFS='|' read -r kernel unit; do
        plain=$(count_kernel "$folder" "$kernel" plain) || return
        neon=$(count_kernel "$folder" "$kernel" neon) || return
        awk -v row="$kernel $plain $neon $unit" 'BEGIN {
            split(row, part, " ")
            printf "| %s | %.2f | %.2f | %.0f %% | %s |\n", part[1], part[2], part[3], 100 * part[3] / part[2], part[4]
        }'
    done <<<"$KERNELS"
}

# Instructions for each pixel, texel, number or pair. What a program does beside the kernel is the same each time, so only the
# difference of two runs counts: count_kernel FOLDER KERNEL INSTRUCTIONS
count_kernel() {
    local few many share
    run_kernel "$@" 2 >/dev/null || return
    few=$(cat "$1/count")
    share=$(run_kernel "$@" 22) || return
    many=$(cat "$1/count")
    awk -v more=$((many - few)) -v share="$share" 'BEGIN { print more / 20 / share }'
}

# Leaves the number of instructions in FOLDER/count: run_kernel FOLDER KERNEL INSTRUCTIONS TIMES
run_kernel() {
    local program=kernels
    [ "$2" = attention ] && program=attention
    FOVEATE_INSTRUCTIONS=$1/count qemu-aarch64 -L "$LIBRARIES" -plugin "$1/plugin.so" \
        "$target/$TRIPLE/release/examples/$program" "$2" "$3" "$4"
}

main() {
    read_arguments '--short --count' '' "$@"
    cd "$root"
    ensure_rust "$root"
    ensure_packages arm_packages >&2
    if ! has_target >&2; then
        warn "NOTHING IS CHECKED ON ARM: Rust's library for it is missing (rustup target add $TRIPLE)."
        return
    fi
    case "$part" in
    laws) check_laws || fail 'a law does not hold on ARM; see above' ;;
    short) check_vectors || fail 'a law of the vector layers does not hold on ARM; see above' ;;
    count) count_instructions || fail 'nothing was counted; see above' ;;
    esac
}

main "$@"
