//! Real clips, with the noise of a camera and of a codec, frame by frame: what a view publishes of them is what it should by definition.

use std::num::NonZeroU32;

use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::frame::{FrameKind, FrameStamp};
use foveate_core::gaze::controller::Policy;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_core::view::ViewSpec;
use foveate_engine::{Engine, Memory, View};
use testkit::backends::{Player, device_diff_on, host_diff_on, on_cpu};
use testkit::device;
use testkit::film::for_each_frame;
use testkit::footage::clip;
use testkit::published::Definition;

/// People before a fixed camera; a hand that turns a box.
const CLIPS: [&str; 2] = ["vtest.avi", "box.mp4"];

/// Frames of each clip that views look at.
const FRAMES: u64 = 50;

/// Frames of a round of refreshing.
const ROUND: u32 = 30;

const EXACT: ChangeConfig = ChangeConfig { threshold: Threshold::Fixed(0), refresh_frames: None };

const FIXED: ChangeConfig = ChangeConfig { threshold: Threshold::Fixed(8), refresh_frames: None };

const FOLLOWING: ChangeConfig = ChangeConfig {
    threshold: Threshold::Auto { limit: 16 },
    refresh_frames: NonZeroU32::new(ROUND),
};

#[test]
fn tokens_of_clips_follow_the_definition_on_the_cpu() {
    for change in [EXACT, FIXED, FOLLOWING] {
        play(change, &on_cpu);
    }
}

#[test]
fn tokens_of_clips_follow_the_definition_on_a_device() {
    device::with_gpu(|gpu| {
        play(FIXED, &|kind| host_diff_on(gpu, kind));
        play(FIXED, &|kind| device_diff_on(gpu, kind));
        play(FOLLOWING, &|kind| device_diff_on(gpu, kind));
    });
}

/// Plays the beginning of all clips to a view whose gaze moves.
fn play(change: ChangeConfig, make: &dyn Fn(FrameKind) -> Player) {
    for name in CLIPS {
        let Some(path) = clip(name) else { return };
        let mut sides: Option<(Engine, View<Memory>, Definition)> = None;
        for_each_frame(&path, |index, frame| {
            let frame_seq = index as u64 + 1;
            if FRAMES < frame_seq {
                return;
            }
            let (engine, view, definition) = sides.get_or_insert_with(|| {
                let engine = Engine::new(make(frame.kind()).backend, change, 1);
                let format = TokenFormat::new(16, DType::U8, Normalisation::NONE);
                let policy = Policy::Saliency;
                let spec = ViewSpec { policy, format, budget: 120, ..ViewSpec::default() };
                let view = engine.view(spec, Memory::default()).unwrap();
                (engine, view, Definition::new(frame, change))
            });
            let capture_ns = frame_seq * 100_000_000;
            let stamp = FrameStamp { capture_ns, ..FrameStamp::numbered(frame_seq) };
            engine.step(frame, &stamp, std::slice::from_mut(view)).unwrap();
            definition.step(frame, frame_seq, view);
        });
        let kept = sides.unwrap().2.kept;
        assert!(change != FIXED || 0 < kept, "tokens of {name} that kept what had moved");
        assert!(change != EXACT || kept == 0, "tokens of {name} are exact");
    }
}
