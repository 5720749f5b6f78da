//! What `scripts/test.sh` installs on a bare machine, and what it says before the tests where that was not enough.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use testkit::repository;

/// Programs that the scripts run themselves, and that every system has.
const BASE: [&str; 14] = [
    "awk",
    "basename",
    "bash",
    "cut",
    "dirname",
    "dpkg",
    "dpkg-query",
    "find",
    "grep",
    "id",
    "mktemp",
    "rm",
    "sed",
    "sort",
];

/// Packages that a bare Debian needs for `scripts/test.sh`.
const PACKAGES: &str = "
    chromium
    cmake
    fonts-dejavu-core
    g++
    gcc
    gcc-aarch64-linux-gnu
    gir1.2-gst-rtsp-server-1.0
    glslc
    gstreamer1.0-libav
    gstreamer1.0-plugins-bad
    gstreamer1.0-plugins-base
    gstreamer1.0-plugins-good
    libc6-dev
    libc6-dev-arm64-cross
    libgstreamer-plugins-base1.0-dev
    libgstreamer1.0-dev
    libvulkan1
    make
    mesa-vulkan-drivers
    pkgconf
    python3
    python3-gi
    python3-numpy
    python3-pil
    python3-venv
    qemu-user
    shellcheck
    systemd
    util-linux
    vulkan-validationlayers
";

#[test]
fn a_bare_machine_gets_every_package_of_the_tests() {
    let script = fs::read_to_string(repository().join("scripts/test.sh")).unwrap();
    let lists = script.lines().find(|line| line.trim().starts_with("ensure_packages ")).unwrap();
    let output = on_a_bare_machine(lists);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, missing) = text.split_once("Missing packages:\n").unwrap();
    let missing = missing.lines().map(|line| line.split_whitespace().next().unwrap());
    let is_ubuntu = fs::read_to_string("/etc/os-release")
        .is_ok_and(|facts| facts.lines().any(|line| line == "ID=ubuntu"));
    let expected = PACKAGES.split_whitespace().map(|name| match name {
        "chromium" if is_ubuntu => "chromium-browser",
        name => name,
    });
    assert_eq!(missing.collect::<BTreeSet<_>>(), expected.collect());
}

#[test]
fn what_the_tests_lack_is_named_before_they_start() {
    let output = on_a_bare_machine("require_tools");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    for line in [
        "  cc: install gcc, libc6-dev",
        "  c++: install g++",
        "  aarch64-linux-gnu-gcc: install gcc-aarch64-linux-gnu, libc6-dev-arm64-cross",
        "  qemu-aarch64: install qemu-user",
        "  systemd-analyze: install systemd",
        "  chromium, chromium-browser or google-chrome: install chromium",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} is missing in {text}");
    }
}

/// What a line of a script does where no package is installed, nor any command beside those of every system.
fn on_a_bare_machine(line: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    for name in BASE {
        let places = ["/usr/bin", "/bin"].map(|place| format!("{place}/{name}"));
        // Some systems lack dpkg.
        if let Some(program) = places.iter().find(|program| fs::exists(program).unwrap()) {
            symlink(program, folder.path().join(name)).unwrap();
        }
    }
    let library = repository().join("scripts/lib/common.sh");
    Command::new(folder.path().join("bash"))
        .args(["-euo", "pipefail", "-c", &format!(". '{}'; {line}", library.display())])
        .env("PATH", folder.path())
        .env("DPKG_ADMINDIR", folder.path())
        .output()
        .unwrap()
}
