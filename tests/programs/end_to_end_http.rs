//! Cameras and other things on a web server: pictures that replace each other, a stream without an end, a camera that comes late or
//! goes away, a clip, and a page that asks for a login.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use foveate_control::StreamState;
use testkit::daemon::{Daemon, Follower, Place};
use testkit::film::encode;
use testkit::wait::until;

/// Frames that prove that a stream goes on.
const ENOUGH: u64 = 5;

#[test]
fn a_camera_on_a_web_server_comes_back() {
    let live = "live = true\nrestart_timeout_ms = 1500\n";
    for (headers, content, pipeline) in [
        ("", None, None),
        // It claims a length that it never reaches.
        ("Content-Length: 99999999\r\n", None, None),
        ("", Some(Content::endless_video()), None),
        ("", None, Some(live)),
    ] {
        let place = Place::new();
        let camera = Camera::new(&place, headers);
        let camera = Camera { content: content.unwrap_or(camera.content), ..camera };
        let server = camera.start();
        let config = pipeline.map_or(camera.config(""), |keys| {
            let pipeline = format!(
                "souphttpsrc location={} ! decodebin ! appsink name=frames",
                camera.address()
            );
            format!("[[stream]]\nname = 'camera'\nbackend = 'cpu'\n{keys}pipeline = '{pipeline}'\n")
        });
        let daemon = place.daemon(&config);
        let mut follower = daemon.subscribe("camera/main");
        watch(&mut follower);
        drop(server);
        await_retry(&daemon);
        assert_eq!(daemon.listing("camera").state, StreamState::Stalled);
        let _server = camera.start();
        watch(&mut follower);
        let listing = daemon.listing("camera");
        assert_eq!((listing.state, listing.reason.as_str()), (StreamState::Live, ""));
        assert!(0 < listing.restarts.values().sum::<u64>(), "{listing:?}");
        daemon.stop();
    }
}

#[test]
fn a_clip_on_a_web_server_plays_once() {
    let place = Place::new();
    let clip = [VIDEO_HEAD.to_vec(), video_frame().repeat(5)].concat();
    let content = Content::Whole { media: "video/x-yuv4mpeg", body: Arc::new(clip) };
    let camera = Camera { content, ..Camera::new(&place, "") };
    let _server = camera.start();
    let outcome = place.ended_daemon(&camera.config(""), &[]);
    outcome.assert_clean_exit(0);
    assert!(outcome.stderr.contains("end of file"), "{outcome:#?}");
    let outcome = place.extract(camera.address(), &[]);
    outcome.assert_clean_exit(0);
    assert!(outcome.stdout.ends_with("main: 5 frames\n"), "{outcome:#?}");
    let outcome = place.extract(camera.address().replace("stream", "none"), &[]);
    outcome.assert_clean_exit(69);
    assert!(outcome.message().contains("/none"), "{outcome:#?}");
}

#[test]
fn a_camera_on_a_web_server_may_come_late() {
    for isolation in ["none", "process"] {
        let place = Place::new();
        let camera = Camera::new(&place, "");
        let daemon = place.daemon(&camera.config(&format!("isolation = '{isolation}'\n")));
        await_retry(&daemon);
        assert_eq!(daemon.listing("camera").state, StreamState::Starting);
        let mut follower = daemon.subscribe("camera/main");
        let _server = camera.start();
        watch(&mut follower);
        daemon.stop();
    }
}

#[test]
fn frames_of_a_camera_on_a_web_server_are_extracted() {
    let place = Place::new();
    let camera = Camera::new(&place, "");
    let _server = camera.start();
    place.extract(camera.address(), &["--frames", "3"]).assert_clean_exit(0);
}

#[test]
fn a_login_page_is_named_as_such() {
    let place = Place::new();
    // The last one is recognised by its header only.
    for page in ["<!DOCTYPE html><html><body>Log in</body></html>", "\n<!-- 1 --><HTML>"] {
        let body = Arc::new(page.as_bytes().to_vec());
        let content = Content::Whole { media: "text/html", body };
        let camera = Camera { content, ..Camera::new(&place, "") };
        let _server = camera.start();
        let outcome = place.extract(camera.address(), &[]);
        outcome.assert_clean_exit(69);
        assert!(outcome.message().contains("is a web page (HTML), not video"), "{outcome:#?}");
        assert!(!outcome.message().contains("plugin"), "{outcome:#?}");
        let daemon = place.daemon(&camera.config(""));
        until("the page is named", || daemon.listing("camera").reason.contains("web page"));
        daemon.stop();
    }
}

