//! `foveate bench ring`: latency of token frames from the writer to the copies of readers in other processes.
//!
//! ```text
//!  this process                                   reader processes: `foveate bench ring-reader`
//!  Writer::publish, Waker::wake --> ring, wakes --> Subscription::next_frame, as in any Rust client
//!  Server, on a socket of its own <--------------- subscribe
//!  quantiles <------------------------------------ a line of times each, at the end
//! ```

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytemuck::Zeroable;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use self::reader::SeenFrame;
use self::report::RingReport;
use super::write_report;
use crate::ToolError;
use foveate_config::ViewConfig;
use foveate_core::backend::BackendKind;
use foveate_core::clock::monotonic_ns;
use foveate_core::frame::FrameStamp;
use foveate_core::geometry::extent::Extent;
use foveate_core::pixel::PixelFacts;
use foveate_core::token::{DType, TokenFormat};
use foveate_gaze::view::default_slot_count;
use foveate_ring::abi::SlotHeader;
use foveate_ring::{FrameHead, SegmentSpec, TokenFrame, TokenRecord, Waker, Writer, plane_list};
use foveate_server::directory::{Directory, StreamPort, StreamSpec};
use foveate_server::server::{Server, ServerLimits, SocketAccess};

pub(super) mod reader;
mod report;

const STREAM: &str = "bench";
const VIEW: &str = "ring";

/// Running and stopped readers together.
const CLIENTS_MAX: usize = 128;

/// Frames before the measurement, in which readers catch up and every slot is written.
const WARM_UP_FRAMES: u64 = 50;

const READER_TIMEOUT: Duration = Duration::from_secs(10);

/// Arguments of `foveate bench ring`.
#[derive(Debug, clap::Args)]
pub(super) struct RingBenchArguments {
    /// Bytes of texels per frame, 1536 to 16777216, rounded down to whole tokens of 1536 bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1536..=16_777_216), default_value_t = 419_328)]
    payload: u32,
    /// Reader processes, 0 to 64
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=64), default_value_t = 1)]
    readers: u16,
    /// Additional reader processes that are stopped (SIGSTOP) once they follow, 0 to 64
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=64), default_value_t = 0)]
    stopped: u16,
    /// Slots of the ring, 2 to 64 [default: as of a view with such frames]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=64))]
    slots: Option<u16>,
    /// Way in which the readers wait [default: measure each way]
    #[arg(long, value_name = "HOW", value_enum)]
    how: Option<WaitMethod>,
    /// Frames to measure, 1 to 1000000, after 50 warm-up frames
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), default_value_t = 2000)]
    frames: u32,
    /// Time from frame to frame, 0 to 1000000; 0 means as fast as possible
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(0..=1_000_000), default_value_t = 1000)]
    interval_us: u32,
    /// Print a line of JSON for each way of waiting
    #[arg(long)]
    json: bool,
}

/// How a reader waits for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum WaitMethod {
    /// Sleep on the futex word
    Futex,
    /// Poll the socket for the daemon's notice of each frame
    Notice,
    /// Busy-wait
    Spin,
}

/// Measures each requested way of waiting, and writes a report of each.
pub(super) fn run(arguments: &RingBenchArguments, out: &mut dyn Write) -> Result<(), ToolError> {
    let ways = arguments.how.map_or_else(
        || vec![WaitMethod::Futex, WaitMethod::Notice, WaitMethod::Spin],
        |how| vec![how],
    );
    for how in ways {
        let report = measure(arguments, how)?;
        write_report(out, arguments.json, &report, RingReport::write_text)?;
    }
    Ok(())
}

