//! Source processes of a daemon: killed at any moment, they harm no other stream, and none outlives its daemon.

use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;
use std::thread;
use std::time::Duration;

use foveate::client::Client;
use foveate_control::{ClientExt as _, StreamListing, StreamState};
use foveate_stats::LossReason;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use testkit::daemon::{Daemon, Feed, Follower, Place, Process, ProcessResources};
use testkit::is_long;
use testkit::naive::Random;
use testkit::users::{are_there, as_user, open_to_all};
use testkit::wait::{until, until_equal};

use crate::end_to_end_rtsp::Camera;
use crate::scrape::{metrics_address, scrape};

const WIDTH: usize = 64;
const HEIGHT: usize = 48;
const PICTURE: [u8; WIDTH * HEIGHT] = [9; WIDTH * HEIGHT];

/// How often a process is killed. The pause before the next one doubles.
const KILLS: usize = 4;

/// A camera in a process of its own.
fn camera(name: &str) -> String {
    format!(
        "[[stream]]\nname = '{name}'\nbackend = 'cpu'\nisolation = 'process'\n\
         pipeline = 'videotestsrc is-live=true pattern=ball ! \
         video/x-raw,format=I420,width=320,height=240,framerate=100/1 ! appsink name=frames'\n"
    )
}

/// Frames of [`slow_camera`] in two seconds: longer than the shortest pause and a second.
const STEADY_FRAMES: u64 = 40;

/// Memory that restarts may leave to the allocator, in kB.
const SLACK_KB: u64 = 16 << 10;

/// A small camera at 20 frames a second, which takes little processor time.
fn slow_camera(name: &str) -> String {
    format!(
        "[[stream]]\nname = '{name}'\nbackend = 'cpu'\nisolation = 'process'\ncaps_timeout_ms = 60000\n\
         pipeline = 'videotestsrc is-live=true pattern=ball ! \
         video/x-raw,format=GRAY8,width=64,height=48,framerate=20/1 ! appsink name=frames'\n"
    )
}

/// The source processes of `daemon`.
pub(crate) fn processes(daemon: u32) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
        (parent == daemon.to_string()).then_some(entry.file_name())
    });
    pids.filter_map(|name| Pid::from_raw(name.to_str()?.parse().ok()?)).collect()
}

#[test]
fn a_stream_is_unharmed_by_source_processes_that_are_killed() {
    let place = Place::new();
    let mut feed = Feed::open(&place.path("fed"));
    let fed = format!(
        "[[stream]]\nname = 'fed'\nbackend = 'cpu'\nisolation = 'none'\nrestart = false\npipeline = 'filesrc location={} blocksize=3072 ! rawvideoparse format=gray8 \
         width={WIDTH} height={HEIGHT} framerate=30/1 ! appsink name=frames sync=false'\n",
        place.path("fed").display()
    );
    let daemon = place.daemon(&[&fed[..], &camera("killed")].concat());
    let mut random = Random(1);
    let mut follower = daemon.subscribe("fed/main");
    // One that is dead and not yet buried is killed once.
    let mut killed = HashSet::new();
    let mut sent = 0;
    while killed.len() < KILLS {
        sent += 1;
        feed.send(&vec![u8::try_from(sent % 251).unwrap(); WIDTH * HEIGHT]);
        assert_eq!(follower.next_frame().head.stamp.frame_seq, sent);
        thread::sleep(Duration::from_millis(random.below(40).into()));
        // While it starts, plays, or is about to be started.
        for pid in processes(daemon.process.id()) {
            if kill_process(pid, Signal::KILL).is_ok() {
                killed.insert(pid);
            }
        }
    }
    let counts = daemon.listing("fed").counts;
    assert_eq!((counts.frames_captured, counts.frames_dropped), (sent, 0));
    assert_eq!(daemon.listing("fed").state, StreamState::Live);
    until("the last one that was killed is replaced", || {
        let restarts = daemon.listing("killed").restarts;
        restarts.get(&LossReason::Crashed) == Some(&(killed.len() as u64))
    });
    let mut camera = daemon.subscribe("killed/main");
    let first = camera.next_frame().head.stamp.frame_seq;
    assert!(first < camera.next_frame().head.stamp.frame_seq);
    daemon.stop();
}

