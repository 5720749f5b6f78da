//! The segment header: creation from a spec, and validation by readers that do not trust it.

use bytemuck::Zeroable;

use super::abi::{
    ABI_MAJOR, ABI_MINOR, CAMERA_FRAME_OFFSET, CAPACITY_MAX, CHANNEL_OFFSET, CameraFrameBlock,
    ChannelBlock, HEADER_BYTES, LIVE_OFFSET, MAGIC, MIN_SLOT_COUNT, PATCH_SIDE_MAX,
    PLANE_ALIGNMENT, PLANE_COUNT_MAX, PlaneEntry, SLOT_COUNT_MAX, SegmentHeader, SlotHeader,
    TokenRecord,
};
use super::error::{RingError, ensure, malformed, text, whole_text};
use super::segment::{PlaneInfo, SegmentInfo, SegmentLayout, SegmentSpec, SlotPlane};
use super::text::Text;
use super::{camera, channels, pixel_facts};
use foveate_core::backend::BackendKind;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::FOVEAE_MAX;
use foveate_core::plane::{self, PlaneSpec};
use foveate_core::token::{DType, Normalisation, Outside, Rounding, TokenFormat};

/// The first bytes of a segment: all that is constant while it lives, and zeros where the live block is.
pub type HeaderPage = [u8; HEADER_BYTES];

/// The page of a segment with these blocks.
pub(super) fn page_of(
    header: &SegmentHeader,
    camera_frame: &CameraFrameBlock,
    channels: &ChannelBlock,
) -> HeaderPage {
    let mut page = [0; HEADER_BYTES];
    page[..LIVE_OFFSET].copy_from_slice(bytemuck::bytes_of(header));
    page[CAMERA_FRAME_OFFSET..CHANNEL_OFFSET].copy_from_slice(bytemuck::bytes_of(camera_frame));
    page[CHANNEL_OFFSET..].copy_from_slice(bytemuck::bytes_of(channels));
    page
}

/// [`info_from_header`] of a page.
pub(super) fn info_from_page(
    page: &HeaderPage,
    file_bytes: u64,
) -> Result<(SegmentInfo, SegmentLayout), RingError> {
    let header = bytemuck::pod_read_unaligned(&page[..LIVE_OFFSET]);
    let camera_frame = bytemuck::pod_read_unaligned(&page[CAMERA_FRAME_OFFSET..CHANNEL_OFFSET]);
    let channels = bytemuck::pod_read_unaligned(&page[CHANNEL_OFFSET..]);
    info_from_header(&header, (&camera_frame, &channels), file_bytes)
}

/// The header of a segment for `spec`, laid out as `layout` says.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the layout's counts were checked; the sizes are constants"
)]
pub(super) fn header_from_spec(
    spec: &SegmentSpec,
    layout: &SegmentLayout,
    epoch: u64,
) -> Result<SegmentHeader, RingError> {
    let mut planes = [PlaneEntry::zeroed(); PLANE_COUNT_MAX];
    for ((entry, plane), place) in planes.iter_mut().zip(spec.all_planes()).zip(layout.planes()) {
        *entry = plane_entry(&plane, *place, layout.capacity);
    }
    let mut header = SegmentHeader {
        magic: Text::truncated(MAGIC),
        abi_major: ABI_MAJOR,
        abi_minor: ABI_MINOR,
        total_bytes: layout.total_bytes as u64,
        header_bytes: HEADER_BYTES as u32,
        slot_count: layout.slot_count as u32,
        slot_stride: layout.slot_stride as u64,
        slot_header_bytes: size_of::<SlotHeader>() as u32,
        record_bytes: size_of::<TokenRecord>() as u32,
        records_offset: layout.records_offset as u32,
        token_capacity: layout.capacity as u32,
        patch_side: spec.format.patch_side,
        plane_count: layout.plane_count as u32,
        epoch,
        source_width: spec.extent.width,
        source_height: spec.extent.height,
        backend_kind: spec.backend.code(),
        fovea_capacity: spec.foveae as u32,
        mean: spec.format.normalisation.mean,
        std: spec.format.normalisation.std,
        pixel_format: whole_text("pixel_format", &spec.pixel_format, "at most 15 bytes, no NUL")?,
        stream_name: whole_text("stream", &spec.stream, "at most 63 bytes, no NUL")?,
        view_name: whole_text("view", &spec.view, "at most 63 bytes, no NUL")?,
        layout_name: whole_text("layout", &spec.layout, "at most 31 bytes, no NUL")?,
        backend_device: Text::truncated(&spec.device),
        grid_columns: spec.grid.map_or(0, |grid| grid.width),
        grid_rows: spec.grid.map_or(0, |grid| grid.height),
        camera: camera::blocks(spec.camera.as_ref()).0,
        outside: spec.format.outside.code(),
        rounding: spec.format.rounding.code(),
        planes,
        ..SegmentHeader::zeroed()
    };
    pixel_facts::write(&mut header, &spec.picture);
    Ok(header)
}

