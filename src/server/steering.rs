//! Checks client feedback, and hands it to the frame loop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::directory::{StreamEntry, ViewEntry};
use super::lease::ClientIdentity;
use crate::channel::FEEDBACK_PENDING_MAX;
use foveate::messages::{
    Attend, AttendTokens, Inject, Look, Looking, Refusal, RefusalReason, TTL_MS_DEFAULT, Weigh,
    is_coming_back,
};
use foveate_control::{StreamState, numbers};
use foveate_core::camera::rays::Rays;
use foveate_core::clock::monotonic_ns;
use foveate_core::ego::{EgoMotion, EgoTransform};
use foveate_core::geometry::attention::{AttentionError, AttentionMap};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FOVEAE_MAX, Points, snapped};
use foveate_core::geometry::region::Region;
use foveate_gaze::controller::Policy;
use foveate_gaze::feedback::{
    CHANNEL_WEIGHT_MAX, CHANNEL_WEIGHTS_MAX, ChannelWeight, Feedback, LookArea,
};
use foveate_gaze::layout::Layout;
use foveate_gaze::layout::adaptive::demand::ConsumerMemory;
use foveate_gaze::relevance::injection::{Injection, InjectionError, check_channel_name};

/// Why a policy without channels takes no maps and weights of them.
const NO_CHANNELS: &str = "has no channels to inject or to weigh";

/// Why a policy without a fovea that follows maps takes none.
const NO_MAPS: &str = "takes `look` but no attention maps";

/// The view that a client wants to steer.
#[derive(Clone, Copy, Debug)]
pub(super) struct SteeringRequest<'a> {
    pub(super) stream: &'a StreamEntry,
    pub(super) view: &'a Arc<ViewEntry>,
    pub(super) client: &'a ClientIdentity,
}

