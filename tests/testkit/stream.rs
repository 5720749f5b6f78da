//! Streams in this process, whose frames a test steps by hand.

use std::sync::Arc;

use foveate_config::ViewConfig;
use foveate_core::backend::{BackendChoice, ChangeOn};
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_daemon::stream::{Backends, ServedView, Stream, StreamBackend, ViewPace};
use foveate_gaze::controller::Policy;
use foveate_gaze::layout::Layout;
use foveate_gaze::view::ViewSpec;
use foveate_ring::{ReadOutcome, Reader, TokenFrameBuf};
use foveate_server::channel::{ClientChannel, EventFd, ViewChannel, view_channel};

use crate::device;

pub fn on_cpu() -> StreamBackend {
    Backends::default().choose(BackendChoice::Cpu, None).unwrap()
}

/// Tries the CPU, and the device, told the changes and finding them.
pub fn on_every_backend(test: impl Fn(&dyn Fn() -> StreamBackend)) {
    test(&on_cpu);
    device::with_gpu(|gpu| {
        for on in [ChangeOn::Cpu, ChangeOn::Gpu] {
            test(&|| {
                let device = gpu.summary().name.as_str();
                let backend = Backends::default().choose(BackendChoice::Vulkan, Some(device));
                backend.unwrap().with_change_on(on).unwrap()
            });
        }
    });
}

/// Tokens of 16 x 16 texels, as bytes, of a view that looks at the middle.
pub fn spec(layout: Layout, budget: usize) -> ViewSpec {
    let format = TokenFormat::new(16, DType::U8, Normalisation::NONE);
    let policy = Policy::Fixed { x: 0.5, y: 0.5 };
    ViewSpec { layout, budget, format, policy, ..ViewSpec::default() }
}

/// A view that publishes every frame, in a ring of two slots.
pub fn served(name: &str, spec: ViewSpec) -> ServedView {
    ServedView { name: name.to_owned(), slot_count: 2, pace: ViewPace::default(), spec }
}

/// Both ends of what a view and its clients say to each other.
pub fn channel() -> (ViewChannel, ClientChannel) {
    let wakeup = Arc::new(EventFd::new().unwrap());
    view_channel(&wakeup, "camera", ViewConfig::default(), None)
}

/// A reader of the segment of a view.
pub fn reader(stream: &Stream, view: usize) -> Reader {
    Reader::from_fd(stream.segment(view).unwrap().unwrap().0).unwrap()
}

/// The newest frame, which was not read before.
pub fn read_newest(reader: &mut Reader) -> TokenFrameBuf {
    let mut frame = TokenFrameBuf::default();
    assert!(matches!(reader.read_newest(&mut frame).unwrap(), ReadOutcome::Frame { .. }));
    frame
}
