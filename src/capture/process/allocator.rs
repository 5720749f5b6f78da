//! Memory of a source process that the daemon can read, for the elements that write frames.
#![allow(unsafe_code, reason = "GStreamer takes memory by pointers")]

use std::sync::{Arc, OnceLock};

use gst::glib;
use gst::glib::translate::IntoGlibPtr;
use gst::prelude::*;
use gst::subclass::prelude::*;
use gstreamer as gst;
use gstreamer_video as gst_video;

use foveate_source::pool::{Pool, Purpose};

mod imp {
    use super::*;

    #[derive(Debug, Default)]
    pub struct SharedAllocator {
        pub(super) pool: OnceLock<Arc<Pool>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for SharedAllocator {
        const NAME: &'static str = "FoveateSharedAllocator";
        type Type = super::SharedAllocator;
        type ParentType = gst::Allocator;
    }

    impl ObjectImpl for SharedAllocator {}
    impl GstObjectImpl for SharedAllocator {}

    // SAFETY: `alloc` returns memory of the size that was asked for, which is GStreamer's own or of a slice and frees itself.
    unsafe impl AllocatorImpl for SharedAllocator {
        unsafe fn alloc(
            &self,
            size: usize,
            params: &gst::AllocationParams,
        ) -> *mut gst::ffi::GstMemory {
            self.memory(size, params).into_glib_ptr()
        }
    }

    impl SharedAllocator {
        /// Memory of the pool, or GStreamer's own, frames in which are copied, where the pool has no more.
        fn memory(&self, size: usize, params: &gst::AllocationParams) -> gst::Memory {
            let (prefix, padding) = (params.prefix(), params.padding());
            let whole = size.checked_add(prefix).and_then(|bytes| bytes.checked_add(padding));
            let pooled = whole.zip(self.pool.get()).and_then(|(bytes, pool)| {
                // It begins at a page, and its bytes are 0.
                pool.allocate(bytes, Purpose::Element).ok()
            });
            match pooled.map(gst::Memory::from_mut_slice) {
                Some(mut memory) => {
                    let own = memory.get_mut().expect("just made");
                    own.resize(prefix..prefix + size);
                    memory
                }
                None => gst::Memory::with_size_and_params(size, params),
            }
        }
    }
}

glib::wrapper! {
    /// Gives memory of a [`Pool`].
    pub struct SharedAllocator(ObjectSubclass<imp::SharedAllocator>) @extends gst::Allocator, gst::Object;
}

/// An allocator of the memory of `pool`. GStreamer must be initialised.
pub(in super::super) fn of(pool: &Arc<Pool>) -> gst::Allocator {
    let allocator: SharedAllocator = glib::Object::new();
    allocator.imp().pool.set(Arc::clone(pool)).expect("just made");
    allocator.upcast()
}

/// Answers `query` of an element before the appsink with memory of `pool`: an allocator of it, and a pool of GStreamer's, because decoders
/// of libav decode straight into buffers of a pool that they are given, but take memory of their own for those of their own pool.
pub(in super::super) fn offer(query: &mut gst::query::Allocation, pool: &Arc<Pool>) {
    let allocator = of(pool);
    query.add_allocation_param(Some(&allocator), gst::AllocationParams::default());
    let (Some(caps), true) = query.get_owned() else { return };
    let Ok(info) = gst_video::VideoInfo::from_caps(&caps) else { return };
    let Ok(size) = u32::try_from(info.size()) else { return };
    let pool = gst_video::VideoBufferPool::new();
    let mut config = pool.config();
    config.set_params(Some(&caps), size, 0, 0);
    config.set_allocator(Some(&allocator), None);
    config.add_option(gst_video::BUFFER_POOL_OPTION_VIDEO_META.as_ref());
    if pool.set_config(config).is_ok() {
        query.add_allocation_pool(Some(&pool), size, 0, 0);
    }
}
