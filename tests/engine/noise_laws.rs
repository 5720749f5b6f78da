//! Of pictures whose noise is known the estimate is right, whatever moves, cuts or flickers in them; the threshold made
//! from it keeps still tiles clean, follows the light, and never exceeds its limit.

#![allow(clippy::cast_possible_truncation, reason = "of numbers below a bound")]

use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::{FrameKind, FrameView, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;
use foveate_engine::change::light::{self, LightSwing};
use foveate_engine::change::noise::{LAG, NOISE_OF_VARIANCE, NoiseEstimator, WINDOW};
use foveate_engine::change::threshold::{ThresholdSource, threshold_for};
use testkit::follow::Follower;
use testkit::naive::{self, Random};

const EXTENT: Extent = Extent::new(320, 200);

/// After so many frames an estimate has forgotten what was before.
const SETTLED: usize = LAG + WINDOW;

/// The estimate of the noise `sigma` lies in this range. Rounding hides some noise of less than half a step, how much
/// depends on the means, and the estimator takes the worst case: so it may say more, by 0.2 steps at most.
fn assert_estimates(source: &NoiseEstimator, sigma: f64, what: &str) {
    let estimate = source.sigma().expect("enough was seen");
    let over = if sigma < 0.5 { 0.2 } else { 0.0 };
    let range = 0.92 * sigma..1.08 * sigma + over;
    assert!(range.contains(&estimate), "{what}: {estimate} for {sigma}");
}

/// The threshold of `frame`, which the source then learns from.
fn advance(source: &mut ThresholdSource, frame: &FrameView<'_>) -> u8 {
    let threshold = source.advance();
    source.observe(frame);
    threshold
}

#[test]
fn gaussian_noise_is_estimated_within_8_percent_in_every_format() {
    for format in PixelFormat::ALL {
        for sigma in [0.3, 0.5, 1.0, 2.0, 5.0] {
            let mut scene = Scene::new(format, sigma);
            let seen = scene.watched(SETTLED);
            assert_estimates(&seen, sigma, &format!("{format:?}"));
        }
    }
}

/// Single estimates scatter; their mean over 100 frames does not.
#[test]
fn on_average_the_estimate_is_right_within_4_percent() {
    for format in [PixelFormat::Gray8, PixelFormat::I420, PixelFormat::Bgrx] {
        let mut scene = Scene::new(format, 3.0);
        let mut seen = scene.watched(SETTLED);
        let estimates = (0..100).map(|_| {
            seen.observe(&scene.next());
            seen.sigma().unwrap()
        });
        let mean = estimates.sum::<f64>() / 100.0;
        assert!((0.96 * 3.0..1.04 * 3.0).contains(&mean), "{format:?}: {mean}");
    }
}

/// Where rounding hides most: all means are whole numbers.
#[test]
fn the_noise_of_a_flat_picture_is_not_put_too_low() {
    for sigma in [0.25, 0.3, 0.5, 1.0, 3.0] {
        let mut scene = Scene::new(PixelFormat::Nv12, sigma);
        scene.picture = |_, _| 128.0;
        assert_estimates(&scene.watched(SETTLED), sigma, "flat");
    }
}

/// The noise of light grows with its square root; read-out adds a little. Linear samples have it so, and the estimate
/// is that of the darker parts; behind a gamma curve of 1/2.2 it is nearly the same everywhere.
#[test]
fn noise_that_depends_on_brightness_is_estimated_between_its_extremes() {
    for format in [PixelFormat::Gray8, PixelFormat::I420, PixelFormat::Rgbx] {
        for gain in [0.01, 0.1] {
            let mut scene = Scene::new(format, 0.0);
            scene.noise = Noise::OfLight { gain, gamma: 1.0 };
            let [dark, bright] = [40.0, 210.0].map(|mean| scene.noise.sigma(mean));
            let estimate = scene.watched(SETTLED).sigma().unwrap();
            assert!((dark..bright).contains(&estimate), "{format:?}: {dark} {estimate} {bright}");
        }
    }
    let mut scene = Scene::new(PixelFormat::Nv12, 0.0);
    scene.noise = Noise::OfLight { gain: 0.03, gamma: 2.2 };
    assert_estimates(&scene.watched(SETTLED), scene.noise.sigma(125.0), "gamma");
    assert!(0.98 <= scene.share_of_clean_tiles(100));
}

/// Whichever it is: each is looked at, and nothing else is.
#[test]
fn the_noisiest_component_makes_the_estimate() {
    for format in PixelFormat::ALL {
        let components = if format == PixelFormat::Gray8 { 1 } else { 3 };
        for component in 0..components {
            let mut scene = Scene::new(format, 2.0);
            scene.noisy_component = Some(component);
            let what = format!("component {component} of {format:?}");
            assert_estimates(&scene.watched(SETTLED), 2.0, &what);
        }
    }
    let mut scene = Scene::new(PixelFormat::Rgba, 2.0);
    scene.noisy_component = Some(3);
    assert_eq!(scene.watched(SETTLED).sigma(), Some(0.0), "alpha");
}

/// As of a codec that skips blocks, or a camera that is slower than its stream.
#[test]
fn frames_that_are_repeated_do_not_hide_the_noise() {
    for repeats in [2, 3, 5] {
        let mut scene = Scene::new(PixelFormat::I420, 2.0);
        scene.repeats = repeats;
        let what = format!("each frame {repeats} times");
        assert_estimates(&scene.watched(2 * SETTLED), 2.0, &what);
    }
}

/// What moves hides the blocks below the rank, so the estimate is that of a higher rank of those at rest.
#[test]
fn motion_hardly_raises_the_noise_estimate() {
    for (format, sigma) in
        [(PixelFormat::Nv12, 0.5), (PixelFormat::Yuy2, 1.0), (PixelFormat::Bgra, 3.0)]
    {
        let rest = Scene::new(format, sigma).watched(2 * SETTLED).sigma().unwrap();
        for motion in [Motion::Slides, Motion::Boils, Motion::Scatters] {
            let mut scene = Scene::moving(format, sigma, motion);
            assert_stays(&mut scene, rest, 1.25);
        }
    }
}

/// Two cuts in a second of 30 frames, again and again; lamps that flicker.
#[test]
fn cuts_and_flicker_raise_the_estimate_by_less_than_10_percent() {
    let rest = Scene::new(PixelFormat::Nv12, 1.0).watched(2 * SETTLED).sigma().unwrap();
    for motion in [Motion::Cuts, Motion::Flickers] {
        assert_stays(&mut Scene::moving(PixelFormat::Nv12, 1.0, motion), rest, 1.10);
    }
}

#[test]
fn the_estimate_follows_the_light_up_and_down_within_31_frames() {
    assert_eq!(SETTLED, 31);
    for (before, after) in [(1.0, 3.0), (3.0, 1.0), (0.5, 5.0), (5.0, 0.5), (2.0, 0.0)] {
        let mut scene = Scene::new(PixelFormat::Nv12, before);
        let mut source = NoiseEstimator::new(scene.kind());
        (0..SETTLED).for_each(|_| source.observe(&scene.next()));
        assert_estimates(&source, before, "before");
        scene.noise = Noise::Gaussian(after);
        (0..SETTLED).for_each(|_| source.observe(&scene.next()));
        if after == 0.0 {
            assert_eq!(source.sigma(), Some(0.0));
        } else {
            assert_estimates(&source, after, "after");
        }
    }
}

/// The light itself goes up and down: the mean of a block is not noise.
#[test]
fn a_change_of_the_light_is_no_noise() {
    let mut scene = Scene::moving(PixelFormat::Nv12, 1.0, Motion::Brightens);
    assert_estimates(&scene.watched(2 * SETTLED), 1.0, "brightening");
}

#[test]
fn clipped_parts_of_a_picture_have_no_say() {
    for (range, black, white) in
        [(ColorRange::Full, 0.0, 255.0), (ColorRange::Limited, 16.0, 235.0)]
    {
        for clipped in [black, white] {
            // So far beyond the end that noise does not lead back.
            let beyond = if clipped == black { -60.0 } else { 400.0 };
            let watched = |part| {
                let mut scene = Scene::new(PixelFormat::Gray8, 2.0);
                scene.color = ColorTransform::from_ycbcr(ColorMatrix::Bt709, range);
                scene.clip = (black, white);
                scene.patch = Some((part, beyond));
                scene.watched(2 * SETTLED)
            };
            assert_estimates(&watched(0.8), 2.0, &format!("mostly clipped at {clipped}"));
            assert_eq!(watched(0.95).sigma(), None, "hardly anything but clipped samples");
            assert_eq!(watched(1.0).sigma(), None, "nothing but clipped samples");
        }
    }
}

/// Screens and the skipped blocks of codecs: without noise the threshold is 0, whatever moves over half of it.
#[test]
fn a_picture_without_noise_has_the_threshold_0() {
    for motion in [Motion::Rests, Motion::Slides, Motion::Boils, Motion::Cuts] {
        let mut scene = Scene::moving(PixelFormat::Rgbx, 0.0, motion);
        let config = Threshold::Auto { limit: 16 };
        let mut source = ThresholdSource::new(scene.kind(), config);
        for _ in 0..3 * SETTLED {
            assert_eq!(advance(&mut source, &scene.next()), 0, "{motion:?}");
        }
        assert_eq!(source.sigma(), Some(0.0), "{motion:?}");
    }
}

#[test]
fn still_noisy_tiles_stay_clean_in_98_of_100_frames() {
    for format in PixelFormat::ALL {
        for sigma in [0.3, 0.5, 1.0, 2.0, 5.0] {
            let mut scene = Scene::new(format, sigma);
            let clean = scene.share_of_clean_tiles(60);
            assert!(0.98 <= clean, "{format:?}, {sigma}: {clean}");
        }
    }
    for sigma in [0.3, 0.5, 1.0, 2.0] {
        let mut scene = Scene::new(PixelFormat::Nv12, sigma);
        scene.picture = |_, _| 128.0;
        let clean = scene.share_of_clean_tiles(60);
        assert!(0.98 <= clean, "flat, {sigma}: {clean}");
    }
}

#[test]
fn the_threshold_follows_earlier_frames_within_its_limit() {
    for limit in [1, 7, 16, 255] {
        let mut scene = Scene::moving(PixelFormat::Nv12, 4.0, Motion::Cuts);
        let kind = scene.kind();
        let mut source = ThresholdSource::new(kind, Threshold::Auto { limit });
        let mut seen = NoiseEstimator::new(kind);
        for _ in 0..2 * SETTLED {
            let expected = threshold_for(seen.sigma().unwrap_or(0.0), kind.format).min(limit);
            let frame = scene.next();
            assert_eq!(advance(&mut source, &frame), expected);
            assert_eq!(source.current(), expected);
            assert_eq!(source.limit(), Some(limit));
            seen.observe(&frame);
        }
        assert!(0 < source.current() && source.current() <= limit);
    }
}

#[test]
fn until_enough_was_seen_the_threshold_is_0() {
    let mut scene = Scene::new(PixelFormat::Nv12, 4.0);
    let mut source = ThresholdSource::new(scene.kind(), Threshold::Auto { limit: 16 });
    for frame in 1..=SETTLED {
        let threshold = advance(&mut source, &scene.next());
        assert_eq!(threshold == 0, frame <= LAG + 8, "frame {frame}");
    }
}

#[test]
fn a_source_smaller_than_a_block_has_the_threshold_0() {
    for (width, height) in [(7, 300), (300, 7), (1, 1)] {
        let mut scene = Scene::new(PixelFormat::Gray8, 3.0);
        scene.extent = Extent::new(width, height);
        assert_eq!(scene.watched(3 * SETTLED).sigma(), None, "{width}x{height}");
    }
    for format in PixelFormat::ALL {
        for (width, height) in [(8, 8), (15, 15), (17, 9), (33, 20), (8, 400)] {
            let mut scene = Scene::new(format, 3.0);
            scene.extent = Extent::new(width, height);
            let estimate = scene.watched(3 * SETTLED).sigma().unwrap();
            assert!((1.8..4.2).contains(&estimate), "{format:?} {width}x{height}: {estimate}");
        }
    }
}

#[test]
fn thresholds_do_not_depend_on_strides() {
    let thresholds = |padding: usize| {
        let mut scene = Scene::moving(PixelFormat::Nv12, 1.5, Motion::Scatters);
        scene.padding = padding;
        let mut source = ThresholdSource::new(scene.kind(), Threshold::Auto { limit: 16 });
        let steps = (0..2 * SETTLED).map(|_| (advance(&mut source, &scene.next()), source.sigma()));
        steps.collect::<Vec<_>>()
    };
    assert_eq!(thresholds(0), thresholds(0));
    assert_eq!(thresholds(0), thresholds(37));
}

/// Lamps on mains of 50 and 60 Hz before cameras of 24 to 30 frames a second, of the whole picture, and in bands of a rolling shutter.
#[test]
fn under_lamps_that_flicker_still_tiles_stay_clean() {
    for format in [PixelFormat::Nv12, PixelFormat::Rgbx, PixelFormat::Gray8] {
        for (sigma, period, swing, bands) in [
            (0.6, 3.0, 6.0, 0.0),
            (0.6, 2.0, 3.0, 0.0),
            (0.4, 5.0, 4.0, 1.0),
            (1.0, 7.0, 5.0, 2.5),
            (0.5, 12.5, 8.0, 0.0),
            (0.5, 20.0, 6.0, 0.5),
        ] {
            let mut scene = Scene::moving(format, sigma, Motion::Lamp { period, swing, bands });
            let (clean, threshold) = scene.clean_under_light();
            let what = format!("{format:?}, noise {sigma}, {swing} every {period} frames");
            assert!(0.98 < clean, "{what}: {clean} of the tiles are clean at {threshold}");
            let needed = f64::from(threshold_for(sigma, format)) + swing;
            assert!(f64::from(threshold) <= needed + 2.0, "{what}: a threshold of {threshold}");
        }
    }
}

#[test]
fn light_that_does_not_return_raises_no_threshold() {
    for motion in [
        Motion::Rests,
        Motion::Slides,
        Motion::Scatters,
        Motion::Boils,
        Motion::Cuts,
        Motion::Brightens,
    ] {
        for sigma in [0.4, 3.0] {
            let mut scene = Scene::moving(PixelFormat::I420, sigma, motion);
            let mut light = LightSwing::new(scene.kind());
            for frame in 0..4 * light::WINDOW {
                light.observe(&scene.next(), sigma);
                assert_eq!(light.steps(), 0.0, "{motion:?} in frame {frame}");
            }
        }
    }
}

/// The table against its definition, with a sum over the normal distribution.
#[test]
fn the_table_of_variances_is_that_of_rounded_gaussian_noise() {
    for (variance, sigma) in NOISE_OF_VARIANCE {
        let rounded =
            (0..20).map(|k| f64::from(2 * k + 1) * 2.0 * tail((f64::from(k) + 0.5) / sigma));
        let expected = 2.0 * rounded.sum::<f64>();
        assert!((variance - expected).abs() < 1e-5, "{sigma}: {variance} for {expected}");
    }
}

/// The threshold is the smallest that its bound allows, and the bound is 99 % for a tile.
#[test]
fn the_threshold_is_minimal_for_99_percent_clean_tiles() {
    for (format, samples) in [
        (PixelFormat::Gray8, 1024.0),
        (PixelFormat::Nv12, 1536.0),
        (PixelFormat::I420, 1536.0),
        (PixelFormat::Yuy2, 2048.0),
        (PixelFormat::Rgb, 3072.0),
        (PixelFormat::Rgbx, 3072.0),
        (PixelFormat::Bgra, 3072.0),
    ] {
        for sigma in (1..400).map(|step| f64::from(step) / 20.0) {
            let threshold = threshold_for(sigma, format);
            let clean = |threshold: u8| {
                let beyond = 2.0 * tail(f64::from(threshold) / (sigma * 2_f64.sqrt()));
                (1.0 - beyond.min(1.0)).powf(samples)
            };
            assert!(0.9899 <= clean(threshold), "{format:?}, {sigma}: {threshold}");
            assert!(clean(threshold - 1) < 0.9901, "{format:?}, {sigma}: {threshold}");
        }
        assert_eq!((threshold_for(0.0, format), threshold_for(1000.0, format)), (0, 255));
    }
}

/// After it has settled, the estimate is for 100 frames what it is without motion, `rest`, or less than `most` times that.
fn assert_stays(scene: &mut Scene, rest: f64, most: f64) {
    let mut seen = scene.watched(SETTLED);
    let range = 0.92 * rest..most * rest;
    for _ in 0..100 {
        seen.observe(&scene.next());
        let sigma = seen.sigma().unwrap();
        assert!(range.contains(&sigma), "{:?}: {rest} to {sigma}", scene.motion);
    }
}

/// Changes in a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Motion {
    /// The picture stays the same.
    Rests,
    /// A textured thing over half of the picture slides 3 samples a frame.
    Slides,
    /// Half of the picture, as water or leaves, is another in every frame.
    Boils,
    /// Nine things go their way, over nearly half of the picture in all.
    Scatters,
    /// The picture changes every 15 frames.
    Cuts,
    /// Lamps: every other frame is brighter, and so is every third.
    Flickers,
    /// It gets brighter by a fifth of a step a frame.
    Brightens,
    /// A lamp brightens and darkens the picture by `swing`, every `period` frames, in so many `bands` from top to bottom.
    Lamp { period: f64, swing: f64, bands: f64 },
}

