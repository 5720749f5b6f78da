//! A source process opens what its source needs and nothing else, starts no other process, and reaches into none.

use std::fs::{self, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use foveate_capture::process::{Confinement, confine};
use foveate_capture::{End, Source, SourceChoice, SourceSpec, hints};
use foveate_core::source::{SourceLimits, Tls};
use rustix::process::{
    Resource, Rlimit, getpid, getppid, getpriority_process, prlimit,
    test_kill_current_process_group, test_kill_process,
};
use testkit::film::rest_of;
use testkit::left_out::{leave_out, leave_part_out};
use testkit::wait::HANG;

use crate::capture_process::{in_process, processes_of};
use crate::specs::{pipeline, shorthand};

/// A folder with a clip, a folder of pictures with one picture, and another file.
struct Files {
    place: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { place: tempfile::tempdir().unwrap() };
        fs::create_dir(files.path("pictures")).unwrap();
        for name in ["clip.mp4", "pictures/1.png", "other", "pipeline.gst", "ca.pem"] {
            fs::write(files.path(name), name).unwrap();
        }
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
}

/// What `attempt` gives where a source process of `spec` makes it.
fn confined<T: Send + 'static>(
    spec: &SourceSpec,
    attempt: impl FnOnce() -> T + Send + 'static,
) -> T {
    hints::gstreamer_version().unwrap();
    let spec = spec.clone();
    let attempt = move || {
        confine(&spec).unwrap();
        attempt()
    };
    thread::spawn(attempt).join().unwrap()
}

/// Whether this kernel has what the test of this thread is about.
fn has(part: impl FnOnce(Confinement) -> bool, name: &str) -> bool {
    let is_there = part(Confinement::of_kernel());
    if !is_there {
        leave_out(&format!("no {name}"));
    }
    is_there
}

fn has_landlock() -> bool {
    has(|kernel| kernel.landlock.is_some(), "Landlock")
}

fn has_filter() -> bool {
    has(|kernel| kernel.has_filter, "seccomp")
}

fn is_refused<T: std::fmt::Debug>(result: &Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::PermissionDenied)
}

#[test]
fn a_source_reads_only_what_it_names() {
    if !has_landlock() {
        return;
    }
    let files = Files::new();
    let all = ["clip.mp4", "pictures/1.png", "other", "pipeline.gst", "ca.pem"];
    let http = shorthand("https://192.0.2.1/clip.mp4");
    let with_authorities = SourceSpec { tls: Tls::CaFile(files.path("ca.pem")), ..http.clone() };
    let of_file = SourceChoice::PipelineFile(files.path("pipeline.gst"));
    let follows = SourceSpec { follow_addresses: true, ..http.clone() };
    let specs = [
        (shorthand("test"), &[][..]),
        (shorthand("rtsp://192.0.2.1/main"), &[]),
        (http, &[]),
        (with_authorities, &["ca.pem"]),
        (shorthand("/dev/video0"), &[]),
        (shorthand(&files.text("clip.mp4")), &["clip.mp4"]),
        (shorthand(&format!("file://{}", files.text("clip.mp4"))), &["clip.mp4"]),
        (shorthand(&files.text("pictures")), &["pictures/1.png"]),
        (pipeline("videotestsrc ! appsink name=frames"), &all),
        (SourceSpec::new("test", of_file), &all),
        (follows, &all),
    ];
    for (spec, expected) in specs {
        let paths = all.map(|name| files.path(name));
        let read = move || paths.map(fs::read);
        let results = confined(&spec, read);
        for (name, result) in all.iter().zip(&results) {
            let is_expected = expected.contains(name);
            assert!(result.is_ok() == is_expected, "{:?}: {name}: {result:?}", spec.source);
            assert!(result.is_ok() || is_refused(result), "{:?}: {result:?}", spec.source);
        }
    }
}

