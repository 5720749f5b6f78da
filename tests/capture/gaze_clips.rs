//! On real clips: what a consumer attends to stays in the fovea, and people who appear are soon fixated.
//!
//! The figures of `docs/reports/pursuit.md` are what these tests print with `FOVEATE_LONG=1`.

#![allow(clippy::cast_possible_truncation, reason = "weights and shades")]

use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use foveate_core::change::ChangeConfig;
use foveate_core::frame::{FrameStamp, FrameView, Plane};
use foveate_core::geometry::attention::AttentionMap;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Points;
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::Region;
use foveate_daemon::stream::{ServedView, Stream};
use foveate_gaze::controller::Policy;
use foveate_gaze::feedback::{ChannelWeight, Feedback};
use foveate_gaze::layout::Layout;
use foveate_gaze::layout::inset::Inset;
use foveate_gaze::relevance::injection::Injection;
use foveate_gaze::view::{VIEWS_MAX, ViewSpec};
use foveate_ring::{Reader, TokenFrameBuf};
use foveate_server::channel::ClientChannel;
use testkit::film::for_each_frame;
use testkit::footage::clip;
use testkit::is_long;
use testkit::stream::{channel, on_cpu, reader, served, spec};

use crate::walkers::{PixelBox, Walker, walkers};

/// People before a fixed camera, ten frames a second.
const CLIP: &str = "vtest.avi";
const EXTENT: Extent = Extent::new(768, 576);
const FRAME_NS: u64 = 100_000_000;

/// How often the oracle says what it attends to, and on how fine a map.
const ORACLE_HZ: f64 = 4.0;
const ORACLE_GRID: Extent = Extent::new(48, 36);

/// Frames from a walker's appearance to the second word of the oracle: from then on it counts.
const ORACLE_START: usize = 5;

/// Two seconds: so long does a walker have to be in sight, and so soon must he be looked at.
const SOON: usize = 20;

/// A fixation so many pixels beside a walker's box is on him: the side of a texel of what the gaze sees.
const MARGIN_PX: f64 = 8.0;

/// By how much the first frame comes too early, in each of the runs that a figure is taken over; with `FOVEATE_LONG=1` all of them,
/// without it the first.
const PHASES_NS: [u64; 3] = [0, 80_000_000, 160_000_000];

/// So far apart are two whom one fovea cannot see both.
const FAR_PX: f64 = 250.0;

/// So near to the fixation lies what is followed: two patches.
const NEAR_PX: f64 = 32.0;

/// What a moving camera sees of the clip.
const CROP: Extent = Extent::new(512, 384);

/// Side of the square that is painted over, and its place, over a part of the lawn and of the path.
const PAINTED_SIDE: usize = 128;
const PAINTED_AT: (usize, usize) = (192, 256);

/// Radius of a ball.
const BALL_PX: f64 = 12.0;

#[test]
fn who_is_attended_to_stays_in_the_fovea() {
    let Some(path) = clip(CLIP) else { return };
    let walkers = walkers();
    // More than one stream has views for.
    let groups = walkers.chunks(VIEWS_MAX);
    let mut runs: Vec<_> =
        groups.map(|group| Run::new(vec![view(Policy::Feedback, 1); group.len()], 0)).collect();
    let mut shares = vec![(0, 0); walkers.len()];
    for_each_frame(&path, |index, frame| {
        let groups = walkers.chunks(VIEWS_MAX).zip(shares.chunks_mut(VIEWS_MAX));
        for (run, (walkers, shares)) in runs.iter_mut().zip(groups) {
            for (client, walker) in run.clients.iter().zip(walkers) {
                if let Some(feedback) = oracle(&[walker], index) {
                    client.send_feedback(feedback, EXTENT, 1, false).unwrap();
                }
            }
            run.step(index, frame);
            for (view, (walker, share)) in walkers.iter().zip(shares).enumerate() {
                let Some(place) = walker.at(index).filter(|_| walker.first + ORACLE_START <= index)
                else {
                    continue;
                };
                share.0 += usize::from(run.coarsest_under(view, place) <= 1);
                share.1 += 1;
            }
        }
    });
    let at_once =
        (0..795).map(|index| walkers.iter().filter(|walker| walker.at(index).is_some()).count());
    say(&format!("clip: {} walkers, at most {} at once", walkers.len(), at_once.max().unwrap()));
    let longest = (0..walkers.len()).max_by_key(|view| walkers[*view].boxes.len()).unwrap();
    let all = shares.iter().fold((0, 0), |sum, share| (sum.0 + share.0, sum.1 + share.1));
    say(&format!(
        "oracle: the walker longest in sight lies at levels 0 and 1 in {}",
        percent(shares[longest])
    ));
    say(&format!(
        "oracle: all {} walkers, each with a view of his own: {}",
        walkers.len(),
        percent(all)
    ));
    for share in [shares[longest], all] {
        assert!(95 * share.1 <= 100 * share.0, "{}", percent(share));
    }
}

