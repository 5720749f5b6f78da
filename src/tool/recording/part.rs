//! One file of a recording.
//!
//! Space is reserved before anything is written, enough for the open chunk, and for the index that makes the file whole: a disk that
//! fills up refuses the reservation, not the bytes that end the file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcap::records::MessageHeader;
use mcap::{McapError, WriteOptions, Writer};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, getrlimit};

use super::topic::Topic;
use foveate::messages::ViewName;

/// Bytes of messages after which a chunk ends. What is in no whole chunk is lost when the process is killed.
const CHUNK_BYTES: u64 = 4 << 20;

/// Time after which a chunk ends.
const CHUNK_TIME: Duration = Duration::from_secs(1);

/// More than a file has beside its messages and their indexes: twice its schemas and channels, statistics, footer.
const FRAME_BYTES: u64 = 64 << 10;

/// More than the index of a chunk takes.
const CHUNK_INDEX_BYTES: u64 = 256;

/// More than a message takes beside its data: the header of its record, and its place in the index.
const MESSAGE_BYTES: u64 = 64;

/// Space is reserved in steps.
const RESERVED_BYTES: u64 = 8 << 20;

/// Times of a message, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// The capture of the frame.
    pub(super) log: u64,
    pub(super) publish: u64,
}

/// Why a message was not written.
#[derive(Debug)]
pub(super) enum WriteError {
    /// There is no space for it; there is for the end of the file.
    Full(io::Error),
    /// The system refuses to write.
    Failed(io::Error),
}

impl From<McapError> for WriteError {
    fn from(error: McapError) -> Self {
        Self::Failed(match error {
            McapError::Io(error) => error,
            error => io::Error::other(error),
        })
    }
}

/// A file that messages are appended to.
pub(super) struct RecordingFile {
    path: PathBuf,
    file: Arc<File>,
    /// Writes only whole chunks, at [`flush`](Self::flush).
    writer: Writer<Arc<File>>,
    channels: BTreeMap<Topic, u16>,
    started_at: Instant,
    /// Size of the file: it ends with a whole chunk.
    written: u64,
    /// End of the reserved space in the file; `None` if the file system cannot reserve space.
    reserved: Option<u64>,
    chunk: Chunk,
    /// Number of whole chunks in the file.
    chunks: u64,
    /// Messages of the topic `tokens`.
    frames: u64,
}

/// The messages that wait for [`flush`](RecordingFile::flush).
#[derive(Debug, Default)]
struct Chunk {
    bytes: u64,
    messages: u64,
    /// Time of the first message.
    since: Option<Instant>,
}

