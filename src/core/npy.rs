//! Arrays in `.npy` files, as `numpy.lib.format` describes them: a header in Python's syntax, and numbers.

/// What every `.npy` file begins with.
pub const MAGIC: &[u8] = b"\x93NUMPY";

/// Most axes of an array, those of NumPy before version 2.
const AXES_MAX: usize = 32;

/// An array in a file, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyArray<'a> {
    /// Type of an element: a code such as `<f4`, or the list of fields of a record, as it is written.
    pub dtype: &'a str,
    /// Length of each axis.
    pub shape: Vec<usize>,
    /// What follows the header.
    pub bytes: &'a [u8],
}

impl<'a> NpyArray<'a> {
    /// Finds the array in the bytes of a file.
    ///
    /// # Errors
    ///
    /// If it is not such a file, its header is damaged, or it has columns first.
    pub fn parse(file: &'a [u8]) -> Result<Self, String> {
        let damaged = || "damaged header of a .npy file; write it again with numpy.save".to_owned();
        let (header, bytes) = parts(file).ok_or_else(damaged)?;
        let value = |key: &str| {
            let (_, rest) = header.split_once(&format!("'{key}':"))?;
            Some(rest.trim_start())
        };
        let dtype = value("descr").ok_or_else(damaged)?;
        let dtype = match dtype.strip_prefix('\'') {
            Some(code) => code.split_once('\''),
            None => dtype.split_once(", 'fortran_order'"),
        };
        let (dtype, _) = dtype.ok_or_else(damaged)?;
        if !value("fortran_order").ok_or_else(damaged)?.starts_with("False") {
            return Err("array with columns first (expected rows first): save numpy.ascontiguousarray(array) instead".to_owned());
        }
        let shape = value("shape").and_then(|shape| shape.strip_prefix('(')?.split_once(')'));
        let (shape, _) = shape.ok_or_else(damaged)?;
        let sides = shape.split(',').map(str::trim).filter(|side| !side.is_empty());
        if AXES_MAX < sides.clone().count() {
            return Err(format!("array with more than {AXES_MAX} axes; save a reshaped one"));
        }
        let shape = sides.map(|side| side.parse().ok()).collect::<Option<_>>();
        Ok(Self { dtype, shape: shape.ok_or_else(damaged)?, bytes })
    }
}

/// The header, and the numbers.
fn parts(file: &[u8]) -> Option<(&str, &[u8])> {
    let ([major, _minor], rest) = file.strip_prefix(MAGIC)?.split_first_chunk()?;
    let (length, rest) = if *major == 1 {
        let (length, rest) = rest.split_first_chunk()?;
        (u16::from_le_bytes(*length).into(), rest)
    } else {
        let (length, rest) = rest.split_first_chunk()?;
        (u32::from_le_bytes(*length), rest)
    };
    let (header, numbers) = rest.split_at_checked(length as usize)?;
    Some((str::from_utf8(header).ok()?, numbers))
}
