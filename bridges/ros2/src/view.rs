//! One view: its ring is read by one thread, which publishes what somebody subscribes to.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use foveate::client::{Client, Next, Subscription, SubscriptionError};
use foveate::messages::{Look, ViewName};
use foveate_core::error::chain;
use foveate_ring::{SegmentInfo, TokenFrameBuf};
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Subscriber;
use zenoh::sample::Sample;

use super::graph::{Node, Topic};
use super::messages::{
    CAMERA_INFO, COMPRESSED_IMAGE, Header, POINT_STAMPED, PointStamped, TOKEN_FRAME, camera_info,
    compressed_image, token_frame,
};

/// How often the thread looks whether it should end.
const SLICE: Duration = Duration::from_millis(100);

/// Pause before a view that has ended, or is unknown, is asked for again.
const RETRY: Duration = Duration::from_secs(1);

/// Points that may wait to be looked at: later ones replace none, so few.
const WAITING_MAX: usize = 4;

/// A view that is published. Dropping it ends that.
#[derive(Debug)]
pub struct View {
    name: ViewName,
    socket: PathBuf,
    image: Topic,
    info: Topic,
    tokens: Topic,
    _looks: (Subscriber<()>, LivelinessToken),
}

impl View {
    /// Declares the topics of the view `name`, and looks where `look` among them says.
    ///
    /// # Errors
    ///
    /// If Zenoh refuses, or a thread cannot be started.
    pub fn declare(node: &Node, name: &ViewName, socket: &Path) -> zenoh::Result<Self> {
        let topic = |last: &str| format!("/foveate/{}/{last}", name.to_string().replace('-', "_"));
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let take = take_points(name.clone(), sender);
        let looks = node.subscribe(&topic("look"), POINT_STAMPED, take)?;
        let (of, at) = (name.clone(), socket.to_owned());
        thread::Builder::new()
            .name("look".to_owned())
            .spawn(move || look_where_told(&of, &at, &receiver))?;
        Ok(Self {
            name: name.clone(),
            socket: socket.to_owned(),
            image: node.publish(&topic("compressed"), COMPRESSED_IMAGE)?,
            info: node.publish(&topic("camera_info"), CAMERA_INFO)?,
            tokens: node.publish(&topic("tokens"), TOKEN_FRAME)?,
            _looks: looks,
        })
    }

    /// Reads and publishes until `stop` is set.
    pub fn run(self, stop: &Arc<AtomicBool>) {
        while !stop.load(Ordering::Relaxed) {
            match self.follow(stop) {
                Ok(reason) => tracing::info!("{} has ended: {reason}", self.name),
                Err(error) => tracing::warn!("{}: {}", self.name, chain(&error)),
            }
            let until = Instant::now() + RETRY;
            while !stop.load(Ordering::Relaxed) && Instant::now() < until {
                thread::sleep(SLICE);
            }
        }
    }

    /// Follows the view until it ends, and returns the reason. While there is no daemon, it waits for one.
    fn follow(&self, stop: &AtomicBool) -> Result<String, SubscriptionError> {
        let mut subscription = Subscription::reconnecting(&self.socket, &self.name, false)?;
        let mut frame = TokenFrameBuf::default();
        while !stop.load(Ordering::Relaxed) {
            match subscription.next_frame(&mut frame, SLICE) {
                Ok(Next::Frame { .. }) => {
                    if let Some(reader) = subscription.reader() {
                        self.publish(reader.header(), &frame);
                    }
                }
                Ok(Next::Ended(reason)) => return Ok(reason),
                Ok(Next::NewSegment | Next::TimedOut) | Err(SubscriptionError::Disconnected) => {}
                Err(error) => return Err(error),
            }
        }
        Ok("the bridge stops".to_owned())
    }

    fn publish(&self, segment: &SegmentInfo, frame: &TokenFrameBuf) {
        let camera = segment.camera.as_ref();
        // What has no calibration has a frame of the stream's name.
        let frame_id = camera.map_or(segment.stream.as_str(), |camera| &camera.optical_frame);
        let header = Header::of(&frame.head, frame_id);
        let put = |topic: &Topic, message: Vec<u8>| {
            if let Err(error) = topic.put(message) {
                tracing::debug!("{}: a message was not published: {error}", self.name);
            }
        };
        if self.tokens.is_wanted() {
            put(&self.tokens, token_frame(&header, segment, frame));
        }
        if self.info.is_wanted()
            && let Some(message) = camera.and_then(|camera| camera_info(&header, segment, camera))
        {
            put(&self.info, message);
        }
        if self.image.is_wanted() {
            match png_of(segment, frame) {
                Ok(data) => put(&self.image, compressed_image(&header, &data)),
                Err(error) => tracing::warn!("{}: no picture: {error}", self.name),
            }
        }
    }
}

/// The rebuilt picture.
fn png_of(segment: &SegmentInfo, frame: &TokenFrameBuf) -> Result<Vec<u8>, png::EncodingError> {
    let mut data = Vec::new();
    let mut encoder = png::Encoder::new(&mut data, segment.extent.width, segment.extent.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(frame.smoothed(segment).as_flattened())?;
    writer.finish()?;
    Ok(data)
}

/// Most bytes of a point: more than any name of a frame takes.
const POINT_BYTES_MAX: usize = 4096;

/// Takes points from the topic. Those that come faster than the daemon answers are left out.
fn take_points(name: ViewName, sender: SyncSender<PointStamped>) -> impl Fn(Sample) + Send + Sync {
    move |sample| {
        let bytes = sample.payload().len();
        if POINT_BYTES_MAX < bytes {
            tracing::warn!(
                "{name}: a point has {bytes} bytes (expected at most {POINT_BYTES_MAX})"
            );
            return;
        }
        take_point(&name, &sender, &sample);
    }
}

fn take_point(name: &ViewName, sender: &SyncSender<PointStamped>, sample: &Sample) {
    match PointStamped::from_cdr(&sample.payload().to_bytes()) {
        Ok(point) => {
            if sender.try_send(point).is_err() {
                tracing::debug!("{name}: a point was left out");
            }
        }
        Err(error) => tracing::warn!("{name}: cannot parse the published point: {error}"),
    }
}

/// Ends with the subscription.
fn look_where_told(name: &ViewName, socket: &Path, points: &Receiver<PointStamped>) {
    let mut connection = None;
    for PointStamped { point: [x, y, _], .. } in points {
        let result = connection.take().map_or_else(|| Client::connect(socket), Ok).and_then(
            |mut client: Client| {
                let looking = client.look(Look::at(name, x, y));
                connection = looking.is_ok().then_some(client);
                looking
            },
        );
        if let Err(error) = result {
            tracing::warn!("{name} does not look at ({x}, {y}): {}", chain(&error));
        }
    }
}
