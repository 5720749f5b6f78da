# Of the lines that run.sh collects: the report in Markdown (want=report), or from which share of changed tiles on the GPU is quicker, as
# JSON (want=crossover).

# What follows the first `key` in `text`, up to the end of a number or string: value(text, "\"p50_us\":")
function value(text, key, at, rest) {
    at = index(text, key)
    if (!at) return ""
    rest = substr(text, at + length(key))
    if (substr(rest, 1, 1) == "\"") {
        rest = substr(rest, 2)
        return substr(rest, 1, index(rest, "\"") - 1)
    }
    match(rest, /^[^,}\]]*/)
    return substr(rest, 1, RLENGTH)
}

# The median of a stage's medians, or of all of it.
function stage(text, name) {
    return value(text, "\"" name "\":{\"p50_us\":")
}

function median(list, count, numbers, i, j, swap) {
    count = split(list, numbers, " ")
    for (i = 2; i <= count; i++)
        for (j = i; j > 1 && numbers[j] + 0 < numbers[j - 1] + 0; j--) {
            swap = numbers[j]; numbers[j] = numbers[j - 1]; numbers[j - 1] = swap
        }
    return count ? (numbers[int((count + 1) / 2)] + numbers[int(count / 2) + 1]) / 2 : ""
}

# A measurement, of one round.
function add(label, what, number) {
    if (number == "") return
    if (!(label in seen)) { seen[label]; labels[++label_count] = label }
    measured[label, what] = measured[label, what] " " number
}

function figure(label, what) {
    return median(measured[label, what])
}

function shown(number) {
    return number == "" ? "" : sprintf(number < 100 ? "%.3g" : "%.0f", number)
}

# Rate at which a frame is uploaded, in GB/s.
function upload_rate(label, microseconds) {
    microseconds = figure(label, "upload")
    return 0 < microseconds ? figure(label, "bytes") / microseconds / 1000 : ""
}

/^\{"label":/ {
    label = value($0, "\"label\":")
    backend = value($0, "\"backend\":")
    if (index($0, "\"pictures_per_second\":")) {
        add(label, backend, stage($0, "picture"))
        add(label, backend " pictures", value($0, "\"pictures_per_second\":"))
        next
    }
    add(label, backend, stage($0, "total"))
    size[label] = value($0, "\"width\":") "x" value($0, "\"height\":")
    share[label] = value($0, "\"changed\":")
    if (backend == "vulkan") {
        split("change upload ingest reduce sample gpu collect publish rest", names, " ")
        for (i in names) add(label, names[i], stage($0, names[i]))
        add(label, "bytes", value($0, "\"uploaded_mean\":"))
    }
    next
}

/^\{"bundle":/ {
    facts = $0
    next
}

/^\{"name":/ {
    parts = parts sprintf("%s%s: %s (%s s)", (parts == "" ? "" : "; "), value($0, "\"name\":"), value($0, "\"outcome\":"), value($0, "\"seconds\":"))
    next
}

/^\{"program":/ {
    failed = substr($0, index($0, "\"failed\":[") + 10)
    failed = substr(failed, 1, index(failed, "]") - 1)
    gsub(/"/, "", failed)
    gsub(/,/, ", ", failed)
    tests = tests sprintf("%s%s, validated by %s: %s of %s passed%s", (tests == "" ? "" : "; "), value($0, "\"program\":"), \
        value($0, "\"validation\":"), value($0, "\"passed\":"), value($0, "\"count\":"), \
        (failed == "" ? "" : ", failed: " failed))
    next
}

/^\{"tier":/ {
    tiers[++tier_count] = sprintf("| %s, %s |  | %s |  |  |  |  |  |  |  |  |  |", value($0, "\"frames\":"), value($0, "\"tier\":"), \
        shown(value($0, "\"us\":")))
    next
}

# Sizes with warm caches: the smallest share from which on the GPU is quicker, if any.
function crossover(found, order, i, j, label, text, place) {
    for (i = 1; i <= label_count; i++) {
        label = labels[i]
        if (label !~ /changed$/ || figure(label, "vulkan") == "" || figure(label, "cpu") == "") continue
        if (!(size[label] in order)) { order[size[label]] = ++place; sizes[place] = size[label] }
        found[size[label], share[label] + 0] = figure(label, "vulkan") < figure(label, "cpu")
    }
    split("0 0.01 0.1 0.3 1", shares, " ")
    for (i = 1; i <= place; i++) {
        text = "null"
        for (j = 5; j >= 1; j--) {
            if (!((sizes[i], shares[j] + 0) in found)) continue
            if (!found[sizes[i], shares[j] + 0]) break
            text = shares[j]
        }
        from[sizes[i]] = text
    }
    return place
}

END {
    count = crossover()
    if (want == "crossover") {
        printf "["
        for (i = 1; i <= count; i++) printf "%s{\"size\":\"%s\",\"gpu_is_quicker_from\":%s}", (i == 1 ? "" : ","), sizes[i], from[sizes[i]]
        print "]"
        exit
    }
    link = substr(facts, index(facts, "\"link\":"))
    print "# Foveate on " value(link, "\"device\":") "\n"
    printf "%s; %s, Vulkan %s, %.1f GB; %s, %s processors; %s; glibc: %s; Foveate %s.\n\n", value(facts, "\"date\":"), \
        value(link, "\"driver\":"), value(link, "\"api_version\":"), value(link, "\"memory_bytes\":") / 1e9, value(facts, "\"processor\":"), \
        value(facts, "\"processors\":"), value(facts, "\"kernel\":"), value(facts, "\"libc\":"), value(facts, "\"bundle\":")
    printf "Link: %.1f GB/s to the device, %.1f GB/s back; the CPU writes %.1f GB/s to where frames are uploaded, memory of the %s.\n\n", \
        value(link, "\"to_device_gb_s\":"), value(link, "\"from_device_gb_s\":"), value(link, "\"write_gb_s\":"), \
        value(link, "\"uploads_into_device_memory\":") == "true" ? "device" : "CPU"
    print "Tests: " tests ".\n"
    print "Parts: " parts ".\n"
    for (i = 1; i <= count; i++)
        printf "%s%s: %s", (i == 1 ? "The GPU is quicker than the CPU from this share of changed tiles on: " : "; "), sizes[i], \
            (from[sizes[i]] == "null" ? "never" : from[sizes[i]])
    print (count ? ".\n" : "")
    print "Medians in microseconds a frame:\n"
    print "| frames | CPU | GPU, or as said | CPU / GPU | passes | ingest | reduce | sample | change | upload | rest | upload, GB/s |"
    print "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for (i = 1; i <= label_count; i++) {
        label = labels[i]
        cpu = figure(label, "cpu"); gpu = figure(label, "vulkan")
        printf "| %s | %s | %s | %s |", label, shown(cpu), shown(gpu), ((0 < gpu && cpu != "") ? sprintf("%.2f", cpu / gpu) : "")
        split("gpu ingest reduce sample change upload rest", columns, " ")
        for (j = 1; j <= 7; j++) printf " %s |", shown(figure(label, columns[j]))
        printf " %s |\n", shown(upload_rate(label))
    }
    for (i = 1; i <= tier_count; i++) print tiers[i]
}
