//! Timelines: states, events in the picture, fixations and drops of each view in the last hour, while somebody watched it.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use serde::Serialize;

use crate::history::unix_ms;
use foveate::messages::ViewName;
use foveate_core::event::Event;
use foveate_core::geometry::fixation::Fixation;

/// Age limit of entries, in milliseconds.
const SPAN_MS: f64 = 3_600_000.0;

/// Most entries of each band of a timeline; the newest replace the oldest of the same band.
const ENTRIES_MAX: [usize; Band::COUNT] = [512, 1024, 4096, 1024];

/// Most timelines; the views that were watched last have them.
const TIMELINES_MAX: usize = 64;

/// Drops within this time of each other are one entry, in milliseconds.
const DROPS_JOINED_MS: f64 = 2000.0;

/// A row of the timeline.
#[derive(Clone, Copy, Debug)]
enum Band {
    States,
    Events,
    Fixations,
    Drops,
}

impl Band {
    const COUNT: usize = 4;
}

/// An entry of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TimelineEntry {
    /// Grows with each entry of a timeline, from 1; an entry that has changed gets a new one.
    pub(crate) serial: u64,
    /// Time in milliseconds since 1970.
    pub(crate) at_ms: f64,
    #[serde(flatten)]
    pub(crate) what: TimelineFact,
}

/// The kinds of entries.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "band", rename_all = "snake_case")]
pub enum TimelineFact {
    /// The view's state from now on.
    State {
        /// `live`, `stalled`, `ended` and so on; `unwatched` while no page shows the view.
        state: String,
        /// The reason, in words; may be empty.
        reason: String,
    },
    /// Something happened in the picture.
    Event {
        /// Kind of the event, such as `covered`.
        kind: String,
        /// `once`, `began` or `ended`.
        phase: String,
        /// Left, top, right and bottom in source pixels; absent for the whole picture.
        region: Option<[f64; 4]>,
        /// Strength of the event.
        value: f64,
    },
    /// The view looks at a new point.
    Fixation {
        /// Why the view looks there.
        reason: String,
        /// Column in source pixels.
        x: f64,
        /// Row in source pixels.
        y: f64,
    },
    /// The daemon dropped frames of the stream.
    Drops {
        /// Number of dropped frames.
        count: u64,
    },
}

impl TimelineFact {
    /// The entry of an event in the picture.
    pub fn of_event(event: &Event) -> Self {
        Self::Event {
            kind: event.kind.to_string(),
            phase: event.phase.to_string(),
            region: event.region.map(|region| [region.x0, region.y0, region.x1, region.y1]),
            value: event.value,
        }
    }

    fn band(&self) -> Band {
        match self {
            Self::State { .. } => Band::States,
            Self::Event { .. } => Band::Events,
            Self::Fixation { .. } => Band::Fixations,
            Self::Drops { .. } => Band::Drops,
        }
    }
}

/// The timeline of a view.
#[derive(Debug, Default)]
pub struct Timeline {
    bands: [VecDeque<TimelineEntry>; Band::COUNT],
    serial: u64,
    /// Id of the newest fixation.
    fixation: u64,
    /// Count of dropped frames so far, as the daemon says.
    dropped: Option<u64>,
}

impl Timeline {
    /// Adds what happened at `at_ms`.
    pub fn add(&mut self, at_ms: f64, what: TimelineFact) {
        let band = what.band() as usize;
        let entries = &mut self.bands[band];
        if let TimelineFact::State { .. } = what
            && entries.back().is_some_and(|newest| newest.what == what)
        {
            return;
        }
        self.serial += 1;
        if let (TimelineFact::Drops { count }, Some(newest)) = (&what, entries.back_mut())
            && let TimelineFact::Drops { count: sum } = &mut newest.what
            && at_ms - newest.at_ms < DROPS_JOINED_MS
        {
            *sum += count;
            newest.serial = self.serial;
            return;
        }
        if entries.len() == ENTRIES_MAX[band] {
            entries.pop_front();
        }
        entries.push_back(TimelineEntry { serial: self.serial, at_ms, what });
    }

