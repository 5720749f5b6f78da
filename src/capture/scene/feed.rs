//! Feeds the scene to the `appsrc` of a description.

use foveate_core::geometry::extent::Extent;
use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;
use gstreamer_video as gst_video;
use gstreamer_video::prelude::*;

use super::{Planes, Scene};

/// The name of the `appsrc` that is fed.
const NAME: &str = "scene";

/// Pictures that exist at a time at first: one is drawn, one waits for its time, and others are read.
const PICTURES: u32 = 4;

/// Feeds `element` if it asks for the scene. One with other caps than NV12 of a known size gets nothing: it is in no description of ours.
pub(crate) fn start(element: &gst::Element) {
    let Some(source) = element.downcast_ref::<gst_app::AppSrc>() else { return };
    if source.name() != NAME {
        return;
    }
    let info = source.caps().and_then(|caps| gst_video::VideoInfo::from_caps(&caps).ok());
    let Some(info) = info.filter(|info| info.format() == gst_video::VideoFormat::Nv12) else {
        return;
    };
    let Some(mut feed) = Feed::new(info) else { return };
    let on_need = move |source: &gst_app::AppSrc, _| feed.push(source);
    source.set_callbacks(gst_app::AppSrcCallbacks::builder().need_data(on_need).build());
}

struct Feed {
    scene: Scene,
    info: gst_video::VideoInfo,
    pool: gst_video::VideoBufferPool,
    /// The number of the next picture.
    next: u64,
}

impl Feed {
    fn new(info: gst_video::VideoInfo) -> Option<Self> {
        let scene = Scene::new(Extent::new(info.width(), info.height()));
        let pool = gst_video::VideoBufferPool::new();
        let size = u32::try_from(info.size()).ok()?;
        let mut config = pool.config();
        config.set_params(Some(&info.to_caps().ok()?), size, PICTURES, 0);
        pool.set_config(config).ok()?;
        pool.set_active(true).ok()?;
        Some(Self { scene, info, pool, next: 0 })
    }

    /// Draws the next picture and hands it over. On a machine that cannot keep up a live source leaves pictures out, so that each is shown
    /// at its own time.
    fn push(&mut self, source: &gst_app::AppSrc) {
        let number = self.next.max(self.due(source).unwrap_or(0));
        self.next = number + 1;
        // Fails where the pipeline stops, which then ends the stream.
        let Ok(mut buffer) = self.pool.acquire_buffer(None) else { return };
        let (time, next) = (self.time_of(number), self.time_of(self.next));
        let owned = buffer.make_mut();
        owned.set_pts(time);
        owned.set_duration(next - time);
        owned.set_offset(number);
        owned.unset_flags(gst::BufferFlags::DISCONT);
        if let Ok(mut frame) = gst_video::VideoFrameRef::from_buffer_ref_writable(owned, &self.info)
        {
            let strides = [0, 1].map(|plane| frame.plane_stride()[plane].unsigned_abs() as usize);
            let [luma, chroma, ..] = frame.planes_data_mut();
            let [luma_stride, chroma_stride] = strides;
            self.scene.draw(number, Planes { luma, luma_stride, chroma, chroma_stride });
        }
        let _ = source.push_buffer(buffer);
    }

    /// The number of the picture whose time it is, if `source` is live.
    fn due(&self, source: &gst_app::AppSrc) -> Option<u64> {
        let now = source.current_running_time().filter(|_| source.is_live())?;
        let fps = self.info.fps();
        let (count, second) = (u64::try_from(fps.numer()).ok()?, u64::try_from(fps.denom()).ok()?);
        now.nseconds().mul_div_floor(count, second.checked_mul(1_000_000_000)?)
    }

    fn time_of(&self, number: u64) -> gst::ClockTime {
        let fps = self.info.fps();
        let (count, second) = (fps.numer().max(1).unsigned_abs(), fps.denom().unsigned_abs());
        let ns = number.mul_div_floor(1_000_000_000 * u64::from(second), u64::from(count));
        gst::ClockTime::from_nseconds(ns.unwrap_or(u64::MAX - 1))
    }
}
