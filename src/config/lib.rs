//! The configuration: read and checked once, then trusted.
//!
//! A file is strict TOML, and its tables are the types below: the function `keys` of each names its keys. Unknown keys, wrong
//! types, values out of range and contradictory keys are errors. All errors of a file are reported at once, each with file,
//! line, key and what is allowed. `${NAME}` inside a string is replaced by the credential of that name, a file in
//! `$CREDENTIALS_DIRECTORY`, or else by that environment variable, so that passwords need not be in the file; `$${` is
//! a literal `${`. `configs/default.toml` documents every key.

use std::collections::BTreeMap;
use std::env::{self, VarError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use toml::de::DeTable;

use self::environment::Environment;
use self::reader::{KnownTable, Mistakes, Table};
use foveate_core::backend::{BackendChoice, ChangeOn};
use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::channel::CELLS_MAX;
use foveate_core::depth::DepthDetail;
use foveate_core::file;
use foveate_core::source::Content;
use foveate_core::token::TokenFormat;
use foveate_core::value::{self, ConfigValue, Keys, one_of, path, real, switch, text, whole};

use foveate_gaze::GazeParameters;
use foveate_gaze::controller::Policy;
use foveate_gaze::controller::PolicyFileError;
use foveate_gaze::layout::Layout;
use foveate_gaze::view::{DEFAULT_BUDGET, ViewSpec, channel_names, default_slot_count};

mod calibration;
mod camera;
mod depth;
mod environment;
mod error;
mod reader;
mod validate;
mod writer;

pub use calibration::CalibrationError;
pub use camera::CameraConfig;
pub use depth::DepthConfig;
pub use environment::Secrets;
pub use error::{ConfigError, Mistake};
pub use foveate_core::source::{
    CorruptedFrames, Orientation, Pace, ShorthandKind, SourceChoice, SourceSpec, Tls,
};

/// Longest file of a configuration, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Cost of the depth of a texel beyond its bytes, as the number of bytes of texels that take as long, at about 2 ns each: 80 ns to measure
/// and encode the depth pixels below a texel.
const TEXEL_DEPTH_COST: usize = 28;

/// Cost of the box of a token, in the unit of [`TEXEL_DEPTH_COST`]: 9 µs for 25 rays through a distorting lens.
const BOX_COST: usize = 4096;

/// Most streams of a daemon: each has about six threads.
const STREAMS_MAX: usize = 256;

/// A configuration with each table.
const TABLES: &str = "daemon = {}
[[stream]]
limits = {}
change = {}
camera = {}
depth = {}
mask = [{}]
view = [{ gaze = {} }]";

/// The tables of a configuration with their keys.
static KNOWN_TABLES: LazyLock<Vec<KnownTable>> =
    LazyLock::new(|| reader::known_keys(TABLES, |keys| Config::default().keys(keys)));

/// The text of a file, which is waited for, as a pipe's is.
fn wait_for_text(file: &Path) -> Result<String, ConfigError> {
    file::wait_for_text(file, FILE_BYTES_MAX)
        .map_err(|source| ConfigError::unreadable(file, source))
}

/// The text of a file that must be there at once.
fn read_text(file: &Path) -> Result<String, ConfigError> {
    file::read_text(file, FILE_BYTES_MAX).map_err(|source| ConfigError::unreadable(file, source))
}

/// The files `*.toml` in `directory`, ordered by name.
fn additions_in(directory: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let listed = file::list(directory);
    let mut paths = listed.map_err(|source| ConfigError::unreadable(directory, source))?;
    paths.retain(|path| is_addition(path));
    paths.sort();
    Ok(paths)
}

/// Hidden files are editors' backups.
fn is_addition(path: &Path) -> bool {
    let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    !is_hidden && path.extension().is_some_and(|extension| extension == "toml")
}

/// The part of a configuration that a file holds.
#[derive(Clone, Copy)]
enum TextPart<'a> {
    /// The whole configuration.
    Whole,
    /// The first file, which need not have streams.
    First,
    /// Streams in addition to those of earlier files.
    Further {
        /// The names of the streams so far, each with its file.
        taken: &'a BTreeMap<String, PathBuf>,
    },
}

