//! The configuration: parsed and checked once, then trusted by everything behind it.
//!
//! A file is strict TOML. Unknown keys, wrong types, values outside their range and combinations that make no
//! sense are refused, each with the file, the line, the key and what is allowed. `${NAME}` inside a string is
//! replaced by the credential of that name, a file in `$CREDENTIALS_DIRECTORY`, or else by that environment variable, so
//! that passwords need not be written down; `$${` is a literal `${`. `configs/default.toml` says what every key means.

use std::collections::BTreeMap;
use std::env::{self, VarError};
use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::document::Part;
use self::environment::Environment;
use foveate_core::token::{DType, Normalisation, TokenFormat};

mod calibration;
mod camera;
mod document;
mod environment;
mod error;
mod gaze;
mod keys;
mod values;

pub use calibration::{CalibrationError, load_calibration, parse_calibration};
pub use camera::CameraConfig;
pub use error::ConfigError;
pub use foveate_core::gaze::parameters::GazeParameters;
pub use gaze::{GazeChoice, GazeConfig};

/// Views that a stream may have, so that more can be opened.
pub const VIEWS_MAX: usize = 32;

fn read(file: &Path) -> Result<String, ConfigError> {
    fs::read_to_string(file).map_err(|source| ConfigError::unreadable(file, source))
}

/// The files `*.toml` in `directory`, in the order of their names.
fn additions_in(directory: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let failed = |source| ConfigError::unreadable(directory, source);
    let entries = fs::read_dir(directory).map_err(failed)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>();
    if let Ok(paths) = &mut paths {
        paths.retain(|path| is_addition(path));
        paths.sort();
    }
    paths.map_err(failed)
}

/// Hidden files are what editors leave behind.
fn is_addition(path: &Path) -> bool {
    let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    !is_hidden && path.extension().is_some_and(|extension| extension == "toml")
}

/// Everything that the daemon is told at its start.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What concerns the daemon as a whole.
    pub daemon: DaemonConfig,
    /// At least one stream; no two of one name.
    pub streams: Vec<StreamConfig>,
    secrets: Vec<String>,
}

/// `[daemon]`: what concerns the daemon as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonConfig {
    /// Where clients connect, an absolute path. Without it the runtime directory decides.
    pub socket: Option<PathBuf>,
    /// Who may connect: the mode of the socket.
    pub socket_mode: u32,
    /// The group that the socket belongs to: its name, or its number. Without it the daemon's own.
    pub socket_group: Option<String>,
    /// Where metrics are served over HTTP; nowhere without it.
    pub metrics: Option<SocketAddr>,
    /// Threads that work on one frame at the same time, its stream's own included, 1 to 64; the others serve all streams. Without
    /// it as many as the process has processors, up to four.
    pub threads: Option<u32>,
}

/// The mode of a socket for the user and the group of its daemon.
pub const SOCKET_MODE: u32 = 0o660;

impl Default for DaemonConfig {
    /// For the daemon's user and group, at the usual place.
    fn default() -> Self {
        Self {
            socket: None,
            socket_mode: SOCKET_MODE,
            socket_group: None,
            metrics: None,
            threads: None,
        }
    }
}

/// `[[stream]]`: one source of frames, and the views kept of it.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamConfig {
    /// 1 to 63 of a-z, 0-9, `_` and `-`.
    pub name: String,
    /// Where the frames come from.
    pub source: SourceChoice,
    /// Values for the `${name}` places of a pipeline.
    pub parameters: BTreeMap<String, String>,
    /// What happens to frames that come faster than they are taken.
    pub pace: Pace,
    /// Whether a file starts again when it has ended.
    pub looped: bool,
    /// How long an RTSP source may hold packets back for late ones, in milliseconds; `${latency_ms}` in a pipeline.
    pub latency_ms: u32,
    /// How long a source may take to say what its frames look like, in milliseconds.
    pub caps_timeout_ms: u32,
    /// Most frames a second that are taken, 0.01 to 1000; all where it is not given.
    pub max_fps: Option<f64>,
    /// After how long without a frame readers are told that the stream has stalled, in milliseconds.
    pub stall_timeout_ms: u32,
    /// Whether a camera or pipeline that was lost is opened again.
    pub restart: bool,
    /// After how long without a frame a camera or pipeline counts as lost, in milliseconds; 0 for never.
    pub restart_timeout_ms: u32,
    /// Whether the service is not ready before the stream has published a frame.
    pub required: bool,
    /// What keeps the pyramid.
    pub backend: BackendChoice,
    /// Part of the name of the Vulkan device to take; never with [`BackendChoice::Cpu`].
    pub device: Option<String>,
    /// What counts as a change of the picture.
    pub change: ChangeConfig,
    /// Where changes are found; never [`ChangeOn::Gpu`] with [`BackendChoice::Cpu`].
    pub change_on: ChangeOn,
    /// What is known of the camera.
    pub camera: Option<CameraConfig>,
    /// At least one view; no two of one name.
    pub views: Vec<ViewConfig>,
}

