//! One GStreamer pipeline, from parsing to teardown.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app::{AppSink, AppSinkCallbacks};
use gstreamer_video as gst_video;
use parking_lot::Mutex;

use super::caps::{self, Adapter};
use super::color::{self, ColorOverrides};
use super::delivery::Delivery;
use super::expansion::{Expansion, FIFO};
use super::network::{Answer, Network, NewestAnswer, error_of_status, hold, location_of};
use super::process::allocator;
use super::{CaptureError, Content, Pace, damage, hints, oversize, scene, short_track};
use foveate_core::address::Server;
use foveate_core::geometry::extent::Extent;
use foveate_core::source::ShorthandKind;
use foveate_log::redact::redacted;

/// Capacity of the channel to the watching thread. Only floods exceed it, and their first messages suffice.
const WAITING_EVENTS_MAX: usize = 64;

/// An event for the watching thread.
#[derive(Debug)]
pub(super) enum PipelineEvent {
    FirstFrame,
    /// Interlaced caps, which need a conversion.
    Interlaced(gst::Caps),
    /// A tag that says how the pictures have to be turned.
    Tagged(String),
    /// Several video tracks, and which is taken.
    Tracks(String),
    /// Caps that no conversion can help.
    Refused(CaptureError),
    /// The appsink has refused caps that a conversion may help. Upstream reports that as an error, or tries others, or gets stuck.
    CapsRefused,
    /// An error, the end of the stream, or a missing plugin.
    Message(gst::Message),
}

/// A playing pipeline. Dropping it stops it, which may take a tenth of a second.
pub(super) struct Pipeline {
    pipeline: gst::Pipeline,
    sink: gst::Pad,
    /// The last caps offered to the appsink, readable or not.
    offered: Arc<Mutex<Option<gst::Caps>>>,
    pub(super) events: Receiver<PipelineEvent>,
    #[expect(dead_code, reason = "the callbacks hold it weakly")]
    sender: Arc<Sender<PipelineEvent>>,
    flow: Arc<Flow>,
    /// The newest answer of a web server.
    answer: NewestAnswer,
    #[expect(dead_code, reason = "held open until the pipeline has stopped")]
    fifo: Option<File>,
}

/// Sends the events of a pipeline while it exists. A message in the channel holds the element that posted it, often the pipeline, so
/// the pipeline's own callbacks hold the channel weakly: otherwise neither would be freed.
#[derive(Clone)]
pub(super) struct EventReporter(Weak<Sender<PipelineEvent>>);

impl EventReporter {
    /// Sends `event`, or drops it if the channel is full: the error in the channel matters more.
    pub(super) fn send(&self, event: PipelineEvent) {
        let _ = self.0.upgrade().map(|sender| sender.try_send(event));
    }
}

/// Requirements that a pipeline must meet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demands {
    pub(super) content: Content,
    pub(super) pace: Pace,
    pub(super) liveness: Liveness,
    /// Number of the video track, from 1; `None` for that of the largest pictures.
    pub(super) track: Option<u32>,
    /// Whether a tag that turns the pictures is an [event](Event::Tagged).
    pub(super) heeds_tags: bool,
    /// Size of the earlier pictures, which the pictures of this pipeline must have.
    pub(super) extent: Option<Extent>,
    /// Most pixels of a picture.
    pub(super) max_pixels: u32,
    /// Colour that the configuration gives.
    pub(super) color: ColorOverrides,
}

/// How to find out whether a pipeline is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Liveness {
    /// The pipeline reports whether it is live.
    Reported,
    /// The configuration states whether the source is live.
    Given(bool),
    /// Live if the answer of a web server has no end: pictures that replace each other, or no length.
    ByLength,
}

/// The buffers at the appsink, before it takes them.
#[derive(Debug, Default)]
struct Flow {
    /// Whether buffers are kept from the appsink, because the pipeline has to be built otherwise. They get no number.
    is_shut: AtomicBool,
    /// Buffers so far.
    buffers: AtomicU64,
    /// Shared with the source.
    is_live: Arc<AtomicBool>,
    /// Time at which the newest buffer ends.
    end: Mutex<Option<PictureTime>>,
}

/// Time of a buffer in its segment, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct PictureTime {
    /// Time from the decoder.
    given_ns: Option<u64>,
    end_ns: u64,
}

/// The duration of a picture without one, as libav assumes it: 25 a second.
const DURATION_DEFAULT_NS: u64 = 40_000_000;

