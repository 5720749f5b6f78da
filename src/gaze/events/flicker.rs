//! Detects flicker: most of the picture changes its brightness periodically, at one frequency.
//!
//! Lamps on mains flicker faster than cameras take frames, so what is seen is a beat, and with a rolling shutter, bands that
//! wander over the picture while its mean stays. So the means of some bands of rows are followed, each by the power spectrum of its
//! last frames (Hann's window; Harris, On the use of windows for harmonic analysis, Proceedings of the IEEE 66, 1978). A person
//! who walks by changes few bands, and neither periodically nor all at one frequency.

use arrayvec::ArrayVec;

use super::picture::PictureStats;
use super::state::Hysteresis;
use foveate_core::event::{Event, EventKind};
use foveate_core::frame::FrameTime;

/// Frames of a spectrum.
const WINDOW: usize = 64;

/// Frames from one spectrum to the next.
const STRIDE: u32 = 8;

/// Bands of rows, at most.
const BANDS_MAX: usize = 12;

/// Fewest periods in a window: slower changes are light or an exposure that settles.
const PERIODS_MIN: usize = 5;

/// Hann's window widens a line of the spectrum by this on either side.
const LINE_HALF: usize = 2;

/// Least amplitude of a band, in levels of luma of 255, and the share of the power of all frequencies that one must have.
const AMPLITUDE_MIN: f64 = 1.5;
const LINE_SHARE: f64 = 0.6;

/// Shares of the bands that flicker at one frequency: at least the first begins it, at most the second ends it.
const BANDS: (f64, f64) = (0.6, 0.3);

/// Milliseconds for which bands must flicker, and then not flicker.
const LEAST_MS: [u32; 2] = [500, 1000];

#[derive(Clone, Debug)]
pub(super) struct Flicker {
    state: Hysteresis,
    /// Mean luma of each band in the last frames; frame n is at n modulo [`WINDOW`].
    means: Vec<[f64; BANDS_MAX]>,
    times: Vec<u64>,
    count: usize,
    until_next: u32,
    /// One period of a cosine.
    cosine: [f64; WINDOW],
}

impl Flicker {
    pub(super) fn new() -> Self {
        Self {
            state: Hysteresis::new(EventKind::Flicker, LEAST_MS),
            means: vec![[0.0; BANDS_MAX]; WINDOW],
            times: vec![0; WINDOW],
            count: 0,
            until_next: STRIDE,
            cosine: cosine(),
        }
    }

    pub(super) fn state(&self) -> &Hysteresis {
        &self.state
    }

    pub(super) fn detect(&mut self, now: FrameTime, picture: &PictureStats) -> Option<Event> {
        let band_count = (picture.grid.height as usize).min(BANDS_MAX);
        let slot = self.count % WINDOW;
        for (band, mean) in self.means[slot].iter_mut().enumerate().take(band_count) {
            *mean = mean_of_band(picture, band, band_count);
        }
        self.times[slot] = now.time_ns;
        self.count += 1;
        self.until_next -= 1;
        if 0 < self.until_next {
            return None;
        }
        self.until_next = STRIDE;
        if self.count < WINDOW {
            return None;
        }
        let (share, periods) = self.common_line(band_count);
        let signal =
            if BANDS.0 <= share { Some(true) } else { (share <= BANDS.1).then_some(false) };
        self.state.update(now, signal, self.hertz(periods, now))
    }

    /// The share of bands that flicker at the frequency at which most do, and that frequency in periods a window.
    fn common_line(&self, band_count: usize) -> (f64, f64) {
        let lines: ArrayVec<f64, BANDS_MAX> =
            (0..band_count).filter_map(|band| self.line_of(band)).collect();
        let near = |line: f64| lines.iter().filter(move |other| (*other - line).abs() <= 1.0);
        let most = lines.iter().map(|line| (near(*line).count(), *line));
        let (count, line) =
            most.fold((0, 0.0), |best, next| if best.0 < next.0 { next } else { best });
        (count as f64 / band_count as f64, line)
    }

    /// The frequency of a band's line in its spectrum, in periods a window; `None` if it has none that stands out.
    fn line_of(&self, band: usize) -> Option<f64> {
        let oldest = self.count % WINDOW;
        let at = |index: usize| self.means[(oldest + index) % WINDOW][band];
        let mean = (0..WINDOW).map(at).sum::<f64>() / WINDOW as f64;
        let mut windowed = [0.0; WINDOW];
        for (index, windowed) in windowed.iter_mut().enumerate() {
            *windowed = (at(index) - mean) * 0.5 * (1.0 - self.cosine[index]);
        }
        let mut powers = [0.0; WINDOW / 2 + 1];
        for (periods, power) in powers.iter_mut().enumerate().skip(1) {
            *power = self.power(&windowed, periods);
        }
        let total = powers.iter().sum::<f64>();
        let around = |peak: usize| peak - LINE_HALF..(peak + LINE_HALF + 1).min(powers.len());
        let peaks = PERIODS_MIN..powers.len();
        let peak = peaks.fold(
            PERIODS_MIN,
            |best, next| {
                if powers[best] < powers[next] { next } else { best }
            },
        );
        let line = powers[around(peak)].iter().sum::<f64>();
        // A sine of amplitude a has the power 3 / 32 a^2 n^2 in its line.
        let amplitude = (line * 32.0 / 3.0).sqrt() / WINDOW as f64;
        if amplitude < AMPLITUDE_MIN || line < LINE_SHARE * total {
            return None;
        }
        let moment: f64 = around(peak).map(|periods| periods as f64 * powers[periods]).sum();
        Some(moment / line)
    }

    fn power(&self, windowed: &[f64; WINDOW], periods: usize) -> f64 {
        let (mut real, mut imaginary) = (0.0, 0.0);
        for (index, value) in windowed.iter().enumerate() {
            let phase = index * periods % WINDOW;
            real += value * self.cosine[phase];
            imaginary += value * self.cosine[(phase + 3 * WINDOW / 4) % WINDOW];
        }
        real * real + imaginary * imaginary
    }

    /// Periods a window as Hertz, by the times of its frames; 0 if those stand still.
    fn hertz(&self, periods: f64, now: FrameTime) -> f64 {
        let oldest_ns = self.times[self.count % WINDOW];
        let window_s = (now.time_ns - oldest_ns) as f64 / 1e9 * WINDOW as f64 / (WINDOW - 1) as f64;
        if 0.0 < window_s { periods / window_s } else { 0.0 }
    }
}

fn mean_of_band(picture: &PictureStats, band: usize, band_count: usize) -> f64 {
    let height = picture.grid.height as usize;
    let rows = band * height / band_count..(band + 1) * height / band_count;
    let luma = &picture.luma[rows.start * picture.width()..rows.end * picture.width()];
    luma.iter().map(|luma| u64::from(*luma)).sum::<u64>() as f64 / luma.len() as f64
}

/// One period of a cosine, from square roots alone: those are exact to the last bit on every machine.
fn cosine() -> [f64; WINDOW] {
    let half_angle = |cosine: f64| ((1.0 + cosine) / 2.0).sqrt();
    let step = (0..4).fold(0.0, |cosine, _| half_angle(cosine));
    let mut table = [0.0; WINDOW];
    (table[0], table[1]) = (1.0, step);
    for index in 2..WINDOW {
        // cos (n + 1) x = 2 cos x cos n x - cos (n - 1) x
        table[index] = 2.0 * step * table[index - 1] - table[index - 2];
    }
    table
}
