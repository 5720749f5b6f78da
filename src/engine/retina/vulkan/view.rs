//! The passes of a view that joins a running retina: made, and warmed, beside it.

use std::sync::Arc;

use super::pyramid::Pyramid;
use super::sample::SamplePass;
use super::stale::StalePass;
use crate::retina::ViewSpec;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_gpu::{Buffer, BufferKind, Gpu, GpuError, Lane};

/// Bytes of the bits of a few tiles.
const BITS_BYTES: usize = 4;

/// The pass of a view of a retina that is told the dirty tiles. It has run once.
pub(in crate::retina) fn warm_told(
    gpu: &Arc<Gpu>,
    shape: PyramidShape,
    spec: ViewSpec,
) -> Result<SamplePass, GpuError> {
    let mut sample = SamplePass::new(gpu, shape, spec)?;
    sample.prepare_warm();
    let (mut lane, pyramid) = (lane(gpu)?, small_pyramid(gpu, shape)?);
    lane.run(|recorder| sample.record(recorder, &pyramid))?;
    Ok(sample)
}

/// The passes of a view of a retina that finds the dirty tiles. They have run once.
pub(in crate::retina) fn warm_detecting(
    gpu: &Arc<Gpu>,
    shape: PyramidShape,
    spec: ViewSpec,
) -> Result<(StalePass, SamplePass), GpuError> {
    let mut sample = SamplePass::new(gpu, shape, spec)?;
    let mut stale = StalePass::new(gpu, shape, spec)?;
    stale.prepare_warm(&mut sample);
    let (mut lane, pyramid) = (lane(gpu)?, small_pyramid(gpu, shape)?);
    let bits = Buffer::new(gpu, "ingested tiles", BufferKind::HostWritten, BITS_BYTES)?;
    lane.run(|recorder| {
        stale.record(recorder, &bits, &sample);
        sample.record(recorder, &pyramid);
    })?;
    Ok((stale, sample))
}

/// A way to the queue that waits for nobody else's work. No times are taken.
fn lane(gpu: &Arc<Gpu>) -> Result<Lane, GpuError> {
    Lane::new(gpu, "view in the making", 0)
}

/// Something to sample that drivers compile the same code for as for a pyramid of `shape`: llvmpipe asks which sides of
/// an image are powers of two, and finds out only when the pass first runs.
fn small_pyramid(gpu: &Arc<Gpu>, shape: PyramidShape) -> Result<Pyramid, GpuError> {
    let grid = shape.extent().in_cells(TILE_SIDE);
    let [width, height] = [grid.width, grid.height].map(|tiles| {
        let alike = if tiles.is_power_of_two() { 1 } else { 3 };
        alike * TILE_SIDE
    });
    Pyramid::new(gpu, PyramidShape::new(Extent::new(width, height)))
}
