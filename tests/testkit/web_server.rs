//! `foveate web` as a process, and pages without a browser: what a page would hold and show.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};
use tungstenite::handshake::HandshakeError;
use tungstenite::http::Request;
use tungstenite::protocol::frame::CloseFrame;
use tungstenite::{Message, WebSocket};

use crate::connection::Connection;
use crate::daemon::{Outcome, Process};
use crate::wait::HANG;

/// A `foveate web`.
pub struct Web {
    process: Process,
    pub address: SocketAddr,
    /// What comes after the path in the address that it printed: its token.
    pub query: String,
}

impl Web {
    /// Serves a page of the daemon at `socket` on any free port.
    pub fn start(socket: &Path, arguments: &[&str]) -> Self {
        Self::listening(socket, "127.0.0.1:0", arguments, &[])
    }

    /// Serves a page at `listen`, with variables in its environment.
    pub fn listening(
        socket: &Path,
        listen: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(crate::program("foveate"));
        command.arg("--socket").arg(socket).args(["web", "--listen", listen]).args(arguments);
        let process = Process::start(command, environment);
        process.stdout.wait_for("\n");
        let line = process.stdout.so_far();
        let url = line.split_whitespace().next().and_then(|url| url.strip_prefix("http://"));
        let (address, query) =
            url.and_then(|url| url.split_once('/')).unwrap_or_else(|| panic!("{line:?}"));
        let (address, query) = (address.parse().unwrap(), query.to_owned());
        Self { process, address, query }
    }

