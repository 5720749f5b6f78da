#!/usr/bin/env bash
# The laws on ARM, without an ARM machine: cross built for aarch64, and run by qemu-user.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

readonly TRIPLE=aarch64-unknown-linux-gnu
# Of the cross compiler's C library. Its loader must not find that of a Debian for ARM, which packages may have installed as well.
readonly LIBRARIES=/usr/aarch64-linux-gnu
# What the daemon and its readers need of a Debian for ARM.
readonly DEBIAN_PACKAGES=gcc,libc6-dev,libgstreamer1.0-dev,libgstreamer-plugins-base1.0-dev,gstreamer1.0-plugins-base,gstreamer1.0-plugins-good,gstreamer1.0-plugins-bad,gstreamer1.0-libav,python3,python3-numpy

target=$target/arm
debian=$(clip_cache)/debian-12-arm64
is_short=false

usage() {
    cat <<'END'
Usage: scripts/arm.sh [--short] [--yes]

Cross builds Foveate for 64-bit ARM, in target/arm, and runs its laws under qemu-user: those of the vector layer, of core and
engine on the CPU, of attention, the thread pool and the ring; and in a Debian for ARM the daemon, which plays a clip to readers in
Rust, C and Python. qemu-user on x86-64 reorders no memory accesses: of their order it shows nothing. That is for loom
(scripts/test.sh). All of it takes one to two hours on two processors. The daemon needs root, a gigabyte in ~/.cache/foveate, and
clips unless FOVEATE_WITHOUT_CLIPS=1.

  --short  only the laws of the vector layer and of attention, two minutes when nothing was built before
  --yes    install missing packages without asking
  --help   this

Without Rust's library for ARM (rustup target add aarch64-unknown-linux-gnu) it says that nothing was checked, and ends with 0.
END
}

read_option() { is_short=true; }

# Whether Rust can build for ARM, after an attempt to make it so.
has_target() {
    [ -d "$(rustc --print target-libdir --target "$TRIPLE")" ] && return
    type -P rustup >/dev/null || return
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

main() {
    read_arguments "$@"
    cd "$root"
    ensure_rust
    ensure_packages build arm >&2
    if ! has_target >&2; then
        left_out ARM "no library of Rust for it (rustup target add $TRIPLE)"
        return
    fi
    if [ "$is_short" = true ]; then
        check_vectors || fail 'a law of the vector layer does not hold on ARM; see above'
        return
    fi
    ensure_packages debian
    { check_laws && check_readers; } || fail 'a law does not hold on ARM; see above'
}

main "$@"
