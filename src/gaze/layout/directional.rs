//! The layout `directional`: as [`foveal`], but boxes may be halved along one axis: a line of text keeps its columns and gives up rows.
//!
//! Which axis is halved follows the structure tensor of the relevance map under the box (Bigün and Granlund, "Optimal orientation
//! detection of linear symmetry", ICCV 1987): where relevance runs along x, so do the finer texels. Elsewhere, and where
//! there is no map, the longer side is halved.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{PlanRequest, foveal, heap_key};
use foveate_core::geometry::fixation::{self, Focus};
use foveate_core::geometry::patch::PatchGrids;
use foveate_core::geometry::plan::Token;
use foveate_core::geometry::region::{PixelBox, Region};

/// Most patches that the tree starts from.
const ROOTS_MAX: usize = 16;

/// Largest log2 of the ratio of a token's steps.
const RATIO_MAX: u32 = 2;

/// How much stronger the structure along one axis must be than along the other.
const LEANING: f64 = 2.0;

/// A box of the tree: P x P texels of 2^`levels` pixels along each axis, at `place` in boxes of this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    levels: [u32; 2],
    place: [u32; 2],
}

impl Node {
    /// The two halves of the node along `axis`.
    fn halves(self, axis: usize) -> [Self; 2] {
        [0, 1].map(|half| {
            let Self { mut levels, mut place } = self;
            levels[axis] -= 1;
            place[axis] = 2 * place[axis] + half;
            Self { levels, place }
        })
    }

    fn token(self, patch_side: u32) -> Token {
        let step = |axis: usize| 1u16 << self.levels[axis];
        let start =
            |axis: usize| (self.place[axis] * (patch_side << self.levels[axis])).cast_signed();
        #[expect(clippy::cast_possible_truncation, reason = "the sum of two levels")]
        let group = (self.levels[0] + self.levels[1]) as u16;
        Token { x: start(0), y: start(1), sx: step(0), sy: step(1), group, ..Token::default() }
    }
}

/// The tokens: the picture once, at most `budget`. Ordered by log2 of the area of a texel, then from top to bottom and left to
/// right. If a
/// client `asked` for a box, or for a point, which is a box without an area, relevance does not count.
pub(super) fn tokens(request: &PlanRequest<'_>, e0_px: f64, asked: Option<Region>) -> Vec<Token> {
    let relevance = request.relevance.filter(|_| asked.is_none());
    let request = &PlanRequest { relevance, ..*request };
    let PlanRequest { shape, patch_side, budget, .. } = *request;
    let grids = PatchGrids::new(shape, patch_side);
    let level = grids.finest_level_within(budget.min(ROOTS_MAX));
    let roots = grids.patches(level);
    let roots = roots.map(|root| Node { levels: [level; 2], place: [root.i, root.j] });
    // Of the same priority the larger comes first, then the first from the top left.
    let candidate = |node: Node| {
        let Node { levels: [columns, rows], place: [column, row] } = node;
        let key = heap_key(priority(node, request, e0_px, asked));
        (key, columns + rows, columns, Reverse([row, column]), node)
    };
    let mut queue: BinaryHeap<_> = roots.map(candidate).collect();
    let mut finest = Vec::new();
    while let Some(&(.., node)) = queue.peek() {
        let Some(axis) = axis_to_halve(node, request) else {
            queue.pop();
            finest.push(node);
            continue;
        };
        let is_real = |half: &Node| !pixels(*half, request).is_empty();
        let halves = node.halves(axis).into_iter().filter(is_real);
        if budget < finest.len() + queue.len() - 1 + halves.clone().count() {
            break;
        }
        queue.pop();
        queue.extend(halves.map(candidate));
    }
    finest.extend(queue.into_iter().map(|(.., node)| node));
    let mut tokens: Vec<Token> = finest.into_iter().map(|node| node.token(patch_side)).collect();
    tokens.sort_unstable_by_key(|token| (token.group, token.y, token.x, token.sy));
    tokens
}

/// The geometric mean of its sides in pixels * magnification * relevance, at the distance from the fixation.
fn priority(node: Node, request: &PlanRequest<'_>, e0_px: f64, asked: Option<Region>) -> f64 {
    let (extent, patch_side) = (request.shape.extent(), request.patch_side);
    let Focus { x, y, .. } = request.fixations[0];
    let (x, y) = fixation::snapped(extent, x, y);
    let side = |axis: usize| f64::from(patch_side << node.levels[axis]);
    let edges = [0, 1].map(|axis| {
        let start = f64::from(node.place[axis]) * side(axis);
        (start, start + side(axis))
    });
    let relevance =
        request.relevance.map_or(1.0, |map| map.greatest(extent, pixels(node, request)));
    let magnification = match asked {
        Some(asked) => foveal::asked_share(foveal::distance(edges, asked), patch_side),
        None => {
            let point = Region { x0: x, y0: y, x1: x, y1: y };
            foveal::magnification(foveal::distance(edges, point), e0_px, extent, patch_side)
        }
    };
    (side(0) * side(1)).sqrt() * magnification * relevance
}

/// The axis along which a box is halved; `None` at full resolution.
fn axis_to_halve(node: Node, request: &PlanRequest<'_>) -> Option<usize> {
    let [columns, rows] = node.levels;
    let may_halve =
        [0 < columns && rows < columns + RATIO_MAX, 0 < rows && columns < rows + RATIO_MAX];
    match may_halve {
        [true, true] => {
            let [along_x, along_y] = structure(node, request);
            // Where values change from row to row, what they describe runs along x.
            let leans = [LEANING * along_x < along_y, LEANING * along_y < along_x];
            Some(match leans {
                [true, _] => 0,
                [_, true] => 1,
                _ => usize::from(columns < rows),
            })
        }
        [true, false] => Some(0),
        [false, true] => Some(1),
        [false, false] => None,
    }
}

/// The diagonal of the structure tensor of the map under a box: squared differences along x, and along y.
fn structure(node: Node, request: &PlanRequest<'_>) -> [f64; 2] {
    request
        .relevance
        .map_or([0.0; 2], |map| map.structure(request.shape.extent(), pixels(node, request)))
}

fn pixels(node: Node, request: &PlanRequest<'_>) -> PixelBox {
    let side = request.patch_side;
    node.token(side).pixel_box(request.shape.extent(), side)
}