#[expect(clippy::cast_possible_truncation, reason = "the layout's counts were checked")]
fn plane_entry(plane: &PlaneSpec, place: SlotPlane, capacity: usize) -> PlaneEntry {
    let mut shape = [0; 4];
    shape[0] = plane.count.unwrap_or(capacity as u32);
    shape[1..=plane.item_shape.len()].copy_from_slice(&plane.item_shape);
    PlaneEntry {
        name: Text::truncated(plane.name),
        order: Text::truncated(plane.order),
        dtype: plane.dtype.code(),
        ndim: 1 + plane.item_shape.len() as u32,
        shape,
        offset: place.offset as u64,
        token_stride: place.item_bytes as u64,
        bytes: place.bytes(capacity) as u64,
        reserved: 0,
    }
}

impl SegmentInfo {
    /// Description of a segment for `spec`, with epoch 0.
    ///
    /// # Errors
    ///
    /// If the spec does not fit a segment.
    pub fn of(spec: &SegmentSpec) -> Result<Self, RingError> {
        let layout = SegmentLayout::new(spec)?;
        let header = header_from_spec(spec, &layout, 0)?;
        let (_, camera) = camera::blocks(spec.camera.as_ref());
        let blocks = (&camera, &channels::block(spec.channels.as_ref())?);
        Ok(info_from_header(&header, blocks, layout.total_bytes as u64)?.0)
    }

    /// Description of the segment that `page` is from, which is validated as that of a segment is.
    ///
    /// # Errors
    ///
    /// If it is not from a segment, has another ABI version, or contradicts itself.
    pub fn from_page(page: &HeaderPage) -> Result<Self, RingError> {
        Ok(whole_from_page(page)?.0)
    }
}

/// [`info_from_page`] of a segment that has the size that its header says.
pub(super) fn whole_from_page(
    page: &HeaderPage,
) -> Result<(SegmentInfo, SegmentLayout), RingError> {
    let header: SegmentHeader = bytemuck::pod_read_unaligned(&page[..LIVE_OFFSET]);
    info_from_page(page, header.total_bytes)
}

/// Validates `header` against the ABI and a segment of `file_bytes` bytes, and returns its content. Nothing is checked again
/// after this.
fn info_from_header(
    header: &SegmentHeader,
    (camera_frame, channels): (&CameraFrameBlock, &ChannelBlock),
    file_bytes: u64,
) -> Result<(SegmentInfo, SegmentLayout), RingError> {
    check_version(header)?;
    check_sizes(header, file_bytes)?;
    let planes = planes(header)?;
    let format = token_format(header, &planes[0])?;
    let extent = Extent::new(header.source_width, header.source_height);
    ensure(extent.is_supported(), "source_width x source_height", extent)?;
    let backend = BackendKind::from_code(header.backend_kind)
        .ok_or_else(|| malformed("backend_kind", header.backend_kind))?;

    let mut places = [SlotPlane::default(); PLANE_COUNT_MAX];
    for (place, plane) in places.iter_mut().zip(&planes) {
        let count = (!plane.is_of_tokens()).then_some(plane.shape[0] as usize);
        let (offset, item_bytes) = (plane.offset, plane.token_stride);
        let follows_texels = PlaneSpec::follows_texels(&plane.name);
        *place = SlotPlane { offset, item_bytes, count, follows_texels };
    }
    let layout = SegmentLayout {
        slot_count: header.slot_count as usize,
        slot_stride: native(header.slot_stride),
        records_offset: header.records_offset as usize,
        planes: places,
        plane_count: planes.len(),
        capacity: header.token_capacity as usize,
        total_bytes: native(header.total_bytes),
    };
    let spec = SegmentSpec {
        stream: text("stream_name", &header.stream_name)?,
        view: text("view_name", &header.view_name)?,
        layout: text("layout_name", &header.layout_name)?,
        format,
        capacity: layout.capacity,
        grid: grid(header)?,
        foveae: foveae(header)?,
        extent,
        pixel_format: text("pixel_format", &header.pixel_format)?,
        backend,
        device: text("backend_device", &header.backend_device)?,
        picture: pixel_facts::read(header)?,
        slot_count: layout.slot_count,
        camera: camera::facts(&header.camera, camera_frame)?,
        channels: channels::facts(channels, &planes)?,
        planes,
    };
    let (abi_minor, epoch, total_bytes) = (header.abi_minor, header.epoch, layout.total_bytes);
    let info = SegmentInfo { abi_minor, epoch, total_bytes, spec };
    Ok((info, layout))
}

