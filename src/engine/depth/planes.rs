//! The depth planes of one view: depth statistics of each token, and its box in space.

use foveate_core::camera::rays::RayBounds;
use foveate_core::depth::{DepthDetail, DepthStamp};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::Texels;
use foveate_core::geometry::region::PixelBox;
use foveate_core::token::DType;
use foveate_core::token::numbers::encoded;
use foveate_gaze::view::ViewSpec;
use foveate_ring::TokenRecord;

use super::{DepthPyramid, Measure, StreamDepth};

/// Numbers of a token or texel: nearest and mean depth, and the share of known depth.
const CHANNELS: usize = 3;

/// Numbers of a token or texel of unknown depth.
const UNKNOWN: [f64; CHANNELS] = [f64::NAN, f64::NAN, 0.0];

/// The planes [`depth`](foveate_core::plane::DEPTH) and [`boxes`](foveate_core::plane::BOXES); those that the view does not publish are
/// empty.
#[derive(Debug)]
pub struct DepthPlanes {
    detail: DepthDetail,
    has_boxes: bool,
    dtype: DType,
    depth: Vec<u8>,
    boxes: Vec<[f32; 6]>,
    /// The depth pixels under the texels of a token's diagonal; scratch.
    areas: Vec<PixelBox>,
    /// The rays of each token of the plan; `None` where they are unknown.
    bounds: Vec<Option<RayBounds>>,
    /// What the planes were made from: the plan, by its first frame, and the depth picture.
    made_from: Option<(u64, DepthStamp)>,
    stamp: DepthStamp,
}

impl DepthPlanes {
    /// The planes of a view before the first frame.
    pub(crate) fn new(spec: &ViewSpec) -> Self {
        let (capacity, side) = (spec.capacity(), spec.format.patch_side as usize);
        let dtype = spec.channel_dtype();
        let item_bytes = match spec.depth {
            DepthDetail::None => 0,
            DepthDetail::Tokens => CHANNELS * DType::F32.bytes(),
            DepthDetail::Texels => CHANNELS * side * side * dtype.bytes(),
        };
        let boxes = if spec.boxes { capacity } else { 0 };
        Self {
            detail: spec.depth,
            has_boxes: spec.boxes,
            dtype,
            depth: Vec::with_capacity(capacity * item_bytes),
            boxes: Vec::with_capacity(boxes),
            areas: Vec::with_capacity(side),
            bounds: Vec::with_capacity(boxes),
            made_from: None,
            stamp: DepthStamp::default(),
        }
    }

    /// Measures the tokens of `records`, over a source of `extent`, of the plan that began with frame `plan_since`.
    pub(crate) fn measure(
        &mut self,
        depth: &StreamDepth,
        records: &[TokenRecord],
        extent: Extent,
        plan_since: u64,
    ) {
        if self.detail == DepthDetail::None && !self.has_boxes {
            return;
        }
        self.stamp = depth.stamp();
        let before = self.made_from.replace((plan_since, self.stamp));
        if before == self.made_from {
            return;
        }
        let (pyramid, rays) = (depth.pyramid(), depth.rays.as_ref());
        if self.detail != DepthDetail::None {
            self.depth.clear();
            records.iter().for_each(|record| self.push_depth(pyramid, record, extent));
        }
        if self.has_boxes {
            if before.is_none_or(|(before, _)| before != plan_since) {
                let bounds = |record| rays.and_then(|rays| rays.through(box_of(record)));
                self.bounds.clear();
                self.bounds.extend(records.iter().map(bounds));
            }
            self.boxes.clear();
            for (record, bounds) in records.iter().zip(&self.bounds) {
                let item = pyramid.zip(*bounds).and_then(|(pyramid, bounds)| {
                    space_of(pyramid, pyramid.under(box_of(record), extent), bounds)
                });
                self.boxes.push(item.unwrap_or([f32::NAN; 6]));
            }
        }
    }

    /// Appends the item of a token.
    fn push_depth(&mut self, pyramid: Option<&DepthPyramid>, record: &TokenRecord, extent: Extent) {
        if self.detail == DepthDetail::Texels {
            return self.push_texels(pyramid, record, extent);
        }
        let numbers = pyramid
            .map_or(UNKNOWN, |pyramid| numbers_of(pyramid, pyramid.under(box_of(record), extent)));
        for number in numbers {
            self.depth.extend_from_slice(&encoded(number, DType::F32).to_le_bytes());
        }
    }

