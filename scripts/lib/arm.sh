# shellcheck shell=bash
# A Debian for 64-bit ARM in a folder, on a machine that is none: programs are linked with its libraries, and run in it.

# What the daemon and its readers need of it, and what says which packages they need.
readonly ARM_PACKAGES=gcc,dpkg-dev,libc6-dev,libgstreamer1.0-dev,libgstreamer-plugins-base1.0-dev,gstreamer1.0-plugins-base,gstreamer1.0-plugins-good,gstreamer1.0-plugins-bad,gstreamer1.0-libav,python3,python3-numpy

# Whether this script had the kernel run programs for ARM.
runs_arm_programs=false

# Where it is kept between runs.
arm_debian() {
    printf '%s/debian-12-arm64' "$(clip_cache)"
}

# Makes it, unless it is there. Needs root.
ensure_arm_debian() {
    local debian
    debian=$(arm_debian)
    [ -e "$debian/usr/bin/dpkg-shlibdeps" ] && return
    if [ "$(id -u)" -ne 0 ] || ! run_arm_programs; then
        warn 'A Debian for ARM needs root, and a kernel that runs programs for ARM (binfmt_misc).'
        return 1
    fi
    rm -rf --one-file-system "$debian" "$debian.part"
    mkdir -p "${debian%/*}"
    with_progress 'Making a Debian 12 for ARM, once' mmdebstrap --skip=check/qemu --variant=minbase --architectures=arm64 \
        --include="$ARM_PACKAGES" bookworm "$debian.part" || return
    mv "$debian.part" "$debian"
}

# Has the kernel run programs for ARM, unless it does so anyway. The script calls `forget_arm_programs` at its end.
run_arm_programs() {
    local register=/proc/sys/fs/binfmt_misc
    grep -qs '^enabled' "$register/qemu-aarch64" && return
    { [ -e "$register/register" ] || mount -t binfmt_misc none "$register"; } 2>/dev/null || return
    cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$register/register" || return
    runs_arm_programs=true
}

forget_arm_programs() {
    [ "$runs_arm_programs" = false ] || echo -1 >/proc/sys/fs/binfmt_misc/qemu-aarch64
}

# Puts what runs a command in it, in a folder that is where it is here, into `in_arm_debian`: describe_arm_debian FOLDER
describe_arm_debian() {
    # shellcheck disable=SC2034 # Scripts read it.
    in_arm_debian=(env --chdir="$1" "$root/scripts/lib/chroot.sh" "$(arm_debian)" "$1" "$1")
}

# Runs Cargo, so that it links with the libraries of it: for_arm_debian COMMAND...
for_arm_debian() {
    local debian linker=$target/debian-gcc
    debian=$(arm_debian)
    mkdir -p "$target"
    cat >"$linker" <<END
#!/bin/sh
exec aarch64-linux-gnu-gcc --sysroot='$debian' -Wl,-rpath-link,'$debian/usr/lib/aarch64-linux-gnu' "\$@"
END
    chmod +x "$linker"
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$linker \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$root/scripts/lib/chroot.sh $debian $root $(clip_cache)" \
        PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_SYSROOT_DIR=$debian \
        PKG_CONFIG_LIBDIR=$debian/usr/lib/aarch64-linux-gnu/pkgconfig:$debian/usr/share/pkgconfig \
        "$@"
}
