//! Depth of tokens: what the planes say is what the pixels under each token say, in a ring and in memory, over any layout.

#![expect(
    clippy::cast_possible_truncation,
    reason = "depths of a few metres, as samples and as published"
)]

use foveate_core::camera::rays::Rays;
use foveate_core::camera::{Calibration, Camera, Edit, Flip};
use foveate_core::change::ChangeConfig;
use foveate_core::depth::{DepthDetail, DepthFormat, DepthScale, DepthStamp, DepthView};
use foveate_core::frame::{FrameStamp, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::region::PixelBox;
use foveate_core::plane::{BOXES, DEPTH, RELEVANCE};
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_engine::backend::cpu::CpuBackend;
use foveate_engine::depth::{DepthPicture, DepthPyramid};
use foveate_engine::segment::segment_of;
use foveate_engine::{Engine, Memory, View};
use foveate_gaze::controller::Policy;
use foveate_gaze::layout::Layout;
use foveate_gaze::layout::rings::Preset;
use foveate_gaze::view::ViewSpec;
use foveate_ring::{ReadOutcome, Reader, TokenFrameBuf, TokenRecord, Writer};
use testkit::backends::pool;
use testkit::naive::{OwnedFrame, Random, transforms};

/// Depth samples of any kind, with padding bytes behind each row.
struct OwnedDepth {
    format: DepthFormat,
    extent: Extent,
    bytes: Vec<u8>,
    stride: usize,
}

impl OwnedDepth {
    /// Samples that `sample` gives for column and row, in units.
    fn of(format: DepthFormat, extent: Extent, mut sample: impl FnMut(u32, u32) -> f64) -> Self {
        let row_bytes = extent.width as usize * format.sample_bytes();
        let stride = row_bytes + 6;
        let mut bytes = Vec::new();
        for y in 0..extent.height {
            for x in 0..extent.width {
                let sample = sample(x, y);
                match format {
                    DepthFormat::Gray16Le => bytes.extend((sample as u16).to_le_bytes()),
                    DepthFormat::Gray16Be => bytes.extend((sample as u16).to_be_bytes()),
                    DepthFormat::Float32Le => bytes.extend((sample as f32).to_le_bytes()),
                }
            }
            bytes.extend([0xa5; 6]);
        }
        Self { format, extent, bytes, stride }
    }

    /// A picture of noise around a few surfaces, with holes in places and of any size.
    fn random(format: DepthFormat, extent: Extent, random: &mut Random) -> Self {
        let holes: Vec<_> = (0..4)
            .map(|_| (random.below(extent.width), random.below(extent.height), random.below(40)))
            .collect();
        let metres =
            |unit: f64| if format == DepthFormat::Float32Le { unit / 1000.0 } else { unit };
        Self::of(format, extent, |x, y| {
            let is_hole = |(left, top, side): &(u32, u32, u32)| {
                (*left..left + side).contains(&x) && (*top..top + side).contains(&y)
            };
            match random.below(50) {
                _ if holes.iter().any(is_hole) => 0.0,
                0 => 0.0,
                1 if format == DepthFormat::Float32Le => {
                    [f64::NAN, f64::INFINITY, -1.0, 1e9][random.below(4) as usize]
                }
                noise => metres(f64::from(400 + 37 * (x / 16) + 11 * (y / 16) + noise)),
            }
        })
    }

    fn view(&self) -> DepthView<'_> {
        let plane = Plane { bytes: &self.bytes, stride: self.stride };
        DepthView::new(self.format, self.extent, plane).unwrap()
    }

    /// The steps of a pixel: 0 if it is unknown.
    fn steps(&self, scale: &DepthScale, x: u32, y: u32) -> u64 {
        let at = y as usize * self.stride + x as usize * self.format.sample_bytes();
        let pair = [self.bytes[at], self.bytes[at + 1]];
        let steps = match self.format {
            DepthFormat::Gray16Le => u64::from(u16::from_le_bytes(pair)),
            DepthFormat::Gray16Be => u64::from(u16::from_be_bytes(pair)),
            DepthFormat::Float32Le => {
                let bytes = self.bytes[at..at + 4].try_into().unwrap();
                let metres = f64::from(f32::from_le_bytes(bytes)) * scale.unit_m;
                if !(metres.is_finite() && 0.0 < metres && metres < 65536.0) {
                    return 0;
                }
                (metres * 65536.0).round() as u64
            }
        };
        let metres = steps as f64 * scale.step_m(self.format);
        if steps != 0 && scale.min_m <= metres && metres <= scale.max_m { steps } else { 0 }
    }

    /// The steps under a box of a source of `source` pixels, one by one.
    fn under(&self, scale: &DepthScale, pixels: PixelBox, source: Extent) -> Vec<u64> {
        let touched = |at: u32, from: u32, start: u32, end: u32, to: u32| {
            // Depth pixel `at` of `from` covers [at / from, (at + 1) / from) of the picture.
            u64::from(at + 1) * u64::from(to) > u64::from(start) * u64::from(from)
                && u64::from(at) * u64::from(to) < u64::from(end) * u64::from(from)
        };
        let mut found = Vec::new();
        if pixels.is_empty() {
            return found;
        }
        for y in 0..self.extent.height {
            if !touched(y, self.extent.height, pixels.y0, pixels.y1, source.height) {
                continue;
            }
            for x in 0..self.extent.width {
                if touched(x, self.extent.width, pixels.x0, pixels.x1, source.width) {
                    found.push(self.steps(scale, x, y));
                }
            }
        }
        found
    }

    /// Nearest, mean and share of the steps under a box.
    fn numbers(&self, scale: &DepthScale, pixels: PixelBox, source: Extent) -> [f64; 3] {
        let steps = self.under(scale, pixels, source);
        let known: Vec<u64> = steps.iter().copied().filter(|step| *step != 0).collect();
        if known.is_empty() {
            return [f64::NAN, f64::NAN, 0.0];
        }
        let step_m = scale.step_m(self.format);
        let sum: u64 = known.iter().sum();
        [
            *known.iter().min().unwrap() as f64 * step_m,
            sum as f64 / known.len() as f64 * step_m,
            known.len() as f64 / steps.len() as f64,
        ]
    }

    fn picture(&self, scale: DepthScale, frame_seq: u64) -> DepthPicture<'_> {
        let stamp = DepthStamp { capture_ns: 1000 + frame_seq, frame_seq };
        DepthPicture { view: self.view(), scale, stamp }
    }
}

