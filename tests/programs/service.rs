//! What belongs to the service and needs no service manager: the units, their installation, and what the daemon says and takes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use foveate::client::Client;
use foveate_control::ClientExt as _;
use rustix::process::Signal;
use testkit::daemon::{Place, Process};
use testkit::repository;
use testkit::scene::PATTERN;

#[test]
fn the_units_are_verified_without_a_word_and_expose_little() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path(), &[]);
    let units = folder.path().join("usr/lib/systemd/system");
    let service = units.join("foveated.service");
    // Whether the program is there is looked up, and it is not installed in this system.
    let text = fs::read_to_string(&service).unwrap();
    let program = env!("CARGO_BIN_EXE_foveated");
    fs::write(&service, text.replace("=/usr/bin/foveated ", &format!("={program} "))).unwrap();
    let sockets = units.join("foveated.socket");
    let verify = || {
        let output = analyze(&["verify", path(&service), path(&sockets)]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    };
    verify();
    let output = analyze(&["security", "--offline=true", "--threshold=16", path(&service)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));

    let drop_ins = units.join("foveated.service.d");
    fs::create_dir(&drop_ins).unwrap();
    for name in ["cpu-only.conf", "lan-only.conf"] {
        let shipped = folder.path().join("usr/share/foveate/systemd").join(name);
        fs::copy(shipped, drop_ins.join(name)).unwrap();
        verify();
    }
}