    /// Adds those fixations of a frame that are new.
    pub fn add_fixations(&mut self, at_ms: f64, fixations: &[Fixation]) {
        let newest = fixations.iter().map(|fixation| fixation.id).max().unwrap_or_default();
        if newest < self.fixation {
            // The view restarted.
            self.fixation = 0;
        }
        let known = self.fixation;
        for fixation in fixations.iter().filter(|fixation| known < fixation.id) {
            let (x, y, reason) = (fixation.x, fixation.y, fixation.reason.to_string());
            self.add(at_ms, TimelineFact::Fixation { reason, x, y });
        }
        self.fixation = newest;
    }

    /// Notes how many frames the daemon has dropped in all.
    fn note_dropped(&mut self, at_ms: f64, dropped: u64) {
        let before = self.dropped.replace(dropped);
        let count = before.map_or(0, |before| dropped.saturating_sub(before));
        if 0 < count {
            self.add(at_ms, TimelineFact::Drops { count });
        }
    }

    /// Drops entries from before the last hour. The newest state stays, as it still holds.
    fn prune(&mut self, now_ms: f64) {
        for (band, entries) in self.bands.iter_mut().enumerate() {
            let least = usize::from(band == Band::States as usize);
            while least < entries.len() && entries[least].at_ms < now_ms - SPAN_MS {
                entries.pop_front();
            }
        }
    }

    /// Entries after `serial`, by band.
    pub(crate) fn since(&self, serial: u64) -> Vec<TimelineEntry> {
        let entries = self.bands.iter().flatten();
        entries.filter(|entry| serial < entry.serial).cloned().collect()
    }

    /// Serial of the newest entry.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    fn newest_ms(&self) -> f64 {
        let newest = self.bands.iter().filter_map(|entries| entries.back());
        newest.map(|entry| entry.at_ms).fold(0.0, f64::max)
    }
}

/// The timelines of views.
#[derive(Debug, Default)]
pub(crate) struct Timelines(Mutex<HashMap<ViewName, Timeline>>);

impl Timelines {
    /// Changes the timeline of `view`, with the time.
    pub(crate) fn with<T>(
        &self,
        view: &ViewName,
        change: impl FnOnce(&mut Timeline, f64) -> T,
    ) -> T {
        let now_ms = unix_ms();
        let mut timelines = self.0.lock();
        if !timelines.contains_key(view) && TIMELINES_MAX <= timelines.len() {
            let oldest = timelines
                .iter()
                .min_by(|(_, one), (_, other)| one.newest_ms().total_cmp(&other.newest_ms()));
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                timelines.remove(&name);
            }
        }
        let timeline = timelines.entry(view.clone()).or_default();
        timeline.prune(now_ms);
        change(timeline, now_ms)
    }

    /// Entries of `view` after `serial`, and the serial of the newest one. A page may name any view, so this makes no timeline.
    pub(crate) fn since(&self, view: &ViewName, serial: u64) -> (Vec<TimelineEntry>, u64) {
        let timelines = self.0.lock();
        let timeline = timelines.get(view);
        timeline.map(|timeline| (timeline.since(serial), timeline.serial())).unwrap_or_default()
    }

    /// The state of `view` from now on.
    pub(crate) fn note_state(&self, view: &ViewName, state: &str, reason: &str) {
        let (state, reason) = (state.to_owned(), reason.to_owned());
        let what = TimelineFact::State { state, reason };
        self.with(view, |timeline, now_ms| timeline.add(now_ms, what));
    }

    /// Notes how many frames the daemon has dropped of the stream of each view that has a timeline.
    pub(crate) fn note_dropped(&self, stream: &str, dropped: u64) {
        let now_ms = unix_ms();
        let mut timelines = self.0.lock();
        for (view, timeline) in timelines.iter_mut() {
            if view.stream() == stream {
                timeline.note_dropped(now_ms, dropped);
            }
        }
    }
}
