//! What a view publishes by definition: a token keeps the texels that it was last published with, and its `changed_frame`, exactly while
//! none of them has moved by more than the threshold since then.

use std::collections::{HashMap, HashSet};

use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::frame::FrameView;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::Token;
use foveate_core::geometry::region::PixelBox;
use foveate_core::geometry::tile::TileSet;
use foveate_core::token::{DType, Outside, TokenFormat};
use foveate_engine::change::refresh::Refresh;
use foveate_engine::{Memory, View};

use crate::follow::Follower;
use crate::naive::{self, OwnedFrame, Picture};

/// Where a token lies: origin, whole steps, and extra pixels.
type Place = (i32, i32, [u16; 2], [u8; 2]);

/// A token as it was published.
#[derive(Clone)]
struct PublishedToken {
    shown: Vec<u8>,
    /// With the nearest real texel instead of those that have no real pixel.
    compared: Vec<u8>,
    changed_frame: u64,
}

/// The tokens that must be published by definition.
pub struct Definition {
    follower: Follower,
    threshold: Threshold,
    refresh: Option<Refresh>,
    /// For each place of the frame published last.
    published: HashMap<Place, PublishedToken>,
    /// Places over a tile that was refreshed since: their tokens are published again.
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
        let picture = naive::picture(&resident);
        let sampled = texels(&picture, view);
        // Compared bytes: without a real pixel, a texel stands for the nearest that has one.
        let nearest = TokenFormat { outside: Outside::Edge, ..format };
        let compared = values(naive::tokens(&picture, view.planes().plan(), nearest), format);
        let tracker = self.follower.tracker();
        let published = view.sink.frame();
        let pixels = values(published.pixels.clone(), format);
        let token_bytes = 3 * (side as usize).pow(2);
        let mut expected = HashMap::new();
        let mut same = 0;
        let tokens = sampled.chunks_exact(token_bytes).zip(compared.chunks_exact(token_bytes));
        for (index, (record, (sampled, compared))) in
            published.records.iter().zip(tokens).enumerate()
        {
            let (layout, source) = (view.spec().layout.name(), frame.format());
            let context = format!("token {index} of frame {frame_seq} of {source:?}, {layout}");
            let extra = [record.extra_width, record.extra_height];
            let place = (record.x, record.y, [record.sx, record.sy], extra);
            let region = record.token().read_box(frame.extent(), side);
            let before = self.published.get(&place);
            // Without a real pixel, and where such texels are the mean, it is always the same.
            let is_constant =
                format.outside == Outside::Mean && (record.columns == 0 || record.rows == 0);
            let kept = before.filter(|before| {
                is_constant
                    || self.threshold != Threshold::Fixed(0)
                        && !self.renewed.contains(&place)
                        && largest(&before.compared, compared) <= tracker.sample_bound()
            });
            self.kept += usize::from(kept.is_some_and(|before| before.shown != sampled));
            let token = kept.cloned().unwrap_or_else(|| PublishedToken {
                shown: sampled.to_vec(),
                compared: compared.to_vec(),
                changed_frame: tracker.changed_frame(region),
            });
            let PublishedToken { shown, changed_frame, .. } = &token;
            assert_eq!(record.changed_frame, *changed_frame, "{context}");
            let found = &pixels[index * token_bytes..][..token_bytes];
            assert!(found == shown, "{context}");
            same += usize::from(before.is_some_and(|b| b.changed_frame == *changed_frame));
            expected.insert(place, token);
        }
        assert_eq!(view.planes().kept(), same, "frame {frame_seq}");
        self.published = expected;
        self.renewed.clear();
        let (head, ingested) = (&published.head, self.follower.ingested());
        assert_eq!(head.sample_bound, u32::from(tracker.sample_bound()), "frame {frame_seq}");
        let tiles = (head.dirty_tiles as usize, head.tile_count as usize);
        assert_eq!(tiles, (ingested.count(), ingested.grid().area()), "frame {frame_seq}");
        let (bound, exact) =
            (published.head.rgb_bound, texels(&naive::picture(&OwnedFrame::copied(frame)), view));
        let furthest = largest(&pixels, &exact);
        assert!(u32::from(furthest) <= bound, "{furthest} of {bound} in frame {frame_seq}");
    }
}

/// The texels of the tokens of a view, which are not normalised.
pub fn texels(picture: &Picture, view: &View<Memory>) -> Vec<u8> {
    let format = view.spec().format;
    values(naive::tokens(picture, view.planes().plan(), format), format)
}

/// The values of 8 bits that `pixels` are.
fn values(pixels: Vec<u8>, format: TokenFormat) -> Vec<u8> {
    if format.dtype == DType::U8 {
        return pixels;
    }
    let value = |texel: &[u8]| format.denormalised(0, texel);
    pixels.chunks_exact(format.dtype.bytes()).map(value).collect()
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
