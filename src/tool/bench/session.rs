//! One stream on one backend, which takes frames exactly as in the daemon.

use std::hint::black_box;
use std::path::PathBuf;

use super::eviction::Evictor;
use super::frames::{Frames, frame_bytes};
use super::{BenchArguments, view};
use crate::ToolError;
use foveate_config::{GazeConfig, ViewConfig};
use foveate_core::backend::BackendInfo;
use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::clock::{Span, monotonic_ns, processor_ns, unix_ns};
use foveate_core::frame::FrameStamp;
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_core::token::TokenFormat;
use foveate_engine::aligned::AlignedBytes;
use foveate_engine::backend::choice::StreamBackend;
use foveate_engine::segment::segment_of;
use foveate_engine::{Engine, Memory, SampledFrame, Sink, StageTimes, View};
use foveate_gaze::controller::Policy;
use foveate_gaze::view::ViewSpec;
use foveate_ring::{Items, Reader, SegmentSpec, TokenFrameBuf, Writer};

/// Frames before the first measurement: afterwards every slot of a ring is written and every kernel has run.
const FIRST_FRAMES: usize = 20;

/// Frame interval in stream time: 30 a second, however fast they are played.
const FRAME_NS: u64 = 1_000_000_000 / 30;

/// Frames before each run: other programs may have used the processor and its caches since the last one.
const WARM_UP_FRAMES: usize = 4;
const WARM_UP_NS: u64 = 20_000_000;

/// Destination of the token frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SinkChoice {
    /// Rings in shared memory, as in the daemon
    Ring,
    /// Memory of this process, as for users of the engine
    Memory,
}

/// A view's sink.
#[derive(Debug)]
enum BenchSink {
    Ring { writer: Writer, reader: Box<Reader> },
    Memory(Box<Memory>),
}

impl BenchSink {
    fn new(choice: SinkChoice, spec: &SegmentSpec) -> Result<Self, ToolError> {
        Ok(match choice {
            SinkChoice::Memory => Self::Memory(Box::default()),
            SinkChoice::Ring => {
                let writer = Writer::create(spec)?;
                let reader = Box::new(Reader::from_fd(writer.reader_fd()?)?);
                Self::Ring { writer, reader }
            }
        })
    }

    /// The newest token frame.
    fn newest(&mut self) -> Result<TokenFrameBuf, ToolError> {
        match self {
            Self::Memory(memory) => Ok(memory.frame().clone()),
            Self::Ring { reader, .. } => {
                let mut frame = TokenFrameBuf::default();
                reader.rewind();
                reader.read_newest(&mut frame)?;
                Ok(frame)
            }
        }
    }
}

impl Sink for BenchSink {
    fn begin(&mut self) -> Option<Items> {
        match self {
            Self::Memory(memory) => memory.begin(),
            Self::Ring { writer, .. } => Sink::begin(writer),
        }
    }

    fn publish(&mut self, frame: &SampledFrame<'_>) {
        match self {
            Self::Memory(memory) => memory.publish(frame),
            Self::Ring { writer, .. } => Sink::publish(writer, frame),
        }
    }
}

/// A stream after its first frames.
pub(super) struct BenchSession<'a> {
    frames: &'a Frames,
    engine: Engine,
    views: Vec<View<BenchSink>>,
    backend: BackendInfo,
    /// Name and version of the device's driver; `None` for the CPU.
    pub(super) driver: Option<String>,
    /// Name of the policy of the views.
    pub(super) policy: &'static str,
    evictor: Option<Evictor>,
    /// Frames so far.
    position: usize,
}

/// The times of one run.
#[derive(Debug, Default)]
pub(super) struct Measurements {
    /// Stage times of each frame.
    pub(super) times: Vec<StageTimes>,
    /// Processor time of all threads, in nanoseconds, for each frame.
    pub(super) processor_ns: Vec<u64>,
    /// Time to copy the samples of a frame, in nanoseconds, for each frame.
    pub(super) copies_ns: Vec<u64>,
    /// Dirty or refreshed tiles of all frames.
    pub(super) dirty_tiles: usize,
    /// Sampled tokens of all frames.
    pub(super) sampled_tokens: usize,
    /// Frames played before the first measured one.
    pub(super) warm_up: usize,
}

impl<'a> BenchSession<'a> {
    /// Builds everything that `arguments` ask for, with one policy on one backend, and plays the first frames.
    pub(super) fn open(
        arguments: &BenchArguments,
        frames: &'a Frames,
        policy: &Policy<PathBuf, PathBuf>,
        mut chosen: StreamBackend,
    ) -> Result<Self, ToolError> {
        let wanted = chosen.info().kind;
        let backend = chosen.build(frames.kind())?;
        let backend_info = chosen.info().clone();
        if backend_info.kind != wanted {
            return Err(ToolError::FellBack(backend_info.reason));
        }
        let change = ChangeConfig {
            threshold: Threshold::Fixed(arguments.threshold),
            refresh_frames: arguments.refresh,
        };
        let engine = Engine::new(backend, change, 1);
        let measured = view(arguments)?;
        let views = (0..arguments.views.into()).map(|index| {
            let (name, gaze) = (format!("view-{index}"), gaze_of(index, policy));
            let config = ViewConfig { name, gaze, ..measured.clone() };
            let spec = ViewSpec::try_from(&config)?;
            let segment = segment_of(&spec, "bench", &config.name, frames.kind(), &backend_info);
            let segment = SegmentSpec { slot_count: config.slot_count(), ..segment };
            Ok(engine.view(spec, BenchSink::new(arguments.sink, &segment)?)?)
        });
        let views = views.collect::<Result<Vec<_>, ToolError>>()?;
        let evictor = arguments.cold.then(Evictor::new);
        let mut session = Self {
            frames,
            engine,
            views,
            backend: backend_info,
            driver: None,
            policy: policy.name(),
            evictor,
            position: 0,
        };
        for _ in 0..FIRST_FRAMES {
            session.run_frame()?;
        }
        Ok(session)
    }