/// Noise of the samples.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// Noise of this standard deviation everywhere.
    Gaussian(f64),
    /// Of the light: the variance grows by `gain` for each step of light, and the samples are that to the power of
    /// 1 / `gamma`.
    OfLight { gain: f64, gamma: f64 },
}

impl Noise {
    /// Standard deviation where a sample is `mean` without noise.
    fn sigma(self, mean: f64) -> f64 {
        match self {
            Self::Gaussian(sigma) => sigma,
            Self::OfLight { gain, gamma } => {
                let mean = mean.max(1.0);
                let light = 255.0 * (mean / 255.0).powf(gamma);
                let slope = mean / (gamma * light);
                (gain * light + 0.05).sqrt() * slope
            }
        }
    }
}

/// A camera in front of a picture that is known, with noise that is known.
struct Scene {
    format: PixelFormat,
    extent: Extent,
    color: ColorTransform,
    noise: Noise,
    /// The only component with noise; `None` for all.
    noisy_component: Option<usize>,
    motion: Motion,
    /// Times that each frame comes.
    repeats: u64,
    /// The picture at rest, 0 to 255.
    picture: fn(f64, f64) -> f64,
    /// What part of the height, from the bottom, is of one value instead.
    patch: Option<(f64, f64)>,
    /// No sample is below or above.
    clip: (f64, f64),
    /// Bytes between rows.
    padding: usize,
    /// Frames so far.
    frame: u64,
    random: Random,
    /// Normal numbers, to draw from.
    normal: Vec<f64>,
    /// The picture at rest, of each plane; from the first frame on.
    rest: Vec<Vec<f64>>,
    planes: Vec<Vec<u8>>,
}

