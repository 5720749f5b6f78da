//! Real clips, with the noise of a camera and of a codec, frame by frame: what is updated is what a rebuild gives, bit
//! for bit; a number that says when tokens changed tells the truth; nothing is further off than its bound.

use std::num::NonZeroU32;

use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::frame::{FrameKind, FrameStamp, FrameView};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::{TILE_SIDE, TileSet};
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_engine::planes::Planes;
use foveate_engine::planes::SamplerSpec;
use foveate_engine::{Engine, Memory, View};
use foveate_gaze::controller::Policy;
use foveate_gaze::view::ViewSpec;
use testkit::backends::{self, Player, on_cpu};
#[cfg(feature = "vulkan")]
use testkit::device;
use testkit::film::for_each_frame;
use testkit::follow::Follower;
use testkit::footage::clip;
use testkit::naive::OwnedFrame;
use testkit::published::Definition;

/// The clips, and how many frames they have: people before a fixed camera; a hand that turns a box.
const CLIPS: [(&str, u64); 2] = [("vtest.avi", 795), ("box.mp4", 455)];

const FORMAT: TokenFormat = TokenFormat::new(16, DType::U8, Normalisation::NONE);

/// The levels that all tokens of are sampled.
const TOKEN_LEVELS: [u32; 2] = [1, 3];

/// Frames of each clip that views look at.
const FRAMES_OF_VIEWS: u64 = 50;

/// Frames of a round of refreshing.
const ROUND: u32 = 30;

/// Makes the backend that is held to the laws.
type Make<'a> = &'a dyn Fn(FrameKind) -> Player;

/// Makes one test of each configuration for each backend.
macro_rules! laws {
    ($($law:ident: $change:expr;)*) => {
        mod cpu {
            use super::*;

            $(#[test]
            fn $law() {
                play($change, &on_cpu);
            })*
        }

        #[cfg(feature = "vulkan")]
        mod vulkan {
            use super::*;

            $(#[test]
            fn $law() {
                device::with_gpu(|gpu| play($change, &|kind| backends::host_diff_on(gpu, kind)));
            })*
        }
    };
}

laws! {
    frames_are_exact_without_a_threshold: ChangeConfig::default();
    frames_keep_their_bounds_with_a_threshold: ChangeConfig {
        threshold: Threshold::Fixed(8),
        refresh_frames: NonZeroU32::new(ROUND),
    };
    frames_keep_their_bounds_with_a_threshold_that_follows_the_noise: ChangeConfig {
        threshold: Threshold::Auto { limit: 16 },
        refresh_frames: NonZeroU32::new(ROUND),
    };
}

mod reuse {
    use super::*;

    #[test]
    fn tokens_of_clips_are_kept_by_definition_on_the_cpu() {
        play_views(&on_cpu);
    }

    #[cfg(feature = "vulkan")]
    #[test]
    fn tokens_of_clips_are_kept_by_definition_on_a_device() {
        device::with_gpu(|gpu| play_views(&|kind| backends::device_diff_on(gpu, kind)));
    }
}

/// Plays the beginning of all clips to a view whose gaze moves.
fn play_views(make: Make<'_>) {
    for (name, _) in CLIPS {
        let Some(path) = clip(name) else { return };
        let change = ChangeConfig { threshold: Threshold::Fixed(8), refresh_frames: None };
        let mut sides: Option<(Engine, View<Memory>, Definition)> = None;
        let mut frame_seq = 0;
        for_each_frame(&path, |_, frame| {
            frame_seq += 1;
            if FRAMES_OF_VIEWS < frame_seq {
                return;
            }
            let (engine, view, definition) = sides.get_or_insert_with(|| {
                let engine = Engine::new(make(frame.kind()).backend, change, 1);
                let (policy, format) = (Policy::Saliency, FORMAT);
                let spec = ViewSpec { policy, format, budget: 120, ..ViewSpec::default() };
                let view = engine.view(spec, Memory::default()).unwrap();
                (engine, view, Definition::new(frame, change))
            });
            let capture_ns = frame_seq * 100_000_000;
            let stamp = FrameStamp { capture_ns, ..FrameStamp::numbered(frame_seq) };
            engine.step(frame, &stamp, std::slice::from_mut(view)).unwrap();
            definition.step(frame, frame_seq, view);
        });
        assert!(0 < sides.unwrap().2.kept, "tokens of {name} that kept what had moved");
    }
}

