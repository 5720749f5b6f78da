//! `foveate extract` gives what the ring gives, and both are the naive definition.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use foveate_config::{SourceChoice, ViewConfig};
use foveate_core::geometry::fixation::{Fixation, FixationReason, Fixations};
use foveate_core::npy::NpyArray;
use foveate_core::token::DType;
use foveate_daemon::stream::ServedView;
use foveate_ring::abi::FixationBlock;
use foveate_ring::{SegmentInfo, TokenFrameBuf, TokenRecord};
use rustix::process::Signal;
use serde_json::Value;
use testkit::daemon::{Outcome, Place};
use testkit::device;
use testkit::film::{Film, encode};
use testkit::wait::until;

use crate::end_to_end_sources::item_bytes;

/// Every change counts, whatever the source.
const EXACT: &str = "[stream.change]\nthreshold = 0\n";

const VIEWS: &str = "[[stream.view]]\nname = 'bytes'\nlayout = 'foveal'\ndtype = 'u8'\nbudget = 50\ngaze = { policy = 'fixed' }\n\
     [[stream.view]]\nname = 'model'\nlayout = 'foveal'\npatch = 14\nbudget = 120\ndtype = 'bf16'\nnormalisation = 'siglip'\ngaze = { policy = 'fixed' }\n\
     [[stream.view]]\nname = 'exact'\nlayout = 'uniform'\nbudget = 20\ndtype = 'f32'\nnormalisation = 'unit'\ngaze = { policy = 'fixed' }\n\
     [[stream.view]]\nname = 'half'\nbudget = 70\ngaze = { policy = 'fixed', x = 0.2, y = 0.9 }\n\
     [[stream.view]]\nname = 'wide'\nlayout = 'directional'\nbudget = 40\ngaze = { policy = 'fixed' }\n\
     [[stream.view]]\nname = 'rings'\nlayout = 'rings'\npreset = 'stt172'\noutside = 'mean'\ngaze = { policy = 'fixed', x = 0.9, y = 0.1 }\n\
     [[stream.view]]\nname = 'crops'\nlayout = 'windows'\nbudget = 3\npatch = 224\ndtype = 'u8'\ngaze = { policy = 'fixed' }\n";

const NAMES: [&str; 7] = ["bytes", "model", "exact", "half", "wide", "rings", "crops"];

#[test]
fn the_arrays_hold_what_the_ring_gives() {
    let place = Place::new();
    let film = clip(&place, 9);
    let config = format!(
        "[[stream]]\nname = 'clip'\nsource = 'clip.avi'\nloop = true\npace = 'every-frame'\nbackend = 'cpu'\n{EXACT}{VIEWS}"
    );
    let daemon = place.daemon(&config);
    extract(&place, &[]).assert_clean_exit(0);

    for name in NAMES {
        let view = format!("clip/{name}");
        let mut follower = daemon.subscribe(&view);
        follower.next_frame();
        let segment = follower.segment().clone();
        let extracted = ExtractedView::read(&place.path("out").join(name), daemon.plan(&view));
        assert_eq!(extracted.frames.rows, film.len());
        for index in 0..film.len() {
            film.assert_shows(daemon.plan(&view), &segment, &extracted.token_frame(index));
        }
        extracted.assert_tells(&segment);

        // What a looping stream shows is the same, but for when it changed.
        let seen = follower.next_frame();
        let index = usize::try_from(seen.head.stamp.frame_seq - 1).unwrap() % film.len();
        let extracted = extracted.token_frame(index);
        assert_eq!((&extracted.pixels, &extracted.planes), (&seen.pixels, &seen.planes));
    }
    daemon.stop();
}

