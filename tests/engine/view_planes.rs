//! What a view publishes, plane by plane, is the same wherever it goes.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use foveate_core::backend::{BackendInfo, BackendKind, ChangeSite};
use foveate_core::change::ChangeConfig;
use foveate_core::frame::{FrameStamp, FrameTime, PixelFormat};
use foveate_core::geometry::attention::AttentionMap;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FixationReason, Gaze};
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::region::Region;
use foveate_core::geometry::tile::TileSet;
use foveate_core::plane::{CHANNELS, RELEVANCE, TILES};
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_engine::backend::cpu::CpuBackend;
use foveate_engine::segment::segment_of;
use foveate_engine::{Engine, Memory, SampledFrame, Sink, View};
use foveate_gaze::GazeParameters;
use foveate_gaze::controller::Policy;
use foveate_gaze::feedback::Feedback;
use foveate_gaze::layout::Layout;
use foveate_gaze::layout::adaptive::demand::ConsumerMemory;
use foveate_gaze::relevance::injection::Injection;
use foveate_gaze::view::ViewSpec;
use foveate_ring::{Items, ReadOutcome, Reader, TokenFrameBuf, TokenRecord, Writer};
use testkit::backends::pool;
use testkit::history::move_on;
use testkit::naive::{OwnedFrame, Random, transforms};

use crate::each_backend::Make;

const FRAMES: u64 = 200;

/// A consumer attends to something else every few frames, and the picture changes in a few places.
#[test]
fn published_relevance_is_what_the_layout_used() {
    let extent = Extent::new(203, 149);
    let mut random = Random(7);
    let mut picture = OwnedFrame::random(
        PixelFormat::Nv12,
        extent,
        transforms(PixelFormat::Nv12)[0],
        &mut random,
    );
    let mut engine = engine(&picture, 1);
    let spec = spec(60);
    let segment = segment_of(&spec, "camera", "main", picture.kind(), &on_cpu());
    let sink = BothSinks { ring: Writer::create(&segment).unwrap(), memory: Memory::default() };
    let mut reader = Reader::from_fd(sink.ring.reader_fd().unwrap()).unwrap();
    let plane = reader.header().plane_index(RELEVANCE).unwrap();
    let mut view = engine.view_builder().build(spec.clone(), sink).unwrap();
    let mut read = TokenFrameBuf::default();
    let (mut even, mut maps) = (0, Vec::new());
    let mut planned: Option<(Gaze, TokenPlan)> = None;
    for frame_seq in 1..=FRAMES {
        let stamp =
            FrameStamp { capture_ns: frame_seq * 50_000_000, ..FrameStamp::numbered(frame_seq) };
        if 1 < frame_seq {
            move_on(&mut picture, 4 + random.below(2), frame_seq, &mut random);
        }
        if 3 < frame_seq && random.below(4) == 0 {
            view.take_feedback(
                &attention(extent, frame_seq - 1, &mut random),
                FrameTime::of(&stamp),
                1,
            );
        }
        engine.step(&picture.view(), &stamp, std::slice::from_mut(&mut view)).unwrap();

        assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
        let memory = view.sink.memory.frame();
        assert_eq!((&read.records, &read.planes), (&memory.records, &memory.planes));
        assert!(read.pixels == memory.pixels, "texels of frame {frame_seq}");

        let gaze = view.gaze().unwrap();
        let map = gaze.relevance.as_ref().map(|relevance| &relevance.map);
        // A new plan for a new gaze, which keeps what it can of the one before while a map leads.
        if planned.as_ref().is_none_or(|(planned, _)| planned != gaze) {
            let is_led_alike =
                |(before, _): &&(Gaze, TokenPlan)| led(gaze).is_some() && led(before) == led(gaze);
            let before = planned.as_ref().filter(is_led_alike).map(|(_, plan)| plan);
            let plan = spec.plan(gaze, engine.shape(), before);
            planned = Some((gaze.clone(), plan));
        }
        let tokens: Vec<_> = read.records.iter().map(TokenRecord::token).collect();
        let (_, plan) = planned.as_ref().unwrap();
        assert_eq!(tokens, plan.tokens, "frame {frame_seq}");
        let items = read.plane(plane).chunks_exact(4);
        let published: Vec<_> =
            items.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
        assert_eq!(published.len(), read.records.len());
        for (record, published) in read.records.iter().zip(published) {
            assert_eq!(record.relevance, published, "frame {frame_seq}");
            let expected = weight(gaze, extent, record);
            assert!((f64::from(published) / expected - 1.0).abs() < 1e-6, "{published} {expected}");
        }
        match map {
            None => even += 1,
            Some(map) if maps.last() != Some(map) => maps.push(map.clone()),
            Some(_) => {}
        }
    }
    assert!(0 < even && 5 < maps.len(), "{even} frames without a map, {} maps", maps.len());
}