const ANY: DepthScale = DepthScale { unit_m: 0.001, min_m: 0.0, max_m: f64::INFINITY };

#[test]
fn a_depth_box_equals_its_pixels_one_by_one() {
    let mut random = Random(3);
    let metres = DepthScale { unit_m: 1.0, ..ANY };
    let believed = DepthScale { min_m: 0.5, max_m: 1.25, ..ANY };
    for (format, scale) in [
        (DepthFormat::Gray16Le, ANY),
        (DepthFormat::Gray16Be, believed),
        (DepthFormat::Float32Le, metres),
        (DepthFormat::Float32Le, DepthScale { min_m: 0.5, max_m: 1.25, ..metres }),
    ] {
        for _ in 0..6 {
            let extent = Extent::new(1 + random.below(200), 1 + random.below(150));
            let source = Extent::new(1 + random.below(300), 1 + random.below(300));
            let depth = OwnedDepth::random(format, extent, &mut random);
            let pyramid = DepthPyramid::of(&depth.view(), &scale);
            for _ in 0..60 {
                let side = |random: &mut Random, length: u32| {
                    let start = random.below(length);
                    start..start + 1 + random.below(length - start)
                };
                let pixels =
                    PixelBox::of(side(&mut random, source.width), side(&mut random, source.height));
                let measure = pyramid.measure(pyramid.under(pixels, source));
                let steps = depth.under(&scale, pixels, source);
                let known: Vec<u64> = steps.into_iter().filter(|step| *step != 0).collect();
                assert_eq!(measure.count as usize, known.len(), "{pixels:?} of {source}");
                assert_eq!(measure.sum, known.iter().sum::<u64>(), "{pixels:?} of {source}");
                if let (Some(nearest), Some(farthest)) = (known.iter().min(), known.iter().max()) {
                    let found = [measure.nearest, measure.farthest].map(u64::from);
                    assert_eq!(found, [*nearest, *farthest], "{pixels:?} of {source}");
                }
            }
        }
    }
}

