//! A canvas holds at each place the finest texels since the place last changed, whatever its reader misses.

use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::frame::{FrameStamp, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::tile::{TILE_SIDE, TileSet};
use foveate_core::plane::TILES;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_engine::segment::segment_of;
use foveate_engine::{Engine, Memory, View};
use foveate_gaze::controller::Policy;
use foveate_gaze::layout::Layout;
use foveate_gaze::layout::adaptive::demand::ConsumerMemory;
use foveate_gaze::view::ViewSpec;
use foveate_ring::canvas::{Canvas, CanvasError, CanvasUpdate};
use foveate_ring::{SegmentInfo, TokenFrameBuf};
use testkit::backends::on_cpu;
use testkit::history::move_on;
use testkit::naive::{self, OwnedFrame, Random, transforms};

use crate::view_planes;

/// Source, side of a patch, budget: places of 8, 2, 16 and 32 pixels, and texels of more than a tile.
const VIEWS: [(Extent, u32, usize); 5] = [
    (Extent::new(203, 149), 8, 60),
    (Extent::new(97, 70), 14, 20),
    (Extent::new(320, 200), 16, 75),
    (Extent::new(190, 150), 64, 8),
    (Extent::new(1100, 700), 8, 12),
];

const FRAMES: u64 = 16;

/// A stream and its view.
struct Camera {
    engine: Engine,
    views: [View<Memory>; 1],
    segment: SegmentInfo,
    frame: OwnedFrame,
    frame_seq: u64,
}

impl Camera {
    fn new(extent: Extent, side: u32, budget: usize, threshold: u8, random: &mut Random) -> Self {
        let format = PixelFormat::Rgb;
        let frame = OwnedFrame::random(format, extent, transforms(format)[0], random);
        let config =
            ChangeConfig { threshold: Threshold::Fixed(threshold), ..ChangeConfig::default() };
        let engine = Engine::new(on_cpu(frame.kind()).backend, config, 1);
        let spec = ViewSpec {
            layout: Layout::Adaptive { memory: ConsumerMemory::Canvas },
            budget,
            format: TokenFormat::new(side, DType::U8, Normalisation::NONE),
            policy: Policy::Fixed { x: 0.5, y: 0.5 },
            ..ViewSpec::default()
        };
        let segment = segment_of(&spec, "camera", "main", frame.kind(), &view_planes::on_cpu());
        let segment = SegmentInfo::of(&segment).unwrap();
        let views = [engine.view(spec, Memory::default()).unwrap()];
        Self { engine, views, segment, frame, frame_seq: 0 }
    }

    fn step(&mut self) -> &TokenFrameBuf {
        self.frame_seq += 1;
        let stamp = FrameStamp {
            capture_ns: self.frame_seq * 33_000_000,
            ..FrameStamp::numbered(self.frame_seq)
        };
        self.engine.step(&self.frame.view(), &stamp, &mut self.views).unwrap();
        self.views[0].sink.frame()
    }

    fn changed_frame(&self, x: u32, y: u32, side: u32) -> u64 {
        let grid = self.frame.extent.in_cells(TILE_SIDE);
        let tiles = |start: u32, count: u32| {
            start / TILE_SIDE..count.min((start + side).div_ceil(TILE_SIDE))
        };
        let tile = |column: u32, row: u32| (row * grid.width + column) as usize;
        let changed = self.engine.tracker().changed_frames();
        tiles(y, grid.height)
            .flat_map(|row| tiles(x, grid.width).map(move |column| tile(column, row)))
            .map(|tile| changed[tile])
            .max()
            .unwrap()
    }
}

/// The definition, pixel by pixel: step of its texel, and the frame that drew it.
struct Naive(Vec<(u32, u64)>);

impl Naive {
    fn update(&mut self, camera: &Camera) {
        let Extent { width, height } = camera.frame.extent;
        let frame = camera.views[0].sink.frame();
        for record in &frame.records {
            let step = u32::from(record.sx);
            for y in record.y0..record.y1 {
                for x in record.x0..record.x1 {
                    assert!(x < width && y < height);
                    let (had, drawn) = &mut self.0[(y * width + x) as usize];
                    let is_gone = *had == 0
                        || *drawn < camera.changed_frame(x / *had * *had, y / *had * *had, *had);
                    if is_gone || step <= *had {
                        (*had, *drawn) = (step, camera.frame_seq);
                    }
                }
            }
        }
    }
}

/// Each pixel shows the texel of its step of the newest picture that was seen, exactly.
#[test]
fn a_canvas_shows_the_newest_picture_at_the_finest_steps() {
    let mut random = Random(41);
    for (extent, side, budget) in VIEWS {
        let mut camera = Camera::new(extent, side, budget, 0, &mut random);
        let mut canvas = Canvas::default();
        let mut naive = Naive(vec![(0, 0); extent.area()]);
        let mut steps = 0;
        let mut seen = 0;
        for number in 1..=FRAMES {
            if 1 < number && random.below(3) != 0 {
                move_on(&mut camera.frame, 4 + random.below(2), number, &mut random);
            }
            camera.step();
            if 1 < number && random.below(4) == 0 {
                continue;
            }
            let frame = camera.views[0].sink.frame();
            let update = canvas.update(&camera.segment, frame).unwrap();
            assert_eq!(update.is_new, number == 1);
            assert_eq!(canvas.wants_refresh(), seen + 1 < number, "{extent}, frame {number}");
            seen += u64::from(seen + 1 == number);
            naive.update(&camera);
            let pyramid = naive::pyramid(&naive::picture(&camera.frame));
            let (grid, place) = (canvas.grid(), canvas.side());
            let rgb = canvas.rgb();
            for y in 0..extent.height {
                for x in 0..extent.width {
                    let index = (y / place * grid.width + x / place) as usize;
                    let step = u32::from(canvas.steps()[index]);
                    let pixel = (y * extent.width + x) as usize;
                    assert_eq!(step, naive.0[pixel].0, "{extent}, frame {number}, ({x}, {y})");
                    let level = &pyramid[step.trailing_zeros() as usize];
                    let expected =
                        level.texels[(y / step * level.extent.width + x / step) as usize];
                    assert_eq!(rgb[pixel], expected, "{extent}, frame {number}, ({x}, {y})");
                    let [left, top] = [x, y].map(|edge| edge / step * step);
                    let changed = camera.changed_frame(left, top, step);
                    assert_eq!(canvas.frames()[index], changed, "{extent}, frame {number}");
                    steps |= step;
                }
            }
        }
        assert!(1 < steps.count_ones(), "{extent}: places of one step");
    }
}

/// Whoever joins late or misses frames has, a while after a refresh, what one has who saw all of them; until then its steps say what it
/// lacks.
#[test]
fn a_refresh_gives_late_readers_what_the_others_have() {
    let mut random = Random(42);
    for (extent, side, budget) in &VIEWS[..3] {
        let mut camera = Camera::new(*extent, *side, *budget, 0, &mut random);
        let (mut first, mut late) = (Canvas::default(), Canvas::default());
        let is_whole = |canvas: &Canvas| canvas.steps().iter().all(|step| *step == 1);
        // After most of the picture was delivered.
        let join = 12 + u64::from(random.below(5));
        for number in 1..=20 {
            if random.below(4) == 0 {
                move_on(&mut camera.frame, 4, number, &mut random);
            }
            let frame = camera.step().clone();
            first.update(&camera.segment, &frame).unwrap();
            if join <= number && random.below(3) != 0 {
                late.update(&camera.segment, &frame).unwrap();
            }
        }
        assert!(late.wants_refresh() && !first.wants_refresh());
        // Noise gains everywhere, so still pictures become whole, but not of what is taken for delivered.
        let go_on = |camera: &mut Camera, first: &mut Canvas, late: &mut Canvas| {
            for _ in 0..60 {
                let frame = camera.step().clone();
                first.update(&camera.segment, &frame).unwrap();
                late.update(&camera.segment, &frame).unwrap();
            }
        };
        go_on(&mut camera, &mut first, &mut late);
        assert!(is_whole(&first) && !is_whole(&late), "{extent}");
        let lacking = |(late, first): (&u16, &u16)| first < late;
        assert!(late.steps().iter().zip(first.steps()).any(lacking));

        camera.views[0].forget_plan();
        late.refreshed();
        go_on(&mut camera, &mut first, &mut late);
        assert!(!late.wants_refresh());
        assert_eq!(late.pixels(), first.pixels());
        assert_eq!((late.steps(), late.frames()), (first.steps(), first.frames()));
        assert_eq!(late.rgb(), naive::picture(&camera.frame).texels);
    }
}

/// Nothing of what masks cover now is left, though tokens within the threshold had shown other values.
#[test]
fn what_masks_cover_is_black_with_their_first_frame() {
    let mut random = Random(43);
    for threshold in [0, 9] {
        let extent = Extent::new(256, 160);
        let mut camera = Camera::new(extent, 16, 60, threshold, &mut random);
        camera.frame.adjust(64, 32, 64, |_| 4);
        let mut canvas = Canvas::default();
        for number in 1..=20 {
            if number == 10 {
                // The resident samples become black, and the tokens stay as they are.
                camera.frame.adjust(64, 32, 64, |_| 0);
                camera.frame.adjust(65, 33, 1, |_| 255);
            }
            if number == 15 {
                camera.frame.adjust(65, 33, 1, |_| 0);
            }
            let frame = camera.step().clone();
            canvas.update(&camera.segment, &frame).unwrap();
        }
        let frame_seq = camera.frame_seq + 1;
        camera.engine.apply_mask(&TileSet::none(extent), frame_seq, &mut camera.views);
        let frame = camera.step().clone();
        canvas.update(&camera.segment, &frame).unwrap();
        let rgb = canvas.rgb();
        for y in 32..96 {
            let row = &rgb[(y * extent.width) as usize..][64..128];
            assert!(row.iter().all(|pixel| *pixel == [0; 3]), "threshold {threshold}, row {y}");
        }
    }
}

#[test]
fn a_canvas_begins_anew_with_another_segment() {
    let mut random = Random(44);
    let (mut one, mut other) = (
        Camera::new(Extent::new(203, 149), 8, 60, 0, &mut random),
        Camera::new(Extent::new(97, 70), 14, 20, 0, &mut random),
    );
    (one.segment.epoch, other.segment.epoch) = (1, 2);
    let mut canvas = Canvas::default();
    let frame = one.step().clone();
    canvas.update(&one.segment, &frame).unwrap();
    let again = canvas.update(&one.segment, &frame).unwrap_err();
    assert_eq!(again, CanvasError::NotNewer { ring_sequence: 1, newest: 1 });
    let frame = other.step().clone();
    let update = canvas.update(&other.segment, &frame).unwrap();
    assert_eq!(update, CanvasUpdate { is_new: true, drawn: canvas.grid().area() });
    let mut fresh = Canvas::default();
    fresh.update(&other.segment, &frame).unwrap();
    assert_eq!((canvas.pixels(), canvas.steps()), (fresh.pixels(), fresh.steps()));

    let next = other.step().clone();
    let update = canvas.update(&other.segment, &next).unwrap();
    assert!(!update.is_new);
    other.segment.spec.planes.retain(|plane| plane.name != TILES);
    let refused = canvas.update(&other.segment, &frame).unwrap_err();
    assert!(refused.to_string().contains("memory = \"canvas\""), "{refused}");
}
