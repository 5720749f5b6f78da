//! Work on GStreamer's streaming thread: numbers, timestamps and maps each buffer, and posts it to the mailbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app::AppSink;
use parking_lot::Mutex;

use super::caps::{self, FrameFormat, SampleFormat};
use super::color::AssumedColor;
use super::frame::RefusedBuffer;
use super::gray::Scaler;
use super::mailbox::PostResult;
use super::masking::Masking;
use super::outlet::Outlet;
use super::times::{CaptureTime, PipelineTimes, capture_time, unix_ns_from_reference};
use super::{CaptureError, CapturedFrame, Content, CorruptedFrames, Pace, SourceSpec};
use foveate_core::color::{ColorRange, Colorimetry};
use foveate_core::frame::{CaptureClock, FrameStamp};
use foveate_core::rate::RateLimit;
use foveate_source::Masks;
use foveate_source::discipline::{ClockQuality, ClockSample, Reading, WallClock};
use foveate_source::pool::Pool;
use foveate_stats::StreamCounters;
use foveate_stats::stages::CaptureActivity;

/// Frames in a row that the masks of a stream cannot fill, after which the stream ends.
const UNFILLED_MAX: u32 = 8;

/// Start of a round of a clip, in nanoseconds. A clip in a loop has many rounds, and a folder has one for each picture.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// Start in presentation time: a picture of a folder begins where the picture before ends, a loop at 0.
    pub(super) pts_ns: u64,
    /// Start in the time by which `max_fps` counts, which also grows from one round of a loop to the next.
    pub(super) played_ns: u64,
}

/// The producer side of a source, which the streaming thread calls for each buffer. One pipeline after another uses it.
pub(super) struct Delivery {
    /// The lock is uncontended: pipelines of one source do not overlap.
    inlet: Mutex<Inlet>,
    counters: Arc<StreamCounters>,
    activity: Arc<CaptureActivity>,
    pace: Pace,
    stream: String,
    corrupted: CorruptedFrames,
    /// The memory in which frames leave this process; `None` if they stay.
    pub(super) pool: Option<Arc<Pool>>,
    /// Whether the pipeline is live.
    pub(super) is_live: Arc<AtomicBool>,
    /// Whether the samples are exact.
    pub(super) is_exact: Arc<AtomicBool>,
    /// Parts of the colorimetry that the source leaves open.
    pub(super) assumed_color: Arc<AssumedColor>,
    /// Colorimetry of the newest frame. Its own lock, because the inlet is locked for as long as a frame waits for its
    /// consumer.
    color: Mutex<Option<Colorimetry>>,
}

/// State of the frames between the pipeline and the consumer. The streaming thread holds its lock while it delivers a frame.
struct Inlet {
    /// Where frames go.
    outlet: Outlet,
    content: Content,
    /// Format of the newest caps.
    format: Option<FrameFormat>,
    assumed_color: Arc<AssumedColor>,
    scaler: Scaler,
    masking: Masking,
    /// Address of the buffer that [`Delivery::mask`] has passed and that no frame was made of yet.
    masked_buffer: Option<usize>,
    /// Frames in a row, up to the newest, that the masks could not fill.
    unfilled: u32,
    /// Most frames a second; `None` keeps every frame.
    limit: Option<RateLimit>,
    /// The present round of a clip.
    round: Round,
    /// Why the first refused buffer was refused. It is logged; later ones are only counted.
    refusal: Option<String>,
    stream: String,
}