#[test]
fn extract_gives_equal_bytes_on_every_backend() {
    device::with_gpu(|gpu| {
        let device = &gpu.summary().name;
        let place = Place::new();
        clip(&place, 9);
        let vulkan = format!("backend = 'vulkan'\ndevice = '{device}'\n");
        let mut runs = Vec::new();
        for (backend, environment) in [
            ("backend = 'cpu'\n", &[][..]),
            (&vulkan, &[("FOVEATE_VALIDATION", "1")]),
            // While its views are built, and while it takes frames.
            (&vulkan, &[("FOVEATE_INJECT_DEVICE_LOSS", "5")]),
            (&vulkan, &[("FOVEATE_INJECT_DEVICE_LOSS", "10")]),
        ] {
            let config =
                format!("[[stream]]\nname = 'clip'\nsource = 'test'\n{backend}{EXACT}{VIEWS}");
            place.write("foveate.toml", config);
            let outcome = extract(&place, environment);
            outcome.assert_clean_exit(0);
            let is_lost = environment.first().is_some_and(|(name, _)| name.ends_with("LOSS"));
            assert_eq!(outcome.stderr.contains("continuing on the CPU"), is_lost, "{outcome:?}");
            assert_eq!(outcome.stderr.contains(" WARN "), is_lost, "{outcome:?}");
            let bytes = NAMES.map(|name| {
                ["tokens.npy", "pixels.npy", "relevance.npy"]
                    .map(|file| fs::read(place.path("out").join(name).join(file)).unwrap())
            });
            fs::remove_dir_all(place.path("out")).unwrap();
            runs.push(bytes);
        }
        assert!(runs[0] == runs[1], "the CPU and {device} differ");
        assert!(runs[2..].iter().all(|run| *run == runs[0]), "losing {device} shows");
    });
}

