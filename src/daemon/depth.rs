//! The depth of a stream: takes pictures of the second pipeline as they arrive, and gives each frame the one nearest in time.
//!
//! A frame never waits for depth, except where both are files whose decoders wait too: there the same pictures are paired in every
//! run. What depth does, ends or fails at never ends the stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use foveate_capture::reconnecting::{ReconnectingSource, SourceEvent};
use foveate_capture::{CaptureError, CapturedFrame, End, Pace, SourceSpec};
use foveate_config::{DepthConfig, ShorthandKind, SourceChoice, StreamConfig};
use foveate_control::{DepthListing, StreamState};
use foveate_core::depth::pairing::{ClipRounds, Moment, Pairing, WAITING_MAX};
use foveate_core::depth::{DepthScale, DepthStamp};
use foveate_core::frame::{FrameStamp, FrameTime};
use foveate_engine::depth::DepthPicture;
use foveate_log::redact::redacted;
use foveate_server::directory::StreamPort;
use foveate_stats::StreamCounters;

/// How long a frame waits for depth before the stream checks whether to stop.
const WAIT_SLICE: Duration = Duration::from_millis(100);

/// Reason if frames of files no longer wait for depth.
const TOO_SLOW: &str = "the depth pipeline is too slow; the stream continues without depth";

/// Reason if frames are published without depth although depth arrives.
const APART: &str = "no depth picture within `bound_ms` of a frame: check their clocks, delays and the lengths of clips";

/// Pictures of depth, paired with the frames of a stream.
#[derive(Debug)]
pub(super) struct DepthInlet {
    stream: String,
    source: ReconnectingSource,
    /// Counters of the depth pipeline, apart from the stream's.
    own: Arc<StreamCounters>,
    pairing: Pairing<CapturedFrame>,
    /// Pictures that waited, and were dropped before any frame took them.
    unused: u64,
    scale: DepthScale,
    frame_rounds: ClipRounds,
    depth_rounds: ClipRounds,
    /// Whether pictures are paired by the time in their clips, as neither pipeline is live.
    by_stream_time: bool,
    frame_wait: FrameWait,
    /// Time without a picture after which it is listed as stalled.
    stall_timeout: Duration,
    newest: Option<Instant>,
    gap: PairingGap,
    state: StreamState,
}

/// Whether frames wait for their depth picture.
#[derive(Debug)]
enum FrameWait {
    /// Frames never wait: one of the pipelines is live.
    Never,
    /// Both pipelines play files: a frame waits for its picture, for `max` at most.
    ForPicture {
        max: Duration,
        /// Whether a frame has timed out. Later frames do not wait until another depth picture has arrived.
        is_too_slow: bool,
        /// The source to open instead if depth turns out to be live; `None` if the configuration excludes that.
        if_live: Option<Box<SourceSpec>>,
    },
}

/// The time since a frame last got depth, and the counts of frames with and without depth at that time.
#[derive(Debug)]
struct PairingGap {
    since: Instant,
    paired: u64,
    unpaired: u64,
    is_logged: bool,
}

impl PairingGap {
    fn since_now(port: &StreamPort) -> Self {
        let counters = port.counters();
        let (paired, unpaired) = (counters.depth_paired.get(), counters.depth_unpaired.get());
        Self { since: Instant::now(), paired, unpaired, is_logged: false }
    }
}

impl DepthInlet {
    /// The depth of the stream of `config`; `None` if it has none. Lists it at `port`.
    pub(super) fn new(config: &StreamConfig, port: &StreamPort) -> Option<Self> {
        let (spec, depth) = (config.depth_source()?, config.depth.as_ref()?);
        let own = Arc::<StreamCounters>::default();
        // The frames of two clips lead, so that neither runs ahead, however often they start over.
        let are_clips = are_clips(config, depth);
        let if_live = (are_clips && spec.pace == Pace::Realtime).then(|| Box::new(spec.clone()));
        let pace = if are_clips { Pace::EveryFrame } else { spec.pace };
        let spec = SourceSpec { pace, ..spec };
        let frame_wait = match pace {
            Pace::EveryFrame => {
                FrameWait::ForPicture { max: spec.caps_timeout, is_too_slow: false, if_live }
            }
            Pace::Realtime => FrameWait::Never,
        };
        let source = redacted(&depth.source.text());
        port.update(|status| {
            let state = StreamState::Starting;
            status.depth = Some(DepthListing { source, state, reason: String::new() });
        });
        Some(Self {
            stream: config.name.clone(),
            source: ReconnectingSource::new(&spec, port.masks(), &own),
            own,
            pairing: Pairing::new(depth.bound_ns()),
            unused: 0,
            scale: depth.scale(),
            frame_rounds: ClipRounds::default(),
            depth_rounds: ClipRounds::default(),
            by_stream_time: false,
            frame_wait,
            stall_timeout: Duration::from_millis(config.stall_timeout_ms.into()),
            newest: None,
            gap: PairingGap::since_now(port),
            state: StreamState::Starting,
        })
    }