impl Scene {
    fn new(format: PixelFormat, sigma: f64) -> Self {
        let mut random = Random(11);
        Self {
            format,
            extent: EXTENT,
            color: naive::transforms(format)[usize::from(!format.is_rgb())],
            noise: Noise::Gaussian(sigma),
            noisy_component: None,
            motion: Motion::Rests,
            repeats: 1,
            picture: wavy,
            patch: None,
            clip: (0.0, 255.0),
            padding: 0,
            frame: 0,
            normal: (0..1 << 16).map(|_| gaussian(&mut random)).collect(),
            random,
            rest: Vec::new(),
            planes: Vec::new(),
        }
    }

    fn moving(format: PixelFormat, sigma: f64, motion: Motion) -> Self {
        Self { motion, ..Self::new(format, sigma) }
    }

    fn kind(&self) -> FrameKind {
        FrameKind { format: self.format, extent: self.extent, color: self.color }
    }

    /// What an estimator has seen after so many frames.
    fn watched(&mut self, frames: usize) -> NoiseEstimator {
        let mut seen = NoiseEstimator::new(self.kind());
        (0..frames).for_each(|_| seen.observe(&self.next()));
        seen
    }

    /// What share of all tiles stays clean, over `frames` frames, once the threshold has settled.
    fn share_of_clean_tiles(&mut self, frames: usize) -> f64 {
        let config =
            ChangeConfig { threshold: Threshold::Auto { limit: 255 }, refresh_frames: None };
        let mut detector = Follower::new(&self.next(), config);
        let (mut dirty, mut tiles) = (0, 0);
        for frame in 0..SETTLED + frames {
            detector.detect(&self.next(), frame as u64 + 1);
            if SETTLED <= frame {
                dirty += detector.ingested().count();
                tiles += detector.ingested().grid().area();
            }
        }
        1.0 - dirty as f64 / tiles as f64
    }

