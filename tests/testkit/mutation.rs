//! Messages that were right once.

use std::fs;
use std::path::PathBuf;

use crate::naive::Random;

/// The corpus of the fuzzer: names and contents.
pub fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = crate::repository().join("fuzz/corpus/messages");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: PathBuf| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())
    };
    let mut corpus: Vec<_> = files.map(named).collect();
    corpus.sort();
    assert!(20 < corpus.len());
    corpus
}

/// One to four changes: a byte flipped, a part cut out or doubled, a piece of another one put in, a number made extreme.
pub fn mutated(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    const NUMBERS: [&str; 9] =
        ["0", "-1", "1e308", "-1e308", "5e-324", "0.1", "18446744073709551615", "null", "[]"];
    let any = |random: &mut Random| &corpus[index(corpus.len(), random)];
    let mut bytes = any(random).clone();
    for _ in 0..=random.below(4) {
        let [from, to] = {
            let mut ends = [0, 0].map(|_: u32| index(bytes.len() + 1, random));
            ends.sort_unstable();
            ends
        };
        match random.below(5) {
            0 if from < bytes.len() => bytes[from] ^= 1 << random.below(8),
            1 => drop(bytes.drain(from..to)),
            2 => bytes.splice(from..from, bytes[from..to].to_vec()).for_each(drop),
            3 => {
                let other = any(random);
                let start = index(other.len() + 1, random);
                bytes.splice(from..to, other[start..].iter().copied()).for_each(drop);
            }
            _ => replace_number(&mut bytes, NUMBERS[index(NUMBERS.len(), random)], random),
        }
    }
    bytes
}

/// Puts `number` where one of the numbers stands.
fn replace_number(bytes: &mut Vec<u8>, number: &str, random: &mut Random) {
    let is_number = |byte: &u8| byte.is_ascii_digit() || b"+-.e".contains(byte);
    let skip = index(bytes.len() + 1, random);
    let Some(start) = bytes[skip..].iter().position(|byte| byte.is_ascii_digit()) else { return };
    let start = skip + start;
    let len = bytes[start..].iter().take_while(|byte| is_number(byte)).count();
    bytes.splice(start..start + len, number.bytes()).for_each(drop);
}

/// Any of `count` indices.
pub fn index(count: usize, random: &mut Random) -> usize {
    random.below(u32::try_from(count).unwrap()) as usize
}
