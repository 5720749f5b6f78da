//! `foveate add-stream`, `remove-stream` and `reload`: change what a daemon does while it runs.

use std::io::{self, Read, Write};
use std::path::{self, Path, PathBuf};
use std::{env, fs};

use serde_json::Value;

use super::ToolError;
use crate::control::operator::order;
use crate::control::server::AdminRequest;

/// Arguments of `foveate add-stream`.
#[derive(Debug, clap::Args)]
pub struct AddArguments {
    /// A configuration with one [[stream]]; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Arguments of `foveate remove-stream`.
#[derive(Debug, clap::Args)]
pub struct RemoveArguments {
    /// The stream
    #[arg(value_name = "STREAM")]
    stream: String,
}

/// Starts a stream.
pub(super) fn add(
    arguments: &AddArguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let (file, config) = read(&arguments.file)?;
    let answer = order(socket, &AdminRequest::AddStream { config, file })?;
    writeln!(out, "{} is added: see `foveate ls`", name(&answer)).map_err(ToolError::Output)
}

/// Stops a stream.
pub(super) fn remove(
    arguments: &RemoveArguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let request = AdminRequest::RemoveStream { stream: arguments.stream.clone() };
    let answer = order(socket, &request)?;
    writeln!(out, "{} is removed", name(&answer)).map_err(ToolError::Output)
}

/// Has the configuration read again.
pub(super) fn reload(socket: &Path, out: &mut dyn Write) -> Result<(), ToolError> {
    let answer = order(socket, &AdminRequest::Reload)?;
    for what in ["added", "removed", "changed", "kept"] {
        let names = answer[what].as_array().map_or(&[][..], Vec::as_slice);
        let names: Vec<_> = names.iter().filter_map(Value::as_str).collect();
        if !names.is_empty() {
            writeln!(out, "{what:<8} {}", names.join(", ")).map_err(ToolError::Output)?;
        }
    }
    Ok(())
}

/// A file's text, and the path that errors name and that relative paths in it start beside.
fn read(file: &Path) -> Result<(PathBuf, String), ToolError> {
    let unreadable = |source| ToolError::Unreadable { path: file.to_owned(), source };
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(unreadable)?;
        return Ok((env::current_dir().map_err(unreadable)?.join("standard input"), text));
    }
    let text = fs::read_to_string(file).map_err(unreadable)?;
    Ok((path::absolute(file).map_err(unreadable)?, text))
}

fn name(answer: &Value) -> &str {
    answer["stream"].as_str().unwrap_or_default()
}
