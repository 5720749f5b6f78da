//! Any retina, whether it is told the dirty tiles or finds them.

#![allow(dead_code, unreachable_pub, reason = "each program uses a part")]

use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::TileSet;
use foveate_engine::retina::{
    DetectingRetina, RefusedView, Retina, UpdateTimes, ViewMaker, ViewPass, ViewSample,
};

/// A retina, by who finds the tiles that it ingests.
pub enum Eye {
    Told(Box<dyn Retina>),
    Detecting { retina: Box<dyn DetectingRetina>, ingested: TileSet },
}

impl Eye {
    pub fn told(retina: impl Retina + 'static) -> Self {
        Self::Told(Box::new(retina))
    }

    pub fn detecting(retina: impl DetectingRetina + 'static, kind: FrameKind) -> Self {
        Self::Detecting { retina: Box::new(retina), ingested: TileSet::none(kind.extent) }
    }

    /// Takes a frame whose changes all lie in the tiles of `dirty`.
    pub fn update(
        &mut self,
        frame: &FrameView<'_>,
        dirty: &TileSet,
        is_first: bool,
        samples: &mut [ViewSample],
    ) -> UpdateTimes {
        match self {
            Self::Told(retina) => retina.update(frame, dirty, samples).unwrap(),
            Self::Detecting { retina, ingested } => {
                let rule = IngestRule { is_first, threshold: 0, refreshed: 0..0 };
                let largest = retina.detect(frame, &rule, samples).unwrap();
                ingested.clear();
                for (index, &largest) in largest.iter().enumerate() {
                    if rule.ingests(index, largest) {
                        ingested.insert_index(index);
                    }
                }
                assert!(ingested.iter().all(|(column, row)| dirty.contains(column, row)));
                retina.collect(ingested, samples)
            }
        }
    }

    pub fn keep_coarse(&mut self, wanted: bool) {
        match self {
            Self::Told(retina) => retina.keep_coarse(wanted),
            Self::Detecting { retina, .. } => retina.keep_coarse(wanted),
        }
    }

    pub fn read_coarse(&mut self, frame: &FrameView<'_>, target: &mut CoarseLevel) {
        match self {
            Self::Told(retina) => retina.read_coarse(frame, target).unwrap(),
            Self::Detecting { retina, .. } => retina.read_coarse(target).unwrap(),
        }
    }

    pub fn read_level(&mut self, frame: &FrameView<'_>, level: u32) -> Vec<u8> {
        match self {
            Self::Told(retina) => retina.read_level(frame, level).unwrap(),
            Self::Detecting { retina, .. } => retina.read_level(level).unwrap(),
        }
    }

    pub fn view_maker(&self) -> ViewMaker {
        match self {
            Self::Told(retina) => retina.view_maker(),
            Self::Detecting { retina, .. } => retina.view_maker(),
        }
    }

    pub fn add_view(&mut self, view: ViewPass) -> Result<(), RefusedView> {
        match self {
            Self::Told(retina) => retina.add_view(view),
            Self::Detecting { retina, .. } => retina.add_view(view),
        }
    }

    pub fn remove_view(&mut self, index: usize) -> ViewPass {
        match self {
            Self::Told(retina) => retina.remove_view(index),
            Self::Detecting { retina, .. } => retina.remove_view(index),
        }
    }
}
