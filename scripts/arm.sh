#!/usr/bin/env bash
# The laws on ARM, without an ARM machine: cross built for aarch64, and run by qemu-user.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/arm.sh
. "$root/scripts/lib/arm.sh"

readonly TRIPLE=aarch64-unknown-linux-gnu
# Of the cross compiler's C library. Its loader must not find that of a Debian for ARM, which packages may have installed as well.
readonly LIBRARIES=/usr/aarch64-linux-gnu

target=$target/arm
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
    arm_cargo test --locked --package foveate-simd --test simd_laws || return
    arm_cargo test --locked --manifest-path python/attention/Cargo.toml --package foveate-attention --test laws
}

# Debugging code takes hours in the emulator. Of the ring here not the laws between processes, which need a kernel that runs programs
# for ARM, nor the one that has to hold within five seconds.
check_laws() {
    export CARGO_PROFILE_TEST_OPT_LEVEL=3
    arm_cargo test --locked --manifest-path python/attention/Cargo.toml --package foveate-attention --test laws || return
    arm_cargo test --locked --package foveate-engine --package foveate-ring --package foveate-simd \
        --test simd_laws --test pool_order --test ring_order || return
    arm_cargo test --locked --package foveate-ring --test ring -- --skip ring_processes \
        --skip a_reader_whose_wakes_are_stolen || return
    arm_cargo test --locked --no-default-features --test laws --test engine
}

# Cargo, for the Debian for ARM; programs run in it: debian_cargo ARGUMENT...
debian_cargo() {
    CARGO_TARGET_DIR=$target/debian CARGO_BUILD_TARGET=$TRIPLE for_arm_debian cargo "$@"
}

# The same tests as on any machine.
check_readers() {
    if [ "$(id -u)" -ne 0 ] || ! run_arm_programs; then
        left_out 'daemon and readers on ARM' 'no root, or a kernel that runs no programs for ARM (binfmt_misc)'
        return
    fi
    [ -n "${FOVEATE_WITHOUT_CLIPS:-}" ] || ensure_clips vtest.avi || return
    trap forget_arm_programs EXIT
    ensure_arm_debian || return
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
