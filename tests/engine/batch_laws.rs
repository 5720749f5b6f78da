//! A batch gives the tokens that the naive definition gives, picture by picture, wherever its pyramids are.

use foveate_core::frame::{FrameKind, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, FixationReason, Gaze};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_engine::backend::choice::StreamBackend;
use foveate_gaze::layout::Layout;
use foveate_gaze::layout::inset::Inset;
use foveate_gaze::view::ViewSpec;
use testkit::backends::pool;
use testkit::naive::{self, OwnedFrame, Random};

/// Fewer layers than pictures, so that a batch takes more than one turn.
const LAYERS: usize = 3;
const PICTURES: usize = 7;

#[test]
fn on_the_cpu_every_picture_has_its_own_exact_tokens() {
    every_picture_has_its_own_exact_tokens(&mut StreamBackend::cpu(String::new(), pool()));
}

#[cfg(feature = "vulkan")]
#[test]
fn on_a_device_every_picture_has_its_own_exact_tokens() {
    use foveate_core::backend::BackendChoice;
    use foveate_engine::backend::choice::Backends;

    testkit::device::with_gpu(|gpu| {
        let gpu = gpu.clone();
        let backends = Backends::opening_with(pool().clone(), move |_| Ok(gpu.clone()));
        let mut chosen = backends.choose(BackendChoice::Vulkan, Some("")).unwrap();
        every_picture_has_its_own_exact_tokens(&mut chosen);
    });
}

fn every_picture_has_its_own_exact_tokens(chosen: &mut StreamBackend) {
    let mut random = Random(31);
    let foveal = Layout::Foveal { e0_px: None, foveae: 1, coarsest: None };
    let layouts = [
        foveal,
        Layout::Uniform,
        Layout::Directional { e0_px: None },
        Layout::Inset(Inset::default()),
    ];
    for (index, format) in PixelFormat::ALL.into_iter().enumerate() {
        let extent = Extent::new(61 + random.below(300), 31 + random.below(300));
        let color = naive::transforms(format)[0];
        let spec = ViewSpec {
            layout: layouts[index % layouts.len()].clone(),
            budget: 40,
            format: TokenFormat::new(8, DType::F16, Normalisation::CLIP),
            ..ViewSpec::default()
        };
        let mut batch =
            chosen.batch(FrameKind { format, extent, color }, spec.clone(), LAYERS).unwrap();
        // More than once: what a picture leaves behind must not reach the next.
        for turn in 0..2 {
            let frames: Vec<_> = (0..PICTURES)
                .map(|_| OwnedFrame::random(format, extent, color, &mut random))
                .collect();
            let gazes: Vec<_> = frames.iter().map(|_| gaze(extent, &mut random)).collect();
            let pictures: Vec<_> =
                frames.iter().zip(&gazes).map(|(frame, gaze)| (frame.view(), gaze)).collect();
            let sampled = batch.sample(&pictures).unwrap();
            assert_eq!(sampled.len(), PICTURES);
            for (number, (tokens, (frame, gaze))) in
                sampled.iter().zip(frames.iter().zip(&gazes)).enumerate()
            {
                let plan = spec.plan(gaze, PyramidShape::new(extent), None);
                let expected = naive::tokens(&naive::picture(frame), &plan, spec.format);
                assert!(
                    tokens.pixels == expected,
                    "picture {number} of turn {turn}, {} of {extent}",
                    format.name()
                );
                let places: Vec<_> =
                    tokens.records.iter().map(|record| (record.x, record.y, record.sx)).collect();
                let planned: Vec<_> =
                    plan.tokens.iter().map(|token| (token.x, token.y, token.sx)).collect();
                assert_eq!(places, planned);
            }
        }
    }
}

fn gaze(extent: Extent, random: &mut Random) -> Gaze {
    let [x, y] = [extent.width, extent.height].map(|side| f64::from(random.below(side)));
    let reason = FixationReason::Policy;
    Gaze::at(Fixation::at((x, y), reason), None)
}
