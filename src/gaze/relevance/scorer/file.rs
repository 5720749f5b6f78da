//! Scorers in files: [safetensors](https://huggingface.co/docs/safetensors), as PyTorch writes it.
//!
//! The metadata has `channels`, the names with commas between; the tensors are f32:
//!
//! | Tensor | Shape | |
//! | --- | --- | --- |
//! | `mean`, `std` | \[C\] | normalisation of the channels |
//! | `conv1.weight`, `conv1.bias` | \[H, C, k, k\], \[H\] | k is 1 or 3; H is 1 if there is no second |
//! | `conv2.weight`, `conv2.bias` | \[1, H, k, k\], \[1\] | of what is left of the first above 0 |

use std::fmt;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::{Convolution, FEATURES_MAX, Input, Scorer};
use crate::relevance::injection::{INJECTED_MAX, check_channel_name};
use foveate_core::channel::CHANNELS;
use foveate_core::file;

/// Longest file, in bytes: far above any use.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Weights are within this distance of 0.
const WEIGHT_MAX: f32 = 65_536.0;

/// Most channels of a scorer.
const INPUTS_MAX: usize = CHANNELS.len() + INJECTED_MAX;

/// A scorer that cannot be used, and why.
#[derive(Debug)]
#[non_exhaustive]
pub enum ScorerError {
    /// The file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is not a scorer.
    Malformed {
        /// The file.
        path: PathBuf,
        /// The mistake in the file.
        source: ScorerMistake,
    },
}

/// A mistake in a scorer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScorerMistake(String);

impl Scorer {
    /// Reads a scorer from a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is not a scorer.
    pub fn load(path: &Path) -> Result<Self, ScorerError> {
        let unreadable = |source| ScorerError::Unreadable { path: path.to_owned(), source };
        let malformed = |source| ScorerError::Malformed { path: path.to_owned(), source };
        let bytes = file::read(path, FILE_BYTES_MAX).map_err(unreadable)?;
        Self::from_bytes(&bytes).map_err(malformed)
    }

    /// The scorer in the bytes of a file.
    ///
    /// # Errors
    ///
    /// If they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ScorerMistake> {
        let invalid = |error| mistake(format!("not a safetensors file: {error}"));
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(invalid)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(invalid)?;
        let names = metadata.metadata().as_ref().and_then(|texts| texts.get("channels"));
        let names = names.ok_or_else(|| {
            mistake(
                "metadata without `channels` (expected the names of the channels, separated by commas)"
                    .to_owned(),
            )
        })?;
        let inputs = inputs(names, &tensors)?;
        let first = convolution(&tensors, "conv1", inputs.len(), 1..=FEATURES_MAX)?;
        let mut layers = vec![first];
        if tensors.tensor("conv2.weight").is_ok() {
            layers.push(convolution(&tensors, "conv2", layers[0].outputs, 1..=1)?);
        } else if layers[0].outputs != 1 {
            return Err(mistake(format!(
                "`conv1.weight` has {} outputs (expected 1, or `conv2.weight` as a second layer)",
                layers[0].outputs
            )));
        }
        let known = |name: &str| {
            ["mean", "std", "conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias"]
                .contains(&name)
        };
        if let Some(name) = tensors.names().into_iter().find(|name| !known(name)) {
            return Err(mistake(format!(
                "unexpected tensor `{name}` (expected `mean`, `std`, `conv1.*` and `conv2.*`)"
            )));
        }
        Ok(Self { inputs, layers })
    }
}

fn inputs(names: &str, tensors: &SafeTensors<'_>) -> Result<Vec<Input>, ScorerMistake> {
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    if INPUTS_MAX < names.len() {
        return Err(mistake(format!(
            "too many channels: {} (expected at most {INPUTS_MAX})",
            names.len()
        )));
    }
    for (index, name) in names.iter().enumerate() {
        check_channel_name(name).map_err(|error| mistake(error.to_string()))?;
        if names[..index].contains(name) {
            return Err(mistake(format!("duplicate channel `{name}`")));
        }
    }
    let mean = numbers(tensors, "mean", &[names.len()])?;
    let std = numbers(tensors, "std", &[names.len()])?;
    if let Some(index) = std.iter().position(|std| *std < f32::MIN_POSITIVE) {
        return Err(mistake(format!(
            "invalid `std` of the channel `{}`: {} (expected a number above 0)",
            names[index], std[index]
        )));
    }
    let inputs = names.iter().zip(mean).zip(std);
    Ok(inputs.map(|((name, mean), std)| Input { name: (*name).to_owned(), mean, std }).collect())
}

fn convolution(
    tensors: &SafeTensors<'_>,
    name: &str,
    inputs: usize,
    outputs: std::ops::RangeInclusive<usize>,
) -> Result<Convolution, ScorerMistake> {
    let weight = format!("{name}.weight");
    let shape = tensor(tensors, &weight)?.shape().to_vec();
    let (count, side) = match shape[..] {
        [count, given, rows, columns]
            if given == inputs
                && rows == columns
                && (rows == 1 || rows == 3)
                && outputs.contains(&count) =>
        {
            (count, rows)
        }
        _ => {
            let (fewest, most) = (outputs.start(), outputs.end());
            return Err(mistake(format!(
                "invalid shape of `{weight}`: {shape:?} (expected [{fewest} to {most}, {inputs}, k, k] with k 1 or 3)"
            )));
        }
    };
    let weights = numbers(tensors, &weight, &shape)?;
    let bias = numbers(tensors, &format!("{name}.bias"), &[count])?;
    Ok(Convolution { outputs: count, side, weights, bias })
}

fn tensor<'a>(tensors: &SafeTensors<'a>, name: &str) -> Result<TensorView<'a>, ScorerMistake> {
    tensors.tensor(name).map_err(|_| mistake(format!("missing tensor `{name}`")))
}

/// The numbers of a tensor of the expected shape.
fn numbers(
    tensors: &SafeTensors<'_>,
    name: &str,
    shape: &[usize],
) -> Result<Vec<f32>, ScorerMistake> {
    let tensor = tensor(tensors, name)?;
    if tensor.dtype() != Dtype::F32 {
        return Err(mistake(format!(
            "invalid type of `{name}`: {:?} (expected F32)",
            tensor.dtype()
        )));
    }
    if tensor.shape() != shape {
        return Err(mistake(format!(
            "invalid shape of `{name}`: {:?} (expected {shape:?})",
            tensor.shape()
        )));
    }
    let numbers: Vec<f32> =
        tensor.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let is_allowed = |number: &f32| number.abs() <= WEIGHT_MAX;
    match numbers.iter().position(|number| !is_allowed(number)) {
        Some(index) => Err(mistake(format!(
            "invalid value {index} of `{name}`: {} (expected a finite number within {WEIGHT_MAX} of 0)",
            numbers[index]
        ))),
        None => Ok(numbers),
    }
}

fn mistake(text: String) -> ScorerMistake {
    ScorerMistake(text)
}

impl fmt::Display for ScorerMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScorerMistake {}

impl fmt::Display for ScorerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, source } => {
                write!(f, "cannot read the scorer {}: {source}", path.display())
            }
            Self::Malformed { path, source } => {
                write!(f, "{} is not a scorer: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for ScorerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            Self::Malformed { source, .. } => Some(source),
        }
    }
}
