//! The tables as they stand in a file, and the checks that need more than one value.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, Deserializer};

use super::camera::CameraTable;
use super::environment::{self, Environment};
use super::error::Refusal;
use super::gaze::GazeTable;
use super::values::{
    Address, Checked, Length, Maybe, Name, NormalisationKind, OneOf, Parameter, PatchSide, Real,
    SampleDifference, SampleThreshold, SocketMode, Switch, Text, Whole, value,
};
use super::{
    BackendChoice, ChangeConfig, ChangeOn, DaemonConfig, LayoutChoice, Pace, PublishChoice,
    ShorthandKind, SourceChoice, StreamConfig, Threshold, ViewConfig,
};
use foveate_core::token::{DType, Normalisation, TokenFormat};

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    daemon: DaemonTable,
    #[serde(default)]
    stream: Vec<Spanned<StreamTable>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DaemonTable {
    socket: Maybe<Text>,
    socket_mode: Maybe<SocketMode>,
    socket_group: Maybe<Text>,
    metrics: Maybe<Address>,
    threads: Maybe<Whole<1, 64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamTable {
    name: Spanned<Checked<Name>>,
    source: Maybe<Text>,
    pipeline: Maybe<Text>,
    pipeline_file: Maybe<Text>,
    #[serde(default)]
    parameters: BTreeMap<String, Checked<Parameter>>,
    pace: Maybe<OneOf<Pace>>,
    r#loop: Maybe<Switch>,
    latency_ms: Maybe<Whole<0, 60_000>>,
    caps_timeout_ms: Maybe<Whole<100, 600_000>>,
    max_fps: Maybe<Real<1, 100_000>>,
    stall_timeout_ms: Maybe<Whole<100, 600_000>>,
    restart: Maybe<Switch>,
    restart_timeout_ms: Maybe<Whole<0, 3_600_000>>,
    required: Maybe<Switch>,
    backend: Maybe<OneOf<BackendChoice>>,
    device: Maybe<Text>,
    #[serde(default)]
    change: ChangeTable,
    camera: Option<CameraTable>,
    #[serde(default)]
    view: Vec<Spanned<ViewTable>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeTable {
    threshold: Maybe<SampleThreshold>,
    threshold_limit: Maybe<SampleDifference>,
    refresh_frames: Maybe<Whole<1, 1_000_000>>,
    on: Maybe<OneOf<ChangeOn>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ViewTable {
    name: Spanned<Checked<Name>>,
    layout: Maybe<OneOf<LayoutChoice>>,
    budget: Maybe<Whole<1, 5000>>,
    patch: Maybe<PatchSide>,
    dtype: Maybe<OneOf<DType>>,
    normalisation: Maybe<NormalisationKind>,
    e0: Maybe<Length>,
    slots: Maybe<Whole<2, 64>>,
    max_fps: Maybe<Real<1, 100_000>>,
    publish: Maybe<OneOf<PublishChoice>>,
    gaze: Option<GazeTable>,
}

/// Which part of a configuration a file is.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
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

/// Reads and checks `text`; what came from the environment is appended to `secrets`, also on refusal.
pub(super) fn read(
    text: &str,
    file: &Path,
    part: Part<'_>,
    environment: &Environment<'_>,
    secrets: &mut Vec<String>,
) -> Result<(DaemonConfig, Vec<StreamConfig>), Refusal> {
    let mut table = DeTable::parse(text)?;
    environment::substitute(table.get_mut(), environment, secrets)?;
    if let Part::Further { .. } = part {
        check_has_only_streams(table.get_ref())?;
    }
    let document = Document::deserialize(Deserializer::from(table))?;
    check_streams(&document.stream, part)?;
    let directory = file.parent().unwrap_or(Path::new(""));
    Ok((document.daemon.checked()?, checked_streams(document.stream, directory)?))
}

/// Reads and checks one view; a relative path in it starts at `directory`.
pub(super) fn read_view(text: &str, directory: &Path) -> Result<ViewConfig, Refusal> {
    let table = DeTable::parse(text)?;
    ViewTable::deserialize(Deserializer::from(table))?.checked(directory)
}

impl DaemonTable {
    fn checked(self) -> Result<DaemonConfig, Refusal> {
        let absolute = |socket: Spanned<Checked<Text>>| {
            let span = socket.span();
            let socket = PathBuf::from(socket.into_inner().0);
            let refusal = || Refusal::new(span, "expected an absolute path");
            socket.is_absolute().then_some(socket).ok_or_else(refusal)
        };
        Ok(DaemonConfig {
            socket: self.socket.map(absolute).transpose()?,
            socket_mode: value(self.socket_mode, DaemonConfig::default().socket_mode),
            socket_group: self.socket_group.map(|group| group.into_inner().0),
            metrics: self.metrics.map(|address| address.into_inner().0),
            threads: self.threads.map(|threads| threads.into_inner().0),
        })
    }
}

fn check_has_only_streams(table: &DeTable<'_>) -> Result<(), Refusal> {
    table.keys().find(|key| key.get_ref() != "stream").map_or(Ok(()), |key| {
        let message =
            "only [[stream]] may stand in a file beside the first; expected everything else there";
        Err(Refusal::new(key.span(), message))
    })
}

fn check_streams(streams: &[Spanned<StreamTable>], part: Part<'_>) -> Result<(), Refusal> {
    if streams.is_empty() && matches!(part, Part::Whole) {
        return Err(Refusal::new(
            0..0,
            "no [[stream]]: expected at least one, with a `name` and a `source`",
        ));
    }
    let names = || streams.iter().map(|stream| &stream.get_ref().name);
    all_different("stream", names())?;
    if let Part::Further { taken } = part {
        names().try_for_each(|name| check_is_free(name, taken))?;
    }
    Ok(())
}

fn check_is_free(
    name: &Spanned<Checked<Name>>,
    taken: &BTreeMap<String, PathBuf>,
) -> Result<(), Refusal> {
    let text = &name.get_ref().0;
    taken.get(text).map_or(Ok(()), |file| {
        let file = file.display();
        let message = format!("there is a stream `{text}` in {file}; expected a name of its own");
        Err(Refusal::new(name.span(), message))
    })
}

fn checked_streams(
    streams: Vec<Spanned<StreamTable>>,
    directory: &Path,
) -> Result<Vec<StreamConfig>, Refusal> {
    streams
        .into_iter()
        .map(|stream| {
            let span = stream.span();
            stream.into_inner().checked(span, directory)
        })
        .collect()
}

/// Refuses the second of two equal names.
fn all_different<'a>(
    what: &str,
    mut names: impl Iterator<Item = &'a Spanned<Checked<Name>>>,
) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    names.find(|name| !seen.insert(&name.get_ref().0)).map_or(Ok(()), |again| {
        let name = &again.get_ref().0;
        let message = format!("there is another {what} `{name}`; expected a name of its own");
        Err(Refusal::new(again.span(), message))
    })
}

impl StreamTable {
    fn checked(self, span: Range<usize>, directory: &Path) -> Result<StreamConfig, Refusal> {
        let default = StreamConfig::default();
        let source = self.checked_source(span, directory)?;
        self.check_against(&source)?;
        self.check_device()?;
        self.check_change_on()?;
        self.check_restart()?;
        let change_on = self.change.on.as_ref().map_or(default.change_on, |on| on.get_ref().0);
        Ok(StreamConfig {
            name: self.name.into_inner().0,
            source,
            parameters: self.parameters.into_iter().map(|(key, value)| (key, value.0)).collect(),
            pace: value(self.pace, default.pace),
            looped: value(self.r#loop, default.looped),
            latency_ms: value(self.latency_ms, default.latency_ms),
            caps_timeout_ms: value(self.caps_timeout_ms, default.caps_timeout_ms),
            max_fps: self.max_fps.map(|rate| rate.into_inner().0),
            stall_timeout_ms: value(self.stall_timeout_ms, default.stall_timeout_ms),
            restart: value(self.restart, default.restart),
            restart_timeout_ms: value(self.restart_timeout_ms, default.restart_timeout_ms),
            required: value(self.required, default.required),
            backend: value(self.backend, default.backend),
            device: self.device.map(|device| device.into_inner().0),
            change: self.change.checked()?,
            change_on,
            camera: self.camera.map(|camera| camera.checked(directory)).transpose()?,
            views: if self.view.is_empty() {
                default.views
            } else {
                checked_views(self.view, directory)?
            },
        })
    }

    fn checked_source(
        &self,
        span: Range<usize>,
        directory: &Path,
    ) -> Result<SourceChoice, Refusal> {
        const EXPECTED: &str = "expected exactly one of `source`, `pipeline` and `pipeline_file`";
        match (&self.source, &self.pipeline, &self.pipeline_file) {
            (Some(source), None, None) => shorthand(&source.get_ref().0, source.span(), directory),
            (None, Some(pipeline), None) => {
                Ok(SourceChoice::Pipeline(pipeline.get_ref().0.clone()))
            }
            (None, None, Some(file)) => {
                Ok(SourceChoice::PipelineFile(directory.join(&file.get_ref().0)))
            }
            (None, None, None) => Err(Refusal::new(span, format!("no source: {EXPECTED}"))),
            (_, Some(second), None) => Err(Refusal::new(second.span(), EXPECTED)),
            (_, _, Some(second)) => Err(Refusal::new(second.span(), EXPECTED)),
        }
    }

    /// Refuses what this kind of source cannot do. What a pipeline can do is known only once it runs.
    fn check_against(&self, source: &SourceChoice) -> Result<(), Refusal> {
        let SourceChoice::Shorthand(text) = source else { return Ok(()) };
        let kind = ShorthandKind::of(text);
        if kind != Some(ShorthandKind::Rtsp)
            && let Some(latency) = &self.latency_ms
        {
            let message = "expected this key only with an `rtsp://` source, or a pipeline that says ${latency_ms}";
            return Err(Refusal::new(latency.span(), message));
        }
        if kind == Some(ShorthandKind::File) { Ok(()) } else { self.check_live() }
    }

    /// Refuses what a source without a beginning and an end cannot do.
    fn check_live(&self) -> Result<(), Refusal> {
        if let Some(pace) = &self.pace
            && pace.get_ref().0 == Pace::EveryFrame
        {
            let message = "\"every-frame\" makes the decoder wait, and a live source cannot; expected \"realtime\" here";
            return Err(Refusal::new(pace.span(), message));
        }
        match &self.r#loop {
            Some(switch) if switch.get_ref().0 => {
                Err(Refusal::new(switch.span(), "a live source has no end; expected false here"))
            }
            _ => Ok(()),
        }
    }

    fn check_device(&self) -> Result<(), Refusal> {
        match (&self.device, &self.backend) {
            (Some(device), Some(backend)) if backend.get_ref().0 == BackendChoice::Cpu => {
                let message = "a device is a Vulkan device; expected `backend` to be \"auto\" or \"vulkan\" beside it";
                Err(Refusal::new(device.span(), message))
            }
            _ => Ok(()),
        }
    }

    fn check_restart(&self) -> Result<(), Refusal> {
        match (&self.restart, &self.restart_timeout_ms) {
            (Some(restart), Some(timeout)) if !restart.get_ref().0 => {
                let message = "expected this key only where `restart` is true";
                Err(Refusal::new(timeout.span(), message))
            }
            _ => Ok(()),
        }
    }

    fn check_change_on(&self) -> Result<(), Refusal> {
        match (&self.change.on, &self.backend) {
            (Some(on), Some(backend))
                if on.get_ref().0 == ChangeOn::Gpu && backend.get_ref().0 == BackendChoice::Cpu =>
            {
                let message = "only a Vulkan device finds changes; expected \"auto\" or \"cpu\" here, or `backend` to be \"auto\" or \"vulkan\"";
                Err(Refusal::new(on.span(), message))
            }
            _ => Ok(()),
        }
    }
}

impl ChangeTable {
    fn checked(self) -> Result<ChangeConfig, Refusal> {
        let threshold = match (value(self.threshold, Threshold::default()), self.threshold_limit) {
            (Threshold::Auto { .. }, Some(limit)) => {
                Threshold::Auto { limit: limit.into_inner().0 }
            }
            (Threshold::Fixed(_), Some(limit)) => {
                let message = "expected this key only with the threshold \"auto\"";
                return Err(Refusal::new(limit.span(), message));
            }
            (threshold, None) => threshold,
        };
        let refresh_frames = self.refresh_frames.map(|frames| frames.into_inner().0);
        Ok(ChangeConfig { threshold, refresh_frames: refresh_frames.and_then(NonZeroU32::new) })
    }
}

fn shorthand(source: &str, span: Range<usize>, directory: &Path) -> Result<SourceChoice, Refusal> {
    let text = match ShorthandKind::of(source) {
        None => {
            return Err(Refusal::new(
                span,
                "expected \"test\", \"/dev/videoN\", \"rtsp://...\", \"rtsps://...\", \"file://...\" or the path of a file; anything else is a `pipeline`",
            ));
        }
        // A path stays a string because every part of it was one.
        Some(ShorthandKind::File) if !source.contains("://") => {
            directory.join(source).to_string_lossy().into_owned()
        }
        Some(_) => source.to_owned(),
    };
    Ok(SourceChoice::Shorthand(text))
}

fn checked_views(
    views: Vec<Spanned<ViewTable>>,
    directory: &Path,
) -> Result<Vec<ViewConfig>, Refusal> {
    all_different("view of this stream", views.iter().map(|view| &view.get_ref().name))?;
    views.into_iter().map(|view| view.into_inner().checked(directory)).collect()
}

impl ViewTable {
    fn checked(self, directory: &Path) -> Result<ViewConfig, Refusal> {
        let default = ViewConfig::default();
        let format = self.checked_format(default.format)?;
        let layout = self.layout.map_or(default.layout, |layout| layout.into_inner().0);
        if let (Some(e0), LayoutChoice::Uniform) = (&self.e0, layout) {
            let message = "a uniform layout is as fine everywhere; expected this key only with the layout \"foveal\"";
            return Err(Refusal::new(e0.span(), message));
        }
        Ok(ViewConfig {
            name: self.name.into_inner().0,
            layout,
            budget: value(self.budget, default.budget),
            format,
            e0: self.e0.map(|e0| e0.into_inner().0),
            slots: value(self.slots, default.slots),
            max_fps: self.max_fps.map(|rate| rate.into_inner().0),
            publish: value(self.publish, default.publish),
            gaze: self.gaze.map_or(Ok(default.gaze), |gaze| gaze.checked(directory))?,
        })
    }

    /// Without a word about it, tokens of whole numbers are not normalised, and others are as by default.
    fn checked_format(&self, default: TokenFormat) -> Result<TokenFormat, Refusal> {
        let dtype = self.dtype.as_ref().map_or(default.dtype, |dtype| dtype.get_ref().0);
        let normalisation = match &self.normalisation {
            None if dtype == DType::U8 => Normalisation::NONE,
            None => default.normalisation,
            Some(normalisation) => {
                check_fits(normalisation.get_ref().0, dtype)
                    .map_err(|message| Refusal::new(normalisation.span(), message))?;
                normalisation.get_ref().0
            }
        };
        let patch_side = self.patch.as_ref().map_or(default.patch_side, |side| side.get_ref().0);
        Ok(TokenFormat { patch_side, dtype, normalisation })
    }
}

/// Whether black and white, and so everything between, are finite numbers of `dtype`.
fn check_fits(normalisation: Normalisation, dtype: DType) -> Result<(), String> {
    let largest = match dtype {
        DType::U8 if normalisation == Normalisation::NONE => return Ok(()),
        DType::U8 => return Err("the dtype \"u8\" is 0 to 255; expected \"none\" beside it".into()),
        DType::F16 => f64::from(half::f16::MAX),
        DType::Bf16 => f64::from(half::bf16::MAX),
        DType::F32 => f64::from(f32::MAX),
    };
    let Normalisation { mean, std } = normalisation;
    let fits = |(mean, std): (&f64, &f64)| {
        (mean / std).abs() <= largest && ((1.0 - mean) / std).abs() <= largest
    };
    if mean.iter().zip(&std).all(fits) {
        Ok(())
    } else {
        Err(format!(
            "(value - mean) / std must stay within {largest:e}, the largest number of this dtype"
        ))
    }
}
