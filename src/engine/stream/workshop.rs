//! Views that come while the stream runs: made on another thread, so that no frame waits for them.

use std::sync::Arc;

use parking_lot::Mutex;

use super::view::{self, Arrival, View};
use super::{StreamError, ViewPlan};
use crate::link::ViewLink;
use crate::retina::{ViewMaker, ViewPass, ViewSample};
use foveate_core::backend::Backend;
use foveate_core::camera::Camera;
use foveate_core::frame::FrameKind;
use foveate_ring::Writer;

/// Makes views for one stream, on any thread. The stream locks what it knows of it only to change it, when the kind of its
/// frames or its backend changes.
#[derive(Clone, Debug)]
pub struct Workshop {
    stream: String,
    camera: Option<Arc<Camera>>,
    blueprint: Arc<Mutex<Option<Blueprint>>>,
}

/// What views are made for.
#[derive(Clone, Debug)]
pub(super) struct Blueprint {
    pub(super) kind: FrameKind,
    pub(super) backend: Backend,
    pub(super) maker: ViewMaker,
}

/// A view that is ready to [join](super::Stream::add_view) its stream.
#[derive(Debug)]
pub struct NewView {
    pub(super) view: View,
    pub(super) sample: ViewSample,
    /// For which frames, and what samples them; `None` where the stream had no frame yet.
    pub(super) pass: Option<(FrameKind, ViewPass)>,
}

/// What makes a view of a stream [another one](super::Stream::refit_view).
#[derive(Debug)]
pub struct Refit {
    pub(super) plan: ViewPlan,
    pub(super) sample: ViewSample,
    /// `None` where the stream had no frame yet.
    pub(super) made: Option<RefitRing>,
}

/// What was made for frames of one kind.
#[derive(Debug)]
pub(super) struct RefitRing {
    pub(super) kind: FrameKind,
    pub(super) pass: ViewPass,
    pub(super) writer: Writer,
}

/// A view that has [left](super::Stream::remove_view) its stream, or what it was before it became [another
/// one](super::Stream::refit_view), to be dropped where nobody waits for it.
#[derive(Debug)]
pub struct OldView {
    _view: Option<View>,
    _sample: ViewSample,
    _pass: Option<ViewPass>,
}

impl OldView {
    /// What there was of it.
    pub(super) fn new(view: Option<View>, sample: ViewSample, pass: Option<ViewPass>) -> Self {
        Self { _view: view, _sample: sample, _pass: pass }
    }
}

impl Workshop {
    /// For a stream that has seen no frame.
    pub(super) fn new(stream: &str, camera: Option<Arc<Camera>>) -> Self {
        Self { stream: stream.to_owned(), camera, blueprint: Arc::default() }
    }

    /// The stream has frames of another kind, or another backend, from now on.
    pub(super) fn set(&self, blueprint: Blueprint) {
        *self.blueprint.lock() = Some(blueprint);
    }

    /// Makes a view: its ring, and what samples it.
    ///
    /// # Errors
    ///
    /// If there is no memory for its ring, or the backend refuses it.
    pub fn make(&self, plan: ViewPlan, link: ViewLink) -> Result<NewView, StreamError> {
        self.furnish(View::new(plan, link))
    }

    /// Makes a view again that was made for what the stream was before.
    ///
    /// # Errors
    ///
    /// As for [`Workshop::make`].
    pub fn remake(&self, view: NewView) -> Result<NewView, StreamError> {
        self.furnish(view.view)
    }

    /// Makes what it takes for a view to follow another `plan`.
    ///
    /// # Errors
    ///
    /// As for [`Workshop::make`].
    pub fn refit(&self, plan: ViewPlan) -> Result<Refit, StreamError> {
        let sample = ViewSample::new(plan.format, plan.budget);
        let blueprint = self.blueprint.lock().clone();
        let made = blueprint.map(|Blueprint { kind, backend, maker }| {
            let pass = maker.make(view::spec(&plan))?;
            let camera = self.camera.as_deref();
            let spec = view::segment_spec(&plan, &self.stream, kind, &backend, camera);
            Ok::<_, StreamError>(RefitRing { kind, pass, writer: view::create_ring(&spec)? })
        });
        Ok(Refit { plan, sample, made: made.transpose()? })
    }

    fn furnish(&self, mut view: View) -> Result<NewView, StreamError> {
        let sample = ViewSample::new(view.plan.format, view.plan.budget);
        let blueprint = self.blueprint.lock().clone();
        let mut pass = None;
        if let Some(Blueprint { kind, backend, maker }) = blueprint {
            pass = Some((kind, maker.make(view.spec())?));
            let spec = view.segment_spec(&self.stream, kind, &backend, self.camera.as_deref());
            view.set_arrival(Arrival::prepare(&view, &spec)?);
        }
        Ok(NewView { view, sample, pass })
    }
}
