//! Pictures of token frames: the rebuilt image, the boxes of tokens, their density, the scanpath.

use std::cmp::Reverse;
use std::io::{self, Write};

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Fixation;
use foveate_ring::canvas::Canvas;
use foveate_ring::picture::{ChannelImage, Rgb};
use foveate_ring::{SegmentInfo, TokenFrameBuf, TokenRecord};

/// Colours by rank, from fine (warm) to coarse (cool); also of the scanpath, from new to old.
pub(super) const COLORS: [Rgb; 7] = [
    [255, 82, 82],
    [255, 171, 64],
    [255, 238, 88],
    [102, 217, 120],
    [64, 196, 255],
    [100, 110, 255],
    [186, 104, 255],
];

pub(super) struct Picture {
    extent: Extent,
    texels: Vec<Rgb>,
}

impl Picture {
    fn new(extent: Extent) -> Self {
        Self { extent, texels: vec![[0; 3]; extent.area()] }
    }

    pub(super) fn write_png(&self, target: impl Write) -> io::Result<()> {
        let mut encoder = png::Encoder::new(target, self.extent.width, self.extent.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(self.texels.as_flattened())?;
        writer.finish()?;
        Ok(())
    }

    /// R, G and B, row by row.
    #[cfg(feature = "mcap")]
    pub(super) fn texels(&self) -> &[u8] {
        self.texels.as_flattened()
    }

    fn index(&self, x: u32, y: u32) -> usize {
        y as usize * self.extent.width as usize + x as usize
    }

    fn dim(&mut self) {
        for channel in self.texels.as_flattened_mut() {
            *channel -= *channel / 3;
        }
    }

    /// Draws a line of width 2 `radius`.
    fn draw_line(&mut self, from: (f64, f64), to: (f64, f64), radius: u32, color: Rgb) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let steps = dx.abs().max(dy.abs()).ceil().max(1.0);
        let mut step = 0.0;
        while step <= steps {
            let share = step / steps;
            self.draw_disc((from.0 + share * dx, from.1 + share * dy), radius, color);
            step += 1.0;
        }
    }

    /// Draws a disc, clipped to the picture.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "points lie in the picture, and negative columns saturate to 0"
    )]
    fn draw_disc(&mut self, centre: (f64, f64), radius: u32, color: Rgb) {
        let reach = f64::from(radius);
        for y in -(radius as i32)..=radius as i32 {
            let y = f64::from(y);
            let half = (reach * reach - y * y).sqrt();
            let row = centre.1 + y;
            if 0.0 <= row {
                let columns = (centre.0 - half) as u32..(centre.0 + half) as u32 + 1;
                self.fill(columns, row as u32..row as u32 + 1, color);
            }
        }
    }

    /// Fills a rectangle, clipped to the picture.
    fn fill(&mut self, columns: std::ops::Range<u32>, rows: std::ops::Range<u32>, color: Rgb) {
        let columns = columns.start.min(self.extent.width)..columns.end.min(self.extent.width);
        for y in rows.start..rows.end.min(self.extent.height) {
            let start = self.index(0, y);
            self.texels[start..][columns.start as usize..columns.end as usize].fill(color);
        }
    }
}

/// The picture rebuilt from the tokens, as a model is given it.
pub(super) fn rebuilt(segment: &SegmentInfo, frame: &TokenFrameBuf) -> Picture {
    Picture { extent: segment.extent, texels: frame.smoothed(segment) }
}

/// The picture of a canvas; each texel fills its pixels.
pub(super) fn of_canvas(segment: &SegmentInfo, canvas: &Canvas) -> Picture {
    Picture { extent: segment.extent, texels: canvas.rgb() }
}

/// The picture in which each texel fills its pixels.
fn replicated(segment: &SegmentInfo, frame: &TokenFrameBuf) -> Picture {
    Picture { extent: segment.extent, texels: frame.replicated(segment) }
}

/// The picture of texels with the boxes of all tokens, coloured by level, ring or window, and a cross at each fixation.
pub(super) fn boxes(segment: &SegmentInfo, frame: &TokenFrameBuf) -> Picture {
    let mut picture = replicated(segment, frame);
    picture.dim();
    for (_, record) in coarse_to_fine(frame) {
        let color = COLORS[rank(segment, record).min(COLORS.len() - 1)];
        paint_outline(&mut picture, record, color);
    }
    paint_crosses(&mut picture, &frame.head.fixations);
    picture
}

/// The picture of texels with the scanpath: lines between fixations, the older the bluer, a disc at each, and a cross at the
/// current one. `fixations` are in pixels, the current one last.
pub(super) fn scanpath(
    segment: &SegmentInfo,
    frame: &TokenFrameBuf,
    fixations: &[(f64, f64)],
) -> Picture {
    let mut picture = replicated(segment, frame);
    picture.dim();
    let width = (picture.extent.longer_side() / 400).max(1);
    let ages = (1..fixations.len()).rev();
    for (pair, age) in fixations.windows(2).zip(ages) {
        let color = COLORS[(age - 1).min(COLORS.len() - 1)];
        picture.draw_line(pair[0], pair[1], width, color);
        picture.draw_disc(pair[0], 3 * width, color);
    }
    paint_crosses(&mut picture, &frame.head.fixations);
    picture
}

