//! Runs the attention of all heads on several threads.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::thread;

use crate::block::{BLOCK, BlockScratch, QueryBlock};
use crate::element::Element;
use crate::keys::{PackedLevel, key_stride, pack, value_stride};
use crate::plan::AttentionPlan;
use foveate_simd::Instructions;

/// Heads whose keys are held in the order of the kernels at the same time, for each thread.
const HEADS_PER_THREAD: usize = 4;

/// The arrays, contiguous, in the order of their axes.
#[derive(Debug)]
pub struct Tensors<'a, T> {
    /// `[heads, queries, width]`
    pub queries: &'a [T],
    /// `[heads, rows * columns, width]`
    pub keys: &'a [T],
    /// `[heads, rows * columns, value width]`
    pub values: &'a [T],
    /// `[heads, queries, value width]`, overwritten
    pub results: &'a mut [T],
}

impl AttentionPlan {
    /// Computes the attention on up to `threads` threads. The results do not depend on their number.
    ///
    /// A query that is not a number spoils its own result, and a key or value that is not spoils all of its head.
    ///
    /// # Panics
    ///
    /// If an array is not as long as the plan's shape says.
    pub fn run<T: Element>(
        &self,
        instructions: Instructions,
        threads: NonZeroUsize,
        tensors: Tensors<'_, T>,
    ) {
        self.check(&tensors);
        let shape = self.shape;
        let Tensors { queries, keys, values, results } = tensors;
        let [key_numbers, value_numbers] =
            [shape.keys() * shape.width, shape.keys() * shape.value_width];
        if results.is_empty() {
            return;
        }
        let mut heads = Vec::new();
        heads.resize_with(shape.heads.min(threads.get() * HEADS_PER_THREAD), Vec::new);
        let at_once = heads.len();
        let keys = keys.chunks(at_once * key_numbers);
        let values = values.chunks(at_once * value_numbers);
        let queries = queries.chunks(at_once * shape.queries * shape.width);
        let results = results.chunks_mut(at_once * shape.queries * shape.value_width);
        for (((keys, values), queries), results) in keys.zip(values).zip(queries).zip(results) {
            let pairs = keys.chunks(key_numbers).zip(values.chunks(value_numbers));
            share(threads, heads.iter_mut().zip(pairs), |(), (head, (keys, values))| {
                pack(self, keys, values, head);
            });
            share(threads, self.blocks(&heads, queries, results), |scratch, block| {
                self.run_block(instructions, scratch, block);
            });
        }
    }

    /// Panics if an array is not as long as the shape says.
    pub(crate) fn check<T>(&self, tensors: &Tensors<'_, T>) {
        let shape = self.shape;
        let Tensors { queries, keys, values, results } = tensors;
        let (of_queries, of_keys) = (shape.heads * shape.queries, shape.heads * shape.keys());
        assert_eq!(queries.len(), of_queries * shape.width, "queries");
        assert_eq!(keys.len(), of_keys * shape.width, "keys");
        assert_eq!(values.len(), of_keys * shape.value_width, "values");
        assert_eq!(results.len(), of_queries * shape.value_width, "results");
    }

    /// The blocks of all queries, each with its head, its queries and its results.
    fn blocks<'a, T: Element>(
        &self,
        heads: &'a [Vec<PackedLevel>],
        queries: &'a [T],
        results: &'a mut [T],
    ) -> impl Iterator<Item = (&'a [PackedLevel], &'a [T], &'a mut [T])> + Send {
        let (count, width, value_width) =
            (self.shape.queries, self.shape.width, self.shape.value_width);
        let queries = queries.chunks(count * width);
        let results = results.chunks_mut(count * value_width);
        heads.iter().zip(queries).zip(results).flat_map(move |((head, queries), results)| {
            let queries = queries.chunks(BLOCK * width);
            let results = results.chunks_mut(BLOCK * value_width);
            queries.zip(results).map(move |(queries, results)| (&head[..], queries, results))
        })
    }

    fn run_block<T: Element>(
        &self,
        instructions: Instructions,
        scratch: &mut BlockScratch,
        (head, queries, results): (&[PackedLevel], &[T], &mut [T]),
    ) {
        let (width, value_width) = (self.shape.width, self.shape.value_width);
        let [key_stride, value_stride] = [key_stride(self), value_stride(self)];
        scratch.queries.clear();
        scratch.queries.resize(BLOCK * key_stride, 0.0);
        let targets = scratch.queries.chunks_exact_mut(key_stride);
        for (source, target) in queries.chunks_exact(width).zip(targets) {
            let target = &mut target[..width];
            T::widen(source, target);
            target.iter_mut().for_each(|number| *number *= self.scale);
        }
        let count = queries.len() / width;
        instructions.run(QueryBlock { plan: self, head, scratch, count });
        let sources = scratch.results.chunks_exact_mut(value_stride).zip(&scratch.weight_sums);
        for ((source, weight), target) in sources.zip(results.chunks_exact_mut(value_width)) {
            let source = &mut source[..value_width];
            source.iter_mut().for_each(|number| *number /= weight);
            T::narrow(source, target);
        }
    }
}

/// Does `work` for each of `parts`, on this thread and others, each with memory of its own.
fn share<Part, Memory: Default>(
    threads: NonZeroUsize,
    parts: impl Iterator<Item = Part> + Send,
    work: impl Fn(&mut Memory, Part) + Sync,
) {
    let parts = Mutex::new(parts);
    let drain = || {
        let mut memory = Memory::default();
        loop {
            let next = parts.lock().ok().and_then(|mut parts| parts.next());
            let Some(part) = next else { return };
            work(&mut memory, part);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.get() {
            scope.spawn(drain);
        }
        drain();
    });
}
