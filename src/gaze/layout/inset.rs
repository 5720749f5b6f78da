//! A uniform grid over the whole picture, and blocks of finer squares over what is looked at.
//!
//! The grid, the base, is the finest whose tokens fit into what the blocks leave of the budget. It depends on the budget and its shares
//! alone, so it stays where it is while the view looks around. A block is a grid of squares, too: around a fixation at the least step, or
//! over a region that somebody asked for at the finest step at which its tokens cover it. What is asked for may take more of the budget
//! than fixations of the view's own choice. Tokens of the base that lie under a block are left out, and the blocks get what that frees.

use std::ops::Range;

use super::PlanRequest;
use super::uniform::{base_side, next_side};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{self, Focus};
use foveate_core::geometry::plan::Token;
use foveate_core::geometry::region::{PixelBox, Region};
use foveate_core::value::{Keys, real, whole};

/// How often the blocks take what they have freed; few rounds change anything.
const ROUNDS_MAX: usize = 8;

/// Parts of a token's side that a block goes beyond a region on each side, in 1/4.
const MARGIN_QUARTERS: u32 = 1;

/// Columns for each row of the block of a point that is asked for: text is wider than high.
const ASKED_ASPECT: f64 = 2.0;

/// How the layout divides its budget. Where a fixation is asked for, its block may have more than the share, step 1, and sides of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inset {
    /// Share of the budget that goes to blocks, 0 to below 1.
    pub share: f64,
    /// Fixations at a time, each with a block, 1 to [`FOVEAE_MAX`](foveate_core::geometry::fixation::FOVEAE_MAX).
    pub blocks: u32,
    /// Fewest source pixels from one texel of a block to the next, from 1.
    pub min_step: f64,
    /// Columns of a block around a fixation for each of its rows.
    pub aspect: f64,
}

impl Default for Inset {
    fn default() -> Self {
        Self { share: 0.1, blocks: 4, min_step: 1.5, aspect: 1.0 }
    }
}

impl Inset {
    pub(super) fn keys(&mut self, keys: &mut dyn Keys) {
        keys.key("share", &mut self.share, real(0.0..=0.99));
        keys.key("blocks", &mut self.blocks, whole(1..=8));
        keys.key("min_step", &mut self.min_step, real(1.0..=64.0));
        keys.key("aspect", &mut self.aspect, real(0.05..=20.0));
    }

    /// The shortest side of the squares of a fixation's block, in pixels.
    fn least_side(&self, focus: &Focus, patch_side: u32) -> u32 {
        let step = if focus.own_share.is_some() { 1.0 } else { self.min_step };
        let least = (f64::from(patch_side) * step).ceil();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 64 P")]
        next_side(least as u32, patch_side)
    }
}

/// The tokens, at most the budget: those of the base row by row, then those of each block row by row.
pub(super) fn tokens(inset: &Inset, request: &PlanRequest<'_>) -> Vec<Token> {
    let (base, mut quotas) = divided(inset, request);
    let mut plan = assembled(inset, request, base, &quotas);
    for _ in 0..ROUNDS_MAX {
        let takers = quotas.iter().filter(|quota| 0 < **quota).count();
        let base_tokens = plan.iter().filter(|token| token.group == 0).count();
        if takers == 0 || !share_out(request.budget - base_tokens, &mut quotas) {
            break;
        }
        let larger = assembled(inset, request, base, &quotas);
        // A larger block may have moved, and uncovered more than it covers.
        if request.budget < larger.len() {
            break;
        }
        plan = larger;
    }
    plan
}

/// Brings the sum of the quotas above 0 to `total`, in equal parts. Returns whether any grew.
fn share_out(total: usize, quotas: &mut [usize]) -> bool {
    let more = total.saturating_sub(quotas.iter().sum());
    let takers: Vec<_> = quotas.iter_mut().filter(|quota| 0 < **quota).collect();
    let count = takers.len();
    for (index, quota) in takers.into_iter().enumerate() {
        *quota += more / count + usize::from(index < more % count);
    }
    0 < more
}

/// A grid of squares.
#[derive(Clone, Copy, Debug)]
struct Grid {
    /// Left and top edge in source pixels; 0 until the block has its place.
    x: u32,
    y: u32,
    /// Side of a square, in pixels.
    side: u32,
    columns: u32,
    rows: u32,
}