impl Pipeline {
    /// Builds `expansion` with `adapters` before the appsink, and plays it; frames go to `delivery`.
    pub(super) fn play(
        expansion: &Expansion,
        adapters: &[Adapter],
        delivery: &Arc<Delivery>,
        demands: Demands,
        network: &Network,
    ) -> Result<Self, CaptureError> {
        let Demands { content, pace, liveness, .. } = demands;
        let pipeline = parsed(expansion)?;
        let (sender, events) = bounded(WAITING_EVENTS_MAX);
        let sender = Arc::new(sender);
        let reports = EventReporter(Arc::downgrade(&sender));
        prepare_elements(&pipeline, delivery, demands.max_pixels, network, &reports);
        let fifo = opened_fifo(&pipeline, expansion)?;
        let sink = frames_sink(&pipeline)?;
        let first = insert(&pipeline, sink.upcast_ref(), adapters)?;
        let (offered, answer) = (Arc::default(), NewestAnswer::default());
        let flow = Arc::new(Flow { is_live: Arc::clone(&delivery.is_live), ..Flow::default() });
        let pad = sink_pad(sink.upcast_ref());
        let is_scaled = adapters.contains(&caps::SCALE);
        let extent = demands.extent.filter(|_| is_scaled);
        configure(&sink, &caps::readable(content, extent, is_scaled), delivery, &reports);
        color::settle(&first, demands.color, &delivery.assumed_color);
        probe(&pad, &offered, &reports, &flow, demands, delivery);
        note_exactness(&pad, expansion.is_picture(), delivery);
        choose_tracks(&pipeline, demands.track, &reports);
        forward_messages(&pipeline, reports, &answer, network)?;
        pipeline.use_clock(Some(&monotonic_clock()));

        // Before the first buffer, which may show that the source is live.
        flow.is_live.store(liveness == Liveness::Given(true), Ordering::Relaxed);
        sink.set_sync(pace == Pace::Realtime && liveness != Liveness::Given(true));
        let playing = Self { pipeline, sink: pad, offered, events, sender, flow, answer, fifo };
        // A failure also posts a message, which says more.
        let is_reported = match playing.pipeline.set_state(gst::State::Paused) {
            Ok(success) => success == gst::StateChangeSuccess::NoPreroll,
            Err(_) => return Err(playing.failed_to_start()),
        };
        if is_reported && !matches!(liveness, Liveness::Given(_)) {
            playing.flow.is_live.store(true, Ordering::Relaxed);
            sink.set_sync(false);
        }
        if playing.is_live() && pace == Pace::EveryFrame {
            return Err(CaptureError::EveryFrameLive);
        }
        match playing.pipeline.set_state(gst::State::Playing) {
            Ok(_) => Ok(playing),
            Err(_) => Err(playing.failed_to_start()),
        }
    }

    /// Whether the source is live.
    pub(super) fn is_live(&self) -> bool {
        self.flow.is_live.load(Ordering::Relaxed)
    }

    /// The newest answer of a web server.
    pub(super) fn answer(&self) -> Option<Answer> {
        self.answer.lock().clone()
    }

    /// The address that it opens, credentials included, if that is one of a server.
    pub(super) fn address(&self) -> Option<String> {
        let mut elements = self.pipeline.iterate_recurse().into_iter().flatten();
        elements.find_map(|element| location_of(&element).filter(|at| Server::of(at).is_ok()))
    }

    /// Duration of a file, if its container gives it.
    pub(super) fn duration(&self) -> Option<Duration> {
        self.pipeline.query_duration::<gst::ClockTime>().map(Into::into)
    }

    /// Buffers that the pipeline has delivered so far.
    pub(super) fn buffers(&self) -> u64 {
        self.flow.buffers.load(Ordering::Relaxed)
    }

    /// End of the newest buffer, in the time of its segment.
    pub(super) fn end(&self) -> Option<Duration> {
        let end = *self.flow.end.lock();
        end.map(|time| Duration::from_nanos(time.end_ns))
    }

    /// The caps at the appsink.
    pub(super) fn caps(&self) -> Option<gst::Caps> {
        self.sink.current_caps()
    }

    /// Caps from upstream: those offered last, then those that are possible.
    pub(super) fn offers(&self) -> Vec<gst::Caps> {
        let offered = self.offered.lock().clone();
        let possible = self.sink.peer().map(|peer| peer.query_caps(None));
        let loose = self.loose_pads().into_iter().map(|pad| possible_caps(&pad));
        let offers = offered.into_iter().chain(possible).chain(loose);
        offers.filter(|caps| !caps.is_any() && !caps.is_empty()).collect()
    }

    /// The caps that were offered last, if the appsink has refused them and a conversion may help.
    pub(super) fn refused_caps(&self, content: Content) -> Option<gst::Caps> {
        self.offered.lock().clone().filter(|caps| is_convertible(caps, content))
    }

    /// Describes the offered caps for an error.
    pub(super) fn progress(&self) -> String {
        match self.offers().first() {
            Some(caps) => format!("it gives {}", redacted(&caps.to_string())),
            None => "it has not offered any caps".to_owned(),
        }
    }

    /// Source pads without a peer.
    fn loose_pads(&self) -> Vec<gst::Pad> {
        let pads = self.pipeline.iterate_elements().into_iter().flatten();
        let pads = pads.flat_map(|element| element.src_pads());
        pads.filter(|pad| !pad.is_linked()).collect()
    }

    fn failed_to_start(&self) -> CaptureError {
        let reported = self.events.try_iter().find_map(|event| match event {
            PipelineEvent::Message(message) => error_of(&message),
            PipelineEvent::Refused(error) => Some(error),
            PipelineEvent::FirstFrame
            | PipelineEvent::Interlaced(_)
            | PipelineEvent::Tagged(_)
            | PipelineEvent::Tracks(_)
            | PipelineEvent::CapsRefused => None,
        });
        reported.unwrap_or_else(|| CaptureError::Failed {
            element: "pipeline".to_owned(),
            reason: "it does not start, without a reason".to_owned(),
        })
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if self.pipeline.set_state(gst::State::Null).is_err() {
            tracing::warn!("a pipeline did not reach the state NULL");
        }
        if let Some(bus) = self.pipeline.bus() {
            bus.unset_sync_handler();
        }
    }
}

/// Opens the FIFO that `expansion` reads, if it reads one, which waits for a writer. Its writer would see a `filesrc` open it
/// twice: GStreamer starts and stops one to learn whether it can seek.
fn opened_fifo(
    pipeline: &gst::Pipeline,
    expansion: &Expansion,
) -> Result<Option<File>, CaptureError> {
    let Some(path) = &expansion.fifo else { return Ok(None) };
    let file = File::open(path).map_err(|error| CaptureError::Unreachable {
        reason: format!("{:?}: {error}", path.display().to_string()),
    })?;
    if let Some(source) = pipeline.by_name(FIFO) {
        source.set_property("fd", file.as_raw_fd());
    }
    Ok(Some(file))
}

