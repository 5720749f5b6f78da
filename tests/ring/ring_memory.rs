//! How much memory there is.

use std::fs;

use foveate_ring::memory::available_memory_bytes;

const MIB: u64 = 1 << 20;

#[test]
fn the_tightest_limit_of_a_control_group_bounds_what_is_available() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let available = || available_memory_bytes(root.path()).map(|bytes| bytes / MIB);
    assert_eq!(available(), None);
    write("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable:    4194304 kB\n");
    assert_eq!(available(), Some(4096));

    write("proc/self/cgroup", "0::/system.slice/foveated.service\n");
    assert_eq!(available(), Some(4096), "no limits can be seen");
    let group = |name: &str, limit: &str, text: &str| {
        write(&format!("sys/fs/cgroup/{name}/{limit}"), text);
        write(&format!("sys/fs/cgroup/{name}/memory.current"), &format!("{}\n", 300 * MIB));
        let statistics = format!("anon 1\ninactive_file {}\nactive_file 5\n", 50 * MIB);
        write(&format!("sys/fs/cgroup/{name}/memory.stat"), &statistics);
    };
    group("system.slice/foveated.service", "memory.max", "max\n");
    assert_eq!(available(), Some(4096));
    group("system.slice/foveated.service", "memory.max", &format!("{}\n", 800 * MIB));
    assert_eq!(available(), Some(550));
    group("system.slice", "memory.high", &format!("{}\n", 400 * MIB));
    assert_eq!(available(), Some(150));
    group("system.slice", "memory.high", &format!("{}\n", 100 * MIB));
    assert_eq!(available(), Some(0));
}

#[test]
fn a_control_group_of_version_1_bounds_it_too() {
    let root = tempfile::tempdir().unwrap();
    let memory = root.path().join("sys/fs/cgroup/memory/here");
    fs::create_dir_all(&memory).unwrap();
    fs::create_dir_all(root.path().join("proc/self")).unwrap();
    let groups = "4:cpu,memory:/here\n1:name=systemd:/there\n0::/\n";
    fs::write(root.path().join("proc/self/cgroup"), groups).unwrap();
    fs::write(memory.join("memory.limit_in_bytes"), (500 * MIB).to_string()).unwrap();
    fs::write(memory.join("memory.usage_in_bytes"), (200 * MIB).to_string()).unwrap();
    fs::write(memory.join("memory.stat"), "inactive_file 9\ntotal_inactive_file 1048576\n")
        .unwrap();
    assert_eq!(available_memory_bytes(root.path()), Some(301 * MIB));
}
