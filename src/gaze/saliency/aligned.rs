//! Keeps a model of the picture, such as its background, aligned while the camera moves.
//!
//! A model is moved by whole texels, so that it is not blurred, and what is left of the motion says where each place of the picture
//! lies in it. Only what turns or grows is resampled, once it is off by a texel.

#![expect(clippy::cast_possible_truncation, reason = "places in a coarse level")]

use std::ops::Range;

use foveate_core::geometry::affine::Affine;
use foveate_core::geometry::extent::Extent;

/// Offset in texels from which on the model is moved: more than half of one, so that it does not go to and fro.
const OFF_MAX: f64 = 0.75;

/// Texels that a corner may be off, besides the middle, before the model is resampled.
const TURNED_MAX: f64 = 1.0;

/// Place of a model.
#[derive(Clone, Debug)]
pub(super) struct Aligned {
    grid: Extent,
    /// Places in texels; the middle of the first is at (0.5, 0.5).
    model_from_picture: Affine,
    picture_from_model: Affine,
    /// Whether the model has always been where the picture is.
    is_still: bool,
    scratch: Vec<f32>,
}

/// A place between four texels.
#[derive(Clone, Copy, Debug)]
struct Bilinear {
    /// Indices of the four texels.
    texels: [usize; 4],
    /// Position of the place between the left and the right texels, and between the upper and the lower ones, 0..1.
    parts: [f32; 2],
}

/// Places of the texels of a row in another picture, which [`Aligned`] fills in.
#[derive(Clone, Debug)]
pub(super) struct RowPlaces {
    runs: Vec<Run>,
    /// The parts of [`Bilinear`] of each sample of the row, three a texel.
    across: Vec<f32>,
    down: Vec<f32>,
}

/// Neighbouring texels whose places are as far apart: what lies around them is contiguous, too.
#[derive(Clone, Debug)]
struct Run {
    /// Samples of the row.
    samples: Range<usize>,
    /// Samples around the first one's place: upper left, upper right, lower left, lower right.
    near: [usize; 4],
}

impl RowPlaces {
    pub(super) fn new(grid: Extent) -> Self {
        let width = grid.width as usize;
        let parts = vec![0.0; 3 * width];
        Self { runs: Vec::with_capacity(width), across: parts.clone(), down: parts }
    }

    /// The runs of samples of the row that have a place, and for each where the four samples around its first place begin.
    pub(super) fn runs(&self) -> impl Iterator<Item = (Range<usize>, [usize; 4])> {
        self.runs.iter().map(|Run { samples, near }| (samples.clone(), *near))
    }

    /// Positions of the places of samples between the texels around them, across and down, as in [`Bilinear`].
    pub(super) fn parts(&self, samples: Range<usize>) -> [&[f32]; 2] {
        [&self.across[samples.clone()], &self.down[samples]]
    }

    fn push(&mut self, column: usize, Bilinear { texels, parts }: Bilinear) {
        let samples = 3 * column..3 * (column + 1);
        self.set_parts(samples.clone(), parts);
        let near = texels.map(|texel| 3 * texel);
        match self.runs.last_mut() {
            Some(run) if run.goes_on(samples.start, near) => run.samples.end = samples.end,
            _ => self.runs.push(Run { samples, near }),
        }
    }

    /// Adds the next texel to the newest run.
    fn extend(&mut self, column: usize, parts: [f32; 2]) {
        let samples = 3 * column..3 * (column + 1);
        self.set_parts(samples.clone(), parts);
        if let Some(run) = self.runs.last_mut() {
            run.samples.end = samples.end;
        }
    }

    fn set_parts(&mut self, samples: Range<usize>, [across, down]: [f32; 2]) {
        self.across[samples.clone()].fill(across);
        self.down[samples].fill(down);
    }
}

impl Run {
    fn goes_on(&self, sample: usize, near: [usize; 4]) -> bool {
        let ahead = sample - self.samples.start;
        self.samples.end == sample && self.near.map(|near| near + ahead) == near
    }
}

/// How much each of the four texels around a place counts; the sum is 1.
#[inline(always)]
pub(super) fn shares(across: f32, down: f32) -> [f32; 4] {
    [(1.0 - across) * (1.0 - down), across * (1.0 - down), (1.0 - across) * down, across * down]
}

impl Aligned {
    pub(super) fn new(grid: Extent) -> Self {
        Self {
            grid,
            model_from_picture: Affine::IDENTITY,
            picture_from_model: Affine::IDENTITY,
            is_still: true,
            scratch: Vec::with_capacity(3 * grid.area()),
        }
    }

    /// Whether the model lies texel on texel and is known everywhere.
    pub(super) fn is_still(&self) -> bool {
        self.is_still
    }

    /// Starts the model again from the picture.
    pub(super) fn restart(&mut self) {
        self.model_from_picture = Affine::IDENTITY;
        self.picture_from_model = Affine::IDENTITY;
        self.is_still = true;
    }