#[test]
fn nothing_is_left_of_source_processes_that_were_killed() {
    let (cameras, rounds) = if is_long() { (20, 50) } else { (3, 3) };
    let place = Place::new();
    let names: Vec<_> = (0..cameras).map(|index| format!("camera{index}")).collect();
    let config: String = names.iter().map(|name| slow_camera(name)).collect();
    let daemon = place.daemon(&config);
    // One connection for all that is asked: those that have hung up are closed later.
    let mut client = daemon.client();
    let mut round = |count: u64| {
        // For so long that the next pause is the shortest again.
        until("all have delivered for a while", || {
            let streams = client.list().unwrap();
            let is_steady = |listing: &StreamListing| {
                count * STEADY_FRAMES <= listing.counts.frames_captured
                    && listing.state == StreamState::Live
                    && listing.restarts.values().sum::<u64>() == count - 1
            };
            streams.iter().all(is_steady)
        });
    };
    let mut warm = None;
    for count in 1..=rounds {
        round(count);
        // The first ones load what is loaded once.
        if count == 2 {
            warm = Some((daemon.descriptor_kinds(), ProcessResources::of(daemon.process.id())));
        }
        let pids = processes(daemon.process.id());
        assert_eq!(pids.len(), cameras, "a process for each stream");
        pids.into_iter().for_each(|pid| kill_process(pid, Signal::KILL).unwrap());
    }
    round(rounds + 1);
    let (kinds, before) = warm.unwrap();
    until_equal("it has the descriptors of before", &kinds, || daemon.descriptor_kinds());
    until("it has the threads of before", || {
        ProcessResources::of(daemon.process.id()).threads <= before.threads
    });
    let grown_kb =
        ProcessResources::of(daemon.process.id()).memory_kb.saturating_sub(before.memory_kb);
    assert!(grown_kb < SLACK_KB, "{grown_kb} kB more than before");
    assert_eq!(processes(daemon.process.id()).len(), cameras);
    daemon.stop();
}

