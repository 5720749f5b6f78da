//! Validates combinations of keys, fills in defaults that depend on other keys, and resolves paths against the file's directory.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{self, Path, PathBuf};

use super::reader::Table;
use super::{
    Config, Pace, STREAMS_MAX, ShorthandKind, SourceChoice, StreamConfig, TextPart, Tls, ViewConfig,
};
use foveate_core::address::Server;
use foveate_core::backend::{BackendChoice, ChangeOn};
use foveate_core::change::Threshold;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::FOVEAE_MAX;
use foveate_core::mask::MASKS_MAX;
use foveate_core::token::{DType, Normalisation, Rounding, SAMPLE_SIDE, TokenFormat, WINDOW_SIDES};
use foveate_core::value::shown;
use foveate_gaze::controller::{FoveaPolicy, Policy};
use foveate_gaze::layout::Layout;
use foveate_gaze::layout::inset::Inset;
use foveate_gaze::layout::rings::{Preset, Rings};
use foveate_gaze::layout::samples::{PIXELS_MAX, Samples};
use foveate_gaze::view::VIEWS_MAX;

impl Config {
    /// Validates one configuration file; `part` says whether it is the only, first or a further one.
    pub(super) fn validate(&mut self, table: &Table<'_>, directory: &Path, part: TextPart<'_>) {
        for daemon in table.tables("daemon") {
            if self.daemon.socket.as_ref().is_some_and(|socket| !socket.is_absolute()) {
                daemon.refuse("socket", "expected an absolute path");
            }
        }
        let tables = table.tables("stream");
        if tables.is_empty() {
            self.streams.clear();
        }
        match part {
            TextPart::Whole if tables.is_empty() => {
                table.refuse(
                    "stream",
                    "no [[stream]]; expected at least one, with a `name` and a `source`",
                );
            }
            TextPart::Whole | TextPart::First => {}
            TextPart::Further { taken } => {
                for key in table.names().filter(|key| *key != "stream") {
                    let message =
                        "expected only [[stream]] here: everything else belongs in the first file";
                    table.refuse(key, message);
                }
                for (stream, table) in self.streams.iter().zip(&tables) {
                    let name = &stream.name;
                    let taken = taken.get(name).filter(|_| table.has("name"));
                    if let Some(file) = taken.map(|file| file.display()) {
                        let message =
                            format!("{file} has a stream `{name}` already; expected another name");
                        table.refuse("name", message);
                    }
                }
            }
        }
        if STREAMS_MAX < tables.len() {
            let message =
                format!("{} streams are too many; expected at most {STREAMS_MAX}", tables.len());
            return table.refuse("stream", message);
        }
        all_different("stream", &tables, self.streams.iter().map(|stream| &stream.name));
        for (stream, table) in self.streams.iter_mut().zip(&tables) {
            stream.validate(table, directory);
        }
    }
}

impl StreamConfig {
    fn validate(&mut self, table: &Table<'_>, directory: &Path) {
        table.need("name");
        self.validate_source(table, directory);
        self.validate_tls(table, directory);
        let device_allowed = "with `backend` as \"auto\" or \"vulkan\"";
        let is_cpu = self.backend == BackendChoice::Cpu;
        table.allow("device", !is_cpu, "backend", device_allowed);
        table.allow(
            "restart_timeout_ms",
            self.capture.restart,
            "restart",
            "where `restart` is true",
        );
        for change in table.tables("change") {
            let is_fixed = matches!(self.change.config.threshold, Threshold::Fixed(_));
            let place = "with the threshold \"auto\" or \"source\"";
            change.allow("threshold_limit", !is_fixed, "threshold", place);
            if self.change.on == ChangeOn::Gpu && is_cpu {
                let message = "only a Vulkan device finds changes; expected \"auto\" or \"cpu\" here, or `backend` to be \
                               \"auto\" or \"vulkan\"";
                change.refuse("on", message);
            }
        }
        for (camera, table) in self.camera.iter_mut().zip(table.tables("camera")) {
            camera.validate(&table, directory);
        }
        for (depth, table) in self.depth.iter_mut().zip(table.tables("depth")) {
            depth.validate(&table, directory, self.capture.pace);
        }
        self.validate_masks(table);
        let tables = table.tables("view");
        if tables.is_empty() {
            self.views = Self::default().views;
        }
        if VIEWS_MAX < tables.len() {
            let message =
                format!("{} views are too many; expected at most {VIEWS_MAX}", tables.len());
            return table.refuse("view", message);
        }
        all_different("view of this stream", &tables, self.views.iter().map(|view| &view.name));
        for (view, table) in self.views.iter_mut().zip(&tables) {
            view.validate(table, directory);
        }
        self.validate_depth_of_views(&tables);
    }

