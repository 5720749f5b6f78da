//! A path belongs to one running daemon at a time, and is free after it.

use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use foveate::ControlError;
use foveate::client::Client;
use foveate_control::ClientExt as _;
use foveate_server::ServeError;
use foveate_server::directory::Directory;
use foveate_server::server::{Server, ServerLimits, SocketAccess};
use foveate_source::processes::RunningProcess;
use rustix::net::SocketAddrUnix;
use testkit::control::{Stage, seqpacket_socket};
use testkit::left_out::leave_out;
use testkit::wait::until;

#[test]
fn the_socket_is_group_accessible_and_removed_at_exit() {
    let stage = Stage::open();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&stage.path), 0o660);
    assert_eq!(mode(stage.path.parent().unwrap()), 0o750);
    let path = stage.path.clone();
    drop(stage.server);
    assert!(!path.exists());
}

#[test]
fn socket_and_directory_belong_to_the_configured_group() {
    let Some(group) = other_group() else {
        return leave_out("this user is in one group only");
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new").join("run").join("foveate.sock");
    let access = SocketAccess { mode: 0o600, group: Some(group) };
    let directory = Directory::new().unwrap();
    let server = Server::bind(&path, directory, access, ServerLimits::default()).unwrap();
    let facts = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.gid(), metadata.permissions().mode() & 0o7777)
    };
    assert_eq!(facts(&path), (group, 0o600));
    assert_eq!(facts(path.parent().unwrap()), (group, 0o750));
    server.stop();
}

/// They are of the daemon's user, who may do everything.
#[test]
fn source_processes_are_hung_up_on() {
    const CLIENT: &str = "import socket, sys\n\
        sys.stdin.readline()\n\
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
        client.connect(sys.argv[1])\n\
        try:\n    client.send(b'{\"op\":\"list\"}')\n    print(len(client.recv(65536)))\n\
        except OSError:\n    print(0)\n";
    let stage = Stage::open();
    let answer = |is_source: bool| {
        let mut command = Command::new("python3");
        command.args(["-c", CLIENT]).arg(&stage.path);
        let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let _running = is_source.then(|| RunningProcess::new(client.id()));
        client.stdin.take().unwrap().write_all(b"\n").unwrap();
        let output = client.wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse::<usize>().unwrap()
    };
    assert_eq!(answer(true), 0);
    assert!(0 < answer(false));
    assert_eq!(stage.server().counters().clients_accepted.get(), 1);
}

/// A group that this process may give files to, and that they do not belong to anyway.
fn other_group() -> Option<u32> {
    let own = fs::metadata("/proc/self").unwrap();
    if own.uid() == 0 {
        return Some(own.gid() + 1);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap();
    let mut groups = groups.split_whitespace().map(|group| group.parse().unwrap());
    groups.find(|group| *group != own.gid())
}

#[test]
fn the_socket_of_a_living_daemon_is_refused() {
    let stage = Stage::open();
    let error = bind(&stage.path).unwrap_err();
    let text = error.to_string();
    let ServeError::InUse { path, pid } = error else { panic!("{text}") };
    assert_eq!(path, stage.path);
    assert_eq!(pid, Some(std::process::id().cast_signed()));
    assert!(text.contains(&format!("(process {})", std::process::id())), "{text}");
    Client::connect(&stage.path).unwrap().list().unwrap();
}

#[test]
fn a_living_listener_without_a_lock_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foveate.sock");
    let socket = bound(&path);
    rustix::net::listen(&socket, 1).unwrap();
    let error = bind(&path).unwrap_err();
    let ServeError::InUse { pid, .. } = error else { panic!("{error}") };
    assert_eq!(pid, Some(std::process::id().cast_signed()));
    assert!(path.exists());
}

#[test]
fn the_socket_of_a_dead_daemon_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foveate.sock");
    // kill -9 leaves the socket's name and an unlocked lock file.
    drop(bound(&path));
    fs::write(folder.path().join("foveate.sock.lock"), "4194304\n").unwrap();
    assert!(matches!(Client::connect(&path), Err(ControlError::NoDaemon { .. })));

    let server = bind(&path).unwrap();
    Client::connect(&path).unwrap().list().unwrap();
    server.stop();
    let again = bind(&path).unwrap();
    Client::connect(again.path()).unwrap().list().unwrap();
}

#[test]
fn a_foreign_or_linked_lock_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, lock) =
        (folder.path().join("foveate.sock"), folder.path().join("foveate.sock.lock"));
    let other = folder.path().join("other");
    fs::write(&other, "somebody's").unwrap();
    std::os::unix::fs::symlink(&other, &lock).unwrap();
    assert!(matches!(bind(&path), Err(ServeError::Path(ControlError::Io { .. }))));
    assert_eq!(fs::read_to_string(&other).unwrap(), "somebody's");

    fs::remove_file(&lock).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &lock, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    assert!(matches!(bind(&path), Err(ServeError::ForeignLock { .. })));

    fs::remove_file(&lock).unwrap();
    fs::write(&lock, "4194304\n").unwrap();
    if std::os::unix::fs::chown(&lock, Some(65534), None).is_ok() {
        assert!(matches!(bind(&path), Err(ServeError::ForeignLock { .. })));
        assert_eq!(fs::read_to_string(&lock).unwrap(), "4194304\n");
    }
}

/// Whoever can open the lock file can lock it, so one with another mode is changed.
#[test]
fn lock_file_is_for_the_daemon_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (path, lock) =
        (folder.path().join("foveate.sock"), folder.path().join("foveate.sock.lock"));
    let mode = || fs::metadata(&lock).unwrap().permissions().mode() & 0o7777;
    bind(&path).unwrap().stop();
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    // A child that another test starts holds the lock until it is another program.
    until("the lock is free", || match bind(&path) {
        Ok(server) => {
            server.stop();
            true
        }
        Err(error) => {
            assert!(matches!(error, ServeError::InUse { .. }), "{error}");
            false
        }
    });
    assert_eq!(mode(), 0o600);
}

#[test]
fn a_file_in_the_way_is_refused_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foveate.sock");
    fs::write(&path, "somebody's").unwrap();
    assert!(matches!(bind(&path), Err(ServeError::NotASocket { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
}

#[test]
fn a_daemon_removes_no_socket_but_its_own() {
    let stage = Stage::open();
    fs::remove_file(&stage.path).unwrap();
    let _other = bound(&stage.path);
    drop(stage.server);
    assert!(stage.path.exists());
}

#[test]
fn paths_that_cannot_serve_are_refused_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("l".repeat(120));
    let ServeError::Path(served) = bind(&long).unwrap_err() else { panic!("an error of the path") };
    for error in [served, Client::connect(&long).unwrap_err()] {
        assert!(matches!(error, ControlError::PathTooLong { .. }), "{error}");
        assert!(error.to_string().contains("--socket"), "{error}");
    }
    fs::write(folder.path().join("file"), "").unwrap();
    let below_a_file = folder.path().join("file").join("foveate.sock");
    let error = bind(&below_a_file).unwrap_err();
    assert!(error.to_string().starts_with("cannot create the directory"), "{error}");
    let error = Client::connect(&below_a_file).unwrap_err();
    assert!(error.to_string().contains("start `foveated`"), "{error}");
}

fn bind(path: &Path) -> Result<Server, ServeError> {
    Server::bind(path, Directory::new().unwrap(), SocketAccess::default(), ServerLimits::default())
}

/// A bound socket that does not listen.
fn bound(path: &Path) -> OwnedFd {
    let socket = seqpacket_socket();
    rustix::net::bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}
