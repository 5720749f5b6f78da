//! A street that the program draws itself, for a first look and for tests: signs with letters of many sizes, people who walk, a car with a
//! number plate, a traffic light, and a shop whose window is lit from time to time.
//!
//! It is drawn in integers, so picture `number` has the same bytes on every machine. What stands still is drawn once.

use foveate_core::geometry::extent::Extent;

use painter::{Color, Painter, text_width};

pub(super) mod feed;
mod painter;

/// Columns and rows that the scene is laid out for. Other sizes are scaled.
const WIDTH: i32 = 1280;
const HEIGHT: i32 = 720;

/// Pictures after which a lit window grows dark, and the other way around.
const WINDOW_PICTURES: u64 = 300;

/// Pictures in which it does.
const DIMMING_PICTURES: u64 = 30;

/// Pictures of each light of the traffic light.
const LIGHT_PICTURES: u64 = 120;

/// Pictures from one car to the next.
const CAR_PICTURES: u64 = 360;

const SKY: Color = Color(170, 150, 112);
const PAVEMENT: Color = Color(132, 126, 130);
const ROAD: Color = Color(72, 128, 128);
const DARK: Color = Color(34, 128, 128);
const PALE: Color = Color(214, 124, 130);
const SKIN: Color = Color(158, 108, 150);

/// Luma of the brightest row of a lit window, and of a dark window.
const LIT: i32 = 196;
const UNLIT: i32 = 52;

/// A house front: its left and right edge, its top, the colour of its bricks, and its sign.
struct House {
    left: i32,
    right: i32,
    top: i32,
    bricks: Color,
    sign: &'static str,
    sign_size: i32,
}

const HOUSES: [House; 4] = [
    House {
        left: 0,
        right: 300,
        top: 96,
        bricks: Color(112, 116, 150),
        sign: "BAKERY",
        sign_size: 5,
    },
    House {
        left: 300,
        right: 640,
        top: 48,
        bricks: Color(142, 118, 136),
        sign: "BOOKS AND MAPS",
        sign_size: 3,
    },
    House {
        left: 640,
        right: 960,
        top: 120,
        bricks: Color(96, 134, 124),
        sign: "LENSES",
        sign_size: 5,
    },
    House {
        left: 960,
        right: 1280,
        top: 72,
        bricks: Color(156, 112, 140),
        sign: "HOTEL FOVEA",
        sign_size: 4,
    },
];

/// The board of the bus stop, in the smallest letters.
const TIMETABLE: [&str; 9] = [
    "LINE 42 CENTRE",
    "07:05 07:15 07:25 07:35",
    "08:05 08:15 08:25 08:35",
    "09:05 09:20 09:35 09:50",
    "10:05 10:20 10:35 10:50",
    "LINE 273 HARBOUR",
    "07:11 07:41 08:11 08:41",
    "09:11 09:41 10:11 10:41",
    "NO SERVICE ON SUNDAYS",
];

/// Somebody who walks: where at first, pixels in 64 pictures, the row of the feet, the height and the coat.
struct Walker {
    start: i32,
    speed: i32,
    feet: i32,
    height: i32,
    coat: Color,
}

const WALKERS: [Walker; 4] = [
    Walker { start: 80, speed: 96, feet: 508, height: 128, coat: Color(76, 152, 112) },
    Walker { start: 520, speed: -76, feet: 520, height: 136, coat: Color(104, 104, 184) },
    Walker { start: 860, speed: 60, feet: 500, height: 120, coat: Color(178, 96, 148) },
    Walker { start: 1200, speed: -112, feet: 514, height: 132, coat: Color(58, 132, 122) },
];

/// The scene in one size.
#[derive(Debug)]
pub(super) struct Scene {
    extent: Extent,
    /// The still background: luma, then chroma.
    still: (Vec<u8>, Vec<u8>),
}

/// The planes of a picture, each with its stride: luma, and Cb and Cr by turns for 2x2 pixels.
pub(super) struct Planes<'a> {
    pub(super) luma: &'a mut [u8],
    pub(super) luma_stride: usize,
    pub(super) chroma: &'a mut [u8],
    pub(super) chroma_stride: usize,
}