    /// Takes the pictures that have arrived, without waiting.
    pub(super) fn poll(&mut self, port: &StreamPort) {
        // A clip's pictures wait for their frame, which takes them, so that the decoder does not run ahead.
        let is_live = matches!(self.frame_wait, FrameWait::Never);
        if is_live {
            for _ in 0..WAITING_MAX {
                if !self.receive(Duration::ZERO, port) {
                    break;
                }
            }
        }
        // A clip waits for the frames, so it cannot stall.
        let silent = self.newest.map(|newest| newest.elapsed()).filter(|_| is_live);
        if self.state == StreamState::Live
            && silent.is_some_and(|silent| self.stall_timeout < silent)
        {
            let reason = format!("no depth picture for {} s", self.stall_timeout.as_secs_f64());
            self.enter(StreamState::Stalled, &reason, port);
        }
        self.watch_pairing(port);
        self.count(port);
    }

    /// Says when pictures come, and frames do without for too long all the same.
    fn watch_pairing(&mut self, port: &StreamPort) {
        let counters = port.counters();
        if counters.depth_paired.get() != self.gap.paired {
            if self.gap.is_logged {
                self.enter(StreamState::Live, "", port);
            }
            self.gap = PairingGap::since_now(port);
        } else if self.state == StreamState::Live
            && !self.gap.is_logged
            && self.stall_timeout < self.gap.since.elapsed()
            && self.gap.unpaired < counters.depth_unpaired.get()
        {
            self.gap.is_logged = true;
            tracing::warn!(
                stream = self.stream,
                reason = APART,
                "frames are published without depth"
            );
            self.enter(StreamState::Live, APART, port);
        }
    }

    /// The moment of a frame of pictures. `is_live` says whether its pipeline is.
    pub(super) fn moment(&mut self, stamp: &FrameStamp, is_live: bool) -> Moment {
        let by_stream_time = !is_live && !self.source.is_live();
        if std::mem::replace(&mut self.by_stream_time, by_stream_time) != by_stream_time {
            let rounds = &mut self.depth_rounds;
            (self.frame_rounds, *rounds) = Default::default();
            self.pairing.retime(|frame| moment(&frame.stamp(), by_stream_time, rounds));
        }
        moment(stamp, by_stream_time, &mut self.frame_rounds)
    }

    /// If pictures and depth both come from files, waits until it is known which depth picture a frame of `at` has, as long as `goes_on`.
    pub(super) fn wait(&mut self, at: Moment, port: &StreamPort, goes_on: impl Fn() -> bool) {
        let started_at = Instant::now();
        while let FrameWait::ForPicture { is_too_slow: was_too_slow, .. } = self.frame_wait
            && !self.pairing.is_settled(at)
            && self.state != StreamState::Ended
            && goes_on()
        {
            let slice = if was_too_slow { Duration::ZERO } else { WAIT_SLICE };
            if self.receive(slice, port) {
                continue;
            }
            if was_too_slow {
                return;
            }
            if let FrameWait::ForPicture { max, is_too_slow, .. } = &mut self.frame_wait
                && *max < started_at.elapsed()
            {
                *is_too_slow = true;
                tracing::warn!(stream = self.stream, reason = TOO_SLOW, "depth is late");
                return self.enter(StreamState::Stalled, TOO_SLOW, port);
            }
        }
    }

