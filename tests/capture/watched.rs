//! A stream that looks for events, and footage for it: real clips, and what a test makes of their frames.

#![allow(dead_code, unreachable_pub, reason = "each program uses a part")]

use std::path::Path;
use std::sync::Arc;

use foveate_capture::{Pace, Source, SourceChoice, SourceSpec, TakeResult};
use foveate_core::change::ChangeConfig;
use foveate_core::color::ColorTransform;
use foveate_core::event::{Event, EventKind, Phase};
use foveate_core::frame::{FrameStamp, FrameView, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;
use foveate_daemon::stream::Stream;
use foveate_gaze::controller::Policy;
use foveate_gaze::layout::Layout;
use foveate_gaze::view::ViewSpec;
use foveate_server::channel::ClientChannel;
use foveate_stats::StreamCounters;
use testkit::naive::{self, Random};
use testkit::stream::{channel, on_cpu, served, spec};
use testkit::wait::HANG;

/// A frame of brightness alone.
#[derive(Clone)]
pub struct Grey {
    pub extent: Extent,
    pub luma: Vec<u8>,
}

impl Grey {
    pub fn filled(extent: Extent, value: u8) -> Self {
        Self { extent, luma: vec![value; extent.area()] }
    }

    pub fn view(&self) -> FrameView<'_> {
        let plane = Plane { bytes: &self.luma, stride: self.extent.width as usize };
        FrameView::new(PixelFormat::Gray8, self.extent, color(), &[plane]).unwrap()
    }

    /// What `change` makes of each sample; it is given the column, the row and the sample.
    #[expect(clippy::cast_possible_truncation, reason = "clamped to 0..=255")]
    pub fn mapped(&self, mut change: impl FnMut(u32, u32, f64) -> f64) -> Self {
        let width = self.extent.width;
        let samples = self.luma.iter().zip(0_u32..);
        let luma = samples.map(|(sample, index)| {
            change(index % width, index / width, f64::from(*sample)).round().clamp(0.0, 255.0) as u8
        });
        Self { extent: self.extent, luma: luma.collect() }
    }

    /// With a sensor's noise, of a standard deviation of about 1.2.
    pub fn noisy(&self, random: &mut Random) -> Self {
        self.mapped(|_, _, sample| {
            let bits = random.next();
            let noise = (bits & 0xFF).count_ones() as i32 - 4 + ((bits >> 8) & 1) as i32;
            sample + f64::from(noise) * 0.8
        })
    }

    /// The part of `extent` at (`x`, `y`).
    pub fn crop(&self, x: u32, y: u32, extent: Extent) -> Self {
        let rows = (y..y + extent.height).map(|row| (row * self.extent.width + x) as usize);
        let luma = rows.flat_map(|start| &self.luma[start..start + extent.width as usize]);
        Self { extent, luma: luma.copied().collect() }
    }
}

fn color() -> ColorTransform {
    naive::transforms(PixelFormat::Gray8)[0]
}

/// Calls `take` with the frames of a clip, in full range, until it returns false.
pub fn for_each_frame(path: &Path, scale: Option<Extent>, take: impl FnMut(Grey) -> bool) {
    let scale = scale.map_or(String::new(), |Extent { width, height }| {
        format!("! videoscale ! video/x-raw,width={width},height={height}")
    });
    let source = format!("filesrc location={} ! decodebin ! videoconvert {scale}", path.display());
    for_each_frame_of(&source, take);
}

/// Like [`for_each_frame`], for any source that ends.
pub fn for_each_frame_of(source: &str, mut take: impl FnMut(Grey) -> bool) {
    let pipeline = format!(
        "{source} ! videoconvert ! video/x-raw,format=GRAY8,colorimetry=1:4:0:0 ! appsink name=frames"
    );
    let choice = SourceChoice::Pipeline(pipeline);
    let spec = SourceSpec { pace: Pace::EveryFrame, ..SourceSpec::new("clip", choice) };
    let mut source = Source::open(&spec, &Arc::default()).unwrap();
    loop {
        match source.next_frame(HANG) {
            TakeResult::Frame(frame) => {
                let view = frame.view().unwrap();
                let luma = (0..view.extent().height as usize).flat_map(|y| view.row(0, y));
                let grey = Grey { extent: view.extent(), luma: luma.copied().collect() };
                if !take(grey) {
                    return;
                }
            }
            TakeResult::Ended(_) => return,
            TakeResult::TimedOut => panic!("the decoder hangs"),
        }
    }
}

/// `count` frames of a clip from number `first` on.
pub fn frames(path: &Path, scale: Option<Extent>, first: usize, count: usize) -> Vec<Grey> {
    let (mut frames, mut index) = (Vec::new(), 0);
    for_each_frame(path, scale, |frame| {
        if first <= index {
            frames.push(frame);
        }
        index += 1;
        frames.len() < count
    });
    frames
}

/// A stream with one view, and what it has told.
pub struct EventStream {
    pub stream: Stream,
    pub client: ClientChannel,
    pub counters: Arc<StreamCounters>,
    pub events: Vec<Event>,
    pub frame_seq: u64,
    pub time_ns: u64,
}

impl EventStream {
    pub fn new(is_live: bool) -> Self {
        Self::with(is_live, ChangeConfig::default(), Policy::Feedback)
    }

    pub fn with(is_live: bool, change: ChangeConfig, policy: Policy) -> Self {
        let view = served("main", ViewSpec { policy, ..spec(Layout::default(), 64) });
        let (channel, client) = channel();
        let counters = Arc::<StreamCounters>::default();
        let views = [(view, channel)];
        let stream = Stream::new("watched", on_cpu(), change, views, Arc::clone(&counters));
        let mut stream = stream.with_events(true);
        stream.set_live(is_live);
        Self { stream, client, counters, events: Vec::new(), frame_seq: 0, time_ns: 0 }
    }

    /// Takes a frame, a time after the one before.
    pub fn show(&mut self, frame: &FrameView<'_>, after_ms: u64) {
        self.frame_seq += 1;
        self.time_ns += after_ms * 1_000_000;
        let stamp =
            FrameStamp { pts_ns: Some(self.time_ns), ..FrameStamp::numbered(self.frame_seq) };
        self.stream.step(frame, &stamp).unwrap();
        self.events.extend_from_slice(self.stream.events());
    }

    /// The events of a kind, without arrivals.
    pub fn phases(&self, kind: EventKind) -> Vec<Phase> {
        self.events.iter().filter(|event| event.kind == kind).map(|event| event.phase).collect()
    }

    /// All events but arrivals, in order.
    pub fn without_arrivals(&self) -> Vec<(EventKind, Phase)> {
        let others = self.events.iter().filter(|event| event.kind != EventKind::Appeared);
        others.map(|event| (event.kind, event.phase)).collect()
    }
}
