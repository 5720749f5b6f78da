//! Source processes of a daemon: killed at any moment, they harm no other stream, and none outlives its daemon.

use std::fs;
use std::thread;
use std::time::Duration;

use foveate_control::StreamState;
use foveate_stats::LossReason;
use rustix::process::{Pid, Signal, kill_process};
use testkit::daemon::{Belongings, Daemon, Feed, Place};
use testkit::naive::Random;
use testkit::wait::until;

use crate::end_to_end_rtsp::Camera;
use crate::scrape::{metrics_address, scrape};

const WIDTH: usize = 64;
const HEIGHT: usize = 48;

/// How often a process is killed. The pause before the next one doubles.
const KILLS: u64 = 4;

/// A camera in a process of its own.
fn camera(name: &str) -> String {
    format!(
        "[[stream]]\nname = '{name}'\nbackend = 'cpu'\nisolation = 'process'\n\
         pipeline = 'videotestsrc is-live=true pattern=ball ! \
         video/x-raw,format=I420,width=320,height=240,framerate=100/1 ! appsink name=frames'\n"
    )
}

/// The source processes of `daemon`.
fn processes(daemon: u32) -> Vec<Pid> {
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
        "[[stream]]\nname = 'fed'\nbackend = 'cpu'\nrestart = false\npipeline = 'filesrc location={} blocksize=3072 ! rawvideoparse format=gray8 \
         width={WIDTH} height={HEIGHT} framerate=30/1 ! appsink name=frames sync=false'\n",
        place.path("fed").display()
    );
    let daemon = place.daemon(&[&fed[..], &camera("killed")].concat());
    let mut random = Random(1);
    let mut follower = daemon.subscribe("fed/main");
    let mut killed = 0;
    let mut sent = 0;
    while killed < KILLS {
        sent += 1;
        feed.send(&vec![u8::try_from(sent % 251).unwrap(); WIDTH * HEIGHT]);
        assert_eq!(follower.next_frame().head.stamp.frame_seq, sent);
        thread::sleep(Duration::from_millis(random.below(40).into()));
        // While it starts, plays, or is about to be started.
        for pid in processes(daemon.process.id()) {
            killed += u64::from(kill_process(pid, Signal::KILL).is_ok());
        }
    }
    let counts = daemon.listing("fed").counts;
    assert_eq!((counts.frames_captured, counts.frames_dropped), (sent, 0));
    assert_eq!(daemon.listing("fed").state, StreamState::Live);
    until("the last one that was killed is replaced", || {
        let restarts = daemon.listing("killed").restarts;
        restarts.get(&LossReason::Crashed) == Some(&killed)
    });
    let mut camera = daemon.subscribe("killed/main");
    let first = camera.next_frame().head.stamp.frame_seq;
    assert!(first < camera.next_frame().head.stamp.frame_seq);
    daemon.stop();
}

#[test]
fn nothing_is_left_of_source_processes_that_were_killed() {
    let place = Place::new();
    let daemon = place.daemon(&camera("camera"));
    let mut follower = daemon.subscribe("camera/main");
    follower.next_frame();
    let await_restart = |count: u64| {
        until("it is started again", || {
            let restarts = daemon.listing("camera").restarts;
            let state = daemon.listing("camera").state;
            restarts.values().sum::<u64>() == count && state == StreamState::Live
        });
    };
    let kill = || {
        for pid in processes(daemon.process.id()) {
            kill_process(pid, Signal::KILL).unwrap();
        }
    };
    kill();
    await_restart(1);
    let before = Belongings::of(daemon.process.id());
    for count in 2..=4 {
        kill();
        await_restart(count);
    }
    until("it has no more than before", || {
        Belongings::of(daemon.process.id()).is_no_more_than(&before)
    });
    assert_eq!(processes(daemon.process.id()).len(), 1);
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