/// The whole configuration of a daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[daemon]`.
    pub daemon: DaemonConfig,
    /// The streams, at least one; names are unique.
    pub streams: Vec<StreamConfig>,
    /// Secrets of everything but the streams.
    secrets: Secrets,
}

/// `[daemon]`: settings of the daemon as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonConfig {
    /// Path of the control socket, absolute; by default in the runtime directory.
    pub socket: Option<PathBuf>,
    /// Mode of the socket, which decides who may connect.
    pub socket_mode: u32,
    /// Group of the socket, by name or number; by default the daemon's own.
    pub socket_group: Option<String>,
    /// Address at which metrics are served over HTTP; `None` serves none.
    pub metrics: Option<SocketAddr>,
    /// Host names, besides `localhost` and addresses, under which scrapers may ask for them.
    pub metrics_hosts: Vec<String>,
    /// Threads that work on one frame at a time, 1 to 64: the stream's own, and helpers that all streams share. By
    /// default one per processor, up to four.
    pub threads: Option<u32>,
}

/// Default mode of the socket: the daemon's user and group may connect.
pub const SOCKET_MODE: u32 = 0o660;

/// Who may connect to a socket. The daemon's own user needs both bits: otherwise nobody could tell a running daemon from a dead one.
fn socket_mode(given: &ConfigValue) -> Result<u32, String> {
    let is_for_sockets = |mode: &u32| mode & !0o666 == 0 && mode & 0o600 == 0o600;
    let digits = given.text().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let mode = digits.and_then(|digits| u32::from_str_radix(digits, 8).ok()).filter(is_for_sockets);
    let allowed = "a mode in octal digits, of reading and writing, such as \"0660\" or \"0600\"";
    given.expect(mode, allowed)
}

/// An address to listen on for HTTP.
fn address(given: &ConfigValue) -> Result<SocketAddr, String> {
    let allowed = "an IP address and a port, such as \"127.0.0.1:9187\" or \"[::1]:9187\"";
    given.expect(given.text().and_then(|text| text.parse().ok()), allowed)
}

fn host_names(given: &ConfigValue) -> Result<Vec<String>, String> {
    let names = given.list(|given| given.text().map(str::to_owned));
    given.expect(names, "a list of host names, such as [\"robot.local\"]")
}

impl DaemonConfig {
    fn keys(&mut self, keys: &mut dyn Keys) {
        keys.optional("socket", &mut self.socket, path);
        let mode = Some(format!("{:04o}", self.socket_mode).into());
        keys.value("socket_mode", mode, &mut |given| {
            socket_mode(given).map(|mode| self.socket_mode = mode)
        });
        keys.optional("socket_group", &mut self.socket_group, text);
        keys.optional("metrics", &mut self.metrics, address);
        keys.key("metrics_hosts", &mut self.metrics_hosts, host_names);
        keys.optional("threads", &mut self.threads, whole(1..=64));
    }
}

impl Default for DaemonConfig {
    /// A socket for the daemon's user and group, at the default path.
    fn default() -> Self {
        Self {
            socket: None,
            socket_mode: SOCKET_MODE,
            socket_group: None,
            metrics: None,
            metrics_hosts: Vec::new(),
            threads: None,
        }
    }
}

/// `[[stream]]`: one source of frames, and its views.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamConfig {
    /// 1 to 63 of a-z, 0-9, `_` and `-`.
    pub name: String,
    /// The source of its frames; the name and the content that it has are not read.
    pub capture: SourceSpec,
    /// Time without a frame after which the stream counts as stalled, in milliseconds.
    pub stall_timeout_ms: u32,
    /// Whether the service is ready only once the stream has published a frame.
    pub required: bool,
    /// The backend that keeps the pyramid.
    pub backend: BackendChoice,
    /// Part of the name of the Vulkan device; never with [`BackendChoice::Cpu`].
    pub device: Option<String>,
    /// Change detection: the threshold, and the device that finds changes.
    pub change: ChangeTable,
    /// Whether events in its pictures are looked for.
    pub events: bool,
    /// Whether the motion of the picture is computed and published even if no view looks by it.
    pub motion: bool,
    /// Calibration and pose of the camera.
    pub camera: Option<CameraConfig>,
    /// The source of depth beside the pictures.
    pub depth: Option<DepthConfig>,
    /// The views, at least one; names are unique.
    pub views: Vec<ViewConfig>,
    /// Texts of the stream that no log, error or listing may show.
    pub secrets: Secrets,
}

