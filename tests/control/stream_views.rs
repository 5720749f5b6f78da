//! What a view leaves out, and what it becomes, changes nothing of what it publishes; and each frame is accounted for.

#![allow(clippy::cast_possible_truncation, reason = "of numbers below a bound")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use foveate_config::ViewConfig;
use foveate_core::change::ChangeConfig;
use foveate_core::frame::{FrameStamp, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::rate::RateLimit;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_daemon::stream::{
    AddViewError, NewView, REPLACED, ServedView, StepOutcome, Stream, StreamBackend, ViewPace,
};
use foveate_gaze::controller::Policy;
use foveate_gaze::feedback::Feedback;
use foveate_gaze::layout::Layout;
use foveate_gaze::layout::inset::Inset;
use foveate_gaze::layout::rings::Rings;
use foveate_gaze::view::{VIEWS_MAX, ViewSpec};
use foveate_ring::{FrameHead, ReadOutcome, Reader, State, TokenFrameBuf, TokenRecord};
use foveate_server::channel::{ClientChannel, EventFd, ViewChannel, view_channel};
use foveate_server::memory::MemoryWatch;
use foveate_stats::StreamCounters;
use testkit::history::move_on;
use testkit::naive::{self, OwnedFrame, Random};
use testkit::stream::{channel, on_cpu, on_every_backend, read_newest, reader, served, spec};

const MS: u64 = 1_000_000;

const FRAMES: u64 = 60;

/// A separate view, which samples every frame, is the reference.
#[test]
fn what_a_view_leaves_out_changes_nothing_of_what_it_publishes() {
    on_every_backend(|backend| {
        let mut random = Random(3);
        for (always, seldom) in [(None, Some(3)), (Some(2), Some(5)), (None, None)] {
            let paces = [
                ViewPace { interval: always.map(interval), when_read: false },
                ViewPace { interval: seldom.map(interval), when_read: true },
            ];
            leave_out(backend(), paces, &mut random);
        }
    });
}

#[test]
fn an_unread_stream_rests_and_reports_it() {
    let pace = ViewPace { interval: None, when_read: true };
    let mut shown = StreamScene::new(on_cpu(), [pace; 2]);
    let mut random = Random(4);
    let mut frame = first_frame(&mut random);
    assert_eq!(shown.step(&frame, 1), StepOutcome::PublishedInNewSegments);
    assert!((0..2).all(|index| shown.newest(index).is_some()), "a later reader finds a frame");
    for frame_seq in 2..=5 {
        move_on(&mut frame, 3, frame_seq, &mut random);
        assert_eq!(shown.step(&frame, frame_seq), StepOutcome::Unpublished);
    }
    let (state, reason) = shown.readers[0].state();
    assert_eq!(state, State::Stalled);
    assert!(reason.contains("waiting for a subscriber"), "{reason}");
    assert_eq!(shown.counters.tiles_dirty.get(), shown.stream.ingested().unwrap().count() as u64);
    assert_eq!(shown.counters.frames_rested.get(), 4);

    // A stall takes precedence, and afterwards the state is as before.
    shown.stream.stall("the camera is away");
    assert_eq!(shown.readers[0].state(), (State::Stalled, "the camera is away".to_owned()));
    shown.stream.resume();
    assert_eq!(shown.readers[0].state(), (state, reason));

    shown.clients[0].counters().subscribers.add(1);
    assert_eq!(shown.step(&frame, 6), StepOutcome::Published);
    assert_eq!(shown.readers[0].state(), (State::Live, String::new()));
    assert_eq!(shown.newest(0).unwrap().head.stamp.frame_seq, 6);
    assert!(shown.newest(1).is_none(), "that one still nobody reads");
    shown.clients[0].counters().subscribers.remove(1);
    assert_eq!(shown.step(&frame, 7), StepOutcome::Unpublished);
    assert_eq!(shown.readers[0].state().0, State::Stalled);
}

#[test]
fn a_replaced_view_equals_a_fresh_one() {
    on_every_backend(|backend| {
        let mut random = Random(5);
        let mut shown = StreamScene::new(backend(), [ViewPace::default(); 2]);
        let mut frame = first_frame(&mut random);
        shown.step(&frame, 1);
        let others_epoch = shown.stream.epoch(1);
        for frame_seq in 2..=12 {
            move_on(&mut frame, random.below(6), frame_seq, &mut random);
            if frame_seq % 3 == 0 {
                let plan = ServedView { name: shown.names[0].clone(), ..random_plan(&mut random) };
                shown.replace(0, plan);
            }
            let old = frame_seq.is_multiple_of(3).then(|| shown.readers.remove(0));
            let stepped = shown.step(&frame, frame_seq);
            let expected =
                if old.is_some() { StepOutcome::PublishedNewViews } else { StepOutcome::Published };
            assert_eq!(stepped, expected, "frame {frame_seq}");
            if let Some(old) = old {
                assert_eq!(old.state(), (State::Ended, REPLACED.to_owned()));
            }
            for index in 0..2 {
                let plan = shown.plans[index].clone();
                let found = shown.newest(index).unwrap();
                let expected = fresh(plan, &frame, &found);
                assert_eq!(places(&found), places(&expected), "view {index} of frame {frame_seq}");
                assert!(found.pixels == expected.pixels, "view {index} of frame {frame_seq}");
            }
            assert_eq!(shown.stream.epoch(1), others_epoch, "the other view goes on");
        }
    });
}

#[test]
fn a_stream_has_room_for_so_many_views_and_no_more() {
    for frames in 0..2 {
        let mut shown = StreamScene::new(on_cpu(), [ViewPace::default(); 2]);
        let mut random = Random(7);
        let mut frame = first_frame(&mut random);
        for frame_seq in 1..=frames {
            shown.step(&frame, frame_seq);
        }
        let another = |shown: &StreamScene, index: usize| {
            let plan = plan(format!("more{index}"), Layout::Uniform, 8);
            built(&shown.stream, &plan, channel().0)
        };
        for index in 2..VIEWS_MAX {
            let view = another(&shown, index);
            shown.stream.add_view(view).unwrap();
        }
        let refused = shown.stream.add_view(another(&shown, VIEWS_MAX)).unwrap_err();
        assert!(matches!(refused.1, AddViewError::Full), "{}", refused.1);
        move_on(&mut frame, 3, frames + 1, &mut random);
        shown.stream.step(&frame.view(), &FrameStamp::numbered(frames + 1)).unwrap();
        assert!(shown.stream.segment(VIEWS_MAX - 1).unwrap().is_some());
        drop(shown.stream.remove_view("more3").unwrap());
        shown.stream.add_view(another(&shown, VIEWS_MAX)).unwrap();
    }
}

/// Frames of another kind came meanwhile, and changed nothing of these.
#[test]
fn what_was_made_for_other_frames_is_made_again() {
    let mut shown = StreamScene::new(on_cpu(), [ViewPace::default(); 2]);
    let mut random = Random(6);
    shown.step(&first_frame(&mut random), 1);
    let plan = ServedView { name: "view0".to_owned(), ..random_plan(&mut random) };
    let stale = shown.stream.view_builder().build_replacement(plan.clone()).unwrap();
    let color = naive::transforms(PixelFormat::Gray8)[0];
    let other = OwnedFrame::uniform(PixelFormat::Gray8, Extent::new(90, 70), color, 8);
    shown.step(&other, 2);
    let epochs = [0, 1].map(|index| shown.stream.epoch(index));
    assert_eq!(*shown.stream.replace_view(stale).err().unwrap(), plan);
    assert_eq!([0, 1].map(|index| shown.stream.epoch(index)), epochs);
    let again = shown.stream.view_builder().build_replacement(plan).unwrap();
    shown.stream.replace_view(again).unwrap().unwrap();
    assert_eq!(shown.step(&other, 3), StepOutcome::PublishedNewViews);
    let epochs = [0, 1].map(|index| shown.stream.epoch(index).unwrap());
    // Frames of yet another kind right after it was made: it still becomes what it was to be.
    let plan = {
        let base = random_plan(&mut random);
        ServedView {
            name: "view0".to_owned(),
            spec: ViewSpec { budget: 7, ..base.spec.clone() },
            ..base
        }
    };
    let made = shown.stream.view_builder().build_replacement(plan).unwrap();
    shown.stream.replace_view(made).unwrap().unwrap();
    let stepped = shown.step(&first_frame(&mut random), 4);
    assert_eq!(stepped, StepOutcome::PublishedInNewSegments);
    assert!(epochs.iter().all(|epoch| shown.stream.epoch(0) != Some(*epoch)));
    assert!(shown.newest(0).unwrap().records.len() <= 7);
}

/// Shows a history to a stream that leaves frames out, and compares what it publishes with one that does not.
fn leave_out(backend: StreamBackend, paces: [ViewPace; 2], random: &mut Random) {
    let mut shown = StreamScene::new(backend, paces);
    let mut whole = StreamScene::new(on_cpu(), [ViewPace::default(); 2]);
    let mut frame = first_frame(random);
    let mut limits = paces.map(|pace| pace.interval.map(RateLimit::new));
    let mut is_read = false;
    let mut published = [0; 2];
    let mut contents = BTreeMap::new();
    for frame_seq in 1..=FRAMES {
        if 1 < frame_seq {
            move_on(&mut frame, random.below(6), frame_seq, random);
        }
        if random.below(6) == 0 {
            let subscribers = &shown.clients[1].counters().subscribers;
            if is_read {
                subscribers.remove(1)
            } else {
                subscribers.add(1)
            }
            is_read = !is_read;
        }
        if random.below(5) == 0 {
            let (x, y) = (random.below(frame.extent.width), random.below(frame.extent.height));
            let look = Feedback::look_at(x.into(), y.into(), None);
            // The other view may rest for a while, and gets everything at its next frame.
            whole.clients[0].send_feedback(look.clone(), frame.extent, 1, false).unwrap();
            shown.clients[0].send_feedback(look, frame.extent, 1, false).unwrap();
        }
        shown.step(&frame, frame_seq);
        whole.step(&frame, frame_seq);
        for index in 0..2 {
            let is_first = frame_seq == 1;
            let is_awake = !paces[index].when_read || is_read || is_first;
            let is_due = is_awake
                && limits[index].as_mut().is_none_or(|limit| limit.takes(frame_seq * 10 * MS));
            let expected = whole.newest(index).unwrap();
            let found = shown.newest(index);
            assert_eq!(found.is_some(), is_due, "view {index} of frame {frame_seq}");
            let Some(found) = found else { continue };
            published[index] += 1;
            if expected.head.fixation() == found.head.fixation() {
                assert!(found.pixels == expected.pixels, "view {index} of frame {frame_seq}");
            }
            check_promise(index, &found, &mut contents);
        }
    }
    for (client, published) in shown.clients.iter().zip(published) {
        let counters = client.counters();
        assert_eq!(counters.frames_published.get(), published);
        let left_out = counters.frames_skipped.get() + counters.frames_unread.get();
        // Of frames that no view wanted, too.
        assert_eq!(published + left_out, FRAMES);
    }
    let counters = &shown.counters;
    assert_eq!(counters.frames_published.get() + counters.frames_rested.get(), FRAMES);
}

/// An opened view is sampled after the configured ones, and from what these saw.
#[test]
fn opened_view_publishes_what_a_configured_one_would() {
    let relevance = || Policy::Relevance { scorer: None, weights: BTreeMap::new(), passes: 1 };
    on_every_backend(|backend| {
        let mut random = Random(21);
        for policy in [Policy::Fixed { x: 0.5, y: 0.5 }, Policy::Saliency, relevance()] {
            let mut shown = StreamScene::new(backend(), [ViewPace::default(); 2]);
            let mut frame = first_frame(&mut random);
            shown.step(&frame, 1);
            let plan = plan("twin".to_owned(), Layout::default(), 40);
            let spec = ViewSpec { policy: policy.clone(), ..plan.spec.clone() };
            let plan = ServedView { spec, ..plan };
            // In this order, so that the configured one has to go in front.
            let (_opened, view) = shown.build(&plan, true);
            let opened = shown.stream.add_view(view).unwrap();
            let (_configured, view) = shown.build(&plan, false);
            let configured = shown.stream.add_view(view).unwrap();
            assert_eq!((configured, opened), (2, 2));
            let mut pair = None;
            for frame_seq in 2..=40 {
                move_on(&mut frame, random.below(6), frame_seq, &mut random);
                shown.step(&frame, frame_seq);
                let pair =
                    pair.get_or_insert_with(|| [2, 3].map(|index| reader(&shown.stream, index)));
                let [configured, opened] = pair.each_mut().map(read_newest);
                let publish_ns = configured.head.publish_ns;
                assert_eq!(configured.head, FrameHead { publish_ns, ..opened.head });
                assert_eq!(configured.records, opened.records, "{policy} in frame {frame_seq}");
                assert!(configured.pixels == opened.pixels, "{policy} in frame {frame_seq}");
            }
        }
    });
}

#[test]
fn late_frame_loop_serves_configured_views_alone() {
    on_every_backend(|backend| {
        let mut shown = StreamScene::new(backend(), [ViewPace::default(); 2]);
        let mut random = Random(22);
        let mut frame = first_frame(&mut random);
        shown.step(&frame, 1);
        let plan = |name: &str| plan(name.to_owned(), FOVEAL, 40);
        let clients: Vec<_> = ["one", "two"]
            .map(|name| {
                let (client, view) = shown.build(&plan(name), true);
                shown.stream.add_view(view).unwrap();
                client
            })
            .into();
        let mut published = |shown: &mut StreamScene, is_late: &dyn Fn() -> bool| {
            let frame_seq = 1 + shown.counters.frames_published.get();
            move_on(&mut frame, random.below(6), frame_seq, &mut random);
            let stamp = FrameStamp::numbered(frame_seq);
            shown.stream.step_with(&frame.view(), &stamp, None, is_late).unwrap();
            let configured = shown.clients.iter().chain(&clients);
            configured.map(|client| client.counters().frames_published.get()).collect::<Vec<_>>()
        };
        assert_eq!(published(&mut shown, &|| true), [2, 2, 1, 1], "the first of each segment");
        for frame in 3..31 {
            assert_eq!(published(&mut shown, &|| true), [frame, frame, 1, 1]);
        }
        // One at a time, so that they do not make the next frame late together.
        assert_eq!(published(&mut shown, &|| true), [31, 31, 2, 1]);
        assert_eq!(published(&mut shown, &|| true), [32, 32, 2, 2], "after 29 left out");

        // Whoever was left out has the first turn.
        let turns = std::cell::Cell::new(0);
        let is_late_after_one = || 0 < turns.replace(turns.get() + 1);
        let [.., one, two] = published(&mut shown, &is_late_after_one)[..] else { panic!() };
        assert_eq!((one, two), (3, 2));
        turns.set(0);
        let [.., one, two] = published(&mut shown, &is_late_after_one)[..] else { panic!() };
        assert_eq!((one, two), (3, 3));
        let shed: Vec<_> =
            clients.iter().map(|client| client.counters().frames_shed.get()).collect();
        assert_eq!(shed, [30, 30]);
        // Whatever was left out, the next frame is whole.
        published(&mut shown, &|| false);
        for (index, name) in [(2, "one"), (3, "two")] {
            let found = read_newest(&mut reader(&shown.stream, index));
            let expected = fresh(plan(name), &frame, &found);
            assert!(found.pixels == expected.pixels, "{name}");
        }
    });
}

/// Same place and same `changed_frame`: same bytes.
fn check_promise(
    view: usize,
    frame: &TokenFrameBuf,
    contents: &mut BTreeMap<(usize, [i32; 4], u64), Vec<u8>>,
) {
    let token_bytes = frame.pixels.len() / frame.records.len();
    for (record, pixels) in frame.records.iter().zip(frame.pixels.chunks(token_bytes)) {
        let known =
            contents.entry((view, place(record), record.changed_frame)).or_insert(pixels.to_vec());
        assert!(known == pixels, "{record:?} of frame {}", frame.head.stamp.frame_seq);
    }
}

/// What a stream that has seen nothing else publishes of a frame, looking where `found` was looked at.
fn fresh(plan: ServedView, frame: &OwnedFrame, found: &TokenFrameBuf) -> TokenFrameBuf {
    let Extent { width, height } = frame.extent;
    let (x, y) = (found.head.fixation().x, found.head.fixation().y);
    let policy = Policy::Fixed { x: x / f64::from(width), y: y / f64::from(height) };
    let plan = ServedView { spec: ViewSpec { policy, ..plan.spec.clone() }, ..plan };
    let views = [(plan, ViewChannel::unconnected())];
    let mut stream = Stream::new("fresh", on_cpu(), ChangeConfig::default(), views, Arc::default());
    stream.step(&frame.view(), &FrameStamp::numbered(1)).unwrap();
    read_newest(&mut reader(&stream, 0))
}

fn places(frame: &TokenFrameBuf) -> Vec<[i32; 4]> {
    frame.records.iter().map(place).collect()
}

fn place(record: &TokenRecord) -> [i32; 4] {
    [record.x, record.y, record.sx.into(), record.sy.into()]
}

/// Its plans follow from the gaze alone, so those of a fresh view are the same.
const FOVEAL: Layout = Layout::Foveal { e0_px: None, foveae: 1, coarsest: None };

/// A stream of two views, those who talk to them, and their readers.
struct StreamScene {
    stream: Stream,
    counters: Arc<StreamCounters>,
    clients: Vec<ClientChannel>,
    /// Names of the views, in the stream's order.
    names: Vec<String>,
    plans: Vec<ServedView>,
    readers: Vec<Reader>,
    newest: Vec<u64>,
}

impl StreamScene {
    fn new(backend: StreamBackend, paces: [ViewPace; 2]) -> Self {
        let layouts = [FOVEAL, Layout::Uniform];
        let plans: Vec<_> = (0..2)
            .map(|index| {
                let name = format!("view{index}");
                ServedView { pace: paces[index], ..plan(name, layouts[index].clone(), 60) }
            })
            .collect();
        let (channels, clients): (Vec<_>, Vec<_>) = (0..2).map(|_| channel()).unzip();
        let counters = Arc::<StreamCounters>::default();
        let views = plans.clone().into_iter().zip(channels);
        let change = ChangeConfig::default();
        let stream = Stream::new("camera", backend, change, views, Arc::clone(&counters));
        let names = plans.iter().map(|plan| plan.name.clone()).collect();
        Self { stream, counters, clients, names, plans, readers: Vec::new(), newest: vec![0; 2] }
    }

    fn step(&mut self, frame: &OwnedFrame, frame_seq: u64) -> StepOutcome {
        let stamp =
            FrameStamp { pts_ns: Some(frame_seq * 10 * MS), ..FrameStamp::numbered(frame_seq) };
        let stepped = self.stream.step(&frame.view(), &stamp).unwrap();
        if matches!(stepped, StepOutcome::PublishedInNewSegments | StepOutcome::PublishedNewViews) {
            self.readers = [0, 1].map(|index| reader(&self.stream, index)).into();
        }
        stepped
    }

    /// A new view, of the configuration or opened by a client, and the channel of its clients.
    fn build(&self, plan: &ServedView, is_opened: bool) -> (ClientChannel, NewView) {
        let opened = is_opened.then(|| Arc::new(MemoryWatch::new().unwrap()));
        let wakeup = Arc::new(EventFd::new().unwrap());
        let (channel, client) = view_channel(&wakeup, "camera", ViewConfig::default(), opened);
        (client, built(&self.stream, plan, channel))
    }

    /// What the newest step published of a view.
    fn newest(&mut self, index: usize) -> Option<TokenFrameBuf> {
        let mut frame = TokenFrameBuf::default();
        let outcome = self.readers[index].read_newest(&mut frame).unwrap();
        let is_new = matches!(outcome, ReadOutcome::Frame { .. });
        (is_new && self.newest[index] < frame.head.stamp.frame_seq).then(|| {
            self.newest[index] = frame.head.stamp.frame_seq;
            frame
        })
    }

    /// Replaces a view.
    fn replace(&mut self, index: usize, plan: ServedView) {
        let replacement = self.stream.view_builder().build_replacement(plan.clone()).unwrap();
        drop(self.stream.replace_view(replacement).unwrap().unwrap());
        self.plans[index] = plan;
    }
}

fn built(stream: &Stream, plan: &ServedView, channel: ViewChannel) -> NewView {
    let mut view = stream.view_builder().new_view(plan, channel);
    stream.view_builder().build(&mut view).unwrap();
    view
}

fn plan(name: String, layout: Layout, budget: usize) -> ServedView {
    let policy = Policy::Fixed { x: 0.3, y: 0.6 };
    served(&name, ViewSpec { policy, ..spec(layout, budget) })
}

fn random_plan(random: &mut Random) -> ServedView {
    let layout = match random.below(7) {
        0 => Layout::Uniform,
        1 => Layout::Directional { e0_px: None },
        2 => Layout::Rings(Rings::new(&[1, 2, 6], &[2, 3, 3]).unwrap()),
        3 => Layout::Windows,
        4 => Layout::Inset(Inset::default()),
        _ => Layout::Foveal {
            e0_px: Some(f64::from(1 + random.below(60))),
            foveae: 1,
            coarsest: None,
        },
    };
    let (dtype, normalisation) = match random.below(2) {
        0 => (DType::U8, Normalisation::NONE),
        _ => (DType::F16, Normalisation::IMAGENET),
    };
    let patch_side = [14, 16, 8, 30][random.below(4) as usize];
    let share = |random: &mut Random| f64::from(random.below(101)) / 100.0;
    {
        let base = plan(String::new(), layout, 4 + random.below(80) as usize);
        ServedView {
            slot_count: 2 + random.below(3) as usize,
            spec: ViewSpec {
                format: TokenFormat::new(patch_side, dtype, normalisation),
                policy: Policy::Fixed { x: share(random), y: share(random) },
                ..base.spec.clone()
            },
            ..base
        }
    }
}

fn first_frame(random: &mut Random) -> OwnedFrame {
    let format = PixelFormat::Nv12;
    OwnedFrame::random(format, Extent::new(233, 141), naive::transforms(format)[0], random)
}

/// The time in which so many frames come.
fn interval(frames: u64) -> Duration {
    Duration::from_millis(10 * frames)
}
