//! Builds views on another thread while the stream runs.

use std::sync::Arc;

use parking_lot::Mutex;

use super::publisher::waker;
use super::{ServedView, StreamError};
use crate::channel::ViewChannel;
use foveate_core::backend::BackendInfo;
use foveate_core::camera::Camera;
use foveate_core::camera::rays::Rays;
use foveate_core::geometry::extent::Extent;
use foveate_core::pixel::PixelFacts;
use foveate_core::view::ViewSpec;
use foveate_engine::{View, ViewBuilder};
use foveate_ring::{SegmentSpec, Waker, Writer};

/// Builds views of one stream and their rings, on any thread. The stream takes the lock only when the kind of its frames or its
/// backend changes.
#[derive(Clone, Debug)]
pub struct RingBuilder {
    stream: String,
    camera: Option<Arc<Camera>>,
    has_depth: bool,
    /// `None` until the first frame.
    target: Arc<Mutex<Option<Target>>>,
}

/// What views are built for.
#[derive(Clone, Debug)]
struct Target {
    views: ViewBuilder,
    backend: BackendInfo,
    picture: PixelFacts,
}

/// A view ready to be [added](super::Stream::add_view) to its stream.
#[derive(Debug)]
pub struct NewView {
    pub(super) view: ServedView,
    pub(super) channel: ViewChannel,
    /// `None` if the stream had no frame yet.
    pub(super) built: Option<(View<Writer>, Waker)>,
}

/// The [replacement](super::Stream::replace_view) of a view of the stream.
#[derive(Debug)]
pub struct Replacement {
    pub(super) view: ServedView,
    /// `None` if the stream had no frame yet.
    pub(super) built: Option<View<Writer>>,
}

impl RingBuilder {
    /// The builder of a stream before its first frame.
    pub(super) fn new(stream: &str, camera: Option<Arc<Camera>>, has_depth: bool) -> Self {
        Self { stream: stream.to_owned(), camera, has_depth, target: Arc::default() }
    }

    /// The rays of sources of `extent`; `None` if they are not known.
    pub(super) fn rays(&self, extent: Extent) -> Option<Rays> {
        self.camera.as_ref().and_then(|camera| Rays::of(&camera.facts(extent)).ok())
    }

    /// Sets the engine, the backend and the pictures that views are built for.
    pub(super) fn set_target(
        &self,
        views: ViewBuilder,
        backend: &BackendInfo,
        picture: PixelFacts,
    ) {
        *self.target.lock() = Some(Target { views, backend: backend.clone(), picture });
    }

    /// Builds a new view.
    ///
    /// # Errors
    ///
    /// If there is no memory for its ring, or the backend refuses it.
    pub fn build_new(
        &self,
        view: ServedView,
        channel: ViewChannel,
    ) -> Result<NewView, StreamError> {
        let built = match self.build(&view)? {
            None => None,
            Some(built) => {
                let waker = waker(&view.name, &channel, &built.sink)?;
                Some((built, waker))
            }
        };
        Ok(NewView { view, channel, built })
    }

    /// Rebuilds an outdated view.
    ///
    /// # Errors
    ///
    /// As for [`build_new`](Self::build_new).
    pub fn rebuild(&self, view: NewView) -> Result<NewView, StreamError> {
        self.build_new(view.view, view.channel)
    }

    /// Builds the replacement of a view.
    ///
    /// # Errors
    ///
    /// As for [`build_new`](Self::build_new).
    pub fn build_replacement(&self, view: ServedView) -> Result<Replacement, StreamError> {
        Ok(Replacement { built: self.build(&view)?, view })
    }

    /// Builds a view and its ring; `None` where the stream had no frame yet.
    pub(super) fn build(&self, view: &ServedView) -> Result<Option<View<Writer>>, StreamError> {
        let target = self.target.lock().clone();
        self.check(&view.spec, target.as_ref().map(|target| target.views.kind().extent))?;
        let Some(Target { views, .. }) = &target else { return Ok(None) };
        Ok(Some(views.build(view.spec.clone(), self.create_ring(view)?)?))
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

    /// The ring of a view, once the stream has frames.
    pub(super) fn create_ring(&self, view: &ServedView) -> Result<Writer, StreamError> {
        let spec = self.segment_spec(view).expect("the stream has frames");
        Writer::create(&spec).map_err(|source| StreamError::Ring { view: spec.view, source })
    }

    /// The segment that a view needs; `None` where the stream had no frame yet.
    pub(super) fn segment_spec(&self, view: &ServedView) -> Option<SegmentSpec> {
        let Target { views, backend, picture } = self.target.lock().clone()?;
        let kind = views.kind();
        Some(SegmentSpec {
            picture,
            slot_count: view.slot_count,
            camera: self.camera.as_ref().map(|camera| camera.facts(kind.extent)),
            ..SegmentSpec::of(&view.spec, &self.stream, &view.name, kind, &backend)
        })
    }
}