/// `[stream.change]`: what counts as a change of the picture, and where changes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeTable {
    /// The threshold of change detection.
    pub config: ChangeConfig,
    /// Where frames are compared; never [`ChangeOn::Gpu`] with [`BackendChoice::Cpu`].
    pub on: ChangeOn,
}

impl Default for ChangeTable {
    /// The threshold is the source's.
    fn default() -> Self {
        let threshold = Threshold::BySource { limit: Threshold::LIMIT_DEFAULT };
        Self { config: ChangeConfig { threshold, refresh_frames: None }, on: ChangeOn::default() }
    }
}

impl ChangeTable {
    fn keys(&mut self, keys: &mut dyn Keys) {
        self.config.keys(keys);
        keys.key("on", &mut self.on, one_of);
    }
}

/// `[[stream.view]]`: what is sampled of a stream for one kind of consumer.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewConfig {
    /// 1 to 63 of a-z, 0-9, `_` and `-`.
    pub name: String,
    /// Arrangement of the tokens over the image.
    pub layout: Layout,
    /// Most tokens of a frame, 1 to 5000.
    pub budget: u32,
    /// Patch side, number format and normalisation; bytes are not normalised.
    pub format: TokenFormat,
    /// Token frames that the ring holds, 2 to 64; by default [as many as a cache holds](default_slot_count).
    pub slots: Option<u32>,
    /// Most frames a second that are published, 0.01 to 1000; by default all.
    pub max_fps: Option<f64>,
    /// When frames are published.
    pub publish: PublishChoice,
    /// The channels that are published, by name; only with the policy [`Policy::Relevance`].
    pub channels: Vec<String>,
    /// The depth that is published with the tokens; only with [`StreamConfig::depth`].
    pub depth: DepthDetail,
    /// Whether the boxes of the tokens in space are published; only with [`StreamConfig::depth`] and [`StreamConfig::camera`].
    pub boxes: bool,
    /// Where the view looks.
    pub gaze: GazeConfig,
}

/// `[stream.view.gaze]`: where a view looks, and how its gaze moves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GazeConfig {
    /// Decides the fixations.
    pub policy: Policy<PathBuf, PathBuf>,
    /// How the gaze moves.
    pub parameters: GazeParameters,
}

impl GazeConfig {
    fn keys(&mut self, keys: &mut dyn Keys) {
        self.policy.keys(keys);
        self.parameters.keys(keys);
    }
}

/// When a view publishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PublishChoice {
    /// Always, even without readers, so that a new reader finds a fresh frame at once.
    #[default]
    Always,
    /// Only while there are subscribers. Nothing is computed for a stream if no view has any.
    WhenRead,
}

foveate_core::names!(PublishChoice { Always = "always", WhenRead = "when-read" });

impl Config {
    fn keys(&mut self, keys: &mut dyn Keys) {
        keys.table("daemon", &mut self.daemon, DaemonConfig::keys);
        keys.list("stream", &mut self.streams, StreamConfig::keys);
    }

