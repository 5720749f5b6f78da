//! Frame rate, age and losses as a reader sees them. Pure arithmetic, without a clock.

use std::collections::VecDeque;

/// Window of [`Meter::recent`], in nanoseconds.
const WINDOW_NS: u64 = 2_000_000_000;

/// Ages that a summary covers: the newest of a longer run.
const AGES_MAX: usize = 100_000;

/// One token frame, as its reader saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation {
    /// Time of the frame's publication, in nanoseconds.
    pub(crate) publish_ns: u64,
    /// Time of the read, in nanoseconds.
    pub(crate) read_ns: u64,
    /// Time from the frame's capture to the read, in nanoseconds.
    pub(crate) age_ns: u64,
    /// Consecutive for frames that the pipeline delivered.
    pub(crate) frame_seq: u64,
    /// Frames published since the previous one and overwritten before they were read.
    pub(crate) lapped: u64,
}

/// Accumulates observations.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    frames: u64,
    dropped: u64,
    lapped: u64,
    /// Publication of the first frame and of the last.
    first_ns: u64,
    last_ns: u64,
    /// `None` before the first frame.
    last_frame_seq: Option<u64>,
    /// The newest [`AGES_MAX`] ages, as a ring.
    ages_ns: Vec<u64>,
    /// Frames of the last [`WINDOW_NS`].
    recent: VecDeque<Observation>,
}

/// Rate and age over a time span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FrameRates {
    /// Frames per second, of those that were read, by the times of their publication: several may be read at once.
    pub(crate) fps: f64,
    /// Median age, in nanoseconds; `None` without a frame.
    pub(crate) age_p50_ns: Option<u64>,
    /// 99th percentile of the age, in nanoseconds; `None` without a frame.
    pub(crate) age_p99_ns: Option<u64>,
}

impl Meter {
    /// Counts a frame.
    pub(crate) fn observe(&mut self, observation: Observation) {
        let Observation { publish_ns, read_ns, age_ns, frame_seq, lapped } = observation;
        if self.frames == 0 {
            self.first_ns = publish_ns;
        }
        // Missing frames that were not published were dropped.
        let missing = self.last_frame_seq.map_or(0, |last| frame_seq.saturating_sub(last + 1));
        self.dropped += missing.saturating_sub(lapped);
        self.lapped += lapped;
        self.last_frame_seq = Some(frame_seq);
        self.last_ns = publish_ns;

        let oldest = usize::try_from(self.frames).unwrap_or(usize::MAX) % AGES_MAX;
        match self.ages_ns.get_mut(oldest) {
            Some(age) => *age = age_ns,
            None => self.ages_ns.push(age_ns),
        }
        self.frames += 1;
        self.recent.push_back(observation);
        while self.recent.front().is_some_and(|seen| seen.read_ns + WINDOW_NS < read_ns) {
            self.recent.pop_front();
        }
    }

    /// Frames that were read.
    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    /// Frames captured but not published, or published in a segment that was replaced before it was read.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Frames overwritten before they were read.
    pub(crate) fn lapped(&self) -> u64 {
        self.lapped
    }

    /// Rates since the first frame.
    pub(crate) fn overall(&self) -> FrameRates {
        FrameRates::new(
            self.frames,
            self.last_ns.saturating_sub(self.first_ns),
            self.ages_ns.clone(),
        )
    }

    /// Rates over the two seconds before `now_ns`; 0 without a frame in them.
    pub(crate) fn recent(&self, now_ns: u64) -> FrameRates {
        let seen = self.recent.iter().filter(|seen| now_ns <= seen.read_ns + WINDOW_NS);
        let ages = seen.clone().map(|seen| seen.age_ns).collect::<Vec<_>>();
        let first_ns = seen.map(|seen| seen.publish_ns).next().unwrap_or(self.last_ns);
        FrameRates::new(ages.len() as u64, self.last_ns.saturating_sub(first_ns), ages)
    }
}

impl FrameRates {
    /// Rates of `frames` frames, `span_ns` between the first and the last.
    fn new(frames: u64, span_ns: u64, mut ages_ns: Vec<u64>) -> Self {
        ages_ns.sort_unstable();
        let intervals = frames.saturating_sub(1) as f64;
        let fps = if span_ns == 0 { 0.0 } else { intervals * 1e9 / span_ns as f64 };
        let age = |per_mille| (!ages_ns.is_empty()).then(|| quantile(&ages_ns, per_mille));
        let [age_p50_ns, age_p99_ns] = [500, 990].map(age);
        Self { fps, age_p50_ns, age_p99_ns }
    }
}

/// The value within which `per_mille` of `sorted` lie; 0 if there is none.
pub(super) fn quantile(sorted: &[u64], per_mille: usize) -> u64 {
    let rank = (sorted.len() * per_mille).div_ceil(1000);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests;