#[test]
fn what_is_installed_is_removed_again_but_for_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path(), &[]);
    let file = |name: &str| folder.path().join(name);
    for (name, mode) in [
        ("usr/bin/foveated", 0o755),
        ("usr/bin/foveate", 0o755),
        ("usr/lib/systemd/system/foveated.service", 0o644),
        ("usr/lib/systemd/system/foveated.socket", 0o644),
        ("usr/lib/sysusers.d/foveate.conf", 0o644),
        ("usr/include/foveate.h", 0o644),
        ("usr/include/foveate/abi.h", 0o644),
        ("usr/lib/cmake/foveate/foveateConfig.cmake", 0o644),
        ("usr/lib/pkgconfig/foveate.pc", 0o644),
        ("usr/share/doc/foveate/guide/service.md", 0o644),
        ("usr/share/doc/foveate/reference/metrics.md", 0o644),
        ("usr/share/foveate/pipelines/rtsp.gst", 0o644),
        ("usr/share/foveate/grafana/foveate.json", 0o644),
        ("usr/share/foveate/prometheus/foveate.yml", 0o644),
        ("usr/share/foveate/scorers/people.safetensors", 0o644),
        ("usr/share/doc/foveate/examples/rtsp.toml", 0o644),
        ("usr/share/doc/foveate/examples/front.yaml", 0o644),
        ("usr/share/man/man1/foveate.1", 0o644),
        ("usr/share/man/man1/foveate-watch.1", 0o644),
        ("usr/share/man/man5/foveate.toml.5", 0o644),
        ("usr/share/man/man8/foveated.8", 0o644),
        ("usr/share/bash-completion/completions/foveate", 0o644),
        ("usr/share/zsh/site-functions/_foveate", 0o644),
        ("usr/share/fish/vendor_completions.d/foveate.fish", 0o644),
        ("etc/foveate/foveate.toml", 0o644),
    ] {
        let found = fs::metadata(file(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(found, mode, "{name}");
    }
    let package = fs::read_to_string(file("usr/lib/pkgconfig/foveate.pc")).unwrap();
    assert!(package.contains("prefix=/usr\n"), "{package}");
    assert!(package.contains(env!("CARGO_PKG_VERSION")), "{package}");

    // Every file that the configuration names is there.
    let configuration = fs::read_to_string(file("etc/foveate/foveate.toml")).unwrap();
    for word in configuration.split(|c: char| c.is_whitespace() || "\"'".contains(c)) {
        if let Some(path) = word
            .trim_end_matches(['.', ','])
            .strip_prefix('/')
            .filter(|path| path.starts_with("usr/share"))
        {
            assert!(file(path).exists(), "{word}");
        }
    }
    assert_eq!(configuration.matches("/usr/share/").count(), 11, "{configuration}");

    // Stripped, and a backtrace names its functions.
    let sections =
        Command::new("readelf").args(["-S", "--wide"]).arg(file("usr/bin/foveated")).output();
    let sections = String::from_utf8(sections.unwrap().stdout).unwrap();
    assert!(sections.contains(".symtab") && !sections.contains(".debug_info"), "{sections}");

    let before = files_below(folder.path());
    fs::write(file("etc/foveate/foveate.toml"), "# mine\n").unwrap();
    install(folder.path(), &[]);
    assert_eq!(files_below(folder.path()), before, "a second time changes nothing");
    assert_eq!(fs::read_to_string(file("etc/foveate/foveate.toml")).unwrap(), "# mine\n");

    install(folder.path(), &["--uninstall"]);
    assert_eq!(files_below(folder.path()), [file("etc/foveate/foveate.toml")]);
    for folder in ["usr/lib/cmake/foveate", "usr/share/doc/foveate", "usr/share/foveate"] {
        assert!(!file(folder).exists(), "{folder}");
    }
    install(folder.path(), &["--uninstall"]);
}

#[test]
fn paths_in_the_units_follow_the_prefix() {
    let folder = tempfile::tempdir().unwrap();
    install_below(folder.path(), "/opt/vision", &[]);
    // Where systemd looks.
    let unit = folder.path().join("etc/systemd/system/foveated.service");
    assert!(folder.path().join("etc/sysusers.d/foveate.conf").exists());
    let text = fs::read_to_string(unit).unwrap();
    assert!(text.contains("ExecStart=/opt/vision/bin/foveated --config /etc/foveate/"), "{text}");
    assert!(!text.contains("/usr/"), "{text}");
}

#[test]
fn the_daemon_tells_that_it_is_ready_lives_and_stops() {
    let place = Place::new();
    let told = UnixDatagram::bind(place.path("notify")).unwrap();
    let socket = place.path("notify");
    let environment = [("NOTIFY_SOCKET", path(&socket)), ("WATCHDOG_USEC", "200000")];
    let daemon = place.daemon_in(PATTERN, &environment);
    let mut messages = Vec::new();
    let mut await_line = |line: &str, count: usize| {
        while messages.iter().filter(|message| *message == line).count() < count {
            let mut buffer = [0; 4096];
            let length = told.recv(&mut buffer).unwrap();
            let text = String::from_utf8(buffer[..length].to_vec()).unwrap();
            messages.extend(text.lines().map(str::to_owned));
        }
        messages.clone()
    };
    await_line("READY=1", 1);
    await_line("STATUS=1 stream, live", 1);
    await_line("WATCHDOG=1", 10);
    daemon.process.signal(Signal::TERM);
    let messages = await_line("STOPPING=1", 1);
    assert_eq!(messages.iter().filter(|line| *line == "READY=1").count(), 1, "{messages:?}");
    daemon.process.finish().assert_clean_exit(0);
}

/// Each further arena keeps what decoder threads have freed.
#[cfg(target_env = "gnu")]
#[test]
fn the_allocator_has_two_arenas_however_many_threads_there_are() {
    const ARENA_BYTES: u64 = 64 << 20;
    let place = Place::new();
    let daemon = place.daemon(&PATTERN.replace("! video", "! queue ! video"));
    daemon.process.stderr.wait_for(" publishing ");
    let maps = fs::read_to_string(format!("/proc/{}/maps", daemon.process.id())).unwrap();
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let ranges = maps.lines().map(|line| {
        let (range, rest) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        (number(start), number(end), rest.starts_with("rw-p 00000000 00:00 0"))
    });
    let ranges: Vec<_> = ranges.collect();
    // The used part of an arena, and the rest, which is reserved.
    let arenas = ranges.windows(2).filter(|pair| {
        let [(start, middle, is_used), (rest, end, _)] = pair else { unreachable!() };
        *is_used && start % ARENA_BYTES == 0 && middle == rest && end - start == ARENA_BYTES
    });
    // The other one is the heap.
    assert_eq!(arenas.count(), 1, "{maps}");
    daemon.stop();
}

#[test]
fn another_kind_of_socket_is_refused_with_the_right_one() {
    for kind in ["--datagram", "--accept"] {
        let place = Place::new();
        let listening = place.path("passed.sock");
        let mut command = Command::new("systemd-socket-activate");
        command.args([kind, "--listen", path(&listening), env!("CARGO_BIN_EXE_foveated")]);
        let process = Process::start(command, &[]);
        process.stderr.wait_for("Listening on");
        if kind == "--datagram" {
            UnixDatagram::unbound().unwrap().send_to(b"x", &listening).unwrap();
            let outcome = process.finish();
            assert_eq!(outcome.code, Some(69), "{outcome:?}");
            assert!(outcome.message().contains("ListenSequentialPacket="), "{outcome:?}");
        } else {
            // A connection is not a listening socket.
            let _client = std::os::unix::net::UnixStream::connect(&listening).unwrap();
            process.stderr.wait_for("ListenSequentialPacket=");
        }
    }
}

#[test]
fn a_passed_socket_is_served_and_left_where_it_is() {
    let place = Place::new();
    let config = place.write("foveate.toml", PATTERN);
    let listening = place.path("passed.sock");
    let mut command = Command::new("systemd-socket-activate");
    command.args(["--seqpacket", "--listen", path(&listening), env!("CARGO_BIN_EXE_foveated")]);
    command.args(["--config", path(&config), "--socket", path(&place.socket())]);
    let process = Process::start(command, &[]);
    process.stderr.wait_for("Listening on");
    let mut client = Client::connect(&listening).unwrap();
    assert_eq!(client.list().unwrap()[0].name, "camera");
    assert!(!place.socket().exists(), "one socket is enough");
    process.signal(Signal::TERM);
    process.finish().assert_clean_exit(0);
    assert!(listening.exists());
}

#[test]
fn installed_documents_link_to_installed_files() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path(), &[]);
    let documents = folder.path().join("usr/share/doc/foveate");
    let mut count = 0;
    for document in files_below(&documents) {
        if document.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        let text = fs::read_to_string(&document).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next()) {
            if !link.is_empty() && !link.contains("://") && !link.starts_with("mailto:") {
                let target = document.parent().unwrap().join(link);
                assert!(target.is_file(), "{link} in {}", document.display());
                count += 1;
            }
        }
    }
    assert!(100 < count, "{count} links");
    install(folder.path(), &["--uninstall"]);
    assert!(!documents.exists(), "{:?}", files_below(&documents));
}

/// Installs the programs of this test below `folder`, with the prefix /usr.
fn install(folder: &Path, arguments: &[&str]) {
    install_below(folder, "/usr", arguments);
}

fn install_below(folder: &Path, prefix: &str, arguments: &[&str]) {
    let programs = Path::new(env!("CARGO_BIN_EXE_foveated")).parent().unwrap();
    let mut command = Command::new(repository().join("scripts/install.sh"));
    command.args(["--yes", "--prefix", prefix, "--destdir", path(folder)]);
    let output = command.args(["--binaries", path(programs)]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let output = Command::new("find").arg(folder).args(["-type", "f"]).output().unwrap();
    let mut files: Vec<_> =
        String::from_utf8(output.stdout).unwrap().lines().map(PathBuf::from).collect();
    files.sort();
    files
}

fn analyze(arguments: &[&str]) -> Output {
    Command::new("systemd-analyze").args(arguments).output().unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
