//! Parameters of gaze control.

use foveate_core::value::{Real, Whole, checked};

/// Parameters of gaze control. Times are the stream's: presentation times, where there are any. `docs/reference/gaze.md` says what each is for
/// and where its default comes from.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct GazeParameters {
    /// Decisions a second, 0.01 to 1000; at most one a frame. People make three to four saccades a second in a scene: Rayner,
    /// "Eye movements in reading and information processing", Psychological Bulletin 124 (1998).
    #[serde(deserialize_with = "checked::<Real<1, 100_000>, _, _>")]
    pub saccade_hz: f64,
    /// Least time in milliseconds between a saccade and the next one that a map asks for, 0 to 10000. The time that it takes to
    /// plan a saccade, as Rayner has it.
    #[serde(deserialize_with = "checked::<Whole<0, 10_000>, _, _>")]
    pub dwell_min_ms: u32,
    /// Factor by which another place must beat the present one, 1 to 10.
    #[serde(deserialize_with = "checked::<Real<100, 1_000>, _, _>")]
    pub hysteresis: f64,
    /// How much less the edge of the image counts than its centre, 0 (as much) to 1 (nothing). Tatler, "The central fixation bias
    /// in scene viewing", Journal of Vision 7 (2007).
    #[serde(deserialize_with = "checked::<Real<0, 100>, _, _>")]
    pub centre_prior: f64,
    /// How much a map weighs on the layout: its exponent, 0 (nothing) to 1.
    #[serde(deserialize_with = "checked::<Real<0, 100>, _, _>")]
    pub relevance_gain: f64,
    /// Whether a map about an earlier frame, and a `look` at one, are moved along with what has moved since.
    pub compensation: bool,
    /// Whether a fixation that a map or a `look` chose follows what it is at, until the next saccade.
    pub pursuit: bool,
    /// The fastest thing that is followed, in longer sides of the image a second, 0.01 to 10. People follow what moves by up to 90
    /// degrees a second or so: Meyer, Lasker and Robinson, "The upper limit of human smooth pursuit velocity", Vision Research 25
    /// (1985); a lens of 90 degrees has those in its longer side.
    #[serde(deserialize_with = "checked::<Real<1, 1_000>, _, _>")]
    pub pursuit_speed_max: f64,
    /// Silence of all clients in milliseconds after which the policy takes over, 1 to 3600000.
    #[serde(deserialize_with = "checked::<Whole<1, 3_600_000>, _, _>")]
    pub silence_ms: u32,
    /// Silence of the client that steers a view in milliseconds after which another one may, 1 to 3600000.
    #[serde(deserialize_with = "checked::<Whole<1, 3_600_000>, _, _>")]
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
