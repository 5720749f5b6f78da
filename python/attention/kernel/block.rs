//! Attention for a block of queries.
//!
//! A cell is opened when its children are scored instead of it (see the crate). A block visits each opened cell once, so its
//! keys and values are loaded from main memory once per block.

#![allow(
    clippy::needless_range_loop,
    reason = "adapters that happen not to be inlined keep sums out of registers"
)]

use crate::keys::{PackedLevel, key_stride, value_stride};
use crate::plan::{AttentionPlan, GROUP, PANEL};
use crate::select::Selector;
use crate::tile::{TILE, halves, product};
use foveate_simd::{Kernel, LANES, Lanes, Vectors};

/// Queries of a block: whole tiles.
pub(crate) const BLOCK: usize = 16 * TILE;

/// Cells whose values are weighted in one go: a panel of them fits into the first cache.
const CELLS_AT_ONCE: usize = 256;

/// A query that opened a cell.
#[derive(Clone, Copy, Debug, Default)]
struct Visit {
    query: u32,
    /// Where the scores of the cell's children start in the query's row.
    start: u32,
}

/// The opened cells of a level, cell by cell.
#[derive(Debug, Default)]
struct Visits {
    /// Places of the opened cells, and where the visits of each end.
    cells: Vec<(u32, u32)>,
    visits: Vec<Visit>,
    /// Visits of each place, then where its next one is put.
    counts: Vec<u32>,
}

/// Scores of a level, later weights, a row a query.
#[derive(Debug, Default)]
struct Scores {
    numbers: Vec<f32>,
    stride: usize,
}

impl Scores {
    fn resize(&mut self, len: usize) {
        self.stride = len;
        self.numbers.resize(BLOCK * self.stride, 0.0);
    }

    #[inline(always)]
    fn row(&self, query: usize) -> &[f32] {
        &self.numbers[query * self.stride..][..self.stride]
    }

    #[inline(always)]
    fn row_mut(&mut self, query: usize) -> &mut [f32] {
        &mut self.numbers[query * self.stride..][..self.stride]
    }
}

/// Memory of a thread, reused from block to block.
#[derive(Debug, Default)]
pub(crate) struct BlockScratch {
    /// The queries, scaled, each filled up to the stride of keys.
    pub(crate) queries: Vec<f32>,
    /// The sum of the weights of each query.
    pub(crate) weight_sums: Vec<f32>,
    /// Weighted sums of the values, not yet divided by `weight_sums`; each is padded to the stride of values.
    pub(crate) results: Vec<f32>,
    /// Scores of each level.
    scores: Vec<Scores>,
    /// Visits of each level, from the first.
    visits: Vec<Visits>,
    /// Places of the cells that each query opened, of the level at hand and of the one above.
    opened: Vec<Vec<u32>>,
    opened_above: Vec<Vec<u32>>,
    found: Vec<u32>,
    selector: Selector,
}

/// The attention of the first `count` queries of the scratch memory, whose results it leaves there.
pub(crate) struct QueryBlock<'a> {
    pub(crate) plan: &'a AttentionPlan,
    /// Keys and values of each level of the plan.
    pub(crate) head: &'a [PackedLevel],
    pub(crate) scratch: &'a mut BlockScratch,
    pub(crate) count: usize,
}

impl Kernel for QueryBlock<'_> {
    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let Self { plan, head, scratch, count } = self;
        let lanes = vectors.lanes();
        let coarsest = plan.levels.len() - 1;
        scratch.scores.resize_with(plan.levels.len(), Scores::default);
        scratch.visits.resize_with(coarsest, Visits::default);
        scratch.weight_sums.resize(BLOCK, 0.0);
        scratch.opened.resize_with(BLOCK, Vec::new);
        scratch.opened_above.resize_with(BLOCK, Vec::new);
        score_coarsest(lanes, plan, &head[coarsest], scratch);
        for level in (0..coarsest).rev() {
            open(lanes, plan, level + 1, scratch, count);
            score_children(lanes, plan, level, &head[level], scratch, count);
        }
        soften(lanes, scratch, count);
        scratch.results.clear();
        scratch.results.resize(BLOCK * value_stride(plan), 0.0);
        if plan.coarsest().open < plan.coarsest().count() {
            add_coarsest(lanes, plan, &head[coarsest], scratch);
        }
        for level in 0..coarsest {
            add_children(lanes, plan, level, &head[level], scratch);
        }
    }
}

