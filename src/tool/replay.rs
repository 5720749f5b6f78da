//! `foveate replay`: publishes a recording as the daemon published it, to the same readers.
//!
//! ```text
//!  files --> Playback --> Writer::recreate, publish --> ring --> readers, as of the daemon
//!                         Server, on the socket    <------------ subscribe, list
//! ```

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::recording::RecordingError;
use super::recording::playback::{Playback, PlaybackItem};
use super::{SIGNAL_INTERVAL, StopCondition, ToolError};
use foveate::messages::is_name;
use foveate_config::ViewConfig;
use foveate_control::StreamState;
use foveate_core::backend::{BackendInfo, ChangeSite};
use foveate_core::clock::{monotonic_ns, unix_ns};
use foveate_core::frame::{FrameStamp, PixelFormat};
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_gaze::controller::Policy;
use foveate_ring::abi::PLANE_COUNT_MAX;
use foveate_ring::{
    FrameHead, HeaderPage, SegmentInfo, State, TokenFrame, TokenFrameBuf, Waker, Writer,
};
use foveate_server::channel::{REPLACED, ViewChannel, ViewUpdate};
use foveate_server::directory::{Directory, StreamPort, StreamSpec};
use foveate_server::server::{Server, ServerLimits, SocketAccess};

/// Longest wait for readers that do not sleep on the ring, because they poll or have stopped.
const READER_PATIENCE: Duration = Duration::from_millis(250);

/// Interval at which readers are checked.
const LOOK_INTERVAL: Duration = Duration::from_micros(200);

/// End reason of a recording that has none of its own.
const OVER: &str = "the recording is over";

#[derive(Debug, clap::Args)]
pub(super) struct ReplayArguments {
    /// The files of one recording, in order
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Name of the stream [default: as recorded]
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,
    /// Pace, as a multiple of the recorded one, 0.01 to 100
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    speed: f64,
    /// Publish as fast as the readers that wait in the ring take the frames
    #[arg(long, conflicts_with = "speed")]
    fast: bool,
    /// Start at once [default: with the first reader]
    #[arg(long)]
    at_once: bool,
    /// Shift all times of a frame to the present, so that its age is as recorded
    #[arg(long)]
    now: bool,
    /// Start again after the end, in a new segment, until a signal
    #[arg(long = "loop")]
    repeat: bool,
}

/// Serves the recording, and returns at its end or at a signal.
pub(super) fn run(
    arguments: &ReplayArguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    if let Some(name) = arguments.stream.as_ref().filter(|name| !is_name(name)) {
        return Err(ToolError::Usage(format!(
            "invalid --stream {name:?} (expected 1 to 63 of a-z, 0-9, `_` and `-`)"
        )));
    }
    let until = StopCondition::new(None)?;
    let (mut frames, mut missed, mut damaged, mut reason) = (0, 0, 0, OVER.to_owned());
    let mut stage: Option<ReplayServer> = None;
    let mut pace = ReplayPace::new(arguments);
    let mut playback = Playback::new(arguments.files.clone());
    while !until.is_over() {
        let Some(played) = playback.advance(&|| until.is_over())? else {
            if !arguments.repeat || frames == 0 {
                break;
            }
            playback = Playback::new(arguments.files.clone());
            continue;
        };
        match (played, &mut stage) {
            (PlaybackItem::Segment(page, info), Some(stage)) => {
                stage.enter(&page, *info)?;
                pace.forget();
            }
            (PlaybackItem::Segment(page, info), None) => {
                let opened = ReplayServer::open(arguments, socket, &page, *info)?;
                if !arguments.at_once {
                    opened.await_first_reader(&until);
                }
                stage = Some(opened);
            }
            (PlaybackItem::Frame { mut frame, published_unix_ns, missed: before }, Some(stage)) => {
                pace.wait(stage, frame.head.publish_ns, &until);
                if until.is_over() {
                    break;
                }
                if arguments.now {
                    move_to_now(&mut frame.head, published_unix_ns);
                }
                stage.publish(&frame);
                (frames, missed) = (frames + 1, missed + before);
            }
            (PlaybackItem::State(State::Ended, why), _) => reason = why,
            (PlaybackItem::State(state, why), Some(stage)) => stage.set_state(state, &why),
            (PlaybackItem::Damaged(path, why), _) => {
                tracing::warn!(path = %path.display(), "skipping a damaged part: {why}");
                damaged += 1;
            }
            (PlaybackItem::CutShort(path, why), _) => {
                tracing::warn!(path = %path.display(), "cannot read the rest of the file: {why}");
            }
            // Subscribers of a recording get none.
            (PlaybackItem::Event(_), _) => {}
            // Playback gives no frame before its segment.
            (PlaybackItem::Frame { .. } | PlaybackItem::State(..), None) => {}
        }
    }
    let Some(stage) = stage else {
        if until.is_over() {
            return Ok(());
        }
        let (path, what) = (arguments.files[0].clone(), "no segment".to_owned());
        return Err(RecordingError::Malformed { path, what }.into());
    };
    stage.end(&reason, &until);
    let unrecorded =
        if missed == 0 { String::new() } else { format!(", {missed} were not recorded") };
    let left_out = if damaged == 0 {
        String::new()
    } else {
        format!(", {damaged} damaged parts were left out")
    };
    writeln!(out, "{frames} frames{unrecorded}{left_out}").map_err(ToolError::Output)
}

