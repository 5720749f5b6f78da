//! Hierarchical attention on a device is what the CPU computes, to rounding, and the same from run to run and in any pieces.
//! `python/attention/tests/test_attention.py` compares both with the definition.

use std::num::NonZeroUsize;

use foveate_attention::vulkan::VulkanAttention;
use foveate_attention::{
    AttentionPlan, AttentionSettings, CellLevel, Element, Instructions, Shape, Tensors,
};
use foveate_gpu::GpuError;
use half::f16;
use testkit::device::{with_gpu, with_own_gpu};
use testkit::naive::Random;

const SHAPE: Shape =
    Shape { heads: 3, queries: 21, rows: 13, columns: 22, width: 21, value_width: 37 };

#[test]
fn a_device_computes_what_the_cpu_does() {
    with_gpu(|gpu| {
        let mut attention = VulkanAttention::new(gpu).unwrap();
        let mut random = Random(1);
        for _ in 0..60 {
            let mut below = |end| 1 + random.below(end) as usize;
            let shape = Shape {
                heads: below(4),
                queries: below(40),
                rows: below(24),
                columns: below(24),
                width: below(70),
                value_width: below(70),
            };
            // Where cells have sides of powers of two all scores are exact, however they are summed.
            let coarse = [2, 4][random.below(2) as usize];
            let levels = (0..1 + random.below(3)).map(|_| CellLevel {
                top: [0.01, 0.1, 0.25, 0.5, 1.0][random.below(5) as usize],
                bias: [-1.5, 0.0, 0.75][random.below(3) as usize],
            });
            let settings = AttentionSettings { coarse, levels: levels.collect(), scale: 0.125 };
            let plan = AttentionPlan::new(shape, &settings).unwrap();
            let inputs = Inputs::new(shape, &mut random);
            let found = inputs.on_device(&mut attention, &plan).unwrap();
            assert_close(&found, &inputs.on_cpu(&plan), &format!("{shape:?} {settings:?}"));
        }
    });
}

/// Vectors that need several rounds of shared memory and of a workgroup, and levels of more cells than invocations.
#[test]
fn long_vectors_and_large_grids_are_what_the_cpu_computes() {
    with_gpu(|gpu| {
        let mut attention = VulkanAttention::new(gpu).unwrap();
        let long = Shape { heads: 2, queries: 9, width: 130, value_width: 271, ..SHAPE };
        let large = Shape { heads: 1, queries: 5, rows: 130, columns: 67, ..SHAPE };
        for (shape, coarse, tops) in [
            (long, 2, &[0.1, 0.3][..]),
            (large, 2, &[0.1]),
            (large, 4, &[0.2, 1.0]),
            (large, 64, &[0.5]),
        ] {
            let plan = AttentionPlan::new(shape, &settings(coarse, tops)).unwrap();
            let inputs = Inputs::new(shape, &mut Random(2));
            let found = inputs.on_device(&mut attention, &plan).unwrap();
            assert_close(&found, &inputs.on_cpu(&plan), &format!("{shape:?} {coarse} {tops:?}"));
        }
    });
}

#[test]
fn results_do_not_depend_on_run_or_pieces() {
    with_gpu(|gpu| {
        let mut whole = VulkanAttention::new(gpu).unwrap();
        let plan = AttentionPlan::new(SHAPE, &settings(2, &[0.1, 0.2])).unwrap();
        let inputs = Inputs::new(SHAPE, &mut Random(3));
        let expected = inputs.on_device(&mut whole, &plan).unwrap();
        assert_eq!(inputs.on_device(&mut whole, &plan).unwrap(), expected, "a second run");
        // A query at a time, a few, a head, and two.
        for bytes in [1, 5_000, 50_000, 90_000] {
            let mut pieces = VulkanAttention::new(gpu).unwrap().with_buffers_of(bytes);
            assert_eq!(inputs.on_device(&mut pieces, &plan).unwrap(), expected, "{bytes} bytes");
        }
    });
}