/// Scores all cells of the coarsest level for all queries.
#[inline(always)]
fn score_coarsest<L: Lanes>(
    lanes: L,
    plan: &AttentionPlan,
    packed: &PackedLevel,
    scratch: &mut BlockScratch,
) {
    let stride = key_stride(plan);
    let (panels, _) = packed.keys.as_chunks::<PANEL>();
    let (offsets, _) = plan.coarsest().offsets.as_chunks::<PANEL>();
    let scores = &mut scratch.scores[plan.levels.len() - 1];
    // One panel more than there are, so that rows do not share the same few lines of the cache.
    scores.resize(plan.coarsest().places() + PANEL);
    for query in 0..BLOCK {
        let start = plan.coarsest().places();
        scores.row_mut(query)[start..].fill(f32::NEG_INFINITY);
    }
    for (panel, (keys, offsets)) in panels.chunks_exact(stride).zip(offsets).enumerate() {
        let offsets = halves(lanes, offsets);
        for first in (0..BLOCK).step_by(TILE) {
            let sums = product(lanes, rows(&scratch.queries, stride, first, 0), keys);
            for row in 0..TILE {
                let target = &mut scores.row_mut(first + row)[panel * PANEL..][..PANEL];
                let (target, _) = target.as_chunks_mut::<LANES>();
                target[0] = lanes.store(lanes.add(sums[row][0], offsets[0]));
                target[1] = lanes.store(lanes.add(sums[row][1], offsets[1]));
            }
        }
    }
}

/// Six rows of a matrix, each from the number `start`.
#[inline(always)]
fn rows(numbers: &[f32], stride: usize, first: usize, start: usize) -> [&[f32]; TILE] {
    let mut rows = [numbers; TILE];
    for (row, numbers) in rows.iter_mut().enumerate() {
        *numbers = &numbers[(first + row) * stride..][..stride][start..];
    }
    rows
}

/// Opens the best cells of a level.
#[inline(always)]
fn open<L: Lanes>(
    lanes: L,
    plan: &AttentionPlan,
    level: usize,
    scratch: &mut BlockScratch,
    count: usize,
) {
    let BlockScratch { scores, visits, opened, opened_above, found, selector, .. } = scratch;
    std::mem::swap(opened, opened_above);
    let cells = &plan.levels[level];
    let scores = &mut scores[level];
    for query in 0..count {
        let (row, opened) = (scores.row_mut(query), &mut opened[query]);
        opened.clear();
        if cells.family == 0 {
            selector.best(lanes, row, cells.open, |place| place, found);
            opened.extend_from_slice(found);
        } else {
            let parents = &opened_above[query];
            let place = |at: u32| place_below(cells.family, parents, at);
            selector.best(lanes, row, cells.open, |at| cells.rank(place(at)), found);
            opened.extend(found.iter().map(|at| index(place(*at))));
        }
        for at in &*found {
            row[*at as usize] = f32::NEG_INFINITY;
        }
    }
    visits[level - 1].sort(plan, level, &opened[..count]);
}

/// The place of a cell, given where its score is among those of the children of `parents`.
fn place_below(family: usize, parents: &[u32], at: u32) -> usize {
    let at = at as usize;
    parents[at / family] as usize * family + at % family
}

impl Visits {
    /// Sorts the cells of a level that each query opened by place.
    fn sort(&mut self, plan: &AttentionPlan, level: usize, opened: &[Vec<u32>]) {
        let family = index(plan.levels[level - 1].family);
        self.counts.clear();
        self.counts.resize(plan.levels[level].places(), 0);
        for place in opened.iter().flatten() {
            self.counts[*place as usize] += 1;
        }
        self.cells.clear();
        let mut end = 0;
        for (place, count) in (0..).zip(&mut self.counts) {
            let start = end;
            end += std::mem::replace(count, start);
            if start < end {
                self.cells.push((place, end));
            }
        }
        self.visits.resize(end as usize, Visit::default());
        for (query, opened) in (0..).zip(opened) {
            for (slot, place) in (0..).zip(opened) {
                let next = &mut self.counts[*place as usize];
                self.visits[*next as usize] = Visit { query, start: slot * family };
                *next += 1;
            }
        }
    }
}

