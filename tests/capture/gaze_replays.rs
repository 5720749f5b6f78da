//! A recorded gaze leads the same clip to the same tokens, whatever the policy and the layout, and whatever clients and masks do.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::frame::FrameStamp;
use foveate_core::geometry::attention::AttentionMap;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, Gaze, Points};
use foveate_core::geometry::gaze_entry::GazeEntry;
use foveate_core::geometry::region::Region;
use foveate_core::mask::{Mask, MaskFill};
use foveate_daemon::stream::{ServedView, Stream};
use foveate_gaze::GazeParameters;
use foveate_gaze::controller::{FoveaPolicy, Policy};
use foveate_gaze::feedback::{ChannelWeight, Feedback, LookArea};
use foveate_gaze::layout::Layout;
use foveate_gaze::layout::adaptive::demand::ConsumerMemory;
use foveate_gaze::layout::inset::Inset;
use foveate_gaze::layout::rings::Rings;
use foveate_gaze::log::{GazeLog, entry_line, header_line};
use foveate_gaze::relevance::injection::Injection;
use foveate_gaze::view::{VIEWS_MAX, ViewSpec};
use foveate_ring::{Reader, TokenFrameBuf, TokenRecord};
use foveate_server::channel::ClientChannel;
use testkit::film::for_each_frame;
use testkit::footage::clip;
use testkit::naive::OwnedFrame;
use testkit::stream::{channel, on_cpu, reader, served, spec};

/// People before a fixed camera, ten frames a second.
const CLIP: &str = "vtest.avi";
const EXTENT: Extent = Extent::new(768, 576);
const FRAME_NS: u64 = 100_000_000;
const FRAMES: u64 = 200;

/// Frame at which the log of the second recorder begins.
const LATE: u64 = 93;

/// The frame that a view published.
#[derive(Clone, Debug, PartialEq)]
struct ViewFrame {
    fixations: Vec<Fixation>,
    records: Vec<TokenRecord>,
    /// Digest of the bytes of all planes.
    digest: u64,
}

/// Lines of three logs: of a recorder from the first frame, of the late one, and with an entry for every frame.
type Logs = [Vec<String>; 3];

/// The first frame of each.
const FIRST: [u64; 3] = [1, LATE, 1];

#[test]
fn a_recorded_gaze_replays_to_the_same_tokens() {
    let Some(path) = clip(CLIP) else { return };
    let frames = frames_of(&path);
    let mut views = Vec::new();
    for policy in policies() {
        let has_foveae = |layout: &Layout| match &policy {
            Policy::Several { policy, .. } => {
                layout.follows_detail() || policy.len() == layout.foveae()
            }
            _ => true,
        };
        let layouts = layouts().into_iter().filter(has_foveae);
        views.extend(layouts.map(|layout| view(policy.clone(), layout)));
    }
    for views in views.chunks(VIEWS_MAX / FIRST.len()) {
        let (live, logs) = play(views, &frames, true);
        let mut replays = Vec::new();
        for (view, logs) in views.iter().zip(&logs) {
            for lines in logs {
                let log = Arc::new(GazeLog::parse(&lines.join("\n")).unwrap());
                let spec = ViewSpec { policy: Policy::Replay { log }, ..view.spec.clone() };
                replays.push(ServedView { spec, ..view.clone() });
            }
        }
        let (replayed, _) = play(&replays, &frames, false);
        for (index, view) in views.iter().enumerate() {
            for (log, from) in FIRST.into_iter().enumerate() {
                let name = format!("{} in {}", view.spec.policy, view.spec.layout.name());
                let pairs = live[index].iter().zip(&replayed[FIRST.len() * index + log]);
                for ((live, replayed), frame) in pairs.zip(1..).filter(|(_, frame)| from <= *frame)
                {
                    let place = format!("frame {frame} of {name}, log {log}");
                    assert_eq!(live.fixations, replayed.fixations, "{place}");
                    // Before its log, the replay looked elsewhere, so that it knows other tokens.
                    let records = |shown: &ViewFrame| -> Vec<TokenRecord> {
                        let changed_frame = |record: &TokenRecord| {
                            if from == 1 { record.changed_frame } else { 0 }
                        };
                        let same = |record: &TokenRecord| TokenRecord {
                            changed_frame: changed_frame(record),
                            ..*record
                        };
                        shown.records.iter().map(same).collect()
                    };
                    assert!(records(live) == records(replayed), "records of {place}");
                    assert_eq!(live.digest, replayed.digest, "texels of {place}");
                }
            }
        }
    }
}