impl Scene {
    /// A scene for pictures of `extent`.
    pub(super) fn new(extent: Extent) -> Self {
        let [width, height] = [extent.width, extent.height].map(|side| side as usize);
        let (columns, rows) = (2 * width.div_ceil(2), height.div_ceil(2));
        let mut still = (vec![0; width * height], vec![128; columns * rows]);
        let planes = Planes {
            luma: &mut still.0,
            luma_stride: width,
            chroma: &mut still.1,
            chroma_stride: columns,
        };
        draw_still(&mut Painter::new(extent, planes));
        Self { extent, still }
    }

    /// Draws picture `number`, counted from 0.
    pub(super) fn draw(&self, number: u64, planes: Planes<'_>) {
        let width = self.extent.width as usize;
        let rows = planes.luma.chunks_mut(planes.luma_stride);
        for (target, still) in rows.zip(self.still.0.chunks(width)) {
            target[..width].copy_from_slice(still);
        }
        let columns = 2 * width.div_ceil(2);
        let rows = planes.chroma.chunks_mut(planes.chroma_stride);
        for (target, still) in rows.zip(self.still.1.chunks(columns)) {
            target[..columns].copy_from_slice(still);
        }
        let painter = &mut Painter::new(self.extent, planes);
        draw_window(painter, number);
        draw_light(painter, number);
        WALKERS.iter().for_each(|walker| draw_walker(painter, walker, number));
        draw_car(painter, number);
    }
}

fn draw_still(painter: &mut Painter<'_>) {
    painter.shade((0, 0), (WIDTH, 400), SKY, 20);
    for house in &HOUSES {
        draw_house(painter, house);
    }
    painter.grain((0, 428), (WIDTH, 532), PAVEMENT, 14);
    for x in (0..WIDTH).step_by(64) {
        painter.fill((x, 428), (x + 2, 532), Color(104, 128, 128));
    }
    painter.fill((0, 528), (WIDTH, 536), Color(164, 128, 128));
    painter.grain((0, 536), (WIDTH, HEIGHT), ROAD, 10);
    for x in (40..WIDTH).step_by(160) {
        painter.fill((x, 620), (x + 80, 630), PALE);
    }
    // The bus stop.
    painter.fill((637, 300), (643, 516), DARK);
    painter.fill((552, 296), (728, 396), PALE);
    painter.fill((556, 300), (724, 392), Color(228, 128, 126));
    for (line, y) in TIMETABLE.iter().zip((304..).step_by(10)) {
        painter.text((562, y), 1, DARK, line);
    }
    painter.fill((612, 244), (668, 290), Color(80, 186, 92));
    painter.text((633, 257), 3, PALE, "H");
    // The traffic light with all lamps off.
    painter.fill((957, 250), (963, 524), DARK);
    painter.fill((941, 250), (979, 350), DARK);
}

fn draw_house(painter: &mut Painter<'_>, house: &House) {
    let House { left, right, top, bricks, sign, sign_size } = *house;
    painter.grain((left, top), (right, 428), bricks, 10);
    let Color(luma, cb, cr) = bricks;
    let joint = Color(luma - 22, cb, cr);
    for y in (top..428).step_by(12) {
        painter.fill((left, y), (right, y + 1), joint);
        let shift = if (y / 12) % 2 == 0 { 0 } else { 14 };
        for x in (left + shift..right).step_by(28) {
            painter.fill((x, y), (x + 1, y + 12), joint);
        }
    }
    for x in (left + 28..right - 60).step_by(84) {
        for y in (top + 30..192).step_by(84) {
            painter.fill((x - 4, y - 4), (x + 52, y + 60), PALE);
            painter.shade((x, y), (x + 48, y + 56), Color(62, 136, 120), 30);
            painter.fill((x + 23, y), (x + 25, y + 56), PALE);
        }
    }
    painter.fill((left + 16, 256), (right - 16, 306), DARK);
    let x = (left + right - text_width(sign, sign_size)) / 2;
    painter.text((x, 281 - 4 * sign_size), sign_size, PALE, sign);
    // The door and the shop window, with its hours.
    painter.fill((left + 24, 320), (left + 84, 428), Color(54, 120, 144));
    painter.text((left + 34, 340), 1, PALE, "OPEN 7-19");
    painter.fill((left + 104, 320), (right - 24, 416), PALE);
    painter.shade((left + 108, 324), (right - 28, 412), Color(UNLIT, 132, 124), 30);
}

