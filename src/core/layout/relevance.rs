//! Level by relevance: what matters most is at full resolution, what matters less one level above, and so on.
//!
//! The tokens are leaves of a quadtree, as of [`foveal`], and cover the picture once. A patch is split while it is coarser than
//! the thresholds say for its relevance; the most relevant first, as far as the budget goes. What is looked at comes before all else.
//! Around what somebody asked for the layout is that of [`foveal`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::foveal::{self, KEEPING, Priority};
use super::heap_key;
use crate::geometry::fixation::PlanRules;
use crate::geometry::patch::{Patch, PatchGrids};
use crate::geometry::plan::{Token, TokenPlan};
#[cfg(feature = "serde")]
use crate::value::{ConfigValue, newtype};
#[cfg(feature = "serde")]
use serde::Deserialize;

/// Relevance, as a share of the greatest, from which on a patch is at level 0, 1 and 2; below, at level 3.
pub const THRESHOLDS: [f64; 3] = [0.8, 0.5, 0.2];

/// Most thresholds: one for each level below the coarsest of the largest source.
pub const THRESHOLDS_MAX: usize = 11;

#[cfg(feature = "serde")]
newtype!(
    /// Shares of a whole, descending.
    Shares(Vec<f64>):
    format_args!("a list of 1 to {THRESHOLDS_MAX} numbers from 0.0 to 1.0, each below the one before, such as [0.8, 0.5, 0.2]"),
    |given| {
        let ConfigValue::List(list) = given else { return None };
        let shares: Vec<f64> = list.iter().map(ConfigValue::number).collect::<Option<_>>()?;
        let are_shares = shares.iter().all(|share| (0.0..=1.0).contains(share));
        let descend = shares.is_sorted_by(|a, b| b < a);
        let fit = (1..=THRESHOLDS_MAX).contains(&shares.len());
        (are_shares && descend && fit).then_some(shares)
    }
);

/// The tokens, ordered by level, then along the Morton curve. `thresholds` are of level 0 and those above it, descending. Without a
/// map, relevance is that of [`Priority`]'s magnification.
pub(super) fn tokens(
    grids: PatchGrids,
    budget: usize,
    thresholds: &[f64],
    priority: &Priority<'_>,
    (before, rules): (Option<&TokenPlan>, PlanRules),
) -> Vec<Token> {
    if priority.is_asked() {
        return foveal::tokens(grids, budget, None, priority, before);
    }
    let greatest = priority.relevance.map_or(1.0, |map| map.peak());
    let split_before = foveal::split_patches(before);
    let candidate = |patch: Patch| {
        let is_looked_at = priority.eccentricity(patch, grids) == 0.0;
        // Of what is equally relevant some is sharp, rather than all of it half so: a scorer puts first what was not seen for longest.
        let level = i64::from(patch.level);
        let turn = if rules != PlanRules::First { -level } else { level };
        let candidate = |priority: f64| (heap_key(priority), turn, Reverse(patch.morton()), patch);
        if is_looked_at && rules != PlanRules::First {
            return candidate(f64::INFINITY);
        }
        let share = match priority.relevance {
            // Fixated cells matter most.
            Some(_) if is_looked_at => 1.0,
            Some(_) => {
                let share = priority.relevance_of(patch, grids) / greatest;
                share.max(priority.asked_share(patch, grids))
            }
            None => priority.e0_px / (priority.eccentricity(patch, grids) + priority.e0_px),
        };
        let kept = if split_before.contains(&patch) { KEEPING } else { 1.0 };
        candidate(kept * share)
    };
    let wanted = |share: f64| {
        thresholds.iter().position(|threshold| *threshold <= share).unwrap_or(thresholds.len())
    };
    let roots = foveal::root_level(grids, budget, None);
    let mut open: BinaryHeap<_> = grids.patches(roots).map(candidate).collect();
    let mut leaves = Vec::new();
    while let Some(parent) = open.pop() {
        let (key, .., patch) = parent;
        let children = patch.children(grids);
        if patch.level as usize <= wanted(f64::from_bits(key)) {
            leaves.push(patch);
        } else if leaves.len() + open.len() + children.clone().count() <= budget {
            open.extend(children.map(candidate));
        } else {
            // A less relevant cell must not be finer.
            leaves.push(patch);
            break;
        }
    }
    leaves.extend(open.into_iter().map(|(.., patch)| patch));
    foveal::ordered(leaves, grids, priority)
}
