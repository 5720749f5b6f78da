//! Packs keys and values of a head level by level, in the order in which they are read.

use std::iter::successors;

use crate::element::Element;
use crate::plan::{AttentionPlan, LevelCells, PANEL};
use foveate_simd::LANES;

/// Keys and values of a level of one head. Vectors are filled up with zeros: keys to whole vectors, values to whole panels.
///
/// Below the coarsest level they lie family by family: keys place by place; values in panels of [`PANEL`] numbers, place by place. Of the
/// coarsest level keys lie in panels of [`PANEL`] cells, number by number, and values as those of one family.
#[derive(Debug, Default)]
pub(crate) struct PackedLevel {
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

/// Arranges the keys and values of a head, `[keys, width]` and `[keys, value width]`, level by level.
pub(crate) fn pack<T: Element>(
    plan: &AttentionPlan,
    keys: &[T],
    values: &[T],
    head: &mut Vec<PackedLevel>,
) {
    head.resize_with(plan.levels.len(), PackedLevel::default);
    let (width, stride) = (plan.shape.width, key_stride(plan));
    let packed = head.iter_mut().zip(&plan.levels).zip(sums_of_levels(plan, width, keys));
    for ((packed, cells), sums) in packed {
        let write = if cells.family == 0 { key_panels } else { key_rows };
        write(cells, width, stride, &sums, &mut packed.keys);
    }
    let (width, stride) = (plan.shape.value_width, value_stride(plan));
    let packed = head.iter_mut().zip(&plan.levels).zip(sums_of_levels(plan, width, values));
    for ((packed, cells), sums) in packed {
        let family = if cells.family == 0 { cells.places() } else { cells.family };
        value_panels(cells, family, width, stride, &sums, &mut packed.values);
    }
}

/// The sums of vectors of `width` numbers over the cells of each level.
fn sums_of_levels<T: Element>(
    plan: &AttentionPlan,
    width: usize,
    source: &[T],
) -> impl Iterator<Item = Vec<f32>> {
    let mut keys = vec![0.0; source.len()];
    T::widen(source, &mut keys);
    let levels = successors(Some((0, keys)), move |(level, sums)| {
        let above = plan.levels.get(level + 1)?;
        Some((level + 1, summed(plan.coarse, &plan.levels[*level], above, width, sums)))
    });
    levels.map(|(_, sums)| sums)
}

/// The sums over the cells of a level, row by row, from those of the level below.
fn summed(
    coarse: usize,
    below: &LevelCells,
    cells: &LevelCells,
    width: usize,
    sums: &[f32],
) -> Vec<f32> {
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
fn key_rows(cells: &LevelCells, width: usize, stride: usize, sums: &[f32], target: &mut Vec<f32>) {
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
fn key_panels(
    cells: &LevelCells,
    width: usize,
    stride: usize,
    sums: &[f32],
    target: &mut Vec<f32>,
) {
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
    cells: &LevelCells,
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
