//! Inhibition of return: places that were looked at weigh less for a while.
//!
//! See Posner and Cohen, "Components of visual orienting", Attention and Performance X (1984), and Klein, "Inhibition of
//! return", Trends in Cognitive Sciences 4 (2000). It moves with objects, as in Tipper, Driver and Weaver, "Object-centred
//! inhibition of return of visual attention", Quarterly Journal of Experimental Psychology 43A (1991).

/// Most places remembered for each fovea; the oldest of all is dropped first.
const TRACES_MAX: usize = 32;

/// Decay times after which a trace is gone; an exponential would then be at 0.7 %.
const LAST_DECAYS: f64 = 5.0;

/// Places that were looked at.
#[derive(Debug)]
pub struct Inhibition {
    strength: f64,
    decay_ns: f64,
    traces_max: usize,
    traces: Vec<Trace>,
}

/// A place that was looked at, in cells of any grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trace {
    /// Column of its centre; the first cell's is at 0.5.
    pub x: f64,
    /// Row of its centre.
    pub y: f64,
    /// Whether the trace moves with the object under it.
    pub follows: bool,
    left_ns: u64,
}

impl Inhibition {
    /// Inhibition without traces, for a view of so many foveae. A place loses `strength` of its weight, 0..=1, decaying to 1/e in `decay_ms`.
    pub fn new(strength: f64, decay_ms: u32, foveae: usize) -> Self {
        let (decay_ns, traces_max) = (f64::from(decay_ms) * 1e6, foveae * TRACES_MAX);
        Self { strength, decay_ns, traces_max, traces: Vec::with_capacity(traces_max) }
    }

    /// Adds a trace at a place, and drops those within `radius` of it.
    pub fn look(&mut self, x: f64, y: f64, follows: bool, radius: f64, now_ns: u64) {
        self.traces.retain(|trace| radius < (trace.x - x).hypot(trace.y - y));
        if self.traces.len() == self.traces_max {
            self.traces.remove(0);
        }
        self.traces.push(Trace { x, y, follows, left_ns: now_ns });
    }

    /// Drops traces that have decayed.
    pub fn forget(&mut self, now_ns: u64) {
        let (strength, decay_ns) = (self.strength, self.decay_ns);
        self.traces.retain(|trace| 0.0 < strength_of(trace, strength, decay_ns, now_ns));
    }

    /// The traces, oldest first.
    pub fn traces_mut(&mut self) -> &mut [Trace] {
        &mut self.traces
    }

    /// Reduces the cells, in rows of `width`, by a Gaussian of `radius` cells around each trace.
    pub fn inhibit(&self, cells: &mut [f32], width: usize, radius: f64, now_ns: u64) {
        for trace in &self.traces {
            let strength = strength_of(trace, self.strength, self.decay_ns, now_ns);
            darken(cells, width, (trace.x, trace.y), strength, (radius, radius));
        }
    }

    /// Fraction of its weight that a cell with its centre at (`x`, `y`) keeps.
    pub fn kept(&self, x: f64, y: f64, radius: f64, now_ns: u64) -> f64 {
        let loss = |trace: &Trace| {
            let strength = strength_of(trace, self.strength, self.decay_ns, now_ns);
            strength * gaussian(x - trace.x, radius) * gaussian(y - trace.y, radius)
        };
        self.traces.iter().map(|trace| 1.0 - loss(trace)).product()
    }
}

/// Current strength of a trace.
fn strength_of(trace: &Trace, strength: f64, decay_ns: f64, now_ns: u64) -> f64 {
    let decays = now_ns.saturating_sub(trace.left_ns) as f64 / decay_ns;
    if decays < LAST_DECAYS { strength * (-decays).exp() } else { 0.0 }
}

/// Most cells along an axis: the longest side of a map that scores were painted on.
const REACH_MAX: usize = 512;

/// Takes `strength`, 0..=1, of the weight of a place from cells in rows of `width`, and less around it: a Gaussian with the
/// standard deviations `radius` along x and y. All in cells.
#[expect(clippy::cast_possible_truncation, reason = "shares, 0..=1")]
pub(super) fn darken(
    cells: &mut [f32],
    width: usize,
    (x, y): (f64, f64),
    strength: f64,
    radius: (f64, f64),
) {
    let height = cells.len() / width;
    let columns = reached(x, radius.0, width);
    let rows = reached(y, radius.1, height);
    let mut across = [0f32; REACH_MAX];
    for (share, column) in across.iter_mut().zip(columns.clone()) {
        *share = gaussian(column as f64 + 0.5 - x, radius.0) as f32;
    }
    for row in rows {
        let loss = (strength * gaussian(row as f64 + 0.5 - y, radius.1)) as f32;
        let cells = &mut cells[row * width..][columns.clone()];
        for (cell, share) in cells.iter_mut().zip(&across) {
            *cell *= 1.0 - loss * share;
        }
    }
}

/// The cells, of `count`, within three radii of a place: beyond, a Gaussian is below 1.2 %.
#[expect(clippy::cast_possible_truncation, reason = "a cell, cut at 0 and at the count")]
pub(super) fn reached(place: f64, radius: f64, count: usize) -> std::ops::Range<usize> {
    let end = ((place + 3.0 * radius).ceil() as usize).min(count);
    ((place - 3.0 * radius).floor() as usize).min(end)..end
}

/// A Gaussian, 1 in its centre.
pub(super) fn gaussian(offset: f64, radius: f64) -> f64 {
    (-0.5 * (offset / radius) * (offset / radius)).exp()
}
