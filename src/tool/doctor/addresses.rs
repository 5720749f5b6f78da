//! Checks of sources that are named on the command line, each by its first frames, and a configuration for those that deliver some.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::{Finding, Mark};
use foveate_capture::{Isolation, Source, SourceSpec, TakeResult};
use foveate_config::{Config, SourceChoice, StreamConfig};
use foveate_core::error::chain;
use foveate_core::frame::FrameView;
use foveate_log::redact::{SecretMask, redacted};

/// How long the frames of a live source are counted.
const COUNTED: Duration = Duration::from_secs(1);

/// A source that was tried.
pub(super) struct Probe {
    pub(super) finding: Finding,
    /// A `[[stream]]` table for the source; `None` if it delivers no frames.
    stanza: Option<String>,
}

/// Tries all `addresses` at the same time; each takes no longer than the timeout for a first frame.
pub(super) fn probe(addresses: &[String]) -> Vec<Probe> {
    thread::scope(|scope| {
        let probes = (1..).zip(addresses);
        let probes =
            probes.map(|(number, address)| scope.spawn(move || probe_one(number, address)));
        let probes: Vec<_> = probes.collect();
        probes.into_iter().map(|probe| probe.join().expect("a probe returns")).collect()
    })
}

/// The `[[stream]]` tables of the sources that deliver frames; empty if there are none.
pub(super) fn stanzas(probes: &[Probe]) -> String {
    probes.iter().filter_map(|probe| probe.stanza.as_deref()).collect()
}

fn probe_one(number: usize, address: &str) -> Probe {
    let name = format!("camera-{number}");
    let failed = |detail: String, remedy: &str| {
        let finding = Finding::bad(Mark::Fail, &redacted(address), redacted(&detail), remedy);
        Probe { finding, stanza: None }
    };
    let stream = match stream_of(&name, address) {
        Ok(stream) => stream,
        Err(reason) => return failed(reason, "see `source` in foveate.toml(5)"),
    };
    SecretMask::new(&stream.secrets).and_credentials_in(&stream.capture.source.text()).for_good();
    // Only the daemon starts source processes.
    let spec = SourceSpec { isolation: Isolation::None, ..stream.source() };
    match frames_of(&spec) {
        Ok(frames) => Probe {
            finding: Finding::ok(&redacted(address), frames),
            stanza: Some(stanza(&name, address)),
        },
        Err(reason) => failed(
            reason,
            "check that the camera is on, its address and password, and that its port can be reached from here",
        ),
    }
}

/// A stream with this source and the defaults otherwise.
fn stream_of(name: &str, address: &str) -> Result<StreamConfig, String> {
    // The quotes and escapes of JSON are those of TOML.
    let source = serde_json::Value::from(address);
    let text = format!("[[stream]]\nname = \"{name}\"\nsource = {source}\n");
    // Relative paths start here.
    let config = Config::parse(&text, Path::new("address")).map_err(|error| error.reason())?;
    Ok(config.streams.into_iter().next().unwrap_or_default())
}

/// Description of the first frames.
fn frames_of(spec: &SourceSpec) -> Result<String, String> {
    let mut source = Source::open(spec, &Arc::default()).map_err(|error| chain(&error))?;
    let TakeResult::Frame(first) = source.next_frame(spec.caps_timeout) else {
        return Err("it ended before its first frame".to_owned());
    };
    let view: FrameView<'_> = first.view().map_err(|error| chain(&error))?;
    let found = format!("{} {}", view.format().name(), view.extent());
    if !source.is_live() {
        return Ok(format!("{found}, a clip"));
    }
    let began_ns = first.stamp().arrival_ns;
    let (end, mut frames, mut last_ns) = (Instant::now() + COUNTED, 0u32, began_ns);
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        match source.next_frame(left) {
            TakeResult::Frame(frame) => (frames, last_ns) = (frames + 1, frame.stamp().arrival_ns),
            TakeResult::TimedOut => {}
            TakeResult::Ended(_) => break,
        }
    }
    let seconds = last_ns.saturating_sub(began_ns) as f64 * 1e-9;
    let rate =
        (0 < frames).then(|| format!(", {:.1} frames a second", f64::from(frames) / seconds));
    Ok(found + &rate.unwrap_or_default())
}

/// The table of a source. One whose address has a password takes it from the environment.
fn stanza(name: &str, address: &str) -> String {
    let variable = format!("{}_ADDRESS", name.to_uppercase().replace('-', "_"));
    let is_secret = !address.contains("${") && redacted(address) != address;
    let (source, comment) = if is_secret {
        (
            format!("${{{variable}}}"),
            format!("# {variable} is the address, in the environment of foveated.\n"),
        )
    } else {
        (address.to_owned(), String::new())
    };
    let source = SourceChoice::Shorthand(source);
    let capture = SourceSpec { source, ..SourceSpec::default() };
    let stream = StreamConfig { name: name.to_owned(), capture, ..StreamConfig::default() };
    // `to_toml` escapes variables, which the daemon is to substitute here.
    format!("\n{comment}{}", Config::from(stream).to_toml().replace("$${", "${"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stanza_of_an_address_hides_its_password() {
        let open = stanza("camera-1", "rtsp://192.0.2.1/main");
        assert!(open.contains("source = \"rtsp://192.0.2.1/main\""), "{open}");
        let secret = stanza("camera-2", "rtsp://admin:s3cret@192.0.2.1/main");
        assert!(!secret.contains("s3cret"), "{secret}");
        assert!(secret.contains("source = \"${CAMERA_2_ADDRESS}\""), "{secret}");
        let named = stanza("camera-3", "rtsp://admin:${PASSWORD}@192.0.2.1/main");
        assert!(named.contains("source = \"rtsp://admin:${PASSWORD}@192.0.2.1/main\""), "{named}");
    }

    #[test]
    fn an_address_that_cannot_be_used_says_what_is_expected() {
        let error = stream_of("camera-1", "ftp://192.0.2.1/main").unwrap_err();
        assert!(error.contains("rtsp://"), "{error}");
        let stream = stream_of("camera-1", "test").unwrap();
        assert_eq!(stream.capture.source, SourceChoice::Shorthand("test".to_owned()));
    }
}
