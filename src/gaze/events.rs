//! Event detection in a stream's pictures: a cut, a camera that moves, is covered, over-exposed or frozen,
//! light that flickers, and something new. Each is reported once, with hysteresis; `docs/reports/events.md` has the thresholds.
//!
//! ```text
//!  coarse level -> PictureStats -> cut, shift, covered, over-exposed, flicker ->+
//!       |            tiles that differ from the frame before -> frozen  ->+-> Event, Event, ...
//!       +-> Background -> arrivals (something new)                      ->+
//! ```
//!
//! Everything is a function of frames and their times: no clock and no randomness. Decisions are made in integers, or in floats
//! in a fixed order, so every machine tells the same. Nothing is allocated after construction.

use arrayvec::ArrayVec;

use self::arrivals::{Arrivals, THINGS_MAX};
use self::cut::Cut;
use self::flicker::Flicker;
use self::frozen::Frozen;
use self::picture::PictureStats;
use self::shift::Shift;
use self::state::Hysteresis;
use foveate_core::event::{Event, EventKind};
use foveate_core::frame::FrameTime;
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::TileSet;

mod arrivals;
mod cut;
mod flicker;
mod frozen;
mod picture;
mod shift;
mod state;

/// Most events of one frame: two of each state, a cut, and things.
pub const EVENTS_MAX: usize = THINGS_MAX + 11;

/// The events of one frame.
pub type Events = ArrayVec<Event, EVENTS_MAX>;

/// Facts about a frame besides its coarse level.
#[derive(Clone, Copy, Debug)]
pub struct FrameFacts {
    /// Number and time.
    pub at: FrameTime,
    /// Whether the source is live, so that equal frames mean a frozen camera rather than a still picture.
    pub is_live: bool,
    /// Tiles with a sample that differs from the frame before.
    pub tiles_differing: usize,
    /// Tiles of the frame.
    pub tile_count: usize,
}

/// Milliseconds for which the picture must be black or without structure, and then be free.
const COVERED_MS: [u32; 2] = [1000, 1000];

/// Milliseconds for which the picture must be clipped, and then not be.
const OVER_EXPOSED_MS: [u32; 2] = [1000, 1000];

/// Shares of the picture that are clipped at white: at least the first begins it, at most the second ends it.
const CLIPPED: (f64, f64) = (0.5, 0.3);

/// Shares of the picture that are black: as for [`CLIPPED`].
const DARK: (f64, f64) = (0.98, 0.9);

/// Shares of the picture with structure: less than the first begins it, more than the second ends it.
const STRUCTURED: (f64, f64) = (0.02, 0.05);

/// The detectors of one stream. All memory is allocated at construction.
#[derive(Clone, Debug)]
pub struct Detectors {
    extent: Extent,
    /// Side of a texel of the coarse level in source pixels.
    texel_px: f64,
    /// The newest frame, in a time that never goes back.
    now: FrameTime,
    /// Time of the newest frame as the stream gives it; `None` before the first.
    given_ns: Option<u64>,
    picture: PictureStats,
    cut: Cut,
    shift: Shift,
    covered: Hysteresis,
    over_exposed: Hysteresis,
    frozen: Frozen,
    flicker: Flicker,
    arrivals: Arrivals,
    /// Whether the picture has had structure: only then can it lose it.
    had_structure: bool,
}

impl Detectors {
    /// Detectors for a source of `extent`, before its first frame.
    pub fn new(extent: Extent) -> Self {
        let shape = PyramidShape::new(extent);
        let level = CoarseLevel::level_of(shape);
        let grid = shape.level_extent(level);
        Self {
            extent,
            texel_px: f64::from(1_u32 << level),
            now: FrameTime::default(),
            given_ns: None,
            picture: PictureStats::new(grid),
            cut: Cut::new(grid),
            shift: Shift::new(grid),
            covered: Hysteresis::new(EventKind::Covered, COVERED_MS),
            over_exposed: Hysteresis::new(EventKind::OverExposed, OVER_EXPOSED_MS),
            frozen: Frozen::new(),
            flicker: Flicker::new(),
            arrivals: Arrivals::new(grid, extent, level),
            had_structure: false,
        }
    }