    /// Reads and checks the file at `path`, which may be a pipe.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or [refused](Config::parse).
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&wait_for_text(path)?, path)
    }

    /// Reads the files of [`load`](Self::load), or with `directory` of [`load_with`](Self::load_with), again. `path` must be a regular file,
    /// so that the caller does not wait for a writer.
    ///
    /// # Errors
    ///
    /// As for [`load`](Self::load) and [`load_with`](Self::load_with).
    pub fn reload(path: &Path, directory: Option<&Path>) -> Result<Self, ConfigError> {
        let (config, mistakes) = Self::parse_files(&read_text(path)?, path, directory)?;
        ConfigError::refused(mistakes).map(|()| config)
    }

    /// Reads and checks the file at `path`, then the files `*.toml` in `directory`, ordered by name. Those may hold
    /// only `[[stream]]`; with them `path` need not have any. Hidden files are ignored.
    ///
    /// # Errors
    ///
    /// If a file or the directory cannot be read, a file is [refused](Config::parse), or two streams have the same
    /// name.
    pub fn load_with(path: &Path, directory: &Path) -> Result<Self, ConfigError> {
        let (config, mistakes) = Self::load_partly(path, Some(directory))?;
        ConfigError::refused(mistakes).map(|()| config)
    }

    /// Loads as [`load`](Config::load), or with a directory as [`load_with`](Config::load_with), but returns the mistakes beside the
    /// valid rest of the configuration, so that its sources can be checked, too. Streams without their variables, or without a
    /// source, are left out.
    ///
    /// # Errors
    ///
    /// If a file or the directory cannot be read, or there is no stream.
    pub fn load_partly(
        path: &Path,
        directory: Option<&Path>,
    ) -> Result<(Self, Vec<Mistake>), ConfigError> {
        Self::parse_files(&wait_for_text(path)?, path, directory)
    }

    /// Parses the text of the file at `path`, and the files in `directory`.
    fn parse_files(
        text: &str,
        path: &Path,
        directory: Option<&Path>,
    ) -> Result<(Self, Vec<Mistake>), ConfigError> {
        let environment = |name: &str| env::var(name);
        let part = if directory.is_some() { TextPart::First } else { TextPart::Whole };
        let (mut config, mut mistakes) = Self::parse_partly(text, path, part, &environment);
        let mut taken = config.names_in(path);
        for file in directory.map(additions_in).transpose()?.unwrap_or_default() {
            let part = TextPart::Further { taken: &taken };
            let (added, more) = Self::parse_partly(&read_text(&file)?, &file, part, &environment);
            mistakes.extend(more);
            let count = config.streams.len() + added.streams.len();
            if STREAMS_MAX < count {
                return Err(ConfigError::TooManyStreams { file, count });
            }
            taken.extend(added.names_in(&file));
            config.streams.extend(added.streams);
            config.secrets.extend(added.secrets);
        }
        match directory {
            Some(directory) if config.streams.is_empty() && mistakes.is_empty() => {
                let (file, directory) = (path.to_owned(), directory.to_owned());
                Err(ConfigError::NoStream { file, directory })
            }
            _ => Ok((config, mistakes)),
        }
    }

    /// Checks `text`. `file` names it in errors; relative paths in it start at the directory of `file`.
    ///
    /// # Errors
    ///
    /// If it is not TOML, has a mistake, or needs an environment variable that is not set.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        Self::parse_in(text, file, |name| env::var(name))
    }

    /// Like [`Config::parse`], with an environment given by the caller.
    ///
    /// # Errors
    ///
    /// As for [`Config::parse`].
    pub fn parse_in(
        text: &str,
        file: &Path,
        environment: impl Fn(&str) -> Result<String, VarError>,
    ) -> Result<Self, ConfigError> {
        let (config, mistakes) = Self::parse_partly(text, file, TextPart::Whole, &environment);
        ConfigError::refused(mistakes).map(|()| config)
    }

    /// The configuration without the keys that have mistakes, and the mistakes.
    fn parse_partly(
        text: &str,
        file: &Path,
        part: TextPart<'_>,
        environment: &Environment<'_>,
    ) -> (Self, Vec<Mistake>) {
        let (mut of_streams, mut others) = (Vec::new(), Secrets::new());
        let directory = file.parent().unwrap_or(Path::new(""));
        let prepare = |document: &mut DeTable<'_>, mistakes: &mut Mistakes| {
            (of_streams, others) = environment::substitute(document, environment, mistakes);
        };
        let validate =
            |config: &mut Self, table: &Table<'_>| config.validate(table, directory, part);
        let (mut config, mistakes) =
            reader::read(text, &KNOWN_TABLES, prepare, Self::keys, validate);
        let all = of_streams.iter().map(|(secrets, _)| secrets).chain([&others]).flatten();
        let all = all.map(|(text, shown)| (text.clone(), shown.clone())).collect();
        let mistakes = error::placed(mistakes, text, file, &all);
        let mut of_streams = of_streams.into_iter();
        config.streams.retain_mut(|stream| {
            let (secrets, is_complete) = of_streams.next().unwrap_or((Secrets::new(), true));
            stream.secrets = secrets;
            // Without a source there is nothing else to check.
            let depth = stream.depth.as_ref().map(|depth| &depth.source);
            let mut sources = [&stream.capture.source].into_iter().chain(depth);
            is_complete && sources.all(|source| !source.text().is_empty())
        });
        (Self { secrets: others, ..config }, mistakes)
    }

    /// The names of its streams, each with `file`.
    fn names_in(&self, file: &Path) -> BTreeMap<String, PathBuf> {
        self.streams.iter().map(|stream| (stream.name.clone(), file.to_owned())).collect()
    }

    /// Texts that no log, error or listing may show, without those of the [streams](StreamConfig::secrets).
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }
}