/// In every slot of the ring, also where few frames change anything.
#[test]
fn tiles_are_those_of_the_change_tracker_in_ring_and_memory() {
    let extent = Extent::new(203, 149);
    let mut random = Random(19);
    let color = transforms(PixelFormat::Nv12)[0];
    let mut picture = OwnedFrame::random(PixelFormat::Nv12, extent, color, &mut random);
    let mut engine = engine(&picture, 1);
    let layout = Layout::Adaptive { memory: ConsumerMemory::Canvas };
    let spec = ViewSpec { layout, ..spec(60) };
    let segment = segment_of(&spec, "camera", "main", picture.kind(), &on_cpu());
    let sink = BothSinks { ring: Writer::create(&segment).unwrap(), memory: Memory::default() };
    let mut reader = Reader::from_fd(sink.ring.reader_fd().unwrap()).unwrap();
    let plane = reader.header().plane_index(TILES).unwrap();
    assert_eq!(reader.header().planes[plane].shape, [5, 7, 8]);
    let mut hidden_since = 0;
    let mut view = engine.view_builder().build(spec, sink).unwrap();
    let mut read = TokenFrameBuf::default();
    for frame_seq in 1..=FRAMES {
        if random.below(3) == 0 {
            move_on(&mut picture, random.below(6), frame_seq, &mut random);
        }
        if random.below(20) == 0 {
            engine.apply_mask(&TileSet::none(extent), frame_seq, std::slice::from_mut(&mut view));
            hidden_since = frame_seq;
        }
        let stamp = FrameStamp::numbered(frame_seq);
        engine.step(&picture.view(), &stamp, std::slice::from_mut(&mut view)).unwrap();

        assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
        assert_eq!(read.planes, view.sink.memory.frame().planes);
        let frames = read.plane(plane).chunks_exact(8);
        let frames: Vec<_> =
            frames.map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect();
        let changed = engine.tracker().changed_frames().iter();
        let expected: Vec<_> = changed.map(|frame| hidden_since.max(*frame)).collect();
        assert_eq!(frames, expected, "frame {frame_seq}");
    }
}

/// What the scorer read is published with every frame, and changes with each decision.
#[test]
fn channels_are_those_of_the_newest_decision_in_ring_and_memory() {
    for (dtype, cell_bytes) in [(DType::F16, 2), (DType::F32, 4)] {
        let extent = Extent::new(203, 149);
        let grid = Extent::new(7, 5);
        let mut random = Random(11);
        let color = transforms(PixelFormat::Nv12)[0];
        let mut picture = OwnedFrame::random(PixelFormat::Nv12, extent, color, &mut random);
        let mut engine = engine(&picture, 1);
        let names = ["x", "query", "mean", "relevance"].map(str::to_owned).to_vec();
        let policy = Policy::Relevance { scorer: None, weights: BTreeMap::new(), passes: 1 };
        let format = TokenFormat::new(16, dtype, Normalisation::NONE);
        let spec = ViewSpec { policy, format, channels: names, ..spec(60) };
        let segment = segment_of(&spec, "camera", "main", picture.kind(), &on_cpu());
        let sink = BothSinks { ring: Writer::create(&segment).unwrap(), memory: Memory::default() };
        let mut reader = Reader::from_fd(sink.ring.reader_fd().unwrap()).unwrap();
        let plane = reader.header().plane_index(CHANNELS).unwrap();
        let mut view = engine.view_builder().build(spec, sink).unwrap();
        let mut read = TokenFrameBuf::default();
        let mut decided: Vec<(u64, Vec<f32>)> = Vec::new();
        for frame_seq in 1..=40 {
            let capture_ns = frame_seq * 50_000_000;
            let stamp = FrameStamp { capture_ns, ..FrameStamp::numbered(frame_seq) };
            move_on(&mut picture, random.below(6), frame_seq, &mut random);
            if frame_seq == 10 {
                let map = (Extent::new(1, 1), Region::of(extent));
                let given = Injection::new("query", map, extent, vec![0.75], 9, 1000).unwrap();
                let feedback = Feedback::Inject(Arc::new(given));
                view.take_feedback(&feedback, FrameTime::of(&stamp), 1);
            }
            engine.step(&picture.view(), &stamp, std::slice::from_mut(&mut view)).unwrap();

            assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
            let memory = view.sink.memory.frame();
            assert_eq!(read.planes, memory.planes);
            assert_eq!(read.head.channels_frame, memory.head.channels_frame);
            let number = |bytes: &[u8]| match bytes {
                [low, high] => half::f16::from_le_bytes([*low, *high]).to_f32(),
                bytes => f32::from_le_bytes(bytes.try_into().unwrap()),
            };
            let cells: Vec<_> = read.plane(plane).chunks_exact(cell_bytes).map(number).collect();
            assert_eq!(cells.len(), 4 * grid.area());
            let frame = read.head.channels_frame;
            assert!(frame < frame_seq);
            match decided.last() {
                Some((last, kept)) if *last == frame => assert_eq!(*kept, cells),
                _ => decided.push((frame, cells)),
            }
        }
        assert_eq!(decided[0], (0, vec![0.0; 4 * grid.area()]));
        // A quarter of a second is five frames; before the first one nothing had been seen.
        assert_eq!(decided.len(), 8 + 1);
        for (at, cells) in &decided[1..] {
            let [x, query, mean, relevance] =
                std::array::from_fn(|index| &cells[index * grid.area()..][..grid.area()]);
            for (cell, x) in x.iter().enumerate() {
                let middle = ((cell % 7) as f32 * 32.0 + 16.0) / 203.0;
                assert!((x - middle.min(1.0)).abs() < 1e-3, "cell {cell} of frame {at}");
            }
            // Of the frames in the second after frame 9.
            let expected = if (9..29).contains(at) { 0.75 } else { 0.0 };
            assert!(query.iter().all(|cell| *cell == expected), "frame {at}: {query:?}");
            assert!(mean.iter().all(|cell| 0.0 < *cell));
            // The score before: there is none at the first decision.
            assert_eq!(relevance.iter().all(|cell| *cell == 0.0), *at == decided[1].0);
        }
    }
}