/// Plays all clips, and checks their frames.
fn play(change: ChangeConfig, make: Make<'_>) {
    for (name, frames) in CLIPS {
        let Some(path) = clip(name) else { return };
        let mut course = None;
        let mut frame_seq = 0;
        for_each_frame(&path, |_, frame| {
            frame_seq += 1;
            let course = course.get_or_insert_with(|| Course::new(frame, change, make));
            course.check(frame, frame_seq);
        });
        assert_eq!(frame_seq, frames, "frames of {name}");
        course.unwrap().check_coverage(name);
    }
}

/// One clip on its way through the stages.
struct Course {
    detector: Follower,
    change: ChangeConfig,
    /// The resident copy after the frame before.
    before: OwnedFrame,
    /// Of each tile, the frame that last changed a sample of it.
    changed_frame: Vec<u64>,
    updated: FollowedPlayer,
    /// The same on the CPU, rebuilt from the whole resident copy in each frame.
    rebuilt: FollowedPlayer,
    /// Of each token, what said when it changed, in the frame before, and what it was.
    tokens: Vec<(u64, Vec<u8>)>,
    /// Tiles that were ingested and did not change, in all frames.
    refreshed_in_vain: usize,
    highest_bound: u8,
}

/// A backend and what it samples.
struct FollowedPlayer {
    player: Player,
    views: [Planes; 1],
}

impl FollowedPlayer {
    fn new(kind: FrameKind, make: Make<'_>) -> Self {
        let plan = plan(PyramidShape::new(kind.extent));
        let player = make(kind);
        let mut planes = player.planes(SamplerSpec {
            format: FORMAT,
            capacity: plan.tokens.len(),
            keeps_unchanged: false,
        });
        planes.set_plan(plan, kind.extent);
        Self { player, views: [planes] }
    }

    fn update(&mut self, resident: &FrameView<'_>, tiles: &TileSet) {
        self.player.update(resident, tiles, &mut self.views);
    }

    /// Forgets what was sampled, so that all of it is sampled in the next update.
    fn forget_tokens(&mut self) {
        let [view] = &mut self.views;
        let extent = self.player.backend.kind().extent;
        view.set_plan(view.plan().clone(), extent);
    }

    fn level(&mut self, level: u32) -> Vec<u8> {
        self.player.read_level(level)
    }

    fn pixels(&self) -> Vec<u8> {
        self.views[0].pixels()
    }
}

impl Course {
    fn new(frame: &FrameView<'_>, change: ChangeConfig, make: Make<'_>) -> Self {
        let kind = frame.kind();
        let tiles = TileSet::none(frame.extent()).grid().area();
        Self {
            detector: Follower::new(frame, change),
            change,
            before: OwnedFrame::copied(frame),
            changed_frame: vec![1; tiles],
            updated: FollowedPlayer::new(kind, make),
            rebuilt: FollowedPlayer::new(kind, &on_cpu),
            tokens: Vec::new(),
            refreshed_in_vain: 0,
            highest_bound: 0,
        }
    }

    fn check(&mut self, frame: &FrameView<'_>, frame_seq: u64) {
        self.detector.detect(frame, frame_seq);
        self.check_bound(frame, frame_seq);
        let resident = self.detector.resident();
        self.updated.update(&resident, self.detector.ingested());
        self.check_rebuilding(frame_seq);
        self.check_tiles(frame_seq);
        self.check_tokens(frame_seq);
    }

    /// A refresh without change, and a threshold above 0 where it follows the noise, did occur in the clip.
    fn check_coverage(&self, name: &str) {
        let refreshes = self.change.refresh_frames.is_some();
        assert_eq!(0 < self.refreshed_in_vain, refreshes, "refreshes of {name}");
        let threshold_is_0 = self.change.threshold == Threshold::Fixed(0);
        assert_eq!(self.highest_bound == 0, threshold_is_0, "bounds of {name}");
    }