/// The gaze is written when it changes, and not otherwise.
#[test]
fn a_log_has_an_entry_where_the_gaze_changes() {
    let Some(path) = clip(CLIP) else { return };
    let frames = frames_of(&path);
    let views: Vec<_> =
        policies().into_iter().map(|policy| view(policy, layouts().remove(0))).collect();
    let (_, logs) = play(&views, &frames, true);
    for (view, [lines, ..]) in views.iter().zip(&logs) {
        let parsed = GazeLog::parse(&lines.join("\n")).unwrap();
        let repeated = parsed.entries.windows(2).filter(|pair| pair[0].gaze == pair[1].gaze);
        // A later recorder and a change of masks repeat the gaze in the log.
        let repeated: Vec<_> = repeated.map(|pair| pair[1].frame).collect();
        let is_known = |frame: &u64| [LATE, 121, 161].contains(frame);
        assert!(repeated.iter().all(is_known), "{}: frames {repeated:?}", view.spec.policy);
    }
}

fn frames_of(path: &std::path::Path) -> Vec<OwnedFrame> {
    let mut frames = Vec::new();
    for_each_frame(path, |index, frame| {
        if (index as u64) < FRAMES {
            frames.push(OwnedFrame::copied(frame));
        }
    });
    frames
}

fn policies() -> Vec<Policy> {
    use FoveaPolicy::{Auto, Feedback, Fixed, Relevance, Saliency};
    let relevance = |passes| Policy::Relevance { scorer: None, weights: BTreeMap::new(), passes };
    let list = |policy: &[FoveaPolicy]| Policy::Several { policy: policy.to_vec(), x: 0.4, y: 0.6 };
    vec![
        Policy::Auto,
        Policy::Fixed { x: 0.3, y: 0.4 },
        Policy::Feedback,
        Policy::Saliency,
        relevance(1),
        relevance(2),
        list(&[Feedback, Saliency]),
        list(&[Fixed, Auto]),
        list(&[Relevance, Auto]),
    ]
}

fn layouts() -> Vec<Layout> {
    vec![
        Layout::Foveal { e0_px: None, foveae: 2, coarsest: None },
        Layout::Foveal { e0_px: Some(60.0), foveae: 2, coarsest: Some(4) },
        Layout::Inset(Inset { blocks: 2, ..Inset::default() }),
        Layout::Uniform,
        Layout::Directional { e0_px: None },
        Layout::Adaptive { memory: ConsumerMemory::None },
        Layout::Adaptive { memory: ConsumerMemory::Canvas },
        Layout::Rings(Rings::new(&[1, 3], &[3, 3]).unwrap()),
        Layout::Windows,
    ]
}

fn view(policy: Policy, layout: Layout) -> ServedView {
    // Some pursue.
    let pursuit = matches!(policy, Policy::Feedback | Policy::Relevance { passes: 2, .. });
    let parameters = GazeParameters { pursuit, silence_ms: 3000, ..GazeParameters::default() };
    let budget = if layout == Layout::Windows { 2 } else { 77 };
    served("main", ViewSpec { policy, parameters, ..spec(layout, budget) })
}

/// Publishes the frames in `views`, to which clients and recorders speak if `is_live`.
fn play(
    views: &[ServedView],
    frames: &[OwnedFrame],
    is_live: bool,
) -> (Vec<Vec<ViewFrame>>, Vec<Logs>) {
    let (channels, clients): (Vec<_>, Vec<_>) = views.iter().map(|_| channel()).unzip();
    let change = ChangeConfig { threshold: Threshold::Fixed(0), ..ChangeConfig::default() };
    let with_channels = views.iter().cloned().zip(channels);
    let mut stream = Stream::new("clip", on_cpu(), change, with_channels, Arc::default());
    let mut readers: Vec<Reader> = Vec::new();
    let mut shown = vec![Vec::new(); views.len()];
    let header = || vec![header_line("clip/main", EXTENT)];
    let mut logs: Vec<Logs> = views.iter().map(|_| [header(), header(), header()]).collect();
    let mut frame = TokenFrameBuf::default();
    let mut masked = 0;
    for (frame_seq, picture) in (1..).zip(frames) {
        let mut picture = picture.clone();
        let masks = masks_at(frame_seq);
        let fill = MaskFill::new(&masks, picture.kind());
        for index in 0..picture.format.plane_count() {
            let (plane, stride) = picture.plane_mut(index);
            fill.fill(index, plane, stride);
        }
        if std::mem::replace(&mut masked, masks.len()) != masks.len() {
            stream.masks_changed(Some(&fill.coarse_texels()), frame_seq);
        }
        if is_live {
            if [1, LATE].contains(&frame_seq) {
                clients.iter().for_each(|client| client.gazes.set_wanted(true));
            }
            clients.iter().for_each(|client| speak(client, frame_seq));
        }
        let pts_ns = Some(frame_seq * FRAME_NS);
        let stamp = FrameStamp { pts_ns, ..FrameStamp::numbered(frame_seq) };
        stream.step(&picture.view(), &stamp).unwrap();
        for view in readers.len()..views.len() {
            readers.push(reader(&stream, view));
        }
        for (reader, shown) in readers.iter_mut().zip(&mut shown) {
            reader.read_newest(&mut frame).unwrap();
            assert_eq!(frame.head.stamp.frame_seq, frame_seq, "every frame is published");
            let mut digest = DefaultHasher::new();
            (&frame.pixels, &frame.planes).hash(&mut digest);
            let (fixations, records) = (frame.head.fixations.to_vec(), frame.records.clone());
            shown.push(ViewFrame { fixations, records, digest: digest.finish() });
        }
        for (index, (client, logs)) in clients.iter().zip(&mut logs).enumerate() {
            let [first, late, each] = logs;
            let mut is_planned_afresh = false;
            for change in client.gazes.drain() {
                is_planned_afresh |= change.is_planned_afresh;
                let line = line_of(&change.gaze, frame_seq, change.is_planned_afresh);
                if LATE <= frame_seq {
                    late.push(line.clone());
                }
                first.push(line);
            }
            each.push(line_of(stream.gaze(index).unwrap(), frame_seq, is_planned_afresh));
        }
    }
    (shown, logs)
}

