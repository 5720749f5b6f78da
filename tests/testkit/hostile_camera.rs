//! Cameras and servers that harm who opens them, or answer what nobody wants: over HTTP and RTSP, with TLS or without, at ports of
//! their own.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gio::prelude::*;
use parking_lot::Mutex;

use crate::repository;
use crate::wait::HANG;

/// Behaviour of a camera towards its clients.
#[derive(Clone, Debug)]
pub enum Conduct {
    /// Answers HTTP by this status, with these headers and this body.
    Answer { status: u16, headers: String, body: Arc<Vec<u8>> },
    /// Answers HTTP by a redirect, but for its own path by what is behind it.
    RedirectOnce { location: String, then: Arc<Conduct> },
    /// Sends `multipart/x-mixed-replace` over HTTP: this picture again and again.
    Pictures(Arc<Vec<u8>>),
    /// Begins a JPEG picture in a part of such a stream, and never ends it.
    EndlessPart,
    /// Begins an HLS playlist that never ends.
    EndlessPlaylist,
    /// Answers RTSP requests of this method by this status, with these headers, and the others like a camera.
    RtspAnswer { method: &'static str, status: u16, headers: String },
    /// Answers RTSP's DESCRIBE with a body that never ends.
    EndlessDescription,
    /// Answers RTSP's PLAY with a body that never ends.
    EndlessPlay,
    /// Accepts connections, and stays silent.
    Silence,
}

impl Conduct {
    /// A body over HTTP, whatever is its media type.
    pub fn body(media: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::Answer {
            status: 200,
            headers: format!("Content-Type: {media}\r\n"),
            body: Arc::new(body.into()),
        }
    }

    /// An error of HTTP.
    pub fn status(status: u16) -> Self {
        Self::Answer { status, headers: String::new(), body: Arc::default() }
    }

    /// A redirect of HTTP.
    pub fn redirect(location: &str) -> Self {
        let headers = format!("Location: {location}\r\n");
        Self::Answer { status: 302, headers, body: Arc::default() }
    }

    /// An HLS playlist with these segments.
    pub fn playlist(segments: &[&str]) -> Self {
        Self::body("application/vnd.apple.mpegurl", playlist(segments))
    }

