//! Reads picture files as tokens: decodes ahead, and samples pictures of one size together.

use std::path::PathBuf;

use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, FixationReason, Gaze, snapped};
use foveate_engine::backend::BackendError;
use foveate_engine::backend::choice::StreamBackend;
use foveate_engine::batch::{Batch, PictureTokens};
use foveate_gaze::view::ViewSpec;

use crate::decode::{DecodeError, DecodeOptions, DecodedPicture, GrayFacts};
use crate::prefetch::Prefetcher;

/// Most files that are sampled together.
const WINDOW: usize = 32;

/// Most bytes of pictures that are sampled together, unless a single picture has more.
const WINDOW_BYTES: usize = 128 << 20;

/// Batches of each view that are kept for the next pictures of their size.
const BATCHES_KEPT: usize = 4;

/// Most bytes of pictures that the batches that are kept hold.
const BATCH_BYTES_KEPT: usize = 4 * WINDOW_BYTES;

/// A file, and its tokens.
#[derive(Debug)]
pub struct SampledPicture {
    /// The file.
    pub path: PathBuf,
    /// How 16-bit gray was scaled; `None` for other pictures.
    pub gray: Option<GrayFacts>,
    /// Kind of the picture, and its sample for each view; or why it could not be decoded.
    pub seen: Result<(FrameKind, Vec<SampledView>), DecodeError>,
}

/// The sample of a picture for one view.
#[derive(Debug)]
pub struct SampledView {
    /// Fixations and relevance of the sample.
    pub gaze: Gaze,
    /// The tokens.
    pub tokens: PictureTokens,
}

/// Looks at the place at these shares of width and height.
pub fn look_at((x, y): (f64, f64)) -> Box<dyn Fn(Extent) -> Gaze + Send> {
    Box::new(move |extent| {
        let (x, y) = snapped(extent, x * f64::from(extent.width), y * f64::from(extent.height));
        let reason = FixationReason::Policy;
        Gaze::at(Fixation::at((x, y), reason), None)
    })
}

/// The sampled result of each picture.
pub struct PictureView {
    /// Layout and format.
    pub spec: ViewSpec,
    /// Chooses where to look in a picture of an extent.
    pub look: Box<dyn Fn(Extent) -> Gaze + Send>,
}

/// Samples the pictures of files, those of one size together, and gives them in the order of the files.
pub struct FolderReader {
    prefetcher: Prefetcher,
    chosen: StreamBackend,
    views: Vec<PictureView>,
    /// Batches, each with the index of its view; the one used last is at the end.
    batches: Vec<(usize, Batch)>,
}

impl FolderReader {
    /// Reads `paths` with `decoders` threads beside the caller's, for at least one view.
    pub fn new(
        paths: Vec<PathBuf>,
        decoders: usize,
        options: DecodeOptions,
        chosen: StreamBackend,
        views: Vec<PictureView>,
    ) -> Self {
        let prefetcher = Prefetcher::new(paths, decoders, options);
        Self { prefetcher, chosen, views, batches: Vec::new() }
    }

    /// The backend, which changes when a GPU fails.
    pub fn backend(&self) -> &StreamBackend {
        &self.chosen
    }

    /// Files in all.
    pub fn len(&self) -> usize {
        self.prefetcher.len()
    }

    /// Whether the list has no files.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next few files; none at the end. While it waits for them, `goes_on` is asked now and then; if that says no, those that are
    /// there already are returned.
    ///
    /// # Errors
    ///
    /// If a GPU is required and fails for the first pictures. One that fails later is left for the CPU.
    pub fn next_items(
        &mut self,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Vec<SampledPicture>, BackendError> {
        let (mut opened, mut bytes) = (Vec::new(), 0);
        while opened.len() < WINDOW
            && bytes < WINDOW_BYTES
            && let Some(next) = self.prefetcher.next(&mut goes_on)
        {
            bytes += next.1.as_ref().map_or(0, |picture| picture.rgb.len());
            opened.push(next);
        }
        let mut seen: Vec<Vec<SampledView>> = opened.iter().map(|_| Vec::new()).collect();
        for kind in kinds_of(&opened) {
            let of_kind: Vec<_> = (0..)
                .zip(&opened)
                .filter_map(|(index, (_, opened))| Some((index, opened.as_ref().ok()?)))
                .filter(|(_, picture): &(usize, _)| picture.kind() == kind)
                .collect();
            for view in 0..self.views.len() {
                let gazes: Vec<_> =
                    of_kind.iter().map(|_| (self.views[view].look)(kind.extent)).collect();
                let pictures: Vec<_> = of_kind
                    .iter()
                    .zip(&gazes)
                    .map(|((_, picture), gaze)| (picture.view(), gaze))
                    .collect();
                let sampled = self.sample(view, kind, &pictures)?;
                for (((index, _), gaze), tokens) in of_kind.iter().zip(gazes).zip(sampled) {
                    seen[*index].push(SampledView { gaze, tokens });
                }
            }
        }
        let item = |((path, opened), seen): (
            (PathBuf, Result<DecodedPicture, DecodeError>),
            Vec<SampledView>,
        )| {
            let gray = opened.as_ref().ok().and_then(|picture| picture.gray);
            SampledPicture { path, gray, seen: opened.map(|picture| (picture.kind(), seen)) }
        };
        Ok(opened.into_iter().zip(seen).map(item).collect())
    }

    /// The tokens of pictures of `kind` for a view.
    fn sample(
        &mut self,
        view: usize,
        kind: FrameKind,
        pictures: &[(FrameView<'_>, &Gaze)],
    ) -> Result<Vec<PictureTokens>, BackendError> {
        let known = |(of, batch): &(usize, Batch)| *of == view && batch.kind() == kind;
        let mut batch = match self.batches.iter().position(known) {
            Some(index) => self.batches.remove(index).1,
            None => self.chosen.batch(kind, self.views[view].spec.clone(), batch_size(kind))?,
        };
        let sampled = batch.sample(pictures).or_else(|error| {
            self.chosen.move_to_cpu(&mut batch, &error);
            batch.sample(pictures)
        })?;
        self.batches.push((view, batch));
        while 1 < self.batches.len()
            && (BATCHES_KEPT * self.views.len() < self.batches.len()
                || BATCH_BYTES_KEPT < self.batch_bytes())
        {
            self.batches.remove(0);
        }
        Ok(sampled)
    }

    /// Bytes of the pictures that the batches hold.
    fn batch_bytes(&self) -> usize {
        let bytes = |kind: FrameKind| batch_size(kind) * picture_bytes(kind);
        self.batches.iter().map(|(_, batch)| bytes(batch.kind())).sum()
    }
}

fn picture_bytes(kind: FrameKind) -> usize {
    kind.row_bytes(0) * kind.rows(0)
}

/// Pictures of a batch.
fn batch_size(kind: FrameKind) -> usize {
    (WINDOW_BYTES / picture_bytes(kind)).clamp(1, WINDOW)
}

fn kind_of(opened: &Result<DecodedPicture, DecodeError>) -> Option<FrameKind> {
    opened.as_ref().ok().map(|picture| picture.kind())
}

/// The kinds of the pictures, each once.
fn kinds_of(opened: &[(PathBuf, Result<DecodedPicture, DecodeError>)]) -> Vec<FrameKind> {
    let mut kinds = Vec::new();
    for kind in opened.iter().filter_map(|(_, opened)| kind_of(opened)) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

impl std::fmt::Debug for FolderReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FolderReader").field("files", &self.len()).finish_non_exhaustive()
    }
}