#[test]
fn half_precision_is_rounded_single_precision() {
    with_gpu(|gpu| {
        let mut attention = VulkanAttention::new(gpu).unwrap();
        let plan = AttentionPlan::new(SHAPE, &settings(2, &[0.2])).unwrap();
        let mut inputs = Inputs::new(SHAPE, &mut Random(4));
        for number in &mut inputs.values {
            *number = f16::from_f32(*number).to_f32();
        }
        let expected = inputs.on_device(&mut attention, &plan).unwrap();
        let rounded = |numbers: &[f32]| numbers.iter().copied().map(f16::from_f32).collect();
        let found = on_device(
            &mut attention,
            &plan,
            [&inputs.queries, &inputs.keys, &inputs.values].map(|numbers| rounded(numbers)),
            f16::ZERO,
        );
        assert_eq!(found.unwrap(), rounded(&expected) as Vec<f16>);
    });
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    with_gpu(|gpu| {
        let mut attention = VulkanAttention::new(gpu).unwrap();
        // A gigabyte of keys. No array is read before room was made for it on the device.
        let shape = Shape {
            heads: 1,
            queries: 1,
            rows: 1 << 9,
            columns: 1 << 9,
            width: 1 << 10,
            value_width: 1,
        };
        let plan = AttentionPlan::new(shape, &settings(2, &[0.1])).unwrap();
        let (keys, values) = (vec![0.0; shape.keys() << 10], vec![0.0; shape.keys()]);
        let tensors =
            Tensors { queries: &[0.0; 1 << 10], keys: &keys, values: &values, results: &mut [0.0] };
        match attention.run(&plan, tensors) {
            Err(GpuError::TooLarge { resource, .. }) => assert_eq!(resource, "keys"),
            // Devices with room for it.
            result => assert!(result.is_ok(), "{result:?}"),
        }
    });
}

#[test]
fn a_lost_device_is_an_error_and_nothing_outlives_it() {
    with_own_gpu(|gpu| {
        let plan = AttentionPlan::new(SHAPE, &settings(2, &[0.1])).unwrap();
        let inputs = Inputs::new(SHAPE, &mut Random(5));
        let mut attention = VulkanAttention::new(gpu).unwrap();
        inputs.on_device(&mut attention, &plan).unwrap();
        gpu.inject_device_loss();
        for _ in 0..2 {
            let result = inputs.on_device(&mut attention, &plan);
            assert!(matches!(result, Err(GpuError::DeviceLost { .. })), "{result:?}");
        }
    });
}

/// Queries and keys of small whole numbers, and values from -1 to 1.
struct Inputs {
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Inputs {
    fn new(shape: Shape, random: &mut Random) -> Self {
        let Shape { heads, queries, width, value_width, .. } = shape;
        let mut whole =
            |count| (0..count).map(|_| random.below(9) as f32 - 4.0).collect::<Vec<_>>();
        let (queries, keys) = (whole(heads * queries * width), whole(heads * shape.keys() * width));
        let value = |_| random.below(1 << 20) as f32 / (1 << 19) as f32 - 1.0;
        Self { queries, keys, values: (0..heads * shape.keys() * value_width).map(value).collect() }
    }

    fn on_device(
        &self,
        attention: &mut VulkanAttention,
        plan: &AttentionPlan,
    ) -> Result<Vec<f32>, GpuError> {
        let Self { queries, keys, values } = self;
        on_device(attention, plan, [queries, keys, values].map(Clone::clone), f32::NAN)
    }

    fn on_cpu(&self, plan: &AttentionPlan) -> Vec<f32> {
        let Self { queries, keys, values } = self;
        let shape = plan.shape();
        let mut results = vec![f32::NAN; shape.heads * shape.queries * shape.value_width];
        let tensors = Tensors { queries, keys, values, results: &mut results };
        plan.run(Instructions::best(), NonZeroUsize::MIN, tensors);
        results
    }
}

fn on_device<T: Element>(
    attention: &mut VulkanAttention,
    plan: &AttentionPlan,
    [queries, keys, values]: [Vec<T>; 3],
    nothing: T,
) -> Result<Vec<T>, GpuError> {
    let shape = plan.shape();
    let mut results = vec![nothing; shape.heads * shape.queries * shape.value_width];
    let tensors =
        Tensors { queries: &queries, keys: &keys, values: &values, results: &mut results };
    attention.run(plan, tensors).map(|()| results)
}

fn settings(coarse: usize, tops: &[f64]) -> AttentionSettings {
    let levels = tops.iter().map(|top| CellLevel { top: *top, bias: 0.0 }).collect();
    AttentionSettings { coarse, levels, scale: 0.125 }
}

fn assert_close(found: &[f32], expected: &[f32], case: &str) {
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-5, "{case}: {found} for {expected} at {place}");
    }
}