fn line_of(gaze: &Gaze, frame_seq: u64, is_planned_afresh: bool) -> String {
    entry_line(&GazeEntry { is_planned_afresh, ..GazeEntry::new(gaze, frame_seq) })
}

/// Some come, and go again.
fn masks_at(frame_seq: u64) -> Vec<Mask> {
    let mask = |name, sides| Mask::rectangle(name, sides);
    match frame_seq {
        121..=160 => vec![mask("path", [0.3, 0.3, 0.6, 0.7])],
        161.. => {
            vec![mask("path", [0.3, 0.3, 0.6, 0.7]), mask("lawn", [0.0, 0.0, 0.2, 0.9])]
        }
        _ => Vec::new(),
    }
}

/// Sends the feedback that clients have before a frame.
fn speak(client: &ClientChannel, frame_seq: u64) {
    let seen = frame_seq.saturating_sub(2).max(1);
    let place = |salt: u64, side: u32| {
        let number = (frame_seq / 4 + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        (number % u64::from(side)) as f64
    };
    let look = |points: Points, hold_ns, size| Feedback::Look {
        points,
        hold_ns,
        frame_seq: Some(seen),
        area: LookArea { size, share: None },
    };
    let points = |count: u64| -> Points {
        (0..count).map(|index| (place(2 * index, 768), place(2 * index + 1, 576))).collect()
    };
    let feedback = match frame_seq {
        20 => look(points(2), None, None),
        30 => look(points(1), Some(1_500_000_000), Some((90.0, 60.0))),
        // From a model that speaks at each other frame.
        45..=75 | 130..=150 if frame_seq % 2 == 1 => {
            let map =
                Arc::new(bumps([(place(0, 768), place(1, 576)), (place(2, 768), place(3, 576))]));
            Feedback::Attend { map, frame_seq: seen, lies_in: None }
        }
        80 => Feedback::Release,
        85 => Feedback::Weigh(Arc::new([ChannelWeight { name: "motion".to_owned(), weight: 4.0 }])),
        88 => {
            let map = bumps([(place(0, 768), place(1, 576)); 2]);
            let (grid, values) = (map.grid(), map.weights().to_vec());
            let lies = (grid, Region::of(EXTENT));
            let given = Injection::new("query", lies, EXTENT, values, seen, 3000);
            Feedback::Inject(Arc::new(given.unwrap()))
        }
        110 => look(points(2), None, None),
        170 => Feedback::Release,
        _ => return,
    };
    client.send_feedback(feedback, EXTENT, 1, false).unwrap();
}

/// A map with two bumps.
#[expect(clippy::cast_possible_truncation, reason = "a weight needs no more digits")]
fn bumps(places: [(f64, f64); 2]) -> AttentionMap {
    let grid = Extent::new(EXTENT.width / 16, EXTENT.height / 16);
    let weight = |cell: usize| {
        let x = ((cell % grid.width as usize) as f64 + 0.5) * 16.0;
        let y = ((cell / grid.width as usize) as f64 + 0.5) * 16.0;
        let bump = |(at_x, at_y): &(f64, f64)| {
            let (dx, dy) = ((x - at_x) / 40.0, (y - at_y) / 40.0);
            (-0.5 * (dx * dx + dy * dy)).exp() as f32
        };
        places.iter().map(bump).fold(0.0, f32::max)
    };
    let weights = (0..grid.area()).map(weight).collect();
    AttentionMap::new(grid, Region::of(EXTENT), EXTENT, weights).unwrap()
}
