#!/usr/bin/env bash
# Tests and measures a GPU with the programs beside this script. scripts/gpu_bundle.sh packs both.
# shellcheck disable=SC2317 # Parts are called by their names.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Sizes, from the most to the least important, and shares of tiles that change.
sizes='1920x1080 3840x2160 1280x720 7680x4320'
shares='0.1 1 0 0.01 0.3'
# Measurements of a row, CPU and GPU in turns, of which the median is shown.
rounds=3
# Seconds after which nothing more begins, and what still runs is ended.
limit=470
is_quick=false
patience=${PATIENCE:-1}
device=''
out=''

usage() {
    cat <<'END'
Usage: run.sh OUT [--quick] [--device NAME]

Tests and measures the Vulkan backend on this machine's GPU, or on a software device if it has none, within 8 minutes. Writes
report.md, results.json and the folder log, with what the programs said, into the folder OUT. It needs a Vulkan driver, glibc 2.35 or
later, and bash, awk and coreutils. Where Python has PyTorch, it is measured, too.

  --quick        fewer sizes and rounds, within 3 minutes
  --device NAME  part of the name of the Vulkan device, such as llvmpipe
  --help         this

Environment: PYTHON is the Python that has PyTorch (python3); PATIENCE is a whole number that all times are multiplied with (1).
Exit codes: 0 if all tests passed, 1 if some failed or were cut short, 2 for wrong usage, 69 if there is no Vulkan device or OUT cannot
be written, 130 if it was interrupted, which leaves what was measured until then in OUT.
END
}

refuse() {
    printf 'run.sh: %s (try --help)\n' "$1" >&2
    exit 2
}

unavailable() {
    printf 'run.sh: %s\n' "$1" >&2
    exit 69
}

read_command_line() {
    while [ $# -gt 0 ]; do
        case "$1" in
        --help | -h)
            usage
            exit
            ;;
        --quick) is_quick=true ;;
        --device)
            [ -n "${2:-}" ] || refuse '--device needs a value'
            device=$2
            shift
            ;;
        -*) refuse "unknown option $1" ;;
        *)
            [ -z "$out" ] || refuse "one folder is expected, not $out and $1"
            out=$1
            ;;
        esac
        shift
    done
    [ -n "$out" ] || refuse 'the folder OUT is missing'
    if [ "$is_quick" = true ]; then
        sizes='1920x1080 3840x2160'
        shares='0.1 1 0'
        rounds=2
        limit=170
    fi
    [[ $patience =~ ^[1-9][0-9]*$ ]] || refuse "PATIENCE is $patience: a whole number from 1 is expected"
    limit=$((limit * patience))
}

prepare_folder() {
    local file cause
    cause=$({ mkdir -p "$out/log" && : >"$out/facts.json"; } 2>&1) \
        || unavailable "cannot write to $out (${cause##*: }): choose another folder"
    out=$(cd "$out" && pwd)
    for file in parts tests bench tiers; do
        : >"$out/$file.jsonl"
    done
}

# A string of JSON: quoted TEXT
quoted() {
    local text
    text=$(printf '%s' "$1" | tr '\t\r' '  ' | tr -d '\000-\011\013-\037')
    text=${text//\\/\\\\}
    text=${text//\"/\\\"}
    printf '"%s"' "${text//$'\n'/\\n}"
}

# Runs a part, and notes how it ended; one that fails does not end the rest, and one that returns 3 has nothing to measure:
# part NAME SECONDS SECONDS_IF_QUICK COMMAND...
part() {
    local name=$1 seconds=$2 started=$SECONDS status=0 outcome=interrupted
    [ "$is_quick" = false ] || seconds=$3
    seconds=$((seconds * patience))
    [ "$seconds" -le "$((limit - SECONDS))" ] || seconds=$((limit - SECONDS))
    shift 3
    if [ "$seconds" -le 2 ]; then
        outcome='left out: no time was left'
    else
        printf '%4d s  %s\n' "$SECONDS" "$name" >&2
        part_end=$((SECONDS + seconds))
        # Not as a condition, which would make failures inside go on.
        set +e
        (
            set -e
            "$@"
            [ -z "$unmeasured" ] || {
                printf 'not measured: %s\n' "${unmeasured%; }" >&2
                exit 1
            }
        ) 2>"$out/log/$name.txt"
        status=$?
        set -e
        case $status in
        0) outcome=complete ;;
        3) outcome="left out: $(tail -n 1 "$out/log/$name.txt")" ;;
        124 | 137) outcome="cut short after $seconds s" ;;
        *) outcome="failed ($status): $(tail -n 1 "$out/log/$name.txt")" ;;
        esac
    fi
    write_outcome
}