    /// Appends the item of a token with three numbers a texel.
    fn push_texels(
        &mut self,
        pyramid: Option<&DepthPyramid>,
        record: &TokenRecord,
        extent: Extent,
    ) {
        let (side, number_bytes) = (usize::from(record.size), self.dtype.bytes());
        let (start, channel_bytes) = (self.depth.len(), side * side * number_bytes);
        self.depth.resize(start + CHANNELS * channel_bytes, 0);
        self.areas.clear();
        if let Some(pyramid) = pyramid {
            // Columns and rows are as many, so that each texel needs no division.
            self.areas.extend(
                (0..record.size)
                    .map(|index| pyramid.under(texel_box(record, index, extent), extent)),
            );
        }
        let item = &mut self.depth[start..];
        for (texel, bytes) in (0..side * side).map(|texel| (texel, texel * number_bytes)) {
            let area = || {
                let (column, row) = (self.areas.get(texel % side)?, self.areas.get(texel / side)?);
                Some(PixelBox { y0: row.y0, y1: row.y1, ..*column })
            };
            let numbers =
                pyramid.zip(area()).map_or(UNKNOWN, |(pyramid, area)| numbers_of(pyramid, area));
            for (number, channel) in numbers.iter().zip(item.chunks_exact_mut(channel_bytes)) {
                let bits = encoded(*number, self.dtype).to_le_bytes();
                channel[bytes..][..number_bytes].copy_from_slice(&bits[..number_bytes]);
            }
        }
    }

    /// The planes that the view publishes, little-endian, in the order of [`ViewSpec::planes`].
    pub fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        let depth = (self.detail != DepthDetail::None).then_some(&self.depth[..]);
        let boxes = self.has_boxes.then(|| bytemuck::cast_slice(&self.boxes));
        depth.into_iter().chain(boxes)
    }

    /// Identity of the depth picture that the planes were made from; zeros before the first.
    pub fn stamp(&self) -> DepthStamp {
        self.stamp
    }
}

/// The source pixels of a token.
fn box_of(record: &TokenRecord) -> PixelBox {
    let TokenRecord { x0, y0, x1, y1, .. } = *record;
    PixelBox { x0, y0, x1, y1 }
}

/// The source pixels of the texel in column `index` and row `index`; empty outside the source.
fn texel_box(record: &TokenRecord, index: u16, extent: Extent) -> PixelBox {
    let along = |texels: Texels| {
        let index = u32::from(index);
        if texels.real().contains(&index) { texels.pixels(index) } else { 0..0 }
    };
    let (token, side) = (record.token(), record.size.into());
    PixelBox::of(along(token.columns(extent, side)), along(token.rows(extent, side)))
}

/// Nearest and mean known depth in metres, NaN if none is known, and the share of the depth pixels `area` whose depth is known.
fn numbers_of(pyramid: &DepthPyramid, area: PixelBox) -> [f64; CHANNELS] {
    let Measure { sum, count, nearest, .. } = pyramid.measure(area);
    if count == 0 {
        return UNKNOWN;
    }
    let step_m = pyramid.step_m();
    let pixels = f64::from(area.x1 - area.x0) * f64::from(area.y1 - area.y0);
    [f64::from(nearest) * step_m, sum as f64 / f64::from(count) * step_m, f64::from(count) / pixels]
}

/// The box in space of the depth pixels `area` on rays of `bounds`; `None` if no depth is known.
fn space_of(pyramid: &DepthPyramid, area: PixelBox, bounds: RayBounds) -> Option<[f32; 6]> {
    let Measure { count, nearest, farthest, .. } = pyramid.measure(area);
    let metres = |steps: u32| f64::from(steps) * pyramid.step_m();
    (0 < count).then(|| outward(bounds.between(metres(nearest), metres(farthest))))
}

/// The box in f32, no side of which lies further in: x, y and z of one corner, then of the other.
#[expect(clippy::cast_possible_truncation, reason = "rounded outward")]
fn outward(space: [f64; 6]) -> [f32; 6] {
    std::array::from_fn(|index| {
        let rounded = space[index] as f32;
        match index {
            0..3 if space[index] < f64::from(rounded) => rounded.next_down(),
            3.. if f64::from(rounded) < space[index] => rounded.next_up(),
            _ => rounded,
        }
    })
}
