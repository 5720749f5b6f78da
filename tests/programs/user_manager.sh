# A user manager of systemd in namespaces of its own: of processes, mounts and control groups. The folder $2 is its home, and
# holds its units, and in journal/ the sockets that stand in for the journal. $1 says what to do: `start`, and `forget` once it
# was killed.
set -eu

# Of this folder's manager alone, because two would take each other's services for their own.
group=/sys/fs/cgroup/foveate-test-$(basename "$2")

# Over whatever is there: two mounts of one kind cannot lie directly on each other.
mount_groups() {
    mount -t tmpfs none /sys/fs/cgroup
    mount -t cgroup2 none /sys/fs/cgroup
}

case "$1" in
start)
    exec unshare --mount sh "$0" enter "$2"
    ;;
enter)
    mount_groups
    mkdir "$group"
    echo $$ > "$group/cgroup.procs"
    exec unshare --pid --mount --cgroup --fork --kill-child --mount-proc sh "$0" run "$2"
    ;;
run)
    mount -t tmpfs none /run
    mkdir -p /run/systemd/system /run/systemd/journal
    mount --bind "$2/journal" /run/systemd/journal
    mount_groups
    export HOME="$2" XDG_RUNTIME_DIR="$2/run" XDG_CONFIG_HOME="$2/config" XDG_CACHE_HOME="$2/cache" XDG_STATE_HOME="$2/state"
    export SYSTEMD_UNIT_PATH="$2/units"
    # As process 1 of its namespace it would not be a user manager.
    /lib/systemd/systemd --user --log-target=console --log-level=info --show-status=no &
    wait
    ;;
forget)
    exec unshare --mount sh "$0" remove "$2"
    ;;
remove)
    mount_groups
    # Those who were killed leave in their own time.
    for _ in $(seq 100); do
        find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true
        [ -d "$group" ] || break
        sleep 0.05
    done
    ;;
esac
