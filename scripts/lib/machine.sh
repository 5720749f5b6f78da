#!/bin/sh
# Runs a program as the first process of a machine of its own: namespaces of processes, mounts, control groups, IPC and the host's
# name over a folder that holds a system. Needs root.
#
#     machine.sh FOLDER [--bind SOURCE:TARGET[:ro]]... -- PROGRAM ARGUMENT...
#     machine.sh --forget FOLDER                  # ends what is left of it
#
# The network is the host's. The kernel's settings are read-only, because they are the host's, too.
set -eu

# Over whatever is there: two mounts of one kind cannot lie directly on each other.
mount_groups() {
    mount -t tmpfs none "$1"
    mount -t cgroup2 none "$1"
}

group_of() {
    echo "/sys/fs/cgroup/foveate-machine-$(echo "$1" | cksum | cut -d ' ' -f 1)"
}

case "$1" in
--forget)
    exec unshare --mount sh "$0" --remove "$2"
    ;;
--remove)
    mount_groups /sys/fs/cgroup
    group=$(group_of "$2")
    # Whoever changed its user outlives the process that started the machine. Those who were killed leave in their own time.
    echo 1 2>/dev/null >"$group/cgroup.kill" || true
    for _ in $(seq 100); do
        [ -d "$group" ] || break
        find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true
        sleep 0.05
    done
    ;;
--enter)
    shift
    mount_groups /sys/fs/cgroup
    group=$(group_of "$1")
    mkdir -p "$group"
    echo $$ >"$group/cgroup.procs"
    exec unshare --pid --mount --cgroup --ipc --uts --fork --kill-child sh "$0" --start "$@"
    ;;
--start)
    folder=$2
    shift 2
    hostname machine
    mount --bind "$folder" "$folder"
    cd "$folder"
    mount -t proc proc proc
    mount --bind proc/sys proc/sys
    mount -o remount,bind,ro proc/sys
    mount -t sysfs -o ro sysfs sys
    mount_groups sys/fs/cgroup
    mount -t tmpfs -o mode=755 none run
    mount -t tmpfs -o mode=1777 none tmp
    mount -t tmpfs -o mode=755 none dev
    for device in null zero full random urandom tty; do
        touch "dev/$device"
        mount --bind "/dev/$device" "dev/$device"
    done
    mkdir dev/pts dev/shm
    mount -t devpts -o newinstance,ptmxmode=666 none dev/pts
    ln -s pts/ptmx dev/ptmx
    ln -s /proc/self/fd dev/fd
    mount -t tmpfs -o mode=1777 none dev/shm
    while [ "$1" = --bind ]; do
        source=${2%%:*} target=${2#*:} mode=rw
        case "$target" in
        *:ro) target=${target%:ro} mode=ro ;;
        esac
        mkdir -p "./$target"
        mount --bind "$source" "./$target"
        mount -o "remount,bind,$mode" "./$target"
        shift 2
    done
    shift
    mkdir -p .outside
    pivot_root . .outside
    umount -l .outside
    rmdir .outside
    exec env -i container=unshare PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"
    ;;
*)
    exec unshare --mount sh "$0" --enter "$@"
    ;;
esac
