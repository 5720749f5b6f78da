//! What a reader must see of a known sequence of frames, by the naive definition.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use foveate_capture::{CapturedFrame, End, Source, SourceSpec, TakeResult};
use foveate_config::{Pace, SourceChoice};
use foveate_core::frame::{FrameView, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::PixelBox;
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_core::token::Outside;
use foveate_daemon::stream::ServedView;
use foveate_ring::{SegmentInfo, TokenFrameBuf, TokenRecord};
use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_video as gst_video;

use crate::naive::{OwnedFrame, Picture, Random, picture, pyramid, tokens};
use crate::wait::HANG;

/// Frames 1, 2, 3 ... of a stream, which begin again after the last.
pub struct Film {
    frames: Vec<OwnedFrame>,
    /// Of each frame, once it is asked for.
    pyramids: Vec<OnceCell<Vec<Picture>>>,
    /// Which tiles of each frame differ from the frame before, row by row, once it is asked for.
    changes: Vec<OnceCell<Vec<bool>>>,
}

impl Film {
    pub fn new(frames: Vec<OwnedFrame>) -> Self {
        let frames: Vec<_> = frames.into_iter().map(OwnedFrame::opaque).collect();
        let pyramids = frames.iter().map(|_| OnceCell::new()).collect();
        let changes = frames.iter().map(|_| OnceCell::new()).collect();
        Self { frames, pyramids, changes }
    }

    /// Random samples, then `count` - 1 frames in which some boxes of the one before are redrawn; the third changes
    /// nothing.
    pub fn random(first: OwnedFrame, count: usize, random: &mut Random) -> Self {
        let mut frames = vec![first];
        while frames.len() < count {
            let mut frame = frames.last().unwrap().clone();
            for _ in 0..if frames.len() == 2 { 0 } else { 2 } {
                let (x, y) = (random.below(frame.extent.width), random.below(frame.extent.height));
                frame.scramble(x, y, 1 + random.below(40), random);
            }
            frames.push(frame);
        }
        Self::new(frames)
    }

    /// All frames that `source` decodes to in this process.
    pub fn decoded(source: SourceChoice) -> Self {
        Self::decoded_with(source, &[])
    }

    /// Like [`decoded`](Self::decoded), with parameters of the description.
    pub fn decoded_with(source: SourceChoice, parameters: &[(&str, String)]) -> Self {
        let mut spec =
            SourceSpec { pace: Pace::EveryFrame, ..SourceSpec::new("reference", source) };
        spec.parameters
            .extend(parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let mut source = Source::open(&spec, &Arc::default()).unwrap();
        let mut frames = Vec::new();
        take_all(&mut source, |frame| frames.push(OwnedFrame::copied(&frame.view().unwrap())));
        Self::new(frames)
    }

    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Frame `frame_seq`, from 1.
    pub fn frame(&self, frame_seq: u64) -> &OwnedFrame {
        &self.frames[self.index(frame_seq)]
    }

    /// The pyramid of frame `frame_seq`.
    pub fn pyramid(&self, frame_seq: u64) -> &[Picture] {
        let index = self.index(frame_seq);
        self.pyramids[index].get_or_init(|| pyramid(&picture(&self.frames[index])))
    }

    /// `frame` is the token frame that `view` must have published when the stream took every frame up to it.
    pub fn assert_shows(&self, view: &ServedView, segment: &SegmentInfo, frame: &TokenFrameBuf) {
        self.assert_samples(view, segment, frame);
        let frame_seq = frame.head.stamp.frame_seq;
        let dirty = (0..self.tiles(frame_seq)).filter(|tile| self.changes(frame_seq, *tile));
        assert_eq!(frame.head.dirty_tiles as usize, dirty.count(), "frame {frame_seq}");
        for record in &frame.records {
            if view.spec.format.outside == Outside::Mean && record.columns.min(record.rows) == 0 {
                // It has no pixel, and keeps the number that it had in the first frame at its place, which is one of these.
                let mut numbers = (1..=frame_seq).map(|seq| self.newest_change(seq, record));
                assert!(numbers.any(|number| record.changed_frame == number), "{record:?}");
                continue;
            }
            let newest = self.newest_change(frame_seq, record);
            assert_eq!(record.changed_frame, newest, "frame {frame_seq}, {record:?}");
        }
    }

    /// The same, but for what depends on the frames that the stream took before.
    pub fn assert_samples(&self, view: &ServedView, segment: &SegmentInfo, frame: &TokenFrameBuf) {
        let head = &frame.head;
        let source = self.frame(head.stamp.frame_seq);
        self.assert_segment(view, segment, source);
        assert_eq!((head.sample_bound, head.rgb_bound), (0, 0));
        assert_eq!(head.tile_count as usize, self.tiles(head.stamp.frame_seq));
        assert!(head.stamp.arrival_ns <= head.publish_ns);

        let shape = PyramidShape::new(source.extent);
        let gaze = Gaze::new(head.fixations.clone(), None);
        let plan = if view.spec.layout.follows_detail() {
            // Laws of the engine say where these lie; here they cover each pixel once.
            let tokens: Vec<_> = frame.records.iter().map(TokenRecord::token).collect();
            let patch_side = view.spec.format.patch_side;
            assert_cover(&tokens, patch_side, source.extent);
            TokenPlan { patch_side, tokens }
        } else {
            view.spec.plan(&gaze, shape, None)
        };
        assert!((1..=view.spec.budget).contains(&plan.tokens.len()));
        self.assert_texels(view, segment, frame, &plan);
    }

    /// The texels of `frame` are those of the tokens of `plan`, which are its own.
    pub fn assert_texels(
        &self,
        view: &ServedView,
        segment: &SegmentInfo,
        frame: &TokenFrameBuf,
        plan: &TokenPlan,
    ) {
        let head = &frame.head;
        let source = self.frame(head.stamp.frame_seq);
        let side = view.spec.format.patch_side;
        assert_eq!(frame.records.len(), plan.tokens.len());
        let levels = self.pyramid(head.stamp.frame_seq);
        for (record, token) in frame.records.iter().zip(&plan.tokens) {
            assert_places(record, *token, side, source.extent);
            // Without a map all of the picture matters equally.
            let is_even = record.relevance.to_bits() == 1.0_f32.to_bits();
            assert!(is_even || 0 < head.relevance_frame && 0.0 < record.relevance, "{record:?}");
        }
        let expected = tokens(&levels[0], plan, view.spec.format);
        if let Some(at) = (0..expected.len()).find(|&at| frame.pixels.get(at) != expected.get(at)) {
            let token = at / view.spec.format.token_bytes();
            panic!(
                "{}/{} frame {}: byte {at} is {:?} and not {}, in token {token} at {:?}",
                segment.stream,
                segment.view,
                head.stamp.frame_seq,
                frame.pixels.get(at),
                expected[at],
                plan.tokens[token]
            );
        }
        assert_eq!(frame.pixels.len(), expected.len());
    }

    fn assert_segment(&self, view: &ServedView, segment: &SegmentInfo, source: &OwnedFrame) {
        assert_eq!(segment.view, view.name);
        assert_eq!(segment.layout, view.spec.layout.name());
        assert_eq!((segment.format, segment.capacity), (view.spec.format, view.spec.capacity()));
        assert_eq!(segment.extent, source.extent);
        assert_eq!(segment.pixel_format, source.format.name());
    }

    fn index(&self, frame_seq: u64) -> usize {
        (usize::try_from(frame_seq).unwrap() - 1) % self.frames.len()
    }

    fn tiles(&self, frame_seq: u64) -> usize {
        self.frame(frame_seq).extent.in_cells(TILE_SIDE).area()
    }

    /// Whether `tile` differs from the frame before. All tiles of the first frame do.
    fn changes(&self, frame_seq: u64, tile: usize) -> bool {
        let (index, count) = (self.index(frame_seq), self.frames.len());
        let before = &self.frames[(index + count - 1) % count];
        let changes = &self.changes[index];
        frame_seq == 1 || changes.get_or_init(|| changed_tiles(before, &self.frames[index]))[tile]
    }

    fn newest_change(&self, frame_seq: u64, record: &TokenRecord) -> u64 {
        let grid_width = self.frame(frame_seq).extent.width.div_ceil(TILE_SIDE);
        let mut newest = 1;
        let tiles = |from: u32, to: u32, origin: i32, step: u16| {
            // A token beside the picture repeats what its next texel inside would be.
            let edge = i64::from(from.saturating_sub(1)) - i64::from(origin);
            let inside = i64::from(origin) + edge.div_euclid(step.into()) * i64::from(step);
            let from = if from == to { u32::try_from(inside.max(0)).unwrap() } else { from };
            from / TILE_SIDE..to.max(from + 1).div_ceil(TILE_SIDE)
        };
        for row in tiles(record.y0, record.y1, record.y, record.sy) {
            for column in tiles(record.x0, record.x1, record.x, record.sx) {
                let tile = (row * grid_width + column) as usize;
                // A tile that no frame of the film changes was last changed by the first.
                let mut cycle = (1..=frame_seq).rev().take(self.frames.len());
                let changed = cycle.find(|&seq| self.changes(seq, tile));
                newest = newest.max(changed.unwrap_or(1));
            }
        }
        newest
    }
}

/// Takes the frames of `source` up to its end.
pub fn take_all(source: &mut Source, mut take: impl FnMut(CapturedFrame)) -> End {
    loop {
        match source.next_frame(HANG) {
            TakeResult::Frame(frame) => take(frame),
            TakeResult::Ended(end) => return end,
            TakeResult::TimedOut => panic!("neither a frame nor the end came"),
        }
    }
}

/// The frames of `source` up to its end.
pub fn rest_of(source: &mut Source) -> (Vec<CapturedFrame>, End) {
    let mut frames = Vec::new();
    let end = take_all(source, |frame| frames.push(frame));
    (frames, end)
}

/// Decodes a clip in this process, and gives `take` each frame and its index.
pub fn for_each_frame(clip: &Path, mut take: impl FnMut(usize, &FrameView<'_>)) {
    let choice = SourceChoice::Shorthand(clip.display().to_string());
    let spec = SourceSpec { pace: Pace::EveryFrame, ..SourceSpec::new("clip", choice) };
    let mut source = Source::open(&spec, &Arc::default()).unwrap();
    let mut indices = 0..;
    take_all(&mut source, |frame| take(indices.next().unwrap(), &frame.view().unwrap()));
}

/// Every word of a record that its token decides.
fn assert_places(record: &TokenRecord, token: Token, side: u32, source: Extent) {
    assert_eq!(record.token(), token);
    let axes = [
        (
            token.x,
            token.width(side),
            source.width,
            record.x0,
            record.x1,
            record.first_column,
            record.columns,
        ),
        (
            token.y,
            token.height(side),
            source.height,
            record.y0,
            record.y1,
            record.first_row,
            record.rows,
        ),
    ];
    for (origin, step, length, start, end, first, count) in axes {
        // In parts of a pixel, P of them.
        let unit = i64::from(side);
        let (step, length) = (i64::from(step), i64::from(length) * unit);
        let place = |texel: u32| i64::from(origin) * unit + i64::from(texel) * step;
        let is_real = |texel: &u32| 0 < place(*texel) + step && place(*texel) < length;
        let real: Vec<_> = (0..side).filter(is_real).collect();
        assert_eq!(u32::from(count) as usize, real.len(), "{record:?}");
        let (Some(low), Some(high)) = (real.first(), real.last()) else {
            assert_eq!(start, end, "{record:?}");
            continue;
        };
        assert_eq!(u32::from(first), *low, "{record:?}");
        assert_eq!(i64::from(start) * unit, place(*low).max(0), "{record:?}");
        assert_eq!(i64::from(end) * unit, (place(*high) + step).min(length), "{record:?}");
    }
    assert_eq!(u32::from(record.size), side);
}

/// Which tiles differ in any pixel; all of them in frames of another size or kind.
fn changed_tiles(old: &OwnedFrame, new: &OwnedFrame) -> Vec<bool> {
    let Extent { width, height } = new.extent;
    let columns = width.div_ceil(TILE_SIDE);
    let is_same_kind = (old.extent, old.format) == (new.extent, new.format);
    let mut changed = vec![!is_same_kind; (columns * height.div_ceil(TILE_SIDE)) as usize];
    for y in (0..height).filter(|_| is_same_kind) {
        for x in 0..width {
            if old.samples(x, y) != new.samples(x, y) {
                changed[(y / TILE_SIDE * columns + x / TILE_SIDE) as usize] = true;
            }
        }
    }
    changed
}

/// The bytes of `frame` as GStreamer lays out raw video of its kind.
pub fn raw_bytes(frame: &OwnedFrame) -> Vec<u8> {
    let info = video_info(frame.format, frame.extent);
    let mut bytes = vec![0xEE; info.size()];
    let view = frame.view();
    for plane in 0..frame.format.plane_count() {
        let stride = usize::try_from(info.stride()[plane]).unwrap();
        for y in 0..frame.format.plane_shape(plane, frame.extent).rows as usize {
            let row = view.row(plane, y);
            bytes[info.offset()[plane] + y * stride..][..row.len()].copy_from_slice(row);
        }
    }
    bytes
}

/// The tokens cover each pixel of a picture of `extent` exactly once.
fn assert_cover(tokens: &[Token], patch_side: u32, extent: Extent) {
    let boxes: Vec<_> = tokens.iter().map(|token| token.pixel_box(extent, patch_side)).collect();
    let area = |lies: &PixelBox| (lies.x1 - lies.x0) as usize * (lies.y1 - lies.y0) as usize;
    assert_eq!(boxes.iter().map(area).sum::<usize>(), extent.area());
    for (index, one) in boxes.iter().enumerate() {
        let shares = |other: &PixelBox| {
            one.x0.max(other.x0) < one.x1.min(other.x1)
                && one.y0.max(other.y0) < one.y1.min(other.y1)
        };
        assert!(!boxes[..index].iter().any(shares), "{one:?}");
    }
}

/// A description that reads raw frames of that kind from `path`. The colorimetry is that of caps, such as `bt709`;
/// where it is empty, caps have none.
pub fn raw_pipeline(path: &Path, format: PixelFormat, extent: Extent, colorimetry: &str) -> String {
    let Extent { width, height } = extent;
    let caps = match colorimetry {
        "" => String::new(),
        colorimetry => format!("! capssetter caps=video/x-raw,colorimetry={colorimetry}"),
    };
    format!(
        "filesrc location={} blocksize={} ! rawvideoparse format={} width={width} height={height} framerate=100/1 \
         {caps} ! appsink name=frames",
        path.display(),
        video_info(format, extent).size(),
        format.name().to_ascii_lowercase(),
    )
}

fn video_info(format: PixelFormat, extent: Extent) -> gst_video::VideoInfo {
    gst::init().unwrap();
    let name = format.name().parse::<gst_video::VideoFormat>().unwrap();
    gst_video::VideoInfo::builder(name, extent.width, extent.height).build().unwrap()
}

/// Runs a description to its end, and writes what comes out of it to a file.
pub fn encode(path: &Path, text: &str) {
    run(&format!("{text} ! filesink location={}", path.display()));
}

/// Runs a description to its end.
pub fn run(text: &str) {
    gst::init().unwrap();
    let pipeline = gst::parse::launch(text).unwrap();
    pipeline.set_state(gst::State::Playing).unwrap();
    let bus = pipeline.bus().unwrap();
    let kinds = [gst::MessageType::Eos, gst::MessageType::Error];
    let message = bus.timed_pop_filtered(gst::ClockTime::from_seconds(60), &kinds).unwrap();
    pipeline.set_state(gst::State::Null).unwrap();
    assert_eq!(message.type_(), gst::MessageType::Eos, "{message:?}");
}
