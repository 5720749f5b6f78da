//! The configuration: read and checked once, then trusted by everything behind it.
//!
//! A file is strict TOML, and its tables are the types below: what serde writes of them can be read again. Unknown keys, wrong
//! types, values outside their range and combinations that make no sense are refused, all that are in a file at once, each with
//! the file, the line, the key and what is allowed. `${NAME}` inside a string is replaced by the credential of that name, a file
//! in `$CREDENTIALS_DIRECTORY`, or else by that environment variable, so that passwords need not be written down; `$${` is a
//! literal `${`. `configs/default.toml` says what every key means.

use std::collections::BTreeMap;
use std::env::{self, VarError};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::de::DeTable;

use self::environment::Environment;
use self::reader::{Mistakes, Table};
use foveate_core::backend::{BackendChoice, ChangeOn};
use foveate_core::change::ChangeConfig;
use foveate_core::gaze::GazeParameters;
use foveate_core::gaze::controller::Policy;
use foveate_core::gaze::log::GazeLogError;
use foveate_core::layout::Layout;
use foveate_core::token::TokenFormat;
use foveate_core::value::{
    Address, Location, Name, Parameter, Real, SocketMode, Text, Whole, checked, optional,
};
use foveate_core::view::{DEFAULT_BUDGET, ViewSpec};

mod calibration;
mod camera;
mod environment;
mod error;
mod reader;
mod settle;
mod writer;

pub use calibration::{CalibrationError, load_calibration, parse_calibration};
pub use camera::CameraConfig;
pub use error::{ConfigError, Mistake};

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

/// Which part of a configuration a file is.
#[derive(Clone, Copy)]
enum Part<'a> {
    /// All of it.
    Whole,
    /// The first, which may leave the streams to the others.
    First,
    /// Streams beside those of the files before.
    Further {
        /// Which file has a stream of that name already.
        taken: &'a BTreeMap<String, PathBuf>,
    },
}

/// Everything that the daemon is told at its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// What concerns the daemon as a whole.
    pub daemon: DaemonConfig,
    /// At least one stream; no two of one name.
    #[serde(rename = "stream")]
    pub streams: Vec<StreamConfig>,
    #[serde(skip)]
    secrets: Vec<String>,
}

/// `[daemon]`: what concerns the daemon as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DaemonConfig {
    /// Where clients connect, an absolute path. Without it the runtime directory decides.
    #[serde(deserialize_with = "optional::<Location, _, _>")]
    pub socket: Option<PathBuf>,
    /// Who may connect: the mode of the socket.
    #[serde(deserialize_with = "checked::<SocketMode, _, _>", serialize_with = "octal")]
    pub socket_mode: u32,
    /// The group that the socket belongs to: its name, or its number. Without it the daemon's own.
    #[serde(deserialize_with = "optional::<Text, _, _>")]
    pub socket_group: Option<String>,
    /// Where metrics are served over HTTP; nowhere without it.
    #[serde(deserialize_with = "optional::<Address, _, _>")]
    pub metrics: Option<SocketAddr>,
    /// Threads that work on one frame at the same time, its stream's own included, 1 to 64; the others serve all streams. Without
    /// it as many as the process has processors, up to four.
    #[serde(deserialize_with = "optional::<Whole<1, 64>, _, _>")]
    pub threads: Option<u32>,
}

/// The mode of a socket for the user and the group of its daemon.
pub const SOCKET_MODE: u32 = 0o660;