/// Two walkers at a time, each with the one whom he is longest in sight with and far from; every third pair, and with `FOVEATE_LONG=1`
/// all.
#[test]
fn two_who_are_far_apart_are_both_seen_at_level_0() {
    let Some(path) = clip(CLIP) else { return };
    let walkers = walkers();
    let pairs = some_of(distant_pairs(walkers));
    let seen = |foveae: u32, relevance_gain: f64| {
        let mut view = view(Policy::Feedback, foveae);
        view.spec.parameters.relevance_gain = relevance_gain;
        let mut run = Run::new(vec![view; pairs.len()], 0);
        let mut sights = Sights::default();
        for_each_frame(&path, |index, frame| {
            for (client, pair) in run.clients.iter().zip(&pairs) {
                if let Some(feedback) = oracle(pair, index) {
                    client.send_feedback(feedback, EXTENT, 1, false).unwrap();
                }
            }
            run.step(index, frame);
            for (view, pair) in pairs.iter().enumerate() {
                let since = pair.map(|walker| walker.first).into_iter().max().unwrap();
                if let Some(places) =
                    places_of(pair, index).filter(|_| since + ORACLE_START <= index)
                {
                    sights.add(&run, view, places);
                }
            }
        });
        sights
    };
    say(&format!("oracle: {} pairs of walkers at least {FAR_PX} pixels apart", pairs.len()));
    let share = |(part, whole): Share| part as f64 / whole as f64;
    // Where nothing but the foveae draws tokens there, and where the map does, too; centres by one, centres and heads by two.
    for (relevance_gain, by_one, by_two) in [(0.0, 0.05, (0.85, 0.4)), (0.5, 0.95, (0.98, 0.95))] {
        let [one, two] = [1, 2].map(|foveae| {
            let sights = seen(foveae, relevance_gain);
            say(&format!("oracle: {foveae} foveae, relevance_gain {relevance_gain}: {sights}"));
            sights
        });
        assert!(share(one.centres) < by_one, "{one}");
        assert!(by_two.0 < share(two.centres) && by_two.1 < share(two.heads), "{two}");
    }
}

/// An oracle attends to a walker four times a second; before a camera that moves, and with `FOVEATE_LONG=1` before one that stands still.
#[test]
fn who_is_attended_to_stays_near_the_fixation_in_pursuit() {
    let Some(path) = clip(CLIP) else { return };
    let walkers = &some_of(walkers().to_vec());
    let cameras: [(&str, Extent, Corner); 2] =
        [("a moving camera", CROP, camera_at), ("a still camera", EXTENT, |_| (0, 0))];
    for (camera, extent, corner) in cameras.into_iter().take(if is_long() { 2 } else { 1 }) {
        let [still, pursued] = followed(&path, walkers, extent, corner);
        say(&format!("oracle, {camera}, without pursuit: {still}"));
        say(&format!("oracle, {camera}, with pursuit: {pursued}"));
        let share = |(part, whole): Share| part as f64 / whole as f64;
        assert!(0.94 <= share(pursued.near[0]), "{pursued}");
        assert!(share(still.near[2]) + 0.1 < share(pursued.near[2]), "{still}");
        // A pursued object costs no more tokens than one that is lost and found again.
        assert!(share(still.kept) - 0.01 < share(pursued.kept), "{pursued}, {still}");
    }
}

/// Every third one, and all with `FOVEATE_LONG=1`: the figures of `docs/reports/pursuit.md` are of all.
fn some_of<T>(all: Vec<T>) -> Vec<T> {
    all.into_iter().step_by(if is_long() { 1 } else { 3 }).collect()
}

/// The upper left corner of what a camera sees in a frame.
type Corner = fn(usize) -> (usize, usize);

/// The upper left corner of what a camera sees that swings by up to 42 pixels a second, on even pixels.
fn camera_at(index: usize) -> (usize, usize) {
    let time = index as f64 * 0.1;
    let even = |place: f64| 2 * (place / 2.0).round() as usize;
    (even(128.0 + 120.0 * (0.35 * time).sin()), even(96.0 + 90.0 * (0.23 * time).cos()))
}

/// How near the fixation is to those whom an oracle attends to, without pursuit and with it; of what a camera sees whose upper left corner is
/// at `corner`.
fn followed(path: &Path, walkers: &[Walker], extent: Extent, corner: Corner) -> [Nearness; 2] {
    let seen = |walker: &Walker, index: usize| {
        let (left, top) = corner(index);
        let place = walker.at(index)?.moved((-(left as f64), -(top as f64)));
        let image =
            PixelBox { x0: 0.0, y0: 0.0, x1: extent.width.into(), y1: extent.height.into() };
        image.contains(place.centre(), 0.0).then_some(place)
    };
    let views = |pursuit: bool| {
        let mut view = view(Policy::Feedback, 1);
        view.spec.parameters.pursuit = pursuit;
        view
    };
    // As many views as a stream has.
    let mut runs: Vec<_> = walkers
        .chunks(VIEWS_MAX / 2)
        .map(|group| {
            let [still, pursued] = [false, true].map(|pursuit| vec![views(pursuit); group.len()]);
            (Run::new([still, pursued].concat(), 0), group, vec![0; group.len()])
        })
        .collect();
    let mut found = [Nearness::default(), Nearness::default()];
    for_each_frame(path, |index, frame| {
        let picture = Picture::copied(frame);
        let picture = picture.part(frame, corner(index), extent);
        for (run, group, in_sight) in &mut runs {
            for (walker, in_sight) in group.iter().zip(in_sight.iter_mut()) {
                *in_sight = if seen(walker, index).is_some() { *in_sight + 1 } else { 0 };
            }
            for (view, client) in run.clients.iter().enumerate() {
                let at = view % group.len();
                let before = index.checked_sub(1).and_then(|before| seen(&group[at], before));
                let Some(place) = before else { continue };
                // It has seen the frame before this one.
                let begins = in_sight[at] == 2;
                if begins || interval(index - 1) != interval(index.saturating_sub(2)) {
                    let map = Arc::new(map_of(&[place], extent));
                    let feedback = Feedback::Attend { map, frame_seq: index as u64, lies_in: None };
                    client.send_feedback(feedback, extent, 1, false).unwrap();
                }
            }
            run.step(index, &picture);
            for view in 0..run.view_count {
                let (pursues, at) = (view / group.len(), view % group.len());
                let place = seen(&group[at], index).filter(|_| ORACLE_START < in_sight[at]);
                if let Some(place) = place {
                    let fixation = run.stream.gaze(view).unwrap().first();
                    found[pursues].add((fixation.x, fixation.y), place.centre());
                }
            }
        }
    });
    for (run, group, _) in &runs {
        for (view, client) in run.clients.iter().enumerate() {
            let counts = client.counters().snapshot();
            let kept = &mut found[view / group.len()].kept;
            kept.0 += counts.tokens_in_place as usize;
            kept.1 += counts.tokens_published as usize;
        }
    }
    found
}

