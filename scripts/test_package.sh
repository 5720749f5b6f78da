#!/usr/bin/env bash
# Tries the Debian package and the container on a bare Debian 12, in namespaces.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

readonly MACHINE=$root/scripts/lib/machine.sh

debs=$target/debian
work=
# The processes that were started in the background.
started=()

usage() {
    cat <<'END'
Usage: scripts/test_package.sh [--yes]

Builds the Debian package (scripts/package.sh), and looks for errors in it with lintian. Installs it into a bare Debian 12, boots that with
systemd in namespaces of its own, uses the service, installs it once more, removes and purges it, and compares the files before and
after. Then does what the last stage of Containerfile says, and runs that as its user beside a container that reads. Needs root.
A bare Debian and its packages are kept in ~/.cache/foveate.

  --yes   install missing packages without asking
  --help  this
END
}

step() {
    say "== $1"
}

# Ends what was started, the newest first, and removes what it left.
clean_up() {
    local index
    for ((index = ${#started[@]} - 1; index >= 0; index--)); do
        kill -KILL "${started[index]}" 2>/dev/null || true
        wait "${started[index]}" 2>/dev/null || true
    done
    for folder in "$work"/*; do
        sh "$MACHINE" --forget "$folder" || true
    done
    rm -rf --one-file-system "$work"
}

# A bare Debian, kept between runs.
ensure_debian() {
    local cache
    cache=$(clip_cache)
    mkdir -p "$cache/debian-12-packages/partial"
    [ -f "$cache/debian-12.tar" ] && return
    with_progress 'Making a bare Debian 12, once' mmdebstrap --variant=minbase bookworm "$cache/debian-12.part.tar" || return
    mv "$cache/debian-12.part.tar" "$cache/debian-12.tar"
}

# A copy of it, with its packages' names: new_debian FOLDER
new_debian() {
    mkdir "$1"
    tar -xf "$(clip_cache)/debian-12.tar" -C "$1"
    # As this machine reaches them.
    cp -L /etc/resolv.conf "$1/etc/resolv.conf"
    apt-config dump | grep -i '^Acquire::.*proxy' >"$1/etc/apt/apt.conf.d/99proxy" || true
    in_new "$1" apt-get update
}

# Puts the command line of a new machine into `machine`: describe FOLDER [--bind ...] COMMAND...
describe() {
    machine=(sh "$MACHINE" "$1" --bind "$(clip_cache)/debian-12-packages:/var/cache/apt/archives" --bind "$debs:/packages:ro")
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

# Files with mode and owner and, in /etc, contents. Without what installing any package changes.
list_files() {
    # shellcheck disable=SC2016 # What dpkg expands.
    inside "$1" sh -c 'find / -xdev \( -path /var/cache/apt -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/log \
        -o -path /packages -o -path "/etc/*-" -o -path /var/lib/systemd/timers -o -path /var/cache/ldconfig \
        -o -path /etc/.pwd.lock -o -path "/var/tmp/systemd-private-*" \) -prune -o -path /etc/ld.so.cache -o -printf "%p %M %u:%g %l\n" | sort
        find /etc -xdev -type f ! -name "*-" ! -name ld.so.cache -exec sha256sum {} + | sort -k 2
        dpkg-query --show --showformat "\${Package} \${db:Status-Abbrev}\n"'
}

# Fails if a file or an account of Foveate is there.
expect_no_trace() {
    local found
    found=$(inside "$1" sh -c 'find / -xdev -path /packages -prune -o -path /var/cache/apt -prune -o -iname "*foveate*" -print
        grep -s foveate /etc/passwd /etc/group /etc/shadow /etc/gshadow; dpkg -l foveate 2>/dev/null | grep "^.[^n]" | grep foveate; true')
    [ -z "$found" ] || fail "left behind: $found"
}

is_said_live() {
    inside "$1" systemctl show --property StatusText --value foveated.service | grep -E '^[0-9]+ streams?,( all)? live$'
}

# The service works for its group alone: expect_service FIRST_PROCESS
expect_service() {
    await 'the service is active' inside "$1" systemctl is-active --quiet foveated.service
    inside "$1" systemctl is-enabled --quiet foveated.socket foveated.service || fail 'the units are not enabled'
    inside "$1" foveate wait camera/main || fail 'it publishes nothing'
    inside "$1" foveate health || fail 'it is not healthy'
    inside "$1" foveate ls >"$work/log" || fail 'its streams cannot be listed'
    await 'the status says that it is live' is_said_live "$1"
    inside "$1" setpriv --reuid 65534 --regid 65534 --groups "$(inside "$1" getent group foveate | cut -d : -f 3)" \
        foveate watch camera/main --frames 3 --json >"$work/frames" || fail 'a member of the group reads nothing'
    [ "$(grep -c frame_seq "$work/frames")" -eq 3 ] || fail "expected three frames: $(cat "$work/frames")"
    if inside "$1" setpriv --reuid 65534 --regid 65534 --clear-groups foveate ls 2>/dev/null; then
        fail 'who is not in the group can connect'
    fi
}

try_package() {
    local folder=$work/service running first deb main_process
    deb=/packages/$(basename "$debs"/foveate_*.deb)
    step 'installed into a bare Debian'
    new_debian "$folder" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    in_new "$folder" env DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes --no-install-recommends install "$deb" \
        >"$work/log" 2>&1 || fail "it cannot be installed: $(cat "$work/log")"
    step 'booted'
    start "$work/boot" "$folder" /lib/systemd/systemd --system --show-status=no
    await 'the machine is up' inside "$first" test -S /run/systemd/private
    expect_service "$first"

    step 'purged at once'
    apt_quietly "$first" purge foveate >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    expect_no_trace "$first"
    list_files "$first" >"$work/before"

    step 'installed while it runs'
    apt_quietly "$first" install "$deb" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    expect_service "$first"
    inside "$first" sh -c 'echo "# mine" >>/etc/foveate/foveate.toml
        echo "[[stream]]
name = \"second\"
source = \"test\"" >/etc/foveate/conf.d/second.toml'

    step 'installed once more'
    main_process=$(inside "$first" systemctl show --property MainPID --value foveated.service)
    apt_quietly "$first" install --reinstall "$deb" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    expect_service "$first"
    inside "$first" foveate wait second/main || fail 'the new stream is not there'
    [ "$main_process" != "$(inside "$first" systemctl show --property MainPID --value foveated.service)" ] \
        || fail 'the old program runs on'
    inside "$first" grep -qx '# mine' /etc/foveate/foveate.toml || fail 'the configuration was overwritten'

    step 'removed'
    apt_quietly "$first" remove foveate >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    if inside "$first" systemctl is-active --quiet foveated.service foveated.socket; then
        fail 'the service runs on'
    fi
    if inside "$first" sh -c 'ls /usr/bin/foveate* /run/foveate/foveate.sock' 2>/dev/null; then
        fail 'programs or socket are left'
    fi
    inside "$first" grep -qx '# mine' /etc/foveate/foveate.toml || fail 'the configuration is lost'

    step 'purged'
    apt_quietly "$first" purge foveate >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    expect_no_trace "$first"
    list_files "$first" >"$work/after"
    diff "$work/before" "$work/after" || fail 'the files are not those of before: see above'
    kill -KILL "$running"
    wait "$running" 2>/dev/null || true
}

# The lines of the last stage of Containerfile, each on one line.
last_stage() {
    awk '/^ *#/ { next } { line = line $0 } /\\$/ { sub(/\\$/, "", line); next } { print line; line = "" }' "$root/Containerfile" \
        | awk '/^FROM / { stage = ""; next } NF { stage = stage $0 "\n" } END { printf "%s", stage }'
}

# What the last stage says about one thing: said INSTRUCTION
said() {
    last_stage | sed -n "s/^$1 //p"
}

# The words of a JSON list of strings, one a line.
words() {
    grep -o '"[^"]*"' <<<"$1" | tr -d '"'
}

try_container() {
    local folder=$work/container script user running reader first reading program health
    step 'the last stage of Containerfile'
    new_debian "$folder" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    while read -r script; do
        # The folder of the packages is there.
        script=$(sed -E 's/^(--mount=[^ ]+ +)+//' <<<"$script")
        in_new "$folder" sh -ec "$script" >"$work/log" 2>&1 || fail "$script: $(tail -n 20 "$work/log")"
    done < <(said RUN)

    step 'run as its user'
    user=$(said USER)
    mapfile -t program < <(words "$(said ENTRYPOINT)"; words "$(said CMD)")
    mapfile -t health < <(words "$(said HEALTHCHECK)")
    [ "${#program[@]} ${#health[@]}" = "5 2" ] || fail 'Containerfile reads otherwise'
    mkdir "$work/socket" "$work/nothing"
    chown "$user" "$work/socket"
    chmod 750 "$work/socket"
    reader=(setpriv --reuid 1000 --regid 1000 --groups "${user#*:}")
    start "$work/reader" "$folder" --bind "$work/socket:/run/foveate:ro" sleep infinity
    reading=$first
    start_daemon
    for _ in first restarted; do
        await 'the container is healthy' inside "$first" setpriv --reuid "${user%:*}" --regid "${user#*:}" --clear-groups "${health[@]}"
        [ "$(inside "$first" stat --format %u:%g /proc/1)" = "$user" ] || fail 'it runs as another user'
        inside "$reading" "${reader[@]}" foveate watch camera/main --frames 3 --json >"$work/frames" \
            || fail 'a container with the group and the directory reads nothing'
        [ "$(grep -c frame_seq "$work/frames")" -eq 3 ] || fail "expected three frames: $(cat "$work/frames")"
        if inside "$reading" setpriv --reuid 1000 --regid 1000 --clear-groups foveate ls 2>/dev/null; then
            fail 'a container without the group can connect'
        fi
        # What a container's end is to the daemon; the reader's container stays.
        inside "$first" kill -TERM 1
        wait "$running" || fail "the daemon ended with $?: $(cat "$work/daemon")"
        start_daemon
    done
}

# A container of what Containerfile makes.
start_daemon() {
    start "$work/daemon" "$folder" --bind "$work/socket:/run/foveate" setpriv --reuid "${user%:*}" --regid "${user#*:}" \
        --init-groups --no-new-privs --bounding-set -all env "$(said ENV)" "${program[@]}"
}

main() {
    read_arguments "$@"
    [ "$(id -u)" -eq 0 ] || fail 'a system in a folder needs root'
    ensure_packages machine
    rm -rf "$debs"
    run_script package.sh || fail 'there is no package; see above'
    work=$(mktemp -d)
    trap clean_up EXIT
    step 'lintian'
    # This package is for nobody else.
    lintian --allow-root --fail-on error --tag-display-limit 0 \
        --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$debs"/*.deb \
        || fail 'lintian found errors; see above'
    ensure_debian || fail 'a bare Debian cannot be made; see above'
    try_package
    try_container
    say "Everything passed in $SECONDS s."
}

main "$@"