impl Delivery {
    pub(super) fn new(
        outlet: Outlet,
        counters: Arc<StreamCounters>,
        activity: Arc<CaptureActivity>,
        spec: &SourceSpec,
        masks: &Arc<Masks>,
    ) -> Self {
        let assumed_color = Arc::<AssumedColor>::default();
        let pool = outlet.pool();
        let inlet = Inlet {
            outlet,
            content: spec.content,
            format: None,
            assumed_color: Arc::clone(&assumed_color),
            scaler: Scaler::new(&spec.stream, spec.gray_range, pool.clone()),
            masking: Masking::new(masks, spec.background, pool.clone()),
            masked_buffer: None,
            unfilled: 0,
            limit: spec.frame_interval().map(RateLimit::new),
            round: Round::default(),
            refusal: None,
            stream: spec.stream.clone(),
        };
        Self {
            inlet: Mutex::new(inlet),
            counters,
            activity,
            pace: spec.pace,
            stream: spec.stream.clone(),
            corrupted: spec.corrupted,
            pool,
            is_live: Arc::default(),
            is_exact: Arc::default(),
            assumed_color,
            color: Mutex::default(),
        }
    }

    /// Begins a round: the frames that follow belong to it.
    pub(super) fn begin_round(&self, round: Round) {
        self.inlet.lock().round = round;
    }

    /// Scales `buffer`, of `caps`, if it is 16-bit gray, composites it if it `has_alpha`, and fills what the masks of the stream cover, in
    /// place or in a copy that replaces the buffer. [`deliver`](Self::deliver) pulls it next, on this thread. False if that fails, as for a
    /// frame that a camera sent in part: the frame is refused, and the buffer must not reach the appsink.
    ///
    /// # Errors
    ///
    /// If [`UNFILLED_MAX`] frames in a row fail.
    pub(super) fn mask(
        &self,
        buffer: &mut gst::Buffer,
        caps: Option<gst::Caps>,
        has_alpha: bool,
    ) -> Result<bool, CaptureError> {
        let mut inlet = self.inlet.lock();
        inlet.masked_buffer = None;
        inlet.read_format(caps);
        if let Err(error) = inlet.scale(buffer) {
            self.counters.frames_captured.add(1);
            self.counters.frames_refused.add(1);
            inlet.note_refusal(&error);
            return Ok(false);
        }
        let Inlet { masking, format, .. } = &mut *inlet;
        let (pixel_count, is_copied) = match masking.apply(buffer, format.as_ref(), has_alpha) {
            Ok(masked) => masked,
            Err(error) => {
                self.counters.frames_captured.add(1);
                self.counters.frames_refused.add(1);
                inlet.unfilled += 1;
                inlet.note_refusal(&error);
                return if inlet.unfilled < UNFILLED_MAX { Ok(false) } else { Err(error) };
            }
        };
        inlet.unfilled = 0;
        self.counters.frames_masked.add(u64::from(0 < pixel_count));
        self.counters.frames_copied_to_mask.add(u64::from(is_copied));
        inlet.masked_buffer = Some(buffer.as_ptr().addr());
        Ok(true)
    }

    /// Whether buffers of `caps` have to go through [`mask`](Self::mask).
    pub(super) fn must_mask(&self, caps: Option<gst::Caps>) -> bool {
        let mut inlet = self.inlet.lock();
        inlet.masking.renew();
        inlet.read_format(caps);
        let is_wide = inlet.format.as_ref().is_some_and(|format| format.wide.is_some());
        inlet.masking.is_needed() || is_wide
    }

    /// The colour of the newest frame; `None` before the first, and of depth.
    pub(super) fn color(&self) -> Option<Colorimetry> {
        *self.color.lock()
    }

    /// Whether damaged frames are dropped.
    pub(super) fn drops_corrupted(&self) -> bool {
        self.corrupted == CorruptedFrames::Drop
    }

    /// Counts a damaged frame that is dropped. The first one is logged.
    pub(super) fn note_corrupted(&self) {
        // A dropped frame takes a number, too.
        self.counters.frames_captured.add(1);
        if self.counters.frames_corrupted.next() == 1 {
            tracing::warn!(
                stream = self.stream,
                "dropping and counting damaged frames (`corrupted = \"show\"` takes them)"
            );
        }
    }

    /// Damaged frames of the stream that were dropped so far.
    pub(super) fn corrupted(&self) -> u64 {
        self.counters.frames_corrupted.get()
    }

