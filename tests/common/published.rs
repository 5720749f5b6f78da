//! What a view publishes by definition: a token keeps the texels that it was last published with, and its `changed_frame`, exactly while
//! none of them has moved by more than the threshold since then.

#![allow(unreachable_pub, reason = "a module of several programs")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{HashMap, HashSet};

use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::frame::FrameView;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::Token;
use foveate_core::geometry::region::PixelBox;
use foveate_core::geometry::tile::TileSet;
use foveate_engine::change::refresh::Refresh;
use foveate_engine::{Memory, View};

use crate::follow::Follower;
use crate::naive::{self, OwnedFrame, Picture};

/// Where a token lies: origin, whole steps, and extra pixels.
type Place = (i32, i32, [u16; 2], [u8; 2]);

/// What is published by definition.
pub struct Definition {
    follower: Follower,
    threshold: Threshold,
    refresh: Option<Refresh>,
    /// For each place of the frame published last, the texels and the frame.
    published: HashMap<Place, (Vec<u8>, u64)>,
    /// Places over a tile that was refreshed since: their tokens are published anew.
    renewed: HashSet<Place>,
    /// Tokens that kept texels that had moved.
    pub kept: usize,
}

impl Definition {
    pub fn new(frame: &FrameView<'_>, change: ChangeConfig) -> Self {
        let tiles = TileSet::none(frame.extent()).grid().area();
        Self {
            follower: Follower::new(frame, change),
            threshold: change.threshold,
            refresh: change.refresh_frames.map(|frames| Refresh::new(tiles, frames)),
            published: HashMap::new(),
            renewed: HashSet::new(),
            kept: 0,
        }
    }

    /// Follows a frame that `view` has taken, or has left out.
    pub fn step(&mut self, frame: &FrameView<'_>, frame_seq: u64, view: &View<Memory>) {
        self.follower.detect(frame, frame_seq);
        let format = view.spec().format;
        let side = format.patch_side;
        let refreshed = self.refresh.as_mut().map_or(0..0, Refresh::advance);
        let grid = self.follower.ingested().grid();
        let is_refreshed = |&&(x, y, [sx, sy], [extra_width, extra_height]): &&Place| {
            let token = Token { x, y, sx, sy, extra_width, extra_height, ..Token::default() };
            tiles_under(token.read_box(frame.extent(), side), grid).any(|t| refreshed.contains(&t))
        };
        self.renewed.extend(self.published.keys().filter(is_refreshed));
        if view.planes().is_resting() {
            return;
        }
        let resident = OwnedFrame::copied(&self.follower.resident());
        let sampled = texels(&naive::picture(&resident), view);
        let tracker = self.follower.tracker();
        let published = view.sink.frame();
        let token_bytes = format.token_bytes();
        let mut expected = HashMap::new();
        let mut reusable = 0;
        let tokens = published.records.iter().zip(sampled.chunks_exact(token_bytes));
        for (index, (record, sampled)) in tokens.enumerate() {
            let context = format!("token {index} of frame {frame_seq} of {:?}", frame.format());
            let extra = [record.extra_width, record.extra_height];
            let place = (record.x, record.y, [record.sx, record.sy], extra);
            let region = record.token().read_box(frame.extent(), side);
            let before = self.published.get(&place);
            let kept = before.filter(|(before, _)| {
                self.threshold != Threshold::Fixed(0)
                    && !self.renewed.contains(&place)
                    && largest(before, sampled) <= tracker.sample_bound()
            });
            self.kept += usize::from(kept.is_some_and(|(before, _)| before != sampled));
            let (texels, changed_frame) =
                kept.cloned().unwrap_or_else(|| (sampled.to_vec(), tracker.changed_frame(region)));
            assert_eq!(record.changed_frame, changed_frame, "{context}");
            let shown = &published.pixels[index * token_bytes..][..token_bytes];
            assert!(shown == texels, "{context}");
            reusable += usize::from(before.is_some_and(|(_, frame)| *frame == changed_frame));
            expected.insert(place, (texels, changed_frame));
        }
        assert_eq!(view.planes().reusable(), reusable, "frame {frame_seq}");
        self.published = expected;
        self.renewed.clear();
        let (bound, exact) =
            (published.head.rgb_bound, texels(&naive::picture(&OwnedFrame::copied(frame)), view));
        let furthest = largest(&published.pixels, &exact);
        assert!(u32::from(furthest) <= bound, "{furthest} of {bound} in frame {frame_seq}");
    }
}

/// The texels of the tokens of a view whose number format is that of texels.
pub fn texels(picture: &Picture, view: &View<Memory>) -> Vec<u8> {
    naive::tokens(picture, view.planes().plan(), view.spec().format)
}

fn largest(a: &[u8], b: &[u8]) -> u8 {
    a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0)
}

fn tiles_under(region: PixelBox, grid: Extent) -> impl Iterator<Item = usize> {
    let PixelBox { x0, y0, x1, y1 } = region;
    (y0 / 32..=(y1 - 1) / 32).flat_map(move |row| {
        (x0 / 32..=(x1 - 1) / 32).map(move |column| (row * grid.width + column) as usize)
    })
}