#[test]
fn no_source_reads_passwords_or_variables_of_others() {
    const SHADOW: &str = "/etc/shadow";
    if !has_landlock() {
        return;
    }
    if fs::read(SHADOW).is_err() {
        return leave_out("not root");
    }
    for spec in [shorthand("test"), pipeline("videotestsrc ! appsink name=frames")] {
        assert!(is_refused(&confined(&spec, || fs::read(SHADOW))), "{:?}", spec.source);
        let environment = format!("/proc/{}/environ", getppid().unwrap().as_raw_nonzero());
        fs::read(&environment).unwrap();
        assert!(is_refused(&confined(&spec, move || fs::read(environment))), "{:?}", spec.source);
        // What GStreamer and the C library read.
        confined(&spec, || fs::read("/etc/passwd")).unwrap();
        confined(&spec, || fs::read("/proc/self/status")).unwrap();
        confined(&spec, || fs::read_dir("/usr/lib").map(drop)).unwrap();
    }
}

#[test]
fn no_source_writes_a_file() {
    if !has_landlock() {
        return;
    }
    let files = Files::new();
    let follows = SourceSpec { follow_addresses: true, ..shorthand("http://192.0.2.1/") };
    let specs = [
        shorthand("test"),
        shorthand("rtsp://192.0.2.1/main"),
        shorthand(&files.text("clip.mp4")),
        shorthand(&files.text("pictures")),
        pipeline("videotestsrc ! appsink name=frames"),
        follows,
    ];
    for spec in specs {
        let (clip, new) = (files.path("clip.mp4"), files.path("pictures/new"));
        let attempts = move || {
            let mode = Permissions::from_mode(0o600);
            let attempts: [Result<()>; 7] = [
                fs::set_permissions(&clip, mode),
                fs::write(&clip, ""),
                fs::write(&new, ""),
                fs::create_dir(&new),
                fs::remove_file(&clip),
                fs::rename(&clip, &new),
                std::os::unix::fs::symlink(&clip, &new),
            ];
            attempts.map(|attempt| attempt.map_err(|error| error.kind()))
        };
        let results = confined(&spec, attempts);
        // A file is not moved to another folder (EXDEV), if that is not refused at once.
        let is_refused = |result: &std::result::Result<(), ErrorKind>| {
            matches!(result, Err(ErrorKind::PermissionDenied | ErrorKind::CrossesDevices))
        };
        assert!(results.iter().all(is_refused), "{:?}: {results:?}", spec.source);
        confined(&spec, || fs::write("/dev/null", "x")).unwrap();
    }
    assert_eq!(fs::read(files.path("clip.mp4")).unwrap(), b"clip.mp4");
}

#[test]
fn only_sources_of_addresses_have_a_network() {
    if !has_filter() {
        return;
    }
    let files = Files::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let _unix = UnixListener::bind(files.path("socket")).unwrap();
    let (none, network, all) = ([false, false, false], [true, true, false], [true, true, true]);
    let specs = [
        (shorthand("test"), none),
        (shorthand("/dev/video0"), none),
        (shorthand(&files.text("clip.mp4")), none),
        (shorthand("rtsp://192.0.2.1/main"), network),
        (shorthand("http://camera.example/main"), network),
        (shorthand("rtsp://camera.local/main"), all),
        (pipeline("videotestsrc ! appsink name=frames"), all),
    ];
    for (spec, expected) in specs {
        let socket = files.path("socket");
        let results = confined(&spec, move || {
            [
                TcpStream::connect(address).map(drop),
                UdpSocket::bind("127.0.0.1:0").map(drop),
                UnixStream::connect(&socket).map(drop),
            ]
        });
        assert_eq!(
            results.each_ref().map(Result::is_ok),
            expected,
            "{:?}: {results:?}",
            spec.source
        );
        assert!(results.iter().all(|result| result.is_ok() || is_refused(result)), "{results:?}");
    }
}