/// Checks that `expansion` parses, has the appsink, and names addresses that can be read.
pub(super) fn check(expansion: &Expansion) -> Result<(), CaptureError> {
    let pipeline = parsed(expansion)?;
    frames_sink(&pipeline)?;
    let locations = pipeline.iterate_recurse().into_iter().flatten();
    locations.filter_map(|element| location_of(&element)).try_for_each(|at| checked_address(&at))
}

/// Refuses a malformed address of a server. Others are left to GStreamer.
pub(super) fn checked_address(address: &str) -> Result<(), CaptureError> {
    match (ShorthandKind::of(address), Server::of(address)) {
        (Some(ShorthandKind::Http | ShorthandKind::Rtsp), Err(problem)) => {
            Err(CaptureError::InvalidAddress { address: redacted(address), problem })
        }
        _ => Ok(()),
    }
}

fn parsed(expansion: &Expansion) -> Result<gst::Pipeline, CaptureError> {
    let mut context = gst::ParseContext::new();
    let flags = gst::ParseFlags::FATAL_ERRORS;
    let parsed = gst::parse::launch_full(&expansion.text, Some(&mut context), flags);
    let element = parsed.map_err(|error| match missing_element(&error, &context) {
        Some(element) => {
            CaptureError::UnknownElement { remedy: hints::remedy_of_element(&element), element }
        }
        None => CaptureError::Parse {
            reason: redacted(error.message()),
            pipeline: expansion.shown.clone(),
        },
    })?;
    let element = match element.downcast::<gst::Pipeline>() {
        Ok(pipeline) => return Ok(pipeline),
        Err(element) => element,
    };
    let pipeline = gst::Pipeline::new();
    pipeline.add(&element).map_err(|error| CaptureError::Parse {
        reason: error.to_string(),
        pipeline: expansion.shown.clone(),
    })?;
    Ok(pipeline)
}

/// The name of an element that does not exist, if that is the error. The context alone also names elements that exist.
fn missing_element(error: &gst::glib::Error, context: &gst::ParseContext) -> Option<String> {
    if !error.matches(gst::ParseError::NoSuchElement) {
        return None;
    }
    context.missing_elements().into_iter().next()
}

fn frames_sink(pipeline: &gst::Pipeline) -> Result<AppSink, CaptureError> {
    let named = pipeline.by_name("frames").and_then(|element| element.downcast().ok());
    named.ok_or_else(|| {
        let sinks = pipeline.iterate_sinks().into_iter().flatten();
        let found: Vec<_> = sinks.map(|sink| described(&sink)).collect();
        let found = if found.is_empty() { "no sink".to_owned() } else { found.join(", ") };
        CaptureError::NoAppsink { found }
    })
}

/// The element as a gst-launch description names it.
fn described(element: &gst::Element) -> String {
    let factory = element.factory().map_or_else(|| "bin".to_owned(), |f| f.name().to_string());
    format!("`{factory} name={}`", element.name())
}

fn sink_pad(element: &gst::Element) -> gst::Pad {
    element.static_pad("sink").expect("appsinks and adapters have a static sink pad")
}

/// Overrides appsink properties that the description must not set.
fn configure(
    sink: &AppSink,
    readable: &gst::Caps,
    delivery: &Arc<Delivery>,
    reports: &EventReporter,
) {
    sink.set_caps(Some(readable));
    sink.set_max_buffers(1);
    // The callback pulls every sample at once, so none is dropped uncounted.
    sink.set_drop(false);
    sink.set_qos(false);
    sink.set_max_lateness(-1);
    // The last sample would hold a buffer of the camera's pool.
    sink.set_enable_last_sample(false);
    let (delivery, reports) = (Arc::clone(delivery), reports.clone());
    let mut is_first = true;
    let mut report_first = move || {
        if std::mem::take(&mut is_first) {
            reports.send(PipelineEvent::FirstFrame);
        }
    };
    let new_sample = move |sink: &AppSink| delivery.deliver(sink, &mut report_first);
    sink.set_callbacks(AppSinkCallbacks::builder().new_sample(new_sample).build());
}