/// Of every layout; over pictures of other sizes than the source; of tokens that hang over its edges or lie outside.
#[test]
fn token_depth_is_that_of_its_pixels() {
    let source = Extent::new(203, 149);
    let mut random = Random(5);
    let preset = Preset::named("stt172").unwrap();
    let layouts = [
        (Layout::Foveal { e0_px: Some(20.0), foveae: 1, coarsest: None }, 60, 16),
        (Layout::Uniform, 60, 14),
        (Layout::Rings(preset.rings()), 172, preset.patch_side),
    ];
    for (layout, budget, side) in layouts {
        for (detail, dtype, extent) in [
            (DepthDetail::Tokens, DType::U8, source),
            (DepthDetail::Tokens, DType::F16, Extent::new(101, 80)),
            (DepthDetail::Texels, DType::F32, Extent::new(320, 240)),
            (DepthDetail::Texels, DType::F16, source),
        ] {
            let spec = ViewSpec {
                layout: layout.clone(),
                budget,
                format: TokenFormat::new(side, dtype, Normalisation::NONE),
                depth: detail,
                ..ViewSpec::default()
            };
            let mut scene = Scene::new(source, spec, None);
            let mut depth = OwnedDepth::random(DepthFormat::Gray16Le, extent, &mut random);
            let depth_plane = scene.plane(DEPTH);
            for frame_seq in 1..=6 {
                // The picture stays, and so do texels and their versions; its depth does not.
                if frame_seq == 4 {
                    depth = OwnedDepth::random(DepthFormat::Gray16Le, extent, &mut random);
                }
                let picture = depth.picture(ANY, frame_seq / 4 + 1);
                let frame = scene.step(frame_seq, (frame_seq != 6).then_some(&picture));
                let plane = frame.plane(depth_plane);
                let is_known = frame_seq != 6;
                let expected = |pixels| match is_known {
                    true => depth.numbers(&ANY, pixels, source),
                    false => [f64::NAN, f64::NAN, 0.0],
                };
                assert_eq!(
                    frame.head.depth,
                    if is_known { picture.stamp } else { DepthStamp::default() }
                );
                assert!(!frame.records.is_empty());
                match detail {
                    DepthDetail::Tokens => tokens_are(frame, plane, expected),
                    _ => texels_are(frame, plane, dtype, source, expected),
                }
            }
        }
    }
}

fn tokens_are(frame: &TokenFrameBuf, plane: &[u8], expected: impl Fn(PixelBox) -> [f64; 3]) {
    let items: Vec<[f32; 3]> = bytemuck::pod_collect_to_vec(plane);
    assert_eq!(items.len(), frame.records.len());
    for (item, record) in items.iter().zip(&frame.records) {
        let TokenRecord { x0, y0, x1, y1, .. } = *record;
        let expected = expected(PixelBox { x0, y0, x1, y1 }).map(|number| number as f32);
        assert_eq!(item.map(f32::to_bits), expected.map(f32::to_bits), "{record:?}");
    }
}