/// `[stream.change]`: what counts as a change of the picture. By default every change, however small, and no tile is
/// read again without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeConfig {
    /// The most by which a camera sample may differ from the one that the pyramid was built from.
    pub threshold: Threshold,
    /// Every tile is read again at least once in so many frames, at most 1000000.
    pub refresh_frames: Option<NonZeroU32>,
}

/// `[stream.change] on`: where frames are compared with the samples that the pyramid was built from. What is found is the
/// same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangeOn {
    /// On an integrated GPU, where the backend runs on one, otherwise on the CPU.
    #[default]
    Auto,
    /// On the CPU.
    Cpu,
    /// On the device that keeps the pyramid, which must share the CPU's memory.
    Gpu,
}

/// `threshold`, and with `"auto"` `threshold_limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// So many steps of 8 bits.
    Fixed(u8),
    /// As many as the noise of the camera needs.
    Auto {
        /// The most steps.
        limit: u8,
    },
}

impl Threshold {
    /// The limit where the file gives none. It bridges noise of two and a half steps (40 dB), as of a camera in poor
    /// light; where there is more, a picture that changes by a sixteenth of its range is worth more than rest.
    pub const LIMIT_DEFAULT: u8 = 16;
}

impl Default for Threshold {
    /// Every change counts.
    fn default() -> Self {
        Self::Fixed(0)
    }
}

/// `[[stream.view]]`: what one kind of consumer wants of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewConfig {
    /// 1 to 63 of a-z, 0-9, `_` and `-`.
    pub name: String,
    /// How the tokens lie over the image.
    pub layout: LayoutChoice,
    /// Most tokens of a frame, 1 to 5000.
    pub budget: u32,
    /// Patch side, number format and normalisation; [`Normalisation::NONE`] for [`DType::U8`].
    pub format: TokenFormat,
    /// The eccentricity at which tokens are twice as wide as at the fixation, in source pixels. Without it the
    /// layout decides from the source's extent.
    pub e0: Option<f64>,
    /// Token frames that the ring holds, 2 to 64.
    pub slots: u32,
    /// Most frames a second that are published, 0.01 to 1000; all where it is not given.
    pub max_fps: Option<f64>,
    /// When frames are published at all.
    pub publish: PublishChoice,
    /// Where the view looks.
    pub gaze: GazeConfig,
}

/// Where frames come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceChoice {
    /// `source`: `test`, a camera such as `/dev/video0`, an `rtsp://` or `rtsps://` URI, or a file.
    Shorthand(String),
    /// `pipeline`: a gst-launch description that ends in `appsink name=frames`.
    Pipeline(String),
    /// `pipeline_file`: a file that holds such a description.
    PipelineFile(PathBuf),
}

impl SourceChoice {
    /// What the configuration says, for listings.
    pub fn text(&self) -> String {
        match self {
            Self::Shorthand(text) | Self::Pipeline(text) => text.clone(),
            Self::PipelineFile(path) => path.display().to_string(),
        }
    }
}

/// What a [`SourceChoice::Shorthand`] can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShorthandKind {
    /// The test pattern.
    Test,
    /// A device of Video4Linux, by any of its names below `/dev`.
    Camera,
    /// A network camera.
    Rtsp,
    /// A path, or a `file://` URI.
    File,
}

impl ShorthandKind {
    /// What `source` is; `None` for a URI that no shorthand stands for.
    pub fn of(source: &str) -> Option<Self> {
        match source.split_once("://") {
            Some(("rtsp" | "rtsps", _)) => Some(Self::Rtsp),
            Some(("file", _)) => Some(Self::File),
            Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => None,
            _ if source == "test" => Some(Self::Test),
            _ if source.starts_with("/dev/") => Some(Self::Camera),
            _ => Some(Self::File),
        }
    }
}

/// What happens to frames that come faster than they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The newest frame wins and the others are counted as dropped.
    Realtime,
    /// The decoder waits. For files.
    EveryFrame,
}

/// What keeps the pyramid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendChoice {
    /// A real GPU if there is one, otherwise the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// A Vulkan device, or no start.
    Vulkan,
}

/// When a view publishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PublishChoice {
    /// Whether somebody reads it or not: who comes finds a fresh frame at once.
    #[default]
    Always,
    /// While somebody is subscribed to it. Nothing is computed for a stream none of whose views is read.
    WhenRead,
}

impl PublishChoice {
    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::WhenRead => "when-read",
        }
    }
}

/// How the tokens lie over the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutChoice {
    /// Fine around the fixation, coarser with distance.
    Foveal,
    /// One pyramid level, the finest that fits the budget.
    Uniform,
}

impl LayoutChoice {
    /// Its name in configurations and rings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Foveal => "foveal",
            Self::Uniform => "uniform",
        }
    }
}

