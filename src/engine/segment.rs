//! The segment that a view publishes in.

use foveate_core::backend::BackendInfo;
use foveate_core::channel::cells_of;
use foveate_core::frame::FrameKind;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::pixel::PixelFacts;
use foveate_gaze::view::{ViewSpec, default_slot_count};
use foveate_ring::{ChannelFacts, SegmentSpec};

/// The segment in which view `view` of stream `stream` publishes, for frames of `kind` on `backend`: with as many slots as
/// [its texels suggest](default_slot_count), and without a camera or facts of the pictures.
pub fn segment_of(
    spec: &ViewSpec,
    stream: &str,
    view: &str,
    kind: FrameKind,
    backend: &BackendInfo,
) -> SegmentSpec {
    let shape = PyramidShape::new(kind.extent);
    let channels =
        || ChannelFacts { cell_side: cells_of(kind.extent).1, names: spec.channels.clone() };
    SegmentSpec {
        stream: stream.to_owned(),
        view: view.to_owned(),
        layout: spec.layout.name().to_owned(),
        format: spec.format,
        capacity: spec.capacity(),
        grid: spec.layout.grid(shape, spec.format.patch_side, spec.budget),
        foveae: spec.policy.foveae(spec.layout.foveae()),
        extent: kind.extent,
        pixel_format: kind.format.name().to_owned(),
        backend: backend.kind,
        device: backend.device.clone(),
        picture: PixelFacts::default(),
        slot_count: default_slot_count(spec.capacity() * spec.format.token_bytes()),
        camera: None,
        planes: spec.planes(kind.extent).split_off(1),
        channels: (!spec.channels.is_empty()).then(channels),
    }
}