    /// The picture has moved: `before_from_now` takes its places to those of the picture before. Moves `models`, of three samples a
    /// texel, along where it must; what was not in sight is NaN.
    pub(super) fn follow(&mut self, before_from_now: Affine, models: [&mut Vec<f32>; 2]) {
        if before_from_now == Affine::IDENTITY {
            return;
        }
        self.is_still = false;
        self.model_from_picture = before_from_now.then(self.model_from_picture);
        let (width, height) = (f64::from(self.grid.width), f64::from(self.grid.height));
        let middle = (0.5 * width, 0.5 * height);
        let off = |place: (f64, f64)| {
            let (x, y) = self.model_from_picture.at(place);
            (x - place.0, y - place.1)
        };
        let (dx, dy) = off(middle);
        let corners = [(0.0, 0.0), (width, 0.0), (0.0, height), (width, height)];
        let is_turned = corners
            .into_iter()
            .map(off)
            .any(|(x, y)| TURNED_MAX < (x - dx).abs().max((y - dy).abs()));
        if is_turned {
            let map = std::mem::replace(&mut self.model_from_picture, Affine::IDENTITY);
            models.into_iter().for_each(|model| self.resample(model, map));
        } else if OFF_MAX < dx.abs().max(dy.abs()) {
            let (dx, dy) = (dx.round(), dy.round());
            models.into_iter().for_each(|model| self.shift(model, (dx as isize, dy as isize)));
            self.model_from_picture =
                self.model_from_picture.then(Affine([1.0, 0.0, -dx, 0.0, 1.0, -dy]));
        }
        self.picture_from_model = self.model_from_picture.inverse().unwrap_or(Affine::IDENTITY);
    }

    /// Where the texels of row `row` of the picture lie in the model.
    pub(super) fn places_in_model(&self, row: usize, places: &mut RowPlaces) {
        self.places(&self.model_from_picture, row, places);
    }

    /// Where the texels of row `row` of the model lie in the picture.
    pub(super) fn places_in_picture(&self, row: usize, places: &mut RowPlaces) {
        self.places(&self.picture_from_model, row, places);
    }

    fn places(&self, map: &Affine, row: usize, places: &mut RowPlaces) {
        places.runs.clear();
        let (mut column, width) = (0, self.grid.width as usize);
        while column < width {
            if let Some(place) = self.bilinear(map, column, row) {
                places.push(column, place);
                column = self.go_on(map, (column, row), place, places);
            } else {
                column += 1;
            }
        }
    }

    /// Adds the texels behind one whose places are each a column further, which is found out faster than where a place is. Returns the
    /// first that is not, or that needs a closer look because it is at an edge.
    fn go_on(
        &self,
        map: &Affine,
        (mut column, row): (usize, usize),
        place: Bilinear,
        places: &mut RowPlaces,
    ) -> usize {
        let (width, height) = (self.grid.width as usize, self.grid.height as usize);
        let (mut left, top) = (place.texels[0] % width, place.texels[0] / width);
        let is_part = |part: f64| (0.0..1.0).contains(&part);
        loop {
            (column, left) = (column + 1, left + 1);
            if column == width || width <= left + 1 || top + 1 == height {
                return column;
            }
            let (x, y) = map.at((column as f64 + 0.5, row as f64 + 0.5));
            let (across, down) = (x - 0.5 - left as f64, y - 0.5 - top as f64);
            if !is_part(across) || !is_part(down) {
                return column;
            }
            places.extend(column, [across as f32, down as f32]);
        }
    }

    /// Where `map` takes the middle of a texel; `None` if that is half a texel or more beyond the middle of an outermost one.
    #[inline(always)]
    fn bilinear(&self, map: &Affine, column: usize, row: usize) -> Option<Bilinear> {
        let (width, height) = (self.grid.width as usize, self.grid.height as usize);
        let (x, y) = map.at((column as f64 + 0.5, row as f64 + 0.5));
        let (left, right, across) = between(x, width)?;
        let (top, bottom, down) = between(y, height)?;
        let row = |y: usize| [y * width + left, y * width + right];
        let ([a, b], [c, d]) = (row(top), row(bottom));
        Some(Bilinear { texels: [a, b, c, d], parts: [across, down] })
    }

    fn resample(&mut self, model: &mut Vec<f32>, map: Affine) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        for index in 0..self.grid.area() {
            let width = self.grid.width as usize;
            let place = self.bilinear(&map, index % width, index / width);
            for channel in 0..3 {
                let mixed = |Bilinear { texels, parts: [across, down] }: Bilinear| -> f32 {
                    let near = texels.map(|texel| model[3 * texel + channel]);
                    let shares = shares(across, down);
                    near.into_iter().zip(shares).map(|(near, share)| near * share).sum()
                };
                scratch.push(place.map_or(f32::NAN, mixed));
            }
        }
        self.scratch = std::mem::replace(model, scratch);
    }

    fn shift(&mut self, model: &mut Vec<f32>, (dx, dy): (isize, isize)) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let (width, height) = (self.grid.width as usize, self.grid.height as usize);
        for y in 0..height {
            for x in 0..width {
                let (from_x, from_y) = (x.wrapping_add_signed(dx), y.wrapping_add_signed(dy));
                if from_x < width && from_y < height {
                    scratch.extend_from_slice(&model[3 * (from_y * width + from_x)..][..3]);
                } else {
                    scratch.extend_from_slice(&[f32::NAN; 3]);
                }
            }
        }
        self.scratch = std::mem::replace(model, scratch);
    }
}

/// The texels around a place among `count` along an axis, and how far it is from the first to the second; `None` if it is half a texel
/// or more beyond the middle of an outermost one.
#[expect(clippy::cast_sign_loss, reason = "clamped")]
#[inline(always)]
fn between(place: f64, count: usize) -> Option<(usize, usize, f32)> {
    let last = count as f64 - 1.0;
    let inside = (-0.5..last + 0.5).contains(&(place - 0.5));
    let place = (place - 0.5).clamp(0.0, last);
    // Not `floor`, which older x86-64 has no instruction for: it is not negative. To 32 bits, since to 64 takes more instructions.
    let first = place as i32;
    let part = (place - f64::from(first)) as f32;
    let first = first as usize;
    inside.then_some((first, (first + 1).min(count - 1), part))
}
