//! Streaming writer of `.npy` files, format version 1.0 as in `numpy.lib.format`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use foveate_core::npy;

/// Bytes before the data: padded, so that the final row count fits in.
const HEADER_BYTES: usize = 2048;

/// Magic, version, and length of the header text.
const PREAMBLE_BYTES: usize = 10;

/// Ending of the name of an array that is being written. Only a finished one has its name: a program that was killed leaves none that
/// loads as an empty one.
const PART: &str = "npy.part";

/// An array whose first axis grows.
pub(super) struct NpyWriter {
    target: BufWriter<File>,
    path: PathBuf,
    dtype: String,
    row_shape: Vec<usize>,
    /// The end of a row that is not full.
    zeros: Vec<u8>,
    rows: usize,
}

impl NpyWriter {
    /// Creates an array at `path`, which ends in `.npy`, of rows of `row_bytes` bytes: `row_shape` elements of `dtype`, a Python literal
    /// such as `'<f2'`.
    pub(super) fn create(
        path: &Path,
        dtype: &str,
        row_shape: &[usize],
        row_bytes: usize,
    ) -> io::Result<Self> {
        let target = BufWriter::new(File::create(path.with_extension(PART))?);
        let (dtype, row_shape) = (dtype.to_owned(), row_shape.to_vec());
        let (path, zeros) = (path.to_owned(), vec![0; row_bytes]);
        let mut writer = Self { target, path, dtype, row_shape, zeros, rows: 0 };
        writer.write_header()?;
        Ok(writer)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Appends a row: the bytes of its first elements; the others are 0.
    pub(super) fn push(&mut self, row: &[u8]) -> io::Result<()> {
        self.target.write_all(row)?;
        self.target.write_all(&self.zeros[row.len()..])?;
        self.rows += 1;
        Ok(())
    }

    /// Writes the final row count, and gives the array its name.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.write_header()?;
        self.target.flush()?;
        fs::rename(self.path.with_extension(PART), &self.path)
    }

    fn write_header(&mut self) -> io::Result<()> {
        let shape: String = self.row_shape.iter().map(|side| format!(" {side},")).collect();
        let text = format!(
            "{{'descr': {}, 'fortran_order': False, 'shape': ({},{shape}), }}",
            self.dtype, self.rows
        );
        let text_bytes = HEADER_BYTES - PREAMBLE_BYTES;
        assert!(text.len() < text_bytes, "a header of {} bytes", text.len());
        self.target.seek(SeekFrom::Start(0))?;
        self.target.write_all(npy::MAGIC)?;
        self.target.write_all(&[1, 0])?;
        self.target.write_all(&u16::try_from(text_bytes).unwrap_or(u16::MAX).to_le_bytes())?;
        writeln!(self.target, "{text:<width$}", width = text_bytes - 1)
    }
}