    /// Names the masks without a name by their place, from `mask-1` on.
    fn validate_masks(&mut self, table: &Table<'_>) {
        let tables = table.tables("mask");
        if MASKS_MAX < tables.len() {
            let message =
                format!("{} masks are too many; expected at most {MASKS_MAX}", tables.len());
            return table.refuse("mask", message);
        }
        let mut seen = BTreeSet::new();
        for ((place, mask), table) in (1..).zip(&mut self.capture.masks).zip(&tables) {
            table.need("points");
            if mask.name.is_empty() {
                mask.name = format!("mask-{place}");
            }
            if !seen.insert(mask.name.clone()) {
                let message = format!(
                    "there is another mask of this stream `{}`; expected a unique name",
                    mask.name
                );
                table.refuse("name", message);
            }
        }
    }

    /// Refuses what this kind of source cannot do. The abilities of a pipeline are known only once it runs.
    fn validate_source(&mut self, table: &Table<'_>, directory: &Path) {
        let Some(kind) = validate_source(&mut self.capture.source, table, directory) else {
            return;
        };
        let with_latency = "with an `rtsp://` source, or a pipeline that contains ${latency_ms}";
        table.allow("latency_ms", kind == ShorthandKind::Rtsp, "source", with_latency);
        let is_http = kind == ShorthandKind::Http;
        let with_live = "with an `http://` or `https://` source, or a pipeline";
        table.allow("live", is_http, "source", with_live);
        table.allow("track", kind.is_clip(), "source", "with a clip, or a pipeline");
        let is_followed = kind.is_clip() || kind == ShorthandKind::Rtsp;
        let with_addresses = "with an address, a clip or a pipeline";
        table.allow("follow_addresses", is_followed, "source", with_addresses);
        if kind.is_clip() && self.capture.live != Some(true) {
            return;
        }
        if self.capture.pace == Pace::EveryFrame {
            table.refuse(
                "pace",
                "a live source cannot wait for \"every-frame\"; expected \"realtime\" here",
            );
        }
        if self.capture.looped {
            table.refuse("loop", "a live source has no end; expected false here");
        }
    }
}

impl StreamConfig {
    /// Resolves the path of certificate authorities, and refuses them where no source is encrypted.
    fn validate_tls(&mut self, table: &Table<'_>, directory: &Path) {
        if let Tls::CaFile(file) = &mut self.capture.tls {
            if file.starts_with("~") {
                table.refuse("tls", NO_HOME);
            }
            *file = directory.join(&file);
        }
        let depth = self.depth.as_ref().map(|depth| &depth.source);
        let may_encrypt = |source: &SourceChoice| match source {
            SourceChoice::Shorthand(text) => Server::of(text).is_ok_and(|server| server.has_tls()),
            SourceChoice::Pipeline(_) | SourceChoice::PipelineFile(_) => true,
        };
        let is_encrypted =
            [Some(&self.capture.source), depth].into_iter().flatten().any(may_encrypt);
        let with_tls = "with an `https://` or `rtsps://` source, or a pipeline";
        table.allow("tls", is_encrypted, "source", with_tls);
    }
}

/// Why a path that starts with `~/` is refused.
const NO_HOME: &str =
    "`~` is expanded by shells only; expected the home directory in full, such as /home/NAME";

