//! Which depth picture belongs to a frame: the nearest in time, within a bound.

use std::collections::VecDeque;

/// Most depth pictures that wait for frames. Each holds a buffer of its pipeline.
pub const WAITING_MAX: usize = 8;

/// Frames without depth that are remembered, to notice that their depth comes late.
const UNPAIRED_MAX: usize = 8;

/// A time that only grows: when a clip starts over, the next round begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Times that the clip has started over.
    pub round: u64,
    /// Time within the round, in nanoseconds.
    pub ns: u64,
}

impl Moment {
    /// Distance to another moment of the same round, in nanoseconds; `None` between rounds.
    fn distance_ns(self, other: Self) -> Option<u64> {
        (self.round == other.round).then(|| self.ns.abs_diff(other.ns))
    }
}

/// A larger step back in time is a restart of the source, not a few pictures out of order.
const JUMP_NS: u64 = 500_000_000;

/// Counts the rounds of a clip.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClipRounds {
    /// The first and the last picture of the round; `None` before any.
    pictures: Option<(u64, Moment)>,
}

impl ClipRounds {
    /// The moment of the next picture, whose time is `ns`. A round begins with a time that is no later than that of the
    /// first picture of the round before, or long before that of its last picture.
    pub fn moment(&mut self, ns: u64) -> Moment {
        let (first_ns, at) = match self.pictures {
            None => (ns, Moment { round: 0, ns }),
            Some((first_ns, last)) if ns <= first_ns || ns.saturating_add(JUMP_NS) < last.ns => {
                (ns, Moment { round: last.round + 1, ns })
            }
            Some((first_ns, last)) => (first_ns, Moment { ns, ..last }),
        };
        self.pictures = Some((first_ns, at));
        at
    }
}

/// Depth pictures that wait for frames, and the one that the newest frame was paired with.
#[derive(Debug)]
pub struct Pairing<T> {
    bound_ns: u64,
    /// Waiting pictures, in the order of arrival.
    waiting: VecDeque<WaitingPicture<T>>,
    /// Frames without depth, the newest last.
    unpaired: VecDeque<Moment>,
}

#[derive(Debug)]
struct WaitingPicture<T> {
    at: Moment,
    picture: T,
    is_taken: bool,
}

impl<T> Pairing<T> {
    /// Pairs pictures that are at most `bound_ns` nanoseconds apart.
    pub fn new(bound_ns: u64) -> Self {
        let (waiting, unpaired) =
            (VecDeque::with_capacity(WAITING_MAX), VecDeque::with_capacity(UNPAIRED_MAX));
        Self { bound_ns, waiting, unpaired }
    }

    /// Adds a depth picture of `at`. Returns whether it is late, so that a frame of its time had to do without, and whether the oldest was
    /// dropped to make room for it before any frame took it.
    pub fn add(&mut self, at: Moment, picture: T) -> (bool, bool) {
        let is_full = self.waiting.len() == WAITING_MAX;
        let oldest = if is_full { self.waiting.pop_front() } else { None };
        let before = self.unpaired.len();
        let bound_ns = self.bound_ns;
        self.unpaired.retain(|frame| !is_within(frame.distance_ns(at), bound_ns));
        let is_late = self.unpaired.len() < before;
        self.waiting.push_back(WaitingPicture { at, picture, is_taken: false });
        (is_late, oldest.is_some_and(|oldest| !oldest.is_taken))
    }

    /// Whether no later picture could be nearer to a frame of `at`, as those of one pipeline come in order.
    pub fn is_settled(&self, at: Moment) -> bool {
        self.waiting.back().is_some_and(|newest| at <= newest.at)
    }

    /// The picture nearest to a frame of `at`, the earlier of two; `None` if none is within the bound. Drops the pictures before it, and
    /// those too old for this frame and so for all later ones. Also returns how many of the dropped pictures no frame has taken.
    pub fn pair(&mut self, at: Moment) -> (Option<&T>, u64) {
        let mut dropped = 0;
        let is_over = |waiting: &WaitingPicture<T>| {
            waiting.at < at && !is_within(waiting.at.distance_ns(at), self.bound_ns)
        };
        self.waiting.retain(|waiting| {
            let is_kept = !is_over(waiting);
            dropped += u64::from(!is_kept && !waiting.is_taken);
            is_kept
        });
        let near = self.waiting.iter().enumerate().filter_map(|(index, waiting)| {
            let distance = waiting.at.distance_ns(at)?;
            (distance <= self.bound_ns).then_some((distance, index))
        });
        let Some((_, index)) = near.min() else {
            if self.unpaired.len() == UNPAIRED_MAX {
                self.unpaired.pop_front();
            }
            self.unpaired.push_back(at);
            return (None, dropped);
        };
        let passed = self.waiting.drain(..index);
        dropped += passed.filter(|waiting| !waiting.is_taken).count() as u64;
        let found = &mut self.waiting[0];
        found.is_taken = true;
        (Some(&found.picture), dropped)
    }

    /// Gives all pictures other moments, in their order, and forgets the frames that had none.
    pub fn retime(&mut self, mut moment: impl FnMut(&T) -> Moment) {
        self.waiting.iter_mut().for_each(|waiting| waiting.at = moment(&waiting.picture));
        self.unpaired.clear();
    }
}

fn is_within(distance_ns: Option<u64>, bound_ns: u64) -> bool {
    distance_ns.is_some_and(|distance| distance <= bound_ns)
}
