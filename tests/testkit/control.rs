//! A daemon in miniature: a served directory with streams whose frames a test publishes by hand.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use foveate::messages::{Attend, AttendTokens, Inject, NumberFormat, ViewName, Weigh};
use foveate_config::{GazeConfig, ViewConfig};
use foveate_control::StreamState;
use foveate_core::backend::{BackendInfo, BackendKind, ChangeSite};
use foveate_core::frame::{CaptureClock, FrameStamp, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, FixationReason, Fixations};
use foveate_core::geometry::plan::Token;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_gaze::controller::Policy;
use foveate_ring::{FrameHead, SegmentSpec, TokenFrame, TokenRecord, Writer, plane_list};
use foveate_server::ServeError;
use foveate_server::directory::{Directory, StreamPort, StreamSpec};
use foveate_server::server::{Server, ServerLimits, SocketAccess};
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use serde_json::Value;

use crate::ring;
use crate::wait::{HANG, until};

/// The picture of every stream here.
pub const EXTENT: Extent = Extent::new(64, 48);

/// Limits that no test reaches unless it wants to.
pub const UNLIMITED: ServerLimits = ServerLimits {
    clients: 64,
    requests_per_second: 1_000_000,
    feedback_per_second: 1_000_000,
    views_per_client: 4,
    views_opened: 16,
    opened_tokens: 1 << 20,
    opened_frame_cost: 1 << 30,
    opened_bytes: 1 << 30,
};

/// A served directory of streams, in its own temporary folder.
pub struct Stage {
    pub directory: Arc<Directory>,
    pub server: Option<Server>,
    pub path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Stage {
    /// Serves an empty directory with limits that no test reaches unless it wants to.
    pub fn open() -> Self {
        Self::open_limited(UNLIMITED)
    }

    pub fn open_limited(limits: ServerLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run").join("foveate.sock");
        let directory = Directory::new().unwrap();
        let server =
            Server::bind(&path, Arc::clone(&directory), SocketAccess::default(), limits).unwrap();
        Self { directory, server: Some(server), path, _folder: folder }
    }

    /// Serves an empty directory on a socket that clients have connected to before, as under a service manager.
    pub fn with_waiting<T>(limits: ServerLimits, connect: impl FnOnce(&Path) -> T) -> (Self, T) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("foveate.sock");
        let listener = seqpacket_socket();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 256).unwrap();
        let waiting = connect(&path);
        let directory = Directory::new().unwrap();
        let server = Server::adopt(listener, Arc::clone(&directory), limits).unwrap();
        (Self { directory, server: Some(server), path, _folder: folder }, waiting)
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Adds a stream with views that has not started.
    pub fn stream(&self, name: &str, views: &[&str]) -> StreamPort {
        self.stream_of(name, views.iter().map(|view| view_config(view)).collect())
    }

    pub fn stream_of(&self, name: &str, views: Vec<ViewConfig>) -> StreamPort {
        add_stream(&self.directory, name, views)
    }

    /// Serves the directory again, like a restarted daemon. A program that another test starts has the lock of the server before
    /// until it runs.
    pub fn serve(&mut self, limits: ServerLimits) {
        until("the socket is free", || {
            let directory = Arc::clone(&self.directory);
            match Server::bind(&self.path, directory, SocketAccess::default(), limits) {
                Err(ServeError::InUse { .. }) => {}
                served => self.server = Some(served.unwrap()),
            }
            self.server.is_some()
        });
    }

    /// Adds a stream with views that is live, and the writer of its first view's first segment.
    pub fn live_stream(&self, name: &str, views: &[&str]) -> (StreamPort, Writer) {
        let port = self.stream(name, views);
        let writer = start(&port);
        (port, writer)
    }
}

pub fn add_stream(directory: &Directory, name: &str, views: Vec<ViewConfig>) -> StreamPort {
    let (name, source) = (name.to_owned(), format!("test pattern of {name}"));
    let masks = Arc::default();
    directory.add_stream(StreamSpec { name, source, views, is_recording: false, masks })
}

pub fn view_config(name: &str) -> ViewConfig {
    view_with(name, Policy::Fixed { x: 0.5, y: 0.5 })
}

/// A view of small frames.
pub fn view_with(name: &str, policy: Policy<PathBuf, PathBuf>) -> ViewConfig {
    let gaze = GazeConfig { policy, ..GazeConfig::default() };
    ViewConfig { name: name.to_owned(), budget: 4, format: FORMAT, gaze, ..ViewConfig::default() }
}

/// Reports the first frame of a stream: it is live, and its first view has a segment.
pub fn start(port: &StreamPort) -> Writer {
    port.update(|status| {
        status.state = StreamState::Live;
        status.format = Some(PixelFormat::Nv12);
        status.extent = Some(EXTENT);
        status.backend = Some(BackendInfo {
            kind: BackendKind::Cpu,
            device: "a processor".to_owned(),
            reason: "asked for".to_owned(),
            change_on: ChangeSite::Cpu,
        });
    });
    let writer = writer(port.views[0].name());
    port.views[0].set_segment(writer.reader_fd().unwrap(), writer.epoch());
    writer
}

pub fn writer(view: &ViewName) -> Writer {
    let (stream, view) = (view.stream().to_owned(), view.view().to_owned());
    Writer::create(&SegmentSpec { stream, view, ..segment_spec(FORMAT) }).unwrap()
}