fn measure(arguments: &RingBenchArguments, how: WaitMethod) -> Result<RingReport, ToolError> {
    let mut stage = BenchDaemon::open(arguments)?;
    let followers = |count: u16| (0..count).map(|_| ReaderProcess::start(&stage.socket, how));
    let mut readers = followers(arguments.readers).collect::<Result<Vec<_>, _>>()?;
    let mut stopped = followers(arguments.stopped).collect::<Result<Vec<_>, _>>()?;
    // Readers get their segment with the first frame.
    stage.publish();
    for reader in readers.iter_mut().chain(&mut stopped) {
        // Its first line, after its first frame.
        reader.line()?;
    }
    for reader in &stopped {
        reader.stop()?;
    }
    let (mut publish_ns, mut wake_ns) = (Vec::new(), Vec::new());
    let interval = Duration::from_micros(arguments.interval_us.into());
    let mut next = Instant::now();
    for number in 0..WARM_UP_FRAMES + u64::from(arguments.frames) {
        let (publish, wake) = stage.publish();
        if WARM_UP_FRAMES <= number {
            publish_ns.push(publish);
            wake_ns.push(wake);
        }
        next += interval;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    stage.end();
    let seen = readers.into_iter().map(ReaderProcess::finish).collect::<Result<Vec<_>, _>>()?;
    let payload_bytes = stage.pixels.len();
    let beside_bytes = size_of::<SlotHeader>() + size_of_val(&*stage.records);
    let (bytes, times) = ([payload_bytes, payload_bytes + beside_bytes], [publish_ns, wake_ns]);
    let first_seq = stage.frame_seq - u64::from(arguments.frames) + 1;
    Ok(RingReport::new(how, arguments, bytes, times, &seen, first_seq))
}

/// Tokens of 16 x 16 texels in three half floats: 1536 bytes.
const TOKEN_FORMAT: TokenFormat =
    TokenFormat::new(16, DType::F16, foveate_core::token::Normalisation::NONE);

/// A minimal daemon: a server with one view of synthetic frames.
struct BenchDaemon {
    socket: PathBuf,
    port: StreamPort,
    writer: Writer,
    waker: Waker,
    records: Vec<TokenRecord>,
    pixels: Vec<u8>,
    /// 0 for each token, so that every frame is written completely.
    versions: Vec<u64>,
    /// Number of the newest frame.
    frame_seq: u64,
    _server: Server,
    _folder: TempDir,
}

impl BenchDaemon {
    fn open(arguments: &RingBenchArguments) -> Result<Self, ToolError> {
        let tokens = arguments.payload as usize / TOKEN_FORMAT.token_bytes();
        let folder = tempfile::Builder::new().prefix("foveate-bench-").tempdir();
        let folder = folder.map_err(|source| ToolError::writing(&env::temp_dir(), source))?;
        let socket = folder.path().join("foveate.sock");
        let directory = Directory::new().map_err(ToolError::RingBench)?;
        let view =
            ViewConfig { name: VIEW.to_owned(), format: TOKEN_FORMAT, ..ViewConfig::default() };
        let source = "synthetic".to_owned();
        let port = directory.add_stream(StreamSpec {
            name: STREAM.to_owned(),
            source,
            views: vec![view],
            is_recording: false,
            masks: Arc::default(),
        });
        let limits = ServerLimits { clients: CLIENTS_MAX, ..ServerLimits::default() };
        let server = Server::bind(&socket, Arc::clone(&directory), SocketAccess::default(), limits);
        let server = server.map_err(|error| ToolError::RingBench(io::Error::other(error)))?;
        let default = default_slot_count(tokens * TOKEN_FORMAT.token_bytes());
        let slots = arguments.slots.map_or(default, usize::from);
        let writer = Writer::create(&segment_spec(tokens, slots))?;
        let waker = Waker::new(&writer, port.views[0].subscribers())?;
        port.views[0].set_segment(writer.reader_fd()?, writer.epoch());
        Ok(Self {
            socket,
            port,
            writer,
            waker,
            records: vec![TokenRecord::zeroed(); tokens],
            pixels: vec![0; tokens * TOKEN_FORMAT.token_bytes()],
            versions: vec![0; tokens],
            frame_seq: 0,
            _server: server,
            _folder: folder,
        })
    }

    /// Publishes a frame, and wakes the readers. Returns the durations of both, in nanoseconds.
    fn publish(&mut self) -> (u64, u64) {
        self.frame_seq += 1;
        // Hot in cache, as after sampling; changed a little.
        self.pixels[..8].copy_from_slice(&self.frame_seq.to_le_bytes());
        let started_ns = monotonic_ns();
        self.writer.publish(&TokenFrame {
            head: FrameHead {
                stamp: FrameStamp {
                    capture_ns: started_ns,
                    arrival_ns: started_ns,
                    ..FrameStamp::numbered(self.frame_seq)
                },
                tile_count: 1,
                ..FrameHead::default()
            },
            records: &self.records,
            planes: plane_list([&self.pixels]),
            versions: &self.versions,
            whole_version: 0,
        });
        let published_ns = monotonic_ns();
        self.waker.wake();
        (published_ns - started_ns, monotonic_ns() - published_ns)
    }

    /// Ends the readers.
    fn end(&self) {
        self.port.ended("the measurement is complete");
    }
}

fn segment_spec(tokens: usize, slot_count: usize) -> SegmentSpec {
    SegmentSpec {
        stream: STREAM.to_owned(),
        view: VIEW.to_owned(),
        layout: "adaptive".to_owned(),
        format: TOKEN_FORMAT,
        capacity: tokens,
        grid: None,
        foveae: 1,
        extent: Extent::new(1920, 1080),
        pixel_format: "NV12".to_owned(),
        picture: PixelFacts::default(),
        backend: BackendKind::Cpu,
        device: "none".to_owned(),
        slot_count,
        camera: None,
        planes: Vec::new(),
        channels: None,
    }
}

/// A reader process.
struct ReaderProcess {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl ReaderProcess {
    fn start(socket: &Path, how: WaitMethod) -> Result<Self, ToolError> {
        let program = env::current_exe().map_err(ToolError::RingBench)?;
        let how = clap::ValueEnum::to_possible_value(&how).expect("no way of waiting is hidden");
        let mut process = Command::new(program)
            .arg("--socket")
            .arg(socket)
            .args(["bench", "ring-reader", "--how", how.get_name()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(ToolError::RingBench)?;
        let lines =
            BufReader::new(process.stdout.take().expect("the command starts it with a pipe"));
        Ok(Self { process, lines })
    }

    /// Stops the process, without ever continuing it.
    fn stop(&self) -> Result<(), ToolError> {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, Signal::STOP).map_err(|errno| ToolError::RingBench(errno.into()))
    }

    /// Waits for its end and its result.
    fn finish(mut self) -> Result<Vec<SeenFrame>, ToolError> {
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|error| ToolError::RingBench(error.into()))
    }

    fn line(&mut self) -> Result<String, ToolError> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => Err(ToolError::RingBench(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(line),
            Err(error) => Err(ToolError::RingBench(error)),
        }
    }
}

impl Drop for ReaderProcess {
    fn drop(&mut self) {
        // Fails if the process has exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
