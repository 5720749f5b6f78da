# Of the lines that run.sh collects: the report in Markdown, and into the file `crossover_file`, as JSON, from which share of changed tiles on
# the GPU is quicker.

# What follows the first `key` in `text`, up to the end of a number or string: value(text, "p50_us")
function value(text, key, at, rest) {
    at = index(text, "\"" key "\":")
    if (!at) return ""
    rest = substr(text, at + length(key) + 3)
    match(rest, /^("[^"]*"|[^,}\]]*)/)
    rest = substr(rest, 1, RLENGTH)
    gsub(/"/, "", rest)
    return rest
}

# A measurement, of one round: the median of a stage, or of all of it.
function add(label, what, text, stage, at) {
    at = index(text, "\"" stage "\":{\"p50_us\":")
    if (!at) return
    if (!(label in seen)) { seen[label]; labels[++label_count] = label }
    measured[label, what] = measured[label, what] " " value(substr(text, at), "p50_us")
}

# The median over the rounds; empty without any.
function figure(label, what, count, numbers, i, j, swap) {
    count = split(measured[label, what], numbers, " ")
    for (i = 2; i <= count; i++)
        for (j = i; j > 1 && numbers[j] + 0 < numbers[j - 1] + 0; j--) {
            swap = numbers[j]; numbers[j] = numbers[j - 1]; numbers[j - 1] = swap
        }
    return count ? (numbers[int((count + 1) / 2)] + numbers[int(count / 2) + 1]) / 2 : ""
}

function shown(number) {
    return number == "" ? "" : sprintf(number < 100 ? "%.3g" : "%.0f", number)
}

# Joins what is told of parts and tests.
function joined(before, text) {
    return before (before == "" ? "" : "; ") text
}

/^\{"label":/ {
    label = value($0, "label")
    backend = value($0, "backend")
    add(label, backend, $0, index($0, "\"picture\":") ? "picture" : "total")
    if (backend == "vulkan") add(label, "passes", $0, "gpu")
    if (label ~ /changed$/) {
        size[label] = value($0, "width") "x" value($0, "height")
        share[label] = value($0, "changed")
    }
}

/^\{"bundle":/ { facts = $0 }

/^\{"name":/ { parts = joined(parts, value($0, "name") ": " value($0, "outcome") " (" value($0, "seconds") " s)") }

/^\{"program":/ {
    failed = substr($0, index($0, "\"failed\":[") + 10)
    failed = substr(failed, 1, index(failed, "]") - 1)
    gsub(/"/, "", failed)
    gsub(/,/, ", ", failed)
    tests = joined(tests, value($0, "program") ", validated by " value($0, "validation") ": " value($0, "passed") " of " \
        value($0, "count") " passed" (failed == "" ? "" : ", failed: " failed))
}

/^\{"tier":/ { tiers = tiers "| " value($0, "frames") ", " value($0, "tier") " | | " shown(value($0, "us")) " | | |\n" }

# Sizes with warm caches: the smallest share from which on the GPU is quicker, if any. Returns how many sizes there are.
function crossover(found, order, i, j, label, text, count) {
    for (i = 1; i <= label_count; i++) {
        label = labels[i]
        if (!(label in size) || figure(label, "vulkan") == "" || figure(label, "cpu") == "") continue
        if (!(size[label] in order)) { order[size[label]] = ++count; sizes[count] = size[label] }
        found[size[label], share[label] + 0] = figure(label, "vulkan") < figure(label, "cpu")
    }
    split("0 0.01 0.1 0.3 1", shares, " ")
    for (i = 1; i <= count; i++) {
        text = "null"
        for (j = 5; j >= 1; j--) {
            if (!((sizes[i], shares[j] + 0) in found)) continue
            if (!found[sizes[i], shares[j] + 0]) break
            text = shares[j]
        }
        from[sizes[i]] = text
    }
    return count + 0
}

END {
    count = crossover()
    for (i = 1; i <= count; i++) {
        json = json (i == 1 ? "" : ",") "{\"size\":\"" sizes[i] "\",\"gpu_is_quicker_from\":" from[sizes[i]] "}"
        quicker = joined(quicker, sizes[i] ": " (from[sizes[i]] == "null" ? "never" : from[sizes[i]]))
    }
    print "[" json "]" >crossover_file
    link = substr(facts, index(facts, "\"link\":"))
    print "# Foveate on " value(link, "device") "\n"
    printf "%s; %s, Vulkan %s, %.1f GB; %s, %s processors; %s; glibc: %s; Foveate %s.\n\n", value(facts, "date"), \
        value(link, "driver"), value(link, "api_version"), value(link, "memory_bytes") / 1e9, value(facts, "processor"), \
        value(facts, "processors"), value(facts, "kernel"), value(facts, "libc"), value(facts, "bundle")
    printf "Link: %.1f GB/s to the device, %.1f GB/s back; the CPU writes %.1f GB/s to where frames are uploaded, memory of the %s.\n\n", \
        value(link, "to_device_gb_s"), value(link, "from_device_gb_s"), value(link, "write_gb_s"), \
        value(link, "uploads_into_device_memory") == "true" ? "device" : "CPU"
    print "Tests: " tests ".\n\nParts: " parts ".\n"
    if (count) print "The GPU is quicker than the CPU from this share of changed tiles on: " quicker ".\n"
    print "Medians in microseconds a frame; results.json has every stage:\n"
    print "| frames | CPU | GPU, or as said | CPU / GPU | passes |\n| --- | ---: | ---: | ---: | ---: |"
    for (i = 1; i <= label_count; i++) {
        cpu = figure(labels[i], "cpu"); gpu = figure(labels[i], "vulkan")
        ratio = 0 < gpu && cpu != "" ? sprintf("%.2f", cpu / gpu) : ""
        print "| " labels[i] " | " shown(cpu) " | " shown(gpu) " | " ratio " | " shown(figure(labels[i], "passes")) " |"
    }
    printf "%s", tiers
}