    /// Ends it as Ctrl-C does.
    pub fn interrupt(self) -> Outcome {
        self.process.signal(Signal::INT);
        self.process.finish()
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn url(&self) -> String {
        format!("http://{}/{}", self.address, self.query)
    }

    /// The answer to a GET of `path` as `host`, whole.
    pub fn get(&self, path: &str, host: &str) -> String {
        let mut stream = Connection::open(self.address).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// A page that this server served.
    pub fn page(&self) -> Page {
        let host = self.address.to_string();
        let origin = format!("http://{host}");
        self.connect(&host, Some(&origin)).unwrap_or_else(|status| panic!("refused with {status}"))
    }

    /// Opens the WebSocket with these headers, or returns the status of the refusal.
    pub fn connect(&self, host: &str, origin: Option<&str>) -> Result<Page, u16> {
        let stream = Connection::open(self.address).unwrap();
        let mut request = Request::get(format!("ws://{}/live{}", self.address, self.query))
            .header("Host", host)
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "Zm92ZWF0ZSBpcyBmdW4hIQ==");
        if let Some(origin) = origin {
            request = request.header("Origin", origin);
        }
        match tungstenite::client(request.body(()).unwrap(), stream) {
            Ok((socket, _)) => Ok(Page { socket, panes: BTreeMap::new() }),
            Err(HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
                Err(answer.status().as_u16())
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A page without a browser.
pub struct Page {
    socket: WebSocket<Connection>,
    /// State of each pane.
    panes: BTreeMap<u8, PaneContent>,
}

/// Where a token lies: origin, whole steps, and extra pixels.
pub type Place = (i32, i32, [u16; 2], [u8; 2]);

/// What a page holds of one picture: the texels of each token of its newest frame, by its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaneContent {
    tokens: BTreeMap<Place, Vec<u8>>,
}

/// Message of the server.
#[derive(Debug)]
pub enum ServerMessage {
    Message(Value),
    Frame(Packet),
    Thumbnails(Vec<SmallPicture>),
    /// Number and bytes of a piece of a recording; the last one is empty.
    Piece(u32, Vec<u8>),
    Closed(Option<CloseFrame>),
}

impl Page {
    pub fn say(&mut self, message: &Value) {
        self.say_text(&message.to_string());
    }

    pub fn say_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).unwrap();
    }

    pub fn watch(&mut self, view: &str) {
        self.say(&json!({ "op": "watch", "view": view }));
    }

    pub fn acknowledge(&mut self, packet: &Packet) {
        self.say(&json!({ "op": "ack", "pane": packet.pane, "serial": packet.serial }));
    }

    pub fn next(&mut self) -> ServerMessage {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    return ServerMessage::Message(serde_json::from_str(&text).unwrap());
                }
                Ok(Message::Binary(bytes)) if bytes.starts_with(b"FVT1") => {
                    return ServerMessage::Thumbnails(SmallPicture::read(&bytes));
                }
                Ok(Message::Binary(bytes)) => {
                    return match bytes.strip_prefix(b"FVD1") {
                        Some(mut piece) => ServerMessage::Piece(word(&mut piece), piece.to_vec()),
                        None => ServerMessage::Frame(Packet::read(&bytes)),
                    };
                }
                Ok(Message::Close(frame)) => return ServerMessage::Closed(frame),
                Ok(_) => {}
                Err(error) => panic!("nothing comes: {error}"),
            }
        }
    }

    /// Reads up to the next message of `kind` that `is_it`.
    pub fn message(&mut self, kind: &str, mut is_it: impl FnMut(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < HANG, "timed out waiting for a {kind}");
            match self.next() {
                ServerMessage::Message(message) if message["type"] == kind && is_it(&message) => {
                    return message;
                }
                ServerMessage::Closed(frame) => panic!("closed: {frame:?}"),
                _ => {}
            }
        }
    }

    /// Reads up to the next frame, and takes over what it brings. It is not acknowledged.
    pub fn frame(&mut self) -> Packet {
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < HANG, "timed out waiting for a frame");
            match self.next() {
                ServerMessage::Frame(packet) => {
                    self.panes.entry(packet.pane).or_default().apply(&packet);
                    return packet;
                }
                ServerMessage::Closed(frame) => panic!("closed: {frame:?}"),
                ServerMessage::Message(_)
                | ServerMessage::Thumbnails(_)
                | ServerMessage::Piece(..) => {}
            }
        }
    }

    /// Reads up to the next small pictures. They are not acknowledged.
    pub fn thumbnails(&mut self) -> Vec<SmallPicture> {
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < HANG, "timed out waiting for small pictures");
            match self.next() {
                ServerMessage::Thumbnails(pictures) => return pictures,
                ServerMessage::Closed(frame) => panic!("closed: {frame:?}"),
                ServerMessage::Message(_) | ServerMessage::Frame(_) | ServerMessage::Piece(..) => {}
            }
        }
    }

    /// Asks for a moment, and returns it with the texels on the screen then. Frames are acknowledged.
    pub fn moment(&mut self, request: &Value, shown: &mut Option<Packet>) -> (Value, Vec<u8>) {
        self.say(request);
        let (started, mut moment) = (Instant::now(), None::<Value>);
        loop {
            assert!(started.elapsed() < HANG, "timed out waiting for a moment");
            if let (Some(moment), Some(packet)) = (&moment, &*shown)
                && moment["frame_seq"] == packet.frame_seq
            {
                return (moment.clone(), self.texels(packet));
            }
            match self.next() {
                ServerMessage::Frame(packet) => {
                    self.panes.entry(packet.pane).or_default().apply(&packet);
                    self.acknowledge(&packet);
                    if packet.pane == 0 {
                        *shown = Some(packet);
                    }
                }
                ServerMessage::Message(message) => {
                    assert_ne!(message["type"], "history_error", "{message}");
                    if message["type"] == "moment" {
                        moment = Some(message);
                    }
                }
                ServerMessage::Piece(..) | ServerMessage::Thumbnails(_) => {}
                ServerMessage::Closed(frame) => panic!("closed: {frame:?}"),
            }
        }
    }

    /// Saves what is in memory, and returns the recording.
    pub fn save(&mut self) -> Vec<u8> {
        self.save_as(&json!({ "op": "save" }))
    }

    /// The recording that the server makes for this request.
    pub fn save_as(&mut self, request: &Value) -> Vec<u8> {
        self.say(request);
        let mut recording = Vec::new();
        loop {
            match self.next() {
                ServerMessage::Piece(serial, piece) => {
                    self.say(&json!({ "op": "ack", "pane": 3, "serial": serial }));
                    if piece.is_empty() {
                        return recording;
                    }
                    recording.extend(piece);
                }
                ServerMessage::Message(message) => {
                    assert_ne!(message["type"], "history_error", "{message}")
                }
                ServerMessage::Frame(packet) => {
                    self.panes.entry(packet.pane).or_default().apply(&packet);
                    self.acknowledge(&packet);
                }
                ServerMessage::Thumbnails(_) => {}
                ServerMessage::Closed(frame) => panic!("closed: {frame:?}"),
            }
        }
    }

    /// Reads and acknowledges frames up to frame `frame_seq` of the view.
    pub fn frame_of(&mut self, frame_seq: u64) -> Packet {
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < HANG, "timed out waiting for frame {frame_seq}");
            let packet = self.frame();
            self.acknowledge(&packet);
            if packet.pane == 0 && frame_seq <= packet.frame_seq {
                return packet;
            }
        }
    }

    /// The texels of all tokens of `packet`, in its order, with what came before.
    pub fn texels(&self, packet: &Packet) -> Vec<u8> {
        let held = &self.panes[&packet.pane];
        packet.records.iter().flat_map(|record| held.tokens[&record.place()].clone()).collect()
    }
}

impl PaneContent {
    /// Tokens that the newest frame lacks are dropped, as pixels that were drawn over.
    fn apply(&mut self, packet: &Packet) {
        let token_bytes = 3 * usize::from(packet.patch_side).pow(2);
        let token = |record: &Record| match record.texels {
            u32::MAX => {
                let held = self.tokens.get(&record.place());
                held.unwrap_or_else(|| panic!("{record:?} is not held")).clone()
            }
            at => packet.texels[at as usize * token_bytes..][..token_bytes].to_vec(),
        };
        let tokens = packet.records.iter().map(|record| (record.place(), token(record)));
        self.tokens = tokens.collect();
    }
}