/// The shop window of the third house: lit, dark, or on its way.
fn draw_window(painter: &mut Painter<'_>, number: u64) {
    let (turn, at) = (number / WINDOW_PICTURES, number % WINDOW_PICTURES);
    let passed = i32::try_from(at.min(DIMMING_PICTURES)).expect("a second");
    let all = i32::try_from(DIMMING_PICTURES).expect("a second");
    let (from, to) = if turn.is_multiple_of(2) { (UNLIT, LIT) } else { (LIT, UNLIT) };
    let luma = from + (to - from) * passed / all;
    painter.shade((748, 324), (932, 412), Color(luma, 112, 140), 40);
    painter.text((764, 336), 2, DARK, "EYES TESTED");
    painter.text((764, 360), 1, DARK, "NO APPOINTMENT NEEDED");
    painter.text((764, 376), 1, DARK, "SECOND PAIR HALF PRICE");
}

fn draw_light(painter: &mut Painter<'_>, number: u64) {
    let colors = [Color(92, 100, 220), Color(180, 40, 160), Color(130, 90, 50)];
    let lit = number / LIGHT_PICTURES % 3;
    for ((color, y), index) in colors.into_iter().zip((268..).step_by(30)).zip(0..) {
        let color = if index == lit { color } else { Color(48, 128, 128) };
        painter.disk((960, y), 11, color);
    }
}

fn draw_walker(painter: &mut Painter<'_>, walker: &Walker, number: u64) {
    let Walker { start, speed, feet, height, coat } = *walker;
    // They come back on the other side.
    let way = WIDTH + 160;
    let gone = i32::try_from(number % (64 * u64::from(way.unsigned_abs()))).expect("below 2^17");
    let x = (start + gone * speed / 64 + 80).rem_euclid(way) - 80;
    let unit = height / 16;
    // A step of each leg in 16 pictures.
    let phase = i32::try_from(number % 16).expect("below 16");
    let swing = (phase - 8).abs() * unit / 4 - unit;
    let Color(luma, cb, cr) = coat;
    for (side, shade) in [(swing, 0), (-swing, 14)] {
        painter.line((x, feet - 7 * unit), (x + side, feet), unit, Color(46 + shade, 130, 126));
        let sleeve = Color(luma - 12 + shade, cb, cr);
        painter.line((x, feet - 12 * unit), (x - side, feet - 8 * unit), unit, sleeve);
    }
    let half = 2 * unit;
    painter.fill((x - half, feet - 13 * unit), (x + half, feet - 6 * unit), coat);
    painter.disk((x, feet - 15 * unit), unit + unit / 2, SKIN);
    painter.fill((x - unit, feet - 16 * unit - unit / 2), (x + unit, feet - 16 * unit), DARK);
}

/// A car that crosses in two thirds of its time, to the right and to the left by turns.
fn draw_car(painter: &mut Painter<'_>, number: u64) {
    let (turn, at) = (number / CAR_PICTURES, number % CAR_PICTURES);
    let at = i32::try_from(at).expect("a few hundred");
    let gone = 7 * at - 300;
    let x = if turn.is_multiple_of(2) { gone } else { WIDTH - gone - 280 };
    if !(-300..WIDTH + 20).contains(&x) {
        return;
    }
    let coat = Color(84 + i32::try_from(turn % 4).expect("below 4") * 26, 146, 104);
    painter.fill((x, 592), (x + 280, 650), coat);
    painter.fill((x + 50, 548), (x + 226, 594), coat);
    painter.fill((x + 62, 556), (x + 132, 592), Color(58, 136, 122));
    painter.fill((x + 142, 556), (x + 214, 592), Color(58, 136, 122));
    for wheel in [x + 58, x + 222] {
        painter.disk((wheel, 650), 28, Color(28, 128, 128));
        painter.disk((wheel, 650), 13, Color(150, 128, 128));
    }
    // The plate, with the number of the car.
    painter.fill((x + 92, 618), (x + 188, 642), PALE);
    painter.text((x + 100, 623), 2, DARK, &format!("FV {:04}", 2026 + 7 * (turn % 1000)));
}

#[cfg(test)]
mod tests;
