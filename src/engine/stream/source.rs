//! What a stream builds for frames of one kind: the resident copy and the pyramid, and who brings them up to date.

use std::{fmt, mem};

use super::workshop::Blueprint;
use crate::change::books::ChangeBooks;
use crate::change::detect::ChangeDetector;
use crate::retina::backend::{BuiltRetina, StreamBackend};
use crate::retina::{
    DetectingRetina, RefusedView, Retina, RetinaError, UpdateTimes, ViewPass, ViewSample, ViewSpec,
};
use foveate_config::ChangeConfig;
use foveate_core::backend::Backend;
use foveate_core::clock::{Span, monotonic_ns};
use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::TileSet;

/// The resident copy and the pyramid of frames of one kind.
pub(super) struct Source {
    kind: FrameKind,
    config: ChangeConfig,
    eye: Eye,
    coarse: CoarseLevel,
    /// The frame that `coarse` shows; `None` where nobody wants it.
    coarse_of: Option<u64>,
    keeps_coarse: bool,
}

/// Who finds what changed.
enum Eye {
    /// The CPU keeps the resident copy, and tells the retina.
    Cpu { detector: ChangeDetector, retina: Box<dyn Retina> },
    /// The retina keeps it, and tells the CPU.
    Gpu { books: ChangeBooks, retina: Box<dyn DetectingRetina> },
}

