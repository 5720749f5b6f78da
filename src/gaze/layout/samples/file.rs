//! Tables in files: `.npy`, as NumPy writes it, or [safetensors](https://huggingface.co/docs/safetensors) with a tensor `table`.

use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors};

use super::{ROWS_MAX, Samples};
use foveate_core::file;
use foveate_core::npy::{self, NpyArray};
use foveate_core::value::shown;

/// Longest file, in bytes: eight times the largest table.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The tensor of a safetensors file.
const TENSOR: &str = "table";

/// What a file may have.
const EXPECTED: &str = "expected float32 or float64 of the shape [N, 3]: x, y and step in pixels";

impl Samples {
    /// Reads the table in `file`, without waiting for longer than [`file::read`] does.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is not a table, with what was expected.
    pub fn load(file: &Path) -> Result<Self, String> {
        let name = shown(&file.to_string_lossy());
        let bytes = file::read(file, FILE_BYTES_MAX)
            .map_err(|error| format!("cannot read {name}: {error}"))?;
        let samples = Self::from_bytes(&bytes);
        let samples = samples.map_err(|error| format!("unusable table {name}: {error}"))?;
        Ok(Self { file: file.to_owned(), ..samples })
    }

    /// The table in the bytes of a file.
    ///
    /// # Errors
    ///
    /// If they are not a table, with what was expected.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let array = if bytes.starts_with(npy::MAGIC) { npy(bytes)? } else { safetensor(bytes)? };
        Self::new(&array.rows()?)
    }
}

/// The numbers of a file, row by row.
struct Array<'a> {
    is_double: bool,
    shape: Vec<usize>,
    bytes: &'a [u8],
}

impl Array<'_> {
    fn rows(&self) -> Result<Vec<[f64; 3]>, String> {
        let Self { is_double, ref shape, bytes } = *self;
        let &[count, 3] = &shape[..] else {
            return Err(format!("shape {shape:?} ({EXPECTED})"));
        };
        if ROWS_MAX < count {
            return Err(format!("{count} rows (expected 1 to {ROWS_MAX})"));
        }
        let expected = count * 3 * if is_double { 8 } else { 4 };
        if bytes.len() != expected {
            return Err(format!(
                "{} bytes of numbers (expected {expected} for the shape {shape:?}); write the file again",
                bytes.len()
            ));
        }
        let numbers: Vec<f64> = if is_double {
            bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
        } else {
            bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes).into()).collect()
        };
        Ok(numbers.as_chunks().0.to_vec())
    }
}

fn npy(bytes: &[u8]) -> Result<Array<'_>, String> {
    let NpyArray { dtype, shape, bytes } = NpyArray::parse(bytes)?;
    let is_double = match dtype {
        "<f4" => false,
        "<f8" => true,
        other => return Err(format!("numbers of {:?} ({EXPECTED})", shown(other))),
    };
    Ok(Array { is_double, shape, bytes })
}

fn safetensor(bytes: &[u8]) -> Result<Array<'_>, String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| {
        format!("neither .npy nor safetensors ({error}); write it with numpy.save")
    })?;
    let tensor =
        tensors.tensor(TENSOR).map_err(|_| format!("no tensor `{TENSOR}` ({EXPECTED})"))?;
    let is_double = match tensor.dtype() {
        Dtype::F32 => false,
        Dtype::F64 => true,
        other => return Err(format!("numbers of {other:?} ({EXPECTED})")),
    };
    Ok(Array { is_double, shape: tensor.shape().to_vec(), bytes: tensor.data() })
}