/// Scores the children of the opened cells of the level above.
#[inline(always)]
fn score_children<L: Lanes>(
    lanes: L,
    plan: &AttentionPlan,
    level: usize,
    packed: &PackedLevel,
    scratch: &mut BlockScratch,
    count: usize,
) {
    let cells = &plan.levels[level];
    let stride = key_stride(plan);
    let BlockScratch { queries, scores, visits, opened, .. } = scratch;
    let scores = &mut scores[level];
    let longest = opened[..count].iter().map(Vec::len).max().unwrap_or(0);
    scores.resize((longest * cells.family).next_multiple_of(LANES));
    for query in 0..count {
        let end = opened[query].len() * cells.family;
        scores.row_mut(query)[end..].fill(f32::NEG_INFINITY);
    }
    let mut first = 0;
    for (place, end) in &visits[level].cells {
        let visits = &visits[level].visits[first..*end as usize];
        first = *end as usize;
        let start = *place as usize * cells.family;
        let keys = &packed.keys[start * stride..][..cells.family * stride];
        let offsets = &cells.offsets[start..][..cells.family];
        for (group, (keys, offsets)) in
            keys.chunks_exact(GROUP * stride).zip(offsets.as_chunks::<GROUP>().0).enumerate()
        {
            let (pairs, rest) = visits.as_chunks::<2>();
            for [a, b] in pairs {
                let vectors = [vector(queries, stride, a.query), vector(queries, stride, b.query)];
                let [of_a, of_b] = dots_of_two(lanes, vectors, keys, stride);
                put(scores, *a, group, of_a, offsets);
                put(scores, *b, group, of_b, offsets);
            }
            for visit in rest {
                let vector = vector(queries, stride, visit.query);
                let [dots, _] = dots_of_two(lanes, [vector, vector], keys, stride);
                put(scores, *visit, group, dots, offsets);
            }
        }
    }
}

#[inline(always)]
fn vector(numbers: &[f32], stride: usize, row: u32) -> &[f32] {
    &numbers[row as usize * stride..][..stride]
}

/// The dot products of two queries and a group of keys.
#[inline(always)]
fn dots_of_two<L: Lanes>(
    lanes: L,
    queries: [&[f32]; 2],
    keys: &[f32],
    stride: usize,
) -> [[f32; GROUP]; 2] {
    let (a, _) = queries[0][..stride].as_chunks::<LANES>();
    let (b, _) = queries[1][..stride].as_chunks::<LANES>();
    let (keys, _) = keys.as_chunks::<LANES>();
    let len = a.len();
    let b = &b[..len];
    let keys =
        [&keys[..len], &keys[len..2 * len], &keys[2 * len..3 * len], &keys[3 * len..4 * len]];
    let mut sums = [[lanes.splat(0.0); GROUP]; 2];
    for place in 0..len {
        let vectors = [lanes.load(&a[place]), lanes.load(&b[place])];
        for key in 0..GROUP {
            let numbers = lanes.load(&keys[key][place]);
            sums[0][key] = lanes.multiply_add(vectors[0], numbers, sums[0][key]);
            sums[1][key] = lanes.multiply_add(vectors[1], numbers, sums[1][key]);
        }
    }
    [lanes.lane_sums(sums[0]), lanes.lane_sums(sums[1])]
}

#[inline(always)]
fn put(
    scores: &mut Scores,
    visit: Visit,
    group: usize,
    dots: [f32; GROUP],
    offsets: &[f32; GROUP],
) {
    let start = visit.start as usize + group * GROUP;
    let target = &mut scores.row_mut(visit.query as usize)[start..][..GROUP];
    for child in 0..GROUP {
        target[child] = dots[child] + offsets[child];
    }
}

