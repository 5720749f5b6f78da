//! Hierarchical attention is the same on any number of threads, on all sets of instructions but for rounding, and refuses
//! what has no meaning. What it computes is held to its definition by `python/attention/tests/test_attention.py`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroUsize;

use foveate_attention::{
    AttentionPlan, AttentionSettings, CellLevel, Instructions, Shape, Tensors,
};

const SHAPE: Shape =
    Shape { heads: 5, queries: 130, rows: 13, columns: 22, width: 21, value_width: 37 };

#[test]
fn all_instructions_agree_to_rounding() {
    for (coarse, tops) in [(2, &[0.1][..]), (3, &[0.2, 0.3]), (2, &[0.3, 0.2, 0.5]), (4, &[1.0])] {
        let plan = AttentionPlan::new(SHAPE, &settings(coarse, tops)).unwrap();
        let expected = computed(&plan, Instructions::Plain, 1);
        for instructions in Instructions::available() {
            let found = computed(&plan, instructions, 1);
            let far = found.iter().zip(&expected).filter(|(a, b)| 2e-5 < (*a - *b).abs());
            // Where two scores are almost equal, rounding decides which cell is opened.
            let far_queries = far.count().div_ceil(SHAPE.value_width);
            assert!(far_queries <= 2, "{instructions:?}, coarse {coarse}: {far_queries} queries");
        }
    }
}

#[test]
fn the_number_of_threads_does_not_show() {
    let plan = AttentionPlan::new(SHAPE, &settings(2, &[0.1, 0.2])).unwrap();
    let expected = computed(&plan, Instructions::best(), 1);
    for threads in [2, 3, 16] {
        assert_eq!(computed(&plan, Instructions::best(), threads), expected);
    }
}

#[test]
fn what_has_no_meaning_is_refused() {
    let refusal = |shape, settings: &AttentionSettings| {
        AttentionPlan::new(shape, settings).map(drop).unwrap_err()
    };
    let of = |settings: &AttentionSettings| refusal(SHAPE, settings);
    assert_eq!(of(&settings(1, &[0.1])), "invalid `coarse`: 1 (expected at least 2)");
    assert_eq!(of(&settings(2, &[])), "invalid `levels`: 0 (expected 1 to 3)");
    assert_eq!(of(&settings(2, &[0.1; 4])), "invalid `levels`: 4 (expected 1 to 3)");
    for top in [0.0, -0.5, 1.01, f64::INFINITY, f64::NAN] {
        let expected = format!("invalid `top`: {top} (expected a share above 0 and up to 1)");
        assert_eq!(of(&settings(2, &[top])), expected);
    }
    let infinite = AttentionSettings { scale: f32::INFINITY, ..settings(2, &[0.1]) };
    assert_eq!(of(&infinite), "invalid `scale`: inf (expected a finite number)");
    let mut biased = settings(2, &[0.1]);
    biased.levels[0].bias = f32::NEG_INFINITY;
    assert_eq!(of(&biased), "invalid `bias`: -inf (expected a finite number)");
    let refused = |shape| refusal(shape, &settings(2, &[0.1]));
    assert_eq!(refused(Shape { rows: 0, ..SHAPE }), "invalid `rows`: 0 (expected at least 1)");
    assert_eq!(refused(Shape { width: 0, ..SHAPE }), "invalid `width`: 0 (expected at least 1)");
    let (rows, columns) = (usize::MAX, 2);
    let too_large = format!("grid too large: {rows} by {columns} keys (expected at most 2^28)");
    assert_eq!(refused(Shape { rows, columns, ..SHAPE }), too_large);
}

fn settings(coarse: usize, tops: &[f64]) -> AttentionSettings {
    let levels = tops.iter().map(|top| CellLevel { top: *top, bias: 0.0 }).collect();
    AttentionSettings { coarse, levels, scale: 0.5 }
}

fn computed(plan: &AttentionPlan, instructions: Instructions, threads: usize) -> Vec<f32> {
    let (keys, heads) = (SHAPE.keys(), SHAPE.heads);
    let queries = numbers(heads * SHAPE.queries * SHAPE.width, 1);
    let (values, keys) =
        (numbers(heads * keys * SHAPE.value_width, 3), numbers(heads * keys * SHAPE.width, 2));
    let mut results = vec![f32::NAN; heads * SHAPE.queries * SHAPE.value_width];
    let tensors =
        Tensors { queries: &queries, keys: &keys, values: &values, results: &mut results };
    plan.run(instructions, NonZeroUsize::new(threads).unwrap(), tensors);
    assert!(results.iter().all(|number| number.is_finite()));
    results
}

/// Numbers from -1 to 1 that look random.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let next = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(next).collect()
}
