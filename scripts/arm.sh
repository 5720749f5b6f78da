#!/usr/bin/env bash
# The laws on ARM, without an ARM machine: cross built for aarch64, and run by qemu-user.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

readonly TRIPLE=aarch64-unknown-linux-gnu
# Of the cross compiler's C library. Its loader must not find that of a Debian for ARM, which packages may have installed as well.
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

# What the daemon and its readers need of a Debian for ARM.
readonly DEBIAN_PACKAGES=gcc,libc6-dev,libgstreamer1.0-dev,libgstreamer-plugins-base1.0-dev,gstreamer1.0-plugins-base,gstreamer1.0-plugins-good,gstreamer1.0-plugins-bad,gstreamer1.0-libav,python3,python3-numpy

target=$target/arm
debian=$(clip_cache)/debian-12-arm64
part=laws

usage() {
    cat <<'END'
Usage: scripts/arm.sh [--short | --readers | --count] [--yes]

Cross builds Foveate for 64-bit ARM, in target/arm, and runs its laws under qemu-user: those of the vector layer, of core and
engine on the CPU, of attention, the thread pool and the ring; and in a Debian for ARM the daemon, which plays a clip to readers in
Rust, C and Python. qemu-user on x86-64 reorders no memory accesses: of their order it shows nothing. That is for loom
(scripts/test.sh). All of it takes one to two hours on two processors.

  --short    only the laws of the vector layer and of attention, two minutes when nothing was built before
  --readers  only the daemon and its readers, and the ring between processes; needs root, a gigabyte in ~/.cache/foveate, and
             clips unless FOVEATE_WITHOUT_CLIPS=1
  --count    instead, prints how many instructions each kernel executes, plain and with NEON, instead of times
  --yes      install missing packages without asking
  --help     this

Without Rust's library for ARM (rustup target add aarch64-unknown-linux-gnu) it says that nothing was checked, and ends with 0.
END
}

read_option() { part=${1#--}; }

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
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L $LIBRARIES -E LD_LIBRARY_PATH=$LIBRARIES/lib" \
        cargo "$@"
}

# One command for all packages, so that Cargo builds what they depend on once.
check_vectors() {
    arm_cargo test --locked --package foveate-attention --package foveate-simd \
        --test hierarchical_attention --test simd_laws
}

# Debugging code takes hours in the emulator. Of the ring here not the laws between processes, which need a kernel that runs programs
# for ARM, nor the one that has to hold within five seconds.
check_laws() {
    export CARGO_PROFILE_TEST_OPT_LEVEL=3
    arm_cargo test --locked --package foveate-attention --package foveate-engine --package foveate-ring --package foveate-simd \
        --test hierarchical_attention --test simd_laws --test pool_order --test ring_order || return
    arm_cargo test --locked --package foveate-ring --test ring -- --skip ring_processes \
        --skip a_reader_whose_wakes_are_stolen || return
    arm_cargo test --locked --no-default-features --test laws --test engine
}

# A Debian for ARM, kept between runs: programs are linked against its libraries, and run in it.
ensure_debian() {
    [ -d "$debian" ] && return
    rm -rf --one-file-system "$debian.part"
    mkdir -p "${debian%/*}"
    with_progress 'Making a Debian 12 for ARM, once' mmdebstrap --skip=check/qemu --variant=minbase --architectures=arm64 \
        --include="$DEBIAN_PACKAGES" bookworm "$debian.part" || return
    mv "$debian.part" "$debian"
}

# Has the kernel run programs for ARM while this script runs, unless it does so anyway.
run_programs() {
    local register=/proc/sys/fs/binfmt_misc
    grep -qs '^enabled' "$register/qemu-aarch64" && return
    { [ -e "$register/register" ] || mount -t binfmt_misc none "$register"; } 2>/dev/null || return
    cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$register/register" || return
    trap 'echo -1 >/proc/sys/fs/binfmt_misc/qemu-aarch64' EXIT
}

# Links against the Debian for ARM: a linker for Cargo.
write_linker() {
    mkdir -p "$target"
    cat >"$target/debian-gcc" <<END
#!/bin/sh
exec aarch64-linux-gnu-gcc --sysroot='$debian' -Wl,-rpath-link,'$debian/usr/lib/aarch64-linux-gnu' "\$@"
END
    chmod +x "$target/debian-gcc"
}

# Cargo, for the Debian for ARM; programs run in it: debian_cargo ARGUMENT...
debian_cargo() {
    CARGO_TARGET_DIR=$target/debian CARGO_BUILD_TARGET=$TRIPLE \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$target/debian-gcc \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$root/scripts/lib/chroot.sh $debian $root $(clip_cache)" \
        PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_SYSROOT_DIR=$debian \
        PKG_CONFIG_LIBDIR=$debian/usr/lib/aarch64-linux-gnu/pkgconfig:$debian/usr/share/pkgconfig \
        cargo "$@"
}

# The same tests as on any machine.
check_readers() {
    if [ "$(id -u)" -ne 0 ] || ! run_programs; then
        left_out 'daemon and readers on ARM' 'no root, or a kernel that runs no programs for ARM (binfmt_misc)'
        return
    fi
    [ -n "${FOVEATE_WITHOUT_CLIPS:-}" ] || ensure_clips vtest.avi || return
    ensure_debian || return
    write_linker
    export CARGO_PROFILE_TEST_OPT_LEVEL=1 CARGO_PROFILE_DEV_OPT_LEVEL=1 FOVEATE_WITHOUT_VULKAN=1
    left_out 'frames of 420 kB in six processes on ARM' 'emulated readers hardly ever get them whole'
    debian_cargo test --locked --package foveate-ring --test ring -- ring_processes --skip large_frames_are_whole || return
    debian_cargo test --locked --test readers -- conformance
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
    FOVEATE_INSTRUCTIONS=$1/count qemu-aarch64 -L "$LIBRARIES" -E "LD_LIBRARY_PATH=$LIBRARIES/lib" -plugin "$1/plugin.so" \
        "$target/$TRIPLE/release/examples/$program" "$2" "$3" "$4"
}

main() {
    read_arguments "$@"
    cd "$root"
    ensure_rust
    ensure_packages build_packages arm_packages >&2
    if ! has_target >&2; then
        left_out ARM "no library of Rust for it (rustup target add $TRIPLE)"
        return
    fi
    case "$part" in
    laws)
        ensure_packages debian_packages
        { check_laws && check_readers; } || fail 'a law does not hold on ARM; see above'
        ;;
    readers)
        ensure_packages debian_packages
        check_readers || fail 'the readers do not agree on ARM; see above'
        ;;
    short) check_vectors || fail 'a law of the vector layer does not hold on ARM; see above' ;;
    count) count_instructions || fail 'nothing was counted; see above' ;;
    esac
}

main "$@"