/// The segment of a view of small frames, which are nothing special.
pub fn segment_spec(format: TokenFormat) -> SegmentSpec {
    SegmentSpec {
        format,
        foveae: 1,
        extent: EXTENT,
        device: "a processor".to_owned(),
        camera: None,
        planes: Vec::new(),
        ..ring::spec(4)
    }
}

const FORMAT: TokenFormat = TokenFormat::new(14, DType::U8, Normalisation::NONE);

/// Publishes two tokens whose texels all are `value`, as frame `frame_seq`.
pub fn publish(writer: &mut Writer, frame_seq: u64, value: u8) {
    publish_aged(writer, frame_seq, value, Duration::ZERO);
}

/// [`publish`] of a frame that was captured so long ago.
pub fn publish_aged(writer: &mut Writer, frame_seq: u64, value: u8, age: Duration) {
    let tokens = [Token::of_level(0, 14, 0), Token::of_level(1, 0, 14)];
    let records = tokens.map(|token| TokenRecord::new(token, EXTENT, 14, frame_seq, 1.0));
    let now = foveate_core::clock::monotonic_ns();
    let fixation = Fixation { id: 3, ..Fixation::at((32.0, 24.5), FixationReason::Policy) };
    writer.publish(&TokenFrame {
        head: FrameHead {
            stamp: FrameStamp {
                pts_ns: Some(40),
                capture_ns: now - u64::try_from(age.as_nanos()).unwrap(),
                capture_unix_ns: foveate_core::clock::unix_ns(),
                capture_clock: CaptureClock::RunningTime,
                arrival_ns: now,
                ..FrameStamp::numbered(frame_seq)
            },
            fixations: Fixations::from_iter([fixation]),
            sample_bound: 1,
            rgb_bound: 2,
            dirty_tiles: 1,
            tile_count: 4,
            ..FrameHead::default()
        },
        records: &records,
        planes: plane_list([&vec![value; 2 * FORMAT.token_bytes()]]),
        versions: &[0; 2],
        whole_version: 0,
    });
}

/// A connection that says whatever a test wants.
pub struct RawClient(pub OwnedFd);

impl RawClient {
    pub fn connect(path: &Path) -> Self {
        Self::try_connect(path).unwrap()
    }

    pub fn try_connect(path: &Path) -> rustix::io::Result<Self> {
        let socket = seqpacket_socket();
        let address = SocketAddrUnix::new(path)?;
        retry_on_intr(|| rustix::net::connect(&socket, &address))?;
        Ok(Self(socket))
    }

    pub fn send(&self, datagram: &[u8]) -> rustix::io::Result<()> {
        retry_on_intr(|| rustix::net::send(&self.0, datagram, SendFlags::NOSIGNAL)).map(drop)
    }

    /// Sends `datagram` with descriptors. Since Linux 6.16 the daemon's socket takes none, except from clients that connected before
    /// it served.
    pub fn send_descriptors(
        &self,
        datagram: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
        let parts = [IoSlice::new(datagram)];
        let flags = SendFlags::NOSIGNAL;
        retry_on_intr(|| rustix::net::sendmsg(&self.0, &parts, &mut control, flags)).map(drop)
    }

    /// The next datagram; empty after a hang-up.
    pub fn receive(&self) -> Vec<u8> {
        let mut buffer = vec![0; 1 << 18];
        let len = self.receive_into(&mut buffer).expect("the daemon answers");
        buffer.truncate(len);
        buffer
    }

    /// Waits for the next datagram, and returns its length; 0 after a hang-up.
    pub fn receive_into(&self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        let (_, len) =
            retry_on_intr(|| rustix::net::recv(&self.0, &mut *buffer, RecvFlags::empty()))?;
        Ok(len)
    }

    /// Sends `datagram` and returns the answer.
    pub fn ask(&self, datagram: &[u8]) -> Value {
        self.send(datagram).unwrap();
        serde_json::from_slice(&self.receive()).expect("the daemon answers in JSON")
    }
}

/// A socket that is not connected, with time limits against hangs. The kernel resumes no wait that has one: retry on `EINTR`.
pub fn seqpacket_socket() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    for direction in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, direction, Some(HANG)).unwrap();
    }
    socket
}

pub fn main_view() -> ViewName {
    "camera/main".parse().unwrap()
}

/// A map for `camera/main`.
pub fn attend(shape: [u32; 2], dtype: NumberFormat) -> Attend {
    Attend {
        view: main_view(),
        shape,
        dtype,
        region: None,
        frame: None,
        strict: false,
        homography: None,
        rotation: None,
        wait: false,
    }
}

/// Scores of the tokens of a frame of `camera/main`.
pub fn attend_tokens(frame: u64, dtype: NumberFormat) -> AttendTokens {
    let view = main_view();
    AttendTokens {
        view,
        frame,
        dtype,
        strict: false,
        homography: None,
        rotation: None,
        wait: false,
    }
}

/// A channel of one byte for `camera/main`.
pub fn inject(name: &str) -> Inject {
    let (view, name) = (main_view(), name.to_owned());
    let (shape, dtype) = ([1, 1], NumberFormat::U8);
    Inject { view, name, shape, dtype, region: None, frame: None, strict: false, ttl_ms: None }
}

/// The weight of a channel of `camera/main`.
pub fn weigh(name: &str, weight: f64) -> Weigh {
    Weigh { view: main_view(), weights: [(name.to_owned(), weight)].into() }
}