impl Config {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or [refused](Config::parse).
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&read(path)?, path)
    }

    /// Reads and checks the file at `path`, and then the streams that the files `*.toml` in `directory` add, in the order of
    /// their names. Those hold nothing but `[[stream]]`; with them `path` need not have any. Hidden files are left alone.
    ///
    /// # Errors
    ///
    /// If a file or the directory cannot be read, a file is [refused](Config::parse), or two streams have one name.
    pub fn load_with(path: &Path, directory: &Path) -> Result<Self, ConfigError> {
        let environment = |name: &str| env::var(name);
        let mut config = Self::parse_part(&read(path)?, path, Part::First, &environment)?;
        let mut taken = config.names_in(path);
        for file in additions_in(directory)? {
            let part = Part::Further { taken: &taken };
            let added = Self::parse_part(&read(&file)?, &file, part, &environment)?;
            taken.extend(added.names_in(&file));
            config.streams.extend(added.streams);
            config.secrets.extend(added.secrets);
        }
        if config.streams.is_empty() {
            let (file, directory) = (path.to_owned(), directory.to_owned());
            return Err(ConfigError::NoStream { file, directory });
        }
        Ok(config)
    }

    /// Checks `text`. `file` names it in errors; relative paths in it start at the directory of `file`.
    ///
    /// # Errors
    ///
    /// If it is no TOML, or says what makes no sense, or needs an environment variable that is not set.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        Self::parse_in(text, file, |name| env::var(name))
    }

    /// Like [`Config::parse`], in an environment that the caller gives.
    ///
    /// # Errors
    ///
    /// As for [`Config::parse`].
    pub fn parse_in(
        text: &str,
        file: &Path,
        environment: impl Fn(&str) -> Result<String, VarError>,
    ) -> Result<Self, ConfigError> {
        Self::parse_part(text, file, Part::Whole, &environment)
    }

    fn parse_part(
        text: &str,
        file: &Path,
        part: Part<'_>,
        environment: &Environment<'_>,
    ) -> Result<Self, ConfigError> {
        let mut secrets = Vec::new();
        document::read(text, file, part, environment, &mut secrets)
            .map(|(daemon, streams)| Self { daemon, streams, secrets: secrets.clone() })
            .map_err(|refusal| refusal.at(text, file, &secrets))
    }

    /// The names of its streams, which all come from `file`.
    fn names_in(&self, file: &Path) -> BTreeMap<String, PathBuf> {
        self.streams.iter().map(|stream| (stream.name.clone(), file.to_owned())).collect()
    }

    /// The values that came from the environment or from credentials. They may be credentials: no log, error or listing may show them.
    pub fn secrets(&self) -> &[String] {
        &self.secrets
    }
}

impl Default for Config {
    /// The test pattern as stream `camera` with view `main`.
    fn default() -> Self {
        Self {
            daemon: DaemonConfig::default(),
            streams: vec![StreamConfig::default()],
            secrets: Vec::new(),
        }
    }
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            name: "camera".to_owned(),
            source: SourceChoice::Shorthand("test".to_owned()),
            parameters: BTreeMap::new(),
            pace: Pace::Realtime,
            looped: false,
            latency_ms: 100,
            caps_timeout_ms: 10_000,
            max_fps: None,
            stall_timeout_ms: 2_000,
            restart: true,
            restart_timeout_ms: 10_000,
            required: false,
            backend: BackendChoice::Auto,
            device: None,
            change: ChangeConfig::default(),
            change_on: ChangeOn::default(),
            camera: None,
            views: vec![ViewConfig::default()],
        }
    }
}

impl StreamConfig {
    /// After how long without a frame a camera or pipeline counts as lost; `None` for never.
    pub fn restart_timeout(&self) -> Option<Duration> {
        let timeout = Duration::from_millis(self.restart_timeout_ms.into());
        Some(timeout).filter(|timeout| !timeout.is_zero())
    }
}

impl ViewConfig {
    /// Checks the text of one view: what stands below `[[stream.view]]`, with tables such as `[gaze]`. Nothing is replaced by
    /// environment variables.
    ///
    /// # Errors
    ///
    /// If it is no TOML, or says what makes no sense.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let file = Path::new("view");
        document::read_view(text, Path::new("")).map_err(|refusal| refusal.at(text, file, &[]))
    }

    /// Bytes of the tokens of its ring.
    pub fn ring_bytes(&self) -> usize {
        self.slots as usize * self.budget as usize * self.format.token_bytes()
    }
}

impl Default for ViewConfig {
    fn default() -> Self {
        Self {
            name: "main".to_owned(),
            layout: LayoutChoice::Foveal,
            budget: 273,
            format: TokenFormat {
                patch_side: 16,
                dtype: DType::F16,
                normalisation: Normalisation::IMAGENET,
            },
            e0: None,
            slots: 8,
            max_fps: None,
            publish: PublishChoice::Always,
            gaze: GazeConfig::default(),
        }
    }
}