/// Checks that a table has exactly one source, and resolves its path. Returns the kind of a shorthand that is understood.
pub(super) fn validate_source(
    source: &mut SourceChoice,
    table: &Table<'_>,
    directory: &Path,
) -> Option<ShorthandKind> {
    const KEYS: [&str; 3] = ["source", "pipeline", "pipeline_file"];
    const EXPECTED: &str = "expected exactly one of `source`, `pipeline` and `pipeline_file`";
    if !KEYS.iter().any(|key| table.has(key)) {
        *source = SourceChoice::Shorthand(String::new());
    }
    let given: Vec<_> =
        KEYS.into_iter().filter(|key| table.names().any(|name| name == *key)).collect();
    match given[..] {
        [] if table.misspells(&KEYS) => {}
        [] => table.refuse("", format!("no source: {EXPECTED}")),
        [_] => {}
        // Most files have only `source`, so the mistake is the other key.
        [.., key] => table.refuse(key, EXPECTED),
    }
    if given.len() != 1 {
        return None;
    }
    let text = match source {
        SourceChoice::PipelineFile(file) => {
            *file = directory.join(&file);
            return None;
        }
        SourceChoice::Shorthand(text) if table.has("source") => text,
        SourceChoice::Shorthand(_) | SourceChoice::Pipeline(_) => return None,
    };
    if text.starts_with("~/") {
        table.refuse("source", NO_HOME);
        text.clear();
        return None;
    }
    if let Some(address) = address_without_scheme(text) {
        let message = format!(
            "{address} looks like the address of a camera; expected its scheme before it, such as \"rtsp://{address}\" (a file of \
             that name is \"./{address}\")"
        );
        table.refuse("source", message);
        text.clear();
        return None;
    }
    let Some(kind) = ShorthandKind::of(text) else {
        table.refuse("source", "expected \"test\", \"/dev/videoN\", \"rtsp://...\", \"rtsps://...\", \"http://...\", \"https://...\", \"file://...\" or the path of a file or folder; use `pipeline` for anything else");
        text.clear();
        return None;
    };
    // A variable that is not set is a mistake of its own.
    if matches!(kind, ShorthandKind::Rtsp | ShorthandKind::Http)
        && !text.contains("${")
        && let Err(problem) = Server::of(text)
    {
        table.refuse("source", problem);
    }
    if kind == ShorthandKind::File && !text.contains("://") {
        // Lossless, because every part was a string.
        *text = directory.join(&text).to_string_lossy().into_owned();
    }
    Some(kind)
}

/// The text, without a password, if it begins with an IP address, a host and a port, or a user and a host.
fn address_without_scheme(text: &str) -> Option<String> {
    let (host, _) = text.split_once('/').unwrap_or((text, ""));
    let (user, host) =
        host.rsplit_once('@').map_or((None, host), |(user, host)| (Some(user), host));
    let (name, port) =
        host.rsplit_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let has_port = port.is_some_and(|port| port.parse::<u16>().is_ok())
        && name.contains(|c: char| c.is_ascii_alphabetic());
    let in_brackets = host.strip_prefix('[').and_then(|host| host.split_once(']'));
    let is_ip = name.parse::<Ipv4Addr>().is_ok()
        || in_brackets.map_or(host, |(host, _)| host).parse::<Ipv6Addr>().is_ok();
    let has_password = user.is_some_and(|user| user.contains(':'));
    let is_address = !text.contains("://") && (is_ip || has_port || has_password);
    is_address.then(|| match user {
        Some(user) => format!("USER:PASSWORD{}", shown(&text[user.len()..])),
        None => shown(text),
    })
}

impl ViewConfig {
    pub(super) fn validate(&mut self, table: &Table<'_>, directory: &Path) {
        table.need("name");
        self.validate_layout(table, directory);
        if table.has("normalisation")
            && let Err(message) = check_fits(self.format)
        {
            table.refuse("normalisation", message);
        }
        for gaze in table.tables("gaze") {
            let replays = matches!(self.gaze.policy, Policy::Replay { .. });
            if replays && gaze.names().all(|name| name != "log") {
                let message =
                    "expected `log` beside it, the path of a gaze log written by `foveate record`";
                gaze.refuse("policy", message);
            }
            if let Policy::Several { policy, .. } = &self.gaze.policy
                && let Err(message) = check_several(policy, &self.layout)
            {
                gaze.refuse("policy", message);
            }
        }
        if !self.channels.is_empty() && !self.gaze.policy.is_relevance() {
            let message = "only the policies \"auto\" and \"relevance\" have channels; expected one of them in \
                           [stream.view.gaze]";
            table.refuse("channels", message);
        }
        // Absolute, so that it stays the same file when the view is changed from another directory.
        let resolve = |file: &mut PathBuf| {
            let joined = directory.join(&file);
            *file = path::absolute(&joined).unwrap_or(joined);
        };
        match &mut self.gaze.policy {
            Policy::Replay { log } => resolve(log),
            Policy::Relevance { scorer: Some(scorer), .. } => resolve(scorer),
            _ => {}
        }
    }
}