#[test]
fn no_source_starts_a_process_or_reaches_into_one() {
    if !has_filter() {
        return;
    }
    for spec in [shorthand("test"), pipeline("videotestsrc ! appsink name=frames")] {
        let attempts = || {
            let parent = getppid().unwrap();
            let limit = Rlimit { current: Some(1), maximum: Some(1) };
            [
                Command::new("/bin/true").status().map(drop),
                test_kill_process(parent).map_err(Error::from),
                test_kill_current_process_group().map_err(Error::from),
                prlimit(Some(parent), Resource::Core, limit).map(drop).map_err(Error::from),
            ]
        };
        let results = confined(&spec, attempts);
        assert!(results.iter().all(is_refused), "{:?}: {results:?}", spec.source);
        let own = || {
            test_kill_process(getpid()).unwrap();
            prlimit(None, Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
            thread::spawn(|| 7).join().unwrap()
        };
        assert_eq!(confined(&spec, own), 7);
    }
}

fn end_of(spec: &SourceSpec) -> End {
    let mut source = Source::start(spec, &Arc::default()).unwrap();
    rest_of(&mut source).1
}

/// What a pipeline may do in the daemon is refused in a process.
#[test]
fn pipelines_in_a_process_write_nothing_and_read_no_passwords() {
    if !has_landlock() {
        return;
    }
    let files = Files::new();
    let written = files.path("written");
    let writing = format!(
        "videotestsrc num-buffers=3 ! video/x-raw,width=64,height=48 ! tee name=t ! queue ! filesink location={} \
         t. ! queue ! appsink name=frames",
        written.display()
    );
    let writing = SourceSpec { caps_timeout: HANG, ..pipeline(&writing) };
    assert_eq!(end_of(&writing), End::Eos);
    fs::remove_file(&written).unwrap();
    match end_of(&in_process(&writing)) {
        End::Failed(error) => {
            assert!(error.to_string().contains(written.to_str().unwrap()), "{error}");
        }
        End::Eos => panic!("it was written"),
    }
    assert!(!written.exists());
    if fs::read("/etc/shadow").is_err() {
        return leave_part_out("not root");
    }
    let reading =
        "filesrc location=/etc/shadow ! fakesink videotestsrc num-buffers=3 ! appsink name=frames";
    let reading = SourceSpec { caps_timeout: HANG, ..pipeline(reading) };
    assert_eq!(end_of(&reading), End::Eos);
    match end_of(&in_process(&reading)) {
        End::Failed(error) => assert!(error.to_string().contains("/etc/shadow"), "{error}"),
        End::Eos => panic!("it was read"),
    }
}

#[test]
fn every_thread_of_a_source_process_has_its_limits() {
    if !has_filter() {
        return;
    }
    let text =
        "videotestsrc is-live=true ! video/x-raw,width=64,height=48 ! queue ! appsink name=frames";
    let limits = SourceLimits { memory_mib: 300, nice: 3 };
    let spec = SourceSpec { stream: "limited".to_owned(), limits, ..in_process(&pipeline(text)) };
    let source = Source::open(&spec, &Arc::default()).unwrap();
    let processes = processes_of("limited");
    let [process] = processes[..] else { panic!("{processes:?}") };
    let folder = PathBuf::from(format!("/proc/{}", process.as_raw_nonzero()));
    let threads: Vec<_> = fs::read_dir(folder.join("task")).unwrap().map(Result::unwrap).collect();
    assert!(4 < threads.len(), "{threads:?}");
    let expected = getpriority_process(None).unwrap().max(3);
    for thread in threads {
        let status = fs::read_to_string(thread.path().join("status")).unwrap();
        for line in ["NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(status.contains(line), "{status}");
        }
        // But for those that read files of other users.
        let (_, capabilities) = status.split_once("CapPrm:\t").unwrap();
        let capabilities = u64::from_str_radix(&capabilities[..16], 16).unwrap();
        assert_eq!(capabilities & !(1 << 2), 0, "{status}");
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap();
        let nice = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(16).unwrap();
        assert_eq!(nice, expected.to_string(), "{stat}");
    }
    let limits = fs::read_to_string(folder.join("limits")).unwrap();
    let limit = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(limit("Max data size"), (300 << 20).to_string());
    assert_eq!(limit("Max core file size"), "0");
    assert_eq!(limit("Max open files"), "1024");
    drop(source);
}