impl Grid {
    /// The squares, row by row.
    fn tokens(self, patch_side: u32) -> impl Iterator<Item = Token> {
        let place = move |start: u32, index: u32| (start + index * self.side).cast_signed();
        let squares =
            (0..self.rows).flat_map(move |row| (0..self.columns).map(move |at| (at, row)));
        squares.map(move |(column, row)| {
            Token::square(place(self.x, column), place(self.y, row), self.side, patch_side)
        })
    }

    /// Real pixels of the grid.
    fn pixel_box(self, extent: Extent) -> PixelBox {
        let along =
            |start: u32, count: u32, length: u32| start..(start + count * self.side).min(length);
        PixelBox::of(
            along(self.x, self.columns, extent.width),
            along(self.y, self.rows, extent.height),
        )
    }
}

/// How the budget is divided before tokens under blocks are left out: the base, and the most tokens of the block of each fixation.
fn divided(inset: &Inset, request: &PlanRequest<'_>) -> (Grid, Vec<usize>) {
    let PlanRequest { patch_side, budget, fixations, .. } = *request;
    let extent = request.shape.extent();
    let finest_base = base(extent, patch_side, budget).side;
    let mut quotas = wanted(inset, request);
    let mut left = budget - 1;
    for (quota, focus) in quotas.iter_mut().zip(fixations) {
        // A picture that the budget shows at the step of a block has no use for it.
        let is_needed = inset.least_side(focus, patch_side) < finest_base;
        *quota = if is_needed { (*quota).min(left) } else { 0 };
        left -= *quota;
    }
    loop {
        let base = base(extent, patch_side, budget - quotas.iter().sum::<usize>());
        let is_coarse = |(focus, quota): (&Focus, &usize)| {
            block(inset, request, focus, *quota).is_some_and(|block| base.side <= block.side)
        };
        // A block must be finer than the base to show more.
        match fixations.iter().zip(&quotas).position(is_coarse) {
            Some(index) => quotas[index] = 0,
            None => return (base, quotas),
        }
    }
}

/// Tokens of a share of the budget.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded")]
fn tokens_of(share: f64, budget: usize) -> usize {
    (share.clamp(0.0, 1.0) * budget as f64).round() as usize
}

/// The tokens that each block asks for. The fixations of the view's own choice divide the rest of the share, so that the
/// base stays as it is as long as that suffices.
fn wanted(inset: &Inset, request: &PlanRequest<'_>) -> Vec<usize> {
    let PlanRequest { patch_side, budget, fixations, .. } = *request;
    let extent = request.shape.extent();
    let total = tokens_of(inset.share, budget);
    let is_own = |focus: &&Focus| focus.share.is_none() && focus.own_share.is_none();
    let own = fixations.iter().filter(is_own).count();
    let is_asked = |focus: &&Focus| focus.share.is_none() && focus.own_share.is_some();
    let asked = fixations.iter().filter(is_asked).count().max(1);
    let least = if own == 0 { total / asked } else { 1 };
    // A point gets all that it may have, a region what it takes at full resolution.
    let for_asked = |focus: &Focus, share: f64| {
        let most = tokens_of(share / asked as f64, budget).max(least);
        let over = |region| {
            let (Grid { columns, rows, .. }, _) = covering(region, patch_side, patch_side, extent);
            columns as usize * rows as usize
        };
        let region = focus.region.and_then(|region| pixels_of(region, extent));
        region.map_or(most, |region| over(region).clamp(least, most))
    };
    let given = |focus: &Focus| match (focus.share, focus.own_share) {
        (Some(share), _) => tokens_of(share, budget),
        (None, Some(share)) => for_asked(focus, share),
        (None, None) => 0,
    };
    let mut quotas: Vec<usize> = fixations.iter().map(given).collect();
    let left = total.saturating_sub(quotas.iter().sum());
    let others = quotas.iter_mut().zip(fixations).filter(|(_, focus)| is_own(focus));
    for (index, (quota, _)) in others.enumerate() {
        *quota = left / own + usize::from(index < left % own);
    }
    quotas
}

/// The finest grid over the picture of at most `budget` squares.
fn base(extent: Extent, patch_side: u32, budget: usize) -> Grid {
    let side = base_side(extent, patch_side, budget);
    let Extent { width: columns, height: rows } = extent.in_cells(side);
    Grid { x: 0, y: 0, side, columns, rows }
}

