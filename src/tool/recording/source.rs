//! Reads messages of an untrusted MCAP file: memory is allocated as data arrives, and damaged chunks are skipped.

#![cfg_attr(
    not(feature = "web"),
    allow(dead_code, reason = "only the page reads messages at their places")
)]

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use mcap::McapError;
use mcap::read::parse_record;
use mcap::records::{ChunkHeader, Record, op};
use mcap::sans_io::linear_reader::{LinearReadEvent, LinearReader, LinearReaderOptions};

use super::RecordingError;
use foveate_core::file;

/// Most bytes of a record, and of a chunk: above any frame.
const BYTES_MAX: usize = 256 << 20;

/// Most bytes of a topic: a longer one is not that of a view.
const TOPIC_BYTES_MAX: usize = 256;

/// Read at a time.
const PIECE: usize = 64 << 10;

/// Opcode and length of a record.
const RECORD_HEAD_BYTES: usize = 1 + 8;

/// Messages of our own that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageKind {
    /// A `Segment`.
    Segment,
    /// A `TokenFrame`.
    TokenFrame,
    /// An `Event`.
    Event,
    /// A `SceneEvent`.
    SceneEvent,
}

impl MessageKind {
    /// The kind of message that a schema's name means.
    fn of_schema(name: &str) -> Option<Self> {
        match name {
            "foveate.Segment" => Some(Self::Segment),
            "foveate.TokenFrame" => Some(Self::TokenFrame),
            "foveate.Event" => Some(Self::Event),
            "foveate.SceneEvent" => Some(Self::SceneEvent),
            _ => None,
        }
    }
}

/// A message of a recording.
#[derive(Debug)]
pub(super) struct RecordedMessage {
    /// Kind of the message.
    pub(super) kind: MessageKind,
    /// Topic of the message.
    pub(super) topic: String,
    /// When the message was published, in nanoseconds since 1970.
    pub(super) publish_time: u64,
    /// Payload of the message.
    pub(super) data: Vec<u8>,
}

/// Location of a message in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MessagePlace {
    /// Offset of its record, or of the chunk that it is in.
    record: u64,
    /// Offset in the records of the chunk.
    within: u32,
}

/// An item of a file.
#[derive(Debug)]
pub(super) enum RecordingItem {
    /// A message of ours.
    Message(RecordedMessage),
    /// A chunk, or a record, that is damaged, and was left out.
    Damaged(String),
    /// The rest cannot be read, for this reason.
    CutShort(String),
}

/// An open file.
pub(super) struct RecordingSource {
    file: File,
    reader: LinearReader,
    names: MessageNames,
    /// The records of the present chunk.
    chunk: Vec<u8>,
    /// Bytes of the chunk that were read.
    taken: usize,
    /// Location of the newest message.
    place: MessagePlace,
    /// Offset of the record that comes next.
    next: u64,
    /// The records that [`read_at`](Self::read_at) read last, and their offset.
    cached: Option<(u64, Vec<u8>)>,
}

/// The kinds of messages by their numbers in the file.
#[derive(Default)]
struct MessageNames {
    schemas: HashMap<u16, MessageKind>,
    channels: HashMap<u16, (MessageKind, String)>,
}

impl RecordingSource {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Self, RecordingError> {
        let file = file::open(path)
            .map_err(|source| RecordingError::Open { path: path.to_owned(), source })?;
        let options = LinearReaderOptions::default()
            .with_emit_chunks(true)
            .with_record_length_limit(BYTES_MAX);
        let reader = LinearReader::new_with_options(options);
        Ok(Self {
            file,
            reader,
            names: MessageNames::default(),
            chunk: Vec::new(),
            taken: 0,
            place: MessagePlace::default(),
            next: mcap::MAGIC.len() as u64,
            cached: None,
        })
    }

    /// Location of the newest message.
    pub(super) fn place(&self) -> MessagePlace {
        self.place
    }