#[test]
fn no_source_process_survives_its_daemon() {
    let place = Place::new();
    let ended: [fn(Daemon<'_>); 2] = [
        |daemon| {
            daemon.process.signal(Signal::KILL);
            daemon.process.finish();
        },
        |daemon| drop(daemon.stop()),
    ];
    for end in ended {
        let daemon = place.daemon(&camera("camera"));
        daemon.subscribe("camera/main").next_frame();
        let pids = processes(daemon.process.id());
        assert_eq!(pids.len(), 1);
        end(daemon);
        until("they are gone", || {
            pids.iter().all(|pid| !fs::exists(format!("/proc/{pid}/fd/0")).unwrap_or(false))
        });
    }
}

/// A bug of a plugin affects its source process only, because the daemon does not load plugins.
#[test]
fn the_daemon_loads_no_plugin_of_source_processes() {
    let place = Place::new();
    let daemon = place.daemon(&camera("camera"));
    daemon.subscribe("camera/main").next_frame();
    let more = place.write("more.toml", camera("more"));
    place.foveate(&["add-stream", more.to_str().unwrap()]).finish().assert_clean_exit(0);
    daemon.subscribe("more/main").next_frame();
    let wrong = place.write("wrong.toml", camera("wrong").replace("videotestsrc", "nosuchelement"));
    let outcome = place.foveate(&["add-stream", wrong.to_str().unwrap()]).finish();
    assert_ne!(outcome.code, Some(0));
    assert!(outcome.message().contains("nosuchelement"), "{outcome:#?}");
    let maps = |pid| fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let has_plugin = |maps: &str| maps.contains("/libgstvideotestsrc.so");
    let process = processes(daemon.process.id())[0].as_raw_nonzero();
    assert!(has_plugin(&maps(process.to_string())));
    let maps = maps(daemon.process.id().to_string());
    assert!(!has_plugin(&maps), "{maps}");
    daemon.stop();
}

/// What a source process may open is enough for a network camera over either protocol.
#[test]
fn network_cameras_are_read_by_confined_processes() {
    for protocols in ["tcp", "udp"] {
        let place = Place::new();
        let camera = Camera::new("h264", "160x120");
        let _server = camera.start();
        let config = camera.config(protocols);
        let config = config.replace("[[stream]]\n", "[[stream]]\nisolation = 'process'\n");
        let daemon = place.daemon(&config);
        let mut follower = daemon.subscribe("camera/main");
        let first = follower.next_frame().head.stamp.frame_seq;
        assert!(first < follower.next_frame().head.stamp.frame_seq);
        assert_eq!(processes(daemon.process.id()).len(), 1);
        daemon.stop();
    }
}

#[test]
fn listings_and_metrics_show_source_processes() {
    let place = Place::new();
    let depth = "[stream.depth]\nscale_m = 0.001\npipeline = 'videotestsrc is-live=true ! \
                 video/x-raw,format=GRAY16_LE,width=64,height=48,framerate=30/1 ! appsink name=frames'\n";
    let config = format!("[daemon]\nmetrics = '127.0.0.1:0'\n{}{depth}", camera("camera"));
    let daemon = place.daemon(&config);
    let _follower = daemon.subscribe("camera/main");
    let pids = |names: &[&str]| {
        let listed = daemon.listing("camera").processes;
        assert!(listed.keys().all(|name| names.contains(&&**name)), "{listed:?}");
        let mut pids: Vec<_> = listed.values().map(|process| process.pid).collect();
        pids.sort_unstable();
        pids
    };
    until("both processes are listed, and have worked", || {
        let mut running: Vec<_> = processes(daemon.process.id())
            .into_iter()
            .map(|pid| pid.as_raw_nonzero().get().cast_unsigned())
            .collect();
        running.sort_unstable();
        let listed = daemon.listing("camera").processes;
        running.len() == 2
            && pids(&["pictures", "depth"]) == running
            && listed.values().all(|process| {
                // A tenth of a second of pictures, and the heap of GStreamer.
                (1 << 20..1 << 30).contains(&process.private_bytes) && 0.1 <= process.cpu_seconds
            })
    });
    let listed = daemon.listing("camera").processes;
    let shown = place.foveate(&["ls", "-v"]).finish().stdout;
    for process in listed.values() {
        assert!(shown.contains(&format!("  process  {}", process.pid)), "{shown}");
    }
    assert!(shown.contains(" of depth, "), "{shown}");
    let scraped = scrape(metrics_address(&daemon));
    for (content, process) in &listed {
        let labels = format!("{{stream=\"camera\",content=\"{content}\"}}");
        assert_eq!(scraped[&format!("foveate_source_pid{labels}")], f64::from(process.pid));
        assert!(
            process.cpu_seconds <= scraped[&format!("foveate_source_cpu_seconds_total{labels}")]
        );
        assert!(0.0 < scraped[&format!("foveate_source_memory_bytes{labels}")]);
    }
    daemon.stop();
}

/// ID of a user who runs nothing else.
const USER: u32 = 61_543;

#[test]
fn a_limit_of_processes_is_named_and_the_stream_comes_back() {
    if !are_there() {
        return;
    }
    let place = Place::new();
    let config = place.write("foveate.toml", slow_camera("camera"));
    // Others may not reach the folder of the build.
    let program = place.path("foveated");
    fs::copy(env!("CARGO_BIN_EXE_foveated"), &program).unwrap();
    let folder = place.socket().parent().unwrap().to_owned();
    open_to_all(&folder);
    chown(&folder, Some(USER), None).unwrap();
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={USER}"), "--clear-groups"]).arg(program);
    command.arg("--config").arg(config).arg("--socket").arg(place.socket());
    let registry = place.path("registry");
    let process = Process::start(command, &[("GST_REGISTRY", registry.to_str().unwrap())]);
    process.stderr.wait_for(" serving ");
    let daemon = Daemon::running(&place, process);
    daemon.subscribe("camera/main").next_frame();

    let limit = |most: Option<u64>| {
        let pid = Pid::from_raw(daemon.process.id().try_into().unwrap());
        let Rlimit { maximum, .. } = getrlimit(Resource::Nproc);
        let limit = Rlimit { current: most.or(maximum), maximum };
        // Each user may limit what is theirs.
        as_user(USER, || prlimit(pid, Resource::Nproc, limit)).unwrap();
    };
    limit(Some(1));
    for pid in processes(daemon.process.id()) {
        kill_process(pid, Signal::KILL).unwrap();
    }
    until("the limit is named", || {
        let listing = daemon.listing("camera");
        listing.reason.contains("ulimit -u") && listing.reason.contains("trying again")
    });
    limit(None);
    until("it delivers again", || daemon.listing("camera").state == StreamState::Live);
    daemon.stop();
}

/// A stream of frames that are read one by one, so that each comes in a buffer of its own. The rings take descriptors, which the second
/// frame finds made.
fn fed_stream<'a>(place: &'a Place, keys: &str) -> (Feed, Daemon<'a>, Follower) {
    let mut feed = Feed::open(&place.path("fed"));
    let daemon = place.daemon(&format!(
        "[[stream]]\nname = 'fed'\nbackend = 'cpu'\nisolation = 'process'\n{keys}\n\
         pipeline = 'filesrc location={} blocksize=3072 ! rawvideoparse format=gray8 \
         width={WIDTH} height={HEIGHT} framerate=30/1 ! appsink name=frames sync=false'\n",
        place.path("fed").display()
    ));
    let mut follower = daemon.subscribe("fed/main");
    for frame_seq in 1..=2 {
        feed.send(&PICTURE);
        assert_eq!(follower.next_frame().head.stamp.frame_seq, frame_seq);
    }
    (feed, daemon, follower)
}

