//! The smooth picture of a frame is what its definition says, written down pixel by pixel in real numbers.

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Focus;
use foveate_core::geometry::plan::Token;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_gaze::layout::{Layout, PlanRequest};
use foveate_ring::picture::Rgb;
use foveate_ring::{SegmentInfo, SegmentSpec, TokenFrameBuf, TokenRecord};
use testkit::ring::spec;

const EXTENT: Extent = Extent { width: 94, height: 71 };
const SIDE: u32 = 8;

#[test]
fn a_smooth_picture_is_interpolated_between_the_cells_of_each_token() {
    let (segment, frame) = (segment(), frame(noise));
    let blocks = frame.replicated(&segment);
    let smooth = frame.smoothed(&segment);
    for y in 0..EXTENT.height {
        for x in 0..EXTENT.width {
            let (index, token) = on_top(&frame, x, y);
            for (channel, found) in smooth[at(x, y)].into_iter().enumerate() {
                let expected = interpolated(&frame, index, token, &blocks, channel, (x, y));
                let found = f64::from(found);
                assert!(
                    (found - expected.clamp(0.0, 255.0)).abs() <= 0.51,
                    "({x}, {y}): {found}, {expected}"
                );
            }
        }
    }
}

#[test]
fn a_smooth_picture_is_exact_where_a_texel_is_a_pixel() {
    let (segment, frame) = (segment(), frame(noise));
    let (blocks, smooth) = (frame.replicated(&segment), frame.smoothed(&segment));
    let mut exact = 0;
    for (x, y) in (0..EXTENT.width).flat_map(|x| (0..EXTENT.height).map(move |y| (x, y))) {
        let (_, token) = on_top(&frame, x, y);
        if (token.sx, token.sy, token.extra_width, token.extra_height) == (1, 1, 0, 0) {
            assert_eq!(smooth[at(x, y)], blocks[at(x, y)]);
            exact += 1;
        }
    }
    assert!(64 <= exact, "a fovea has pixels");
}

#[test]
fn a_plain_picture_stays_plain() {
    let (segment, frame) = (segment(), frame(|_| 77));
    assert!(frame.smoothed(&segment).iter().all(|texel| *texel == [77; 3]));
}

#[test]
fn records_beyond_their_limits_draw_nothing() {
    let segment = segment();
    let mut frame = frame(|_| 77);
    let whole = frame.records[0];
    frame.records.truncate(1);
    frame.pixels.truncate(3 * (SIDE * SIDE) as usize);
    assert!(frame.replicated(&segment).contains(&[77; 3]));
    let beyond: [fn(&mut TokenRecord); 12] = [
        |record| record.sx = 0,
        |record| record.sx = 2049,
        |record| record.sy = u16::MAX,
        |record| record.size = 7,
        |record| record.columns = 9,
        |record| record.first_row = u16::MAX,
        |record| record.x1 = EXTENT.width + 1,
        |record| record.y0 = record.y1 + 1,
        |record| record.extra_width = 8,
        |record| record.extra_height = u8::MAX,
        // Wider or higher than a token of a real step may be.
        |record| (record.sx, record.extra_height) = (513, 1),
        |record| (record.sy, record.extra_height) = (512, 1),
    ];
    for (index, change) in beyond.into_iter().enumerate() {
        frame.records[0] = whole;
        change(&mut frame.records[0]);
        for picture in [frame.replicated(&segment), frame.smoothed(&segment)] {
            assert!(picture.iter().all(|texel| *texel == [0; 3]), "change {index}");
        }
    }
}

/// Bytes that differ from their neighbours.
fn noise(index: usize) -> u8 {
    u8::try_from(index * 7919 % 256).unwrap()
}

fn segment() -> SegmentInfo {
    let format = TokenFormat::new(SIDE, DType::U8, Normalisation::NONE);
    SegmentInfo::of(&SegmentSpec { format, extent: EXTENT, ..spec(64) }).unwrap()
}

/// A foveal plan, and over it tokens of unlike and of real steps, some of which hang over a corner; byte i of its texels is `value(i)`.
fn frame(value: impl Fn(usize) -> u8) -> TokenFrameBuf {
    let layout = Layout::Foveal { e0_px: None, foveae: 1, coarsest: None };
    let mut tokens = layout
        .plan(&PlanRequest {
            shape: PyramidShape::new(EXTENT),
            patch_side: SIDE,
            budget: 40,
            fixations: &[Focus::at(30.0, 30.0)],
            relevance: None,
            before: None,
            demand: None,
        })
        .tokens;
    assert!(tokens.iter().any(|token| token.sx == 1) && tokens.iter().any(|token| 2 < token.sx));
    tokens.push(Token { x: -5, y: -3, sx: 3, sy: 2, ..Token::default() });
    for (x, y, extra_width, extra_height) in [(40, 35, 3, 5), (81, 58, 1, 0), (-9, 50, 0, 7)] {
        tokens.push(Token { x, y, sx: 2, sy: 1, extra_width, extra_height, ..Token::default() });
    }
    let records =
        tokens.iter().map(|token| TokenRecord::new(*token, EXTENT, SIDE, 1, 1.0)).collect();
    let pixels = (0..tokens.len() * 3 * (SIDE * SIDE) as usize).map(value).collect();
    TokenFrameBuf { records, pixels, ..TokenFrameBuf::default() }
}