laws! {
    the_first_decision_reads_the_tiles_of_the_first_frame
}

/// And what stays since then has the age of the first frame.
fn the_first_decision_reads_the_tiles_of_the_first_frame(make: Make<'_>) {
    let extent = Extent::new(203, 149);
    let mut random = Random(13);
    let color = transforms(PixelFormat::Nv12)[0];
    let picture = OwnedFrame::random(PixelFormat::Nv12, extent, color, &mut random);
    let of_tiles = [
        "r",
        "g",
        "b",
        "dx",
        "dy",
        "edges",
        "variance",
        "mean",
        "entropy",
        "coherence",
        "low_pass",
    ];
    let policy = Policy::Relevance { scorer: None, weights: BTreeMap::new(), passes: 1 };
    let names = of_tiles.into_iter().chain(["age"]).map(str::to_owned).collect();
    let parameters = GazeParameters { saccade_hz: 100.0, ..GazeParameters::default() };
    let format = TokenFormat::new(16, DType::F32, Normalisation::NONE);
    let spec = ViewSpec { policy, parameters, format, channels: names, ..spec(60) };
    let mut engine = Engine::new(make(picture.kind()).backend, ChangeConfig::default(), 1);
    let mut view = engine.view(spec, Memory::default()).unwrap();
    for frame_seq in 1..=4 {
        let capture_ns = frame_seq * 50_000_000;
        let stamp = FrameStamp { capture_ns, ..FrameStamp::numbered(frame_seq) };
        engine.step(&picture.view(), &stamp, std::slice::from_mut(&mut view)).unwrap();
        let shown = view.sink.frame();
        if frame_seq == 1 {
            continue;
        }
        assert_eq!(shown.head.channels_frame, frame_seq - 1);
        let cells: Vec<f32> = bytemuck::pod_collect_to_vec(shown.planes.last().unwrap());
        let channels: Vec<_> = cells.chunks_exact(7 * 5).collect();
        for (name, cells) in of_tiles.into_iter().zip(&channels) {
            assert!(cells.iter().all(|cell| 0.0 < *cell), "{name} after frame {frame_seq}");
        }
        // From the first frame to the one that the decision was made by.
        let seconds = (frame_seq - 2) as f32 * 0.05;
        let age = seconds / (seconds + 1.0);
        assert!(channels[11].iter().all(|cell| (cell - age).abs() < 1e-6), "{frame_seq}");
    }
}