/// A camera at a port of its own.
#[derive(Clone)]
struct Camera {
    address: SocketAddr,
    headers: &'static str,
    content: Content,
}

#[derive(Clone)]
enum Content {
    /// `start`, and `part` again and again.
    Endless {
        media: &'static str,
        start: &'static [u8],
        part: Arc<Vec<u8>>,
    },
    Whole {
        media: &'static str,
        body: Arc<Vec<u8>>,
    },
}

impl Content {
    /// JPEG pictures that replace each other.
    fn pictures(picture: &[u8]) -> Self {
        let length = picture.len();
        let head =
            format!("--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {length}\r\n\r\n");
        let part = Arc::new([head.as_bytes(), picture, b"\r\n"].concat());
        Self::Endless { media: "multipart/x-mixed-replace; boundary=frame", start: b"", part }
    }

    fn endless_video() -> Self {
        let part = Arc::new(video_frame());
        Self::Endless { media: "video/x-yuv4mpeg", start: VIDEO_HEAD, part }
    }
}

const VIDEO_HEAD: &[u8] = b"YUV4MPEG2 W64 H48 F25:1 Ip A1:1 C420jpeg\n";

fn video_frame() -> Vec<u8> {
    [&b"FRAME\n"[..], &[128; 64 * 48 * 3 / 2]].concat()
}

/// A server that answers until it is dropped, with its connections.
struct Server {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Camera {
    fn new(place: &Place, headers: &'static str) -> Self {
        let picture = place.path("picture.jpg");
        encode(&picture, "videotestsrc num-buffers=1 ! video/x-raw,width=160,height=120 ! jpegenc");
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let content = Content::pictures(&std::fs::read(picture).unwrap());
        Self { address, headers, content }
    }

    fn address(&self) -> String {
        format!("http://{}/stream", self.address)
    }

    /// A stream of the camera with a short time-out.
    fn config(&self, keys: &str) -> String {
        format!(
            "[[stream]]\nname = 'camera'\nbackend = 'cpu'\nsource = '{}'\ncaps_timeout_ms = 3000\n\
             stall_timeout_ms = 500\nrestart_timeout_ms = 1500\n{keys}",
            self.address()
        )
    }

    fn start(&self) -> Server {
        let listener = TcpListener::bind(self.address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let is_over = Arc::<AtomicBool>::default();
        let (camera, over) = (self.clone(), Arc::clone(&is_over));
        let run = move || {
            let mut clients = Vec::new();
            while !over.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((client, _)) => {
                        let (camera, over) = (camera.clone(), Arc::clone(&over));
                        clients.push(thread::spawn(move || camera.serve(client, &over)));
                    }
                    Err(_) => thread::sleep(Duration::from_millis(10)),
                }
            }
            drop(listener);
            clients.into_iter().for_each(|client| client.join().unwrap());
        };
        Server { is_over, thread: Some(thread::spawn(run)) }
    }

    /// Answers a client until it hangs up.
    fn serve(&self, mut client: TcpStream, over: &AtomicBool) {
        client.set_nonblocking(false).unwrap();
        let mut request = [0; 4096];
        // Who has seen enough hangs up.
        let _ = client.read(&mut request);
        if !request.starts_with(b"GET /stream ") {
            let _ = client.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
            return;
        }
        let (media, length, start) = match &self.content {
            Content::Endless { media, start, .. } => (media, self.headers.to_owned(), *start),
            Content::Whole { media, body } => {
                (media, format!("Content-Length: {}\r\n", body.len()), &body[..])
            }
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {media}\r\n{length}\r\n");
        let _ = client.write_all(&[head.as_bytes(), start].concat());
        let Content::Endless { part, .. } = &self.content else { return };
        while !over.load(Ordering::Relaxed) {
            if client.write_all(part).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(40));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Reads some more frames, whose numbers grow.
fn watch(follower: &mut Follower) {
    let mut newest = follower.frame.head.stamp.frame_seq;
    for _ in 0..ENOUGH {
        let seq = follower.next_frame().head.stamp.frame_seq;
        assert!(newest < seq, "frame {seq} after frame {newest}");
        newest = seq;
    }
}

fn await_retry(daemon: &Daemon<'_>) {
    until("it is looked for", || daemon.listing("camera").reason.contains("trying again in "));
}