    /// Index of the frame played last.
    pub(super) fn newest_index(&self) -> usize {
        self.frames.index_at(self.position - 1)
    }

    /// Number format of the tokens.
    pub(super) fn format(&self) -> TokenFormat {
        self.views[0].spec().format
    }

    /// The backend in use.
    pub(super) fn backend(&self) -> &BackendInfo {
        &self.backend
    }

    /// Tokens of all views.
    pub(super) fn token_count(&self) -> usize {
        self.views.iter().map(|view| view.planes().plan().tokens.len()).sum()
    }

    /// Tiles of a frame.
    pub(super) fn tile_count(&self) -> usize {
        self.frames.kind().extent.in_cells(TILE_SIDE).area()
    }

    /// The frames that it plays.
    pub(super) fn frames(&self) -> &Frames {
        self.frames
    }

    /// The newest token frame of each view.
    pub(super) fn newest(&mut self) -> Result<Vec<TokenFrameBuf>, ToolError> {
        self.views.iter_mut().map(|view| view.sink.newest()).collect()
    }

    /// Plays warm-up frames, then measures `count` frames.
    pub(super) fn measure(&mut self, count: usize) -> Result<Measurements, ToolError> {
        let mut samples = Measurements::default();
        // Memory for the results is allocated before anything is timed.
        samples.times.reserve(count);
        samples.processor_ns.reserve(count);
        let start_ns = monotonic_ns();
        while samples.warm_up < WARM_UP_FRAMES || Span::since(start_ns).ns() < WARM_UP_NS {
            self.run_frame()?;
            samples.warm_up += 1;
        }
        for _ in 0..count {
            if let Some(evictor) = &mut self.evictor {
                evictor.evict();
            }
            let before_ns = processor_ns();
            self.run_frame()?;
            samples.processor_ns.push(processor_ns() - before_ns);
            samples.times.push(self.engine.times());
            samples.dirty_tiles += self.engine.tracker().ingested().count();
            let sampled = self.views.iter().map(|view| view.planes().stale().len());
            samples.sampled_tokens += sampled.sum::<usize>();
        }
        samples.copies_ns = self.copies_ns(count);
        Ok(samples)
    }

    /// Takes the next frame through the stages.
    fn run_frame(&mut self) -> Result<(), ToolError> {
        let view = self.frames.view(self.frames.index_at(self.position));
        self.position += 1;
        let (frame_seq, now_ns) = (self.position as u64, monotonic_ns());
        let stamp = FrameStamp {
            pts_ns: Some(frame_seq * FRAME_NS),
            capture_ns: now_ns,
            capture_unix_ns: unix_ns(),
            arrival_ns: now_ns,
            ..FrameStamp::numbered(frame_seq)
        };
        Ok(self.engine.step(&view, &stamp, &mut self.views)?)
    }

    /// Times to copy the samples of `count` frames to the same place, as change detection compares them with one place.
    fn copies_ns(&mut self, count: usize) -> Vec<u64> {
        let mut target = AlignedBytes::new(frame_bytes(self.frames.kind()));
        let mut copy = |position: usize, evictor: &mut Option<Evictor>| {
            if let Some(evictor) = evictor {
                evictor.evict();
            }
            let source = &self.frames.buffers()[self.frames.index_at(position)];
            let start_ns = monotonic_ns();
            target.copy_from_slice(black_box(source));
            black_box(&mut target);
            Span::since(start_ns).ns()
        };
        // The first copy faults in the pages of the target.
        copy(0, &mut None);
        (0..count).map(|position| copy(position, &mut self.evictor)).collect()
    }
}

/// The gaze of view `index` with `policy`. With `fixed` each view has a point of its own: the first the centre, the others spread
/// evenly by a quasirandom sequence of the plastic number (Roberts, "The Unreasonable Effectiveness of Quasirandom Sequences", 2018).
fn gaze_of(index: usize, policy: &Policy<PathBuf, PathBuf>) -> GazeConfig {
    const STEPS: [f64; 2] = [0.754_877_666_246_693, 0.569_840_290_998_053];
    let [x, y] = STEPS.map(|step| (0.5 + step * index as f64).fract());
    let policy = match policy {
        Policy::Fixed { .. } => Policy::Fixed { x, y },
        policy => policy.clone(),
    };
    GazeConfig { policy, ..GazeConfig::default() }
}