/// The pace of publishing.
struct ReplayPace {
    /// Speed as a multiple of the recorded one; `None` for the speed of the readers.
    speed: Option<f64>,
    /// When a frame was replayed, and when it had been published originally; the times of other frames follow from it.
    began: Option<(Instant, u64)>,
    /// Frames since all readers had read everything.
    ahead: usize,
}

impl ReplayPace {
    fn new(arguments: &ReplayArguments) -> Self {
        Self { speed: (!arguments.fast).then_some(arguments.speed), began: None, ahead: 0 }
    }

    /// Restarts the pace with the next frame.
    fn forget(&mut self) {
        (self.began, self.ahead) = (None, 0);
    }

    /// Waits until the frame that was published at `publish_ns`, on CLOCK_MONOTONIC, is due.
    fn wait(&mut self, stage: &ReplayServer, publish_ns: u64, until: &StopCondition) {
        let Some(speed) = self.speed else {
            // One slot is being written, and one may be being read.
            if self.ahead + 2 < stage.slot_count {
                self.ahead += 1;
            } else {
                stage.await_readers(READER_PATIENCE, until);
                self.ahead = 1;
            }
            return;
        };
        let (began, began_ns) = *self.began.get_or_insert((Instant::now(), publish_ns));
        let Some(passed_ns) = publish_ns.checked_sub(began_ns) else {
            // The machine was rebooted.
            self.began = Some((Instant::now(), publish_ns));
            return;
        };
        let passed = Duration::from_nanos(passed_ns).div_f64(speed);
        while !until.is_over() {
            let left = passed.saturating_sub(began.elapsed());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(SIGNAL_INTERVAL));
        }
    }
}

/// The control server with the recorded view.
struct ReplayServer {
    port: StreamPort,
    channel: ViewChannel,
    /// The name, if it is not the recorded one.
    stream: Option<String>,
    writer: Writer,
    waker: Waker,
    slot_count: usize,
    shape: PyramidShape,
    /// Versions of the tokens of any frame: all are new.
    versions: Vec<u64>,
    plan: TokenPlan,
    server: Server,
}

impl ReplayServer {
    fn open(
        arguments: &ReplayArguments,
        socket: &Path,
        page: &HeaderPage,
        info: SegmentInfo,
    ) -> Result<Self, ToolError> {
        let name = arguments.stream.clone().unwrap_or_else(|| info.stream.clone());
        if !is_name(&name) || !is_name(&info.view) {
            return Err(ToolError::Usage(format!(
                "the recording has an invalid view name, {name:?}/{:?}",
                info.view
            )));
        }
        let directory = Directory::new().map_err(ToolError::Output)?;
        let mut port = directory.add_stream(StreamSpec {
            name,
            source: format!("the recording {}", arguments.files[0].display()),
            views: vec![view_config(&info, &arguments.files[0])],
            is_recording: true,
            masks: Arc::default(),
        });
        let server = Server::bind(
            socket,
            Arc::clone(&directory),
            SocketAccess::default(),
            ServerLimits::default(),
        )?;
        let channel = port.views.remove(0);
        let writer = Writer::recreate(page, arguments.stream.as_deref())?;
        let waker = Waker::new(&writer, channel.subscribers())?;
        let mut stage = Self {
            port,
            channel,
            stream: arguments.stream.clone(),
            writer,
            waker,
            slot_count: info.slot_count,
            shape: PyramidShape::new(info.extent),
            versions: Vec::new(),
            plan: TokenPlan { patch_side: info.format.patch_side, tokens: Vec::new() },
            server,
        };
        stage.show(info)?;
        Ok(stage)
    }

    /// Goes on in another segment.
    fn enter(&mut self, page: &HeaderPage, info: SegmentInfo) -> Result<(), ToolError> {
        let writer = Writer::recreate(page, self.stream.as_deref())?;
        self.writer.set_state(State::Ended, REPLACED);
        self.waker.wake();
        self.waker.replace_segment(&writer);
        self.writer = writer;
        self.show(info)
    }

