//! The texels that the tokens of a view were last published with.
//!
//! Twin of `glsl/compare.comp` and `glsl/settle.comp`.

use std::ops::Range;

use crate::planes::SamplerSpec;
use crate::reuse::Reuse;

/// Rows of texels, R, G and B, each `[3, P, P]`.
#[derive(Debug)]
pub(super) struct SentTexels {
    bytes: Vec<u8>,
    row_bytes: usize,
}

impl SentTexels {
    /// Room for the tokens of `spec`; none if they are not compared.
    pub(super) fn new(SamplerSpec { format, capacity, keeps_unchanged }: SamplerSpec) -> Self {
        let row_bytes = 3 * (format.patch_side as usize).pow(2);
        let rows = if keeps_unchanged { 2 * capacity } else { 0 };
        Self { bytes: vec![0; rows * row_bytes], row_bytes }
    }

    /// The rows of a plan's tokens, to be compared as `reuse` says; `None` if none is.
    pub(super) fn rows<'a>(&'a mut self, reuse: &'a mut Reuse) -> Option<SentRows<'a>> {
        let Self { bytes, row_bytes } = self;
        if bytes.is_empty() || !reuse.is_on() {
            return None;
        }
        let half = bytes.len() / 2;
        let (first, second) = bytes.split_at_mut(half);
        let (first_row, threshold) = (reuse.first_row(), reuse.threshold());
        let (own, before) = if first_row == 0 { (first, second) } else { (second, first) };
        let (rows, moved) = reuse.rows_mut();
        let row_bytes = *row_bytes;
        Some(SentRows { row_bytes, first: 0, first_row, threshold, rows, moved, own, before })
    }
}

/// The rows of some neighbouring tokens of a plan, for one thread.
#[derive(Debug)]
pub(super) struct SentRows<'a> {
    row_bytes: usize,
    /// The first of the tokens.
    first: usize,
    /// The row of the plan's first token.
    first_row: u32,
    threshold: u8,
    /// Row of each token of the plan.
    rows: &'a [Option<u32>],
    moved: &'a mut [u8],
    own: &'a mut [u8],
    /// The other half of the rows.
    before: &'a [u8],
}

impl<'a> SentRows<'a> {
    /// Takes the rows of the tokens before `end` off.
    pub(super) fn take_before(&mut self, end: usize) -> Self {
        let count = end - self.first;
        let (own, own_rest) = std::mem::take(&mut self.own).split_at_mut(count * self.row_bytes);
        let (moved, moved_rest) = std::mem::take(&mut self.moved).split_at_mut(count);
        let taken = Self { own, moved, ..*self };
        (self.first, self.own, self.moved) = (end, own_rest, moved_rest);
        taken
    }

    /// The texels that token `index` was last published with.
    pub(super) fn token(&mut self, index: usize) -> Sent<'_> {
        let Self { row_bytes, first, first_row, threshold, rows, moved, own, before } = self;
        let row = rows[index];
        let place = |row: usize| row * *row_bytes..(row + 1) * *row_bytes;
        let texels = &mut own[place(index - *first)];
        if let Some(row) = row {
            let (row, own_row) = (row as usize, *first_row as usize + index);
            if row != own_row {
                let half = before.len() / *row_bytes;
                texels.copy_from_slice(&before[place(row % half)]);
            }
        }
        let moved = &mut moved[index - *first];
        *moved = 0;
        Sent { texels, tolerance: row.map(|_| *threshold), moved }
    }
}

/// The texels that a token was last published with.
#[derive(Debug)]
pub struct Sent<'a> {
    /// `[3, P, P]`.
    texels: &'a mut [u8],
    /// The most by which each may differ; `None` if nothing is known of them.
    tolerance: Option<u8>,
    /// The most by which one differs so far.
    moved: &'a mut u8,
}

impl Sent<'_> {
    /// Compares the texels `places` of each channel, counted row by row, with those that the pyramid has now.
    #[inline(always)]
    pub(super) fn compare(&mut self, places: Range<usize>, values: [&[u8]; 3]) {
        if self.tolerance.is_some() {
            let area = self.texels.len() / 3;
            for (sent, values) in self.texels.chunks_exact(area).zip(values) {
                let sent = &sent[places.clone()];
                let differences = sent.iter().zip(values).map(|(a, b)| a.abs_diff(*b));
                *self.moved = differences.fold(*self.moved, u8::max);
            }
        }
    }

    /// Once all have been compared: replaces the texels `places` of each channel by those that the token keeps, or remembers them.
    #[inline(always)]
    pub(super) fn settle(&mut self, places: Range<usize>, values: [&mut [u8]; 3]) {
        let is_kept = self.tolerance.is_some_and(|tolerance| *self.moved <= tolerance);
        let area = self.texels.len() / 3;
        for (sent, values) in self.texels.chunks_exact_mut(area).zip(values) {
            let sent = &mut sent[places.clone()];
            if is_kept {
                values.copy_from_slice(sent);
            } else {
                sent.copy_from_slice(values);
            }
        }
    }
}