fn texels_are(
    frame: &TokenFrameBuf,
    plane: &[u8],
    dtype: DType,
    source: Extent,
    expected: impl Fn(PixelBox) -> [f64; 3],
) {
    let bits = |bytes: &[u8]| match dtype {
        DType::F32 => u32::from_le_bytes(bytes.try_into().unwrap()),
        _ => u16::from_le_bytes(bytes.try_into().unwrap()).into(),
    };
    let rounded = |number: f64| match dtype {
        DType::F32 => (number as f32).to_bits(),
        _ => half::f16::from_f64(number).to_bits().into(),
    };
    let number_bytes = dtype.bytes();
    let side = u32::from(frame.records[0].size);
    let texels = (side * side) as usize;
    assert_eq!(plane.len(), frame.records.len() * 3 * texels * number_bytes);
    for (item, record) in plane.chunks_exact(3 * texels * number_bytes).zip(&frame.records) {
        // A part of the texels suffices, and among them those of the edges.
        for (u, v) in [(0, 0), (side - 1, 0), (0, side - 1), (side - 1, side - 1), (3, 5)] {
            // Of texels that end inside pixels, all that they touch.
            let along = |start: i32, token_side: u32, index: u32, end: u32| {
                let inside = |at: f64| (f64::from(start) + at).clamp(0.0, end.into()) as u32;
                let at = |index: u32| f64::from(token_side) * f64::from(index) / f64::from(side);
                inside(at(index).floor())..inside(at(index + 1).ceil())
            };
            let token = record.token();
            let pixels = PixelBox::of(
                along(record.x, token.width(side), u, source.width),
                along(record.y, token.height(side), v, source.height),
            );
            let expected = expected(pixels).map(rounded);
            let found: [u32; 3] = std::array::from_fn(|channel| {
                let at = channel * texels + (v * side + u) as usize;
                bits(&item[at * number_bytes..][..number_bytes])
            });
            assert_eq!(found, expected, "texel {u}, {v} of {record:?}");
        }
    }
}

