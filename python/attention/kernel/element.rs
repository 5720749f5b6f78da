//! The number formats of queries, keys, values and results.

use half::f16;
use half::slice::HalfFloatSliceExt;

/// A number format. All sums are made in `f32`.
pub trait Element: Copy + Send + Sync {
    /// Copies `source` into `target`, which is as long.
    fn widen(source: &[Self], target: &mut [f32]);

    /// Copies `source` into `target`, which is as long, rounded to nearest.
    fn narrow(source: &[f32], target: &mut [Self]);
}

impl Element for f32 {
    fn widen(source: &[Self], target: &mut [f32]) {
        target.copy_from_slice(source);
    }

    fn narrow(source: &[f32], target: &mut [Self]) {
        target.copy_from_slice(source);
    }
}

impl Element for f16 {
    fn widen(source: &[Self], target: &mut [f32]) {
        source.convert_to_f32_slice(target);
    }

    fn narrow(source: &[f32], target: &mut [Self]) {
        target.convert_from_f32_slice(source);
    }
}