fn check_version(header: &SegmentHeader) -> Result<(), RingError> {
    if header.magic != Text::truncated(MAGIC) {
        let reason = format!("it begins with {:?}", header.magic);
        return Err(RingError::NotASegment { reason });
    }
    if header.abi_major != ABI_MAJOR {
        return Err(RingError::Version { major: header.abi_major, minor: header.abi_minor });
    }
    Ok(())
}

/// Checks that the slots fill the segment, and that records and planes fit a slot.
fn check_sizes(header: &SegmentHeader, file_bytes: u64) -> Result<(), RingError> {
    let is = |found: u32, expected: usize| found as usize == expected;
    ensure(is(header.header_bytes, HEADER_BYTES), "header_bytes", header.header_bytes)?;
    let slot_header_bytes = header.slot_header_bytes;
    ensure(is(slot_header_bytes, size_of::<SlotHeader>()), "slot_header_bytes", slot_header_bytes)?;
    ensure(is(header.record_bytes, size_of::<TokenRecord>()), "record_bytes", header.record_bytes)?;
    ensure(header.total_bytes == file_bytes, "total_bytes", header.total_bytes)?;
    let slot_counts = MIN_SLOT_COUNT..=SLOT_COUNT_MAX;
    ensure(slot_counts.contains(&header.slot_count), "slot_count", header.slot_count)?;
    let stride = header.slot_stride;
    ensure(stride.is_multiple_of(PLANE_ALIGNMENT as u64), "slot_stride", stride)?;
    let end = stride
        .checked_mul(u64::from(header.slot_count))
        .and_then(|bytes| bytes.checked_add(HEADER_BYTES as u64));
    ensure(end == Some(header.total_bytes), "slot_stride", stride)?;

    let records_offset = header.records_offset;
    let after_header = size_of::<SlotHeader>() <= records_offset as usize;
    ensure(after_header && records_offset.is_multiple_of(8), "records_offset", records_offset)?;
    let capacity = header.token_capacity;
    let fits = (1..=CAPACITY_MAX).contains(&(capacity as usize)) && records_end(header) <= stride;
    ensure(fits, "token_capacity", capacity)
}

/// End of the records in bytes from the start of a slot. Two u32 and a small factor fit a u64.
fn records_end(header: &SegmentHeader) -> u64 {
    let records_bytes = u64::from(header.token_capacity) * size_of::<TokenRecord>() as u64;
    u64::from(header.records_offset) + records_bytes
}

fn planes(header: &SegmentHeader) -> Result<Vec<PlaneInfo>, RingError> {
    let count = header.plane_count as usize;
    ensure((1..=PLANE_COUNT_MAX).contains(&count), "plane_count", count)?;
    let entries = header.planes[..count].iter();
    let planes = entries.map(|entry| plane(header, entry)).collect::<Result<Vec<_>, _>>()?;
    for (index, PlaneInfo { name, .. }) in planes.iter().enumerate() {
        ensure(planes[..index].iter().all(|other| other.name != *name), "planes.name", name)?;
    }
    Ok(planes)
}

/// Whether the items of a plane with these axes are the tokens.
fn is_of_tokens(order: &str) -> bool {
    order.starts_with('N')
}

