//! Packs keys and values of a head level by level, in the order in which they are read.

use crate::element::Element;
use crate::plan::{AttentionPlan, Cells, PANEL};
use foveate_simd::LANES;

/// Keys and values of one head. Vectors are filled up with zeros: keys to whole vectors, values to whole panels.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// Those of each level below the coarsest, family by family: keys place by place; values in panels of [`PANEL`] numbers,
    /// place by place.
    pub(crate) families: Vec<Pair>,
    /// Of the coarsest level: keys in panels of [`PANEL`] cells, number by number; values as those of one family.
    pub(crate) coarsest: Pair,
}

/// Keys and values.
#[derive(Debug, Default)]
pub(crate) struct Pair {
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
}

/// Numbers of a key with its fillers.
pub(crate) fn key_stride(plan: &AttentionPlan) -> usize {
    plan.shape.width.next_multiple_of(LANES)
}

/// Numbers of a value with its fillers.
pub(crate) fn value_stride(plan: &AttentionPlan) -> usize {
    plan.shape.value_width.next_multiple_of(PANEL)
}

impl Head {
    /// Arranges the keys and values of a head, `[keys, width]` and `[keys, value width]`.
    pub(crate) fn fill<T: Element>(&mut self, plan: &AttentionPlan, keys: &[T], values: &[T]) {
        let coarsest = plan.levels.len() - 1;
        self.families.resize_with(coarsest, Pair::default);
        let [key_stride, value_stride] = [key_stride(plan), value_stride(plan)];
        for (source, width, are_keys) in
            [(keys, plan.shape.width, true), (values, plan.shape.value_width, false)]
        {
            let stride = if are_keys { key_stride } else { value_stride };
            let mut sums = vec![0.0; source.len()];
            T::widen(source, &mut sums);
            for (level, cells) in plan.levels.iter().enumerate() {
                if 0 < level {
                    sums = summed(plan.coarse, &plan.levels[level - 1], cells, width, &sums);
                }
                if level < coarsest {
                    let pair = &mut self.families[level];
                    if are_keys {
                        key_rows(cells, width, stride, &sums, &mut pair.keys);
                    } else {
                        value_panels(cells, cells.family, width, stride, &sums, &mut pair.values);
                    }
                } else if are_keys {
                    key_panels(cells, width, stride, &sums, &mut self.coarsest.keys);
                } else {
                    let family = cells.places();
                    value_panels(cells, family, width, stride, &sums, &mut self.coarsest.values);
                }
            }
        }
    }
}

/// The sums over the cells of a level, row by row, from those of the level below.
fn summed(coarse: usize, below: &Cells, cells: &Cells, width: usize, sums: &[f32]) -> Vec<f32> {
    let mut found = vec![0.0; cells.count() * width];
    for (row, source) in sums.chunks_exact(below.extent[1] * width).enumerate() {
        let start = row / coarse * cells.extent[1];
        for (column, vector) in source.chunks_exact(width).enumerate() {
            let cell = start + column / coarse;
            for (sum, number) in found[cell * width..(cell + 1) * width].iter_mut().zip(vector) {
                *sum += number;
            }
        }
    }
    found
}

/// Writes means place by place.
fn key_rows(cells: &Cells, width: usize, stride: usize, sums: &[f32], target: &mut Vec<f32>) {
    target.clear();
    target.resize(cells.places() * stride, 0.0);
    for (place, row) in target.chunks_exact_mut(stride).enumerate() {
        if let Some(cell) = cells.cell_at(place) {
            let sums = &sums[cell * width..(cell + 1) * width];
            for (mean, sum) in row.iter_mut().zip(sums) {
                *mean = sum / cells.counts[cell];
            }
        }
    }
}

/// Writes means in panels of [`PANEL`] cells, number by number.
fn key_panels(cells: &Cells, width: usize, stride: usize, sums: &[f32], target: &mut Vec<f32>) {
    target.clear();
    target.resize(cells.places() * stride, 0.0);
    for (cell, (sums, count)) in sums.chunks_exact(width).zip(&cells.counts).enumerate() {
        let panel = &mut target[cell / PANEL * PANEL * stride..];
        for (number, sum) in sums.iter().enumerate() {
            panel[number * PANEL + cell % PANEL] = sum / count;
        }
    }
}

/// Writes means family by family, in panels of [`PANEL`] numbers, place by place.
fn value_panels(
    cells: &Cells,
    family: usize,
    width: usize,
    stride: usize,
    sums: &[f32],
    target: &mut Vec<f32>,
) {
    target.clear();
    target.resize(cells.places() * stride, 0.0);
    for (parent, panels) in target.chunks_exact_mut(family * stride).enumerate() {
        for child in 0..family {
            let Some(cell) = cells.cell_at(parent * family + child) else { continue };
            let sums = &sums[cell * width..(cell + 1) * width];
            for (panel, sums) in panels.chunks_exact_mut(family * PANEL).zip(sums.chunks(PANEL)) {
                for (mean, sum) in panel[child * PANEL..].iter_mut().zip(sums) {
                    *mean = sum / cells.counts[cell];
                }
            }
        }
    }
}