/// The plan whose block around each fixation has at most the quota of the fixation in tokens.
fn assembled(inset: &Inset, request: &PlanRequest<'_>, base: Grid, quotas: &[usize]) -> Vec<Token> {
    let PlanRequest { patch_side, fixations, .. } = *request;
    let extent = request.shape.extent();
    let blocks = fixations.iter().zip(quotas).zip(0..);
    let blocks = blocks.filter_map(|((focus, quota), index)| {
        block(inset, request, focus, *quota).map(|block| (block, index))
    });
    let blocks: Vec<(Grid, u16)> = blocks.collect();
    let is_under = |token: &Token, blocks: &[(Grid, u16)]| {
        let lies = token.pixel_box(extent, patch_side);
        blocks.iter().any(|(block, _)| contains(block.pixel_box(extent), lies))
    };
    let mut tokens: Vec<_> = base
        .tokens(patch_side)
        .filter(|token| !is_under(token, &blocks))
        .map(|token| Token { fovea: nearest(&token, request), ..token })
        .collect();
    for (index, (block, fovea)) in blocks.iter().enumerate() {
        let seen = block.tokens(patch_side).filter(|token| !is_under(token, &blocks[..index]));
        tokens.extend(seen.map(|token| Token { group: fovea + 1, fovea: *fovea, ..token }));
    }
    tokens
}

fn contains(outer: PixelBox, inner: PixelBox) -> bool {
    outer.x0 <= inner.x0 && inner.x1 <= outer.x1 && outer.y0 <= inner.y0 && inner.y1 <= outer.y1
}

/// The fixation that is nearest to a token, the first of several.
fn nearest(token: &Token, request: &PlanRequest<'_>) -> u16 {
    let extent = request.shape.extent();
    let lies = token.pixel_box(extent, request.patch_side);
    let off =
        |at: f64, start: u32, end: u32| (f64::from(start) - at).max(at - f64::from(end)).max(0.0);
    let distance = |focus: &Focus| {
        let (x, y) = fixation::snapped(extent, focus.x, focus.y);
        let (dx, dy) = (off(x, lies.x0, lies.x1), off(y, lies.y0, lies.y1));
        dx * dx + dy * dy
    };
    let distances = (0..).zip(request.fixations.iter().map(distance));
    distances.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(index, _)| index)
}

/// The block of a fixation, of at most `quota` squares; `None` if there are none.
fn block(inset: &Inset, request: &PlanRequest<'_>, focus: &Focus, quota: usize) -> Option<Grid> {
    let PlanRequest { patch_side, .. } = *request;
    let extent = request.shape.extent();
    let quota = u32::try_from(quota).ok().filter(|quota| 0 < *quota)?;
    let finest = inset.least_side(focus, patch_side);
    let region = focus.region.and_then(|region| pixels_of(region, extent));
    let (grid, lies) = match region {
        Some(region) => fitted(region, finest, patch_side, quota, extent),
        None => {
            let (x, y) = fixation::snapped(extent, focus.x, focus.y);
            let (x, y) = (pixel_at(x, extent.width), pixel_at(y, extent.height));
            let aspect = if focus.own_share.is_some() { ASKED_ASPECT } else { inset.aspect };
            (around_point(aspect, finest, quota, extent), PixelBox::of(x..x + 1, y..y + 1))
        }
    };
    let Grid { side, columns, rows, .. } = grid;
    let centre = match region {
        Some(PixelBox { x0, y0, x1, y1 }) => (f64::from(x0 + x1) / 2.0, f64::from(y0 + y1) / 2.0),
        None => fixation::snapped(extent, focus.x, focus.y),
    };
    let unit = unit_of(side, patch_side);
    let x = start(centre.0, columns * side, lies.x0..lies.x1, extent.width, unit);
    let y = start(centre.1, rows * side, lies.y0..lies.y1, extent.height, unit);
    Some(Grid { x, y, ..grid })
}

/// The pixel under a place of an axis.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "inside the picture")]
fn pixel_at(place: f64, length: u32) -> u32 {
    (place as u32).min(length - 1)
}

/// The pixels of the picture that a region touches; `None` if it touches none.
fn pixels_of(region: Region, extent: Extent) -> Option<PixelBox> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let along = |start: f64, end: f64, length: u32| {
        let inside = |place: f64| place.clamp(0.0, f64::from(length)) as u32;
        inside(start.floor())..inside(end.ceil())
    };
    let (columns, rows) =
        (along(region.x0, region.x1, extent.width), along(region.y0, region.y1, extent.height));
    Some(PixelBox::of(columns, rows)).filter(|pixels| !pixels.is_empty())
}