/// A wall, a crate and a ball before a camera, seen without and with distortion, cropped and turned: each token's box holds all
/// points of the scene that its pixels show, is as near as the nearest of them, and no larger than its pixels make it.
#[test]
#[expect(clippy::too_many_lines, reason = "a definition beside what it defines")]
fn boxes_hold_what_the_tokens_show_of_a_known_scene() {
    let cameras = [
        ("plumb_bob", vec![], Edit::default()),
        ("plumb_bob", vec![-0.28, 0.09, 0.001, -0.0005, -0.01], Edit::default()),
        (
            "rational_polynomial",
            vec![0.1, -0.05, 0.0, 0.001, 0.01, 0.12, -0.02, 0.0],
            Edit::default(),
        ),
        ("equidistant", vec![-0.02, 0.003, -0.001, 0.0002], Edit::default()),
        (
            "plumb_bob",
            vec![-0.2, 0.05, 0.0, 0.0, 0.0],
            Edit { crop: Some([10, 20, 300, 200]), flip: Flip::Horizontal, quarter_turns: 1 },
        ),
    ];
    for (name, coefficients, edit) in cameras {
        let calibration = Calibration {
            extent: Extent::new(320, 240),
            k: [260.0, 0.0, 158.5, 0.0, 255.0, 121.0, 0.0, 0.0, 1.0],
            distortion: name.to_owned(),
            coefficients,
        };
        let camera = Camera { calibration, optical_frame: "optical".to_owned(), mount: None, edit };
        let source =
            if edit.quarter_turns == 1 { Extent::new(200, 300) } else { Extent::new(320, 240) };
        let facts = camera.facts(source);
        let rays = Rays::of(&facts).unwrap();
        // What each pixel shows: the point in space on the ray through its middle.
        let point = |x: u32, y: u32| {
            let [slope_x, slope_y] =
                rays.at(f64::from(x) + 0.5, f64::from(y) + 0.5).expect("a ray of the lens");
            let z = scene_depth([slope_x, slope_y]);
            [slope_x * z, slope_y * z, z]
        };
        let depth = OwnedDepth::of(DepthFormat::Float32Le, source, |x, y| point(x, y)[2]);
        let spec = ViewSpec {
            layout: Layout::Foveal { e0_px: None, foveae: 1, coarsest: None },
            budget: 100,
            depth: DepthDetail::Tokens,
            boxes: true,
            ..ViewSpec::default()
        };
        let mut scene = Scene::new(source, spec, Some(rays.clone()));
        let scale = DepthScale { unit_m: 1.0, ..ANY };
        let [depth_plane, box_plane] = [DEPTH, BOXES].map(|name| scene.plane(name));
        let frame = scene.step(1, Some(&depth.picture(scale, 1)));
        let numbers: Vec<[f32; 3]> = bytemuck::pod_collect_to_vec(frame.plane(depth_plane));
        let boxes: Vec<[f32; 6]> = bytemuck::pod_collect_to_vec(frame.plane(box_plane));
        assert!(60 < frame.records.len());
        for ((record, found), [nearest, _, share]) in frame.records.iter().zip(&boxes).zip(&numbers)
        {
            assert_eq!(*share, 1.0);
            let found = found.map(f64::from);
            let mut tight = [f64::INFINITY, f64::INFINITY, f64::INFINITY, 0.0, 0.0, 0.0];
            tight[3..].fill(f64::NEG_INFINITY);
            for (x, y) in
                (record.y0..record.y1).flat_map(|y| (record.x0..record.x1).map(move |x| (x, y)))
            {
                let point = point(x, y);
                for axis in 0..3 {
                    // Half a step of depth, and what a coordinate changes by it.
                    let slack = 1.0 / 65536.0;
                    assert!(
                        found[axis] <= point[axis] + slack,
                        "{name}: {record:?} {found:?} {point:?}"
                    );
                    assert!(
                        point[axis] - slack <= found[axis + 3],
                        "{name}: {record:?} {found:?} {point:?}"
                    );
                    tight[axis] = tight[axis].min(point[axis]);
                    tight[axis + 3] = tight[axis + 3].max(point[axis]);
                }
            }
            assert!((found[2] - tight[2]).abs() < 2e-5 && (found[5] - tight[5]).abs() < 2e-5);
            assert!((f64::from(*nearest) - tight[2]).abs() < 2e-5);
            // Along x and y, no wider than the farthest depth makes the steepest ray, and half a pixel on each side.
            let width = |axis: usize| found[axis + 3] - found[axis];
            let rays = |x: u32, y: u32| rays.at(x.into(), y.into()).unwrap();
            let corners = [
                rays(record.x0, record.y0),
                rays(record.x1, record.y0),
                rays(record.x0, record.y1),
                rays(record.x1, record.y1),
            ];
            for axis in 0..2 {
                let slopes = corners.map(|corner| corner[axis]);
                let (least, most) =
                    slopes.iter().fold((f64::MAX, f64::MIN), |(least, most), slope| {
                        (least.min(*slope), most.max(*slope))
                    });
                let reach = least.abs().max(most.abs());
                let limit = (most - least) * found[5] + reach * (found[5] - found[2]);
                assert!(width(axis) <= limit * 1.1 + 1e-4, "{name}: {record:?} {found:?}");
            }
        }
    }
}

/// Depth along the axis of the first thing on a ray: a wall at 4 m, leaning; a crate; a ball.
fn scene_depth([x, y]: [f64; 2]) -> f64 {
    let wall = 4.0 / (1.0 + 0.2 * x);
    let crate_front = 1.5;
    let on_crate =
        (-0.6..-0.1).contains(&(x * crate_front)) && (0.0..0.5).contains(&(y * crate_front));
    let mut depth: f64 = wall;
    if on_crate {
        depth = depth.min(crate_front);
    }
    // |z (x, y, 1) - centre| = radius.
    let (centre, radius) = ([0.5, -0.2, 2.0], 0.4);
    let direction = [x, y, 1.0];
    let a: f64 = direction.iter().map(|part| part * part).sum();
    let b: f64 = direction.iter().zip(centre).map(|(part, at)| part * at).sum();
    let c: f64 = centre.iter().map(|at| at * at).sum::<f64>() - radius * radius;
    let root = b * b - a * c;
    if 0.0 <= root {
        depth = depth.min((b - root.sqrt()) / a);
    }
    depth
}

