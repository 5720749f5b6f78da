//! Runs full attention a number of times, so that its instructions can be counted (`scripts/arm.sh --count`):
//! `attention attention INSTRUCTIONS TIMES`. Prints how many pairs of a query and a key each time has.

#![allow(clippy::unwrap_used, reason = "a measurement ends where something is wrong")]

use std::env;
use std::hint::black_box;
use std::num::NonZeroUsize;

use foveate_attention::{
    AttentionPlan, AttentionSettings, CellLevel, Instructions, Shape, Tensors,
};

const SHAPE: Shape =
    Shape { heads: 1, queries: 64, rows: 16, columns: 16, width: 64, value_width: 64 };

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [_, name, times] = &arguments[..] else { panic!("attention attention INSTRUCTIONS TIMES") };
    let instructions = match &name[..] {
        "plain" => Instructions::Plain,
        _ => Instructions::best(),
    };
    let settings = AttentionSettings {
        coarse: 2,
        levels: vec![CellLevel { top: 1.0, bias: 0.0 }],
        scale: 0.125,
    };
    let plan = AttentionPlan::new(SHAPE, &settings).unwrap();
    let numbers = |count: usize| (0..count).map(|index| (index * 37 % 101) as f32 / 50.0 - 1.0);
    let queries: Vec<f32> = numbers(SHAPE.queries * SHAPE.width).collect();
    let keys: Vec<f32> = numbers(SHAPE.keys() * SHAPE.width).collect();
    let values: Vec<f32> = numbers(SHAPE.keys() * SHAPE.value_width).collect();
    let mut results = vec![0.0; SHAPE.queries * SHAPE.value_width];
    for _ in 0..times.parse().unwrap() {
        let tensors =
            Tensors { queries: &queries, keys: &keys, values: &values, results: &mut results };
        plan.run(instructions, NonZeroUsize::MIN, tensors);
        black_box(&mut results);
    }
    println!("{}", SHAPE.queries * SHAPE.keys());
}
