#!/usr/bin/env bash
# Tries the Debian packages and the container on bare systems, in namespaces.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/machines.sh
. "$root/scripts/lib/machines.sh"

debs=$target/debian

systems=$SYSTEMS

usage() {
    cat <<'END'
Usage: scripts/test_package.sh [--system NAME] [--yes]

Builds the Debian packages (scripts/package.sh), and looks for errors in them with lintian. Installs that of the daemon into a bare
Debian 12, Debian 13 and Ubuntu 24.04, boots each with systemd in namespaces of its own, uses the service, reads from it in Python
and C, installs it once more, removes and purges everything, and compares the files before and after. Then does what the last stage
of Containerfile says, and runs that as its user beside a container that reads. Needs root. Bare systems and their packages are kept
in ~/.cache/foveate.

  --system NAME  only on debian-12, debian-13 or ubuntu-24.04
  --yes          install missing packages without asking
  --help         this
END
}

read_option() {
    check_system "$2"
    systems=$2
}

step() {
    say "== $1"
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

# Readers of the service, installed beside it: try_readers FIRST_PROCESS DEB
try_readers() {
    local readers=("$debs"/{libfoveate-dev,python3-foveate}_*.deb)
    apt_quietly "$1" install "$2" "${readers[@]/#"$debs"//packages}" >"$work/log" 2>&1 \
        || fail "$(cat "$work/log")"
    expect_service "$1"
    inside "$1" python3 -c 'import foveate; print(foveate.open("camera/main").read().pixels.shape)' || fail 'Python reads nothing'
    # shellcheck disable=SC2016 # What that shell expands.
    inside "$1" sh -c 'cd /tmp && sed -n "/^\`\`\`c$/,/^\`\`\`$/{//!p}" /usr/share/doc/foveate/guide/c.md >tour.c \
        && cc -std=c11 $(pkg-config --cflags foveate) tour.c -o tour && ./tour camera/main' || fail 'the reader in C fails; see above'
}

try_package() {
    local folder=$work/$system running first deb main_process
    deb=/packages/$(basename "$debs"/foveate_*.deb)
    step "installed into a bare $system"
    new_machine "$folder" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    in_new "$folder" env DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes --no-install-recommends install "$deb" \
        gcc libc6-dev pkgconf python3-numpy >"$work/log" 2>&1 || fail "it cannot be installed: $(cat "$work/log")"
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

    step 'read in Python and C'
    try_readers "$first" "$deb"

    step 'purged'
    apt_quietly "$first" purge foveate libfoveate-dev python3-foveate >"$work/log" 2>&1 || fail "$(cat "$work/log")"
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
    new_machine "$folder" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
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
    offered=$debs
    work=$(mktemp -d)
    trap clean_up_machines EXIT
    step 'lintian'
    # This package is for nobody else.
    lintian --allow-root --fail-on error --tag-display-limit 0 \
        --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$debs"/*.deb \
        || fail 'lintian found errors; see above'
    for system in $systems; do
        if ensure_system; then
            try_package
        else
            left_out "packages on $system" 'a bare system cannot be made; see above'
        fi
    done
    if [[ " $systems " == *' debian-12 '* ]]; then
        system=debian-12
        try_container
    fi
    say "Everything passed in $SECONDS s."
}

main "$@"