# Notes how the part ended that called this.
write_outcome() {
    printf '{"name":%s,"seconds":%d,"outcome":%s}\n' "$(quoted "$name")" "$((SECONDS - started))" "$(quoted "$outcome")" \
        >>"$out/parts.jsonl"
}

# Runs a program until the end of its part: limited COMMAND...
limited() {
    local seconds=$((part_end - SECONDS))
    [ "$seconds" -gt 0 ] || return 124
    ending_after "$seconds" "$@"
}

# In the foreground, so that Ctrl-C reaches the program: ending_after SECONDS COMMAND...
ending_after() {
    timeout --foreground --kill-after 5 "$@"
}

foveate() {
    limited "$here/bin/foveate" "$@"
}

# The environment in which the loader finds a driver. Containers often lack the loader, or what a driver needs beside itself; some mount
# NVIDIA's driver below /usr/local/nvidia, where no loader looks: set_loader HOW
set_loader() {
    local file=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json
    local archived=$here/lib/loader:$here/lib/driver${given_path:+:$given_path}
    loader=$1
    case $1 in
    system) export LD_LIBRARY_PATH=$given_path ;;
    archive) export LD_LIBRARY_PATH=$here/lib/loader${given_path:+:$given_path} ;;
    libraries) export LD_LIBRARY_PATH=$archived ;;
    nvidia)
        [ -f "$file" ] || return
        export LD_LIBRARY_PATH=$archived:/usr/local/nvidia/lib64:/usr/local/nvidia/lib
        export VK_DRIVER_FILES=$file VK_ICD_FILENAMES=$file
        ;;
    esac
}

