//! Boxes, disks, lines and letters, in integers.

#![expect(clippy::cast_sign_loss, reason = "what is drawn is cut to the picture first")]

use foveate_core::geometry::extent::Extent;

use super::{HEIGHT, Planes, WIDTH};

/// Luma, Cb and Cr in limited range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Color(pub(super) i32, pub(super) i32, pub(super) i32);

/// Columns and rows of a letter, and the columns from one to the next.
const LETTER_COLUMNS: i32 = 5;
const LETTER_ROWS: i32 = 7;
const LETTER_PITCH: i32 = 6;

/// Draws in places of a scene of [`WIDTH`] x [`HEIGHT`], scaled to the picture and cut to it.
pub(super) struct Painter<'a> {
    width: i32,
    height: i32,
    planes: Planes<'a>,
}

/// Columns and rows of a picture.
struct Area {
    columns: std::ops::Range<i32>,
    rows: std::ops::Range<i32>,
}

impl<'a> Painter<'a> {
    pub(super) fn new(extent: Extent, planes: Planes<'a>) -> Self {
        let [width, height] = [extent.width, extent.height].map(u32::cast_signed);
        Self { width, height, planes }
    }

    /// Fills a box.
    pub(super) fn fill(&mut self, from: (i32, i32), to: (i32, i32), color: Color) {
        self.paint(&self.area(from, to), color, |_, _| 0);
    }

    /// Fills a box that grows brighter downwards, by `rise` in all.
    pub(super) fn shade(&mut self, from: (i32, i32), to: (i32, i32), color: Color, rise: i32) {
        let area = self.area(from, to);
        let (top, rows) = (area.rows.start, (area.rows.end - area.rows.start).max(1));
        self.paint(&area, color, |_, y| rise * (y - top) / rows);
    }

    /// Fills a box with grain of up to `depth` around a colour, as of plaster, in patches and in pixels.
    pub(super) fn grain(&mut self, from: (i32, i32), to: (i32, i32), color: Color, depth: i32) {
        let spread =
            |random: u32, depth: i32| (random & 255).cast_signed() * (2 * depth + 1) / 256 - depth;
        self.paint(&self.area(from, to), color, |x, y| {
            spread(hash(x / 8, y / 8), depth / 2) + spread(hash(x, y), depth / 2)
        });
    }

    /// Fills a disk.
    pub(super) fn disk(&mut self, (x, y): (i32, i32), radius: i32, color: Color) {
        for row in -radius..radius {
            // Half of the chord through the middle of the row.
            let half = (radius * radius - row * row).isqrt();
            self.fill((x - half, y + row), (x + half, y + row + 1), color);
        }
    }

    /// Draws a line that goes down, `width` columns wide.
    pub(super) fn line(
        &mut self,
        (x, y): (i32, i32),
        (to_x, to_y): (i32, i32),
        width: i32,
        color: Color,
    ) {
        for row in y..to_y {
            let left = x + (to_x - x) * (row - y) / (to_y - y) - width / 2;
            self.fill((left, row), (left + width, row + 1), color);
        }
    }

    /// Draws capital letters, digits and a few signs, whose dots are `size` wide and high, from their upper left corner on.
    pub(super) fn text(&mut self, (x, y): (i32, i32), size: i32, color: Color, text: &str) {
        for (letter, at) in text.bytes().zip(0..) {
            let columns = letter_of(letter);
            let left = x + at * LETTER_PITCH * size;
            for (column, dots) in (0..LETTER_COLUMNS).zip(columns) {
                for row in (0..LETTER_ROWS).filter(|row| dots >> row & 1 == 1) {
                    let (x, y) = (left + column * size, y + row * size);
                    self.fill((x, y), (x + size, y + size), color);
                }
            }
        }
    }

    /// The pixels of a box that lie in the picture.
    fn area(&self, from: (i32, i32), to: (i32, i32)) -> Area {
        let x = |place: i32| (place * self.width / WIDTH).clamp(0, self.width);
        let y = |place: i32| (place * self.height / HEIGHT).clamp(0, self.height);
        Area { columns: x(from.0)..x(to.0), rows: y(from.1)..y(to.1) }
    }

    /// Paints an area, each pixel brighter by `more`.
    fn paint(&mut self, area: &Area, color: Color, more: impl Fn(i32, i32) -> i32) {
        if area.columns.is_empty() || area.rows.is_empty() {
            return;
        }
        let Color(luma, cb, cr) = color;
        let Planes { luma: lumas, luma_stride, chroma, chroma_stride } = &mut self.planes;
        for y in area.rows.clone() {
            let row = &mut lumas[y as usize * *luma_stride..];
            for x in area.columns.clone() {
                row[x as usize] = sample(luma + more(x, y));
            }
        }
        let pair = [sample(cb), sample(cr)];
        let (left, right) =
            (area.columns.start as usize / 2, (area.columns.end as usize).div_ceil(2));
        for y in area.rows.start as usize / 2..(area.rows.end as usize).div_ceil(2) {
            let row = &mut chroma[y * *chroma_stride..][2 * left..2 * right];
            row.as_chunks_mut::<2>().0.fill(pair);
        }
    }
}