impl SteeringRequest<'_> {
    /// Handles `look`: moves the view to points or a box. Returns the ticket of the message in the channel of the view, and the answer.
    pub(super) fn look(self, look: &Look) -> Result<(u64, Looking), Refusal> {
        look.check()?;
        let has_fovea = |policy: &Policy<_, _>| 0 < policy.steered(1);
        let image = self.check_steers(has_fovea, "has no fovea that clients move", "feedback")?;
        self.check_known(look.frame)?;
        self.check_count(look.points.len())?;
        let transform = self.transform(look.ego_motion()?, image)?;
        let taken_for = self.taken_for(look.frame, look.strict, transform.is_some())?;
        let (mut points, size) = places_of(look, image)?;
        if let Some(transform) = &transform {
            points = transform.points_now(&points);
            if points.is_empty() {
                let what =
                    if size.is_some() { "not even the middle of the box" } else { "no point" };
                return Err(out_of_picture(what));
            }
        }
        points.iter_mut().for_each(|point| *point = snapped(image, point.0, point.1));
        let hold_ns = look.for_ms.map(|ms| u64::from(ms) * 1_000_000);
        // Points that ego motion moved are of the present, which no frame shows yet.
        let frame_seq = taken_for.or(look.frame).filter(|_| transform.is_none());
        let area = LookArea { size, share: look.share };
        let feedback = Feedback::Look { points: points.clone(), hold_ns, frame_seq, area };
        let ticket = self.send(feedback, image, transform.is_some())?;
        Ok((ticket, self.looking(&points, taken_for)))
    }

    /// Handles `attend`: moves the view to the peaks of a map.
    pub(super) fn attend(self, attend: &Attend, payload: &[u8]) -> Result<(u64, Looking), Refusal> {
        let image = self.check_steers(Policy::is_feedback, NO_MAPS, "feedback")?;
        self.check_known(attend.frame)?;
        let [rows, columns] = attend.shape;
        let region = attend.region.unwrap_or(Region::of(image));
        let weights = numbers(attend.dtype, payload)?;
        let map = AttentionMap::new(Extent::new(columns, rows), region, image, weights);
        let transform = self.transform(attend.ego_motion()?, image)?;
        let taken_for = self.taken_for(attend.frame, attend.strict, transform.is_some())?;
        self.send_map(map, image, attend.frame, taken_for, transform)
    }

    /// Handles `attend_tokens`: makes a map of the scores of a frame's tokens.
    pub(super) fn attend_tokens(
        self,
        attend: &AttendTokens,
        payload: &[u8],
    ) -> Result<(u64, Looking), Refusal> {
        let image = self.check_steers(Policy::is_feedback, NO_MAPS, "feedback")?;
        self.check_known(Some(attend.frame))?;
        let known = self.view.channel().newest_planned_frame();
        if known < attend.frame {
            let error =
                format!("the tokens of frame {} are not available yet: try again", attend.frame);
            return Err(Refusal::new(RefusalReason::UnknownFrame, error));
        }
        let shown = self.view.channel().plan_of(attend.frame);
        let Some(shown) = shown.filter(|shown| shown.shape.extent() == image) else {
            let frame = attend.frame;
            let error = format!(
                "the tokens of frame {frame} are not known any more: send their scores sooner, or a map with `attend`"
            );
            return Err(Refusal::new(RefusalReason::FrameTooOld, error));
        };
        let scores = numbers(attend.dtype, payload)?;
        let map = AttentionMap::painted(&shown.plan, image, &scores);
        let transform = self.transform(attend.ego_motion()?, image)?;
        let frame = Some(attend.frame);
        let taken_for = self.taken_for(frame, attend.strict, transform.is_some())?;
        self.send_map(map, image, frame, taken_for, transform)
    }

    /// Handles `inject`, which needs no lease. Returns the newest frame, if the map counts for it because the frame that the message names is
    /// too old.
    pub(super) fn inject(self, inject: &Inject, payload: &[u8]) -> Result<Option<u64>, Refusal> {
        let image = self.check_takes(Policy::is_relevance, NO_CHANNELS, "relevance")?;
        self.check_known(inject.frame)?;
        let taken_for = self.taken_for(inject.frame, inject.strict, false)?;
        let frame = taken_for.or(inject.frame);
        let frame = frame.unwrap_or_else(|| self.view.channel().newest_frame());
        if frame == 0 {
            let error = format!("view `{}` has not published a frame yet", self.view.name());
            return Err(Refusal::new(RefusalReason::NotStarted, error));
        }
        let [rows, columns] = inject.shape;
        let area = (Extent::new(columns, rows), inject.region.unwrap_or(Region::of(image)));
        let values = numbers(inject.dtype, payload)?;
        let ttl_ms = inject.ttl_ms.unwrap_or(TTL_MS_DEFAULT);
        let injection = Injection::new(&inject.name, area, image, values, frame, ttl_ms)
            .map_err(|error| Refusal::new(reason_of_injection(&error), error.to_string()))?;
        let (injection, now) = (Arc::new(injection), Instant::now());
        let mut channels = self.view.channels();
        channels.check_free_for(&inject.name, self.client, now)?;
        self.queue(Feedback::Inject(Arc::clone(&injection)), image, false)?;
        channels.inject(&injection, self.client, now);
        self.view.channel().counters().injections_accepted.add(1);
        Ok(taken_for)
    }

    /// Handles `weigh`: sets weights of channels.
    pub(super) fn weigh(self, weigh: &Weigh) -> Result<(), Refusal> {
        let image = self.check_steers(Policy::is_relevance, NO_CHANNELS, "relevance")?;
        let weights = weights_of(weigh)?;
        let mut channels = self.view.channels();
        channels.check_room_for(&weights, self.client.user)?;
        self.send(Feedback::Weigh(Arc::clone(&weights)), image, false)?;
        channels.weigh(&weights, self.client.user);
        Ok(())
    }

    /// Handles `release`, which the holder of the lease may send, or any client if there is none.
    pub(super) fn release(self) -> Result<(), Refusal> {
        let image = self.check_steers(|_| true, "", "")?;
        self.send(Feedback::Release, image, false)?;
        self.view.steering().lock().release(self.client.number);
        self.view.channels().release();
        Ok(())
    }

    /// Handles `refresh`, which needs no lease.
    pub(super) fn refresh(self) -> Result<(), Refusal> {
        self.stream.check_not_a_recording()?;
        self.extent()?;
        let config = self.view.config();
        if !matches!(config.layout, Layout::Adaptive { memory: ConsumerMemory::Canvas }) {
            let error = format!(
                "view `{}` does not remember what its readers have, so there is nothing to refresh (expected layout = \"adaptive\" and \
                 memory = \"canvas\")",
                self.view.name()
            );
            return Err(Refusal::new(RefusalReason::Policy, error));
        }
        self.view.channel().request_refresh();
        self.view.channel().counters().feedback_accepted.add(1);
        Ok(())
    }

    /// The extent of the image, if this client may now steer the view, whose policy must be one that `takes` the message, such as `wanted`;
    /// `text` says why others do not.
    fn check_steers(
        self,
        takes: impl Fn(&Policy<PathBuf, PathBuf>) -> bool,
        text: &str,
        wanted: &str,
    ) -> Result<Extent, Refusal> {
        let extent = self.check_takes(takes, text, wanted)?;
        self.view.steering().lock().check_free_for(self.client, Instant::now())?;
        Ok(extent)
    }

    /// As [`check_steers`](Self::check_steers), for what any client may send.
    fn check_takes(
        self,
        takes: impl Fn(&Policy<PathBuf, PathBuf>) -> bool,
        text: &str,
        wanted: &str,
    ) -> Result<Extent, Refusal> {
        self.stream.check_not_a_recording()?;
        let extent = self.extent()?;
        match &self.view.config().gaze.policy {
            Policy::Replay { .. } => {
                let text = "replays a recorded gaze and takes no feedback";
                Err(self.wrong_policy(text, "feedback"))
            }
            policy if !takes(policy) => Err(self.wrong_policy(text, wanted)),
            _ => Ok(extent),
        }
    }

    /// The extent of the image, if the view publishes.
    fn extent(self) -> Result<Extent, Refusal> {
        let refused = |reason, text: &str| {
            Err(Refusal::new(reason, format!("stream `{}` {text}", self.stream.name())))
        };
        let (state, extent) = self.stream.state();
        let Some(extent) = extent else {
            return refused(RefusalReason::NotStarted, "has not delivered a frame yet");
        };
        let ending = self.view.channel().end_reason().or_else(|| self.stream.end_reason());
        if ending.as_deref().is_some_and(is_coming_back) {
            let error = format!("view `{}` is restarting: try again", self.view.name());
            return Err(Refusal::new(RefusalReason::Unavailable, error));
        }
        if state == StreamState::Ended {
            return refused(RefusalReason::Ended, "has ended");
        }
        if let Some(reason) = ending {
            let error = format!("view `{}` has ended: {reason}", self.view.name());
            return Err(Refusal::new(RefusalReason::Ended, error));
        }
        Ok(extent)
    }

    fn wrong_policy(self, text: &str, wanted: &str) -> Refusal {
        let config = self.view.config();
        let (name, policy) = (self.view.name(), &config.gaze.policy);
        let error = format!(
            "view `{name}` has the policy \"{policy}\": it {text}; use one with the policy \"{wanted}\", in the \
             configuration or opened with `open_view`"
        );
        Refusal::new(RefusalReason::Policy, error)
    }

    /// Checks that the view has a fovea for each of `points` points.
    fn check_count(self, points: usize) -> Result<(), Refusal> {
        let config = self.view.config();
        let foveae = config.gaze.policy.steered(config.gaze.policy.foveae(config.layout.foveae()));
        let name = self.view.name();
        if points <= foveae {
            return Ok(());
        }
        let noun = if foveae == 1 { "fovea" } else { "foveae" };
        if let Policy::Several { policy, .. } = &config.gaze.policy {
            let steered = policy.iter().find(|policy| policy.is_feedback());
            let steered = steered.map_or("feedback", |policy| policy.name());
            let error = format!(
                "too many points: {points} for the {foveae} {noun} of the policy \"{steered}\" in view `{name}`: send at most \
                 {foveae}, or open a view that lists the policy {points} times"
            );
            return Err(Refusal::new(RefusalReason::WrongCount, error));
        }
        let error = format!(
            "too many points: {points} for the {foveae} {noun} of view `{name}`: send at most {foveae}, or open a view with \
             `layout = \"adaptive\"`, which has up to {FOVEAE_MAX}"
        );
        Err(Refusal::new(RefusalReason::WrongCount, error))
    }

    /// Checks that `frame`, if the message names one, has been published, and that its picture has the present size.
    fn check_known(self, frame: Option<u64>) -> Result<(), Refusal> {
        let Some(frame) = frame else { return Ok(()) };
        let newest = self.view.channel().newest_frame();
        if newest < frame {
            let error = format!("unknown frame {frame}: the newest published one is {newest}");
            return Err(Refusal::new(RefusalReason::UnknownFrame, error));
        }
        let first = self.view.channel().first_frame();
        if frame < first {
            let error = format!(
                "frame {frame} had another size (expected one since frame {first}): send positions in the present picture"
            );
            return Err(Refusal::new(RefusalReason::FrameTooOld, error));
        }
        Ok(())
    }

    /// The newest frame, if feedback about `frame` counts for that: what happened since an older one is not known. An error if the client
    /// is `strict`. What its own motion has moved lies in the newest already.
    fn taken_for(
        self,
        frame: Option<u64>,
        strict: bool,
        has_motion: bool,
    ) -> Result<Option<u64>, Refusal> {
        let (oldest, newest) =
            (self.view.channel().oldest_frame(), self.view.channel().newest_frame());
        match frame.filter(|frame| !has_motion && *frame < oldest) {
            None => Ok(None),
            Some(frame) if strict => {
                let error = format!(
                    "frame {frame} is too old (expected {oldest} to {newest}): send feedback sooner, or without `strict`, \
                     which counts for the newest frame then"
                );
                Err(Refusal::new(RefusalReason::FrameTooOld, error))
            }
            Some(_) => Ok(Some(newest)),
        }
    }

    fn send_map(
        self,
        map: Result<AttentionMap, AttentionError>,
        image: Extent,
        frame: Option<u64>,
        taken_for: Option<u64>,
        transform: Option<EgoTransform>,
    ) -> Result<(u64, Looking), Refusal> {
        let mut map = map.map_err(|error| Refusal::new(reason_of(error), error.to_string()))?;
        if let Some(transform) = &transform {
            map = transform.map_now(&map).ok_or_else(|| out_of_picture("nothing of the map"))?;
        }
        let peak = map.peak();
        let frame_seq = taken_for.or(frame).unwrap_or_else(|| self.view.channel().newest_frame());
        let feedback = Feedback::Attend { map: Arc::new(map), frame_seq, lies_in: None };
        let ticket = self.send(feedback, image, transform.is_some())?;
        Ok((ticket, self.looking(&[(peak.x, peak.y)], taken_for)))
    }

    /// The answer before the decision.
    fn looking(self, points: &[(f64, f64)], taken_for: Option<u64>) -> Looking {
        let (view, points) = (self.view.name().clone(), points.to_vec());
        Looking { view, points, fixations: Vec::new(), taken_for }
    }

    /// The transform of the places of a picture of `image` pixels by the ego motion of a message; `None` without ego motion.
    fn transform(
        self,
        motion: Option<EgoMotion>,
        image: Extent,
    ) -> Result<Option<EgoTransform>, Refusal> {
        let Some(motion) = motion else { return Ok(None) };
        let rays = match motion {
            EgoMotion::Homography(_) => None,
            EgoMotion::Rotation(_) => Some(self.rays(image)?),
        };
        let transform = EgoTransform::of(motion, image, rays);
        transform
            .map(Some)
            .map_err(|error| Refusal::new(RefusalReason::BadRequest, error.to_string()))
    }

    /// The rays of the stream's camera in pictures of `image` pixels.
    fn rays(self, image: Extent) -> Result<Rays, Refusal> {
        let name = self.stream.name();
        let refused = |why: String| {
            let error =
                format!("`rotation` needs the rays of the camera: {why}, or send a `homography`");
            Refusal::new(RefusalReason::NoCamera, error)
        };
        let camera = self.stream.camera().ok_or_else(|| {
            refused(format!("add [stream.camera] with a `calibration` to stream `{name}`"))
        })?;
        Rays::of(&camera.facts(image)).ok_or_else(|| {
            let model = &camera.calibration.distortion;
            refused(format!(
                "the distortion \"{model}\" of stream `{name}` is not supported; calibrate it as plumb_bob, \
                 rational_polynomial without tilt or equidistant"
            ))
        })
    }

    /// Sends feedback, renews the lease, and returns the ticket. `is_moved` says that the client's ego motion has already moved the feedback
    /// to the next frame.
    fn send(self, feedback: Feedback, image: Extent, is_moved: bool) -> Result<u64, Refusal> {
        let ticket = self.queue(feedback, image, is_moved)?;
        let lease_ms = self.view.config().gaze.parameters.lease_ms;
        let until = Instant::now() + Duration::from_millis(lease_ms.into());
        self.view.steering().lock().renew(self.client, until);
        Ok(ticket)
    }

    /// Sends feedback, and returns its ticket.
    fn queue(self, feedback: Feedback, image: Extent, is_moved: bool) -> Result<u64, Refusal> {
        let sent = self.view.channel().send_feedback(feedback, image, monotonic_ns(), is_moved);
        let Some(ticket) = sent else {
            let error = format!(
                "stream `{}` does not deliver frames, and {FEEDBACK_PENDING_MAX} messages are waiting already: try again later",
                self.stream.name()
            );
            return Err(Refusal::new(RefusalReason::Busy, error));
        };
        self.view.channel().counters().feedback_accepted.add(1);
        Ok(ticket)
    }
}