    /// Gives subscribers the segment.
    fn show(&mut self, info: SegmentInfo) -> Result<(), ToolError> {
        self.slot_count = info.slot_count;
        self.shape = PyramidShape::new(info.extent);
        self.versions = vec![0; info.capacity];
        self.port.update(|status| {
            status.state = StreamState::Live;
            status.format = PixelFormat::from_name(&info.pixel_format);
            status.extent = Some(info.extent);
            status.picture = Some(info.picture);
            status.backend = Some(BackendInfo {
                kind: info.backend,
                device: info.spec.device,
                reason: "recorded".to_owned(),
                change_on: ChangeSite::Cpu,
            });
        });
        self.channel.set_segment(self.writer.reader_fd()?, self.writer.epoch());
        Ok(())
    }

    fn publish(&mut self, frame: &TokenFrameBuf) {
        let head = &frame.head;
        let gaze = Gaze::new(head.fixations.clone(), None);
        self.channel.update(&ViewUpdate {
            frame_seq: head.stamp.frame_seq,
            shape: self.shape,
            gaze: &gaze,
            plan: &self.plan,
            plan_since: head.stamp.frame_seq,
            is_planned_afresh: false,
            is_settled: true,
        });
        let mut planes = [&[][..]; PLANE_COUNT_MAX];
        for (target, plane) in
            planes.iter_mut().zip([&frame.pixels].into_iter().chain(&frame.planes))
        {
            *target = plane;
        }
        self.writer.publish(&TokenFrame {
            head: head.clone(),
            records: &frame.records,
            planes,
            versions: &self.versions[..frame.records.len()],
            whole_version: 0,
        });
        self.channel.counters().frames_published.add(1);
        self.channel.counters().tokens_published.add(frame.records.len() as u64);
        self.waker.wake();
    }

    fn set_state(&mut self, state: State, reason: &str) {
        self.writer.set_state(state, reason);
        self.waker.wake();
        self.port.update(|status| {
            status.state = match state {
                State::Live => StreamState::Live,
                State::Stalled => StreamState::Stalled,
                State::Ended => StreamState::Ended,
            };
            reason.clone_into(&mut status.reason);
        });
    }

    /// Waits for a subscriber, and until it reads.
    fn await_first_reader(&self, until: &StopCondition) {
        while !until.is_over() && self.channel.counters().subscribers.get() == 0 {
            thread::sleep(LOOK_INTERVAL);
        }
        self.await_readers(READER_PATIENCE, until);
    }

    /// Waits until every subscriber has read everything; no longer than `patience` if there are some of which that is not seen.
    fn await_readers(&self, patience: Duration, until: &StopCondition) {
        let began = Instant::now();
        while !until.is_over() && began.elapsed() < patience {
            let subscribers = self.channel.counters().subscribers.get();
            if subscribers <= self.waker.waiting() as u64 {
                break;
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Informs readers that the recording has ended.
    fn end(mut self, reason: &str, until: &StopCondition) {
        self.await_readers(READER_PATIENCE, until);
        self.writer.set_state(State::Ended, reason);
        self.waker.wake();
        self.port.ended(reason);
        self.server.stop();
    }
}

/// The view's configuration, for listings.
fn view_config(info: &SegmentInfo, file: &Path) -> ViewConfig {
    // A layout whose parameters the recording lacks is listed as the default; the segment has its name.
    let config = ViewConfig::parse(&format!("layout = '{}'", info.layout)).unwrap_or_default();
    let mut gaze = config.gaze.clone();
    gaze.policy = Policy::Replay { log: file.to_owned() };
    ViewConfig {
        name: info.view.clone(),
        format: info.format,
        budget: u32::try_from(info.capacity).unwrap_or(u32::MAX),
        gaze,
        ..config
    }
}

/// Moves the times of a frame by as much as its publication.
fn move_to_now(head: &mut FrameHead, published_unix_ns: u64) {
    let by = monotonic_ns().wrapping_sub(head.publish_ns);
    let moved = |ns: u64| if ns == 0 { 0 } else { ns.wrapping_add(by) };
    let FrameStamp { capture_ns, arrival_ns, capture_unix_ns, .. } = &mut head.stamp;
    (*capture_ns, *arrival_ns) = (moved(*capture_ns), moved(*arrival_ns));
    *capture_unix_ns = capture_unix_ns.wrapping_add(unix_ns().wrapping_sub(published_unix_ns));
    head.asked_ns = moved(head.asked_ns);
    head.depth.capture_ns = moved(head.depth.capture_ns);
}

/// A pace, as an argument.
fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.01..=100.0).contains(factor));
    factor.ok_or_else(|| "a number from 0.01 to 100".to_owned())
}