    fn check_bound(&mut self, frame: &FrameView<'_>, frame_seq: u64) {
        let bound = self.detector.tracker().sample_bound();
        self.highest_bound = self.highest_bound.max(bound);
        match self.change.threshold {
            Threshold::Fixed(threshold) => assert_eq!(bound, threshold),
            Threshold::Auto { limit } | Threshold::BySource { limit } => {
                assert!(bound <= limit, "{bound} above {limit}");
            }
        }
        let resident = self.detector.resident();
        for (index, y) in rows(frame) {
            let pairs = resident.row(index, y).iter().zip(frame.row(index, y));
            let largest = pairs.map(|(a, b)| a.abs_diff(*b)).max();
            assert!(largest <= Some(bound), "frame {frame_seq}, row {y} of plane {index}");
        }
    }

    fn check_rebuilding(&mut self, frame_seq: u64) {
        let Self { detector, updated, rebuilt, .. } = self;
        let resident = detector.resident();
        rebuilt.forget_tokens();
        rebuilt.update(&resident, &TileSet::all(resident.extent()));
        for level in 0..updated.player.backend.shape().level_count() {
            let same = updated.level(level) == rebuilt.level(level);
            assert!(same, "frame {frame_seq}, level {level}");
        }
        assert!(updated.pixels() == rebuilt.pixels(), "tokens of frame {frame_seq}");
    }

    /// A tile's number is that of the last frame that changed one of its samples in the resident copy.
    fn check_tiles(&mut self, frame_seq: u64) {
        let resident = self.detector.resident();
        let columns = self.detector.ingested().grid().width as usize;
        let before = self.before.view();
        for (index, y) in rows(&resident) {
            // Both clips are I420: the planes of chroma have half as many rows, and samples in a row.
            let side = if index == 0 { TILE_SIDE } else { TILE_SIDE / 2 } as usize;
            let (now, before) = (resident.row(index, y), before.row(index, y));
            for (column, (now, before)) in now.chunks(side).zip(before.chunks(side)).enumerate() {
                if now != before {
                    self.changed_frame[y / side * columns + column] = frame_seq;
                }
            }
        }
        let ingested = self.detector.ingested();
        let rested = ingested.indices().filter(|tile| self.changed_frame[*tile] != frame_seq);
        self.refreshed_in_vain += rested.count();
        self.before = OwnedFrame::copied(&resident);
    }

    /// No token changes without its number; and its number is that of the newest change under it.
    fn check_tokens(&mut self, frame_seq: u64) {
        let extent = self.updated.player.backend.kind().extent;
        let columns = self.detector.ingested().grid().width;
        let sample = &self.updated.views[0];
        let mut tokens = Vec::new();
        let pixels = sample.pixels();
        let pixels = pixels.chunks_exact(FORMAT.token_bytes());
        for (token, pixels) in sample.plan().tokens.iter().zip(pixels) {
            let region = token.pixel_box(extent, FORMAT.patch_side);
            let rows = region.y0 / TILE_SIDE..region.y1.div_ceil(TILE_SIDE);
            let under = |row| {
                let tiles = region.x0 / TILE_SIDE..region.x1.div_ceil(TILE_SIDE);
                tiles.map(move |column| (row * columns + column) as usize)
            };
            let newest = rows.flat_map(under).map(|tile| self.changed_frame[tile]).max();
            let changed_frame = self.detector.tracker().changed_frame(region);
            assert_eq!(Some(changed_frame), newest, "frame {frame_seq}, {token:?}");
            tokens.push((changed_frame, pixels.to_vec()));
        }
        for (now, before) in tokens.iter().zip(&self.tokens) {
            assert!(now.0 != before.0 || now.1 == before.1, "a token of frame {frame_seq}");
        }
        self.tokens = tokens;
    }
}

/// All whole or cut patches of some levels.
fn plan(shape: PyramidShape) -> TokenPlan {
    let side = FORMAT.patch_side;
    let patches = |level| {
        let Extent { width, height } = shape.level_extent(level).in_cells(side);
        let at = move |(x, y)| Token::of_level(level, x * side, y * side);
        (0..height).flat_map(move |y| (0..width).map(move |x| (x, y))).map(at)
    };
    TokenPlan { patch_side: side, tokens: TOKEN_LEVELS.into_iter().flat_map(patches).collect() }
}

/// Every row of every plane.
fn rows(frame: &FrameView<'_>) -> impl Iterator<Item = (usize, usize)> {
    let (format, extent) = (frame.format(), frame.extent());
    let rows = move |index| format.plane_shape(index, extent).rows as usize;
    (0..format.plane_count()).flat_map(move |index| (0..rows(index)).map(move |y| (index, y)))
}
