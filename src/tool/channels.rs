//! `foveate inject` and `foveate weigh`: give a view a channel from a file for a time, and say what channels add to its score.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::attend::{read, region};
use super::look::write_taken_for;
use super::{StopCondition, ToolError};
use foveate::client::Client;
use foveate::messages::{Inject, NumberFormat, TTL_MS_DEFAULT, ViewName, Weigh};
use foveate_core::geometry::region::Region;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct InjectArguments {
    /// The view; its policy must be "auto" or "relevance"
    #[arg(value_name = "STREAM/VIEW")]
    view: ViewName,
    /// Name of the channel: 1 to 31 of a-z, 0-9, `_` and `-`
    #[arg(value_name = "NAME")]
    name: String,
    /// The values of the map: a .npy array of rows and columns, or the brightness of a .png; at most 128 a side
    #[arg(value_name = "MAP")]
    map: PathBuf,
    /// The area that the map covers, in pixels of the picture [default: the picture]
    #[arg(long = "box", value_name = "X0,Y0,X1,Y1", value_parser = region, allow_hyphen_values = true)]
    region: Option<Region>,
    /// Number of the frame that the map was made from [default: the newest]
    #[arg(long, value_name = "N")]
    frame: Option<u64>,
    /// Keep the map for this time after that frame, then withdraw it and exit, in milliseconds, 1 to 60000
    #[arg(long, value_name = "N", default_value_t = TTL_MS_DEFAULT)]
    ttl_ms: u32,
}

/// Sends the map, and stays for its time: it ends with the connection.
pub(super) fn inject(
    arguments: &InjectArguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let InjectArguments { view, name, map, region, frame, ttl_ms } = arguments.clone();
    let numbers = read(&map)?;
    let shape = numbers.as_map().ok_or_else(|| numbers.no_map())?;
    let (dtype, ttl) = (NumberFormat::F32, Some(ttl_ms));
    let inject = Inject {
        view: view.clone(),
        name: name.clone(),
        shape,
        dtype,
        region,
        frame,
        strict: false,
        ttl_ms: ttl,
    };
    let until = StopCondition::new(Some(Duration::from_millis(ttl_ms.into())))?;
    let mut client = Client::connect(socket)?;
    let injected = client.inject(inject, &numbers.to_payload())?;
    writeln!(out, "{view} has the channel {name} for {ttl_ms} ms")
        .and_then(|()| write_taken_for(out, injected.taken_for))
        .and_then(|()| out.flush())
        .map_err(ToolError::Output)?;
    while !until.is_over() {
        thread::sleep(until.slice());
    }
    Ok(())
}

/// Sends the weights.
pub(super) fn weigh(
    view: &ViewName,
    weights: Vec<(String, f64)>,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let count = weights.len();
    let weights: BTreeMap<String, f64> = weights.into_iter().collect();
    if weights.len() < count {
        return Err(ToolError::Usage("duplicate channel (expected each once)".to_owned()));
    }
    let said = weights.iter().map(|(name, weight)| format!("{name} by {weight}"));
    let said = said.collect::<Vec<_>>().join(", ");
    Client::connect(socket)?.weigh(Weigh { view: view.clone(), weights })?;
    writeln!(out, "{view} weighs {said}").map_err(ToolError::Output)
}

pub(super) fn weight(text: &str) -> Result<(String, f64), String> {
    let parsed = text.split_once('=').and_then(|(name, weight)| {
        let weight = weight.parse::<f64>().ok().filter(|weight| weight.is_finite())?;
        Some((name.to_owned(), weight))
    });
    parsed
        .ok_or_else(|| "expected the name of a channel and a number, such as depth=1.5".to_owned())
}
