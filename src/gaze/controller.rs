//! Where a view looks: the policies of configurations, and the controller that combines a policy and client feedback into the gaze.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::log::GazeLog;
use super::log::GazeLogError;
use super::need::Need;
use super::policy::FixationPolicy;
use super::policy::fixed::Fixed;
use super::policy::need::NeedPolicy;
use super::policy::replay::Replay;
use super::policy::several::{PolicyGroup, PolicyGroups};
use super::weigher::Weigher;
use super::weigher::channels::{ChannelWeigher, Scoring};
use super::weigher::saliency::SaliencyWeigher;
use crate::GazeParameters;
use crate::feedback::Feedback;
use crate::feedback::{CHANNEL_WEIGHT_MAX, CHANNEL_WEIGHTS_MAX};
use crate::relevance::injection::check_channel_name;
use crate::relevance::scene::Scene;
use crate::relevance::scorer::Scorer;
use crate::relevance::scorer::ScorerError;
use crate::relevance::seen::{FrameParts, Seen};
use foveate_core::frame::FrameTime;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FOVEAE_MAX, Gaze};
use foveate_core::geometry::tile::TileSet;
use foveate_core::value::{ConfigValue, Keys, one_of, path, real, whole};

/// What a view looks at when no client tells it otherwise. `Log` is the log that is replayed, or the path of one; `File` a
/// scorer, or the path of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Policy<Log = Arc<GazeLog>, File = Arc<Scorer>> {
    /// What a client asks for. While clients are silent, what the view needs most, weighed by the channels to which clients gave weights.
    #[default]
    Auto,
    /// One point, until a client moves the view to others.
    Fixed {
        /// Column of the point: 0 at the left edge of the source, 1 at the right one.
        x: f64,
        /// Row of the point: 0 at the top edge of the source, 1 at the bottom one.
        y: f64,
    },
    /// The attention that clients send. While they are silent, as [`Saliency`](Self::Saliency).
    Feedback,
    /// What the view needs most, weighed by what stands out or moves.
    Saliency,
    /// What the view needs most, weighed by what a scorer makes of the channels.
    Relevance {
        /// A trained scorer; `None` for the default one, which needs no training.
        scorer: Option<File>,
        /// What channels add to the score; see [`ChannelWeight`](crate::feedback::ChannelWeight). With the default
        /// scorer, they replace its weights.
        weights: BTreeMap<String, f32>,
        /// 2 to give the scorer its own first score as the channel `relevance`.
        passes: u32,
    },
    /// Replays a recorded gaze.
    Replay {
        /// The log that `foveate record` wrote.
        log: Log,
    },
    /// A policy for each fovea, in order: a list in configurations.
    Several {
        /// One for each fovea. Equal policies are neighbours.
        policy: Vec<FoveaPolicy>,
        /// Column of the point of foveae with the policy `fixed`, as in [`Fixed`](Self::Fixed).
        x: f64,
        /// Row of the point, like `x`.
        y: f64,
    },
}

/// Policy of one of several foveae, which looks where the [`Policy`] of the same name does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoveaPolicy {
    /// What clients ask for; while they are silent, what the view needs most.
    Auto,
    /// A fixed point.
    Fixed,
    /// The attention that clients send; while they are silent, saliency.
    Feedback,
    /// What the view needs most, weighed by what stands out or moves.
    Saliency,
    /// What the view needs most, weighed by what the default scorer makes of the channels.
    Relevance,
}

foveate_core::names!(FoveaPolicy {
    Auto = "auto",
    Fixed = "fixed",
    Feedback = "feedback",
    Saliency = "saliency",
    Relevance = "relevance",
});

impl FoveaPolicy {
    /// Whether the attention of clients moves the fovea.
    pub const fn is_feedback(self) -> bool {
        matches!(self, Self::Auto | Self::Feedback)
    }

    /// Whether channels move the fovea.
    pub const fn is_relevance(self) -> bool {
        matches!(self, Self::Auto | Self::Relevance)
    }

    /// The policy of a whole view; a fixed one looks at the point.
    fn to_policy(self, (x, y): (f64, f64)) -> Policy {
        match self {
            Self::Auto => Policy::Auto,
            Self::Fixed => Policy::Fixed { x, y },
            Self::Feedback => Policy::Feedback,
            Self::Saliency => Policy::Saliency,
            Self::Relevance => {
                Policy::Relevance { scorer: None, weights: BTreeMap::new(), passes: 1 }
            }
        }
    }
}

/// Column and row of the point of `fixed` by default.
const MIDDLE: f64 = 0.5;

