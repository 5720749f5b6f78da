//! Tests of laws that hold for each backend.

use foveate_core::frame::FrameKind;
use testkit::backends::Player;

/// Makes the backend that is held to the laws.
pub(crate) type Make<'a> = &'a dyn Fn(FrameKind) -> Player;

/// Makes one test of each law for each backend.
macro_rules! laws {
    ($($law:ident)*) => {
        mod cpu {
            $(#[test]
            fn $law() {
                super::$law(&testkit::backends::on_cpu);
            })*
        }

        #[cfg(feature = "vulkan")]
        mod vulkan {
            $(#[test]
            fn $law() {
                testkit::device::with_gpu(|gpu| super::$law(&|kind| testkit::backends::host_diff_on(gpu, kind)));
            })*
        }

        #[cfg(feature = "vulkan")]
        mod comparing {
            $(#[test]
            fn $law() {
                testkit::device::with_gpu(|gpu| super::$law(&|kind| testkit::backends::device_diff_on(gpu, kind)));
            })*
        }
    };
}