#[test]
fn without_a_configuration_the_view_is_main() {
    let place = Place::new();
    let film = clip(&place, 2);
    let clip = place.path("clip.avi");
    let out = place.path("out");
    let arguments = ["extract", clip.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let outcome = place.foveate(&arguments).finish();
    outcome.assert_clean_exit(0);
    assert_eq!(outcome.stdout, format!("{}: 2 frames\n", out.join("main").display()));
    let view = ServedView::try_from(&ViewConfig::default()).unwrap();
    let extracted = ExtractedView::read(&out.join("main"), &view);
    assert_eq!(extracted.frames.rows, film.len());
    assert!((1..=view.spec.budget).contains(&extracted.token_frame(0).records.len()));
}

#[test]
fn what_was_extracted_before_an_interrupt_is_whole() {
    let place = Place::new();
    let clip = place.path("long.avi");
    encode(
        &clip,
        "videotestsrc pattern=black num-buffers=3000 ! video/x-raw,format=I420,width=64,height=48 ! \
         jpegenc ! avimux",
    );
    let view = "[[stream.view]]\nname = 'few'\nbudget = 4\n";
    let config =
        place.write("few.toml", format!("[[stream]]\nname = 'clip'\nsource = 'test'\n{view}"));
    let out = place.path("out");
    let [clip, config, target] = [&clip, &config, &out].map(|path| path.to_str().unwrap());
    let process = place.foveate(&["extract", clip, "--config", config, "--out", target]);
    until("a first frame", || out.join("few/frames.npy.part").exists());
    process.signal(Signal::INT);
    let outcome = process.finish();
    outcome.assert_clean_exit(1);
    assert!(outcome.message().contains("interrupted"), "{outcome:?}");
    let view = ServedView::try_from(&ViewConfig { budget: 4, ..ViewConfig::default() }).unwrap();
    let rows = ExtractedView::read(&out.join("few"), &view).frames.rows;
    assert!(0 < rows && rows < 3000, "{rows} frames");
}

#[test]
fn a_killed_extract_leaves_no_array() {
    let place = Place::new();
    let pipeline =
        "videotestsrc ! video/x-raw,format=GRAY8,width=64,height=48 ! appsink name=frames";
    let out = place.path("out");
    let arguments = ["extract", "--pipeline", pipeline, "--out", out.to_str().unwrap()];
    let process = place.foveate(&arguments);
    until("a first frame", || out.join("main/frames.npy.part").exists());
    process.signal(Signal::KILL);
    process.finish();
    let names = fs::read_dir(out.join("main")).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = names.collect();
    assert!(!names.is_empty());
    assert!(names.iter().all(|name| name.as_encoded_bytes().ends_with(b".npy.part")), "{names:?}");
}

/// A clip of 9 frames at most, and what this process decodes it to.
fn clip(place: &Place, frame_count: usize) -> Film {
    let path = place.path("clip.avi");
    encode(
        &path,
        &format!(
            "videotestsrc pattern=ball num-buffers={frame_count} ! video/x-raw,format=I420,width=235,height=131 ! \
         jpegenc ! avimux"
        ),
    );
    let film = Film::decoded(SourceChoice::Shorthand(path.display().to_string()));
    assert_eq!(film.len(), frame_count);
    film
}

/// Runs `foveate extract` on the clip with the configuration, into `out`.
fn extract(place: &Place, environment: &[(&str, &str)]) -> Outcome {
    let [clip, config, out] =
        ["clip.avi", "foveate.toml", "out"].map(|name| place.path(name).display().to_string());
    let arguments = ["extract", &clip, "--config", &config, "--out", &out];
    place.foveate_in(&arguments, environment).finish()
}

/// The arrays of one view, as NumPy reads them.
struct ExtractedView {
    frames: Array,
    tokens: Array,
    pixels: Array,
    relevance: Array,
    segments: Value,
    token_bytes: usize,
}

impl ExtractedView {
    fn read(folder: &Path, view: &ServedView) -> Self {
        let [frames, tokens, pixels, relevance] = ["frames", "tokens", "pixels", "relevance"]
            .map(|name| Array::read(&folder.join(format!("{name}.npy"))));
        let side = view.spec.format.patch_side as usize;
        let capacity = view.spec.capacity();
        assert!(frames.row_shape.is_empty());
        assert_eq!(tokens.row_shape, [capacity]);
        assert_eq!(pixels.row_shape, [capacity, 3, side, side]);
        assert_eq!((&relevance.row_shape[..], relevance.dtype.as_str()), (&[capacity][..], "<f4"));
        assert_eq!([tokens.rows, pixels.rows, relevance.rows], [frames.rows; 3]);
        let dtype = match view.spec.format.dtype {
            DType::U8 => "|u1",
            DType::F16 => "<f2",
            DType::Bf16 => "<u2",
            DType::F32 => "<f4",
        };
        assert_eq!(pixels.dtype, dtype);
        let segments = fs::read(folder.join("segments.json")).unwrap();
        let segments = serde_json::from_slice(&segments).unwrap();
        let token_bytes = view.spec.format.token_bytes();
        Self { frames, tokens, pixels, relevance, segments, token_bytes }
    }

    /// Frame `index` as a reader of the ring would have got it; what is not in the arrays is 0.
    fn token_frame(&self, index: usize) -> TokenFrameBuf {
        let field = |name: &str| self.frames.number(index, 0, name);
        let count = usize::try_from(field("token_count")).unwrap();
        let mut frame = TokenFrameBuf::default();
        frame.head.stamp.frame_seq = field("frame_seq");
        frame.head.stamp.pts_ns = Some(field("pts_ns"));
        frame.head.stamp.arrival_ns = field("arrival_ns");
        frame.head.publish_ns = field("publish_ns");
        frame.head.fixations = self.fixations(index);
        for (target, name) in [
            (&mut frame.head.sample_bound, "sample_bound"),
            (&mut frame.head.rgb_bound, "rgb_bound"),
            (&mut frame.head.dirty_tiles, "dirty_tiles"),
            (&mut frame.head.tile_count, "tile_count"),
        ] {
            *target = u32::try_from(field(name)).unwrap();
        }
        assert_eq!((field("has_pts"), field("segment")), (1, 0));
        frame.records = (0..count).map(|token| self.record(index, token)).collect();
        let items = |array: &Array, item_bytes: usize| {
            let (items, unused) = array.row(index).split_at(count * item_bytes);
            assert!(unused.iter().all(|byte| *byte == 0), "tokens that are not there are 0");
            items.to_vec()
        };
        frame.pixels = items(&self.pixels, self.token_bytes);
        frame.planes = vec![items(&self.relevance, size_of::<f32>())];
        frame
    }

    /// The fixations of frame `index`; what a frame has fewer than 8 of is 0.
    fn fixations(&self, index: usize) -> Fixations {
        let (offset, size) = self.frames.fields["fixations"];
        let blocks =
            self.frames.row(index)[offset..][..size].chunks_exact(size_of::<FixationBlock>());
        let blocks: Vec<FixationBlock> = blocks.map(bytemuck::pod_read_unaligned).collect();
        let count = usize::try_from(self.frames.number(index, 0, "fixation_count")).unwrap();
        let (used, unused) = blocks.split_at(count);
        assert!(unused.iter().all(|block| bytemuck::bytes_of(block).iter().all(|byte| *byte == 0)));
        let fixation = |block: &FixationBlock| Fixation {
            id: block.id,
            x: block.x,
            y: block.y,
            since_frame: block.since_frame,
            reason: FixationReason::from_code(block.reason).unwrap(),
            weight: block.weight,
            region: None,
            share: None,
        };
        let fixations: Fixations = used.iter().map(fixation).collect();
        assert_eq!((fixations[0].id, fixations[0].since_frame), (1, 1));
        assert_eq!((fixations[0].reason, fixations[0].weight), (FixationReason::Policy, 1.0));
        fixations
    }

    fn record(&self, index: usize, token: usize) -> TokenRecord {
        let field = |name: &str| self.tokens.number(index, token, name);
        let word = |name: &str| u32::try_from(field(name)).unwrap();
        let short = |name: &str| u16::try_from(field(name)).unwrap();
        let byte = |name: &str| u8::try_from(field(name)).unwrap();
        TokenRecord {
            changed_frame: field("changed_frame"),
            x0: word("x0"),
            y0: word("y0"),
            x1: word("x1"),
            y1: word("y1"),
            x: word("x").cast_signed(),
            y: word("y").cast_signed(),
            sx: short("sx"),
            sy: short("sy"),
            size: short("size"),
            group: short("group"),
            first_column: short("first_column"),
            columns: short("columns"),
            first_row: short("first_row"),
            rows: short("rows"),
            fovea: short("fovea"),
            extra_width: byte("extra_width"),
            extra_height: byte("extra_height"),
            relevance: f32::from_bits(word("relevance")),
        }
    }

    /// `segments.json` says what the header of a ring does.
    fn assert_tells(&self, segment: &SegmentInfo) {
        let told = self.segments.as_array().unwrap();
        assert_eq!(told.len(), 1);
        let told = &told[0];
        assert_eq!(told["stream"], segment.stream);
        assert_eq!(told["view"], segment.view);
        assert_eq!(told["layout"], segment.layout);
        assert_eq!(told["patch_side"], segment.format.patch_side);
        assert_eq!(told["dtype"], serde_json::to_value(segment.format.dtype).unwrap());
        assert_eq!(told["mean"], serde_json::json!(segment.format.normalisation.mean));
        assert_eq!(told["std"], serde_json::json!(segment.format.normalisation.std));
        assert_eq!(told["outside"], serde_json::to_value(segment.format.outside).unwrap());
        assert_eq!(told["rounding"], serde_json::to_value(segment.format.rounding).unwrap());
        assert_eq!(
            (&told["capacity"], &told["foveae"]),
            (&segment.capacity.into(), &segment.foveae.into())
        );
        let grid = segment.grid.map(|grid| [grid.width, grid.height]);
        assert_eq!(told["grid"], serde_json::json!(grid));
        assert_eq!(told["source_width"], segment.extent.width);
        assert_eq!(told["source_height"], segment.extent.height);
        assert_eq!(told["pixel_format"], segment.pixel_format);
        assert_eq!(told["backend"], "cpu");
    }
}

/// A `.npy` file.
struct Array {
    rows: usize,
    row_shape: Vec<usize>,
    dtype: String,
    /// Offset and size of each field of an element, in bytes.
    fields: BTreeMap<String, (usize, usize)>,
    item_bytes: usize,
    row_bytes: usize,
    data: Vec<u8>,
}

impl Array {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let NpyArray { dtype, shape, bytes } = NpyArray::parse(&bytes).unwrap();
        let mut sizes = Vec::new();
        let item_bytes = item_bytes(&mut &*dtype, &mut sizes);
        let place = |at: &mut usize, (name, size)| {
            *at += size;
            Some((name, (*at - size, size)))
        };
        let fields = sizes.into_iter().scan(0, place).collect();
        let (rows, row_shape) = (shape[0], shape[1..].to_vec());
        let row_bytes = row_shape.iter().product::<usize>() * item_bytes;
        assert_eq!(bytes.len(), rows * row_bytes, "{}", path.display());
        let (dtype, data) = (dtype.to_owned(), bytes.to_vec());
        Self { rows, row_shape, dtype, fields, item_bytes, row_bytes, data }
    }

    fn row(&self, row: usize) -> &[u8] {
        &self.data[row * self.row_bytes..][..self.row_bytes]
    }

    /// Field `name` of an element of a row, as the little-endian bits that it has.
    fn number(&self, row: usize, element: usize, name: &str) -> u64 {
        let (offset, size) = self.fields[name];
        let bytes = &self.row(row)[element * self.item_bytes + offset..][..size];
        bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}