/// Versions tell the items of one engine from those of the next.
#[test]
fn memory_holds_nothing_of_an_engine_before() {
    let color = transforms(PixelFormat::Gray8)[0];
    let uniform = |extent, value| OwnedFrame::uniform(PixelFormat::Gray8, extent, color, value);
    let pictures = [uniform(Extent::new(64, 48), 10), uniform(Extent::new(48, 64), 200)];
    let mut views = vec![];
    for (generation, picture) in (1..).zip(&pictures) {
        let mut engine = engine(picture, generation);
        match views.first_mut() {
            None => views.push(engine.view_builder().build(spec(12), Memory::default()).unwrap()),
            Some(view) => {
                engine
                    .view_builder()
                    .rebuild(view, FrameTime::of(&FrameStamp::numbered(generation)))
                    .unwrap();
            }
        }
        engine.step(&picture.view(), &FrameStamp::numbered(generation), &mut views).unwrap();
        let view: &View<Memory> = &views[0];
        let (held, planes) = (view.sink.frame(), view.planes());
        assert_eq!(held.records, planes.records());
        assert!(held.pixels == planes.pixels(), "texels of frame {generation}");
        assert_eq!(held.plane(1), bytemuck::cast_slice::<f32, u8>(planes.relevance()));
    }
}

#[test]
fn a_view_of_another_engine_is_refused() {
    let color = transforms(PixelFormat::Gray8)[0];
    let picture = OwnedFrame::uniform(PixelFormat::Gray8, Extent::new(64, 48), color, 10);
    let mut views = [engine(&picture, 1).view(spec(12), Memory::default()).unwrap()];
    let mut other = engine(&picture, 2);
    let step = || other.step(&picture.view(), &FrameStamp::numbered(1), &mut views);
    let refusal = catch_unwind(AssertUnwindSafe(step)).unwrap_err();
    assert!(refusal.downcast_ref::<String>().unwrap().contains("built for this engine"));
    assert!(views[0].sink.frame().records.is_empty());
}

/// Two sinks that get the same frames.
struct BothSinks {
    ring: Writer,
    memory: Memory,
}

impl Sink for BothSinks {
    fn begin(&mut self) -> Option<Items> {
        Sink::begin(&mut self.ring)
    }

    fn publish(&mut self, frame: &SampledFrame<'_>) {
        Sink::publish(&mut self.ring, frame);
        self.memory.publish(frame);
    }
}

/// By what kind of map the fixation was chosen, if it was by one of which a plan keeps something.
fn led(gaze: &Gaze) -> Option<FixationReason> {
    gaze.leading_reason()
}

fn engine(picture: &OwnedFrame, generation: u64) -> Engine {
    let backend = CpuBackend::new(picture.kind(), pool());
    Engine::new(Box::new(backend), ChangeConfig::default(), generation)
}

fn spec(budget: usize) -> ViewSpec {
    ViewSpec {
        layout: Layout::Foveal { e0_px: Some(20.0), foveae: 1, coarsest: None },
        budget,
        format: TokenFormat::new(16, DType::U8, Normalisation::NONE),
        policy: Policy::Feedback,
        parameters: GazeParameters { dwell_min_ms: 0, ..GazeParameters::default() },
        ..ViewSpec::default()
    }
}

pub(super) fn on_cpu() -> BackendInfo {
    BackendInfo {
        kind: BackendKind::Cpu,
        device: "a processor".to_owned(),
        reason: String::new(),
        change_on: ChangeSite::Cpu,
    }
}

/// Attention to a few cells of a grid over the image.
fn attention(image: Extent, frame_seq: u64, random: &mut Random) -> Feedback {
    let grid = Extent::new(1 + random.below(7), 1 + random.below(7));
    let mut weights: Vec<_> = (0..grid.area()).map(|_| f32::from(random.byte() / 64)).collect();
    weights[random.below(grid.width) as usize] = 5.0;
    let map = AttentionMap::new(grid, Region::of(image), image, weights).unwrap();
    Feedback::Attend { map: Arc::new(map), frame_seq, lies_in: None }
}

/// The greatest weight of the cells under a token, 1 without a map.
fn weight(gaze: &Gaze, image: Extent, record: &TokenRecord) -> f64 {
    let Some(relevance) = &gaze.relevance else { return 1.0 };
    let (grid, codes) = (relevance.map.grid(), relevance.map.codes());
    let touches = |cell: u32, cells: u32, side: u32, start: u32, end: u32| {
        cell * side < end * cells && start * cells < (cell + 1) * side
    };
    let cells = (0..grid.height).flat_map(|row| (0..grid.width).map(move |column| (column, row)));
    cells
        .zip(codes)
        .filter(|((column, row), _)| {
            touches(*column, grid.width, image.width, record.x0, record.x1)
                && touches(*row, grid.height, image.height, record.y0, record.y1)
        })
        .map(|(_, code)| ((f64::from(code) - 128.0) / 32.0).exp2())
        .fold(0.0, f64::max)
}