/// Probes the appsink's pad: records offered caps, keeps unusable caps and their buffers and damaged frames from the appsink, gives
/// buffers the times that they lack, fills privacy masks, and announces support for VideoMeta strides upstream, which saves decoders a copy; and in
/// a source process the memory that the daemon reads, which saves another.
fn probe(
    pad: &gst::Pad,
    offered: &Arc<Mutex<Option<gst::Caps>>>,
    reports: &EventReporter,
    flow: &Arc<Flow>,
    demands: Demands,
    delivery: &Arc<Delivery>,
) {
    let (offered, reports, flow) = (Arc::clone(offered), reports.clone(), Arc::clone(flow));
    let delivery = Arc::clone(delivery);
    let kinds = gst::PadProbeType::EVENT_DOWNSTREAM
        | gst::PadProbeType::QUERY_DOWNSTREAM
        | gst::PadProbeType::BUFFER
        | gst::PadProbeType::BUFFER_LIST;
    pad.add_probe(kinds, move |pad, info| match &mut info.data {
        Some(gst::PadProbeData::Buffer(buffer)) => match flow.first_refusal(pad, demands) {
            Some(refusal) => flow.shut(&reports, refusal),
            None => match flow.passes(pad, buffer, demands) {
                gst::PadProbeReturn::Ok if is_kept_back(buffer.flags(), &delivery) => {
                    gst::PadProbeReturn::Handled
                }
                gst::PadProbeReturn::Ok => match delivery.mask(
                    buffer,
                    pad.current_caps(),
                    // The fourth byte of a camera's pixels often means nothing.
                    !flow.is_live.load(Ordering::Relaxed),
                ) {
                    Ok(true) => gst::PadProbeReturn::Ok,
                    Ok(false) => gst::PadProbeReturn::Handled,
                    Err(error) => flow.shut(&reports, PipelineEvent::Refused(error)),
                },
                kept => kept,
            },
        },
        Some(gst::PadProbeData::BufferList(_)) if delivery.must_mask(pad.current_caps()) => {
            let reason = "its buffers come in lists".to_owned();
            flow.shut(&reports, PipelineEvent::Refused(CaptureError::NotMasked { reason }))
        }
        Some(gst::PadProbeData::Event(event)) => match event.view() {
            gst::EventView::Caps(event) => {
                *offered.lock() = Some(event.caps_owned());
                match refusal_of(&event.caps_owned(), demands) {
                    Some(refusal) => flow.shut(&reports, refusal),
                    None => {
                        flow.is_shut.store(false, Ordering::Relaxed);
                        gst::PadProbeReturn::Ok
                    }
                }
            }
            gst::EventView::Tag(event) if demands.heeds_tags => match turning_tag(event.tag()) {
                Some(tag) => flow.tagged(&reports, tag),
                None => gst::PadProbeReturn::Ok,
            },
            _ => gst::PadProbeReturn::Ok,
        },
        Some(gst::PadProbeData::Query(query)) => match query.view_mut() {
            gst::QueryViewMut::AcceptCaps(query) => {
                let caps = query.caps_owned();
                if is_convertible(&caps, demands.content) {
                    reports.send(PipelineEvent::CapsRefused);
                }
                *offered.lock() = Some(caps);
                gst::PadProbeReturn::Ok
            }
            gst::QueryViewMut::Allocation(query) => {
                query.add_allocation_meta::<gst_video::VideoMeta>(None);
                if let Some(pool) = &delivery.pool {
                    allocator::offer(query, pool);
                }
                gst::PadProbeReturn::Handled
            }
            _ => gst::PadProbeReturn::Ok,
        },
        _ => gst::PadProbeReturn::Ok,
    });
}

/// Whether the appsink refuses `caps` and elements may convert them.
fn is_convertible(caps: &gst::Caps, content: Content) -> bool {
    content == Content::Pictures
        && is_raw(caps)
        && !caps.can_intersect(&caps::readable(content, None, false))
}

/// Formats without loss. PNG and FFV1 are the common ones.
const LOSSLESS: [&str; 12] = [
    "image/png",
    "image/bmp",
    "image/x-portable-pixmap",
    "image/x-portable-graymap",
    "image/tiff",
    "image/gif",
    "video/x-ffv",
    "video/x-huffyuv",
    "video/x-rle",
    "video/x-zmbv",
    "video/x-gst-av-ffvhuff",
    "video/x-gst-av-utvideo",
];

/// Notes in `delivery`, before the first frame of each format arrives at `pad`, whether the samples are exact: those of a still picture, of
/// the test scene and pattern, and of files without a lossy codec.
fn note_exactness(pad: &gst::Pad, is_picture: bool, delivery: &Arc<Delivery>) {
    let [is_live, is_exact] = [&delivery.is_live, &delivery.is_exact].map(Arc::clone);
    pad.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |pad, info| {
        if info.event().is_some_and(|event| event.type_() == gst::EventType::Caps) {
            let found = is_picture || is_lossless(pad, is_live.load(Ordering::Relaxed));
            is_exact.store(found, Ordering::Relaxed);
        }
        gst::PadProbeReturn::Ok
    });
}

/// Whether every decoder of the pipeline of `pad` is lossless, or there is none and no camera.
fn is_lossless(pad: &gst::Pad, is_live: bool) -> bool {
    let mut top = pad.parent();
    while let Some(parent) = top.as_ref().and_then(gst::Object::parent) {
        top = Some(parent);
    }
    let Some(pipeline) = top.and_then(|top| top.downcast::<gst::Bin>().ok()) else { return false };
    let (mut decoders, mut is_test) = (0, false);
    for element in pipeline.iterate_recurse().into_iter().flatten() {
        let Some(factory) = element.factory() else { continue };
        is_test |= [TEST_PATTERN, SCENE].contains(&&*factory.name());
        let class = factory.metadata("klass").unwrap_or_default();
        if class.starts_with("Codec/Decoder/Video") || class.starts_with("Codec/Decoder/Image") {
            decoders += 1;
            let caps = element.sink_pads().first().and_then(|pad| pad.current_caps());
            let media = caps.and_then(|caps| Some(caps.structure(0)?.name().to_string()));
            if !media.is_some_and(|media| LOSSLESS.contains(&media.as_str())) {
                return false;
            }
        }
    }
    is_test || 0 < decoders || !is_live
}

/// Whether a frame with these flags is kept from the appsink. Those with `GAP` or `DISCONT` pass: `videorate` marks repeated frames as
/// gaps, and a frame after a discontinuity is whole.
fn is_kept_back(flags: gst::BufferFlags, delivery: &Delivery) -> bool {
    if flags.contains(gst::BufferFlags::CORRUPTED) && delivery.drops_corrupted() {
        delivery.note_corrupted();
        return true;
    }
    // A picture before the start time, which the decoder needs, but must not show.
    flags.contains(gst::BufferFlags::DECODE_ONLY)
}