/// A small picture of a view, as src/web/thumbnails.rs has it.
#[derive(Clone, Debug, PartialEq)]
pub struct SmallPicture {
    pub view: String,
    pub size: [u16; 2],
    pub age_ns: u64,
    pub rgb: Vec<u8>,
}

impl SmallPicture {
    fn read(mut bytes: &[u8]) -> Vec<Self> {
        let bytes = &mut bytes;
        assert_eq!(read_array::<4>(bytes), *b"FVT1");
        let pictures = (0..word(bytes)).map(|_| {
            let [name, width, height, _] = [0; 4].map(|_| short(bytes));
            let age_ns = u64::from_le_bytes(read_array(bytes));
            let (view, rest) = bytes.split_at(usize::from(name));
            let (rgb, rest) = rest.split_at(3 * usize::from(width) * usize::from(height));
            *bytes = rest;
            let view = String::from_utf8(view.to_vec()).unwrap();
            Self { view, size: [width, height], age_ns, rgb: rgb.to_vec() }
        });
        let pictures = pictures.collect();
        assert!(bytes.is_empty(), "nothing follows the pictures");
        pictures
    }
}

/// A frame on the wire, as src/web/packet.rs has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    pub pane: u8,
    pub is_whole: bool,
    pub patch_side: u16,
    pub serial: u32,
    pub sent_count: u32,
    pub extent: [u32; 2],
    pub tiles: [u32; 2],
    pub frame_seq: u64,
    pub ring_sequence: u64,
    pub age_ns: u64,
    pub epoch: u64,
    /// Number and place of each.
    pub fixations: Vec<(u32, f64, f64)>,
    /// Columns and rows of the cells of a channel; zeros without one.
    pub cell_grid: [u16; 2],
    pub cell_side: u32,
    pub cells: Vec<u8>,
    pub records: Vec<Record>,
    pub texels: Vec<u8>,
}

/// A token on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    pub x: i32,
    pub y: i32,
    pub sx: u16,
    pub sy: u16,
    pub first_column: u16,
    pub columns: u16,
    pub first_row: u16,
    pub rows: u16,
    pub group: u16,
    pub extra: [u8; 2],
    pub relevance: f32,
    pub unchanged: u32,
    pub texels: u32,
}

impl Record {
    pub fn place(&self) -> Place {
        (self.x, self.y, [self.sx, self.sy], self.extra)
    }
}

impl Packet {
    fn read(mut bytes: &[u8]) -> Self {
        let bytes = &mut bytes;
        assert_eq!(read_array::<4>(bytes), *b"FVW3");
        let [pane, is_whole] = read_array::<2>(bytes);
        let patch_side = u16::from_le_bytes(read_array(bytes));
        let serial = word(bytes);
        let count = word(bytes);
        let sent_count = word(bytes);
        let mut packet = Self {
            pane,
            is_whole: is_whole == 1,
            patch_side,
            serial,
            sent_count,
            extent: [word(bytes), word(bytes)],
            tiles: [word(bytes), word(bytes)],
            fixations: vec![Default::default(); word(bytes) as usize],
            frame_seq: u64::from_le_bytes(read_array(bytes)),
            ring_sequence: u64::from_le_bytes(read_array(bytes)),
            age_ns: u64::from_le_bytes(read_array(bytes)),
            epoch: u64::from_le_bytes(read_array(bytes)),
            cell_grid: [short(bytes), short(bytes)],
            cell_side: word(bytes),
            cells: Vec::new(),
            records: Vec::new(),
            texels: Vec::new(),
        };
        for fixation in &mut packet.fixations {
            *fixation = (word(bytes), double(bytes), double(bytes));
        }
        packet.records = (0..count).map(|_| Record::read(bytes)).collect();
        let token_bytes = 3 * usize::from(patch_side).pow(2);
        let (texels, cells) = bytes.split_at(sent_count as usize * token_bytes);
        (packet.texels, packet.cells) = (texels.to_vec(), cells.to_vec());
        let [columns, rows] = packet.cell_grid.map(usize::from);
        assert_eq!(cells.len(), columns * rows);
        packet
    }
}

impl Record {
    fn read(bytes: &mut &[u8]) -> Self {
        Self {
            x: i32::from_le_bytes(read_array(bytes)),
            y: i32::from_le_bytes(read_array(bytes)),
            sx: short(bytes),
            sy: short(bytes),
            first_column: short(bytes),
            columns: short(bytes),
            first_row: short(bytes),
            rows: short(bytes),
            group: short(bytes),
            extra: read_array(bytes),
            relevance: f32::from_le_bytes(read_array(bytes)),
            unchanged: word(bytes),
            texels: word(bytes),
        }
    }
}

fn double(bytes: &mut &[u8]) -> f64 {
    f64::from_le_bytes(read_array(bytes))
}

fn short(bytes: &mut &[u8]) -> u16 {
    u16::from_le_bytes(read_array(bytes))
}

fn word(bytes: &mut &[u8]) -> u32 {
    u32::from_le_bytes(read_array(bytes))
}

fn read_array<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (first, rest) = bytes.split_first_chunk().unwrap();
    *bytes = rest;
    *first
}