fn point(x: &mut f64, y: &mut f64, keys: &mut dyn Keys) {
    keys.key("x", x, real(0.0..=1.0));
    keys.key("y", y, real(0.0..=1.0));
}

/// Weights of channels.
fn weights(given: &ConfigValue) -> Result<BTreeMap<String, f32>, String> {
    #[expect(clippy::cast_possible_truncation, reason = "a weight needs no more digits")]
    let weight = |(name, given): (&String, &ConfigValue)| {
        let weight = given.number().filter(|weight| weight.abs() <= CHANNEL_WEIGHT_MAX.into())?;
        check_channel_name(name).ok()?;
        Some((name.clone(), weight as f32))
    };
    let weights = match given {
        ConfigValue::Table(table) if table.len() <= CHANNEL_WEIGHTS_MAX => {
            table.iter().map(weight).collect()
        }
        _ => None,
    };
    let allowed = format_args!(
        "a table of at most {CHANNEL_WEIGHTS_MAX} channels with numbers within {CHANNEL_WEIGHT_MAX} of 0, such as {{ strokes = 2.0 }}"
    );
    given.expect(weights, allowed)
}

impl<Log, File> Policy<Log, File> {
    /// Name of the policy in configurations.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Fixed { .. } => "fixed",
            Self::Feedback => "feedback",
            Self::Saliency => "saliency",
            Self::Relevance { .. } => "relevance",
            Self::Replay { .. } => "replay",
            Self::Several { .. } => "several",
        }
    }

    /// Whether channels decide for a fovea, so that clients may inject and weigh them.
    pub fn is_relevance(&self) -> bool {
        matches!(self, Self::Auto | Self::Relevance { .. }) || self.is_of(FoveaPolicy::is_relevance)
    }

    /// Whether the attention of clients decides for a fovea.
    pub fn is_feedback(&self) -> bool {
        matches!(self, Self::Auto | Self::Feedback) || self.is_of(FoveaPolicy::is_feedback)
    }

    /// Whether what the view needs of the picture decides for a fovea.
    pub fn is_need(&self) -> bool {
        match self {
            Self::Auto | Self::Feedback | Self::Saliency | Self::Relevance { .. } => true,
            Self::Fixed { .. } | Self::Replay { .. } => false,
            Self::Several { .. } => self.is_of(|policy| policy != FoveaPolicy::Fixed),
        }
    }

    /// The most that decisions of the policy read of each frame. `pursues` says whether fixations follow moving objects.
    pub fn reads(&self, pursues: bool) -> FrameParts {
        let pursues = pursues && !matches!(self, Self::Replay { .. });
        FrameParts { coarse: pursues || self.is_need(), tiles: self.is_relevance() }
    }

    /// Fixations at a time of a view with this policy, whose layout has at most `most`. A list of policies has one fixation for each.
    pub fn foveae(&self, most: usize) -> usize {
        match self {
            Self::Several { policy, .. } => policy.len().min(most),
            _ => most,
        }
    }

    /// How many of a view's `foveae` a client's `look` moves.
    pub fn steered(&self, foveae: usize) -> usize {
        match self {
            Self::Replay { .. } => 0,
            Self::Several { policy, .. } => {
                policy.iter().filter(|policy| policy.is_feedback()).count()
            }
            _ => foveae,
        }
    }

    /// Whether the policy of one of several foveae is `wanted`.
    fn is_of(&self, wanted: impl Fn(FoveaPolicy) -> bool) -> bool {
        matches!(self, Self::Several { policy, .. } if policy.iter().copied().any(wanted))
    }
}

impl<Log, File> std::fmt::Display for Policy<Log, File> {
    /// Name of the policy, or names of several policies.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::Several { policy, .. } = self else { return f.write_str(self.name()) };
        let names: Vec<_> = policy.iter().map(|policy| policy.name()).collect();
        f.write_str(&names.join(", "))
    }
}

impl From<Policy<PathBuf, PathBuf>> for ConfigValue {
    fn from(policy: Policy<PathBuf, PathBuf>) -> Self {
        match policy {
            Policy::Several { policy, .. } => policy.into(),
            policy => policy.name().into(),
        }
    }
}

/// A file that a policy names and that cannot be used.
#[derive(Debug)]
pub enum PolicyFileError {
    /// The gaze log that it replays.
    Log(GazeLogError),
    /// The scorer cannot be used.
    Scorer(ScorerError),
}

impl std::fmt::Display for PolicyFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Log(error) => error.fmt(f),
            Self::Scorer(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PolicyFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Log(error) => error.source(),
            Self::Scorer(error) => error.source(),
        }
    }
}