impl Flow {
    /// Keeps what follows from the appsink, and reports why.
    fn shut(&self, reports: &EventReporter, reason: PipelineEvent) -> gst::PadProbeReturn {
        self.is_shut.store(true, Ordering::Relaxed);
        reports.send(reason);
        gst::PadProbeReturn::Handled
    }

    fn tagged(&self, reports: &EventReporter, tag: String) -> gst::PadProbeReturn {
        if self.is_shut.load(Ordering::Relaxed) {
            return gst::PadProbeReturn::Ok;
        }
        if 0 < self.buffers.load(Ordering::Relaxed) {
            tracing::warn!(tag, "the orientation changed in mid-stream; pictures are not turned");
            return gst::PadProbeReturn::Ok;
        }
        self.shut(reports, PipelineEvent::Tagged(tag))
    }

    /// Why the first buffer is refused: its size is not the one asked for.
    fn first_refusal(&self, pad: &gst::Pad, demands: Demands) -> Option<PipelineEvent> {
        let is_first =
            self.buffers.load(Ordering::Relaxed) == 0 && !self.is_shut.load(Ordering::Relaxed);
        let expected = demands.extent.filter(|_| is_first)?;
        let extent = caps::extent_of(&pad.current_caps()?).ok()?;
        let picture = String::new();
        let error = CaptureError::UnlikePictures { picture, extent, expected };
        (extent != expected).then_some(PipelineEvent::Refused(error))
    }

    /// Counts a buffer. One of a clip gets a time if it has none, or that of the one before it, as of some decoders of GIF.
    fn passes(
        &self,
        pad: &gst::Pad,
        buffer: &mut gst::Buffer,
        demands: Demands,
    ) -> gst::PadProbeReturn {
        if self.is_shut.load(Ordering::Relaxed) {
            return gst::PadProbeReturn::Handled;
        }
        let is_first = self.buffers.fetch_add(1, Ordering::Relaxed) == 0;
        if is_first
            && demands.liveness == Liveness::ByLength
            && let Some(sink) = pad.parent_element()
            && is_endless(pad, &sink)
        {
            self.is_live.store(true, Ordering::Relaxed);
            sink.set_property("sync", false);
        }
        if self.is_live.load(Ordering::Relaxed) {
            return gst::PadProbeReturn::Ok;
        }
        let mut end = self.end.lock();
        let given_ns = buffer.pts().map(gst::ClockTime::nseconds);
        let before = *end;
        let is_new = before.is_none_or(|before| before.given_ns != given_ns);
        let time_ns = given_ns.filter(|_| is_new).unwrap_or_else(|| {
            let time_ns = before.map_or(0, |before| before.end_ns);
            buffer.make_mut().set_pts(gst::ClockTime::from_nseconds(time_ns));
            time_ns
        });
        let duration = buffer.duration().map(gst::ClockTime::nseconds).filter(|ns| *ns != 0);
        let duration = duration.or_else(|| frame_duration(pad)).unwrap_or(DURATION_DEFAULT_NS);
        *end = Some(PictureTime { given_ns, end_ns: time_ns.saturating_add(duration) });
        gst::PadProbeReturn::Ok
    }
}

/// Whether what arrives at `sink` has no end: its parts replace each other, or nothing says how long it is.
fn is_endless(pad: &gst::Pad, sink: &gst::Element) -> bool {
    let Some(pipeline) = sink.parent().and_then(|parent| parent.downcast::<gst::Bin>().ok()) else {
        return false;
    };
    let mut elements = pipeline.iterate_recurse().into_iter().flatten();
    let mut sources = pipeline.iterate_sources().into_iter().flatten();
    elements.any(|element| is_made_by(&element, MULTIPART))
        || pad.peer_query_duration::<gst::ClockTime>().is_none()
            && sources.all(|source| source.query_duration::<gst::format::Bytes>().is_none())
}

/// The demuxer of `multipart/x-mixed-replace`, which cameras send.
pub(super) const MULTIPART: &str = "multipartdemux";

pub(super) fn is_made_by(element: &gst::Element, factory: &str) -> bool {
    element.factory().is_some_and(|made_by| made_by.name() == factory)
}

/// Duration of a frame by the frame rate of the caps, if they have one.
fn frame_duration(pad: &gst::Pad) -> Option<u64> {
    let caps = pad.current_caps()?;
    let rate = caps.structure(0)?.get::<gst::Fraction>("framerate").ok()?;
    let (frames, seconds) = (u64::try_from(rate.numer()).ok()?, u64::try_from(rate.denom()).ok()?);
    (1_000_000_000 * seconds).checked_div(frames).filter(|ns| *ns != 0)
}

/// Why caps are kept from the appsink: interlaced and unsupported ones, and those of too large a picture. Other formats pass, because
/// the appsink refuses them itself.
fn refusal_of(
    caps: &gst::Caps,
    Demands { content, max_pixels, .. }: Demands,
) -> Option<PipelineEvent> {
    if let Ok(extent) = caps::extent_of(caps)
        && (max_pixels as usize) < extent.area()
    {
        let picture = "the source".to_owned();
        return Some(PipelineEvent::Refused(CaptureError::TooManyPixels {
            picture,
            extent,
            max_pixels,
        }));
    }
    if !caps.can_intersect(&caps::readable(content, None, false)) {
        return None;
    }
    match caps::is_interlaced(content, caps) {
        Ok(true) => Some(PipelineEvent::Interlaced(caps.clone())),
        Ok(false) => None,
        Err(error) => Some(PipelineEvent::Refused(error)),
    }
}

