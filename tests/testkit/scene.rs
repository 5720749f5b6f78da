//! Streams whose frames a test sends one by one, and what they show.

use foveate::client::{Client, Next};
use foveate_control::ClientExt as _;
use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_ring::TokenFrameBuf;

use crate::daemon::{Daemon, Feed, Follower, Place, ProcessResources};
use crate::device;
use crate::film::{Film, raw_bytes, raw_pipeline};
use crate::naive::{OwnedFrame, Random};
use crate::wait::until;

/// A live stream that never ends.
pub const PATTERN: &str = "[[stream]]\nname = 'camera'\nbackend = 'cpu'\npipeline = 'videotestsrc is-live=true ! \
     video/x-raw,format=GRAY8,width=64,height=48,framerate=50/1 ! appsink name=frames'\n";

/// Runs a test with the lines that choose the Vulkan device of the tests.
pub fn with_vulkan(test: impl FnOnce(&str)) {
    device::with_gpu(|gpu| {
        test(&format!("backend = 'vulkan'\ndevice = '{}'", gpu.summary().name));
    });
}

/// A table of a stream, in every-frame pace.
pub fn stream(name: &str, source: &str, settings: &str) -> String {
    format!("[[stream]]\nname = '{name}'\n{source}\npace = 'every-frame'\n{settings}\n")
}

/// A table of a view, which looks at the middle if `settings` say nothing else.
pub fn view(name: &str, settings: &str) -> String {
    let gaze = if settings.contains("gaze") { "" } else { "gaze = { policy = 'fixed' }\n" };
    format!("[[stream.view]]\nname = '{name}'\n{gaze}{settings}\n")
}

/// The key of a stream that reads the frames of `film` from the feed at `name`.
pub fn fed(place: &Place, name: &str, film: &Film) -> String {
    let OwnedFrame { format, extent, .. } = *film.frame(1);
    format!("pipeline = '{}'", raw_pipeline(&place.path(name), format, extent, "bt601"))
}

pub fn random_film(
    format: PixelFormat,
    extent: Extent,
    color: ColorTransform,
    count: usize,
) -> Film {
    let mut random = Random(u64::from(extent.width) << 32 | u64::from(extent.height));
    let first = OwnedFrame::random(format, extent, color, &mut random);
    Film::random(first, count, &mut random)
}

pub fn bt601() -> ColorTransform {
    ColorTransform::from_ycbcr(ColorMatrix::Bt601, ColorRange::Limited)
}

/// A daemon whose stream `camera` shows a film, frame by frame as a test sends them, and a reader of each of them.
pub struct FedStream<'a> {
    pub daemon: Daemon<'a>,
    /// Client that sends requests and feedback.
    pub client: Client,
    pub follower: Follower,
    pub film: Film,
    pub sent: u64,
    feed: Feed,
    view: String,
}

impl<'a> FedStream<'a> {
    /// With `settings` of the stream and of its views, of which the reader follows `view`.
    pub fn open(place: &'a Place, film: Film, settings: &str, view: &str) -> Self {
        let feed = Feed::open(&place.path("camera"));
        let daemon = place.daemon(&stream("camera", &fed(place, "camera", &film), settings));
        let (client, follower) = (daemon.client(), daemon.subscribe(view));
        Self { daemon, client, follower, film, sent: 0, feed, view: view.to_owned() }
    }

    /// Sends a frame, and reads the token frame that it becomes.
    pub fn next_frame(&mut self) -> &TokenFrameBuf {
        self.sent += 1;
        self.feed.send(&raw_bytes(self.film.frame(self.sent)));
        loop {
            match self.follower.next() {
                Next::NewSegment => {}
                Next::Frame { missed: 0 } => break,
                other => panic!("{other:?} instead of frame {}", self.sent),
            }
        }
        assert_eq!(self.follower.frame.head.stamp.frame_seq, self.sent);
        &self.follower.frame
    }

    /// Sends `count` frames; each is published, and as it is.
    pub fn show(&mut self, count: u64) {
        for _ in 0..count {
            self.next_frame();
            let Self { film, daemon, follower, .. } = self;
            film.assert_shows(daemon.plan(&self.view), follower.segment(), &follower.frame);
        }
    }

    /// What the daemon has once all others have left: no more descriptors and threads than `before`.
    pub fn belongings_at_rest(&mut self, before: &ProcessResources) -> ProcessResources {
        until("only the reader and the client are there", || {
            self.client.listing().unwrap().server.unwrap().counts.clients == 2
        });
        let mut belongings = ProcessResources::of(self.daemon.process.id());
        until("all threads and descriptors are given back", || {
            // The frame loop lets go of views and of those that it notified with the next frames.
            self.show(1);
            belongings = ProcessResources::of(self.daemon.process.id());
            belongings.is_no_more_than(before)
        });
        belongings
    }

    /// Sends no more frames: the stream ends, and so does the daemon.
    pub fn end(mut self) {
        drop(self.feed);
        assert_eq!(self.follower.end(), "end of file");
        self.daemon.process.finish().assert_clean_exit(0);
    }
}