    fn is_rtsp(&self) -> bool {
        matches!(self, Self::RtspAnswer { .. } | Self::EndlessDescription | Self::EndlessPlay)
    }
}

/// The text of an HLS playlist with these segments.
pub fn playlist(segments: &[&str]) -> String {
    let head = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:2\n";
    let segments: String =
        segments.iter().map(|segment| format!("#EXTINF:2,\n{segment}\n")).collect();
    format!("{head}{segments}#EXT-X-ENDLIST\n")
}

/// `jpeg` with another size in its header, which its scan does not have.
pub fn jpeg_of_size(jpeg: &[u8], width: u16, height: u16) -> Vec<u8> {
    let start = jpeg.windows(2).position(|marker| marker == [0xFF, 0xC0]).unwrap();
    let mut forged = jpeg.to_vec();
    forged[start + 5..start + 7].copy_from_slice(&height.to_be_bytes());
    forged[start + 7..start + 9].copy_from_slice(&width.to_be_bytes());
    forged
}

/// `jpeg` with comments of `bytes` bytes before all else, where nobody looks for its header.
pub fn jpeg_behind_comments(jpeg: &[u8], bytes: usize) -> Vec<u8> {
    let comment = [&[0xFF, 0xFE, 0x10, 0x00][..], &[0x20; 0xFFE]].concat();
    let comments = comment.repeat(bytes.div_ceil(comment.len()));
    [&jpeg[..2], &comments, &jpeg[2..]].concat()
}

/// A PNG of this size with no pixels in it.
pub fn png_of_size(width: u32, height: u32) -> Vec<u8> {
    let mut header = b"IHDR".to_vec();
    header.extend(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    header.extend([8, 2, 0, 0, 0]);
    let chunk = |chunk: &[u8]| {
        let length = u32::try_from(chunk.len() - 4).unwrap().to_be_bytes();
        [&length, chunk, &crc(chunk).to_be_bytes()].concat()
    };
    // An empty block of deflate.
    let data = chunk(b"IDAT\x78\x01\x00\x00\x00\xff\xff");
    [&b"\x89PNG\r\n\x1a\n"[..], &chunk(&header), &data, &chunk(b"IEND")].concat()
}

/// The checksum of a chunk of PNG.
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { 0xEDB8_8320 ^ (crc >> 1) } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// The certificate of [`HostileCamera::with_tls`], which no authority has signed.
pub fn certificate() -> PathBuf {
    repository().join("tests/data/camera-certificate.pem")
}

/// A certificate that no client trusts.
pub fn other_certificate() -> PathBuf {
    repository().join("tests/data/other-certificate.pem")
}

/// A camera that answers until it is dropped, with its connections.
pub struct HostileCamera {
    address: SocketAddr,
    has_tls: bool,
    conduct: Arc<Mutex<Conduct>>,
    requests: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HostileCamera {
    /// Starts a camera that behaves as `conduct` says.
    pub fn new(conduct: Conduct) -> Self {
        Self::start(conduct, false)
    }

    /// The same behind TLS, with a certificate of its own for 127.0.0.1 and localhost.
    pub fn with_tls(conduct: Conduct) -> Self {
        Self::start(conduct, true)
    }

    fn start(conduct: Conduct, has_tls: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let conduct = Arc::new(Mutex::new(conduct));
        let (requests, is_over) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicBool>::default());
        let (own_conduct, own_requests, over) =
            (Arc::clone(&conduct), Arc::clone(&requests), Arc::clone(&is_over));
        let run = move || {
            let mut clients = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let Ok((client, _)) = listener.accept() else {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                };
                own_requests.lock().push("connection".to_owned());
                let conduct = own_conduct.lock().clone();
                let visit = Visit {
                    conduct,
                    requests: Arc::clone(&own_requests),
                    is_over: Arc::clone(&over),
                };
                clients.push(thread::spawn(move || visit.serve(client, has_tls)));
            }
            drop(listener);
            clients.into_iter().for_each(|client| client.join().unwrap());
        };
        let thread = Some(thread::spawn(run));
        Self { address, has_tls, conduct, requests, is_over, thread }
    }

    /// Behaves like this from the next connection on.
    pub fn change(&self, conduct: Conduct) {
        *self.conduct.lock() = conduct;
    }

    /// Its address, by the protocol of what it does.
    pub fn address(&self) -> String {
        let scheme = if self.conduct.lock().is_rtsp() { "rtsp" } else { "http" };
        let secure = if self.has_tls { "s" } else { "" };
        format!("{scheme}{secure}://{}/stream", self.address)
    }

    /// The address with another scheme, such as `http`.
    pub fn address_by(&self, scheme: &str) -> String {
        format!("{scheme}://{}/stream", self.address)
    }

    /// The first lines of what it was asked, and `connection` for each connection.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
}

impl Drop for HostileCamera {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A connection of a client.
struct Visit {
    conduct: Conduct,
    requests: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
}

impl Visit {
    /// Answers until the client hangs up.
    fn serve(&self, client: TcpStream, has_tls: bool) {
        client.set_nonblocking(false).unwrap();
        // So that nothing waits for a client for ever.
        client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        client.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
        // A client may hang up at any time, even in a handshake.
        let _ =
            if has_tls { self.serve_encrypted(client) } else { self.serve_on(&client, &client) };
    }

    fn serve_encrypted(&self, client: TcpStream) -> Option<()> {
        let pem = repository().join("tests/data/camera.pem");
        let certificate = gio::TlsCertificate::from_file(pem).unwrap();
        let socket = gio::Socket::from_fd(client.into()).unwrap();
        socket.set_timeout(u32::try_from(HANG.as_secs()).unwrap());
        let connection = socket.connection_factory_create_connection();
        let tls = gio::TlsServerConnection::new(&connection, Some(&certificate)).unwrap();
        tls.upcast_ref::<gio::TlsConnection>().handshake(gio::Cancellable::NONE).ok()?;
        // So that it notices when it is dropped.
        socket.set_timeout(1);
        let (input, output) = (tls.input_stream().into_read(), tls.output_stream().into_write());
        self.serve_on(input, output)
    }

    /// `None` once the client has hung up, or the camera is dropped.
    fn serve_on(&self, mut input: impl Read, mut output: impl Write) -> Option<()> {
        let mut received = Vec::new();
        loop {
            let request = self.request(&mut input, &mut received)?;
            let line = request.lines().next().unwrap_or_default().to_owned();
            self.requests.lock().push(line);
            if self.conduct.is_rtsp() {
                self.answer_rtsp(&request, &mut output)?;
            } else {
                match &self.conduct {
                    Conduct::RedirectOnce { location, then } if request.contains(location) => {
                        self.answer_http(then, &mut output)?;
                    }
                    Conduct::RedirectOnce { location, .. } => {
                        self.answer_http(&Conduct::redirect(location), &mut output)?;
                    }
                    conduct => self.answer_http(conduct, &mut output)?,
                }
                return Some(());
            }
        }
    }