impl Default for Config {
    /// The test scene as stream `camera` with view `main`.
    fn default() -> Self {
        Self {
            daemon: DaemonConfig::default(),
            streams: vec![StreamConfig::default()],
            secrets: Secrets::new(),
        }
    }
}

impl From<StreamConfig> for Config {
    /// A daemon with only this stream.
    fn from(stream: StreamConfig) -> Self {
        Self { streams: vec![stream], ..Self::default() }
    }
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            name: "camera".to_owned(),
            capture: SourceSpec::default(),
            stall_timeout_ms: 2_000,
            required: false,
            backend: BackendChoice::Auto,
            device: None,
            change: ChangeTable::default(),
            events: false,
            motion: false,
            camera: None,
            depth: None,
            views: vec![ViewConfig::default()],
            secrets: Secrets::new(),
        }
    }
}

impl StreamConfig {
    fn keys(&mut self, keys: &mut dyn Keys) {
        keys.key("name", &mut self.name, value::name);
        self.capture.keys(keys);
        keys.key("stall_timeout_ms", &mut self.stall_timeout_ms, whole(100..=600_000));
        keys.key("required", &mut self.required, switch);
        keys.key("backend", &mut self.backend, one_of);
        keys.optional("device", &mut self.device, text);
        keys.table("change", &mut self.change, ChangeTable::keys);
        keys.key("events", &mut self.events, switch);
        keys.key("motion", &mut self.motion, switch);
        keys.optional_table("camera", &mut self.camera, CameraConfig::keys);
        keys.optional_table("depth", &mut self.depth, DepthConfig::keys);
        keys.list("view", &mut self.views, ViewConfig::keys);
    }

    /// The source of its pictures.
    pub fn source(&self) -> SourceSpec {
        SourceSpec { stream: self.name.clone(), content: Content::Pictures, ..self.capture.clone() }
    }

    /// The source of its depth; `None` if it has none. It is paced, opened and reopened as that of its pictures.
    pub fn depth_source(&self) -> Option<SourceSpec> {
        let depth = self.depth.as_ref()?;
        Some(SourceSpec {
            stream: format!("{}-depth", self.name),
            content: Content::Depth,
            source: depth.source.clone(),
            parameters: depth.parameters.clone(),
            // Of the pictures' own source.
            live: None,
            track: None,
            // Depths on both sides of an edge must not be mixed.
            scale_pictures: false,
            square_pixels: false,
            // What the pictures are.
            interlaced: false,
            range: None,
            matrix: None,
            gray_range: None,
            max_fps: None,
            ..self.capture.clone()
        })
    }
}

impl ViewConfig {
    fn keys(&mut self, keys: &mut dyn Keys) {
        keys.key("name", &mut self.name, value::name);
        self.layout.keys(keys);
        keys.key("budget", &mut self.budget, whole(1..=5000));
        self.format.keys(keys);
        keys.optional("slots", &mut self.slots, whole(2..=64));
        keys.optional("max_fps", &mut self.max_fps, real(0.01..=1000.0));
        keys.key("publish", &mut self.publish, one_of);
        keys.key("channels", &mut self.channels, channel_names);
        keys.key("depth", &mut self.depth, DepthDetail::from_config);
        keys.key("boxes", &mut self.boxes, switch);
        keys.table("gaze", &mut self.gaze, GazeConfig::keys);
    }