/// Shares of frames in which a walker is near the fixation, and share of tokens that keep their place.
#[derive(Default)]
struct Nearness {
    /// Frames within [`NEAR_PX`], within three quarters and within half of it.
    near: [Share; 3],
    kept: Share,
}

impl Nearness {
    fn add(&mut self, fixation: (f64, f64), centre: (f64, f64)) {
        let away = (fixation.0 - centre.0).hypot(fixation.1 - centre.1);
        for (near, part) in self.near.iter_mut().zip([1.0, 0.75, 0.5]) {
            near.0 += usize::from(away <= part * NEAR_PX);
            near.1 += 1;
        }
    }
}

impl std::fmt::Display for Nearness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [near, nearer, nearest] = self.near.map(percent);
        write!(
            f,
            "within {NEAR_PX} pixels {near}, three quarters of that {nearer}, half of it {nearest}; tokens kept {}",
            percent(self.kept)
        )
    }
}

/// Shares of frames in which both of two walkers are seen well.
#[derive(Default)]
struct Sights {
    /// The centres of both boxes at level 0.
    centres: Share,
    /// Both heads, at an eighth of the height.
    heads: Share,
    /// Frames with both boxes wholly at level 0.
    whole: Share,
    /// Both boxes wholly at levels 0 and 1.
    nearly: Share,
}

impl Sights {
    fn add(&mut self, run: &Run, view: usize, places: [PixelBox; 2]) {
        let head = |place: PixelBox| (place.centre().0, place.y0 + (place.y1 - place.y0) / 8.0);
        let count = |share: &mut Share, is_seen: &dyn Fn(PixelBox) -> bool| {
            share.0 += usize::from(places.into_iter().all(is_seen));
            share.1 += 1;
        };
        count(&mut self.centres, &|place| run.level_at(view, place.centre()) == 0);
        count(&mut self.heads, &|place| run.level_at(view, head(place)) == 0);
        count(&mut self.whole, &|place| run.coarsest_under(view, place) == 0);
        count(&mut self.nearly, &|place| run.coarsest_under(view, place) <= 1);
    }
}

impl std::fmt::Display for Sights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [centres, heads, whole, nearly] =
            [self.centres, self.heads, self.whole, self.nearly].map(percent);
        write!(
            f,
            "both centres at level 0 in {centres}, heads {heads}, whole boxes {whole}, at levels 0 and 1 {nearly}"
        )
    }
}

/// Where two are, while both are in sight and far apart.
fn places_of(pair: &[&Walker; 2], index: usize) -> Option<[PixelBox; 2]> {
    let places = [pair[0].at(index)?, pair[1].at(index)?];
    let (one, other) = (places[0].centre(), places[1].centre());
    (FAR_PX <= (one.0 - other.0).hypot(one.1 - other.1)).then_some(places)
}