/// The orientation that a tag gives, unless it is upright.
fn turning_tag(tags: &gst::TagListRef) -> Option<String> {
    let orientation = tags.get::<gst::tags::ImageOrientation>()?;
    Some(orientation.get().to_owned()).filter(|orientation| orientation != "rotate-0")
}

/// How often a demuxer may read behind the end of its file.
const READS_PAST_END_MAX: u32 = 16;

/// Prepares elements of `pipeline`, those that it has and those that bins add.
fn prepare_elements(
    pipeline: &gst::Pipeline,
    delivery: &Arc<Delivery>,
    max_pixels: u32,
    network: &Network,
    reports: &EventReporter,
) {
    let (delivery, own_network) = (Arc::clone(delivery), network.clone());
    let own_reports = reports.clone();
    let is_shared = delivery.pool.is_some();
    let prepare = move |element: &gst::Element| {
        end_demuxer(element);
        if is_shared {
            copy_out(element);
        }
        own_network.prepare(element);
        oversize::guard(element, max_pixels, &own_reports);
        if is_made_by(element, "qtdemux") {
            color::leave_range_to_decoder(element);
            short_track::keep(element);
        }
        if is_made_by(element, TEST_PATTERN) {
            keep_up(element);
        }
        scene::feed::start(element);
        if is_made_by(element, MULTIPART) {
            // Else `decodebin` waits for further streams.
            element.set_property("single-stream", true);
        }
        if delivery.drops_corrupted() {
            damage::guard(element, &delivery);
        }
    };
    pipeline.iterate_recurse().into_iter().flatten().for_each(|element| prepare(&element));
    let (network, reports) = (network.clone(), reports.clone());
    pipeline.connect_deep_element_added(move |_, _, element| {
        prepare(element);
        if let Some(error) = network.refusal_of(element) {
            reports.send(PipelineEvent::Refused(error));
        }
    });
}

/// The element that draws the test pattern, and the one that is fed with the scene.
const TEST_PATTERN: &str = "videotestsrc";
const SCENE: &str = "appsrc";

/// Stamps the frames of a live test pattern that are drawn late with the time at which they are: the pattern counts on where it cannot
/// keep up, so that its times would fall behind without bound.
fn keep_up(pattern: &gst::Element) {
    let Some(pad) = pattern.static_pad("src") else { return };
    pad.add_probe(gst::PadProbeType::BUFFER, |pad, info| {
        if let Some(gst::PadProbeData::Buffer(buffer)) = &mut info.data
            && let Some(pattern) = pad.parent_element()
            && pattern.property::<bool>("is-live")
            && let (Some(now), Some(time)) = (pattern.current_running_time(), buffer.pts())
            && time + buffer.duration().unwrap_or(gst::ClockTime::ZERO) < now
        {
            buffer.make_mut().set_pts(now);
        }
        gst::PadProbeReturn::Ok
    });
}

/// Has a decoder of libav that predicts frames from earlier ones copy each frame to memory that it is given. Otherwise it would keep that
/// memory mapped for writing, and GStreamer would copy each frame to memory of its own.
fn copy_out(decoder: &gst::Element) {
    const PROPERTY: &str = "direct-rendering";
    let coded = decoder.pad_template("sink").map(|template| template.caps().clone());
    let is_picture = coded.as_ref().and_then(|caps| caps.structure(0)).is_some_and(is_image);
    if decoder.has_property(PROPERTY) && !is_picture {
        decoder.set_property(PROPERTY, false);
    }
}

fn is_image(media: &gst::StructureRef) -> bool {
    media.name().starts_with("image/")
}

/// Ends a demuxer of gst-libav that does not notice the end of its file, as that of GIF, which would ask for more for ever: GStreamer
/// tells libav that 0 bytes were read. An error ends it, and it reports the end of the stream.
fn end_demuxer(element: &gst::Element) {
    let is_libav = element.factory().is_some_and(|factory| factory.name().starts_with("avdemux_"));
    if !is_libav {
        return;
    }
    let Some(pad) = element.static_pad("sink") else { return };
    let last = Mutex::new((0, 0));
    pad.add_probe(gst::PadProbeType::PULL | gst::PadProbeType::BLOCK, move |pad, info| {
        let mut last = last.lock();
        let (offset, repeats) = &mut *last;
        *repeats = if *offset == info.offset { *repeats + 1 } else { 0 };
        *offset = info.offset;
        if *repeats == READS_PAST_END_MAX {
            tracing::info!("the demuxer missed the end of its file; sending it");
            // Its requests fail from now on.
            let _ = pad.peer().map(|peer| peer.set_active(false));
        }
        gst::PadProbeReturn::Pass
    });
}

/// Links the video track that is wanted of each element that may have several, once all are there, which is before the first buffer.
fn choose_tracks(pipeline: &gst::Pipeline, wanted: Option<u32>, reports: &EventReporter) {
    for element in pipeline.iterate_elements().into_iter().flatten() {
        let reports = reports.clone();
        element.connect_no_more_pads(move |element| {
            if let Some(event) = choose_track(element, wanted) {
                reports.send(event);
            }
        });
    }
}