    /// The picture of a frame of `at`, and counts whether there is one.
    pub(super) fn pair(
        &mut self,
        at: Moment,
        mask_revision: u64,
        port: &StreamPort,
    ) -> Option<DepthPicture<'_>> {
        let counters = port.counters();
        let (found, dropped) = self.pairing.pair(at);
        self.unused += dropped;
        // A picture filled by other masks may show what the frame's masks hide.
        let found = found.filter(|frame| frame.mask_revision() == mask_revision);
        // The source has checked that it can be read.
        let picture = found.and_then(|frame| {
            let stamp = frame.stamp();
            let stamp = DepthStamp { capture_ns: stamp.capture_ns, frame_seq: stamp.frame_seq };
            Some(DepthPicture { view: frame.depth().ok()?, scale: self.scale, stamp })
        });
        let counter =
            if picture.is_some() { &counters.depth_paired } else { &counters.depth_unpaired };
        counter.add(1);
        picture
    }

    /// Takes one picture or event, waiting up to `timeout`; false if there was none.
    fn receive(&mut self, timeout: Duration, port: &StreamPort) -> bool {
        match self.source.next_event(timeout) {
            SourceEvent::Frame(frame) => {
                self.add(frame, port);
                return true;
            }
            SourceEvent::Nothing | SourceEvent::Corrupted => {}
            SourceEvent::Lost(loss) => {
                let reason = loss.to_string();
                if loss.attempt.is_power_of_two() {
                    tracing::warn!(stream = self.stream, reason, "the stream has lost its depth");
                }
                port.counters().depth_lost.add(1);
                self.enter(StreamState::Stalled, &reason, port);
            }
            SourceEvent::Ended(_) if self.state == StreamState::Ended => {}
            SourceEvent::Ended(end) => {
                let is_live = end == End::Failed(CaptureError::EveryFrameLive);
                if let FrameWait::ForPicture { if_live: Some(spec), .. } = &self.frame_wait
                    && is_live
                {
                    self.source = ReconnectingSource::new(spec, port.masks(), &self.own);
                    self.frame_wait = FrameWait::Never;
                    return false;
                }
                let reason = match end {
                    End::Eos => "end of file".to_owned(),
                    End::Failed(error) => redacted(&error.to_string()),
                };
                tracing::warn!(stream = self.stream, reason, "the depth of the stream has ended");
                port.counters().depth_lost.add(1);
                self.enter(StreamState::Ended, &reason, port);
            }
        }
        false
    }

    fn add(&mut self, frame: CapturedFrame, port: &StreamPort) {
        let at = moment(&frame.stamp(), self.by_stream_time, &mut self.depth_rounds);
        let (is_late, has_dropped) = self.pairing.add(at, frame);
        port.counters().depth_late.add(is_late.into());
        self.unused += u64::from(has_dropped);
        self.newest = Some(Instant::now());
        if let FrameWait::ForPicture { is_too_slow, .. } = &mut self.frame_wait {
            *is_too_slow = false;
        }
        if self.state != StreamState::Live {
            tracing::info!(stream = self.stream, "depth is arriving");
            self.gap = PairingGap::since_now(port);
            self.enter(StreamState::Live, "", port);
        }
    }

    fn enter(&mut self, state: StreamState, reason: &str, port: &StreamPort) {
        self.state = state;
        port.update(|status| {
            if let Some(depth) = &mut status.depth {
                depth.state = state;
                reason.clone_into(&mut depth.reason);
            }
        });
    }

    /// Publishes what was counted elsewhere.
    fn count(&self, port: &StreamPort) {
        let (counters, own) = (port.counters(), &self.own);
        counters.depth_captured.set(own.frames_captured.get());
        counters.depth_process.set(own.source_process.get());
        let lost = own.frames_dropped.get() + own.frames_refused.get() + own.frames_corrupted.get();
        counters.depth_dropped.set(self.unused + lost);
    }
}

/// Whether pictures and depth are both played from files, as far as that is known. With `loop`, a pipeline is expected to have an end.
fn are_clips(config: &StreamConfig, depth: &DepthConfig) -> bool {
    let is_clip = |source: &SourceChoice| source.kind().map(ShorthandKind::is_clip);
    config.capture.live != Some(true)
        && is_clip(&config.capture.source).unwrap_or(false)
        && is_clip(&depth.source).unwrap_or(config.capture.looped)
}

/// The moment by which a picture is paired. Only clips start over.
fn moment(stamp: &FrameStamp, by_stream_time: bool, rounds: &mut ClipRounds) -> Moment {
    if by_stream_time {
        rounds.moment(FrameTime::of(stamp).time_ns)
    } else {
        Moment { round: 0, ns: stamp.capture_ns }
    }
}
