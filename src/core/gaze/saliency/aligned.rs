//! Where a model of a picture lies, while the camera moves.
//!
//! A model is moved by whole texels, so that it is not blurred, and what is left of the motion says where each place of the picture
//! lies in it. Only what turns or grows is resampled, once it is off by a texel.

#![expect(clippy::cast_possible_truncation, reason = "places in a coarse level")]

use crate::geometry::affine::Affine;
use crate::geometry::extent::Extent;

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
pub(super) struct Bilinear {
    /// Their indices.
    pub(super) texels: [usize; 4],
    /// How much each counts; the sum is 1.
    pub(super) shares: [f32; 4],
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

    /// The model is that of the picture.
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

    /// Where texel `index` of the picture lies in the model.
    pub(super) fn model_at(&self, index: usize) -> Option<Bilinear> {
        self.bilinear(&self.model_from_picture, index)
    }

    /// Where texel `index` of the model lies in the picture.
    pub(super) fn picture_at(&self, index: usize) -> Option<Bilinear> {
        self.bilinear(&self.picture_from_model, index)
    }

    /// Where `map` takes the middle of a texel; `None` if that is half a texel or more beyond the middle of an outermost one.
    fn bilinear(&self, map: &Affine, index: usize) -> Option<Bilinear> {
        let (width, height) = (self.grid.width as usize, self.grid.height as usize);
        let (x, y) = map.at(((index % width) as f64 + 0.5, (index / width) as f64 + 0.5));
        let along = |place: f64, count: usize| {
            let last = count as f64 - 1.0;
            let inside = (-0.5..last + 0.5).contains(&(place - 0.5));
            let place = (place - 0.5).clamp(0.0, last);
            // Not `floor`, which older x86-64 has no instruction for: it is not negative.
            let first = place as usize;
            inside.then_some((first, (first + 1).min(count - 1), (place - first as f64) as f32))
        };
        let (left, right, part_x) = along(x, width)?;
        let (top, bottom, part_y) = along(y, height)?;
        let row = |y: usize| [y * width + left, y * width + right];
        let ([a, b], [c, d]) = (row(top), row(bottom));
        let shares = [
            (1.0 - part_x) * (1.0 - part_y),
            part_x * (1.0 - part_y),
            (1.0 - part_x) * part_y,
            part_x * part_y,
        ];
        Some(Bilinear { texels: [a, b, c, d], shares })
    }

    fn resample(&mut self, model: &mut Vec<f32>, map: Affine) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        for index in 0..self.grid.area() {
            let place = self.bilinear(&map, index);
            for channel in 0..3 {
                let mixed = |Bilinear { texels, shares }: Bilinear| -> f32 {
                    let near = texels.map(|texel| model[3 * texel + channel]);
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