fn at(x: u32, y: u32) -> usize {
    (y * EXTENT.width + x) as usize
}

/// The token that is seen at a pixel: of those over it, the last of the smallest.
fn on_top(frame: &TokenFrameBuf, x: u32, y: u32) -> (usize, TokenRecord) {
    let covers = |record: &TokenRecord| {
        (record.x0..record.x1).contains(&x) && (record.y0..record.y1).contains(&y)
    };
    let over = frame.records.iter().copied().enumerate().filter(|(_, record)| covers(record));
    let area = |record: &TokenRecord| record.token().width(SIDE) * record.token().height(SIDE);
    over.rev().min_by_key(|(_, record)| area(record)).expect("the plan covers the picture")
}

fn interpolated(
    frame: &TokenFrameBuf,
    index: usize,
    token: TokenRecord,
    blocks: &[Rgb],
    channel: usize,
    (x, y): (u32, u32),
) -> f64 {
    let place = |pixel: u32, origin: i32, step: f64| {
        (f64::from(pixel) + 0.5 - f64::from(origin)) / step - 0.5
    };
    let [across, down] = steps(token);
    let (u, v) = (place(x, token.x, across), place(y, token.y, down));
    let near = -3..SIDE as i32 + 3;
    let cells = near.clone().flat_map(|row| near.clone().map(move |column| (row, column)));
    let term = |(row, column): (i32, i32)| {
        let weight = catmull_rom(u - f64::from(column)) * catmull_rom(v - f64::from(row));
        if weight == 0.0 {
            0.0
        } else {
            weight * cell(frame, index, token, blocks, channel, (row, column))
        }
    };
    cells.map(term).sum()
}

/// The cubic convolution kernel with a = -1/2: Keys, "Cubic convolution interpolation for digital image processing", IEEE ASSP 29
/// (1981).
fn catmull_rom(distance: f64) -> f64 {
    let d = distance.abs();
    match d {
        _ if d < 1.0 => 1.5 * d * d * d - 2.5 * d * d + 1.0,
        _ if d < 2.0 => -0.5 * d * d * d + 2.5 * d * d - 4.0 * d + 2.0,
        _ => 0.0,
    }
}

/// Width and height of a texel in pixels.
fn steps(token: TokenRecord) -> [f64; 2] {
    let token = token.token();
    [token.width(SIDE), token.height(SIDE)].map(|side| f64::from(side) / f64::from(SIDE))
}

/// The pixels between two places, each with the share of it that lies there.
#[expect(clippy::cast_possible_truncation, reason = "places in and beside a small picture")]
fn shares(start: f64, end: f64) -> impl Iterator<Item = (i32, f64)> + Clone {
    let pixels = start.floor() as i32..end.ceil() as i32;
    pixels.map(move |pixel| (pixel, end.min(f64::from(pixel) + 1.0) - start.max(f64::from(pixel))))
}

fn cell(
    frame: &TokenFrameBuf,
    index: usize,
    token: TokenRecord,
    blocks: &[Rgb],
    channel: usize,
    (row, column): (i32, i32),
) -> f64 {
    let real = |index: i32, first: u16, count: u16| {
        (i32::from(first)..i32::from(first + count)).contains(&index)
    };
    if real(row, token.first_row, token.rows) && real(column, token.first_column, token.columns) {
        let (side, row, column) = (SIDE as usize, row as usize, column as usize);
        return f64::from(frame.pixels[((index * 3 + channel) * side + row) * side + column]);
    }
    let inside = |place: i32, side: u32| place.clamp(0, side as i32 - 1) as u32;
    let [width, height] = steps(token);
    let left = f64::from(token.x) + f64::from(column) * width;
    let top = f64::from(token.y) + f64::from(row) * height;
    let columns = shares(left, left + width);
    let pixels = shares(top, top + height)
        .flat_map(|down| columns.clone().map(move |across| (across, down)));
    let value = |((x, across), (y, down)): ((i32, f64), (i32, f64))| {
        let texel = blocks[at(inside(x, EXTENT.width), inside(y, EXTENT.height))];
        across * down * f64::from(texel[channel])
    };
    // Eighths of pixels, and their products, are exact.
    let sum: f64 = pixels.map(value).sum();
    (sum / (width * height) + 0.5).floor()
}