impl Policy<PathBuf, PathBuf> {
    /// Each policy of a whole view, with the defaults of its keys.
    fn all() -> [Self; 6] {
        [
            Self::Auto,
            Self::Fixed { x: MIDDLE, y: MIDDLE },
            Self::Feedback,
            Self::Saliency,
            Self::Relevance { scorer: None, weights: BTreeMap::new(), passes: 1 },
            Self::Replay { log: PathBuf::new() },
        ]
    }

    /// The key of the policy, and its own beside it.
    pub fn keys(&mut self, keys: &mut dyn Keys) {
        let all = Self::all().map(|policy| (policy.name(), policy));
        keys.variant("policy", self, Self::from_config, all, |policy, keys| match policy {
            Self::Fixed { x, y } => point(x, y, keys),
            Self::Several { policy, x, y } if policy.contains(&FoveaPolicy::Fixed) => {
                point(x, y, keys);
            }
            Self::Relevance { scorer, weights: given, passes } => {
                keys.optional("scorer", scorer, path);
                keys.key("weights", given, weights);
                keys.key("passes", passes, whole(1..=2));
            }
            Self::Replay { log } => keys.key("log", log, path),
            Self::Auto | Self::Feedback | Self::Saliency | Self::Several { .. } => {}
        });
    }

    fn from_config(given: &ConfigValue) -> Result<Self, String> {
        if let ConfigValue::List(list) = given {
            let policy = list.iter().map(one_of).collect::<Result<_, _>>()?;
            return Ok(Self::Several { policy, x: MIDDLE, y: MIDDLE });
        }
        let names = Self::all().map(|policy| policy.name());
        let named = Self::all().into_iter().find(|policy| given.text() == Some(policy.name()));
        given.expect(named, format_args!("\"{}\", or a list of policies", names.join("\", \"")))
    }

    /// The policy, with its files.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or is not what it should be.
    pub fn load(&self) -> Result<Policy, PolicyFileError> {
        Ok(match self {
            Self::Auto => Policy::Auto,
            Self::Fixed { x, y } => Policy::Fixed { x: *x, y: *y },
            Self::Feedback => Policy::Feedback,
            Self::Saliency => Policy::Saliency,
            Self::Relevance { scorer, weights, passes } => {
                let load = |path: &PathBuf| Scorer::load(path).map_err(PolicyFileError::Scorer);
                let scorer = scorer.as_ref().map(load).transpose()?;
                let (scorer, weights) = (scorer.map(Arc::new), weights.clone());
                Policy::Relevance { scorer, weights, passes: *passes }
            }
            Self::Replay { log } => {
                let log = GazeLog::load(log).map_err(PolicyFileError::Log)?;
                Policy::Replay { log: Arc::new(log) }
            }
            Self::Several { policy, x, y } => {
                Policy::Several { policy: policy.clone(), x: *x, y: *y }
            }
        })
    }
}

/// Decides where one view looks.
///
/// Call for each frame [`accept_feedback`](Self::accept_feedback), then [`arrive`](Self::arrive), and once the frame was sampled
/// [`decide`](Self::decide), which chooses where the next frame is looked at. The same calls lead to the same gaze.
#[derive(Debug)]
pub struct Controller {
    policy: Box<dyn FixationPolicy>,
}

impl Controller {
    /// Starts to look at a source of `extent`, of which nothing has been seen yet, with at most `foveae` fixations at a time: 1 to
    /// [`FOVEAE_MAX`], or for [`Policy::Several`] the number of policies. `publishes_channels` says whether the channels of the
    /// [scene](Self::scene) are published.
    pub fn new(
        policy: Policy,
        parameters: GazeParameters,
        publishes_channels: bool,
        extent: Extent,
        foveae: usize,
        at: FrameTime,
    ) -> Self {
        assert!((1..=FOVEAE_MAX).contains(&foveae), "1 to 8 foveae");
        let builder = PolicyBuilder { parameters, publishes_channels, extent, at };
        Self { policy: builder.policy(policy, foveae) }
    }

    /// Gaze of the view.
    pub fn gaze(&self) -> &Gaze {
        self.policy.gaze()
    }

    /// Whether the newest feedback has been decided on.
    pub fn is_settled(&self) -> bool {
        self.policy.is_settled()
    }

    /// Whether the token plan of this frame must not depend on the plan before: a replayed log says that it did not in the recording.
    pub fn plans_afresh(&self) -> bool {
        self.policy.plans_afresh()
    }