    /// Checks the text of one view: the keys below `[[stream.view]]`, with tables such as `[gaze]`. `${NAME}` is not
    /// substituted.
    ///
    /// # Errors
    ///
    /// If it is not TOML, or has a mistake.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        Self::read(text, Path::new(""), None)
    }

    /// Checks the keys of one view as [`parse`](Self::parse) does, given as JSON.
    ///
    /// # Errors
    ///
    /// As for [`parse`](Self::parse), or if a value has no counterpart in TOML, such as `null`.
    pub fn from_table(
        table: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<Self, ConfigError> {
        // One line for each key. Tables are written inline: headers repeat the names of all enclosing tables, so the text would
        // grow with the square of the depth.
        let mut text = String::new();
        for (key, value) in table {
            let value = toml::Value::try_from(value)
                .map_err(|error| ConfigError::of_key(key, error.to_string()))?;
            // The quotes and escapes of JSON are those of TOML.
            text.push_str(&serde_json::Value::from(key.as_str()).to_string());
            text.push_str(" = ");
            text.push_str(&value.to_string());
            text.push('\n');
        }
        Self::parse(&text)
    }

    /// Checks the text of one view, whose name must be `name` if that is given.
    fn read(text: &str, directory: &Path, name: Option<&str>) -> Result<Self, ConfigError> {
        let validate = |view: &mut Self, table: &Table<'_>| {
            view.validate(table, directory);
            if name.is_some_and(|name| name != view.name) {
                table.refuse(
                    "name",
                    "a view cannot be renamed; add another view to the file, or open one",
                );
            }
        };
        let (view, mistakes) = reader::read(text, &KNOWN_TABLES, |_, _| (), Self::keys, validate);
        let mistakes = error::placed(mistakes, text, Path::new("view"), &Secrets::new());
        ConfigError::refused(mistakes).map(|()| view)
    }

    /// Most tokens of a frame.
    pub fn capacity(&self) -> usize {
        self.layout.capacity(self.format.patch_side, self.budget as usize)
    }

    /// Bytes of the tokens in its ring, with their depth, and of as many channels as the largest picture has.
    pub fn ring_bytes(&self) -> usize {
        self.slot_count() * self.frame_bytes()
    }

    /// Token frames that the ring holds.
    pub fn slot_count(&self) -> usize {
        self.slots.map_or_else(|| default_slot_count(self.frame_bytes()), |slots| slots as usize)
    }

    /// Cost of a frame, as the number of bytes of texels that take as long.
    pub fn frame_cost(&self) -> usize {
        let side = self.format.patch_side as usize;
        let depth =
            if self.depth == DepthDetail::Texels { side * side * TEXEL_DEPTH_COST } else { 0 };
        let boxes = if self.boxes { BOX_COST } else { 0 };
        self.frame_bytes() + self.capacity() * (depth + boxes)
    }

    /// The share of a frame in [`ring_bytes`](Self::ring_bytes).
    pub fn frame_bytes(&self) -> usize {
        let cell_bytes = self.channels.len() * size_of::<f32>();
        let channel_bytes = cell_bytes * (CELLS_MAX * CELLS_MAX) as usize;
        let side = self.format.patch_side as usize;
        let depth_numbers = match self.depth {
            DepthDetail::None => 0,
            DepthDetail::Tokens => 3,
            DepthDetail::Texels => 3 * side * side,
        };
        let box_numbers = if self.boxes { 6 } else { 0 };
        let depth_bytes = (depth_numbers + box_numbers) * size_of::<f32>();
        let token_bytes = self.format.token_bytes() + depth_bytes;
        self.capacity() * token_bytes + channel_bytes
    }
}

impl TryFrom<&ViewConfig> for ViewSpec {
    type Error = PolicyFileError;

    /// Reads the gaze log, if it replays one.
    fn try_from(config: &ViewConfig) -> Result<Self, PolicyFileError> {
        Ok(Self {
            layout: config.layout.clone(),
            budget: config.budget as usize,
            format: config.format,
            policy: config.gaze.policy.load()?,
            parameters: config.gaze.parameters,
            channels: config.channels.clone(),
            depth: config.depth,
            boxes: config.boxes,
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
            slots: None,
            max_fps: None,
            publish: PublishChoice::Always,
            channels: Vec::new(),
            depth: DepthDetail::None,
            boxes: false,
            gaze: GazeConfig::default(),
        }
    }
}