/// Links track `wanted` of `element` instead of its first, or that of the largest pictures. Where several are linked, the description
/// has chosen.
fn choose_track(element: &gst::Element, wanted: Option<u32>) -> Option<PipelineEvent> {
    let is_video = |pad: &gst::Pad| is_raw(&possible_caps(pad));
    let tracks: Vec<gst::Pad> = element.src_pads().into_iter().filter(is_video).collect();
    let mut linked = tracks.iter().filter(|pad| pad.is_linked());
    let (Some(first), None) = (linked.next(), linked.next()) else { return None };
    let peer = first.peer()?;
    let number = match wanted {
        Some(track) if tracks.len() < track as usize => {
            let count = tracks.len();
            // The track is linked; unlink it so that no buffer flows.
            let _ = first.unlink(&peer);
            return Some(PipelineEvent::Refused(CaptureError::NoTrack { track, count }));
        }
        Some(track) => track as usize,
        // The first of equals.
        None => (1..=tracks.len()).rev().max_by_key(|number| rank(&tracks[number - 1]))?,
    };
    let chosen = &tracks[number - 1];
    if chosen != first {
        // A track that does not fit fails with its first buffer.
        let _ = first.unlink(&peer).is_ok() && chosen.link(&peer).is_ok();
    }
    let sizes: Vec<_> = tracks.iter().map(|pad| size_of_track(pad).to_string()).collect();
    let text = format!("track {number} of {} ({})", tracks.len(), sizes.join(", "));
    (1 < tracks.len()).then_some(PipelineEvent::Tracks(text))
}

/// Rank of a video track, by which the default one is chosen: still pictures, such as a cover, are below videos, and small pictures below
/// large ones.
fn rank(pad: &gst::Pad) -> (bool, u64) {
    let decoder =
        pad.downcast_ref::<gst::GhostPad>().and_then(|pad| pad.target()?.parent_element());
    let coded = decoder.and_then(|decoder| decoder.static_pad("sink")?.current_caps());
    let is_still = coded.is_some_and(|caps| caps.structure(0).is_some_and(is_image));
    let Extent { width, height } = size_of_track(pad);
    (!is_still, u64::from(width) * u64::from(height))
}

fn size_of_track(pad: &gst::Pad) -> Extent {
    caps::extent_of(&possible_caps(pad)).unwrap_or(Extent::new(0, 0))
}

pub(super) fn is_raw(caps: &gst::Caps) -> bool {
    caps.structure(0).is_some_and(|structure| structure.name() == "video/x-raw")
}

/// Inserts `adapters` between the appsink and its present or future peer. Returns the pad that takes what the peer gives.
fn insert(
    pipeline: &gst::Pipeline,
    sink: &gst::Element,
    adapters: &[Adapter],
) -> Result<gst::Pad, CaptureError> {
    let elements: Vec<_> = adapters.iter().map(made).collect::<Result<_, _>>()?;
    let pad = sink_pad(sink);
    let Some(first) = elements.first() else {
        return Ok(pad);
    };
    let peer = pad.peer();
    if let Some(peer) = &peer {
        // Fails only for pads that are not linked.
        let _ = peer.unlink(&pad);
    }
    let failed = |_| CaptureError::Failed {
        element: described(first),
        reason: "it cannot be linked before the appsink".to_owned(),
    };
    pipeline.add_many(&elements).map_err(failed)?;
    gst::Element::link_many(elements.iter().chain([sink])).map_err(failed)?;
    match peer {
        Some(peer) => {
            // Incompatible caps fail later, when they flow.
            let _ = peer.link(&sink_pad(first));
        }
        None => link_when_added(pipeline, first),
    }
    Ok(sink_pad(first))
}

fn made(adapter: &Adapter) -> Result<gst::Element, CaptureError> {
    let mut builder = gst::ElementFactory::make(adapter.element);
    for (name, value) in adapter.properties {
        builder = builder.property_from_str(name, value);
    }
    builder.build().map_err(|_| CaptureError::UnknownElement {
        element: adapter.element.to_owned(),
        remedy: hints::remedy_of_element(adapter.element),
    })
}

/// Links the first raw video pad of a decoder to `target`, because the parser's delayed link is to the appsink.
fn link_when_added(pipeline: &gst::Pipeline, target: &gst::Element) {
    for element in pipeline.iterate_elements().into_iter().flatten() {
        let target = target.downgrade();
        element.connect_pad_added(move |_, pad| {
            if let Some(target) = target.upgrade()
                && pad.direction() == gst::PadDirection::Src
                && is_raw(&possible_caps(pad))
            {
                // Fails for a second video branch.
                let _ = pad.link(&sink_pad(&target));
            }
        });
    }
}

fn possible_caps(pad: &gst::Pad) -> gst::Caps {
    pad.current_caps().unwrap_or_else(|| pad.query_caps(None))
}

/// CLOCK_MONOTONIC, so that base time plus running time is system time.
fn monotonic_clock() -> gst::Clock {
    let clock: gst::SystemClock =
        gst::glib::Object::builder().property("clock-type", gst::ClockType::Monotonic).build();
    clock.upcast()
}

/// Forwards errors, ends and missing plugins to the watching thread, and logs warnings.
fn forward_messages(
    pipeline: &gst::Pipeline,
    reports: EventReporter,
    answer: &NewestAnswer,
    network: &Network,
) -> Result<(), CaptureError> {
    let answer = Arc::clone(answer);
    let servers = network.first_servers();
    let bus = pipeline.bus().ok_or_else(|| CaptureError::Failed {
        element: "pipeline".to_owned(),
        reason: "it has no bus".to_owned(),
    })?;
    bus.set_sync_handler(move |_, message| {
        match message.view() {
            gst::MessageView::Error(_) | gst::MessageView::Eos(_) => {
                reports.send(PipelineEvent::Message(message.clone()));
            }
            gst::MessageView::Element(element) if is_missing_plugin(element) => {
                reports.send(PipelineEvent::Message(message.clone()));
            }
            gst::MessageView::Element(element) => {
                if let Some(newest) = Answer::of(element) {
                    *answer.lock() = Some(newest);
                }
            }
            gst::MessageView::Progress(progress) => {
                let refusal = servers.as_ref().and_then(|servers| servers.refusal_of(progress));
                if let (Some(error), Some(element)) =
                    (refusal, message.src().and_then(|src| src.downcast_ref()))
                {
                    reports.send(PipelineEvent::Refused(error));
                    hold(element);
                }
            }
            gst::MessageView::Warning(warning) => log_warning(warning),
            _ => {}
        }
        gst::BusSyncReply::Drop
    });
    Ok(())
}

