//! An update says when its parts ran, on the CPU's clock: in order, between the hand-over to the device and the end of the
//! wait for it; and parts that did not run took no time.

use std::sync::Arc;

use foveate_core::clock::{Span, monotonic_ns};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::tile::TileSet;
use foveate_engine::backend::UpdateTimes;
use foveate_engine::planes::Planes;
use foveate_engine::planes::SamplerSpec;
use foveate_gpu::Gpu;
use testkit::backends::{Player, host_diff_on};
use testkit::device::{with_gpu, with_own_gpu};
use testkit::naive::{self, OwnedFrame, Random};

use crate::vulkan::{FORMAT, frame};

/// An extent whose pyramid has a tail of two levels.
const EXTENT: Extent = Extent::new(640, 480);

/// Bytes of a tile of NV12.
const TILE_BYTES: u64 = 32 * 32 * 3 / 2;

#[test]
fn parts_run_in_order_between_hand_over_and_wait() {
    with_gpu(check_order);
}

#[test]
fn without_a_common_clock_the_order_holds_as_well() {
    with_own_gpu(|gpu| {
        gpu.forget_calibration();
        check_order(gpu);
    });
}

#[test]
fn parts_that_do_not_run_have_no_span() {
    with_gpu(|gpu| {
        let mut played = PlayedStream::new(gpu, 1);
        played.update(&TileSet::all(EXTENT));

        let (times, _) = played.update(&TileSet::none(EXTENT));
        let on_device = [times.ingest, times.reduce, times.sample];
        assert_eq!((on_device, times.uploaded_bytes), ([Span::NONE; 3], 0), "nothing changed");

        played.forget_tokens();
        let (times, _) = played.update(&TileSet::none(EXTENT));
        assert_eq!((times.ingest, times.reduce), (Span::NONE, Span::NONE), "the gaze moved");
        assert_ne!(times.sample, Span::NONE);

        let mut blind = PlayedStream::new(gpu, 0);
        let mut one = TileSet::none(EXTENT);
        one.insert(3, 2);
        for (dirty, tiles) in [(TileSet::all(EXTENT), 20 * 15), (one, 1)] {
            let (times, _) = blind.update(&dirty);
            assert_eq!((times.sample, times.uploaded_bytes), (Span::NONE, tiles * TILE_BYTES));
            assert_ne!(times.ingest, Span::NONE);
        }
    });
}

#[test]
fn sources_without_a_tail_reduce_nothing() {
    with_gpu(|gpu| {
        let frame = frame(Extent::new(200, 200), 2);
        let mut player = host_diff_on(gpu, frame.kind());
        let times = player.update(&frame.view(), &TileSet::all(frame.extent), &mut []);
        assert_eq!(times.reduce, Span::NONE);
        assert_ne!(times.ingest, Span::NONE);
    });
}

/// The laws of an update in which everything runs.
fn check_order(gpu: &Arc<Gpu>) {
    for views in 1..4 {
        let mut played = PlayedStream::new(gpu, views);
        for _ in 0..5 {
            played.forget_tokens();
            let (times, called) = played.update(&TileSet::all(EXTENT));
            let UpdateTimes {
                change,
                upload,
                ingest,
                features,
                reduce,
                sample,
                collect,
                uploaded_bytes,
                collected_bytes,
            } = times;
            assert!(called.start_ns <= change.start_ns && collect.end_ns <= called.end_ns);
            let parts = [change, upload, ingest, features, reduce, sample, collect];
            for (earlier, later) in parts.iter().zip(&parts[1..]) {
                assert!(earlier.start_ns <= earlier.end_ns, "{times:?}");
                assert!(earlier.end_ns <= later.start_ns, "{times:?}");
            }
            // Times that are cut to fit would have no length.
            assert!(
                [ingest, features, reduce, sample].iter().all(|span| 0 < span.ns()),
                "{times:?}"
            );
            assert_eq!(uploaded_bytes, 20 * 15 * TILE_BYTES);
            let tokens: usize = played.views.iter().map(|view| view.stale().len()).sum();
            assert_eq!(collected_bytes, (tokens * FORMAT.token_bytes()) as u64);
        }
    }
}

/// A backend and what it shows.
struct PlayedStream {
    frame: OwnedFrame,
    player: Player,
    views: Vec<Planes>,
}

impl PlayedStream {
    fn new(gpu: &Arc<Gpu>, views: usize) -> Self {
        let frame = frame(EXTENT, 1);
        let mut player = host_diff_on(gpu, frame.kind());
        player.backend.keep_features(true);
        let spec = SamplerSpec { format: FORMAT, capacity: 30, keeps_unchanged: false };
        let views = (0..views).map(|_| player.planes(spec)).collect();
        let mut played = Self { frame, player, views };
        played.forget_tokens();
        played
    }

    /// Looks elsewhere, so that all tokens must be sampled.
    fn forget_tokens(&mut self) {
        for view in &mut self.views {
            let plan = naive::random_plan(self.frame.extent, FORMAT.patch_side, 30, &mut Random(3));
            view.set_plan(plan, self.frame.extent);
        }
    }

    /// Returns the times, and between which the call ran.
    fn update(&mut self, dirty: &TileSet) -> (UpdateTimes, Span) {
        let start_ns = monotonic_ns();
        let times = self.player.update(&self.frame.view(), dirty, &mut self.views);
        (times, Span::since(start_ns))
    }
}