    /// Why the first refused buffer was refused; `None` if none was, or while a buffer is being taken.
    pub(super) fn refusal(&self) -> Option<String> {
        self.inlet.try_lock().and_then(|inlet| inlet.refusal.clone())
    }

    /// Pulls the next sample from `sink`; `on_frame` is called for each that can be read or is skipped, before it is posted.
    pub(super) fn deliver(
        &self,
        sink: &AppSink,
        on_frame: impl FnOnce(),
    ) -> Result<gst::FlowSuccess, gst::FlowError> {
        let mut inlet = self.inlet.lock();
        let next = || self.next_frame(&mut inlet, sink, on_frame);
        match self.activity.delivering.during(next)? {
            Some(frame) => self.post(&mut inlet, frame),
            None => Ok(gst::FlowSuccess::Ok),
        }
    }

    /// The next frame of `sink`; `None` for a buffer that is skipped for its rate or cannot be read.
    fn next_frame(
        &self,
        inlet: &mut Inlet,
        sink: &AppSink,
        on_frame: impl FnOnce(),
    ) -> Result<Option<CapturedFrame>, gst::FlowError> {
        let arrival = ClockSample::now();
        let sample = sink.pull_sample().map_err(|_| gst::FlowError::Eos)?;
        let time_ns = stream_ns(&sample);
        if !inlet.is_within_rate(time_ns, arrival) {
            self.counters.frames_skipped.add(1);
            on_frame();
            return Ok(None);
        }
        // Consecutive across all pipelines of a stream.
        let frame_seq = self.counters.frames_captured.next();
        let pts_ns = time_ns.map(|time_ns| inlet.round.pts_ns.saturating_add(time_ns));
        let stamp = FrameStamp { pts_ns, ..self.stamp(sink, &sample, frame_seq, arrival) };
        let frame = inlet.mapped(&sample, stamp);
        match &frame {
            Some(frame) => {
                *self.color.lock() = frame.facts().color;
                on_frame();
            }
            None => self.counters.frames_refused.add(1),
        }
        Ok(frame)
    }

    fn post(
        &self,
        inlet: &mut Inlet,
        frame: CapturedFrame,
    ) -> Result<gst::FlowSuccess, gst::FlowError> {
        let [is_live, is_exact] =
            [&self.is_live, &self.is_exact].map(|flag| flag.load(Ordering::Relaxed));
        match inlet.outlet.post(frame, is_live, is_exact) {
            PostResult::Delivered => Ok(gst::FlowSuccess::Ok),
            PostResult::Replaced => {
                self.counters.frames_dropped.add(1);
                Ok(gst::FlowSuccess::Ok)
            }
            PostResult::Closed => {
                self.counters.frames_dropped.add(1);
                Err(gst::FlowError::Flushing)
            }
        }
    }

    /// The stamp of `sample` without its stream time.
    fn stamp(
        &self,
        sink: &AppSink,
        sample: &gst::Sample,
        frame_seq: u64,
        arrival: ClockSample,
    ) -> FrameStamp {
        let buffer = sample.buffer();
        let times = PipelineTimes {
            reference_unix_ns: buffer.and_then(reference_unix_ns),
            // A file that is not read in real time has no capture time.
            running_ns: match self.pace {
                Pace::Realtime => running_ns(sink, sample),
                Pace::EveryFrame => None,
            },
        };
        let CaptureTime { time: capture, clock: capture_clock, is_clamped } =
            capture_time(times, arrival);
        self.counters.stamps_clamped.add(u64::from(is_clamped));
        let ClockQuality { error_ns, steps } =
            WallClock::of_process().quality(arrival.monotonic_ns, Reading::now);
        // The bound is CLOCK_REALTIME's: a reference time is of another clock, and an arrival is later than the capture.
        let is_running_time = capture_clock == CaptureClock::RunningTime;
        FrameStamp {
            frame_seq,
            pts_ns: None,
            capture_ns: capture.monotonic_ns,
            capture_unix_ns: capture.unix_ns,
            capture_clock,
            capture_error_ns: if is_running_time { error_ns } else { 0 },
            clock_steps: steps,
            arrival_ns: arrival.monotonic_ns,
        }
    }
}