# Finds the device that is measured: a GPU, and software only where there is nothing else.
find_device() {
    local given_path=${LD_LIBRARY_PATH:-} choice how options cause
    for choice in gpu software; do
        for how in system archive libraries nvidia; do
            options=()
            [ "$choice" = gpu ] || options=(--device '')
            [ -z "$device" ] || options=(--device "$device")
            set_loader "$how" || continue
            link=$(ending_after "$((20 * patience))" "$here/bin/foveate" bench link --json "${options[@]}" 2>"$out/log/device-$choice-$how.txt") && break 2
        done
        unset VK_DRIVER_FILES VK_ICD_FILENAMES
    done
    if [ -z "$link" ]; then
        # With the loader and the libraries of the archive only the driver is missing.
        cause=$(tail -n 1 "$out/log/device-software-libraries.txt")
        unavailable "no Vulkan device to measure: ${cause#foveate: }; see $out/log"
    fi
    device=${link#*\"device\":\"}
    device=${device%%\"*}
    [[ $link != *'"kind":"software"'* ]] || is_software=true
}

# How tests are validated: by the layer of this machine, by that of the archive, or not.
find_validation() {
    local one='vulkan_device::the_open_device_is_one_of_those_listed'
    export FOVEATE_TEST_DEVICE=$device
    part_end=$((SECONDS + 20 * patience))
    validation=system
    limited "$here/bin/test-gpu" --exact $one >/dev/null 2>&1 && return
    validation=archive
    export VK_LAYER_PATH=$here/lib/layers
    limited "$here/bin/test-gpu" --exact $one >/dev/null 2>&1 && return
    validation=none
    unset VK_LAYER_PATH
    export FOVEATE_WITHOUT_VALIDATION=1
}

# What the machine says of itself.
facts() {
    local nvidia=''
    if command -v nvidia-smi >/dev/null; then
        nvidia=$(ending_after 20 nvidia-smi --format=csv,noheader \
            --query-gpu=name,driver_version,memory.total,pcie.link.gen.current,pcie.link.width.current,clocks.sm,power.limit) || true
    fi
    printf '{"bundle":%s,"date":%s,"kernel":%s,"libc":%s,"processor":%s,"processors":%d,"nvidia_smi":%s,' \
        "$(quoted "$(cat "$here/VERSION")")" "$(quoted "$(date -u +%Y-%m-%d)")" "$(quoted "$(uname -sr)")" \
        "$(quoted "$(getconf GNU_LIBC_VERSION 2>/dev/null)")" \
        "$(quoted "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)")" "$(nproc)" "$(quoted "$nvidia")"
    printf '"loader":%s,"validation":%s,"is_software":%s,"link":%s}\n' \
        "$(quoted "$loader")" "$(quoted "$validation")" "$is_software" "$link"
}

# Runs a test program, and counts: tests PROGRAM OPTION...
tests() {
    local program=$1 log=$out/log/$1-$validation.log status=0 passed failed count messages
    shift
    limited "$here/bin/$program" "$@" >"$log" 2>&1 || status=$?
    passed=$(grep -c '^test .*\.\.\. ok$' "$log" || true)
    failed=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/"\1"/p' "$log" | paste -sd , -)
    count=$("$here/bin/$program" --list "$@" 2>/dev/null | grep -c ': test$' || true)
    messages=$(grep -c 'validation messages:' "$log" || true)
    printf '{"program":%s,"validation":%s,"count":%d,"passed":%d,"failed":[%s],"with_validation_messages":%d,"exit":%d}\n' \
        "$(quoted "$program")" "$(quoted "$validation")" "$count" "$passed" "$failed" "$messages" "$status" >>"$out/tests.jsonl"
    [ "$status" -eq 0 ] || tail -n 3 "$log" >&2
    return "$status"
}

# Tells wrong bytes from messages of the validation layer.
tests_without_validation() {
    export FOVEATE_WITHOUT_VALIDATION=1
    validation=none
    tests test-gpu
}

# Measures CPU and GPU in turns, a line of the table. One that fails does not end the others: measure LABEL ROUNDS OPTION...
measure() {
    local label=$1 turns=$2 line status=0
    shift 2
    # A round for each line of input.
    seq "$turns" | foveate bench --json --each-line --device "$device" "$@" >"$out/lines" || status=$?
    while IFS= read -r line; do
        printf '{"label":%s,"report":%s}\n' "$(quoted "$label")" "$line"
    done <"$out/lines" >>"$out/bench.jsonl"
    case $status in
    0) ;;
    124 | 137) return 124 ;;
    *) unmeasured="$unmeasured$label; " ;;
    esac
}

# Frames of a measurement: fewer of large ones and of cold ones, as emptying the caches takes longer than a frame, and hardly any on
# software: frames_of SIZE
frames_of() {
    [ "$is_software" = false ] || set -- software
    case "$1" in
    software) printf 3 ;;
    1280x720) printf 300 ;;
    1920x1080) printf 200 ;;
    3840x2160) printf 60 ;;
    cold) printf 15 ;;
    *) printf 20 ;;
    esac
}

warm_matrix() {
    local size share
    for size in $sizes; do
        for share in $shares; do
            measure "$size, $share changed" "$rounds" --policy fixed --size "$size" --changed "$share" --frames "$(frames_of "$size")"
        done
    done
}

cold_matrix() {
    local size share
    for share in $shares; do
        for size in $sizes; do
            measure "$size, $share changed, cold" 1 --policy fixed --size "$size" --changed "$share" --frames "$(frames_of cold)" --cold
        done
    done
}