    /// The data of the message at `place`, as [`place`](Self::place) gave it. What [`next`](Self::next) gives is not affected.
    ///
    /// # Errors
    ///
    /// If the file has changed, or cannot be read.
    pub(super) fn read_at(&mut self, place: MessagePlace) -> io::Result<Vec<u8>> {
        let changed =
            || io::Error::new(ErrorKind::InvalidData, "the file has changed since it was opened");
        if self.cached.as_ref().is_none_or(|(record, _)| *record != place.record) {
            self.cached = None;
            let mut head = [0; RECORD_HEAD_BYTES];
            self.file.read_exact_at(&mut head, place.record)?;
            let bytes = u64::from_le_bytes(*head[1..].as_array().expect("eight bytes"));
            let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= BYTES_MAX);
            let mut body = vec![0; bytes.ok_or_else(changed)?];
            self.file.read_exact_at(&mut body, place.record + RECORD_HEAD_BYTES as u64)?;
            let mut records = Vec::new();
            match parse_record(head[0], &body).map_err(io::Error::other)? {
                Record::Chunk { header, data } => {
                    let damaged = decompress(&header, &data, &mut records, &|| false)
                        .map_err(io::Error::other)?;
                    if damaged.is_some() {
                        return Err(changed());
                    }
                }
                _ => records = [&head[..], &body].concat(),
            }
            self.cached = Some((place.record, records));
        }
        let (_, records) = self.cached.as_ref().ok_or_else(changed)?;
        let mut at = place.within as usize;
        let record = if at < records.len() { next_record(records, &mut at) } else { None };
        let Some(Ok((opcode, body))) = record else { return Err(changed()) };
        match parse_record(opcode, body).map_err(io::Error::other)? {
            Record::Message { data, .. } => Ok(data.into_owned()),
            _ => Err(changed()),
        }
    }

    /// The next item; `None` at the end, and once `is_over`.
    ///
    /// # Errors
    ///
    /// If the file is not MCAP, uses an unknown compression, or cannot be read.
    pub(super) fn next(
        &mut self,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<RecordingItem>, McapError> {
        while !is_over() {
            self.place.within = u32::try_from(self.taken).unwrap_or(u32::MAX);
            match next_record(&self.chunk, &mut self.taken) {
                Some(Ok((opcode, body))) => match self.names.message_in(opcode, body) {
                    Ok(None) => continue,
                    Ok(Some(entry)) => return Ok(Some(RecordingItem::Message(entry))),
                    Err(error) => return Ok(Some(RecordingItem::Damaged(error.to_string()))),
                },
                Some(Err(why)) => return Ok(Some(RecordingItem::Damaged(why.to_owned()))),
                None => {}
            }
            match self.reader.next_event() {
                None => return Ok(None),
                Some(Ok(LinearReadEvent::ReadRequest(bytes))) => {
                    // Do not allocate by the announced length: the data may be cut short.
                    match self.file.read(self.reader.insert(bytes.min(PIECE))) {
                        Ok(read) => self.reader.notify_read(read),
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Some(Ok(LinearReadEvent::Record { opcode: op::CHUNK, data })) => {
                    self.place.record = self.next;
                    self.next += (RECORD_HEAD_BYTES + data.len()) as u64;
                    let Ok(Record::Chunk { header, data }) = parse_record(op::CHUNK, data) else {
                        return Ok(Some(RecordingItem::Damaged(
                            "invalid header of a chunk".to_owned(),
                        )));
                    };
                    self.taken = 0;
                    self.chunk.clear();
                    if let Some(why) = decompress(&header, &data, &mut self.chunk, is_over)? {
                        self.chunk.clear();
                        return Ok(Some(RecordingItem::Damaged(why)));
                    }
                }
                Some(Ok(LinearReadEvent::Record { opcode, data })) => {
                    self.place = MessagePlace { record: self.next, within: 0 };
                    self.next += (RECORD_HEAD_BYTES + data.len()) as u64;
                    match self.names.message_in(opcode, data) {
                        Ok(None) => {}
                        Ok(Some(entry)) => return Ok(Some(RecordingItem::Message(entry))),
                        Err(error) => return Ok(Some(RecordingItem::Damaged(error.to_string()))),
                    }
                }
                Some(Err(error @ (McapError::BadMagic | McapError::Io(_)))) => return Err(error),
                Some(Err(McapError::UnexpectedEof)) => {
                    return Ok(Some(RecordingItem::CutShort(
                        "the file ends in the middle of a record".to_owned(),
                    )));
                }
                Some(Err(error)) => return Ok(Some(RecordingItem::CutShort(error.to_string()))),
            }
        }
        Ok(None)
    }
}

impl MessageNames {
    /// The message in a record, if it is one of ours; remembers schemas and channels.
    fn message_in(
        &mut self,
        opcode: u8,
        body: &[u8],
    ) -> Result<Option<RecordedMessage>, McapError> {
        if ![op::SCHEMA, op::CHANNEL, op::MESSAGE].contains(&opcode) {
            return Ok(None);
        }
        match parse_record(opcode, body)? {
            Record::Schema { header, .. } => {
                if let Some(kind) = MessageKind::of_schema(&header.name) {
                    self.schemas.insert(header.id, kind);
                }
            }
            Record::Channel(channel) => {
                let kind = self.schemas.get(&channel.schema_id);
                if let Some(kind) = kind.filter(|_| channel.topic.len() <= TOPIC_BYTES_MAX) {
                    self.channels.insert(channel.id, (*kind, channel.topic));
                }
            }
            Record::Message { header, data } => {
                let Some((kind, topic)) = self.channels.get(&header.channel_id) else {
                    return Ok(None);
                };
                let (topic, publish_time) = (topic.clone(), header.publish_time);
                return Ok(Some(RecordedMessage {
                    kind: *kind,
                    topic,
                    publish_time,
                    data: data.into_owned(),
                }));
            }
            _ => {}
        }
        Ok(None)
    }
}

/// Opcode and body of the record at `taken`, which moves behind it; `None` at the end. Behind a damaged record there is none.
fn next_record<'a>(
    chunk: &'a [u8],
    taken: &mut usize,
) -> Option<Result<(u8, &'a [u8]), &'static str>> {
    let rest = &chunk[*taken..];
    if rest.is_empty() {
        return None;
    }
    let record = rest.split_at_checked(RECORD_HEAD_BYTES).and_then(|(head, behind)| {
        let bytes = u64::from_le_bytes(*head[1..].as_array()?);
        Some((head[0], behind.get(..usize::try_from(bytes).ok()?)?))
    });
    *taken = record.map_or(chunk.len(), |(_, body)| *taken + RECORD_HEAD_BYTES + body.len());
    Some(record.ok_or("a chunk ends in the middle of a record"))
}

/// Appends the records of a chunk to `records`, or returns why it is damaged.
fn decompress(
    header: &ChunkHeader,
    data: &[u8],
    records: &mut Vec<u8>,
    is_over: &dyn Fn() -> bool,
) -> Result<Option<String>, McapError> {
    let damaged = |why: String| Ok(Some(format!("a chunk {why}")));
    let bytes = usize::try_from(header.uncompressed_size).unwrap_or(usize::MAX);
    if BYTES_MAX < bytes {
        return damaged(format!("announces {bytes} bytes (expected at most {BYTES_MAX})"));
    }
    let mut source: Box<dyn Read + '_> = match header.compression.as_str() {
        "" => Box::new(data),
        "zstd" => match zstd::Decoder::with_buffer(data) {
            Ok(decoder) => Box::new(decoder),
            Err(error) => return damaged(format!("cannot be decompressed: {error}")),
        },
        "lz4" => Box::new(lz4_flex::frame::FrameDecoder::new(data)),
        other => return Err(McapError::UnsupportedCompression(other.to_owned())),
    };
    while records.len() < bytes && !is_over() {
        let at = records.len();
        records.resize(bytes.min(at + PIECE), 0);
        match source.read(&mut records[at..]) {
            Ok(0) => return damaged(format!("has {at} bytes (expected {bytes})")),
            Ok(read) => records.truncate(at + read),
            Err(error) => return damaged(format!("cannot be decompressed: {error}")),
        }
    }
    let crc = header.uncompressed_crc;
    if crc != 0 && records.len() == bytes && crc32fast::hash(records) != crc {
        return damaged("is damaged: its checksum differs".to_owned());
    }
    Ok(None)
}