impl ViewConfig {
    /// Checks the keys of layouts, and what a layout demands of other keys.
    fn validate_layout(&mut self, table: &Table<'_>, directory: &Path) {
        let is_rings = matches!(self.layout, Layout::Rings(_));
        let ring_keys = ["preset", "strides", "grids"];
        let given = ring_keys.map(|key| table.names().any(|name| name == key));
        if is_rings && !matches!(given, [true, false, false] | [false, true, true]) {
            table.refuse(
                "layout",
                "expected either `preset` beside the layout \"rings\", or `strides` and `grids`",
            );
        }
        self.validate_samples(table, directory);
        self.validate_side(table);
        match &self.layout {
            Layout::Foveal { foveae, .. } if self.budget < *foveae => {
                let message = format!(
                    "{foveae} foveae exceed the tokens; expected at most the budget, {}",
                    self.budget
                );
                table.refuse("foveae", message);
            }
            // By default a small budget has fewer.
            Layout::Inset(Inset { blocks, .. })
                if self.budget < *blocks && table.names().any(|name| name == "blocks") =>
            {
                let message = format!(
                    "{blocks} blocks exceed the tokens; expected at most the budget, {}",
                    self.budget
                );
                table.refuse("blocks", message);
            }
            Layout::Rings(rings) if table.has("layout") => {
                let rings = rings.clone();
                self.validate_rings(&rings, table);
            }
            _ => {}
        }
    }

    /// Checks that the side of a token fits the layout.
    fn validate_side(&self, table: &Table<'_>) {
        let side = self.format.patch_side;
        match self.layout {
            Layout::Windows if !WINDOW_SIDES.contains(&side) => {
                let message = format!(
                    "windows of {side} texels are not allowed; expected an even number from 224 to 1024 with the layout \
                     \"windows\""
                );
                table.refuse(if table.has("patch") { "patch" } else { "layout" }, message);
            }
            Layout::Windows => {}
            Layout::Samples(_) if side == SAMPLE_SIDE && self.format.dtype != DType::F32 => {
                let message = format!(
                    "{} with tokens of one texel is not allowed; expected \"f32\", or `patch` from 8",
                    self.format.dtype.name()
                );
                table.refuse(if table.has("dtype") { "dtype" } else { "patch" }, message);
            }
            Layout::Samples(_) if side == SAMPLE_SIDE => {}
            _ if side == SAMPLE_SIDE => {
                let message = "1 is not allowed here; expected an even number from 8 to 64, or the layout \"samples\"";
                table.refuse("patch", message);
            }
            _ if WINDOW_SIDES.contains(&side) => {
                let message = format!(
                    "{side} is not allowed here; expected an even number from 8 to 64, or the layout \"windows\""
                );
                table.refuse("patch", message);
            }
            _ => {}
        }
    }

    /// Reads the table of the layout `samples`, and takes what suits it for keys that are not given: tokens of one texel, and as many
    /// as rows.
    fn validate_samples(&mut self, table: &Table<'_>, directory: &Path) {
        let Layout::Samples(samples) = &mut self.layout else { return };
        if !table.has("table") {
            if table.names().all(|name| name != "table") {
                let message = "expected `table` beside it, the path of a table of points (.npy or safetensors)";
                table.refuse("layout", message);
            }
            return;
        }
        let path = directory.join(&samples.file);
        // Absolute, so that it stays the same file when the view is changed from another directory.
        match Samples::load(&path::absolute(&path).unwrap_or(path)) {
            Ok(loaded) => *samples = loaded,
            Err(message) => return table.refuse("table", message),
        }
        let count = samples.rows.len();
        if !table.has("patch") {
            self.format.patch_side = SAMPLE_SIDE;
        }
        if self.format.patch_side == SAMPLE_SIDE && !table.has("dtype") {
            self.format.dtype = DType::F32;
        }
        let pixels = samples.pixels(self.format.patch_side);
        if PIXELS_MAX < pixels {
            let message = format!(
                "{pixels} pixels under the tokens of this table; expected at most {PIXELS_MAX}: give smaller steps or a smaller `patch`"
            );
            table.refuse("table", message);
        }
        if !table.has("budget") {
            #[expect(clippy::cast_possible_truncation, reason = "at most ROWS_MAX")]
            let budget = count as u32;
            self.budget = budget;
        } else if (self.budget as usize) < count {
            let message = format!(
                "{} is less than the {count} rows of the table; expected at least as many",
                self.budget
            );
            table.refuse("budget", message);
        }
    }