/// Where no ray or no depth is known, no box is guessed.
#[test]
fn boxes_are_unknown_where_rays_or_depth_are() {
    let source = Extent::new(64, 48);
    let spec = || ViewSpec { budget: 12, boxes: true, ..ViewSpec::default() };
    let depth = OwnedDepth::of(DepthFormat::Gray16Le, source, |_, _| 1000.0);
    let nothing = OwnedDepth::of(DepthFormat::Gray16Le, source, |_, _| 0.0);
    let camera = Camera {
        calibration: Calibration {
            extent: source,
            k: [60.0, 0.0, 31.5, 0.0, 60.0, 23.5, 0.0, 0.0, 1.0],
            distortion: "plumb_bob".to_owned(),
            coefficients: vec![],
        },
        optical_frame: String::new(),
        mount: None,
        edit: Edit::default(),
    };
    let rays = Rays::of(&camera.facts(source)).unwrap();
    for (rays, picture, is_known) in [
        (None, Some(depth.picture(ANY, 1)), false),
        (Some(rays.clone()), None, false),
        (Some(rays.clone()), Some(nothing.picture(ANY, 1)), false),
        (Some(rays), Some(depth.picture(ANY, 1)), true),
    ] {
        let mut scene = Scene::new(source, spec(), rays);
        let plane = scene.plane(BOXES);
        let frame = scene.step(1, picture.as_ref());
        let numbers: Vec<f32> = bytemuck::pod_collect_to_vec(frame.plane(plane));
        assert!(numbers.iter().all(|number| number.is_nan() != is_known));
        assert_eq!(numbers.len(), 6 * frame.records.len());
    }
}

/// A view over one still picture, published in a ring and in memory.
struct Scene {
    engine: Engine,
    picture: OwnedFrame,
    ring: View<Writer>,
    memory: View<Memory>,
    reader: Reader,
    read: TokenFrameBuf,
}

impl Scene {
    fn new(source: Extent, spec: ViewSpec, rays: Option<Rays>) -> Self {
        // The view that is stepped second must not look elsewhere.
        let spec = ViewSpec { policy: Policy::Fixed { x: 0.5, y: 0.5 }, ..spec };
        let color = transforms(PixelFormat::Gray8)[0];
        let picture = OwnedFrame::uniform(PixelFormat::Gray8, source, color, 90);
        let backend = CpuBackend::new(picture.kind(), pool());
        let engine = Engine::new(Box::new(backend), ChangeConfig::default(), 1).with_rays(rays);
        let segment =
            segment_of(&spec, "camera", "main", picture.kind(), &super::view_planes::on_cpu());
        let writer = Writer::create(&segment).unwrap();
        let reader = Reader::from_fd(writer.reader_fd().unwrap()).unwrap();
        let ring = engine.view(spec.clone(), writer).unwrap();
        let memory = engine.view(spec, Memory::default()).unwrap();
        Self { engine, picture, ring, memory, reader, read: TokenFrameBuf::default() }
    }

    /// Index of the plane of this name.
    fn plane(&self, name: &str) -> usize {
        self.reader.header().plane_index(name).unwrap()
    }

    fn step(&mut self, frame_seq: u64, depth: Option<&DepthPicture<'_>>) -> &TokenFrameBuf {
        self.engine.set_depth(depth);
        let stamp = FrameStamp::numbered(frame_seq);
        let frame = self.picture.view();
        self.engine.step(&frame, &stamp, std::slice::from_mut(&mut self.ring)).unwrap();
        self.engine.step(&frame, &stamp, std::slice::from_mut(&mut self.memory)).unwrap();
        let outcome = self.reader.read_newest(&mut self.read).unwrap();
        assert_eq!(outcome, ReadOutcome::Frame { missed: 0 });
        let memory = self.memory.sink.frame();
        assert_eq!(self.read.planes, memory.planes);
        assert_eq!(self.read.head.depth, memory.head.depth);
        let relevance = self.reader.header().plane_index(RELEVANCE).unwrap();
        assert_eq!(self.read.plane(relevance).len(), 4 * self.read.records.len());
        &self.read
    }
}
