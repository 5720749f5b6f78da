//! The arrays that frames are appended to.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytemuck::{Pod, Zeroable};

use crate::ToolError;
use crate::npy::NpyWriter;
use crate::segment::SegmentFacts;
use crate::snap::make_directory;
use foveate_core::frame::FrameKind;
use foveate_core::geometry::fixation::FOVEAE_MAX;
use foveate_core::pixel::PixelFacts;
use foveate_core::plane::CHANNELS;
use foveate_core::token::DType;
use foveate_ring::abi::{FLAG_PTS, FixationBlock};
use foveate_ring::schema::{Field, Form, Struct};
use foveate_ring::{PlaneInfo, SegmentInfo, SegmentSpec, TokenFrameBuf, TokenRecord};

/// The arrays of one view.
pub(super) struct Extraction {
    folder: PathBuf,
    /// Arrays of frames and of tokens, then one for each plane of the ring, with the name of the plane; empty until the first frame.
    arrays: Vec<NpyWriter>,
    /// Shape of the plane of channels, if there is one.
    channel_grid: Option<Vec<u32>>,
    /// The content of `segments.json`.
    segments: Vec<SegmentFacts>,
    /// Kind and pixels of the frames of each segment.
    kinds: Vec<(FrameKind, PixelFacts)>,
    /// Index of the segment of the next frames.
    segment: usize,
}

/// One row of `frames.npy`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct FrameRow {
    frame_seq: u64,
    pts_ns: u64,
    capture_ns: u64,
    capture_unix_ns: u64,
    arrival_ns: u64,
    publish_ns: u64,
    fixations: [FixationBlock; FOVEAE_MAX],
    fixation_count: u32,
    capture_clock: u32,
    has_pts: u32,
    sample_bound: u32,
    rgb_bound: u32,
    dirty_tiles: u32,
    tile_count: u32,
    token_count: u32,
    segment: u32,
    reserved: u32,
    channels_frame: u64,
}

/// [`FrameRow`] as a NumPy dtype.
fn frame_dtype() -> String {
    let fixation = numpy_dtype(&FixationBlock::SCHEMA);
    format!(
        "[('frame_seq', '<u8'), ('pts_ns', '<u8'), ('capture_ns', '<u8'), \
         ('capture_unix_ns', '<u8'), ('arrival_ns', '<u8'), ('publish_ns', '<u8'), \
         ('fixations', {fixation}, ({FOVEAE_MAX},)), ('fixation_count', '<u4'), \
         ('capture_clock', '<u4'), ('has_pts', '<u4'), ('sample_bound', '<u4'), ('rgb_bound', '<u4'), \
         ('dirty_tiles', '<u4'), ('tile_count', '<u4'), ('token_count', '<u4'), ('segment', '<u4'), \
         ('reserved', '<u4'), ('channels_frame', '<u8')]"
    )
}

/// A struct of numbers as a NumPy dtype.
fn numpy_dtype(described: &Struct) -> String {
    let field = |Field { name, form, .. }: &Field| {
        let number = match form {
            Form::U8 => "|u1",
            Form::U16 => "<u2",
            Form::U32 => "<u4",
            Form::U64 => "<u8",
            Form::I32 => "<i4",
            Form::F32 => "<f4",
            Form::F64 => "<f8",
            Form::Text(_) | Form::Struct(_) | Form::Array(..) => unreachable!("{name} is a number"),
        };
        format!("('{name}', '{number}')")
    };
    format!("[{}]", described.fields.iter().map(field).collect::<Vec<_>>().join(", "))
}

impl Extraction {
    /// An extraction to `folder`, from which arrays of an earlier one are deleted.
    pub(super) fn new(folder: PathBuf) -> Result<Self, ToolError> {
        make_directory(&folder)?;
        delete_arrays(&folder)
            .map_err(|source| ToolError::File { path: folder.clone(), source })?;
        Ok(Self {
            folder,
            arrays: Vec::new(),
            channel_grid: None,
            segments: Vec::new(),
            kinds: Vec::new(),
            segment: 0,
        })
    }

    /// Selects the segment of the next frames, which are of `kind`, and begins it if there was none of this kind.
    pub(super) fn select(
        &mut self,
        kind: (FrameKind, PixelFacts),
        segment: impl FnOnce() -> SegmentSpec,
    ) -> Result<(), ToolError> {
        if self.kinds.get(self.segment) == Some(&kind) {
            return Ok(());
        }
        match self.kinds.iter().position(|known| *known == kind) {
            Some(known) => self.segment = known,
            None => {
                self.begin(&segment())?;
                self.kinds.push(kind);
                self.segment = self.kinds.len() - 1;
            }
        }
        Ok(())
    }

