//! Small pictures of views, made from their tokens.

use foveate_core::geometry::extent::Extent;
use foveate_ring::TokenRecord;

use super::decoder::DecodedFrame;

/// Longest side of a small picture in pixels.
const SIDE_MAX: u32 = 240;

/// A small picture.
#[derive(Debug)]
pub(super) struct Thumbnail {
    pub(super) size: Extent,
    /// R, G, B of each pixel, row by row; black where no token lies.
    pub(super) rgb: Vec<u8>,
}

impl Thumbnail {
    /// The picture of `frame`: a pixel is the mean of the texels of the finest token under its centre that lie in it.
    pub(super) fn of(frame: &DecodedFrame) -> Self {
        let Extent { width, height } = frame.extent;
        let longest = width.max(height).max(1);
        let side = |side: u32| {
            let scaled = u64::from(side) * u64::from(longest.min(SIDE_MAX)) / u64::from(longest);
            u32::try_from(scaled).unwrap_or(1).max(1)
        };
        let size = Extent::new(side(width), side(height));
        let mut picture = Self { size, rgb: vec![0; 3 * size.area()] };
        let mut order: Vec<_> = (0..frame.records.len()).collect();
        order
            .sort_by_key(|index| std::cmp::Reverse(area(&frame.records[*index], frame.patch_side)));
        for index in order {
            let texels = frame.pixels.get(index * frame.token_bytes()..).unwrap_or_default();
            picture.draw(&frame.records[index], frame, texels);
        }
        picture
    }

    fn draw(&mut self, record: &TokenRecord, frame: &DecodedFrame, texels: &[u8]) {
        let side = frame.patch_side;
        if !record.is_within_limits(frame.extent, side) || texels.len() < frame.token_bytes() {
            return;
        }
        let token = record.token();
        let across = Axis {
            pixels: frame.extent.width,
            cells: self.size.width,
            origin: record.x,
            length: token.width(side),
            texels: side,
            real: (record.first_column.into(), record.columns.into()),
        };
        let down = Axis {
            pixels: frame.extent.height,
            cells: self.size.height,
            origin: record.y,
            length: token.height(side),
            texels: side,
            real: (record.first_row.into(), record.rows.into()),
        };
        let columns: Vec<_> = across.under(record.x0, record.x1).collect();
        for (row, (top, bottom)) in down.under(record.y0, record.y1) {
            for &(column, (left, right)) in &columns {
                let at = 3 * (row as usize * self.size.width as usize + column as usize);
                for (channel, value) in self.rgb[at..at + 3].iter_mut().enumerate() {
                    let plane = &texels[channel * (side * side) as usize..];
                    let (mut sum, count) = (0u32, (bottom - top) * (right - left));
                    for line in top..bottom {
                        let start = (line * side) as usize;
                        let line = &plane[start + left as usize..start + right as usize];
                        sum += line.iter().copied().map(u32::from).sum::<u32>();
                    }
                    *value = u8::try_from((sum + count / 2) / count).unwrap_or(u8::MAX);
                }
            }
        }
    }
}

/// Source pixels under a token, those outside the source included.
pub(super) fn area(record: &TokenRecord, side: u32) -> u64 {
    let token = record.token();
    u64::from(token.width(side)) * u64::from(token.height(side))
}

/// Positions of the cells of the small picture, of source pixels and of the texels of a token along one axis.
struct Axis {
    /// Source pixels of the whole picture.
    pixels: u32,
    /// Cells of the small picture.
    cells: u32,
    /// First source pixel of the token.
    origin: i32,
    /// Source pixels of the token.
    length: u32,
    /// Texels of the token.
    texels: u32,
    /// First and count of the texels that are real.
    real: (u32, u32),
}

impl Axis {
    /// The cells whose centres lie in the source pixels `start..end`, each with the range of its texels, at least one.
    fn under(&self, start: u32, end: u32) -> impl Iterator<Item = (u32, (u32, u32))> {
        let (pixels, cells) = (u64::from(self.pixels), u64::from(self.cells));
        // A centre lies at (2 cell + 1) pixels / 2 cells.
        let first_from = |edge: u32| (2 * u64::from(edge) * cells + pixels).div_euclid(2 * pixels);
        let cells_under = first_from(start)..first_from(end).min(cells);
        let (first, count) = self.real;
        cells_under.filter(move |_| 0 < count).map(move |cell| {
            let texel = |edge: u64| {
                let pixel = i64::try_from(edge * pixels / cells).unwrap_or(0);
                let offset = (pixel - i64::from(self.origin)) * i64::from(self.texels);
                let texel = offset.div_euclid(i64::from(self.length.max(1)));
                u32::try_from(texel.max(0)).unwrap_or(u32::MAX)
            };
            let begin = texel(cell).clamp(first, first + count - 1);
            let end = texel(cell + 1).clamp(begin + 1, (first + count).max(begin + 1));
            (u32::try_from(cell).unwrap_or(0), (begin, end))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each cell of a picture belongs to exactly one of the tokens beside each other.
    #[test]
    fn neighbouring_tokens_share_no_cell_and_leave_none() {
        for (pixels, cells, side) in [(1280, 240, 16), (240, 240, 16), (99, 99, 7), (1921, 240, 48)]
        {
            let mut seen = Vec::new();
            for start in (0..pixels).step_by(side as usize) {
                let origin = i32::try_from(start).unwrap();
                let axis = Axis { pixels, cells, origin, length: side, texels: 16, real: (0, 16) };
                for (cell, (first, last)) in axis.under(start, (start + side).min(pixels)) {
                    assert!(first < last && last <= 16, "{pixels} {cell}: {first}..{last}");
                    seen.push(cell);
                }
            }
            assert_eq!(seen, (0..cells).collect::<Vec<_>>(), "{pixels} pixels in {cells} cells");
        }
    }
}