fn log_warning(warning: &gst::message::Warning) {
    // Expected where adapters replace the parser's own link.
    if warning.error().matches(gst::ParseError::DelayedLink) {
        return;
    }
    let element = warning.src().map(|src| src.name().to_string()).unwrap_or_default();
    tracing::warn!(element, reason = redacted(warning.error().message()), "GStreamer warning");
}

fn is_missing_plugin(element: &gst::message::Element) -> bool {
    element.structure().is_some_and(|structure| structure.name() == "missing-plugin")
}

/// The error of a web page, before its address is known.
pub(super) fn web_page() -> CaptureError {
    CaptureError::WebPage { what: "what the source gives".to_owned() }
}

/// The error of a missing-plugin message; `None` for other messages.
pub(super) fn missing_plugin_of(message: &gst::Message) -> Option<CaptureError> {
    let gst::MessageView::Element(element) = message.view() else {
        return None;
    };
    let structure = element.structure().filter(|structure| structure.name() == "missing-plugin")?;
    let media = structure.get::<gst::Caps>("detail").ok();
    let media = media.as_ref().and_then(|caps| caps.structure(0)).map_or("", |s| s.name());
    if media == "text/html" {
        return Some(web_page());
    }
    let what = structure.get::<&str>("name").unwrap_or(media).to_owned();
    Some(CaptureError::MissingDecoder { what, remedy: hints::remedy_of_decoder(media) })
}

/// The error of an error message; `None` for other messages.
pub(super) fn error_of(message: &gst::Message) -> Option<CaptureError> {
    let gst::MessageView::Error(message) = message.view() else {
        return None;
    };
    let error = message.error();
    let element = message.src().map(|src| src.name().to_string()).unwrap_or_default();
    let debug = message.debug().map(|debug| debug.to_string()).unwrap_or_default();
    // The first line of the debug text is a location in GStreamer's source.
    let detail = debug.lines().skip(1).collect::<Vec<_>>().join(" ");
    let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
    let reason = redacted(&format!("{}{detail}", error.message()));
    let src = message.src();
    let status = message.details().and_then(|details| details.get("rtsp-status-code").ok());
    if let Some((place, status)) = src.and_then(property_of_source).zip(status) {
        return Some(error_of_status(place, status));
    }
    Some(classified(&error, src, element, reason))
}

fn classified(
    error: &gst::glib::Error,
    src: Option<&gst::Object>,
    element: String,
    reason: String,
) -> CaptureError {
    let place = src.and_then(property_of_source);
    let is_camera =
        place.as_ref().is_some_and(|place| ShorthandKind::of(place) == Some(ShorthandKind::Camera));
    let is_named = place.is_some();
    let is_server = place.as_ref().is_some_and(|place| Server::of(place).is_ok());
    let device = place.unwrap_or_else(|| element.clone());
    let denied = reason.to_ascii_lowercase().contains("permission denied");
    if let Some(kind) = error.kind::<gst::ResourceError>() {
        return match kind {
            gst::ResourceError::Busy => CaptureError::Busy { device },
            _ if denied => CaptureError::Permission {
                what: device,
                remedy: "let this user read it; cameras belong to the group `video`",
            },
            gst::ResourceError::NotFound if is_camera => CaptureError::NoCamera { device },
            gst::ResourceError::NotFound if is_named => CaptureError::Missing { what: device },
            gst::ResourceError::NotAuthorized => CaptureError::Unauthorised { reason },
            gst::ResourceError::NotFound
            | gst::ResourceError::OpenRead
            | gst::ResourceError::OpenReadWrite
            | gst::ResourceError::Settings => CaptureError::Unreachable { reason },
            gst::ResourceError::Read | gst::ResourceError::Write | gst::ResourceError::Close
                if is_server =>
            {
                CaptureError::Unreachable { reason }
            }
            // `souphttpsrc` asks for the rest then, which cameras do not have.
            gst::ResourceError::Seek if is_server => {
                CaptureError::Unreachable { reason: "the connection broke".to_owned() }
            }
            _ => CaptureError::Failed { element, reason },
        };
    }
    match error.kind::<gst::StreamError>() {
        // Reported by decodebin for a file without frames, if it notices before the end of the stream.
        Some(gst::StreamError::Failed) if reason.contains("streams without buffers") => {
            CaptureError::NoFrames { what: "the source".to_owned() }
        }
        Some(
            gst::StreamError::TypeNotFound
            | gst::StreamError::WrongType
            | gst::StreamError::Decode
            | gst::StreamError::Demux,
        ) => CaptureError::Corrupt { what: "the file or stream".to_owned(), reason },
        _ => CaptureError::Failed { element, reason },
    }
}

/// The device, file or address that an element reads, redacted.
fn property_of_source(src: &gst::Object) -> Option<String> {
    let name = ["device", "location", "uri"].into_iter().find(|name| src.has_property(name))?;
    src.property_value(name).get::<Option<String>>().ok()?.map(|value| redacted(&value))
}