fn octal<S: Serializer>(mode: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{mode:04o}"))
}

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamConfig {
    /// 1 to 63 of a-z, 0-9, `_` and `-`.
    #[serde(deserialize_with = "checked::<Name, _, _>")]
    pub name: String,
    /// Where the frames come from.
    #[serde(rename = "+")]
    pub source: SourceChoice,
    /// Values for the `${name}` places of a pipeline.
    #[serde(deserialize_with = "parameters")]
    pub parameters: BTreeMap<String, String>,
    /// What happens to frames that come faster than they are taken.
    pub pace: Pace,
    /// Whether a file starts again when it has ended.
    #[serde(rename = "loop")]
    pub looped: bool,
    /// How long an RTSP source may hold packets back for late ones, in milliseconds; `${latency_ms}` in a pipeline.
    #[serde(deserialize_with = "checked::<Whole<0, 60_000>, _, _>")]
    pub latency_ms: u32,
    /// How long a source may take to say what its frames look like, in milliseconds.
    #[serde(deserialize_with = "checked::<Whole<100, 600_000>, _, _>")]
    pub caps_timeout_ms: u32,
    /// Most frames a second that are taken, 0.01 to 1000; all where it is not given.
    #[serde(deserialize_with = "optional::<Real<1, 100_000>, _, _>")]
    pub max_fps: Option<f64>,
    /// After how long without a frame readers are told that the stream has stalled, in milliseconds.
    #[serde(deserialize_with = "checked::<Whole<100, 600_000>, _, _>")]
    pub stall_timeout_ms: u32,
    /// Whether a camera or pipeline that was lost is opened again.
    pub restart: bool,
    /// After how long without a frame a camera or pipeline counts as lost, in milliseconds; 0 for never.
    #[serde(deserialize_with = "checked::<Whole<0, 3_600_000>, _, _>")]
    pub restart_timeout_ms: u32,
    /// Whether the service is not ready before the stream has published a frame.
    pub required: bool,
    /// What keeps the pyramid.
    pub backend: BackendChoice,
    /// Part of the name of the Vulkan device to take; never with [`BackendChoice::Cpu`].
    #[serde(deserialize_with = "optional::<Text, _, _>")]
    pub device: Option<String>,
    /// What counts as a change of the picture, and where changes are found.
    pub change: ChangeTable,
    /// What is known of the camera.
    pub camera: Option<CameraConfig>,
    /// At least one view; no two of one name.
    #[serde(rename = "view")]
    pub views: Vec<ViewConfig>,
}

fn parameters<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let parameters = BTreeMap::<String, Parameter>::deserialize(deserializer)?;
    Ok(parameters.into_iter().map(|(name, value)| (name, value.into())).collect())
}

/// `[stream.change]`: what counts as a change of the picture, and where changes are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangeTable {
    /// What counts.
    #[serde(rename = "+")]
    pub config: ChangeConfig,
    /// Where frames are compared; never [`ChangeOn::Gpu`] with [`BackendChoice::Cpu`].
    pub on: ChangeOn,
}

/// `[[stream.view]]`: what one kind of consumer wants of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ViewConfig {
    /// 1 to 63 of a-z, 0-9, `_` and `-`.
    #[serde(deserialize_with = "checked::<Name, _, _>")]
    pub name: String,
    /// How the tokens lie over the image.
    #[serde(rename = "+layout")]
    pub layout: Layout,
    /// Most tokens of a frame, 1 to 5000.
    #[serde(deserialize_with = "checked::<Whole<1, 5000>, _, _>")]
    pub budget: u32,
    /// Patch side, number format and normalisation; not normalised where it is bytes.
    #[serde(rename = "+")]
    pub format: TokenFormat,
    /// Token frames that the ring holds, 2 to 64.
    #[serde(deserialize_with = "checked::<Whole<2, 64>, _, _>")]
    pub slots: u32,
    /// Most frames a second that are published, 0.01 to 1000; all where it is not given.
    #[serde(deserialize_with = "optional::<Real<1, 100_000>, _, _>")]
    pub max_fps: Option<f64>,
    /// When frames are published at all.
    pub publish: PublishChoice,
    /// Where the view looks.
    pub gaze: GazeConfig,
}

/// `[stream.view.gaze]`: where a view looks, and how its eye moves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GazeConfig {
    /// Who chooses.
    #[serde(rename = "+policy")]
    pub policy: Policy<PathBuf>,
    /// How the eye moves.
    #[serde(rename = "+")]
    pub parameters: GazeParameters,
}

