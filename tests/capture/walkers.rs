//! Who walks where before a fixed camera: the ground truth of tests on the clip `vtest.avi`.

use std::sync::OnceLock;

/// A half-open box in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PixelBox {
    pub(crate) x0: f64,
    pub(crate) y0: f64,
    pub(crate) x1: f64,
    pub(crate) y1: f64,
}

impl PixelBox {
    pub(crate) fn centre(self) -> (f64, f64) {
        ((self.x0 + self.x1) / 2.0, (self.y0 + self.y1) / 2.0)
    }

    /// Whether a point lies in it, or at most `margin` pixels outside.
    pub(crate) fn contains(self, (x, y): (f64, f64), margin: f64) -> bool {
        (self.x0 - margin..self.x1 + margin).contains(&x)
            && (self.y0 - margin..self.y1 + margin).contains(&y)
    }

    /// Whether both have a part in common.
    pub(crate) fn touches(self, other: Self) -> bool {
        self.x0.max(other.x0) < self.x1.min(other.x1)
            && self.y0.max(other.y0) < self.y1.min(other.y1)
    }

    /// The box moved by `dx` to the right and `dy` down.
    pub(crate) fn moved(self, (dx, dy): (f64, f64)) -> Self {
        Self { x0: self.x0 + dx, y0: self.y0 + dy, x1: self.x1 + dx, y1: self.y1 + dy }
    }
}

/// One walker, from the first frame in sight to the last.
#[derive(Clone, Debug)]
pub(crate) struct Walker {
    /// Index of the first frame.
    pub(crate) first: usize,
    /// The box in each frame from `first` on.
    pub(crate) boxes: Vec<PixelBox>,
}

impl Walker {
    /// Where the walker is in the frame of this index.
    pub(crate) fn at(&self, index: usize) -> Option<PixelBox> {
        self.boxes.get(index.checked_sub(self.first)?).copied()
    }
}

/// Everybody who is in sight for two seconds.
pub(crate) fn walkers() -> &'static [Walker] {
    static WALKERS: OnceLock<Vec<Walker>> = OnceLock::new();
    let lines = include_str!("../data/vtest.walkers").lines().filter(|line| !line.starts_with('#'));
    WALKERS.get_or_init(|| lines.map(walker).collect())
}

fn walker(line: &str) -> Walker {
    let (first, boxes) = line.split_once(": ").unwrap();
    let pixel_box = |text: &str| {
        let sides: Vec<f64> = text.split(' ').map(|side| side.parse().unwrap()).collect();
        PixelBox { x0: sides[0], y0: sides[1], x1: sides[2], y1: sides[3] }
    };
    Walker { first: first.parse().unwrap(), boxes: boxes.split(", ").map(pixel_box).collect() }
}
