//! `foveate attend`: sends a view an attention map, or scores of its tokens, from a file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::ToolError;
use super::look::{EgoArguments, write_outcome};
use foveate::client::Client;
use foveate::messages::{
    Attend, AttendTokens, DATAGRAM_BYTES_MAX, Looking, NumberFormat, ViewName,
};
use foveate_core::file;
use foveate_core::geometry::region::Region;

/// Most numbers that a message holds.
const NUMBERS_MAX: u64 = DATAGRAM_BYTES_MAX as u64 / 4;

/// Most bytes of a file: numbers of 8 bytes, and room for what else a file holds.
const FILE_BYTES_MAX: u64 = 8 * NUMBERS_MAX + (1 << 20);

/// Longest header of a `.npy` file, in bytes, as NumPy takes it.
#[cfg(feature = "npy")]
const HEADER_BYTES_MAX: usize = 10_000;

/// Deepest nesting of a `.npy` header; one of numbers has a tuple in a dictionary. The parser's time doubles with each level.
#[cfg(feature = "npy")]
const HEADER_DEPTH_MAX: usize = 4;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct AttendArguments {
    /// The view; its policy must be "auto" or "feedback"
    #[arg(value_name = "STREAM/VIEW")]
    view: ViewName,
    /// The map: a .npy array of rows and columns, or the brightness of a .png; at most 128 a side. A .npy array of one axis
    /// holds a score for each token of --frame
    #[arg(value_name = "MAP")]
    map: PathBuf,
    /// The area that the map covers, in pixels of the picture [default: the picture]
    #[arg(long = "box", value_name = "X0,Y0,X1,Y1", value_parser = region, allow_hyphen_values = true)]
    region: Option<Region>,
    /// Number of the frame that the map was computed on [default: the newest]
    #[arg(long, value_name = "N")]
    frame: Option<u64>,
    #[command(flatten)]
    ego: EgoArguments,
    /// Wait for the decision, and print the fixation
    #[arg(long)]
    wait: bool,
}

pub(super) struct NumberArray {
    /// Row-major, as in NumPy.
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl NumberArray {
    /// Rows and columns, if it is a map.
    pub(super) fn as_map(&self) -> Option<[u32; 2]> {
        let side = |length: &usize| u32::try_from(*length).unwrap_or(u32::MAX);
        match self.shape.as_slice() {
            [rows, columns] | [1, rows, columns] => Some([side(rows), side(columns)]),
            _ => None,
        }
    }

    /// Why the file does not hold a map.
    pub(super) fn no_map(&self) -> ToolError {
        let shape = &self.shape;
        ToolError::Usage(format!(
            "invalid map: an array of shape {shape:?} (expected two axes, rows and columns)"
        ))
    }

    /// The numbers as bytes of a message, in [`NumberFormat::F32`].
    pub(super) fn to_payload(&self) -> Vec<u8> {
        self.values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }
}

/// Sends the map, and prints its peak.
pub(super) fn run(
    arguments: &AttendArguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let numbers = read(&arguments.map)?;
    let mut client = Client::connect(socket)?;
    let looking = send(&mut client, arguments, &numbers)?;
    let Looking { view, x, y, .. } = &looking;
    let written = writeln!(out, "{view} is asked to look at {x:.2}, {y:.2}");
    written.and_then(|()| write_outcome(out, &looking, arguments.wait)).map_err(ToolError::Output)
}

fn send(
    client: &mut Client,
    arguments: &AttendArguments,
    numbers: &NumberArray,
) -> Result<Looking, ToolError> {
    let AttendArguments { view, frame, region, wait, ego, .. } = arguments.clone();
    let EgoArguments { homography, rotation } = ego;
    let (payload, dtype) = (numbers.to_payload(), NumberFormat::F32);
    if let Some(shape) = numbers.as_map() {
        let strict = false;
        let attend =
            Attend { view, shape, dtype, region, frame, strict, homography, rotation, wait };
        return Ok(client.attend(attend, &payload)?);
    }
    if numbers.shape.len() != 1 {
        return Err(numbers.no_map());
    }
    let Some(frame) = frame else {
        let error = "an array of one axis holds scores of tokens: name their frame with --frame";
        return Err(ToolError::Usage(error.to_owned()));
    };
    let attend = AttendTokens { view, frame, dtype, strict: false, homography, rotation, wait };
    Ok(client.attend_tokens(attend, &payload)?)
}

/// Reads a `.png` file by its extension, and any other as `.npy`.
pub(super) fn read(path: &Path) -> Result<NumberArray, ToolError> {
    let unreadable = |source| ToolError::reading(path, source);
    let bytes = file::read(path, FILE_BYTES_MAX).map_err(unreadable)?;
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png")) {
        return read_png(&bytes).map_err(unreadable);
    }
    read_npy(&bytes).map_err(unreadable)
}

/// Checks that the numbers fit a message before they are allocated, because a header may promise anything.
fn check_count(sides: &[u64]) -> io::Result<()> {
    let count = sides.iter().try_fold(1u64, |count, side| count.checked_mul(*side));
    if count.is_some_and(|count| count <= NUMBERS_MAX) {
        return Ok(());
    }
    let error = format!(
        "map too large: {sides:?} (expected at most {NUMBERS_MAX} numbers): pool the map first"
    );
    Err(io::Error::other(error))
}