/// Each walker with whom he is longest in sight with and far from, if that is two seconds; each pair once.
fn distant_pairs(walkers: &[Walker]) -> Vec<[&Walker; 2]> {
    let together =
        |pair: &[&Walker; 2]| (0..795).filter(|at| places_of(pair, *at).is_some()).count();
    let mut pairs: Vec<[usize; 2]> = Vec::new();
    for one in 0..walkers.len() {
        let others = (0..walkers.len()).filter(|other| *other != one);
        let best = others.max_by_key(|other| together(&[&walkers[one], &walkers[*other]])).unwrap();
        let pair = [one.min(best), one.max(best)];
        if SOON <= together(&pair.map(|index| &walkers[index])) && !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    pairs.into_iter().map(|pair| pair.map(|index| &walkers[index])).collect()
}

#[test]
fn whoever_comes_into_sight_is_soon_looked_at() {
    let Some(path) = clip(CLIP) else { return };
    let walkers = walkers();
    let (seen, on_square) = visits_by_saliency(&path);
    say(&format!("saliency: looked at within 2 s of coming into sight: {}", percent(seen)));
    say(&format!("saliency: where others paint a square, the eye is in {}", percent(on_square)));
    say(&format!(
        "chance: the same, with fixations anywhere: {}",
        percent(visits_by_chance(walkers))
    ));
    assert!(80 * seen.1 <= 100 * seen.0, "{}", percent(seen));
    for foveae in if is_long() { &[2, 4][..] } else { &[4] } {
        let (by_several, _) = visits(&path, walkers, &Policy::Saliency, *foveae, |_, _| {});
        say(&format!("saliency: the same with {foveae} foveae: {}", percent(by_several)));
        assert!(seen.0 <= by_several.0, "{} with {foveae}", percent(by_several));
    }
}

#[test]
fn relevance_finds_as_many_walkers_as_saliency() {
    let Some(path) = clip(CLIP) else { return };
    let walkers = walkers();
    let relevance = Policy::Relevance { scorer: None, weights: BTreeMap::new(), passes: 1 };
    let (by_saliency, _) = visits_by_saliency(&path);
    let (by_relevance, _) = visits(&path, walkers, &relevance, 1, |_, _| {});
    say(&format!(
        "relevance: looked at within 2 s of coming into sight: {}",
        percent(by_relevance)
    ));
    let (found, expected) = (percent(by_relevance), percent(by_saliency));
    assert!(by_saliency.0 <= by_relevance.0, "{found} {expected}");
}

/// A camera that turns: a part of the picture that goes to and fro over the scene, by up to 6 pixels a frame. What moves with the
/// background then does not count as change, and people do.
#[test]
fn who_walks_is_looked_at_by_a_camera_that_moves_too() {
    let Some(path) = clip(CLIP) else { return };
    let walkers = walkers();
    let mut on_walkers = [(0, 0); 2];
    for (share, moves) in on_walkers.iter_mut().zip([false, true]) {
        let mut run = Run::new(vec![view(Policy::Saliency, 1)], 0);
        for_each_frame(&path, |index, frame| {
            let (left, top) = if moves { part_at(index) } else { (128, 96) };
            let picture = Picture::copied(frame);
            run.step(index, &picture.part(frame, (left, top), CROP));
            let shift = |place: PixelBox| place.moved((-(left as f64), -(top as f64)));
            let inside = |place: &PixelBox| {
                let (x, y) = place.centre();
                (0.0..f64::from(CROP.width)).contains(&x)
                    && (0.0..f64::from(CROP.height)).contains(&y)
            };
            let places = walkers.iter().filter_map(|walker| walker.at(index)).map(shift);
            let places: Vec<PixelBox> = places.filter(inside).collect();
            // Two seconds after it began.
            if SOON <= index && !places.is_empty() {
                let at = run.stream.gaze(0).unwrap().first();
                let is_on = places.iter().any(|place| place.contains((at.x, at.y), MARGIN_PX));
                share.0 += usize::from(is_on);
                share.1 += 1;
            }
        });
    }
    let [still, moving] = on_walkers;
    say(&format!("saliency: fixations on walkers, part that stands still: {}", percent(still)));
    say(&format!("saliency: fixations on walkers, part that moves: {}", percent(moving)));
    assert!(70 * moving.1 <= 100 * moving.0, "{}", percent(moving));
}

fn part_at(index: usize) -> (usize, usize) {
    let time = index as f64 * 0.1;
    let even = |place: f64| 2 * (place / 2.0).round() as usize;
    (even(128.0 + 120.0 * (0.5 * time).sin()), even(96.0 + 90.0 * (0.37 * time).cos()))
}

/// An oracle that is 300 ms late, with `FOVEATE_LONG=1` also 100 and 500 ms: with compensation, its maps are moved along with the
/// walkers.
#[test]
fn late_attention_is_moved_to_the_present_position() {
    let Some(path) = clip(CLIP) else { return };
    let walkers = &some_of(walkers().to_vec());
    for late in if is_long() { &[3, 1, 5][..] } else { &[3] } {
        let [without, with] = [false, true].map(|is| looked_at(&path, walkers, *late, is));
        for (text, (share, distance)) in [("without", without), ("with", with)] {
            say(&format!(
                "oracle: {late}00 ms late, {text} compensation: on the walker in {}, {:.1} pixels from him on average",
                percent(share),
                distance / share.1 as f64
            ));
        }
        assert!(without.0.0 < with.0.0 && with.1 < without.1, "{late} frames late");
        assert!(75 * with.0.1 <= 100 * with.0.0 || *late != 3, "{}", percent(with.0));
    }
}

/// How often the fixation is on the walker whom an oracle attends to that is `late` frames late, and the sum of its distances from the
/// middle of him in pixels.
fn looked_at(path: &Path, walkers: &[Walker], late: usize, compensation: bool) -> (Share, f64) {
    let mut view = view(Policy::Feedback, 1);
    view.spec.parameters.compensation = compensation;
    let groups = walkers.chunks(VIEWS_MAX);
    let mut runs: Vec<_> =
        groups.map(|group| Run::new(vec![view.clone(); group.len()], 0)).collect();
    let (mut share, mut distance) = ((0, 0), 0.0);
    for_each_frame(path, |index, frame| {
        for (run, walkers) in runs.iter_mut().zip(walkers.chunks(VIEWS_MAX)) {
            for (client, walker) in run.clients.iter().zip(walkers) {
                let then = (index + 1).checked_sub(late).and_then(|at| oracle(&[walker], at));
                if let Some(feedback) = then {
                    client.send_feedback(feedback, EXTENT, 1, false).unwrap();
                }
            }
            run.step(index, frame);
            for (view, walker) in walkers.iter().enumerate() {
                let Some(place) = walker.at(index) else { continue };
                if walker.first + ORACLE_START + late <= index {
                    let at = run.stream.gaze(view).unwrap().first();
                    let (x, y) = place.centre();
                    distance += (at.x - x).hypot(at.y - y);
                    share.0 += usize::from(place.contains((at.x, at.y), 0.0));
                    share.1 += 1;
                }
            }
        }
    });
    (share, distance)
}

/// A consumer asks for what is red: it injects how red each place of the frame before is, and weighs that.
#[test]
fn a_query_keeps_a_red_ball_in_sight() {
    let Some(path) = clip(CLIP) else { return };
    let relevance = Policy::Relevance { scorer: None, weights: BTreeMap::new(), passes: 1 };
    let mut run = Run::new(vec![view(relevance.clone(), 1), view(relevance, 1)], 0);
    let asking = &run.clients[0];
    // Where it lies on the corner of four cells, it covers a tenth of each.
    let weights = [ChannelWeight { name: "red".to_owned(), weight: 48.0 }];
    asking.send_feedback(Feedback::Weigh(weights.into()), EXTENT, 1, false).unwrap();
    let (mut in_sight, mut looked_at) = ([(0, 0); 2], [(0, 0); 2]);
    let mut redness = None;
    for_each_frame(&path, |index, frame| {
        let mut picture = Picture::copied(frame);
        let ball = ball_at(index);
        picture.paint_ball(ball);
        if let Some(values) = redness.take().filter(|_| interval(index) != interval(index - 1)) {
            let map = (ORACLE_GRID, Region::of(EXTENT));
            let given = Injection::new("red", map, EXTENT, values, index as u64, 1000).unwrap();
            let channel = &run.clients[0];
            channel.send_feedback(Feedback::Inject(Arc::new(given)), EXTENT, 1, false).unwrap();
        }
        run.step(index, &picture.view(frame));
        redness = Some(picture.redness());
        // A second after it came.
        for view in (0..2).filter(|_| 10 <= index) {
            let points = run.stream.gaze(view).unwrap().points();
            let is_near = |(x, y): &(f64, f64)| (x - ball.0).hypot(y - ball.1) < 2.0 * BALL_PX;
            in_sight[view].0 += usize::from(run.level_at(view, ball) == 0);
            looked_at[view].0 += usize::from(points.iter().any(is_near));
            in_sight[view].1 += 1;
            looked_at[view].1 += 1;
        }
    });
    for (view, name) in ["asked for", "not asked for"].into_iter().enumerate() {
        let (sight, look) = (percent(in_sight[view]), percent(looked_at[view]));
        say(&format!("query: a red ball that is {name}: at level 0 in {sight}, fixated in {look}"));
    }
    let [asked, not_asked] = in_sight;
    assert!(95 * asked.1 <= 100 * asked.0, "{}", percent(asked));
    assert!(3 * not_asked.0 < 2 * asked.0, "{}", percent(not_asked));
}

/// Signs come and go at any place among the walkers, each for two seconds.
#[test]
fn a_new_sign_is_looked_at_and_sharp_within_5_frames() {
    let Some(path) = clip(CLIP) else { return };
    let foveal = Layout::Foveal { e0_px: None, foveae: 1, coarsest: None };
    let layouts = [foveal, Layout::Inset(Inset::default())];
    let views = layouts.each_ref().map(|layout| {
        let mut view = view(Policy::Auto, 1);
        view.spec.layout = layout.clone();
        view
    });
    let mut run = Run::new(views.to_vec(), 0);
    let mut signs = 0;
    // Of each view, the signs that were looked at in time, and those that were wholly sharp in time, each with the last of them.
    let mut found = [[(0, 0); 2]; 2];
    for_each_frame(&path, |index, frame| {
        let mut picture = Picture::copied(frame);
        let (turn, age) = (index / 30, index % 30);
        let sign = sign_of(turn);
        if age < 20 {
            picture.paint_sign(sign);
        }
        run.step(index, &picture.view(frame));
        // Objects of the first frame are not new.
        if turn == 0 {
            return;
        }
        signs = turn;
        for (view, found) in found.iter_mut().enumerate() {
            let gaze = run.stream.gaze(view).unwrap();
            let is_looked_at = gaze.points().into_iter().any(|point| sign.contains(point, 0.0));
            let plan = views[view].spec.plan(gaze, PyramidShape::new(EXTENT), None);
            // A block that nobody asked for has 3x2 squares of 24 pixels, so it cannot cover a sign.
            let (part, finest) = if view == 0 { (sign, 16) } else { (middle_of(sign), 24) };
            for ((count, last), is_found) in
                found.iter_mut().zip([is_looked_at, is_sharp(&plan, part, finest)])
            {
                if age <= 5 && *last < turn && is_found {
                    (*count, *last) = (*count + 1, turn);
                }
            }
        }
    });
    // A block of `inset` at what appeared has to leave its grid some of the budget.
    for ((layout, found), least) in layouts.iter().zip(found).zip([[90, 90], [90, 75]]) {
        for ((what, (count, _)), least) in
            ["looked at", "wholly sharp"].iter().zip(found).zip(least)
        {
            let share = percent((count, signs));
            say(&format!("auto, {}: new signs {what} within 5 frames: {share}", layout.name()));
            assert!(least * signs <= 100 * count, "{}, {what}: {share}", layout.name());
        }
    }
}

#[test]
fn a_flickering_screen_does_not_hold_the_eye() {
    let Some(path) = clip(CLIP) else { return };
    let (seen, on_square) = visits(&path, walkers(), &Policy::Saliency, 1, |index, picture| {
        picture.paint(|_, _, _| if index % 2 == 0 { 40 } else { 220 });
    });
    say(&format!("saliency: the same beside a flickering square: {}", percent(seen)));
    say(&format!("saliency: the eye is on the flickering square in {}", percent(on_square)));
    assert!(75 * seen.1 <= 100 * seen.0, "{}", percent(seen));
}

#[test]
fn waving_leaves_do_not_hold_the_eye() {
    let Some(path) = clip(CLIP) else { return };
    let (seen, on_square) = visits(&path, walkers(), &Policy::Saliency, 1, |index, picture| {
        let time = index as f64 * 0.1;
        picture.paint(|x, y, _| leaf(x, y, time));
    });
    say(&format!("saliency: the same beside waving leaves: {}", percent(seen)));
    say(&format!("saliency: the eye is on the leaves in {}", percent(on_square)));
    assert!(75 * seen.1 <= 100 * seen.0, "{}", percent(seen));
}

/// A share: a part, and what it is of.
type Share = (usize, usize);

/// Which share of the walkers `policy` looks at soon in frames that were painted on, each counted once for each of
/// [`PHASES_NS`]; and in which share of the frames it looks at where the square is.
fn visits(
    path: &Path,
    walkers: &[Walker],
    policy: &Policy,
    foveae: u32,
    paint: impl Fn(usize, &mut Picture),
) -> (Share, Share) {
    let (mut seen, mut on_square, mut frames) = (0, 0, 0);
    let phases_ns = &PHASES_NS[..if is_long() { PHASES_NS.len() } else { 1 }];
    for &phase_ns in phases_ns {
        let mut run = Run::new(vec![view(policy.clone(), foveae)], phase_ns);
        let mut fixations = Vec::new();
        for_each_frame(path, |index, frame| {
            let mut picture = Picture::copied(frame);
            paint(index, &mut picture);
            run.step(index, &picture.view(frame));
            fixations.push(run.stream.gaze(0).unwrap().points());
        });
        seen += visited(walkers, &fixations);
        let is_on_square =
            |points: &&Points| points.iter().any(|place| square().contains(*place, 0.0));
        on_square += fixations.iter().filter(is_on_square).count();
        frames += fixations.len();
    }
    ((seen, phases_ns.len() * walkers.len()), (on_square, frames))
}

/// Without paint, by saliency with one fovea, once for all tests.
fn visits_by_saliency(path: &Path) -> (Share, Share) {
    static VISITS: OnceLock<(Share, Share)> = OnceLock::new();
    *VISITS.get_or_init(|| visits(path, walkers(), &Policy::Saliency, 1, |_, _| {}))
}

/// The area that is painted over.
fn square() -> PixelBox {
    let [x0, y0, side] = [PAINTED_AT.0, PAINTED_AT.1, PAINTED_SIDE].map(|pixels| pixels as f64);
    PixelBox { x0, y0, x1: x0 + side, y1: y0 + side }
}

/// The same, if the eye jumped anywhere four times a second.
fn visits_by_chance(walkers: &[Walker]) -> Share {
    const RUNS: u64 = 100;
    let mut random = 1u64;
    let mut share = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut seen = 0;
    for _ in 0..RUNS {
        let frames = (0..795).scan((-1.0, (0.0, 0.0)), |(last, place), index| {
            let now = interval(index);
            if now != *last {
                (*last, *place) = (now, (768.0 * share(), 576.0 * share()));
            }
            Some(Points::from_iter([*place]))
        });
        seen += visited(walkers, &frames.collect::<Vec<_>>());
    }
    (seen, RUNS as usize * walkers.len())
}

/// How many walkers are looked at within two seconds of their coming into sight.
fn visited(walkers: &[Walker], fixations: &[Points]) -> usize {
    let is_seen = |walker: &&Walker| {
        (walker.first..walker.first + SOON).any(|index| {
            let is_on =
                |place: PixelBox| fixations[index].iter().any(|at| place.contains(*at, MARGIN_PX));
            walker.at(index).is_some_and(is_on)
        })
    };
    walkers.iter().filter(is_seen).count()
}

/// Where a ball is that rolls over lawn and path, a pixel or two a frame.
fn ball_at(index: usize) -> (f64, f64) {
    let time = index as f64 * 0.1;
    (384.0 + 250.0 * (0.1 * time).sin(), 330.0 + 150.0 * (0.07 * time).cos())
}

/// Whether tokens of at most `finest` pixels, which do not overlap, cover a box.
fn is_sharp(plan: &TokenPlan, sign: PixelBox, finest: u32) -> bool {
    let side = plan.patch_side;
    let is_fine = |token: &&Token| token.width(side).max(token.height(side)) <= finest;
    let fine = plan.tokens.iter().filter(is_fine);
    let shared = |token: &Token| {
        let lies = token.pixel_box(EXTENT, side);
        let along = |from: u32, to: u32, start: f64, end: f64| {
            (end.min(f64::from(to)) - start.max(f64::from(from))).max(0.0)
        };
        along(lies.x0, lies.x1, sign.x0, sign.x1) * along(lies.y0, lies.y1, sign.y0, sign.y1)
    };
    let covered: f64 = fine.map(shared).sum();
    (sign.x1 - sign.x0) * (sign.y1 - sign.y0) <= covered
}

/// Where a sign of 84 x 44 pixels is, on even pixels.
fn sign_of(turn: usize) -> PixelBox {
    let place = (turn as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let at = |bits: u64, room: u64| (2 * ((place >> bits) % (room / 2))) as f64;
    let (x0, y0) = (at(40, 768 - 84), at(20, 576 - 44));
    PixelBox { x0, y0, x1: x0 + 84.0, y1: y0 + 44.0 }
}

/// The middle half of a box.
fn middle_of(PixelBox { x0, y0, x1, y1 }: PixelBox) -> PixelBox {
    let between = |from: f64, to: f64, part: f64| from + part * (to - from);
    PixelBox {
        x0: between(x0, x1, 0.25),
        y0: between(y0, y1, 0.25),
        x1: between(x0, x1, 0.75),
        y1: between(y0, y1, 0.75),
    }
}

/// Leaves of about 10 pixels, light and dark, each of which swings to and fro by 5 pixels at its own pace.
fn leaf(x: usize, y: usize, time: f64) -> u8 {
    let branch = (x / 32 * 7 + y / 32 * 13) as f64;
    let (sway_x, sway_y) = ((4.1 * time + branch).sin(), (3.3 * time + 2.0 * branch).cos());
    let (u, v) = ((x as f64 + 5.0 * sway_x) / 5.0, (y as f64 + 5.0 * sway_y) / 5.0);
    let shade = u.sin() * (0.7 * v).cos() + (0.6 * u + 1.1 * v).sin();
    (110.0 + 40.0 * shade) as u8
}

/// What a consumer says that attends to walkers, once all of them are in sight: for each a bump as wide as he is.
fn oracle(walkers: &[&Walker], index: usize) -> Option<Feedback> {
    // It has seen the frame before this one, and speaks whenever an interval begins.
    let seen = index.checked_sub(1)?;
    let places: Vec<PixelBox> =
        walkers.iter().map(|walker| walker.at(seen)).collect::<Option<_>>()?;
    let first = walkers.iter().map(|walker| walker.first).max()?;
    let speaks = seen == first || interval(seen) != interval(seen - 1);
    let map = map_of(&places, EXTENT);
    speaks.then(|| Feedback::Attend {
        map: Arc::new(map),
        frame_seq: seen as u64 + 1,
        lies_in: None,
    })
}

/// A bump as wide as each of those in these boxes, over a picture of `extent`.
fn map_of(places: &[PixelBox], extent: Extent) -> AttentionMap {
    let grid = Extent::new(extent.width / 16, extent.height / 16);
    let weight = |cell: usize| {
        let x = ((cell % grid.width as usize) as f64 + 0.5) * 16.0;
        let y = ((cell / grid.width as usize) as f64 + 0.5) * 16.0;
        let bump = |place: &PixelBox| {
            let (centre, half) =
                (place.centre(), ((place.x1 - place.x0) / 2.0, (place.y1 - place.y0) / 2.0));
            let (dx, dy) = ((x - centre.0) / half.0.max(8.0), (y - centre.1) / half.1.max(8.0));
            (-0.5 * (dx * dx + dy * dy)).exp() as f32
        };
        places.iter().map(bump).fold(0.0, f32::max)
    };
    let weights = (0..grid.area()).map(weight).collect();
    AttentionMap::new(grid, Region::of(extent), extent, weights).unwrap()
}

/// Which interval between two words of the oracle a frame lies in.
fn interval(index: usize) -> f64 {
    (index as f64 * ORACLE_HZ * FRAME_NS as f64 * 1e-9).floor()
}

/// A stream on the CPU, and a reader of each of its views.
struct Run {
    stream: Stream,
    /// The channel of each view.
    clients: Vec<ClientChannel>,
    /// By how much the first frame comes earlier than it does in the clip, so that decisions fall on other frames.
    phase_ns: u64,
    view_count: usize,
    readers: Vec<Reader>,
    frame: TokenFrameBuf,
    /// For each view, the box of each token of the newest frame, and the first level that is not finer than the token.
    tokens: Vec<Vec<(PixelBox, u32)>>,
}

impl Run {
    fn new(views: Vec<ServedView>, phase_ns: u64) -> Self {
        let view_count = views.len();
        let (channels, clients): (Vec<_>, Vec<_>) = (0..view_count).map(|_| channel()).unzip();
        let views = views.into_iter().zip(channels);
        let stream = Stream::new("clip", on_cpu(), ChangeConfig::default(), views, Arc::default());
        let (readers, tokens) = (Vec::new(), Vec::new());
        Self {
            stream,
            clients,
            phase_ns,
            view_count,
            readers,
            frame: TokenFrameBuf::default(),
            tokens,
        }
    }

    fn step(&mut self, index: usize, frame: &FrameView<'_>) {
        let phase_ns = if index == 0 { 0 } else { self.phase_ns };
        let pts_ns = Some(index as u64 * FRAME_NS + phase_ns);
        self.stream
            .step(frame, &FrameStamp { pts_ns, ..FrameStamp::numbered(index as u64 + 1) })
            .unwrap();
        for view in self.readers.len()..self.view_count {
            self.readers.push(reader(&self.stream, view));
        }
        self.tokens.clear();
        for reader in &mut self.readers {
            reader.read_newest(&mut self.frame).unwrap();
            let boxes = self.frame.records.iter().map(|record| {
                let [x0, y0, x1, y1] = [record.x0, record.y0, record.x1, record.y1].map(f64::from);
                let step = record.token().width(16).div_ceil(16);
                (PixelBox { x0, y0, x1, y1 }, step.next_power_of_two().ilog2())
            });
            self.tokens.push(boxes.collect());
        }
    }

    /// The coarsest level of the tokens that touch a box.
    fn coarsest_under(&self, view: usize, place: PixelBox) -> u32 {
        let touching = self.tokens[view].iter().filter(|(token, _)| token.touches(place));
        touching.map(|(_, level)| *level).max().unwrap()
    }

    /// The level of the token that covers a point.
    fn level_at(&self, view: usize, place: (f64, f64)) -> u32 {
        let found = self.tokens[view].iter().find(|(token, _)| token.contains(place, 0.0));
        found.map(|(_, level)| *level).unwrap()
    }
}

fn view(policy: Policy, foveae: u32) -> ServedView {
    let layout = Layout::Foveal { e0_px: None, foveae, coarsest: None };
    served("main", ViewSpec { policy, ..spec(layout, 273) })
}

/// A frame in I420 that can be painted on.
struct Picture {
    planes: [Vec<u8>; 3],
}

impl Picture {
    fn copied(frame: &FrameView<'_>) -> Self {
        let rows = |plane: usize| {
            let rows = frame.format().plane_shape(plane, frame.extent()).rows as usize;
            (0..rows).flat_map(|y| frame.row(plane, y)).copied().collect()
        };
        Self { planes: [rows(0), rows(1), rows(2)] }
    }

    /// Paints the luma of a square.
    fn paint(&mut self, value: impl Fn(usize, usize, u8) -> u8) {
        let (left, top) = PAINTED_AT;
        let width = EXTENT.width as usize;
        for y in top..top + PAINTED_SIDE {
            for x in left..left + PAINTED_SIDE {
                let sample = &mut self.planes[0][y * width + x];
                *sample = value(x, y, *sample);
            }
        }
    }

    /// Paints a light sign with dark strokes.
    fn paint_sign(&mut self, PixelBox { x0, y0, x1, y1 }: PixelBox) {
        let [x0, y0, x1, y1] = [x0, y0, x1, y1].map(|side| side as usize);
        let width = EXTENT.width as usize;
        for y in y0..y1 {
            for x in x0..x1 {
                let is_stroke = (x - x0) % 7 < 2 && 8 < y - y0 && y + 8 < y1;
                self.planes[0][y * width + x] = if is_stroke { 40 } else { 210 };
            }
        }
    }

    /// Paints a dark red disc: it stands out by nothing but its colour.
    fn paint_ball(&mut self, (x, y): (f64, f64)) {
        let width = EXTENT.width as usize;
        for (plane, side, value) in [(0, 1, 90), (1, 2, 100), (2, 2, 220)] {
            let scale = side as f64;
            for row in 0..EXTENT.height as usize / side {
                for column in 0..width / side {
                    let middle = |at: usize| (at as f64 + 0.5) * scale;
                    if (middle(column) - x).hypot(middle(row) - y) < BALL_PX {
                        self.planes[plane][row * width / side + column] = value;
                    }
                }
            }
        }
    }

    /// Share of the pixels that are red, on the grid of the oracle: cells of 8 x 8 samples of chroma.
    fn redness(&self) -> Vec<f32> {
        let (columns, width) = (ORACLE_GRID.width as usize, EXTENT.width as usize / 2);
        let share = |cell: usize| {
            let (left, top) = (cell % columns * 8, cell / columns * 8);
            let rows = (top..top + 8).map(|row| &self.planes[2][row * width + left..][..8]);
            rows.flatten().filter(|value| 180 < **value).count() as f32 / 64.0
        };
        (0..ORACLE_GRID.area()).map(share).collect()
    }

    /// A part of it, from a corner on even pixels on.
    fn part<'a>(
        &'a self,
        frame: &FrameView<'_>,
        (left, top): (usize, usize),
        extent: Extent,
    ) -> FrameView<'a> {
        let width = frame.extent().width as usize;
        let plane = |index: usize, side: usize| {
            let stride = width / side;
            Plane { bytes: &self.planes[index][top / side * stride + left / side..], stride }
        };
        let planes = [plane(0, 1), plane(1, 2), plane(2, 2)];
        FrameView::new(frame.format(), extent, frame.kind().color, &planes).unwrap()
    }

    fn view<'a>(&'a self, frame: &FrameView<'_>) -> FrameView<'a> {
        self.part(frame, (0, 0), frame.extent())
    }
}

fn percent((part, whole): Share) -> String {
    format!("{:.1} % ({part} of {whole})", 100.0 * part as f64 / whole as f64)
}

/// Not through a macro: the test harness would swallow it.
fn say(text: &str) {
    let _ = writeln!(stderr(), "\n{text}");
}
