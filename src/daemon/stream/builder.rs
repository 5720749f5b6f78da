//! Builds views on another thread while the stream runs.

use std::sync::Arc;

use parking_lot::Mutex;

use super::publisher::Publisher;
use super::{ServedView, StreamError};
use foveate_core::backend::BackendInfo;
use foveate_core::camera::Camera;
use foveate_core::camera::rays::Rays;
use foveate_core::frame::FrameTime;
use foveate_core::geometry::extent::Extent;
use foveate_core::pixel::PixelFacts;
use foveate_engine::segment::segment_of;
use foveate_engine::{View, ViewBuilder};
use foveate_gaze::view::ViewSpec;
use foveate_ring::{SegmentSpec, Writer};
use foveate_server::channel::ViewChannel;
use foveate_stats::StreamCounters;

/// Builds views of one stream and their rings, on any thread. The stream takes the lock only when the kind of its frames or its
/// backend changes.
#[derive(Clone, Debug)]
pub struct RingBuilder {
    stream: String,
    counters: Arc<StreamCounters>,
    camera: Option<Arc<Camera>>,
    has_depth: bool,
    /// `None` until the first frame.
    target: Arc<Mutex<Option<BuildTarget>>>,
}

/// Engine and segment that views are built for.
#[derive(Clone, Debug)]
struct BuildTarget {
    views: ViewBuilder,
    backend: BackendInfo,
    picture: PixelFacts,
}

/// A view ready to be [added](super::Stream::add_view) to its stream. It has neither planes nor a ring if the stream had no frame yet.
#[derive(Debug)]
pub struct NewView(pub(super) View<Publisher>);

impl NewView {
    /// The channel to its clients.
    pub fn channel(&self) -> &ViewChannel {
        &self.0.sink.channel
    }
}

/// The [replacement](super::Stream::replace_view) of a view of the stream.
#[derive(Debug)]
pub struct Replacement {
    pub(super) view: ServedView,
    /// The built view, without a ring if the stream had no frame yet.
    pub(super) built: View<Option<Writer>>,
}

impl RingBuilder {
    /// The builder of a stream before its first frame.
    pub(super) fn new(
        stream: &str,
        counters: &Arc<StreamCounters>,
        camera: Option<Arc<Camera>>,
        has_depth: bool,
    ) -> Self {
        let (stream, counters) = (stream.to_owned(), Arc::clone(counters));
        Self { stream, counters, camera, has_depth, target: Arc::default() }
    }

    /// The rays of sources of `extent`; `None` if they are not known.
    pub(super) fn rays(&self, extent: Extent) -> Option<Rays> {
        self.camera.as_ref().and_then(|camera| Rays::of(&camera.facts(extent)))
    }

    /// Sets the engine, the backend and the pictures that views are built for.
    pub(super) fn set_target(
        &self,
        views: ViewBuilder,
        backend: &BackendInfo,
        picture: PixelFacts,
    ) {
        *self.target.lock() = Some(BuildTarget { views, backend: backend.clone(), picture });
    }

    /// A new view, to be [built](Self::build).
    pub fn new_view(&self, view: &ServedView, channel: ViewChannel) -> NewView {
        let publisher = Publisher::new(view, channel, &self.counters);
        NewView(View::unbuilt(view.spec.clone(), publisher))
    }

    /// Builds a new or outdated view for the newest frames; nothing is to be built before the first.
    ///
    /// # Errors
    ///
    /// If the stream lacks what it publishes, there is no memory for its ring, or the backend refuses it.
    pub fn build(&self, view: &mut NewView) -> Result<(), StreamError> {
        // A new view has no gaze that continues at a frame.
        self.build_in_place(&mut view.0, FrameTime { frame_seq: 0, time_ns: 0 })
    }

    /// Builds the replacement of a view.
    ///
    /// # Errors
    ///
    /// As for [`build`](Self::build).
    pub fn build_replacement(&self, view: ServedView) -> Result<Replacement, StreamError> {
        let target = self.target_of(&view.spec)?;
        let built = match target {
            None => View::unbuilt(view.spec.clone(), None),
            Some(target) => {
                let writer = self.create_ring(&view, &target)?;
                target.views.build(view.spec.clone(), Some(writer))?
            }
        };
        Ok(Replacement { built, view })
    }

    /// Builds a view and its ring for the newest target, from the frame of `at` on; leaves it as it is if the stream had no frame yet.
    pub(super) fn build_in_place(
        &self,
        view: &mut View<Publisher>,
        at: FrameTime,
    ) -> Result<(), StreamError> {
        let Some(target) = self.target_of(view.spec())? else { return Ok(()) };
        let writer = self.create_ring(&view.sink.served(view.spec()), &target)?;
        target.views.rebuild(view, at)?;
        view.sink.move_to(writer)?;
        Ok(())
    }

    /// The frames and the backend that a view of `spec` is built for; `None` before the first frame. Fails if the stream lacks something that
    /// the view publishes.
    fn target_of(&self, spec: &ViewSpec) -> Result<Option<BuildTarget>, StreamError> {
        let target = self.target.lock().clone();
        self.check(spec, target.as_ref().map(|target| target.views.kind().extent))?;
        Ok(target)
    }

    /// Whether the stream has what a view publishes, as far as is known before its first frame, whose size is `extent`.
    fn check(&self, spec: &ViewSpec, extent: Option<Extent>) -> Result<(), StreamError> {
        if spec.wants_depth() && !self.has_depth {
            return Err(StreamError::NoDepth);
        }
        let calibrated = || self.camera.as_ref().map(|camera| camera.calibration.extent);
        let extent = extent.or_else(calibrated);
        if spec.boxes && extent.and_then(|extent| self.rays(extent)).is_none() {
            return Err(StreamError::NoRays);
        }
        Ok(())
    }

    fn create_ring(&self, view: &ServedView, target: &BuildTarget) -> Result<Writer, StreamError> {
        let spec = self.spec_of_segment(view, target);
        Writer::create(&spec).map_err(|source| StreamError::Ring { view: spec.view, source })
    }

    /// The segment that a view needs; `None` where the stream had no frame yet.
    pub(super) fn segment_spec(&self, view: &ServedView) -> Option<SegmentSpec> {
        let target = self.target.lock().clone()?;
        Some(self.spec_of_segment(view, &target))
    }

    fn spec_of_segment(&self, view: &ServedView, target: &BuildTarget) -> SegmentSpec {
        let BuildTarget { views, backend, picture } = target;
        let kind = views.kind();
        SegmentSpec {
            picture: *picture,
            slot_count: view.slot_count,
            camera: self.camera.as_ref().map(|camera| camera.facts(kind.extent)),
            ..segment_of(&view.spec, &self.stream, &view.name, kind, backend)
        }
    }
}