impl Inlet {
    fn is_within_rate(&mut self, time_ns: Option<u64>, arrival: ClockSample) -> bool {
        let Some(limit) = &mut self.limit else { return true };
        let played_ns = self.round.played_ns;
        limit.takes(time_ns.map_or(arrival.monotonic_ns, |ns| played_ns.saturating_add(ns)))
    }

    /// Reads the format of `caps` if they differ from the newest ones.
    fn read_format(&mut self, caps: Option<gst::Caps>) {
        let Some(caps) = caps else { return };
        if self.format.as_ref().is_none_or(|format| format.caps != caps) {
            self.format = caps::read(self.content, &caps).ok();
            if let Some(FrameFormat { samples: SampleFormat::Picture(_, color), wide, .. }) =
                &mut self.format
            {
                *color = self.assumed_color.noted_in(*color);
                // The configuration states which samples are black and white.
                if wide.is_some() && self.scaler.is_chosen() {
                    (color.range, color.is_range_assumed) = (ColorRange::Full, false);
                }
            }
        }
    }

    /// Replaces `buffer` by one of 8 bits if it is 16-bit gray.
    fn scale(&mut self, buffer: &mut gst::Buffer) -> Result<(), RefusedBuffer> {
        let Self { scaler, format, .. } = self;
        format.as_ref().map_or(Ok(()), |format| scaler.apply(buffer, format))
    }

    /// The sample's frame, or `None` if it cannot be read, which is logged once.
    fn mapped(&mut self, sample: &gst::Sample, stamp: FrameStamp) -> Option<CapturedFrame> {
        let buffer = sample.buffer_owned()?;
        self.read_format(Some(sample.caps_owned()?));
        let is_masked = self.masked_buffer.take() == Some(buffer.as_ptr().addr());
        let frame = if is_masked || !self.masking.is_needed() {
            let (format, coverage) = (self.format.as_ref()?, self.masking.coverage());
            let layout = format.layout(self.scaler.range());
            CapturedFrame::map(buffer, format, layout, stamp, coverage)
        } else {
            Err(RefusedBuffer::NotMasked)
        };
        if let Err(reason) = &frame {
            self.note_refusal(reason);
        }
        frame.ok()
    }

    /// Keeps and logs the first reason.
    fn note_refusal(&mut self, reason: &dyn std::fmt::Display) {
        if self.refusal.is_none() {
            let reason = reason.to_string();
            tracing::warn!(
                stream = self.stream,
                reason,
                "cannot take a frame; counting it and further ones as refused"
            );
            self.refusal = Some(reason);
        }
    }
}

/// The time in the clip, by its edit list. Raw timestamps may begin later, as those of a codec that reorders frames.
fn stream_ns(sample: &gst::Sample) -> Option<u64> {
    let pts = sample.buffer()?.pts()?;
    let segment = sample.segment().and_then(|segment| segment.downcast_ref::<gst::ClockTime>());
    let time = segment.and_then(|segment| segment.to_stream_time(pts));
    Some(time.unwrap_or(pts).nseconds())
}

/// Base time plus running time: CLOCK_MONOTONIC, because the pipeline runs on it.
fn running_ns(sink: &AppSink, sample: &gst::Sample) -> Option<u64> {
    let segment = sample.segment()?.downcast_ref::<gst::ClockTime>()?;
    let running = segment.to_running_time(sample.buffer()?.pts()?)?;
    Some(sink.base_time()?.nseconds() + running.nseconds())
}

fn reference_unix_ns(buffer: &gst::BufferRef) -> Option<u64> {
    buffer.iter_meta::<gst::ReferenceTimestampMeta>().find_map(|meta| {
        let clock = meta.reference().structure(0)?;
        unix_ns_from_reference(clock.name(), meta.timestamp().nseconds())
    })
}