/// Columns of a text whose dots are `size` wide.
pub(super) fn text_width(text: &str, size: i32) -> i32 {
    text.bytes().map(|_| LETTER_PITCH * size).sum::<i32>() - size
}

/// A sample in limited range.
fn sample(value: i32) -> u8 {
    u8::try_from(value.clamp(16, 235)).expect("in range")
}

/// The finalizer of MurmurHash3 over two numbers.
fn hash(x: i32, y: i32) -> u32 {
    let mut bits = x.cast_unsigned().wrapping_mul(0x9E37_79B1)
        ^ y.cast_unsigned().wrapping_mul(0x85EB_CA77).rotate_left(16);
    bits = (bits ^ bits >> 16).wrapping_mul(0x85EB_CA6B);
    bits = (bits ^ bits >> 13).wrapping_mul(0xC2B2_AE35);
    bits ^ bits >> 16
}

/// The dots of a letter, column by column, the uppermost in the lowest bit. What has no letter is a blank.
fn letter_of(letter: u8) -> [u8; LETTER_COLUMNS as usize] {
    match letter {
        b'0'..=b'9' => DIGITS[usize::from(letter - b'0')],
        b'A'..=b'Z' => LETTERS[usize::from(letter - b'A')],
        b'-' => [0x08; 5],
        b':' => [0x00, 0x36, 0x36, 0x00, 0x00],
        b'.' => [0x00, 0x60, 0x60, 0x00, 0x00],
        _ => [0; 5],
    }
}

const DIGITS: [[u8; 5]; 10] = [
    [0x3E, 0x51, 0x49, 0x45, 0x3E],
    [0x00, 0x42, 0x7F, 0x40, 0x00],
    [0x42, 0x61, 0x51, 0x49, 0x46],
    [0x21, 0x41, 0x45, 0x4B, 0x31],
    [0x18, 0x14, 0x12, 0x7F, 0x10],
    [0x27, 0x45, 0x45, 0x45, 0x39],
    [0x3C, 0x4A, 0x49, 0x49, 0x30],
    [0x01, 0x71, 0x09, 0x05, 0x03],
    [0x36, 0x49, 0x49, 0x49, 0x36],
    [0x06, 0x49, 0x49, 0x29, 0x1E],
];

const LETTERS: [[u8; 5]; 26] = [
    [0x7E, 0x11, 0x11, 0x11, 0x7E],
    [0x7F, 0x49, 0x49, 0x49, 0x36],
    [0x3E, 0x41, 0x41, 0x41, 0x22],
    [0x7F, 0x41, 0x41, 0x22, 0x1C],
    [0x7F, 0x49, 0x49, 0x49, 0x41],
    [0x7F, 0x09, 0x09, 0x09, 0x01],
    [0x3E, 0x41, 0x49, 0x49, 0x7A],
    [0x7F, 0x08, 0x08, 0x08, 0x7F],
    [0x00, 0x41, 0x7F, 0x41, 0x00],
    [0x20, 0x40, 0x41, 0x3F, 0x01],
    [0x7F, 0x08, 0x14, 0x22, 0x41],
    [0x7F, 0x40, 0x40, 0x40, 0x40],
    [0x7F, 0x02, 0x0C, 0x02, 0x7F],
    [0x7F, 0x04, 0x08, 0x10, 0x7F],
    [0x3E, 0x41, 0x41, 0x41, 0x3E],
    [0x7F, 0x09, 0x09, 0x09, 0x06],
    [0x3E, 0x41, 0x51, 0x21, 0x5E],
    [0x7F, 0x09, 0x19, 0x29, 0x46],
    [0x46, 0x49, 0x49, 0x49, 0x31],
    [0x01, 0x01, 0x7F, 0x01, 0x01],
    [0x3F, 0x40, 0x40, 0x40, 0x3F],
    [0x1F, 0x20, 0x40, 0x20, 0x1F],
    [0x3F, 0x40, 0x38, 0x40, 0x3F],
    [0x63, 0x14, 0x08, 0x14, 0x63],
    [0x07, 0x08, 0x70, 0x08, 0x07],
    [0x61, 0x51, 0x49, 0x45, 0x43],
];