views() {
    local count
    for count in 1 4 16; do
        measure "1920x1080, 0.1 changed, $count views" "$rounds" --policy fixed --views "$count" --frames "$(frames_of 1920x1080)"
    done
}

policies() {
    local policy
    for policy in fixed auto; do
        measure "1920x1080, 0.1 changed, $policy" "$rounds" --policy "$policy" --frames "$(frames_of 1920x1080)"
    done
}

batches() {
    local count=$((rounds * 64))
    [ "$is_software" = false ] || count=32
    measure 'batch of 32, 1024x1024' 1 --size 1024x1024 --changed 1 --batch 32 --frames "$count"
}

# PyTorch on its GPU beside both backends, on the same frames.
tiers() {
    local python=${PYTHON:-python3} options=() wheel
    if ! "$python" -c 'import numpy, torch' 2>/dev/null; then
        printf '%s has no PyTorch\n' "$python" >&2
        return 3
    fi
    for wheel in "$here"/python/*.whl; do
        limited "$python" -m zipfile -e "$wheel" "$out/site"
    done
    [ "$is_quick" = false ] || options+=(--quick)
    [ "$is_software" = false ] || options+=(--software)
    PYTHONPATH=$out/site limited "$python" -B "$here/python/tiers.py" --foveate "$here/bin/foveate" --device "$device" \
        "${options[@]}" >"$out/tiers.jsonl"
}

# The lines of a file as an array: array FILE
array() {
    printf '['
    [ ! -s "$1" ] || paste -sd , "$1" | tr -d '\n'
    printf ']'
}

write_results() {
    awk -v crossover_file="$out/crossover.json" -f "$here/report.awk" "$out/facts.json" "$out/parts.jsonl" "$out/tests.jsonl" \
        "$out/bench.jsonl" "$out/tiers.jsonl" >"$out/report.md"
    printf '{"facts":%s,"seconds":%d,"parts":%s,"tests":%s,"bench":%s,"tiers":%s,"crossover":%s}\n' \
        "$(cat "$out/facts.json")" "$SECONDS" "$(array "$out/parts.jsonl")" "$(array "$out/tests.jsonl")" \
        "$(array "$out/bench.jsonl")" "$(array "$out/tiers.jsonl")" "$(cat "$out/crossover.json")" >"$out/results.json"
    rm -rf "$out"/*.jsonl "$out/facts.json" "$out/crossover.json" "$out/lines" "$out/site"
}

# Writes what was measured until Ctrl-C.
interrupted() {
    trap '' INT TERM
    # The trap runs inside of the part.
    [ -z "${outcome:-}" ] || write_outcome
    write_results
    printf 'run.sh: interrupted; what was measured is in %s\n' "$out" >&2
    exit 130
}

main() {
    local loader=none link='' validation=none is_software=false unmeasured='' part_end=$limit test_status=0
    read_command_line "$@"
    [ -x "$here/bin/foveate" ] || unavailable "$here/bin is missing: unpack the whole archive"
    command -v awk >/dev/null || unavailable 'awk is missing: install mawk or gawk'
    prepare_folder
    find_device
    find_validation
    facts >"$out/facts.json"
    trap interrupted INT TERM
    printf 'Measuring %s; tests are validated by: %s\n' "$device" "$validation" >&2
    # The sums stay below `limit`, so that no part takes the time of another.
    part warm 100 40 warm_matrix
    part tests-gpu 70 30 tests test-gpu
    part tests-engine 65 22 tests test-engine --skip cpu::
    part batches 30 12 batches
    part tiers 75 26 tiers
    part views 25 10 views
    part policies 20 8 policies
    part cold 65 12 cold_matrix
    [ "$(grep -c '"exit":0}$' "$out/tests.jsonl")" -eq 2 ] || test_status=1
    ! grep -q '"with_validation_messages":[1-9]' "$out/tests.jsonl" || part tests-plain 30 30 tests_without_validation
    write_results
    cat "$out/report.md"
    exit "$test_status"
}

main "$@"
