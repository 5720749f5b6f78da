//! Two synthetic frames that differ in an exact share of their tiles. Surfaces, edges, texture and grain, because kernels
//! may be faster on constant memory than on real pictures.

use super::frames::{Frames, frame_bytes};
use foveate_core::frame::{FrameKind, PixelFormat, PlaneShape};
use foveate_core::geometry::tile::{TILE_SIDE, TileSet};

/// Two frames between which every sample of `changed_count` tiles differs, and no other. The tiles are scattered, and always
/// the same for an extent and a count.
pub(super) fn alternating(kind: FrameKind, changed_count: usize) -> Frames {
    let changed = scattered(kind, changed_count);
    let mut before = vec![0; frame_bytes(kind)];
    let mut after = before.clone();
    let mut offset = 0;
    for plane in 0..kind.format.plane_count() {
        let PlaneShape { row_bytes, rows } = kind.format.plane_shape(plane, kind.extent);
        for row in 0..rows {
            for byte in 0..row_bytes {
                let site = Site::of(kind.format, plane, byte, row);
                let value = site.value(FIRST);
                before[offset] = value;
                after[offset] = if site.is_in(&changed) { site.changed(value) } else { value };
                offset += 1;
            }
        }
    }
    Frames::new(kind, vec![before, after])
}

#[expect(clippy::cast_possible_truncation, reason = "no more than there are tiles")]
#[expect(clippy::cast_sign_loss, reason = "a share is not negative")]
pub(super) fn tiles_of_share(tile_count: usize, share: f64) -> usize {
    (tile_count as f64 * share).round() as usize
}

/// `count` tiles of a frame, drawn without replacement.
fn scattered(kind: FrameKind, count: usize) -> TileSet {
    let mut tiles = TileSet::none(kind.extent);
    let (width, area) = (tiles.grid().width, tiles.grid().area());
    let mut indices: Vec<u32> = (0..).take(area).collect();
    let mut random = FIRST;
    for drawn in 0..count {
        random = hash(random, 0, 0);
        indices.swap(drawn, drawn + random as usize % (area - drawn));
        tiles.insert(indices[drawn] % width, indices[drawn] / width);
    }
    tiles
}

#[derive(Clone, Copy, PartialEq)]
enum SampleKind {
    Luma,
    /// 0 is Cb, 1 is Cr.
    Chroma(u32),
    /// R, G, B are 0, 1, 2.
    Primary(u32),
    /// A padding byte.
    Spare,
}

/// One sample and its pixel, the top left one for subsampled chroma.
struct Site {
    component: SampleKind,
    x: u32,
    y: u32,
}

impl Site {
    /// The sample at `byte` of `row` of a plane.
    fn of(format: PixelFormat, plane: usize, byte: u32, row: u32) -> Self {
        use SampleKind::{Chroma, Luma, Primary, Spare};
        let (component, x, y) = match (format, plane) {
            (PixelFormat::Nv12 | PixelFormat::I420 | PixelFormat::Gray8, 0) => (Luma, byte, row),
            (PixelFormat::Nv12, _) => (Chroma(byte % 2), byte / 2 * 2, row * 2),
            (PixelFormat::I420, 1) => (Chroma(0), byte * 2, row * 2),
            (PixelFormat::I420, _) => (Chroma(1), byte * 2, row * 2),
            (PixelFormat::Yuy2, _) if byte.is_multiple_of(2) => (Luma, byte / 2, row),
            (PixelFormat::Yuy2, _) => (Chroma(byte / 2 % 2), byte / 4 * 2, row),
            (PixelFormat::Rgb, _) => (Primary(byte % 3), byte / 3, row),
            (PixelFormat::Bgr, _) => (Primary(2 - byte % 3), byte / 3, row),
            _ if byte % 4 == 3 => (Spare, byte / 4, row),
            (PixelFormat::Bgrx | PixelFormat::Bgra, _) => (Primary(2 - byte % 4), byte / 4, row),
            _ => (Primary(byte % 4), byte / 4, row),
        };
        Self { component, x, y }
    }

    fn is_in(&self, tiles: &TileSet) -> bool {
        tiles.contains(self.x / TILE_SIDE, self.y / TILE_SIDE)
    }

    fn value(&self, seed: u32) -> u8 {
        let Self { component, x, y } = *self;
        match component {
            SampleKind::Luma => clamped(luma(seed, x, y)),
            SampleKind::Chroma(which) => clamped(chroma(seed + which, x, y)),
            SampleKind::Primary(which) => {
                clamped(luma(seed, x, y) + chroma(seed + which, x, y) - 128)
            }
            SampleKind::Spare => u8::MAX,
        }
    }

    /// A sample that differs from `value`, as of another object.
    fn changed(&self, value: u8) -> u8 {
        let other = self.value(SECOND);
        if other == value && self.component != SampleKind::Spare { value ^ 1 } else { other }
    }
}

/// Seed of the first frame.
const FIRST: u32 = 1;

/// Seed of the changed tiles in the second frame.
const SECOND: u32 = 101;

/// Texture of three scales, brighter disks, and grain.
fn luma(seed: u32, x: u32, y: u32) -> u32 {
    let texture =
        noise(seed, x, y, 7) * 110 + noise(seed, x, y, 5) * 50 + noise(seed, x, y, 3) * 24;
    let shade = 40 + (texture >> 8) + hash(seed, x, y) % 4;
    if is_in_disk(seed, x, y) { 270 - shade } else { shade }
}

/// Large areas of one tint, without edges.
fn chroma(seed: u32, x: u32, y: u32) -> u32 {
    96 + ((noise(seed, x, y, 6) * 64) >> 8) + hash(seed, x, y) % 2
}

/// Whether a pixel lies in the disk of its square of 256 x 256 pixels.
fn is_in_disk(seed: u32, x: u32, y: u32) -> bool {
    let random = hash(seed, x >> 8, y >> 8);
    let radius = 24 + random % 72;
    let from_centre = |at: u32, shift: u32| (at & 255).abs_diff(64 + (random >> shift) % 128);
    from_centre(x, 8).pow(2) + from_centre(y, 16).pow(2) < radius.pow(2)
}

/// Value noise in 0..=255, bilinear between the corners of squares of 2^`log_side` pixels.
fn noise(seed: u32, x: u32, y: u32, log_side: u32) -> u32 {
    let side = 1 << log_side;
    let corner = |dx, dy| hash(seed + log_side, (x >> log_side) + dx, (y >> log_side) + dy) & 255;
    let (right, down) = (x & (side - 1), y & (side - 1));
    let along = |left: u32, other: u32| left * (side - right) + other * right;
    let (top, bottom) = (along(corner(0, 0), corner(1, 0)), along(corner(0, 1), corner(1, 1)));
    (top * (side - down) + bottom * down) >> (2 * log_side)
}

/// The finalizer of MurmurHash3 over three numbers.
fn hash(seed: u32, x: u32, y: u32) -> u32 {
    let mut bits = seed ^ x.wrapping_mul(0x9E37_79B1) ^ y.wrapping_mul(0x85EB_CA77).rotate_left(16);
    bits = (bits ^ bits >> 16).wrapping_mul(0x85EB_CA6B);
    bits = (bits ^ bits >> 13).wrapping_mul(0xC2B2_AE35);
    bits ^ bits >> 16
}

fn clamped(value: u32) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}
