# shellcheck shell=bash
# Bare systems in namespaces of their own, to try packages in. A script sets `work` to a folder of its own, `offered` to one that
# each machine has as /packages, and has `clean_up_machines` called at its end.

readonly MACHINE=$root/scripts/lib/machine.sh
readonly SYSTEMS='debian-12 debian-13 ubuntu-24.04'

readonly UBUNTU_KEYRING=http://archive.ubuntu.com/ubuntu/pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb
readonly UBUNTU_KEYRING_CHECKSUM=36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8

# What each new machine is a copy of: one of SYSTEMS.
system=debian-12
work=
offered=
# The processes that were started in the background.
started=()

# Ends the script unless this names a system: check_system NAME
check_system() {
    [[ " $SYSTEMS " == *" $1 "* ]] || usage_error "--system $1: expected one of $SYSTEMS"
}

# Ends what was started, the newest first, and removes what it left.
clean_up_machines() {
    local index folder
    for ((index = ${#started[@]} - 1; index >= 0; index--)); do
        kill -KILL "${started[index]}" 2>/dev/null || true
        wait "${started[index]}" 2>/dev/null || true
    done
    for folder in "$work"/*; do
        [ ! -d "$folder" ] || sh "$MACHINE" --forget "$folder" || true
    done
    rm -rf --one-file-system "$work"
}

# The bare system, kept between runs with the packages that were fetched for it.
ensure_system() {
    local cache from keys= status=0
    cache=$(clip_cache)
    mkdir -p "$cache/$system-packages/partial"
    [ -f "$cache/$system.tar" ] && return
    case "$system" in
    debian-12) from=(bookworm) ;;
    debian-13) from=(trixie) ;;
    ubuntu-24.04)
        keys=$(mktemp --suffix=.gpg)
        if ! fetch_ubuntu_keys "$keys"; then
            rm -f "$keys" "$keys.deb"
            return 1
        fi
        from=(--include=apt '--components=main universe' "--keyring=$keys" noble)
        ;;
    esac
    with_progress "Making a bare $system, once" mmdebstrap --variant=minbase "${from[@]:0:${#from[@]}-1}" "${from[-1]}" \
        "$cache/$system.part.tar" && mv "$cache/$system.part.tar" "$cache/$system.tar" || status=1
    [ -z "$keys" ] || rm "$keys" "$keys.deb"
    return "$status"
}

# Puts the keys of Ubuntu's archive, which Debian 12 has no package of, into a file that apt's own user may read: fetch_ubuntu_keys FILE
fetch_ubuntu_keys() {
    curl --silent --show-error --fail --output "$1.deb" "$UBUNTU_KEYRING" || return
    if ! sha256sum --check --status <<<"$UBUNTU_KEYRING_CHECKSUM  $1.deb"; then
        warn "$UBUNTU_KEYRING is not the expected file: its checksum differs."
        return 1
    fi
    dpkg-deb --fsys-tarfile "$1.deb" | tar --extract --to-stdout ./usr/share/keyrings/ubuntu-archive-keyring.gpg >"$1" || return
    chmod 644 "$1"
}

# A copy of it, with the names of its packages: new_machine FOLDER
new_machine() {
    mkdir "$1"
    tar -xf "$(clip_cache)/$system.tar" -C "$1"
    # As this machine reaches them.
    cp -L /etc/resolv.conf "$1/etc/resolv.conf"
    apt-config dump | grep -i '^Acquire::.*proxy' >"$1/etc/apt/apt.conf.d/99proxy" || true
    in_new "$1" apt-get update
}

# Puts the command line of a new machine into `machine`: describe FOLDER [--bind ...] COMMAND...
describe() {
    machine=(sh "$MACHINE" "$1" --bind "$(clip_cache)/$system-packages:/var/cache/apt/archives" --bind "$offered:/packages:ro")
    shift
    while [ "$1" = --bind ]; do
        machine+=("$1" "$2")
        shift 2
    done
    machine+=(-- "$@")
}

# Runs a command as the first process of a new machine: in_new FOLDER [--bind ...] COMMAND...
in_new() {
    local machine
    describe "$@"
    "${machine[@]}" </dev/null
}

# The same in the background; sets `first` to the process, and `running` to the one that ends with it: start LOG FOLDER [--bind ...] COMMAND...
start() {
    local machine log=$1
    shift
    describe "$@"
    "${machine[@]}" </dev/null >"$log" 2>&1 &
    running=$!
    started+=("$running")
    first=$(first_process "$running") || fail "a machine does not start: $(cat "$log")"
}

# The first process of the machine that a process runs: first_process PID
first_process() {
    local child
    for _ in $(seq 100); do
        child=$(cat "/proc/$1/task/$1/children" 2>/dev/null) || true
        child=${child%% *}
        # Before, it is what machine.sh runs to prepare the machine, and then machine.sh itself.
        if grep -qs '^NSpid:.*[[:space:]]1$' "/proc/${child:-none}/status" && ! grep -qs machine.sh "/proc/$child/cmdline"; then
            echo "$child"
            return
        fi
        sleep 0.1
    done
    return 1
}

# Runs a command in a machine that runs: inside FIRST_PROCESS COMMAND...
inside() {
    local first=$1
    shift
    nsenter --target "$first" --pid --mount --cgroup --ipc --uts env -i LC_ALL=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" </dev/null
}

# Waits for a minute until a command succeeds: await WHAT COMMAND...
await() {
    local what=$1
    shift
    for _ in $(seq 300); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.2
    done
    "$@" || fail "$what: not within a minute"
}

apt_quietly() {
    inside "$1" env DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes --no-install-recommends "${@:2}"
}