impl RecordingFile {
    /// Creates a file, which must not exist.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = Arc::new(File::create_new(path)?);
        let options = WriteOptions::new()
            .library(concat!("foveate ", env!("CARGO_PKG_VERSION")))
            // Chunks are kept in memory until they are whole, and end when `flush` says so.
            .disable_seeking(true)
            .chunk_size(None)
            // The thread that records is there to compress.
            .compression_threads(0)
            // Chunks have checksums. One of the whole file would be wrong where a file is cut after the last whole chunk.
            .calculate_data_section_crc(false);
        let created = (|| {
            let writer = options.create(Arc::clone(&file)).map_err(WriteError::from)?;
            let mut part = Self {
                path: path.to_owned(),
                writer,
                channels: BTreeMap::new(),
                started_at: Instant::now(),
                written: (&*file).stream_position().map_err(WriteError::Failed)?,
                file,
                reserved: Some(0),
                chunk: Chunk::default(),
                chunks: 0,
                frames: 0,
            };
            part.reserve(0)?;
            Ok(part)
        })();
        created.map_err(|error| {
            // Best effort: it is empty.
            let _ = fs::remove_file(path);
            match error {
                WriteError::Full(error) | WriteError::Failed(error) => error,
            }
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    pub(super) fn age(&self) -> Duration {
        self.started_at.elapsed()
    }

    /// No more than this will the file have, if it ends after messages with `bytes` bytes of data.
    pub(super) fn bound(&self, messages: u64, bytes: u64) -> u64 {
        let messages = self.chunk.messages + messages;
        let chunk = self.chunk.bytes + bytes + messages * MESSAGE_BYTES;
        // zstd stores what it cannot compress, with a few bytes a block.
        let compressed = chunk + chunk / 128;
        self.written + compressed + (self.chunks + 1) * CHUNK_INDEX_BYTES + FRAME_BYTES
    }

    /// Appends a message.
    pub(super) fn write(
        &mut self,
        view: &ViewName,
        topic: Topic,
        times: Times,
        data: &[u8],
    ) -> Result<(), WriteError> {
        self.make_room(data.len() as u64)?;
        let channel_id = self.channel(view, topic)?;
        let Times { log, publish } = times;
        let header =
            MessageHeader { channel_id, sequence: 0, log_time: log, publish_time: publish };
        self.writer.write_to_known_channel(&header, data)?;
        self.chunk.bytes += data.len() as u64;
        self.chunk.messages += 1;
        self.chunk.since.get_or_insert_with(Instant::now);
        if topic == Topic::Tokens {
            self.frames += 1;
        }
        if CHUNK_BYTES <= self.chunk.bytes { self.flush() } else { self.flush_due() }
    }

    /// Ends a chunk that is old.
    pub(super) fn flush_due(&mut self) -> Result<(), WriteError> {
        match self.chunk.since {
            Some(since) if CHUNK_TIME <= since.elapsed() => self.flush(),
            _ => Ok(()),
        }
    }

    /// Ends the chunk, if one has been begun, and writes it.
    pub(super) fn flush(&mut self) -> Result<(), WriteError> {
        if self.chunk.messages == 0 {
            return Ok(());
        }
        self.writer.flush()?;
        self.written = (&*self.file).stream_position().map_err(WriteError::Failed)?;
        self.chunk = Chunk::default();
        self.chunks += 1;
        Ok(())
    }

    /// Writes the open chunk and the index, and returns the size of the file.
    pub(super) fn finish(&mut self) -> io::Result<u64> {
        self.end().map_err(|error| match WriteError::from(error) {
            WriteError::Full(error) | WriteError::Failed(error) => error,
        })
    }

    fn end(&mut self) -> Result<u64, McapError> {
        self.writer.finish()?;
        let bytes = (&*self.file).stream_position()?;
        // Gives back what was reserved beyond the end.
        self.file.set_len(bytes)?;
        self.file.sync_all()?;
        Ok(bytes)
    }

    /// Cuts what a failed write has left behind the last whole chunk.
    pub(super) fn cut(&mut self) {
        // Best effort: the first error is the one to report, and a reader that recovers the file ignores the rest.
        let _ = self.file.set_len(self.written);
    }

    /// Makes sure that a message of `bytes` bytes can be written, and the file be ended.
    fn make_room(&mut self, bytes: u64) -> Result<(), WriteError> {
        match self.reserve(bytes) {
            // Compressed, the open chunk takes less.
            Err(WriteError::Full(_)) if 0 < self.chunk.messages => {
                self.flush()?;
                self.reserve(bytes)
            }
            reserved => reserved,
        }
    }

    /// Reserves space for the open chunk with a message of `bytes` bytes more, as if neither could be compressed, and for the end.
    fn reserve(&mut self, bytes: u64) -> Result<(), WriteError> {
        let end = self.bound(1, bytes);
        // Some file systems reserve beyond the limit, and refuse the bytes.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < end) {
            return Err(WriteError::Full(Errno::FBIG.into()));
        }
        let Some(reserved) = self.reserved.filter(|reserved| *reserved < end) else {
            return Ok(());
        };
        let until = |end: u64| {
            let flags = FallocateFlags::KEEP_SIZE;
            retry_on_intr(|| fallocate(&self.file, flags, reserved, end - reserved)).map(|()| end)
        };
        let is_full = |errno: &Errno| matches!(*errno, Errno::NOSPC | Errno::DQUOT | Errno::FBIG);
        match until(end + RESERVED_BYTES)
            .or_else(|errno| if is_full(&errno) { until(end) } else { Err(errno) })
        {
            Ok(end) => self.reserved = Some(end),
            Err(errno) if is_full(&errno) => return Err(WriteError::Full(errno.into())),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.reserved = None,
            Err(errno) => return Err(WriteError::Failed(errno.into())),
        }
        Ok(())
    }

    /// The channel of `topic`, which is added if it is new.
    fn channel(&mut self, view: &ViewName, topic: Topic) -> Result<u16, McapError> {
        if let Some(id) = self.channels.get(&topic) {
            return Ok(*id);
        }
        let schema = topic.schema();
        let schema = self.writer.add_schema(&schema.name, &schema.encoding, &schema.data)?;
        let name = format!("/{view}/{topic}");
        let id = self.writer.add_channel(schema, &name, "protobuf", &BTreeMap::new())?;
        self.channels.insert(topic, id);
        Ok(id)
    }
}
