//! `foveated`, the daemon: logging, exit code.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use foveate_config::{Config, ConfigError};
use foveate_core::error::{chain, exit};
use foveate_daemon::DaemonError;
use foveate_log::redact::{self, SecretMask};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use arguments::DaemonArguments;

mod arguments;

#[derive(Debug, thiserror::Error)]
enum ProgramError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The mistakes of the configuration, and what [`foveate_daemon::check`] found.
    #[error("{}", .0.iter().map(|error| chain(error)).chain(.1.iter().map(|failure| chain(failure))).collect::<Vec<_>>().join("\n"))]
    Check(Option<ConfigError>, Vec<DaemonError>),
}

/// Limits what the C library keeps: else the freed memory of each of dozens of decoder threads, a hundred megabytes in a few
/// minutes. `MALLOC_ARENA_MAX` in the environment counts instead.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the C library has no other way")]
fn limit_arenas() {
    const ARENAS_MAX: i32 = 2;
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        // SAFETY: no other thread runs yet.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS_MAX) };
    }
}

/// Gives the system what memory is free after streams have ended or restarted, at most once a minute: the C library alone gives
/// back only what is free at the end of its heap. Decoders and capture wait for it if they allocate meanwhile; frame loops do not.
#[cfg(target_env = "gnu")]
fn give_memory_back() {
    const INTERVAL: Duration = Duration::from_secs(60);
    let trim = || {
        let mut seen = 0;
        loop {
            thread::sleep(INTERVAL);
            let finished = foveate_capture::source::finished_threads();
            if std::mem::replace(&mut seen, finished) != finished {
                // SAFETY: it may be called at any time.
                #[expect(unsafe_code, reason = "the C library has no other way")]
                unsafe {
                    libc::malloc_trim(0);
                }
            }
        }
    };
    // If the thread cannot be started, the daemon only needs more memory.
    let _ = thread::Builder::new().name("memory".to_owned()).spawn(trim);
}

/// Takes the socket from standard input and puts `/dev/null` in its place, so that nothing else reads messages. Closes descriptors that were
/// inherited beyond the standard ones: not all libraries mark theirs as close-on-exec.
#[expect(unsafe_code, reason = "nothing else closes descriptors that nobody owns")]
fn taken_socket() -> io::Result<OwnedFd> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: this process has not opened a descriptor yet. Before Linux 5.9 the call fails, and inherited descriptors stay.
    unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let nothing = File::open("/dev/null")?;
    // SAFETY: both are open, and nothing else uses standard input.
    if unsafe { libc::dup2(nothing.as_raw_fd(), libc::STDIN_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

/// Runs as the source process of a stream: standard input is its socket to the daemon.
fn run_source() -> ExitCode {
    match taken_socket() {
        Ok(socket) => {
            // Ignore signals that a terminal or service manager sends to all processes: the daemon ends this one through the socket.
            for signal in [SIGINT, SIGTERM, SIGHUP, SIGXFSZ] {
                let _ = signal_hook::flag::register(signal, Arc::default());
            }
            // Set the limits before the log's thread starts.
            let limited = foveate_capture::process::limit(socket);
            let log = foveate_log::to_parent("info");
            let code = foveate_capture::process::serve(limited);
            log.flush();
            code
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "a source process cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    #[cfg(target_env = "gnu")]
    limit_arenas();
    if std::env::args_os().nth(1).is_some_and(|word| word == foveate_capture::process::SUBCOMMAND) {
        return run_source();
    }
    let arguments = DaemonArguments::parse();
    // As on a full disk, writing beyond the limit on file sizes (`ulimit -f`) has to fail, not to end the daemon: a client can make it
    // reserve memory for a view, which the limit holds for, too.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let log = foveate_log::to_journal_or_stderr("info");
    let mut masked = Vec::new();
    match run(&arguments, &mut masked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Behind the lines of the log. Where those cannot be written, this would wait for ever.
            if log.flush() {
                // Fails if standard error is closed.
                let text = redact::printable(&redact::redacted(&chain(&failure)));
                let _ = writeln!(io::stderr(), "foveated: {text}");
            }
            ExitCode::from(match failure {
                ProgramError::Config(_) | ProgramError::Check(Some(_), _) => exit::CONFIG,
                ProgramError::Daemon(error) => error.exit_code(),
                ProgramError::Check(None, errors) => {
                    errors.iter().map(DaemonError::exit_code).max().unwrap_or(exit::FAILURE)
                }
            })
        }
    }
}

/// Masks what is secret in the configuration in `masked`, which the caller keeps until it has shown the failure.
fn run(arguments: &DaemonArguments, masked: &mut Vec<SecretMask>) -> Result<(), ProgramError> {
    if arguments.check {
        return check(arguments, masked);
    }
    let config = match (&arguments.config, &arguments.config_dir) {
        (Some(file), Some(directory)) => Config::load_with(file, directory)?,
        (Some(file), None) => Config::load(file)?,
        (None, _) => Config::default(),
    };
    let reread = || match &arguments.config {
        Some(file) => Config::reload(file, arguments.config_dir.as_deref()),
        None => Ok(Config::default()),
    };
    *masked = foveate_daemon::masked(&config);
    let asked_for = arguments.socket.as_deref().or(config.daemon.socket.as_deref());
    let socket = foveate::socket_path_to_serve(asked_for);
    #[cfg(target_env = "gnu")]
    give_memory_back();
    Ok(foveate_daemon::run(&config, masked, &socket, &reread)?)
}

/// Reports the mistakes of the configuration together with what is wrong with its streams.
fn check(arguments: &DaemonArguments, masked: &mut Vec<SecretMask>) -> Result<(), ProgramError> {
    let (config, mistakes) = match &arguments.config {
        Some(file) => Config::load_partly(file, arguments.config_dir.as_deref())?,
        None => (Config::default(), Vec::new()),
    };
    *masked = foveate_daemon::masked(&config);
    let failures = foveate_daemon::check(&config.streams, None);
    if !mistakes.is_empty() || !failures.is_empty() {
        let refused = (!mistakes.is_empty()).then_some(ConfigError::Refused(mistakes));
        return Err(ProgramError::Check(refused, failures));
    }
    // The exit code suffices if standard output is closed.
    let streams = config.streams.len();
    let _ = match &arguments.config {
        Some(file) => writeln!(
            io::stdout(),
            "{}: valid; {streams} stream{}",
            file.display(),
            if streams == 1 { "" } else { "s" }
        ),
        None => writeln!(io::stdout(), "no --config: the built-in test scene is valid"),
    };
    Ok(())
}