    /// The channels, if the policy has them.
    pub fn scene(&self) -> Option<&Scene> {
        self.policy.scene()
    }

    /// Takes the newest feedback of clients from before the frame of `at`.
    pub fn accept_feedback(&mut self, feedback: &Feedback, at: FrameTime) {
        self.policy.accept_feedback(feedback, at);
    }

    /// The parts of a frame that the next decisions read: some of `most`, the parts that [the policy](Policy::reads) ever reads.
    pub fn reads(&self, most: FrameParts) -> FrameParts {
        self.policy.reads(most)
    }

    /// Goes on to the frame of `at`, which has arrived: the gaze is now the gaze for this frame. `seen` is the frame before, if there was
    /// one and the policy [reads](Self::reads) it.
    pub fn arrive(&mut self, at: FrameTime, seen: Option<Seen<'_>>) {
        self.policy.arrive(at, seen);
    }

    /// Decides, if it is time to, where the next frame is looked at. `seen` is the newest frame, if the policy reads it; `need` is what
    /// the view needs after that frame; `changed_frame` has for each tile, row by row, the newest frame that changed it.
    pub fn decide(&mut self, seen: Option<Seen<'_>>, need: &Need, changed_frame: &[u64]) {
        self.policy.decide(seen, need, changed_frame);
    }

    /// Masks cover `texels` of the coarse level from frame `frame_seq`, the next one, on: forgets what was seen there.
    pub fn apply_mask(&mut self, texels: &TileSet, frame_seq: u64) {
        self.policy.apply_mask(texels, frame_seq);
    }

    /// Keeps looking at the same part of the picture after the source changed its size.
    pub fn resize(&mut self, extent: Extent, at: FrameTime) {
        self.policy.resize(extent, at);
    }
}

/// Builds the policy of a view, or of some of its foveae.
struct PolicyBuilder {
    parameters: GazeParameters,
    publishes_channels: bool,
    extent: Extent,
    at: FrameTime,
}

impl PolicyBuilder {
    /// A policy that moves `foveae`.
    fn policy(&self, policy: Policy, foveae: usize) -> Box<dyn FixationPolicy> {
        let Self { parameters, extent, at, .. } = *self;
        match policy {
            Policy::Fixed { x, y } => Box::new(Fixed::new((x, y), parameters, extent, foveae, at)),
            Policy::Auto => {
                let scoring = Scoring { scorer: None, weights: BTreeMap::new(), passes: 1 };
                Box::new(self.weighed(self.channels(scoring, foveae), foveae).attending(extent))
            }
            Policy::Feedback => {
                Box::new(self.weighed(self.saliency(foveae), foveae).attending(extent))
            }
            Policy::Saliency => Box::new(self.weighed(self.saliency(foveae), foveae)),
            Policy::Relevance { scorer, weights, passes } => {
                let (scorer, weights) = match scorer {
                    Some(scorer) => (scorer, weights),
                    None if weights.is_empty() => (Arc::new(Scorer::untrained()), weights),
                    // The given weights replace the default's.
                    None => (Arc::new(Scorer::weighted(weights)), BTreeMap::new()),
                };
                let scoring = Scoring { scorer: Some(scorer), weights, passes };
                Box::new(self.weighed(self.channels(scoring, foveae), foveae))
            }
            Policy::Replay { log } => Box::new(Replay::new(log, extent, foveae, at)),
            Policy::Several { policy, x, y } => {
                assert_eq!(policy.len(), foveae, "a policy for each fovea");
                let group = |same: &[FoveaPolicy]| PolicyGroup {
                    policy: self.policy(same[0].to_policy((x, y)), same.len()),
                    name: same[0],
                };
                let groups = policy.chunk_by(|one, next| one == next).map(group);
                Box::new(PolicyGroups::new(groups.collect(), at))
            }
        }
    }

    fn weighed(&self, weigher: Weigher, foveae: usize) -> NeedPolicy {
        NeedPolicy::new(weigher, self.parameters, self.extent, foveae, self.at)
    }

    fn saliency(&self, foveae: usize) -> Weigher {
        let weigher = SaliencyWeigher::new(self.parameters, self.extent, foveae);
        Weigher::Saliency(Box::new(weigher))
    }

    fn channels(&self, scoring: Scoring, foveae: usize) -> Weigher {
        let Self { parameters, publishes_channels, extent, .. } = *self;
        let weigher = ChannelWeigher::new(scoring, publishes_channels, parameters, extent, foveae);
        Weigher::Channels(Box::new(weigher))
    }
}
