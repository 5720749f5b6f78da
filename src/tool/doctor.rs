//! `foveate doctor`: checks of this machine, each with a finding and its remedy.

use std::io::{self, Write};
use std::path::Path;

use rustix::fs::{Access, MemfdFlags, SealFlags, access, fcntl_add_seals, memfd_create};

use super::ToolError;

#[cfg(feature = "gst")]
mod addresses;
mod backends;
mod cameras;
mod daemon;
#[cfg(feature = "gst")]
mod plugins;
#[cfg(feature = "gst")]
mod processes;

/// Arguments of `foveate doctor`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct DoctorArguments {
    /// Try these sources instead, such as rtsp://192.0.2.1/main, and print a [[stream]] table for each that delivers frames
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<String>,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    /// The check passed.
    Ok,
    /// Some uses do not work.
    Warn,
    /// No stream works until this is fixed.
    Fail,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// Severity.
    mark: Mark,
    /// The thing that was checked.
    subject: String,
    /// The result, in words.
    detail: String,
    /// How to fix it; `Some` unless the mark is [`Mark::Ok`].
    remedy: Option<String>,
}

impl Finding {
    /// A finding without a remedy.
    fn ok(subject: &str, detail: impl Into<String>) -> Self {
        Self { mark: Mark::Ok, subject: subject.to_owned(), detail: detail.into(), remedy: None }
    }

    /// A finding with its remedy.
    fn bad(
        mark: Mark,
        subject: &str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let remedy = Some(remedy.into());
        Self { mark, subject: subject.to_owned(), detail: detail.into(), remedy }
    }
}

/// Runs all checks, with the daemon that clients find at `socket` and a daemon that would serve `to_serve`, and prints their
/// findings; or tries the addresses that are given.
pub(super) fn run(
    arguments: &DoctorArguments,
    socket: &Path,
    to_serve: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    if !arguments.addresses.is_empty() {
        return try_addresses(&arguments.addresses, out);
    }
    let mut findings = findings(to_serve.parent().unwrap_or(Path::new("/")));
    findings.extend(daemon::findings(socket));
    print(&findings, out)
        .and_then(|()| print_stanzas(&cameras::stanzas(&cameras::cameras()), out))
        .map_err(ToolError::Output)?;
    if is_fit(&findings) { Ok(()) } else { Err(ToolError::Unfit) }
}

#[cfg(feature = "gst")]
fn try_addresses(given: &[String], out: &mut dyn Write) -> Result<(), ToolError> {
    let probes = addresses::probe(given);
    let findings: Vec<_> = probes.iter().map(|probe| probe.finding.clone()).collect();
    print(&findings, out)
        .and_then(|()| print_stanzas(&addresses::stanzas(&probes), out))
        .map_err(ToolError::Output)?;
    if is_fit(&findings) { Ok(()) } else { Err(ToolError::NoFrames) }
}

#[cfg(not(feature = "gst"))]
fn try_addresses(_: &[String], _: &mut dyn Write) -> Result<(), ToolError> {
    let error = "this build plays no sources: build it with the feature `gst`";
    Err(ToolError::Usage(error.to_owned()))
}

/// Whether no finding is a [`Mark::Fail`].
fn is_fit(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.mark != Mark::Fail)
}

/// Checks GStreamer, Vulkan, cameras, `socket_directory`, shared memory and the confinement of source processes.
fn findings(socket_directory: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    #[cfg(feature = "gst")]
    findings.extend(plugins::findings());
    findings.extend(backends::findings());
    findings.extend(cameras::findings(&cameras::cameras()));
    findings.push(sockets(socket_directory));
    findings.push(shared_memory());
    #[cfg(feature = "gst")]
    findings.push(processes::finding());
    findings
}

/// Writes a line for each finding, with the remedy below it.
fn print(findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    let width = findings.iter().map(|finding| finding.subject.chars().count()).max().unwrap_or(0);
    for Finding { mark, subject, detail, remedy } in findings {
        let mark = match mark {
            Mark::Ok => "ok  ",
            Mark::Warn => "warn",
            Mark::Fail => "FAIL",
        };
        writeln!(out, "{mark}  {subject:width$}  {detail}")?;
        if let Some(remedy) = remedy {
            writeln!(out, "      {:width$}  -> {remedy}", "")?;
        }
    }
    Ok(())
}

/// Writes the configuration of cameras.
fn print_stanzas(stanzas: &str, out: &mut dyn Write) -> io::Result<()> {
    if stanzas.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nTo watch these cameras, save the following as a file, and run `foveated --config FILE`:"
    )?;
    write!(out, "{stanzas}")
}

/// Checks that the daemon can create its sockets.
fn sockets(directory: &Path) -> Finding {
    let subject = "sockets";
    let existing = directory.ancestors().find(|ancestor| ancestor.exists());
    let shown = directory.display();
    match existing.map(|existing| access(existing, Access::WRITE_OK | Access::EXEC_OK)) {
        Some(Ok(())) => Finding::ok(subject, format!("can be created in {shown}")),
        _ => Finding::bad(
            Mark::Fail,
            subject,
            format!("cannot be created in {shown}"),
            "choose another path with --socket or FOVEATE_SOCKET, or run under systemd",
        ),
    }
}

/// Checks that shared memory can be sealed as the ring needs.
fn shared_memory() -> Finding {
    let subject = "shared memory";
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let seals = SealFlags::GROW | SealFlags::SHRINK | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    match memfd_create("foveate-doctor", flags).and_then(|fd| fcntl_add_seals(&fd, seals)) {
        Ok(()) => Finding::ok(subject, "memfd with seals"),
        Err(error) => Finding::bad(
            Mark::Fail,
            subject,
            format!("a memfd cannot be sealed: {error}"),
            "use Linux 5.1 or later, and allow memfd_create in the container",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_cannot_be_made_is_a_failure() {
        let sockets = sockets(Path::new("/proc/self/nonesuch"));
        assert_eq!(sockets.mark, Mark::Fail, "{sockets:?}");
        assert!(!is_fit(&[shared_memory(), sockets]));
    }

    #[test]
    fn every_subject_is_checked() {
        let found = findings(Path::new("/tmp"));
        let subjects: Vec<_> = found.iter().map(|finding| finding.subject.as_str()).collect();
        let plugins = if cfg!(feature = "gst") {
            &["GStreamer", "rtsp://", "files", "source processes"][..]
        } else {
            &[]
        };
        for subject in plugins.iter().chain(&["vulkan", "sockets", "shared memory"]) {
            assert!(subjects.contains(subject), "{subjects:?}");
        }
    }

    #[test]
    fn every_finding_is_a_line_with_its_remedy_below() {
        let found = [
            Finding::ok("one", "fine"),
            Finding::bad(Mark::Warn, "another", "missing", "install it"),
        ];
        let mut out = Vec::new();
        print(&found, &mut out).unwrap();
        let expected =
            "ok    one      fine\nwarn  another  missing\n               -> install it\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert!(is_fit(&found));
    }
}