    /// Starts the frames of `segment`.
    fn begin(&mut self, segment: &SegmentSpec) -> Result<(), ToolError> {
        let info = SegmentInfo::of(segment)?;
        let grid = info.plane_index(CHANNELS).map(|index| info.planes[index].shape.clone());
        if !self.arrays.is_empty() && self.channel_grid != grid {
            return Err(ToolError::Clip(format!(
                "the picture size changes to {} pixels, which does not fit the array of channels: extract each size \
                 separately, or leave `channels` out of the view",
                info.extent
            )));
        }
        self.channel_grid = grid;
        if self.arrays.is_empty() {
            self.arrays = create_arrays(&self.folder, &info)?;
        }
        let gray_range = segment.picture.gray_range;
        self.segments.push(SegmentFacts::from(&info).with_gray_range(gray_range));
        Ok(())
    }

    /// Appends a frame to all arrays; missing tokens are 0.
    pub(super) fn push(&mut self, frame: &TokenFrameBuf) -> Result<(), ToolError> {
        let row = frame_row(frame, self.segment);
        let rows = [bytemuck::bytes_of(&row), bytemuck::cast_slice(&frame.records)];
        let planes = (0..).map(|index| frame.plane(index));
        for (array, row) in self.arrays.iter_mut().zip(rows.into_iter().chain(planes)) {
            array.push(row).map_err(|source| ToolError::writing(array.path(), source))?;
        }
        Ok(())
    }

    /// Completes the arrays, and prints their folder to `out`.
    pub(super) fn finish(self, out: &mut dyn Write) -> Result<(), ToolError> {
        let frame_count = self.arrays.first().map_or(0, NpyWriter::rows);
        for array in self.arrays {
            let path = array.path().to_owned();
            array.finish().map_err(|source| ToolError::File { path, source })?;
        }
        let path = self.folder.join("segments.json");
        let text = serde_json::to_vec_pretty(&self.segments).map_err(io::Error::from);
        text.and_then(|text| fs::write(&path, text))
            .map_err(|source| ToolError::File { path, source })?;
        writeln!(out, "{}: {frame_count} frames", self.folder.display()).map_err(ToolError::Output)
    }
}

fn delete_arrays(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if name.ends_with(b".npy") || name.ends_with(b".npy.part") || name == b"segments.json" {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// The arrays of a view whose first segment is `segment`.
fn create_arrays(folder: &Path, segment: &SegmentInfo) -> Result<Vec<NpyWriter>, ToolError> {
    let create = |name: &str, dtype: &str, row_shape: &[usize], row_bytes: usize| {
        let path = folder.join(format!("{name}.npy"));
        NpyWriter::create(&path, dtype, row_shape, row_bytes)
            .map_err(|source| ToolError::File { path, source })
    };
    let plane = |plane: &PlaneInfo| {
        let dtype = match plane.dtype {
            DType::U8 => "'|u1'",
            DType::F16 => "'<f2'",
            // NumPy has no bfloat16: stored as bits.
            DType::Bf16 => "'<u2'",
            DType::F32 => "'<f4'",
        };
        let row_shape: Vec<_> = plane.shape.iter().map(|&side| side as usize).collect();
        create(&plane.name, dtype, &row_shape, plane.bytes)
    };
    let frames = create("frames", &frame_dtype(), &[], size_of::<FrameRow>());
    let token_dtype = numpy_dtype(&TokenRecord::SCHEMA);
    let token_bytes = segment.capacity * size_of::<TokenRecord>();
    let tokens = create("tokens", &token_dtype, &[segment.capacity], token_bytes);
    [frames, tokens].into_iter().chain(segment.planes.iter().map(plane)).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "segments are fewer than 2^32")]
fn frame_row(frame: &TokenFrameBuf, segment: usize) -> FrameRow {
    let header = frame.head.to_slot(frame.records.len());
    FrameRow {
        frame_seq: header.frame_seq,
        pts_ns: header.pts_ns,
        capture_ns: header.capture_ns,
        capture_unix_ns: header.capture_unix_ns,
        arrival_ns: header.arrival_ns,
        publish_ns: header.publish_ns,
        fixations: header.fixations,
        fixation_count: header.fixation_count,
        capture_clock: header.capture_clock,
        has_pts: header.flags & FLAG_PTS,
        sample_bound: header.sample_bound,
        rgb_bound: header.rgb_bound,
        dirty_tiles: header.dirty_tiles,
        tile_count: header.tile_count,
        token_count: header.token_count,
        segment: segment as u32,
        reserved: 0,
        channels_frame: header.channels_frame,
    }
}
