//! Starts a stream, with what it needs beside its source.

use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use super::StreamFailure;
use super::frame_loop::FrameLoop;
use crate::stream::{BackendError, Backends, ServedView, StreamBackend, StreamError};
use foveate_config::StreamConfig;
use foveate_core::camera::Camera;
use foveate_core::camera::rays::Rays;
use foveate_server::directory::StreamPort;

/// Starts the thread of the stream of `config`, which publishes through `port`, until there is a reason to `stop`. `ended` is called on
/// the thread when it ends, after the directory has been updated.
///
/// # Errors
///
/// If something other than its source is missing: a backend, a gaze log, a calibration, a thread. The directory then lists the stream
/// as ended.
pub(super) fn start(
    config: &StreamConfig,
    port: StreamPort,
    backends: &Backends,
    stop: Arc<OnceLock<&'static str>>,
    ended: impl FnOnce(Result<(), StreamFailure>) + Send + 'static,
) -> Result<JoinHandle<()>, StreamFailure> {
    let entry = Arc::clone(port.entry());
    let spawn = || -> Result<_, StreamFailure> {
        let backend = backend(config, backends)?;
        let (plans, camera) = (plans(config)?, camera(config)?);
        let frame_loop = FrameLoop::new(config, backend, port, plans, camera, stop);
        let frame_loop = frame_loop.map_err(StreamFailure::NoThread)?;
        let builder = thread::Builder::new().name(format!("frames-{}", config.name));
        builder.spawn(move || ended(frame_loop.run())).map_err(StreamFailure::NoThread)
    };
    spawn().inspect_err(|error| entry.ended(&foveate_core::error::chain(error)))
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