/// Validates a plane: it must lie after the records and inside the slot, with room for every item.
fn plane(header: &SegmentHeader, entry: &PlaneEntry) -> Result<PlaneInfo, RingError> {
    let dtype =
        DType::from_code(entry.dtype).ok_or_else(|| malformed("planes.dtype", entry.dtype))?;
    let ndim = entry.ndim as usize;
    ensure((1..=entry.shape.len()).contains(&ndim), "planes.ndim", ndim)?;
    let shape = entry.shape[..ndim].to_vec();
    let order = text("planes.order", &entry.order)?;
    let is_full = !is_of_tokens(&order) || shape[0] == header.token_capacity;
    ensure(is_full && !shape.contains(&0), "planes.shape", format!("{shape:?}"))?;

    let offset = entry.offset;
    let placed = offset.is_multiple_of(PLANE_ALIGNMENT as u64) && records_end(header) <= offset;
    ensure(placed, "planes.offset", offset)?;
    let end = offset.checked_add(entry.bytes);
    ensure(end.is_some_and(|end| end <= header.slot_stride), "planes.bytes", entry.bytes)?;
    let item_bytes = shape[1..]
        .iter()
        .try_fold(dtype.bytes() as u64, |bytes, &side| bytes.checked_mul(u64::from(side)));
    let stride = entry.token_stride;
    ensure(item_bytes.is_some_and(|bytes| bytes <= stride), "planes.token_stride", stride)?;
    let items_bytes = stride.checked_mul(u64::from(shape[0]));
    ensure(items_bytes.is_some_and(|bytes| bytes <= entry.bytes), "planes.token_stride", stride)?;
    Ok(PlaneInfo {
        name: text("planes.name", &entry.name)?,
        order,
        dtype,
        shape,
        offset: native(offset),
        token_stride: native(stride),
        bytes: native(entry.bytes),
    })
}

/// The token format, if the first plane is as the ABI requires: dense [capacity, 3, P, P].
fn token_format(header: &SegmentHeader, pixels: &PlaneInfo) -> Result<TokenFormat, RingError> {
    let side = header.patch_side;
    ensure(pixels.name == plane::PIXELS, "planes[0].name", &pixels.name)?;
    ensure(pixels.order == "NCHW", "planes[0].order", &pixels.order)?;
    let fits = pixels.shape == [header.token_capacity, 3, side, side];
    ensure(fits, "planes[0].shape", format!("{:?}", pixels.shape))?;
    let dense = u64::from(side)
        .checked_pow(2)
        .and_then(|texels| texels.checked_mul(3 * pixels.dtype.bytes() as u64))
        .is_some_and(|bytes| bytes == pixels.token_stride as u64);
    ensure(dense && (1..=PATCH_SIDE_MAX).contains(&side), "patch_side", side)?;
    let normalisation = Normalisation { mean: header.mean, std: header.std };
    let outside =
        Outside::from_code(header.outside).ok_or_else(|| malformed("outside", header.outside))?;
    let rounding = Rounding::from_code(header.rounding)
        .ok_or_else(|| malformed("rounding", header.rounding))?;
    Ok(TokenFormat { patch_side: side, dtype: pixels.dtype, normalisation, outside, rounding })
}

/// The grid of the tokens; `None` without a grid.
fn grid(header: &SegmentHeader) -> Result<Option<Extent>, RingError> {
    let grid = Extent::new(header.grid_columns, header.grid_rows);
    if grid == Extent::new(0, 0) {
        return Ok(None);
    }
    let cells = u64::from(grid.width) * u64::from(grid.height);
    let fits = (1..=u64::from(header.token_capacity)).contains(&cells);
    ensure(fits, "grid_columns x grid_rows", grid)?;
    Ok(Some(grid))
}

fn foveae(header: &SegmentHeader) -> Result<usize, RingError> {
    let foveae = header.fovea_capacity as usize;
    ensure((1..=FOVEAE_MAX).contains(&foveae), "fovea_capacity", foveae)?;
    Ok(foveae)
}

/// A size already validated against the mapped file.
fn native(bytes: u64) -> usize {
    usize::try_from(bytes).expect("the ring is for 64-bit machines")
}
