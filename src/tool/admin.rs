//! `foveate add-stream`, `remove-stream`, `set` and `reload`: reconfigure a running daemon.

use std::io::{self, Write};
use std::path::{self, Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, thread};

use serde_json::Value;

use super::ToolError;
use foveate::ControlError;
use foveate::messages::{RefusalReason, ViewName};
use foveate_config::FILE_BYTES_MAX;
use foveate_control::{AdminRequest, order};
use foveate_core::file;

/// How long an order may take without a word; most take milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Adds the stream of a configuration.
pub(super) fn add(file: &Path, socket: &Path, out: &mut dyn Write) -> Result<(), ToolError> {
    let (file, config) = read(file)?;
    let answer = configured(order_with_notice(socket, &AdminRequest::AddStream { config, file }))?;
    writeln!(out, "{} is added: see `foveate ls`", name(&answer)).map_err(ToolError::Output)
}

pub(super) fn remove(stream: String, socket: &Path, out: &mut dyn Write) -> Result<(), ToolError> {
    let answer = order_with_notice(socket, &AdminRequest::RemoveStream { stream })?;
    writeln!(out, "{} is removed", name(&answer)).map_err(ToolError::Output)
}

/// Changes keys of a view.
pub(super) fn set(
    view: &ViewName,
    keys: &[(String, String)],
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let unreadable = |source| ToolError::reading(Path::new("."), source);
    let request = AdminRequest::Set {
        view: view.clone(),
        keys: keys.iter().cloned().collect(),
        directory: env::current_dir().map_err(unreadable)?,
    };
    order_with_notice(socket, &request)?;
    let keys: Vec<_> = keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    writeln!(out, "{view}: {}", keys.join(", ")).map_err(ToolError::Output)
}

/// Gives the daemon an order. If the answer takes long, says on standard error that it is awaited.
pub(super) fn order_with_notice(
    socket: &Path,
    request: &AdminRequest,
) -> Result<Value, ControlError> {
    thread::scope(|scope| {
        let (sender, answer) = mpsc::channel();
        // Received below.
        scope.spawn(move || drop(sender.send(order(socket, request))));
        answer.recv_timeout(PATIENCE).or_else(|_| {
            // Fails if standard error is closed.
            let _ = writeln!(io::stderr(), "the daemon has not answered yet; still waiting");
            answer.recv()
        })
    })
    .expect("an order ends with an answer or an error")
}

/// Tells a configuration that was refused from other mistakes.
fn configured(answer: Result<Value, ControlError>) -> Result<Value, ToolError> {
    match answer {
        Err(ControlError::Refused(refusal)) if refusal.reason == RefusalReason::BadRequest => {
            Err(ToolError::RefusedConfiguration(refusal))
        }
        answer => answer.map_err(ToolError::from),
    }
}

pub(super) fn assignment(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').filter(|(key, _)| !key.trim().is_empty());
    let (key, value) = split.ok_or("expected KEY=VALUE, such as max_fps=10")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

pub(super) fn reload(socket: &Path, out: &mut dyn Write) -> Result<(), ToolError> {
    let answer = configured(order_with_notice(socket, &AdminRequest::Reload))?;
    for what in ["added", "removed", "changed", "adjusted", "kept"] {
        let names = answer[what].as_array().map_or(&[][..], Vec::as_slice);
        let names: Vec<_> = names.iter().filter_map(Value::as_str).collect();
        if !names.is_empty() {
            writeln!(out, "{what:<8} {}", names.join(", ")).map_err(ToolError::Output)?;
        }
    }
    Ok(())
}

/// The text of a file, and its absolute path, for errors and for relative paths in it.
fn read(path: &Path) -> Result<(PathBuf, String), ToolError> {
    let unreadable = |source| ToolError::reading(path, source);
    if path == Path::new("-") {
        let text = file::text_from(io::stdin(), FILE_BYTES_MAX).map_err(unreadable)?;
        return Ok((env::current_dir().map_err(unreadable)?.join("standard input"), text));
    }
    let text = file::read_text(path, FILE_BYTES_MAX).map_err(unreadable)?;
    Ok((path::absolute(path).map_err(unreadable)?, text))
}

fn name(answer: &Value) -> &str {
    answer["stream"].as_str().unwrap_or_default()
}
