//! `foveate attend`: sends a view an attention map, or scores of its tokens, from a file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::ToolError;
use super::look::{EgoArguments, write_outcome};
use foveate::client::Client;
use foveate::messages::{
    Attend, AttendTokens, DATAGRAM_BYTES_MAX, Looking, NumberFormat, ViewName,
};
use foveate_control::numbers;
use foveate_core::file;
use foveate_core::geometry::region::Region;
use foveate_core::npy::NpyArray;
use foveate_core::value::shown;

/// Most numbers that a message holds.
const NUMBERS_MAX: usize = DATAGRAM_BYTES_MAX / 4;

/// Most bytes of a file: numbers of 8 bytes, and room for what else a file holds.
const FILE_BYTES_MAX: u64 = 8 * NUMBERS_MAX as u64 + (1 << 20);

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
    let view = &looking.view;
    let written = looking
        .points
        .iter()
        .try_for_each(|(x, y)| writeln!(out, "{view} is asked to look at {x:.2}, {y:.2}"));
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

/// Numbers of an array, which a message must hold. Checked before they are allocated, because a header may promise anything.
fn check_count(sides: &[usize]) -> io::Result<usize> {
    let count = sides.iter().try_fold(1usize, |count, side| count.checked_mul(*side));
    count.filter(|count| *count <= NUMBERS_MAX).ok_or_else(|| {
        io::Error::other(format!(
            "map too large: {sides:?} (expected at most {NUMBERS_MAX} numbers): pool the map first"
        ))
    })
}

fn read_npy(bytes: &[u8]) -> io::Result<NumberArray> {
    let NpyArray { dtype, shape, bytes } = NpyArray::parse(bytes).map_err(io::Error::other)?;
    let count = check_count(&shape)?;
    // `None`: of 8 bytes, which messages do not have.
    let (format, size) = match dtype {
        "<f2" => (Some(NumberFormat::F16), 2),
        "<f4" => (Some(NumberFormat::F32), 4),
        "<f8" => (None, 8),
        "|u1" | "|b1" => (Some(NumberFormat::U8), 1),
        other => {
            return Err(io::Error::other(format!(
                "unsupported number type {:?} (expected float16, float32 or float64 with the least byte first, uint8 or bool); save \
                 array.astype('<f4')",
                shown(other)
            )));
        }
    };
    if bytes.len() != count * size {
        return Err(io::Error::other(format!(
            "{} bytes of numbers (expected {} for the shape {shape:?}); write the file again",
            bytes.len(),
            count * size
        )));
    }
    let values = match format {
        Some(format) => numbers(format, bytes).map_err(io::Error::other)?,
        None => {
            let doubles = bytes.as_chunks().0.iter();
            doubles.map(|bytes| narrowed(f64::from_le_bytes(*bytes))).collect()
        }
    };
    Ok(NumberArray { shape, values })
}

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
    check_count(&[height as usize, width as usize])?;
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
