//! Views whose layouts follow fixations look at what they have not shown yet, at what appears, and not behind masks.

use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::frame::{FrameStamp, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::region::PixelBox;
use foveate_core::geometry::tile::TileSet;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_engine::{Engine, Memory, View};
use foveate_gaze::controller::Policy;
use foveate_gaze::layout::Layout;
use foveate_gaze::layout::adaptive::demand::ConsumerMemory;
use foveate_gaze::view::ViewSpec;
use testkit::naive::{OwnedFrame, Random, transforms};

use crate::each_backend::Make;

const EXTENT: Extent = Extent::new(640, 384);
const FRAMES_PER_S: u64 = 30;

/// Sides of what there is to see, in pixels: whole tiles.
const SIDE: u32 = 64;

/// Places of the object, far apart.
const PLACES: [(u32, u32); 4] = [(32, 32), (544, 32), (32, 288), (480, 256)];

laws! {
    all_of_a_still_picture_is_shown_in_turn
    what_appears_is_shown_within_two_decisions
    what_appears_is_sharp_in_its_first_frame_by_default
    what_moves_on_and_on_does_not_keep_the_gaze
    a_mask_takes_the_gaze_away_at_once
    default_settings_read_neither_motion_nor_features
    the_work_of_a_frame_is_that_of_what_changed
}

fn all_of_a_still_picture_is_shown_in_turn(make: Make<'_>) {
    let picture = picture_of(&PLACES);
    let mut course = Course::new(make, &picture);
    let mut left: Vec<_> = PLACES.to_vec();
    for frame in 0..2 * FRAMES_PER_S {
        course.step(&picture);
        left.retain(|place| !course.shows(*place));
        assert!(0 < frame || left.len() == PLACES.len(), "the middle is looked at first");
    }
    assert!(left.is_empty(), "{left:?} was not shown in 2 s");
    // And again, since a consumer may have come later.
    let mut left: Vec<_> = PLACES.to_vec();
    for _ in 0..8 * FRAMES_PER_S {
        course.step(&picture);
        left.retain(|place| !course.shows(*place));
    }
    assert!(left.is_empty(), "{left:?} was not shown again in 8 s");
}

fn what_appears_is_shown_within_two_decisions(make: Make<'_>) {
    let (new, old) = PLACES.split_last().unwrap();
    let (before, after) = (picture_of(old), picture_of(&PLACES));
    for offset in [0, 3, 7] {
        let mut course = Course::new(make, &before);
        (0..3 * FRAMES_PER_S + offset).for_each(|_| course.step(&before));
        let found = (1..=FRAMES_PER_S).find(|_| {
            course.step(&after);
            course.shows(*new)
        });
        // Two of four a second, and the frame that shows it.
        let most = FRAMES_PER_S / 2 + 2;
        assert!(found.is_some_and(|frames| frames <= most), "{offset} later: {found:?}");
    }
}

/// Its plans follow the detail of the frame itself, and not the gaze.
fn what_appears_is_sharp_in_its_first_frame_by_default(make: Make<'_>) {
    let (new, old) = PLACES.split_last().unwrap();
    let (before, after) = (picture_of(old), picture_of(&PLACES));
    for memory in ConsumerMemory::ALL {
        let spec = ViewSpec { layout: Layout::Adaptive { memory }, ..ViewSpec::default() };
        let mut course = Course::with(make, &before, spec);
        (0..FRAMES_PER_S).for_each(|_| course.step(&before));
        assert!(!course.shows(*new), "there is nothing to see");
        course.step(&after);
        assert!(course.shows(*new), "memory {memory}");
    }
}

/// As before a screen or a fountain: what stands still is shown, too.
fn what_moves_on_and_on_does_not_keep_the_gaze(make: Make<'_>) {
    let mut course = Course::new(make, &picture_of(&PLACES));
    let mut left: Vec<_> = PLACES.to_vec();
    for frame in 0..4 * FRAMES_PER_S {
        let mut picture = picture_of(&PLACES);
        let (x, y) = PLACES[0];
        picture.scramble(x, y, SIDE, &mut Random(100 + frame));
        course.step(&picture);
        left.retain(|place| !course.shows(*place));
    }
    assert!(left.is_empty(), "{left:?} was not shown in 4 s");
}

/// The first frame with a mask no longer shows where the view looked behind it.
fn a_mask_takes_the_gaze_away_at_once(make: Make<'_>) {
    let hidden = PLACES[0];
    let picture = picture_of(&[hidden]);
    let mut course = Course::new(make, &picture);
    while !course.shows(hidden) {
        course.step(&picture);
        assert!(course.frames < FRAMES_PER_S, "it is looked at");
    }
    let coarse = course.engine.coarse_extent();
    let mut texels = TileSet::none_of(coarse);
    let texel = EXTENT.width / coarse.width;
    let along = |start: u32| start / texel..(start + SIDE) / texel;
    for row in along(hidden.1) {
        along(hidden.0).for_each(|column| {
            texels.insert(column, row);
        });
    }
    course.engine.apply_mask(&texels, course.frames + 1, &mut course.views);
    let black = picture_of(&[]);
    for _ in 0..FRAMES_PER_S {
        course.step(&black);
        let gaze = course.views[0].gaze().unwrap();
        let is_behind =
            |start: u32, at: f64| (f64::from(start)..f64::from(start + SIDE)).contains(&at);
        let mut fixations = gaze.fixations.iter();
        let seen = fixations.find(|at| is_behind(hidden.0, at.x) && is_behind(hidden.1, at.y));
        assert_eq!(seen, None);
    }
}

/// What the default view does not need is not computed for it: the work of a frame is that of its changed tiles.
fn default_settings_read_neither_motion_nor_features(make: Make<'_>) {
    let picture = picture_of(&PLACES);
    let mut course = Course::with(make, &picture, ViewSpec::default());
    for _ in 0..FRAMES_PER_S {
        course.step(&picture);
        assert!(course.engine.coarse().is_none() && course.engine.motions().is_none());
        assert_eq!(course.views[0].gaze().unwrap().relevance, None);
    }
    let detail = course.engine.detail().expect("the plan follows it");
    assert_eq!(detail.changed_frame(), 1, "nothing has changed since");
    let plan = course.views[0].planes().plan().clone();
    assert_eq!(course.views[0].planes().kept(), plan.tokens.len());
}

/// A square that is scrambled in each frame among others that stand still: two by two tiles of 240, and the tokens over them.
fn the_work_of_a_frame_is_that_of_what_changed(make: Make<'_>) {
    let mut course = Course::with(make, &picture_of(&PLACES), ViewSpec::default());
    let (x, y) = PLACES[1];
    let mut sampled = 0;
    for frame in 0..2 * FRAMES_PER_S {
        let mut picture = picture_of(&PLACES);
        picture.scramble(x, y, SIDE, &mut Random(100 + frame));
        course.step(&picture);
        if FRAMES_PER_S <= frame {
            assert_eq!(course.engine.tracker().ingested().count(), 4);
            assert_eq!(course.engine.detail().unwrap().changed_frame(), course.frames);
            sampled += course.views[0].planes().stale().len();
        }
        assert!(course.engine.coarse().is_none() && course.engine.motions().is_none());
    }
    // The square has 16 tokens of 16 pixels.
    let most = 16 * usize::try_from(FRAMES_PER_S).unwrap();
    assert!(0 < sampled && sampled <= most, "{sampled} tokens were sampled, {most} had to be");
}

/// A view with the layout `foveal` and the policy `auto`.
struct Course {
    engine: Engine,
    views: [View<Memory>; 1],
    frames: u64,
}

impl Course {
    fn new(make: Make<'_>, picture: &OwnedFrame) -> Self {
        Self::with(make, picture, foveal())
    }

    fn with(make: Make<'_>, picture: &OwnedFrame, spec: ViewSpec) -> Self {
        let change = ChangeConfig { threshold: Threshold::Fixed(0), ..ChangeConfig::default() };
        let engine = Engine::new(make(picture.kind()).backend, change, 1);
        let views = [engine.view(spec, Memory::default()).unwrap()];
        Self { engine, views, frames: 0 }
    }

    fn step(&mut self, picture: &OwnedFrame) {
        self.frames += 1;
        let capture_ns = self.frames * 1_000_000_000 / FRAMES_PER_S;
        let stamp = FrameStamp { capture_ns, ..FrameStamp::numbered(self.frames) };
        self.engine.step(&picture.view(), &stamp, &mut self.views).unwrap();
    }

    /// Whether the middle of a place is shown at full resolution.
    fn shows(&self, (x, y): (u32, u32)) -> bool {
        let plan = self.views[0].planes().plan();
        let middle = PixelBox::of(x + SIDE / 4..x + 3 * SIDE / 4, y + SIDE / 4..y + 3 * SIDE / 4);
        let touches = |lies: PixelBox| {
            lies.x0 < middle.x1 && middle.x0 < lies.x1 && lies.y0 < middle.y1 && middle.y0 < lies.y1
        };
        let mut over =
            plan.tokens.iter().filter(|token| touches(token.pixel_box(EXTENT, plan.patch_side)));
        over.all(|token| token.sx == 1)
    }
}

fn foveal() -> ViewSpec {
    ViewSpec {
        layout: Layout::Foveal { e0_px: None, foveae: 1, coarsest: None },
        budget: 120,
        format: TokenFormat::new(16, DType::U8, Normalisation::NONE),
        policy: Policy::Auto,
        ..ViewSpec::default()
    }
}

/// Noise at these places, and grey around it.
fn picture_of(places: &[(u32, u32)]) -> OwnedFrame {
    let format = PixelFormat::Gray8;
    let mut picture = OwnedFrame::uniform(format, EXTENT, transforms(format)[0], 128);
    for (index, (x, y)) in (0..).zip(places) {
        picture.scramble(*x, *y, SIDE, &mut Random(1 + index));
    }
    picture
}
