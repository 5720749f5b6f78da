//! Reading of files that a configuration names, on behalf of threads that must not wait long.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;

/// How long a file may take. Only a file system that hangs takes longer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Most threads that hang in a read.
const HANGING_MAX: usize = 16;

/// Threads that were given up and have not ended yet.
static HANGING: AtomicUsize = AtomicUsize::new(0);

/// Reads a regular file of at most `bytes_max` bytes. The caller never waits longer than 2 seconds: a thread opens and reads the file,
/// and is left alone if the file system hangs.
///
/// # Errors
///
/// If it cannot be opened or read in time, is not a regular file, or is larger.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    if HANGING_MAX <= HANGING.load(Ordering::Relaxed) {
        return Err(io::Error::other(format!(
            "{HANGING_MAX} earlier files are still being read; check the file systems that hold them"
        )));
    }
    let (sender, receiver) = sync_channel(1);
    let wanted = path.to_owned();
    HANGING.fetch_add(1, Ordering::Relaxed);
    let spawned = thread::Builder::new().name("reads-a-file".to_owned()).spawn(move || {
        let read = open_regular(&wanted).and_then(|file| read_bounded(file, bytes_max));
        HANGING.fetch_sub(1, Ordering::Relaxed);
        // Nobody receives it after the timeout.
        let _ = sender.send(read);
    });
    if let Err(error) = spawned {
        HANGING.fetch_sub(1, Ordering::Relaxed);
        return Err(error);
    }
    match receiver.recv_timeout(TIMEOUT) {
        Ok(read) => read,
        Err(RecvTimeoutError::Timeout) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {} s; check its file system", TIMEOUT.as_secs()),
        )),
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("reading it failed")),
    }
}

/// [`read`], of text in UTF-8.
///
/// # Errors
///
/// As for [`read`], or if it is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    text(read(path, bytes_max)?)
}

/// Reads text of at most `bytes_max` bytes from any kind of file on the caller's thread: a pipe is waited for.
///
/// # Errors
///
/// If it cannot be opened or read, is larger, or is not UTF-8.
pub fn wait_for_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    text(read_bounded(File::open(path)?, bytes_max)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

fn open_regular(path: &Path) -> io::Result<File> {
    // A FIFO without a writer would block the opening, and a terminal would become that of the daemon.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        let error = "not a regular file; expected a file, which can be read again";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    Ok(file)
}

fn read_bounded(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes_max < bytes.len() as u64 {
        let error = format!("too large; expected at most {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, error));
    }
    Ok(bytes)
}