/// What is left of a retina: whoever drops it may have to wait for a driver.
pub(super) type Remains = Box<dyn Send>;

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Source {
    /// Builds it for frames like `frame`, of which none has been seen yet.
    pub(super) fn build(
        backend: &mut StreamBackend,
        frame: &FrameView<'_>,
        config: ChangeConfig,
        views: &[ViewSpec],
    ) -> Result<Self, RetinaError> {
        let kind = frame.kind();
        let eye = match backend.build(kind, views)? {
            BuiltRetina::Told(retina) => {
                Eye::Cpu { detector: ChangeDetector::new(frame, config), retina }
            }
            BuiltRetina::Detecting(retina) => {
                Eye::Gpu { books: ChangeBooks::new(kind, config), retina }
            }
        };
        let coarse = CoarseLevel::new(PyramidShape::new(kind.extent));
        Ok(Self { kind, config, eye, coarse, coarse_of: None, keeps_coarse: false })
    }

    /// The coarse level that was last taken from the pyramid, and the frame that it shows.
    pub(super) fn seen(&self) -> Option<(&CoarseLevel, u64)> {
        self.coarse_of.map(|frame_seq| (&self.coarse, frame_seq))
    }

    /// Takes the coarse level of the newest frame from the pyramid, if it is `wanted`.
    pub(super) fn look(&mut self, frame_seq: u64, wanted: bool) {
        if self.keeps_coarse != wanted {
            self.keeps_coarse = wanted;
            match &mut self.eye {
                Eye::Cpu { retina, .. } => retina.keep_coarse(wanted),
                Eye::Gpu { retina, .. } => retina.keep_coarse(wanted),
            }
        }
        self.coarse_of = None;
        if wanted {
            match self.read_coarse() {
                Ok(()) => self.coarse_of = Some(frame_seq),
                // The next update fails, too, and gives way to the CPU.
                Err(error) => tracing::warn!(%error, "the coarse level of a frame is not seen"),
            }
        }
    }

    fn read_coarse(&mut self) -> Result<(), RetinaError> {
        match &mut self.eye {
            Eye::Cpu { detector, retina } => {
                retina.read_coarse(&detector.resident(), &mut self.coarse)
            }
            Eye::Gpu { retina, .. } => retina.read_coarse(&mut self.coarse),
        }
    }

    /// What views are made for.
    pub(super) fn blueprint(&self, backend: &Backend) -> Blueprint {
        let maker = match &self.eye {
            Eye::Cpu { retina, .. } => retina.view_maker(),
            Eye::Gpu { retina, .. } => retina.view_maker(),
        };
        Blueprint { kind: self.kind, backend: backend.clone(), maker }
    }

    /// Samples one more view from the next frame on.
    pub(super) fn add_view(&mut self, pass: ViewPass) -> Result<(), RefusedView> {
        match &mut self.eye {
            Eye::Cpu { retina, .. } => retina.add_view(pass),
            Eye::Gpu { retina, .. } => retina.add_view(pass),
        }
    }

    /// Samples view `index` no more.
    pub(super) fn remove_view(&mut self, index: usize) -> ViewPass {
        match &mut self.eye {
            Eye::Cpu { retina, .. } => retina.remove_view(index),
            Eye::Gpu { retina, .. } => retina.remove_view(index),
        }
    }

    /// What the frames have in common.
    pub(super) fn kind(&self) -> FrameKind {
        self.kind
    }

    /// The shape of the pyramid.
    pub(super) fn shape(&self) -> PyramidShape {
        match &self.eye {
            Eye::Cpu { retina, .. } => retina.shape(),
            Eye::Gpu { retina, .. } => retina.shape(),
        }
    }

    /// What is known of the changes so far.
    pub(super) fn books(&self) -> &ChangeBooks {
        match &self.eye {
            Eye::Cpu { detector, .. } => detector.books(),
            Eye::Gpu { books, .. } => books,
        }
    }

    /// Finds what changed in `frame`, brings the pyramid up to date and samples it. Says when what changed was found, and
    /// when the rest ran.
    pub(super) fn update(
        &mut self,
        frame: &FrameView<'_>,
        frame_seq: u64,
        samples: &mut [ViewSample],
    ) -> (Span, Result<UpdateTimes, RetinaError>) {
        match &mut self.eye {
            Eye::Cpu { detector, retina } => {
                let start_ns = monotonic_ns();
                detector.detect(frame, frame_seq);
                let change = Span::since(start_ns);
                (change, retina.update(&detector.resident(), detector.ingested(), samples))
            }
            Eye::Gpu { books, retina } => {
                let rule = books.rule(frame);
                match retina.detect(frame, &rule, samples) {
                    Ok(largest) => books.note(frame_seq, &rule, largest),
                    Err(error) => return (Span::NONE, Err(error)),
                }
                let times = retina.collect(books.ingested(), samples);
                (times.detect, Ok(times))
            }
        }
    }

    /// The retina failed in `frame`: builds the pyramid anew on the CPU. It is built from the resident copy, which holds
    /// the frame already, or, where that went with the device, from the frame, as if it were the first. What is left of
    /// the retina comes back.
    pub(super) fn rebuild_on_cpu(
        &mut self,
        frame: &FrameView<'_>,
        frame_seq: u64,
        views: &[ViewSpec],
        samples: &mut [ViewSample],
    ) -> (Result<UpdateTimes, RetinaError>, Remains) {
        let mut new_retina = StreamBackend::build_on_cpu(self.kind, views);
        self.keeps_coarse = false;
        let all = TileSet::all(self.kind.extent);
        match &mut self.eye {
            Eye::Cpu { detector, retina } => {
                let updated = new_retina.update(&detector.resident(), &all, samples);
                (updated, Box::new(mem::replace(retina, new_retina)))
            }
            Eye::Gpu { .. } => {
                let mut detector = ChangeDetector::new(frame, self.config);
                detector.detect(frame, frame_seq);
                let updated = new_retina.update(&detector.resident(), &all, samples);
                let eye = Eye::Cpu { detector, retina: new_retina };
                (updated, Box::new(mem::replace(&mut self.eye, eye)))
            }
        }
    }

    /// Goes on on `retina`, which was built for the same frames and views, and has seen none: fills it from the resident
    /// copy, so that nothing but the device changes, and has every token sampled with the next update. What is not needed
    /// any more comes back: what was gone on before, or, with the reason, `retina`, and then the pyramid stays where it was.
    ///
    /// # Panics
    ///
    /// Unless the pyramid is on the CPU.
    pub(super) fn move_to(
        &mut self,
        mut retina: BuiltRetina,
        samples: &mut [ViewSample],
    ) -> Result<Remains, (Remains, RetinaError)> {
        let Eye::Cpu { detector, retina: old } = &mut self.eye else {
            panic!("only a pyramid on the CPU moves");
        };
        let filled = fill(&mut retina, &detector.resident(), samples);
        // Either retina may have sampled what the other one has not.
        samples.iter_mut().for_each(ViewSample::sample_anew);
        if let Err(error) = filled {
            return Err((Box::new(retina), error));
        }
        self.keeps_coarse = false;
        Ok(match retina {
            BuiltRetina::Told(retina) => Box::new(mem::replace(old, retina)),
            BuiltRetina::Detecting(retina) => {
                let eye = Eye::Gpu { books: detector.books().clone(), retina };
                Box::new(mem::replace(&mut self.eye, eye))
            }
        })
    }
}

/// Builds the pyramid of a retina that has seen no frame, and its resident copy where it keeps one, from `resident`.
fn fill(
    retina: &mut BuiltRetina,
    resident: &FrameView<'_>,
    samples: &mut [ViewSample],
) -> Result<(), RetinaError> {
    let all = TileSet::all(resident.extent());
    samples.iter_mut().for_each(ViewSample::sample_anew);
    match retina {
        BuiltRetina::Told(retina) => retina.update(resident, &all, samples).map(drop),
        BuiltRetina::Detecting(retina) => {
            let rule = IngestRule { is_first: true, threshold: 0, refreshed: 0..0 };
            retina.detect(resident, &rule, samples)?;
            retina.collect(&all, samples);
            Ok(())
        }
    }
}