/// Turns the scores of each query into weights, and notes their sum.
#[inline(always)]
fn soften<L: Lanes>(lanes: L, scratch: &mut BlockScratch, count: usize) {
    for query in 0..count {
        let mut largest = lanes.splat(f32::NEG_INFINITY);
        for scores in &scratch.scores {
            for numbers in scores.row(query).as_chunks::<LANES>().0 {
                largest = lanes.max(lanes.load(numbers), largest);
            }
        }
        let largest = lanes.store(largest).into_iter().fold(f32::NEG_INFINITY, f32::max);
        let shift = lanes.splat(-largest);
        let mut sums = lanes.splat(0.0);
        for scores in &mut scratch.scores {
            for numbers in scores.row_mut(query).as_chunks_mut::<LANES>().0 {
                let weights = lanes.exp(lanes.add(lanes.load(numbers), shift));
                sums = lanes.add(sums, weights);
                *numbers = lanes.store(weights);
            }
        }
        scratch.weight_sums[query] = lanes.lane_sums([sums; GROUP])[0];
    }
}

/// Adds the values of the coarsest level by their weights.
#[inline(always)]
fn add_coarsest<L: Lanes>(
    lanes: L,
    plan: &AttentionPlan,
    packed: &PackedLevel,
    scratch: &mut BlockScratch,
) {
    let cells = plan.coarsest().places();
    let stride = value_stride(plan);
    let BlockScratch { scores, results, .. } = scratch;
    let scores = &scores[plan.levels.len() - 1];
    let (values, _) = packed.values.as_chunks::<PANEL>();
    for start in (0..cells).step_by(CELLS_AT_ONCE) {
        for (panel, values) in values.chunks_exact(cells).enumerate() {
            let values = &values[start..cells.min(start + CELLS_AT_ONCE)];
            for first in (0..BLOCK).step_by(TILE) {
                let weights = rows(&scores.numbers, scores.stride, first, start);
                let sums = product(lanes, weights, values);
                for row in 0..TILE {
                    let start = (first + row) * stride + panel * PANEL;
                    add_to(lanes, &mut results[start..][..PANEL], sums[row]);
                }
            }
        }
    }
}

/// Adds the values of the children of opened cells by their weights.
#[inline(always)]
fn add_children<L: Lanes>(
    lanes: L,
    plan: &AttentionPlan,
    level: usize,
    packed: &PackedLevel,
    scratch: &mut BlockScratch,
) {
    let family = plan.levels[level].family;
    let stride = value_stride(plan);
    let BlockScratch { scores, visits, results, .. } = scratch;
    let scores = &scores[level];
    let mut first = 0;
    for (place, end) in &visits[level].cells {
        let visits = &visits[level].visits[first..*end as usize];
        first = *end as usize;
        let values = &packed.values[*place as usize * family * stride..][..family * stride];
        let (values, _) = values.as_chunks::<PANEL>();
        for visits in visits.chunks(TILE) {
            // Rows that are too many are the last one again, and are not added.
            let mut rows = [&scores.numbers[..]; TILE];
            for (row, numbers) in rows.iter_mut().enumerate() {
                let visit = visits[row.min(visits.len() - 1)];
                *numbers = &scores.row(visit.query as usize)[visit.start as usize..];
            }
            for (panel, values) in values.chunks_exact(family).enumerate() {
                let sums = product(lanes, rows, values);
                for row in 0..visits.len() {
                    let start = visits[row].query as usize * stride + panel * PANEL;
                    add_to(lanes, &mut results[start..][..PANEL], sums[row]);
                }
            }
        }
    }
}

/// Adds sixteen numbers to those of `target`.
#[inline(always)]
fn add_to<L: Lanes>(lanes: L, target: &mut [f32], numbers: [L::Vector; 2]) {
    let (target, _) = target.as_chunks_mut::<LANES>();
    target[0] = lanes.store(lanes.add(lanes.load(&target[0]), numbers[0]));
    target[1] = lanes.store(lanes.add(lanes.load(&target[1]), numbers[1]));
}

#[expect(clippy::cast_possible_truncation, reason = "there are at most 2^28 keys")]
fn index(place: usize) -> u32 {
    place as u32
}
