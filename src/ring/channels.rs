//! The channel block of a segment, and its validation.

use bytemuck::Zeroable;

use super::abi::ChannelBlock;
use super::error::{RingError, ensure, text, whole_text};
use super::segment::{ChannelFacts, PlaneInfo};
use foveate_core::channel::PUBLISHED_MAX;
use foveate_core::plane;

/// The block for the plane of channels; all 0 without one.
#[expect(clippy::cast_possible_truncation, reason = "at most 63 channels")]
pub(super) fn block(channels: Option<&ChannelFacts>) -> Result<ChannelBlock, RingError> {
    let mut block = ChannelBlock::zeroed();
    let Some(ChannelFacts { cell_side, names }) = channels else { return Ok(block) };
    if PUBLISHED_MAX < names.len() {
        let value = names.len().to_string();
        return Err(RingError::Spec { field: "channels", value, allowed: "at most 63" });
    }
    (block.cell_side, block.count) = (*cell_side, names.len() as u32);
    for (target, name) in block.names.iter_mut().zip(names) {
        *target = whole_text("channels.names", name, "at most 31 bytes, no NUL")?;
    }
    Ok(block)
}

/// The facts in the block, if there is a plane of channels.
pub(super) fn facts(
    block: &ChannelBlock,
    planes: &[PlaneInfo],
) -> Result<Option<ChannelFacts>, RingError> {
    let Some(plane) = planes.iter().find(|plane| plane.name == plane::CHANNELS) else {
        return Ok(None);
    };
    let (count, cell_side) = (block.count as usize, block.cell_side);
    ensure(plane.order == "CHW", "planes.order", &plane.order)?;
    ensure(plane.shape.len() == 3, "planes.ndim", plane.shape.len())?;
    let fits = count <= PUBLISHED_MAX && plane.shape[0] as usize == count;
    ensure(fits, "channels.count", count)?;
    ensure(0 < cell_side, "channels.cell_side", cell_side)?;
    let names = block.names[..count].iter().map(|name| text("channels.names", name));
    Ok(Some(ChannelFacts { cell_side, names: names.collect::<Result<_, _>>()? }))
}