    /// Takes the next frame, and returns what there is to tell.
    pub fn detect(&mut self, coarse: &CoarseLevel, facts: &FrameFacts) -> Events {
        let mut events = Events::new();
        let elapsed_s = self.advance(facts.at);
        let now = self.now;
        self.picture.update(coarse);
        let picture = &self.picture;

        self.had_structure |= STRUCTURED.1 < picture.structured && picture.dark < DARK.1;
        let is_covered =
            DARK.0 <= picture.dark || (self.had_structure && picture.structured < STRUCTURED.0);
        let is_free = STRUCTURED.1 < picture.structured && picture.dark < DARK.1;
        let covered = if is_covered { Some(true) } else { is_free.then_some(false) };
        events.extend(self.covered.update(now, covered, picture.mean));

        let clipped = picture.clipped;
        let signal = if CLIPPED.0 <= clipped { Some(true) } else { None };
        let signal = if clipped <= CLIPPED.1 { Some(false) } else { signal };
        events.extend(self.over_exposed.update(now, signal, clipped));

        events.extend(self.frozen.detect(now, facts));
        events.extend(self.flicker.detect(now, picture));
        events.extend(self.shift.detect(now, picture, self.texel_px));
        let is_clear = is_free && clipped <= CLIPPED.1 && !self.shift.has_shifted();
        let cut = self.cut.detect(now, picture, is_clear);
        let is_new_scene = cut.is_some() || self.shift.is_moving() || is_covered;
        events.extend(cut);
        self.arrivals.detect(now, elapsed_s, coarse, is_new_scene, &mut events);
        self.picture.keep();
        events
    }

    /// Masks cover `texels` of the coarse level from the next frame on: forgets what was seen there. Measures of the whole picture, such as
    /// its mean in time, stay.
    pub fn apply_mask(&mut self, texels: &TileSet) {
        let Self { picture, cut, shift, arrivals, .. } = self;
        for luma in [&mut picture.before, &mut cut.old, &mut shift.key] {
            texels.indices().for_each(|index| luma[index] = 0);
        }
        arrivals.apply_mask(texels);
    }

    /// Whether a state holds now.
    pub fn holds(&self, kind: EventKind) -> bool {
        self.states().iter().any(|state| state.kind() == kind && state.is_on())
    }

    /// The beginnings of the states that hold now, told at the newest frame, for those who come later.
    pub fn present(&self) -> impl Iterator<Item = Event> {
        let now = self.now;
        self.states().into_iter().filter_map(move |state| state.present(now))
    }

    /// Ends what holds, because what follows is another picture; continues with a source of `extent`.
    pub fn restart(&mut self, extent: Extent) -> Events {
        let now = self.now;
        let ended = self.states().into_iter().filter_map(|state| state.ended(now)).collect();
        let given_ns = self.given_ns;
        *self = Self { now, given_ns, ..Self::new(extent) };
        ended
    }

    /// Columns and rows of the coarse level.
    pub fn grid(&self) -> Extent {
        self.picture.grid
    }

    /// The size of the pictures.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    fn states(&self) -> [&Hysteresis; 5] {
        let Self { covered, over_exposed, frozen, flicker, shift, .. } = self;
        [shift.state(), covered, over_exposed, frozen.state(), flicker.state()]
    }

    /// Moves on to the frame of `at`. Returns the time since the frame before in seconds: 0 where time goes back, as at the end
    /// of a round of a clip.
    fn advance(&mut self, at: FrameTime) -> f64 {
        let before_ns = self.given_ns.replace(at.time_ns).unwrap_or(at.time_ns);
        let elapsed_ns = at.time_ns.saturating_sub(before_ns);
        self.now = FrameTime { time_ns: self.now.time_ns.saturating_add(elapsed_ns), ..at };
        elapsed_ns as f64 / 1e9
    }
}
