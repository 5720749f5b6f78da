//! `foveate look`: move a view's fixation.

use std::io::Write;
use std::path::Path;

use super::ToolError;
use crate::control::client::Client;
use crate::control::messages::{Looking, ViewName};

/// Arguments of `foveate look`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The view
    #[arg(value_name = "STREAM/VIEW")]
    view: ViewName,
    /// Pixels right of the picture's left edge
    #[arg(value_parser = finite, allow_negative_numbers = true)]
    x: f64,
    /// Pixels below the picture's top edge
    #[arg(value_parser = finite, allow_negative_numbers = true)]
    y: f64,
}

/// Makes the view look there and prints where it looks from its next frame on.
pub fn run(arguments: &Arguments, socket: &Path, out: &mut dyn Write) -> Result<(), ToolError> {
    let mut client = Client::connect(socket)?;
    let Looking { view, x, y } = client.look(&arguments.view, arguments.x, arguments.y)?;
    let clamped = (x - arguments.x).abs().max((y - arguments.y).abs()) > 1.0 / 16.0;
    let note = if clamped { " (the nearest point of the picture)" } else { "" };
    writeln!(out, "{view} looks at {x}, {y}{note}").map_err(ToolError::Output)
}

fn finite(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err("it takes a number of pixels, such as 320 or 12.5".to_owned()),
    }
}
