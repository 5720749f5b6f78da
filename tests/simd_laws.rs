//! Every operation gives, with every set of vector instructions, what plain Rust says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use foveate_simd::{Instructions, Kernel, Lookup, Vectors};
use half::f16;
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_operation_is_the_same_with_all_instructions(
        a in vec(number(), 32),
        b in vec(number(), 32),
        table in vec(any::<[u8; 2]>(), 256),
        mean in -1.0..2.0,
        std in 0.01..2.0,
        value_count in 0_usize..=64,
    ) {
        let operands = Operands {
            a: a.try_into().unwrap(),
            b: b.try_into().unwrap(),
            table: Lookup::new(table.try_into().unwrap()),
            line: line(mean, std),
            value_count,
        };
        let [plain, others @ ..] = &Instructions::available()[..] else { unreachable!() };
        let expected = outcomes(*plain, &operands);
        for instructions in others {
            for (found, expected) in outcomes(*instructions, &operands).iter().zip(&expected) {
                prop_assert_eq!(found, expected, "{:?}", instructions);
            }
        }
    }
}

/// Any number, and often one at the edge of what bytes and words hold.
fn number() -> impl Strategy<Value = u16> {
    prop_oneof![
        any::<u16>(),
        any::<u8>().prop_map(u16::from),
        Just(0x7FFF),
        Just(0x8000),
        Just(0xFFFF),
        Just(0x00FF),
        Just(0x0100),
    ]
}

/// The half floats of a normalisation.
fn line(mean: f64, std: f64) -> Lookup {
    let word = |value: usize| f16::from_f64((value as f64 / 255.0 - mean) / std).to_le_bytes();
    Lookup::near(std::array::from_fn(word), 1.0 / (255.0 * std), -mean / std)
}

/// What models take is a line, so that their tokens are computed the fast way; what is none is not taken for one.
#[test]
fn normalisations_of_models_are_lines() {
    for (mean, std) in [
        (0.0, 1.0),
        (0.5, 0.5),
        (0.485, 0.229),
        (0.456, 0.224),
        (0.406, 0.225),
        (0.48145466, 0.26862954),
        (0.4578275, 0.26130258),
        (0.40821073, 0.27577711),
    ] {
        let lookup = line(mean, std);
        let (factor, offset) = lookup.line().unwrap_or_else(|| panic!("{mean}, {std}"));
        for (value, word) in (0..=u8::MAX).zip(lookup.words()) {
            let number = f16::from_f32(f32::from(value) * factor + offset);
            assert_eq!(number.to_le_bytes(), *word, "{mean}, {std}: {value}");
        }
        let mut other = *lookup.words();
        other[77][0] ^= 1;
        assert_eq!(Lookup::near(other, 1.0 / (255.0 * std), -mean / std).line(), None);
    }
}

#[derive(Debug)]
struct Operands {
    a: [u16; 32],
    b: [u16; 32],
    table: Lookup,
    line: Lookup,
    value_count: usize,
}

/// An operation, and the bytes of its result.
type Outcome = (&'static str, Vec<u8>);

fn outcomes(instructions: Instructions, operands: &Operands) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    instructions.run(Everything { operands, outcomes: &mut outcomes });
    outcomes
}

/// Runs every operation on the same numbers.
struct Everything<'a> {
    operands: &'a Operands,
    outcomes: &'a mut Vec<Outcome>,
}

impl Kernel for Everything<'_> {
    fn run<V: Vectors>(self, vectors: V) {
        let Self { operands, outcomes } = self;
        let numbers: [u8; 64] = bytemuck::cast(operands.a);
        let (first, second): (&[u8; 32], &[u8; 32]) =
            (numbers.first_chunk().unwrap(), numbers.last_chunk().unwrap());
        let (a, b) = (vectors.loaded(&operands.a), vectors.loaded(&operands.b));
        let words = |name, words| (name, bytemuck::bytes_of(&vectors.stored(words)).to_vec());
        let sums = |name, sums| (name, bytemuck::bytes_of(&vectors.stored_sums(sums)).to_vec());

        let [even, odd] = vectors.unzipped(&numbers);
        let ones = vectors.words([1; 2]);
        let some_sums = vectors.multiplied_and_added(vectors.sums(i32::MAX - 7), a, b);
        let other_sums = vectors.multiplied_and_added(vectors.sums(-9), a, ones);
        let narrowed = vectors.narrowed(a, b);
        let bytes = vectors.loaded_bytes(&numbers);
        let counts = vectors.counted(bytes, narrowed, 255);
        let values = &numbers[..operands.value_count];
        let mut found = vec![[0; 2]; values.len()];
        vectors.looked_up(&operands.table, values, &mut found);
        let mut on_line = vec![[0; 2]; values.len()];
        vectors.looked_up(&operands.line, values, &mut on_line);
        *outcomes = vec![
            words("widened", vectors.widened(first)),
            words("widened", vectors.widened(second)),
            words("unzipped, even", even),
            words("unzipped, odd", odd),
            words("words", vectors.words([-3, 500])),
            sums("sums", vectors.sums(-70_000)),
            words("loaded and stored", a),
            words("shifted_left", vectors.shifted_left::<3>(a)),
            words("rounded_down", vectors.rounded_down::<2>(a)),
            words("rounded_down", vectors.rounded_down::<4>(b)),
            sums("rounded_sums_down", vectors.rounded_sums_down::<6>(some_sums)),
            words("added", vectors.added(a, b)),
            words("subtracted", vectors.subtracted(a, b)),
            ("loaded_bytes", vectors.transposed_1(bytes).as_flattened().to_vec()),
            ("counted", vectors.transposed_1(counts).as_flattened().to_vec()),
            sums("added_distances", vectors.added_distances(some_sums, bytes, narrowed)),
            ("exceeding", vectors.exceeding::<20>(bytes, narrowed).to_le_bytes().to_vec()),
            ("exceeding", vectors.exceeding::<1>(narrowed, bytes).to_le_bytes().to_vec()),
            ("exceeding", vectors.exceeding::<128>(bytes, narrowed).to_le_bytes().to_vec()),
            sums("multiplied_and_added", some_sums),
            sums("multiplied_and_added", other_sums),
            words("upper_halves", vectors.upper_halves(some_sums, other_sums)),
            words("narrowed_sums", vectors.narrowed_sums(some_sums, other_sums)),
            ("clamped", vectors.clamped(a).to_vec()),
            words("added_pairs", vectors.added_pairs(narrowed)),
            sums("added_halves", vectors.added_halves(some_sums, other_sums)),
            ("transposed_4", vectors.transposed_4(narrowed).as_flattened().to_vec()),
            ("transposed_2", vectors.transposed_2(narrowed).as_flattened().to_vec()),
            ("transposed_1", vectors.transposed_1(narrowed).as_flattened().to_vec()),
            ("looked_up", found.as_flattened().to_vec()),
            ("looked_up, line", on_line.as_flattened().to_vec()),
        ]
    }
}