    /// The next request without its empty line.
    fn request(&self, input: &mut impl Read, received: &mut Vec<u8>) -> Option<String> {
        let mut bytes = [0; 4096];
        loop {
            let end = received.windows(4).position(|bytes| bytes == b"\r\n\r\n");
            if let Some(end) = end {
                let request = String::from_utf8_lossy(&received[..end]).into_owned();
                received.drain(..end + 4);
                return Some(request);
            }
            match input.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => received.extend(&bytes[..count]),
                Err(error) if is_timeout(&error) => self.check()?,
                Err(_) => return None,
            }
        }
    }

    fn answer_http(&self, conduct: &Conduct, output: &mut impl Write) -> Option<()> {
        let head = |headers: &str| format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{headers}\r\n");
        let parts = "Content-Type: multipart/x-mixed-replace; boundary=frame\r\n";
        let part = "--frame\r\nContent-Type: image/jpeg\r\n";
        match conduct {
            Conduct::Answer { status, headers, body } => {
                let head = format!(
                    "HTTP/1.1 {status} Hostile\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
                    body.len()
                );
                self.send(output, &[head.as_bytes(), body].concat())
            }
            Conduct::Pictures(picture) => {
                self.send(output, head(parts).as_bytes())?;
                let head = format!("{part}Content-Length: {}\r\n\r\n", picture.len());
                let part = [head.as_bytes(), picture, b"\r\n"].concat();
                loop {
                    self.send(output, &part)?;
                    thread::sleep(Duration::from_millis(40));
                }
            }
            Conduct::EndlessPart => {
                self.send(output, head(parts).as_bytes())?;
                self.send(output, format!("{part}\r\n").as_bytes())?;
                self.send(output, &[0xFF, 0xD8, 0xFF, 0xE0, 0, 4, 0, 0])?;
                self.send_for_ever(output, &[0x55; 1 << 16])
            }
            Conduct::EndlessPlaylist => {
                self.send(
                    output,
                    head("Content-Type: application/vnd.apple.mpegurl\r\n").as_bytes(),
                )?;
                self.send(output, b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n")?;
                self.send_for_ever(output, &b"#EXTINF:2,\nsegment.ts\n".repeat(3000))
            }
            _ => loop {
                self.check()?;
                thread::sleep(Duration::from_millis(20));
            },
        }
    }

    fn answer_rtsp(&self, request: &str, output: &mut impl Write) -> Option<()> {
        let method = request.split(' ').next().unwrap_or_default();
        let sequence =
            request.lines().find(|line| line.to_ascii_lowercase().starts_with("cseq:"))?;
        let head = |status: u16, headers: &str| {
            format!("RTSP/1.0 {status} Hostile\r\n{sequence}\r\n{headers}\r\n")
        };
        const ENDLESS: &str = "Content-Length: 4000000000\r\n";
        let sdp = "Content-Type: application/sdp\r\n";
        match (&self.conduct, method) {
            (Conduct::RtspAnswer { method: refused, status, headers }, _) if *refused == method => {
                self.send(output, head(*status, headers).as_bytes())
            }
            (Conduct::EndlessDescription, "DESCRIBE") => {
                self.send(output, head(200, &format!("{sdp}{ENDLESS}")).as_bytes())?;
                self.send_for_ever(output, &[b'a'; 1 << 16])
            }
            (Conduct::EndlessPlay, "PLAY") => {
                self.send(output, head(200, ENDLESS).as_bytes())?;
                self.send_for_ever(output, &[b'a'; 1 << 16])
            }
            (_, "OPTIONS") => {
                let methods = "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN\r\n";
                self.send(output, head(200, methods).as_bytes())
            }
            (_, "DESCRIBE") => {
                let body = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=camera\r\nt=0 0\r\na=control:*\r\n\
                            m=video 0 RTP/AVP 26\r\na=control:track1\r\n";
                let length = format!("{sdp}Content-Length: {}\r\n", body.len());
                self.send(output, (head(200, &length) + body).as_bytes())
            }
            (_, "SETUP") => {
                let session = "Session: 1\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
                self.send(output, head(200, session).as_bytes())
            }
            _ => self.send(output, head(200, "Session: 1\r\n").as_bytes()),
        }
    }

    /// Until the client hangs up, or the camera is dropped.
    fn send_for_ever(&self, output: &mut impl Write, bytes: &[u8]) -> Option<()> {
        loop {
            self.send(output, bytes)?;
        }
    }

    fn send(&self, output: &mut impl Write, mut bytes: &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            self.check()?;
            match output.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_timeout(&error) => {}
                Err(_) => return None,
            }
        }
        output.flush().ok()
    }

    fn check(&self) -> Option<()> {
        (!self.is_over.load(Ordering::Relaxed)).then_some(())
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
