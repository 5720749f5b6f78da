//! One running stream: its thread, and how to stop it.

use std::thread::{self, JoinHandle};

use super::StreamFailure;
use super::frame_loop::{FrameLoop, StopSign};
use crate::control::directory::StreamPort;
use crate::stream::{BackendError, Backends, ServedView, StreamBackend, StreamError};
use foveate_config::StreamConfig;
use foveate_core::camera::Camera;
use foveate_core::camera::rays::Rays;

/// A stream and its thread. Dropping it leaves the stream running.
#[derive(Debug)]
pub(super) struct RunningStream {
    name: String,
    stop: StopSign,
    thread: JoinHandle<()>,
}

impl RunningStream {
    /// Starts the stream of `config`, which publishes through `port`. `ended` is called on its thread when it ends, after the
    /// directory has been updated.
    ///
    /// # Errors
    ///
    /// If something other than its source is missing: a backend, a gaze log, a calibration, a thread. The directory then lists the
    /// stream as ended.
    pub(super) fn start(
        config: &StreamConfig,
        port: StreamPort,
        backends: &Backends,
        ended: impl FnOnce(Result<(), StreamFailure>) + Send + 'static,
    ) -> Result<Self, StreamFailure> {
        let stop = StopSign::default();
        let entry = port.status_reporter();
        let started = Self::spawn(config, port, backends, stop.clone(), ended);
        if let Err(error) = &started {
            entry.ended(&foveate_core::error::chain(error));
        }
        Ok(Self { name: config.name.clone(), stop, thread: started? })
    }

    fn spawn(
        config: &StreamConfig,
        port: StreamPort,
        backends: &Backends,
        stop: StopSign,
        ended: impl FnOnce(Result<(), StreamFailure>) + Send + 'static,
    ) -> Result<JoinHandle<()>, StreamFailure> {
        let backend = backend(config, backends)?;
        let (plans, camera) = (plans(config)?, camera(config)?);
        let frame_loop = FrameLoop::new(config, backend, port, plans, camera, stop);
        let frame_loop = frame_loop.map_err(StreamFailure::NoThread)?;
        let builder = thread::Builder::new().name(format!("frames-{}", config.name));
        builder.spawn(move || ended(frame_loop.run())).map_err(StreamFailure::NoThread)
    }

    /// Asks the stream to end; the first reason counts. Its thread informs readers and listings.
    pub(super) fn stop(&self, reason: &'static str) {
        self.stop.raise(reason);
    }

    pub(super) fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!(stream = self.name, "a frame loop panicked");
        }
    }
}

/// The backend of a stream.
pub(super) fn backend(
    stream: &StreamConfig,
    backends: &Backends,
) -> Result<StreamBackend, BackendError> {
    let chosen = backends.choose(stream.backend, stream.device.as_deref())?;
    chosen.with_change_on(stream.change.on)
}

/// The views of a stream, with the gaze logs that they replay.
pub(super) fn plans(stream: &StreamConfig) -> Result<Vec<ServedView>, StreamFailure> {
    Ok(stream.views.iter().map(ServedView::try_from).collect::<Result<_, _>>()?)
}

/// The camera of a stream, with its calibration, from which boxes can be made if a view publishes some.
pub(super) fn camera(stream: &StreamConfig) -> Result<Option<Camera>, StreamFailure> {
    let camera = stream.camera.as_ref().map(|camera| camera.load(&stream.name)).transpose()?;
    let needs_rays = stream.views.iter().any(|view| view.boxes);
    let has_rays = |camera: &Camera| Rays::of(&camera.facts(camera.calibration.extent)).is_some();
    if needs_rays && !camera.as_ref().is_some_and(has_rays) {
        return Err(StreamError::NoRays.into());
    }
    Ok(camera)
}