/// Takes the daemon's further descriptors, and returns what it had.
fn limit_descriptors(daemon: &Daemon) -> Rlimit {
    let few = Rlimit { current: Some(3), ..getrlimit(Resource::Nofile) };
    set_limit(daemon, few)
}

fn set_limit(daemon: &Daemon, limit: Rlimit) -> Rlimit {
    let pid = Pid::from_raw(daemon.process.id().try_into().unwrap());
    prlimit(pid, Resource::Nofile, limit).unwrap()
}

#[test]
fn a_buffer_for_which_there_is_no_descriptor_waits_for_one() {
    let place = Place::new();
    let (mut feed, daemon, mut follower) = fed_stream(&place, "restart = false");
    let before = limit_descriptors(&daemon);
    for _ in 3..=8 {
        feed.send(&PICTURE);
    }
    daemon.process.stderr.wait_for("no descriptor left for a buffer of the source");
    set_limit(&daemon, before);
    for frame_seq in 3..=8 {
        assert_eq!(follower.next_frame().head.stamp.frame_seq, frame_seq);
    }
    let listing = daemon.listing("fed");
    assert_eq!((listing.state, listing.counts.frames_dropped), (StreamState::Live, 0));
    assert!(listing.restarts.values().all(|count| *count == 0), "{:?}", listing.restarts);
    daemon.stop();
}

/// The source is not blamed.
#[test]
fn a_source_long_without_a_descriptor_is_started_again() {
    let place = Place::new();
    let (mut feed, daemon, _follower) = fed_stream(&place, "");
    let before = limit_descriptors(&daemon);
    feed.send(&PICTURE);
    daemon.process.stderr.wait_for("no descriptor left for a buffer of the source for 5 s");
    set_limit(&daemon, before);
    feed.send(&PICTURE);
    until("it is started again", || {
        let listing = daemon.listing("fed");
        let restarts = listing.restarts.get(&LossReason::Failed);
        restarts.is_some_and(|count| 0 < *count) && listing.state == StreamState::Live
    });
    daemon.stop();
}

/// Neither its log nor GStreamer's registry can be written.
#[test]
fn a_full_disk_ends_no_source_process() {
    let place = Place::new();
    let config = place.write("foveate.toml", slow_camera("camera"));
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>/dev/full", "sh", env!("CARGO_BIN_EXE_foveated")]);
    command.arg("--config").arg(config).arg("--socket").arg(place.socket());
    // Thousands of lines.
    let environment = [("GST_REGISTRY", "/dev/full"), ("GST_DEBUG", "4"), ("RUST_LOG", "debug")];
    let daemon = Daemon::running(&place, Process::start(command, &environment));
    until("it serves its socket", || Client::connect(&place.socket()).is_ok());
    daemon.subscribe("camera/main").next_frame();
    for pid in processes(daemon.process.id()) {
        kill_process(pid, Signal::KILL).unwrap();
    }
    until("it is started again", || {
        let listing = daemon.listing("camera");
        listing.restarts.get(&LossReason::Crashed) == Some(&1) && listing.state == StreamState::Live
    });
    daemon.stop();
}

/// Each would take seconds of processor time.
#[test]
fn processes_that_start_together_look_for_plugins_once() {
    let scans = |cameras: usize| {
        let place = Place::new();
        let place = &place;
        let log = place.path("scans");
        fs::write(&log, "").unwrap();
        let text = format!(
            "#!/bin/sh\necho scan >> '{}'\nexec \"$(pkg-config --variable=pluginscannerdir gstreamer-1.0)/gst-plugin-scanner\" \"$@\"\n",
            log.display()
        );
        let scanner = place.write("scanner", text);
        fs::set_permissions(&scanner, Permissions::from_mode(0o755)).unwrap();
        let registry = place.path("cache/registry");
        let environment = [
            ("GST_REGISTRY", registry.to_str().unwrap()),
            ("GST_PLUGIN_SCANNER", scanner.to_str().unwrap()),
        ];
        let names: Vec<_> = (0..cameras).map(|index| format!("camera{index}")).collect();
        let config: String = names.iter().map(|name| slow_camera(name)).collect();
        let daemon = place.daemon_in(&config, &environment);
        for name in &names {
            daemon.subscribe(&format!("{name}/main")).next_frame();
        }
        daemon.stop();
        fs::read_to_string(&log).unwrap().lines().count()
    };
    let alone = scans(1);
    assert!(0 < alone);
    assert_eq!(scans(6), alone);
}
