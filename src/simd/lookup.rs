//! A table of 256 half floats, which often is a line.

use half::f16;

/// 256 words of 16 bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookup {
    words: [[u8; 2]; 256],
    line: Option<(f32, f32)>,
}

impl Lookup {
    /// A table that is not known to be a line.
    pub fn new(words: [[u8; 2]; 256]) -> Self {
        Self { words, line: None }
    }

    /// A table of half floats, all within rounding of `value * factor + offset`. The line near that one which gives each
    /// of them bit for bit is looked for, as rounding of the numbers themselves may spoil a few.
    pub fn near(words: [[u8; 2]; 256], factor: f64, offset: f64) -> Self {
        let near = |number: f64| {
            #[expect(clippy::cast_possible_truncation, reason = "the nearest is wanted")]
            let nearest = number as f32;
            let below = nearest.next_down();
            [nearest, nearest.next_up(), below, nearest.next_up().next_up(), below.next_down()]
        };
        let lines = near(factor)
            .into_iter()
            .flat_map(|factor| near(offset).into_iter().map(move |offset| (factor, offset)));
        let line = lines.into_iter().find(|line| gives(*line, &words));
        Self { words, line }
    }

    /// The entry for each value.
    pub fn words(&self) -> &[[u8; 2]; 256] {
        &self.words
    }

    /// Factor and offset of a line that gives the same, if one is known: `f16(value * factor + offset)`, with a product and a sum that
    /// are rounded to single precision each, and the result to the nearest, of two to the even one.
    pub fn line(&self) -> Option<(f32, f32)> {
        self.line
    }
}

fn gives((factor, offset): (f32, f32), words: &[[u8; 2]; 256]) -> bool {
    (0_u8..=255).zip(words).all(|(value, word)| {
        f16::from_f32(f32::from(value) * factor + offset).to_le_bytes() == *word
    })
}