    /// What share of all tiles stays clean once the threshold has settled, and the threshold.
    fn clean_under_light(&mut self) -> (f64, u8) {
        let threshold = Threshold::Auto { limit: 255 };
        let config = ChangeConfig { threshold, refresh_frames: None };
        let mut detector = Follower::new(&self.next(), config);
        let (mut dirty, mut tiles) = (0, 0);
        for frame_seq in 1..=3 * light::WINDOW as u64 {
            detector.detect(&self.next(), frame_seq);
            if 2 * light::WINDOW as u64 <= frame_seq {
                dirty += detector.ingested().count();
                tiles += detector.ingested().grid().area();
            }
        }
        (1.0 - dirty as f64 / tiles as f64, detector.tracker().sample_bound())
    }

    /// The next frame.
    fn next(&mut self) -> FrameView<'_> {
        self.frame += 1;
        if self.rest.is_empty() {
            self.rest = (0..self.format.plane_count()).map(|plane| self.at_rest(plane)).collect();
        }
        if self.planes.is_empty() || self.frame.is_multiple_of(self.repeats) {
            self.planes = (0..self.format.plane_count()).map(|plane| self.shot(plane)).collect();
        }
        let strides = (0..).map(|plane| self.size(plane).0 + self.padding);
        let planes = self.planes.iter().zip(strides);
        let planes: Vec<_> = planes.map(|(bytes, stride)| Plane { bytes, stride }).collect();
        FrameView::new(self.format, self.extent, self.color, &planes).unwrap()
    }

    /// Bytes of a row of a plane, and rows.
    fn size(&self, plane: usize) -> (usize, usize) {
        let shape = self.format.plane_shape(plane, self.extent);
        (shape.row_bytes as usize, shape.rows as usize)
    }

    fn at_rest(&self, plane: usize) -> Vec<f64> {
        let (width, rows) = self.size(plane);
        let value = |x: usize, y: usize| match self.patch {
            Some((part, value)) if (1.0 - part) * rows as f64 <= y as f64 => value,
            _ => (self.picture)(x as f64, y as f64),
        };
        (0..rows).flat_map(|y| (0..width).map(move |x| value(x, y))).collect()
    }

    fn shot(&mut self, plane: usize) -> Vec<u8> {
        let (width, rows) = self.size(plane);
        let stride = width + self.padding;
        let mut bytes = vec![0xA5; stride * rows];
        let boxes = self.moving_boxes(width, rows);
        for y in 0..rows {
            for x in 0..width {
                let mean = self.mean(self.rest[plane][y * width + x], x, y, &boxes);
                let normal = self.normal[(self.random.next() >> 48) as usize];
                let own = component(self.format, plane, x);
                let is_noisy = self.noisy_component.is_none_or(|noisy| noisy == own);
                let sigma = if is_noisy { self.noise.sigma(mean) } else { 0.0 };
                let sample = mean + sigma * normal;
                bytes[y * stride + x] = sample.round().clamp(self.clip.0, self.clip.1) as u8;
            }
        }
        bytes
    }

    /// What the byte at (x, y) of a plane is without noise, where it is `rest` at rest.
    fn mean(&mut self, rest: f64, x: usize, y: usize, boxes: &[[usize; 4]]) -> f64 {
        let (at, time) = ((x as f64, y as f64), self.frame as f64);
        let inside = |b: &[usize; 4]| (b[0]..b[2]).contains(&x) && (b[1]..b[3]).contains(&y);
        let is_covered = boxes.iter().any(inside);
        match self.motion {
            Motion::Slides if is_covered => texture(at.0 - 3.0 * time, at.1),
            Motion::Boils if is_covered => f64::from(40 + self.random.below(170)),
            Motion::Scatters if is_covered => texture(at.0 + 31.0 * time, at.1 + 17.0 * time),
            Motion::Cuts => (self.picture)(at.0 + 97.0 * (self.frame / 15) as f64, at.1),
            Motion::Flickers => {
                let is_bright = |period| f64::from(u8::from(self.frame.is_multiple_of(period)));
                rest + 9.0 * is_bright(2) + 5.0 * is_bright(3)
            }
            Motion::Brightens => rest + 0.2 * time,
            Motion::Lamp { period, swing, bands } => {
                // Frames at half a period meet the lamp where it is brightest and darkest.
                let turns = 0.25 + time / period + bands * at.1 / f64::from(self.extent.height);
                rest + swing / 2.0 * (std::f64::consts::TAU * turns).sin()
            }
            _ => rest,
        }
    }

    /// Left, top, right and bottom of what moves in a plane of that size; half of it or a little less.
    fn moving_boxes(&self, width: usize, rows: usize) -> Vec<[usize; 4]> {
        match self.motion {
            Motion::Slides => {
                let left = 3 * self.frame as usize % (width / 2);
                vec![[left, 0, left + width / 2, rows]]
            }
            Motion::Boils => vec![[0, 0, width, rows / 2]],
            Motion::Scatters => {
                // The same things in each frame, two samples further.
                let mut random = Random(5);
                let (w, h) = (width / 4, rows / 4);
                let mut place = |samples: usize, side: usize| {
                    let start = random.below(samples as u32) as usize;
                    (start + 2 * self.frame as usize) % (samples - side)
                };
                let mut thing = || {
                    let (x, y) = (place(width, w), place(rows, h));
                    [x, y, x + w, y + h]
                };
                (0..9).map(|_| thing()).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Which component byte `x` of a row of a plane is of.
fn component(format: PixelFormat, plane: usize, x: usize) -> usize {
    match format {
        PixelFormat::Nv12 => plane * (1 + x % 2),
        PixelFormat::I420 | PixelFormat::Gray8 => plane,
        PixelFormat::Yuy2 => [0, 1, 0, 2][x % 4],
        PixelFormat::Rgb | PixelFormat::Bgr => x % 3,
        PixelFormat::Rgbx | PixelFormat::Bgrx | PixelFormat::Rgba | PixelFormat::Bgra => x % 4,
    }
}

/// A picture with bright and dark parts, fine and coarse ones.
fn wavy(x: f64, y: f64) -> f64 {
    125.0 + 60.0 * (x / 37.3).sin() * (y / 23.1).cos() + 20.0 * (x / 90.7).cos()
}

/// Brightness of moving things.
fn texture(x: f64, y: f64) -> f64 {
    128.0 + 90.0 * (x / 2.9).sin() * (y / 3.7).sin()
}

/// A normal number (Box and Muller).
fn gaussian(random: &mut Random) -> f64 {
    let even = |bits: u64| (bits & 0xFFFF_FFFF) as f64 / 4_294_967_296.0;
    let (a, b) = (even(random.next()), even(random.next()));
    (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// The upper tail of the normal distribution, by Simpson's rule.
fn tail(from: f64) -> f64 {
    const STEPS: u32 = 4000;
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let width = 12.0 / f64::from(STEPS);
    let weighted = |step: u32| {
        let weight = match step {
            0 | STEPS => 1.0,
            odd if odd % 2 == 1 => 4.0,
            _ => 2.0,
        };
        weight * density(from + width * f64::from(step))
    };
    (0..=STEPS).map(weighted).sum::<f64>() * width / 3.0
}