/// Takes the maps of client `number`, which is gone, from a view.
pub(super) fn withdraw(stream: &StreamEntry, view: &ViewEntry, number: u64) {
    let names = view.channels().leave(number);
    let Some(image) = stream.state().1.filter(|_| !names.is_empty()) else { return };
    let withdrawal = Feedback::Withdraw(names.into());
    if view.channel().send_feedback(withdrawal, image, monotonic_ns(), false).is_none() {
        tracing::error!(view = %view.name(), "no room to withdraw the maps of a client that is gone");
    }
}

/// The points of a `look` in pixels; for a box its middle, and the width and height of the part in the picture.
fn places_of(look: &Look, image: Extent) -> Result<(Points, Option<(f64, f64)>), Refusal> {
    let (width, height) = if look.normalised {
        (f64::from(image.width), f64::from(image.height))
    } else {
        (1.0, 1.0)
    };
    let Some(Region { x0, y0, x1, y1 }) = look.region else {
        return Ok((look.points.iter().map(|(x, y)| (x * width, y * height)).collect(), None));
    };
    let region = Region::from([x0 * width, y0 * height, x1 * width, y1 * height]).within(image);
    if !region.has_area() {
        let error = AttentionError::Outside { image };
        return Err(Refusal::new(reason_of(error), error.to_string()));
    }
    let size = (region.x1 - region.x0, region.y1 - region.y0);
    Ok((Points::from_iter([region.middle()]), Some(size)))
}

