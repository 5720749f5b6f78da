//! GStreamer's registry of plugins. Where there is none, each process would scan all plugins, for seconds of processor time: one does,
//! and the others wait for its registry.

use std::env;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use gstreamer::glib;

/// The variables that name the file, in the order of GStreamer.
const VARIABLES: [&str; 2] = ["GST_REGISTRY_1_0", "GST_REGISTRY"];

/// The lock of the one process that looks for plugins, to be held until GStreamer has started; `None` if none needs to, if another one has
/// done so meanwhile, or if no registry can be written here.
pub(super) fn lock() -> Option<File> {
    let named = VARIABLES.iter().find_map(env::var_os).map(PathBuf::from);
    let (is_there, folder) = match &named {
        Some(file) => (file.exists(), file.parent()?.to_owned()),
        None => {
            let folder = glib::user_cache_dir().join("gstreamer-1.0");
            (has_registry(&folder), folder)
        }
    };
    if is_there {
        return None;
    }
    fs::create_dir_all(&folder).ok()?;
    let lock = File::create(folder.join("foveate.lock")).ok()?;
    match lock.try_lock() {
        Ok(()) => Some(lock),
        Err(TryLockError::WouldBlock) => {
            // It is released with the process, if that is killed.
            let _ = lock.lock();
            None
        }
        Err(TryLockError::Error(_)) => None,
    }
}

/// Whether `folder` has a registry, whose file name contains the name of the processor.
fn has_registry(folder: &Path) -> bool {
    let mut names =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.file_name());
    names.any(|name| {
        let name = name.as_encoded_bytes();
        name.starts_with(b"registry.") && name.ends_with(b".bin")
    })
}
