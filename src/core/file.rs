//! Reading of files that a configuration or a command names, on behalf of callers that must not wait long.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;

/// How long a file may take. Only a file system that hangs takes longer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Most reads at a time, those included that were given up and have not ended.
const PENDING_MAX: usize = 64;

/// Reads that have not ended yet.
static PENDING: AtomicUsize = AtomicUsize::new(0);

/// Reads a regular file of at most `bytes_max` bytes. The caller never waits longer than 2 seconds: a thread opens and reads the file,
/// and is left alone if the file system hangs.
///
/// # Errors
///
/// If it cannot be opened or read in time, is not a regular file, or is larger.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let path = path.to_owned();
    on_a_thread(move || read_bounded(open(&path)?, bytes_max))
}

/// The paths in a directory, in no order. The caller waits no longer than for [`read`].
///
/// # Errors
///
/// If it cannot be read in time.
pub fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let directory = directory.to_owned();
    on_a_thread(move || fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect())
}

/// Does `work` on a thread that is left alone if it hangs.
fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    if PENDING_MAX <= PENDING.load(Ordering::Relaxed) {
        return Err(io::Error::other(format!(
            "{PENDING_MAX} earlier reads have not returned; check the file systems of those files"
        )));
    }
    let (sender, receiver) = sync_channel(1);
    PENDING.fetch_add(1, Ordering::Relaxed);
    let spawned = thread::Builder::new().name("reads-a-file".to_owned()).spawn(move || {
        let done = work();
        PENDING.fetch_sub(1, Ordering::Relaxed);
        // After the time-out the receiver is gone.
        let _ = sender.send(done);
    });
    if let Err(error) = spawned {
        PENDING.fetch_sub(1, Ordering::Relaxed);
        return Err(error);
    }
    match receiver.recv_timeout(TIMEOUT) {
        Ok(done) => done,
        Err(RecvTimeoutError::Timeout) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {} s; check its file system", TIMEOUT.as_secs()),
        )),
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("the reading thread panicked")),
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
    text_from(File::open(path)?, bytes_max)
}

/// Reads text of at most `bytes_max` bytes to the end of `input`, which is waited for.
///
/// # Errors
///
/// If it cannot be read, is larger, or is not UTF-8.
pub fn text_from(input: impl Read, bytes_max: u64) -> io::Result<String> {
    text(read_bounded(input, bytes_max)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

/// Opens a regular file.
///
/// # Errors
///
/// If it cannot be opened, or is not a regular file: nothing waits for the writer of a FIFO.
pub fn open(path: &Path) -> io::Result<File> {
    // A FIFO without a writer would block the opening, and a terminal would become that of the daemon.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        let error = "not a regular file (expected a file that can be read again)";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    Ok(file)
}

fn read_bounded(input: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes_max < bytes.len() as u64 {
        let error = format!("too large (expected at most {bytes_max} bytes)");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, error));
    }
    Ok(bytes)
}

/// Whether `path` is that of a device below `/dev`. One that does not exist is a device that is not plugged in, except in folders of
/// files.
pub(crate) fn is_device(path: &str) -> bool {
    const FILES: [&str; 3] = ["/dev/fd/", "/dev/shm/", "/dev/std"];
    path.starts_with("/dev/")
        && match fs::metadata(path) {
            Ok(metadata) => metadata.file_type().is_char_device(),
            Err(_) => !FILES.iter().any(|place| path.starts_with(place)),
        }
}
