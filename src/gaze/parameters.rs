//! Parameters of gaze control.

use foveate_core::value::{Keys, real, switch, whole};

/// Parameters of gaze control. Times are the stream's: presentation times, where there are any. `docs/reference/gaze.md` says what each is for
/// and where its default comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GazeParameters {
    /// Decisions a second, 0.01 to 1000; at most one a frame. People make three to four saccades a second in a scene: Rayner,
    /// "Eye movements in reading and information processing", Psychological Bulletin 124 (1998).
    pub saccade_hz: f64,
    /// Least time in milliseconds between a saccade and the next one that a map asks for, 0 to 10000. The time that it takes to
    /// plan a saccade, as Rayner has it.
    pub dwell_min_ms: u32,
    /// Factor by which another place must beat the present one, 1 to 10.
    pub hysteresis: f64,
    /// How much less the edge of the image counts than its centre, 0 (as much) to 1 (nothing). Tatler, "The central fixation bias
    /// in scene viewing", Journal of Vision 7 (2007).
    pub centre_prior: f64,
    /// How much a map weighs on the layout: its exponent, 0 (nothing) to 1.
    pub relevance_gain: f64,
    /// Whether a map about an earlier frame, and a `look` at one, are moved along with what has moved since.
    pub compensation: bool,
    /// Whether a fixation that a map or a `look` chose follows what it is at, until the next saccade.
    pub pursuit: bool,
    /// The fastest thing that is followed, in longer sides of the image a second, 0.01 to 10. People follow what moves by up to 90
    /// degrees a second or so: Meyer, Lasker and Robinson, "The upper limit of human smooth pursuit velocity", Vision Research 25
    /// (1985); a lens of 90 degrees has those in its longer side.
    pub pursuit_speed_max: f64,
    /// Silence of all clients in milliseconds after which the policy takes over, 1 to 3600000.
    pub silence_ms: u32,
    /// Silence of the client that steers a view in milliseconds after which another one may, 1 to 3600000.
    pub lease_ms: u32,
}

impl Default for GazeParameters {
    fn default() -> Self {
        Self {
            saccade_hz: 4.0,
            dwell_min_ms: 150,
            hysteresis: 1.2,
            centre_prior: 0.2,
            relevance_gain: 0.5,
            compensation: true,
            pursuit: false,
            pursuit_speed_max: 1.0,
            silence_ms: 2000,
            lease_ms: 2000,
        }
    }
}

impl GazeParameters {
    /// Their keys.
    pub fn keys(&mut self, keys: &mut dyn Keys) {
        keys.key("saccade_hz", &mut self.saccade_hz, real(0.01..=1000.0));
        keys.key("dwell_min_ms", &mut self.dwell_min_ms, whole(0..=10_000));
        keys.key("hysteresis", &mut self.hysteresis, real(1.0..=10.0));
        keys.key("centre_prior", &mut self.centre_prior, real(0.0..=1.0));
        keys.key("relevance_gain", &mut self.relevance_gain, real(0.0..=1.0));
        keys.key("compensation", &mut self.compensation, switch);
        keys.key("pursuit", &mut self.pursuit, switch);
        keys.key("pursuit_speed_max", &mut self.pursuit_speed_max, real(0.01..=10.0));
        keys.key("silence_ms", &mut self.silence_ms, whole(1..=3_600_000));
        keys.key("lease_ms", &mut self.lease_ms, whole(1..=3_600_000));
    }
}
