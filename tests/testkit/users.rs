//! Threads of other users, which need root. Without, tests fail, or are left out if `FOVEATE_WITHOUT_USERS=1`.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

use crate::left_out::is_left_out;

/// Whether there can be threads of other users.
pub fn are_there() -> bool {
    const WITHOUT: &str = "FOVEATE_WITHOUT_USERS";
    if is_left_out(WITHOUT) {
        return false;
    }
    assert!(
        geteuid().is_root(),
        "only root can be another user; {WITHOUT}=1 leaves these tests out"
    );
    true
}

/// Does `work` on a thread of `user`, who keeps the test's groups.
pub fn as_user<T: Send>(user: u32, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let user = Uid::from_raw(user);
            // Of this thread only, unlike the C library's function.
            set_thread_res_uid(user, user, user).unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

/// Lets every user enter `folder`.
pub fn open_to_all(folder: &Path) {
    set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
}