    /// Checks rings, and takes what a preset's model was trained with.
    fn validate_rings(&mut self, rings: &Rings, table: &Table<'_>) {
        let key = if table.has("preset") { "preset" } else { "grids" };
        if let Some(preset) = table.text("preset").and_then(Preset::named) {
            if self.format.patch_side != preset.patch_side {
                let Preset { name, patch_side, .. } = preset;
                let message = format!(
                    "{} is not allowed here; expected {patch_side}, which the model of \"{name}\" was trained with",
                    self.format.patch_side
                );
                table.refuse("patch", message);
            }
            if preset.floors && !table.has("rounding") {
                self.format.rounding = Rounding::Floor;
            }
        }
        let (width, count) = (rings.width_px(self.format.patch_side), rings.token_count());
        if Extent::SIDE_MAX < width {
            let message = format!(
                "these rings are {width} pixels wide; expected at most {}",
                Extent::SIDE_MAX
            );
            table.refuse(key, message);
        }
        if (self.budget as usize) < count {
            let message = format!(
                "{} is less than the {count} tokens of these rings; expected at least as many",
                self.budget
            );
            table.refuse(if table.has("budget") { "budget" } else { key }, message);
        }
    }
}

/// Checks that there is a policy for each fixation at a time, and that each policy is named in one place. The layout "adaptive" has as many
/// fixations as there are policies.
fn check_several(policies: &[FoveaPolicy], layout: &Layout) -> Result<(), String> {
    let (count, foveae) = (policies.len(), layout.foveae());
    let fits = match layout.follows_detail() {
        true => (1..=foveae).contains(&count),
        false => count == foveae,
    };
    if !fits {
        let noun = if foveae == 1 { "fovea" } else { "foveae" };
        return Err(format!(
            "{count} policies for {foveae} {noun}; expected one for each, as many as `foveae` with the layout \"foveal\" or as \
             `blocks` with \"inset\", or at most {FOVEAE_MAX} with \"adaptive\""
        ));
    }
    let runs: Vec<_> = policies.chunk_by(|one, next| one == next).map(|same| same[0]).collect();
    let again = (1..runs.len()).find(|run| runs[..*run].contains(&runs[*run]));
    if let Some(again) = again {
        let name = runs[again].name();
        return Err(format!(
            "\"{name}\" stands apart from its equal; expected equal policies side by side"
        ));
    }
    if policies.contains(&FoveaPolicy::Auto) && policies.contains(&FoveaPolicy::Feedback) {
        let message = "\"auto\" and \"feedback\" both follow clients; expected one of them";
        return Err(message.to_owned());
    }
    let fixed = policies.iter().filter(|policy| **policy == FoveaPolicy::Fixed).count();
    if 1 < fixed {
        return Err(format!("{fixed} fixed foveae would look at the same point; expected one"));
    }
    Ok(())
}

/// Refuses the second of two equal names.
fn all_different<'a>(what: &str, tables: &[Table<'_>], names: impl Iterator<Item = &'a String>) {
    let mut seen = BTreeSet::new();
    for (name, table) in names.zip(tables) {
        if table.has("name") && !seen.insert(name) {
            let message = format!("there is another {what} `{name}`; expected a unique name");
            table.refuse("name", message);
        }
    }
}

/// Checks that black and white, and so everything between, are finite in the number format.
fn check_fits(TokenFormat { dtype, normalisation, .. }: TokenFormat) -> Result<(), String> {
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
        return Ok(());
    }
    Err(format!(
        "(value - mean) / std must stay within {largest:e}, the largest number of this dtype"
    ))
}