fn out_of_picture(what: &str) -> Refusal {
    let error = format!(
        "{what} is left: with this `rotation` or `homography` all lie outside the picture or behind the camera \
         (expected the motion from `frame` to now; perhaps it is inverted)"
    );
    Refusal::new(RefusalReason::OutOfPicture, error)
}

fn reason_of(error: AttentionError) -> RefusalReason {
    match error {
        AttentionError::Count { .. } => RefusalReason::WrongCount,
        AttentionError::Grid { .. } => RefusalReason::MapTooLarge,
        AttentionError::EmptyRegion | AttentionError::Outside { .. } => RefusalReason::BadBox,
        AttentionError::NotFinite { .. } => RefusalReason::NotFinite,
        AttentionError::Negative { .. } => RefusalReason::Negative,
        AttentionError::AllZero => RefusalReason::AllZero,
    }
}

fn reason_of_injection(error: &InjectionError) -> RefusalReason {
    match error {
        InjectionError::Count { .. } => RefusalReason::WrongCount,
        InjectionError::Grid { .. } => RefusalReason::MapTooLarge,
        InjectionError::EmptyRegion | InjectionError::Outside { .. } => RefusalReason::BadBox,
        InjectionError::Value { value, .. } if !value.is_finite() => RefusalReason::NotFinite,
        InjectionError::Name(_)
        | InjectionError::Computed(_)
        | InjectionError::Value { .. }
        | InjectionError::Ttl(_) => RefusalReason::BadRequest,
    }
}

/// Checks a message, and returns its weights.
fn weights_of(weigh: &Weigh) -> Result<Arc<[ChannelWeight]>, Refusal> {
    let refused = |error| Refusal::new(RefusalReason::BadRequest, error);
    let count = weigh.weights.len();
    if !(1..=CHANNEL_WEIGHTS_MAX).contains(&count) {
        return Err(refused(format!(
            "invalid number of weights: {count} (expected 1 to {CHANNEL_WEIGHTS_MAX})"
        )));
    }
    let checked = |(name, weight): (&String, &f64)| {
        check_channel_name(name).map_err(|error| refused(error.to_string()))?;
        if weight.abs() <= f64::from(CHANNEL_WEIGHT_MAX) {
            #[expect(clippy::cast_possible_truncation, reason = "a score has single precision")]
            let rounded = *weight as f32;
            return Ok(ChannelWeight { name: name.clone(), weight: rounded });
        }
        Err(refused(format!(
            "invalid weight of `{name}`: {weight} (expected a number within {CHANNEL_WEIGHT_MAX} of 0)"
        )))
    };
    weigh.weights.iter().map(checked).collect()
}