/// Where frames come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "SourceKeys", rename_all = "snake_case")]
pub enum SourceChoice {
    /// `source`: `test`, a camera such as `/dev/video0`, an `rtsp://` or `rtsps://` URI, or a file.
    #[serde(rename = "source")]
    Shorthand(String),
    /// `pipeline`: a gst-launch description that ends in `appsink name=frames`.
    Pipeline(String),
    /// `pipeline_file`: a file that holds such a description.
    PipelineFile(PathBuf),
}

/// The same, as it is read: exactly one of these.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SourceKeys {
    #[serde(deserialize_with = "optional::<Text, _, _>")]
    source: Option<String>,
    #[serde(deserialize_with = "optional::<Text, _, _>")]
    pipeline: Option<String>,
    #[serde(deserialize_with = "optional::<Location, _, _>")]
    pipeline_file: Option<PathBuf>,
}

impl From<SourceKeys> for SourceChoice {
    fn from(keys: SourceKeys) -> Self {
        match keys {
            SourceKeys { pipeline_file: Some(file), .. } => Self::PipelineFile(file),
            SourceKeys { pipeline: Some(pipeline), .. } => Self::Pipeline(pipeline),
            SourceKeys { source, .. } => Self::Shorthand(source.unwrap_or_default()),
        }
    }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// The newest frame wins and the others are counted as dropped.
    Realtime,
    /// The decoder waits. For files.
    EveryFrame,
}

/// When a view publishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
        let directory = file.parent().unwrap_or(Path::new(""));
        let prepare = |document: &mut DeTable<'_>, mistakes: &mut Mistakes| {
            environment::substitute(document, environment, &mut secrets, mistakes);
        };
        let settle = |config: &mut Self, table: &Table<'_>| config.settle(table, directory, part);
        let (config, mistakes) = reader::read::<Self>(text, prepare, settle);
        error::refused(mistakes, text, file, &secrets).map(|()| Self { secrets, ..config })
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

impl From<StreamConfig> for Config {
    /// A daemon with this stream alone.
    fn from(stream: StreamConfig) -> Self {
        Self { streams: vec![stream], ..Self::default() }
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
            change: ChangeTable::default(),
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
        Self::read(text, Path::new(""), None)
    }

    /// Checks the text of one view, which may have to keep its `name`.
    fn read(text: &str, directory: &Path, name: Option<&str>) -> Result<Self, ConfigError> {
        let settle = |view: &mut Self, table: &Table<'_>| {
            view.settle(table, directory);
            if name.is_some_and(|name| name != view.name) {
                table.refuse("name", "a view keeps its name: add a view to the file, or open one");
            }
        };
        let (view, mistakes) = reader::read::<Self>(text, |_, _| (), settle);
        error::refused(mistakes, text, Path::new("view"), &[]).map(|()| view)
    }

    /// Bytes of the tokens of its ring.
    pub fn ring_bytes(&self) -> usize {
        self.slots as usize * self.budget as usize * self.format.token_bytes()
    }
}

impl TryFrom<&ViewConfig> for ViewSpec {
    type Error = GazeLogError;

    /// Reads the gaze log, where there is one to replay.
    fn try_from(config: &ViewConfig) -> Result<Self, GazeLogError> {
        Ok(Self {
            layout: config.layout,
            budget: config.budget as usize,
            format: config.format,
            policy: config.gaze.policy.load()?,
            parameters: config.gaze.parameters,
        })
    }
}

impl Default for ViewConfig {
    fn default() -> Self {
        Self {
            name: "main".to_owned(),
            layout: Layout::default(),
            budget: DEFAULT_BUDGET,
            format: TokenFormat::default(),
            slots: 8,
            max_fps: None,
            publish: PublishChoice::Always,
            gaze: GazeConfig::default(),
        }
    }
}