#[cfg(not(feature = "npy"))]
fn read_npy(_: &[u8]) -> io::Result<NumberArray> {
    Err(io::Error::other(
        "this build reads no .npy files: build it with the feature `npy`, or give a .png",
    ))
}

#[cfg(feature = "npy")]
fn read_npy(bytes: &[u8]) -> io::Result<NumberArray> {
    use half::f16;
    use npyz::{DType, NpyFile, Order, TypeChar};

    check_header(bytes)?;
    let array = NpyFile::new(bytes)?;
    check_count(array.shape())?;
    let shape = array.shape().iter().map(|&side| usize::try_from(side).unwrap_or(usize::MAX));
    let shape: Vec<usize> = shape.collect();
    if array.order() == Order::Fortran && 1 < shape.len() {
        return Err(io::Error::other(
            "array in Fortran order (expected C order): save numpy.ascontiguousarray(array) instead",
        ));
    }
    let DType::Plain(kind) = array.dtype() else {
        return Err(io::Error::other("array of records (expected numbers)"));
    };
    let values = match (kind.type_char(), kind.size_field()) {
        (TypeChar::Float, 2) => array.into_vec::<f16>()?.into_iter().map(f16::to_f32).collect(),
        (TypeChar::Float, 4) => array.into_vec::<f32>()?,
        (TypeChar::Float, 8) => array.into_vec::<f64>()?.into_iter().map(narrowed).collect(),
        (TypeChar::Uint, 1) => array.into_vec::<u8>()?.into_iter().map(f32::from).collect(),
        (TypeChar::Bool, _) => array.into_vec::<bool>()?.into_iter().map(f32::from).collect(),
        _ => {
            let error = format!(
                "unsupported number type {kind} (expected float16, float32, float64, uint8 or bool)"
            );
            return Err(io::Error::other(error));
        }
    };
    Ok(NumberArray { shape, values })
}

/// Checks the header of a .npy file, whose length follows magic and version: that it is in the file, because the parser allocates all of
/// it at once, and that parsing it does not take long.
#[cfg(feature = "npy")]
fn check_header(bytes: &[u8]) -> io::Result<()> {
    let (length, rest) = match bytes {
        [_, _, _, _, _, _, 1, _, a, b, rest @ ..] => {
            (u32::from(u16::from_le_bytes([*a, *b])), rest)
        }
        [_, _, _, _, _, _, _, _, a, b, c, d, rest @ ..] => {
            (u32::from_le_bytes([*a, *b, *c, *d]), rest)
        }
        _ => return Err(io::ErrorKind::UnexpectedEof.into()),
    };
    if (bytes.len() as u64) < u64::from(length) {
        let error = format!(
            "file cut short: {} bytes (expected {length}, as its header says)",
            bytes.len()
        );
        return Err(io::Error::other(error));
    }
    let header = &rest[..rest.len().min(length as usize)];
    if HEADER_BYTES_MAX < header.len() {
        let error = format!(
            "header too long: {} bytes (expected at most {HEADER_BYTES_MAX})",
            header.len()
        );
        return Err(io::Error::other(error));
    }
    let mut depth = 0usize;
    for byte in header {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if HEADER_DEPTH_MAX < depth {
            let error = format!(
                "header nested too deeply (expected at most {HEADER_DEPTH_MAX} levels, as of an array of numbers)"
            );
            return Err(io::Error::other(error));
        }
    }
    Ok(())
}

#[cfg(feature = "npy")]
#[expect(clippy::cast_possible_truncation, reason = "attention maps need no double precision")]
fn narrowed(value: f64) -> f32 {
    value as f32
}

/// The brightness of a picture, 0 to 1.
fn read_png(bytes: &[u8]) -> io::Result<NumberArray> {
    let mut decoder = png::Decoder::new(io::Cursor::new(bytes));
    // Decompressed they could be large.
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_ignore_text_chunk(true);
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
    let mut reader = decoder.read_info()?;
    let (width, height) = reader.info().size();
    check_count(&[height.into(), width.into()])?;
    let (color, _) = reader.output_color_type();
    let size = reader.output_buffer_size().ok_or(io::ErrorKind::InvalidData)?;
    let mut texels = vec![0; size];
    let frame = reader.next_frame(&mut texels)?;
    let brightness = |texel: &[u8]| match texel {
        [red, green, blue, ..] => {
            // Luma of ITU-R BT.709.
            (0.2126 * f32::from(*red) + 0.7152 * f32::from(*green) + 0.0722 * f32::from(*blue))
                / 255.0
        }
        [grey, ..] => f32::from(*grey) / 255.0,
        [] => 0.0,
    };
    let values = texels[..frame.buffer_size()].chunks_exact(color.samples()).map(brightness);
    let shape = vec![frame.height as usize, frame.width as usize];
    Ok(NumberArray { shape, values: values.collect() })
}

pub(super) fn region(text: &str) -> Result<Region, String> {
    let expected = || "expected four numbers of pixels, such as 120,200,520,240".to_owned();
    let numbers = text.split(',').map(|number| number.trim().parse::<f64>());
    let numbers: Vec<f64> = numbers.collect::<Result<_, _>>().map_err(|_| expected())?;
    <[f64; 4]>::try_from(numbers).map(Region::from).map_err(|_| expected())
}
