//! Events on real clips.

use crate::footage::clip;
use crate::watched::{Watched, for_each_frame};

#[test]
fn explore() {
    for name in ["vtest.avi", "box.mp4"] {
        let path = clip(name).unwrap();
        let mut watched = Watched::new(true);
        for_each_frame(&path, None, |frame| {
            watched.take(&frame.view(), if name == "vtest.avi" { 100 } else { 33 });
            true
        });
        eprintln!("{name}: {} frames", watched.frame_seq);
        for event in &watched.told {
            eprintln!("  {event:?}");
        }
    }
}