/// Heat map of the token density, from white at full resolution to the darkest at the coarsest steps; one step per octave. Finer
/// tokens are above coarser ones.
pub(super) fn density(segment: &SegmentInfo, frame: &TokenFrameBuf) -> Picture {
    let mut picture = Picture::new(segment.extent);
    let coarsest = frame.records.iter().map(octaves).max().unwrap_or(0);
    for (_, record) in coarse_to_fine(frame) {
        let heat = 1.0 - f64::from(octaves(record)) / f64::from(coarsest + 1);
        picture.fill(record.x0..record.x1, record.y0..record.y1, heat_color(heat));
    }
    paint_crosses(&mut picture, &frame.head.fixations);
    picture
}

/// Heat map of a channel, from black at the least value that it may have to white at the greatest, with the fixations.
pub(super) fn channel(
    segment: &SegmentInfo,
    frame: &TokenFrameBuf,
    channel: &ChannelImage<'_>,
) -> Picture {
    let mut picture = Picture::new(segment.extent);
    let side = channel.cell_side;
    for (index, share) in (0..).zip(channel.normalised()) {
        let (column, row) = (index % channel.grid.width, index / channel.grid.width);
        let (x, y) = (column.saturating_mul(side), row.saturating_mul(side));
        let color = heat_color(share);
        picture.fill(x..x.saturating_add(side), y..y.saturating_add(side), color);
    }
    paint_crosses(&mut picture, &frame.head.fixations);
    picture
}

/// The records of a frame with their indices, so that finer ones come over coarser ones.
fn coarse_to_fine(frame: &TokenFrameBuf) -> Vec<(usize, &TokenRecord)> {
    let mut records: Vec<_> = frame.records.iter().enumerate().collect();
    records.sort_by_key(|(_, record)| Reverse(area(record)));
    records
}

/// The place of a token in the colours: its group; of `directional`, whose groups are half levels, the level; of `inset`, whose group 0
/// is the base, the last colour for that and the number of the block for others.
pub(super) fn rank(segment: &SegmentInfo, record: &TokenRecord) -> usize {
    let group = usize::from(record.group);
    match segment.layout.as_str() {
        "directional" => group / 2,
        "inset" => group.checked_sub(1).unwrap_or(COLORS.len() - 1),
        _ => group,
    }
}

/// Source pixels under a token, including pixels beyond the border.
fn area(record: &TokenRecord) -> u64 {
    let (token, side) = (record.token(), record.size.into());
    u64::from(token.width(side)) * u64::from(token.height(side))
}

/// log2 of the side of a texel in source pixels, rounded down; of the geometric mean of unlike sides. 0 for steps of 0, which only
/// a broken writer gives.
fn octaves(record: &TokenRecord) -> u32 {
    let texels = u64::from(record.size).pow(2).max(1);
    (area(record) / texels).checked_ilog2().unwrap_or(0) / 2
}

/// The outline of a token's box. Its far edges lie on the near ones of the next, so that neighbours share a line.
fn paint_outline(picture: &mut Picture, record: &TokenRecord, color: Rgb) {
    let TokenRecord { x0, y0, x1, y1, .. } = *record;
    if x0 == x1 || y0 == y1 {
        return;
    }
    for row in [y0, y1] {
        picture.fill(x0..x1 + 1, row..row + 1, color);
    }
    for column in [x0, x1] {
        picture.fill(column..column + 1, y0..y1, color);
    }
}

/// A cross at each fixation, the most important one on top.
fn paint_crosses(picture: &mut Picture, fixations: &[Fixation]) {
    for fixation in fixations.iter().rev() {
        paint_cross(picture, *fixation);
    }
}

/// A white cross with a black rim, scaled to the picture.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a fixation lies in the picture"
)]
fn paint_cross(picture: &mut Picture, fixation: Fixation) {
    let (x, y) = (fixation.x as u32, fixation.y as u32);
    let arm = (picture.extent.longer_side() / 60).max(4);
    for (rim, color) in [(2, [0, 0, 0]), (1, [255, 255, 255])] {
        let along = |position: u32| position.saturating_sub(arm + rim)..position + arm + rim;
        let across = |position: u32| position.saturating_sub(rim)..position + rim;
        picture.fill(along(x), across(y), color);
        picture.fill(across(x), along(y), color);
    }
}

/// Black through red and yellow to white.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=255")]
fn heat_color(heat: f64) -> Rgb {
    [0.0, 1.0, 2.0].map(|start| ((3.0 * heat - start).clamp(0.0, 1.0) * 255.0) as u8)
}
