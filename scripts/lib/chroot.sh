#!/bin/sh
# Runs a program in another root, where some folders are where they are here: chroot.sh ROOT FOLDER FOLDER PROGRAM ARGUMENT...
set -eu

if [ "${1:-}" = --inside ]; then
    shift
    root=$1
    mount -t tmpfs none "$root/tmp"
    mount -t tmpfs none "$root/run"
    for folder in "$2" "$3"; do
        mkdir -p "$root$folder"
        mount --bind "$folder" "$root$folder"
    done
    mount -t proc none "$root/proc"
    mount --rbind /dev "$root/dev"
    folder=$PWD
    shift 3
    # shellcheck disable=SC2016 # For the shell inside.
    exec chroot "$root" /bin/sh -c 'cd "$0" && exec "$@"' "$folder" "$@"
fi
exec unshare --mount "$0" --inside "$@"