/// Pixels that blocks of squares of `side` begin at multiples of: those of a level's texels, where the squares are read from one.
fn unit_of(side: u32, patch_side: u32) -> u32 {
    if side.is_multiple_of(patch_side) { side / patch_side } else { 1 }
}

/// A block around a point: of the sizes within the quota one with many squares, and with sides about as `aspect` has them.
fn around_point(aspect: f64, side: u32, quota: u32, extent: Extent) -> Grid {
    let most = extent.in_cells(side);
    let sizes = (1..=most.height.min(quota)).map(|rows| (most.width.min(quota / rows), rows));
    let worth = |(columns, rows): (u32, u32)| {
        let ratio = f64::from(columns) / (f64::from(rows) * aspect);
        // Half as many squares are as bad as sides that are 16 times as long.
        f64::from(columns * rows) / ratio.max(1.0 / ratio).sqrt().sqrt()
    };
    let best = sizes.max_by(|a, b| worth(*a).total_cmp(&worth(*b)));
    let (columns, rows) = best.expect("at least one row");
    Grid { x: 0, y: 0, side, columns, rows }
}

/// A block over a region and a margin, at the least step that the quota allows, and what of the picture it has to cover. What is left of
/// the quota goes to more columns and rows, the shorter side first.
fn fitted(
    region: PixelBox,
    finest: u32,
    patch_side: u32,
    quota: u32,
    extent: Extent,
) -> (Grid, PixelBox) {
    let (width, height) = (region.x1 - region.x0, region.y1 - region.y0);
    // With shorter sides the squares would not even cover the region.
    let least = (u64::from(width) * u64::from(height) / u64::from(quota)).isqrt();
    let mut side = finest.max(u32::try_from(least).expect("a side of the picture"));
    loop {
        side = next_side(side, patch_side);
        let (grid, lies) = covering(region, side, patch_side, extent);
        if grid.columns * grid.rows <= quota {
            return (grown(grid, quota, extent), lies);
        }
        side += 1;
    }
}

/// The fewest squares of `side` that cover a region and a margin, and these two.
fn covering(region: PixelBox, side: u32, patch_side: u32, extent: Extent) -> (Grid, PixelBox) {
    let lies = with_margin(region, side * MARGIN_QUARTERS / 4, extent);
    let unit = unit_of(side, patch_side);
    // From the last place at which a block may begin.
    let count = |start: u32, end: u32| (end - start / unit * unit).div_ceil(side);
    let (columns, rows) = (count(lies.x0, lies.x1), count(lies.y0, lies.y1));
    (Grid { x: 0, y: 0, side, columns, rows }, lies)
}

fn with_margin(region: PixelBox, margin: u32, extent: Extent) -> PixelBox {
    PixelBox {
        x0: region.x0.saturating_sub(margin),
        y0: region.y0.saturating_sub(margin),
        x1: (region.x1 + margin).min(extent.width),
        y1: (region.y1 + margin).min(extent.height),
    }
}

/// The grid with more columns and rows, within the quota and no more than cover the picture.
fn grown(grid: Grid, quota: u32, extent: Extent) -> Grid {
    let most = extent.in_cells(grid.side);
    let Grid { mut columns, mut rows, .. } = grid;
    loop {
        let may_widen = columns < most.width && (columns + 1) * rows <= quota;
        let may_heighten = rows < most.height && columns * (rows + 1) <= quota;
        match (may_widen, may_heighten) {
            (false, false) => return Grid { columns, rows, ..grid },
            (true, false) => columns += 1,
            (false, true) => rows += 1,
            (true, true) if columns <= rows => columns += 1,
            (true, true) => rows += 1,
        }
    }
}

/// Where a block of `covered` pixels begins along an axis of `length`: around `centre`, inside where it fits, over all of `needed`, at a
/// multiple of `unit`.
fn start(centre: f64, covered: u32, needed: Range<u32>, length: u32, unit: u32) -> u32 {
    let aligned_up = |place: u32| place.next_multiple_of(unit);
    let wanted = (centre - f64::from(covered) / 2.0) / f64::from(unit);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let wanted = wanted.round().clamp(0.0, f64::from(length)) as u32 * unit;
    let inside = wanted.min(aligned_up(length.saturating_sub(covered)));
    let last = needed.start / unit * unit;
    inside.clamp(aligned_up(needed.end.saturating_sub(covered)).min(last), last)
}
