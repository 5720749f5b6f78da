//! Tokens of files.

use std::path::PathBuf;

use foveate_core::frame::FrameKind;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Gaze;
use foveate_core::view::ViewSpec;
use foveate_engine::backend::BackendError;
use foveate_engine::backend::choice::StreamBackend;
use foveate_engine::batch::{Batch, Picture, Sampled};

use crate::ahead::{Ahead, Opened};
use crate::decode::DecodeError;

/// Files that are sampled together.
const WINDOW: usize = 32;

/// Batches that are kept for the next pictures of their size.
const BATCHES_KEPT: usize = 4;

/// A file, and its tokens.
#[derive(Debug)]
pub struct Item {
    /// The file.
    pub path: PathBuf,
    /// What was seen of it, or why nothing was.
    pub seen: Result<Seen, DecodeError>,
}

/// What was seen of a picture.
#[derive(Debug)]
pub struct Seen {
    /// Its size, as the engine read it.
    pub kind: FrameKind,
    /// Where was looked.
    pub gaze: Gaze,
    /// Its tokens.
    pub tokens: Sampled,
}

/// Where to look in a picture of this extent.
pub type Look = Box<dyn Fn(Extent) -> Gaze + Send>;

/// Samples the pictures of files, those of one size together, and gives them in the order of the files.
pub struct Reader {
    ahead: Ahead,
    chosen: StreamBackend,
    spec: ViewSpec,
    look: Look,
    /// The one used last at the end.
    batches: Vec<Batch>,
}

impl Reader {
    /// Reads `paths` with `decoders` threads beside the caller's.
    pub fn new(
        paths: Vec<PathBuf>,
        decoders: usize,
        chosen: StreamBackend,
        spec: ViewSpec,
        look: Look,
    ) -> Self {
        let ahead = Ahead::new(paths, decoders, 2 * WINDOW);
        Self { ahead, chosen, spec, look, batches: Vec::new() }
    }

    /// Files in all.
    pub fn len(&self) -> usize {
        self.ahead.len()
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next few files; none at the end.
    ///
    /// # Errors
    ///
    /// If the backend fails. It must not be used any more.
    pub fn next_items(&mut self) -> Result<Vec<Item>, BackendError> {
        let opened: Vec<_> = self.ahead.by_ref().take(WINDOW).collect();
        let gaze =
            |opened: &Opened| opened.as_ref().ok().map(|picture| (self.look)(picture.extent));
        let gazes: Vec<_> = opened.iter().map(|(_, opened)| gaze(opened)).collect();
        let mut tokens: Vec<Option<Sampled>> = opened.iter().map(|_| None).collect();
        for kind in kinds_of(&opened) {
            let indices: Vec<_> = (0..opened.len())
                .filter(|&index| kind_of(&opened[index].1) == Some(kind))
                .collect();
            let picture = |&index: &usize| {
                let decoded = opened[index].1.as_ref().ok()?;
                Some(Picture { frame: decoded.view(), gaze: gazes[index].as_ref()? })
            };
            let pictures: Vec<_> = indices.iter().filter_map(picture).collect();
            let sampled = self.batch(kind)?.sample(&pictures)?;
            indices
                .into_iter()
                .zip(sampled)
                .for_each(|(index, sampled)| tokens[index] = Some(sampled));
        }
        let seen = |opened: Opened, gaze: Option<Gaze>, tokens: Option<Sampled>| {
            let kind = opened?.kind();
            let (gaze, tokens) = gaze.zip(tokens).expect("every picture was sampled");
            Ok(Seen { kind, gaze, tokens })
        };
        let parts = opened.into_iter().zip(gazes).zip(tokens);
        Ok(parts
            .map(|(((path, opened), gaze), tokens)| Item { path, seen: seen(opened, gaze, tokens) })
            .collect())
    }

    /// The batch for pictures of `kind`.
    fn batch(&mut self, kind: FrameKind) -> Result<&mut Batch, BackendError> {
        let batch = match self.batches.iter().position(|batch| batch.kind() == kind) {
            Some(index) => self.batches.remove(index),
            None => self.chosen.batch(kind, self.spec.clone(), WINDOW)?,
        };
        if self.batches.len() == BATCHES_KEPT {
            self.batches.remove(0);
        }
        self.batches.push(batch);
        Ok(self.batches.last_mut().expect("just added"))
    }
}

fn kind_of(opened: &Opened) -> Option<FrameKind> {
    opened.as_ref().ok().map(|picture| picture.kind())
}

/// The kinds of the pictures, each once.
fn kinds_of(opened: &[(PathBuf, Opened)]) -> Vec<FrameKind> {
    let mut kinds = Vec::new();
    for kind in opened.iter().filter_map(|(_, opened)| kind_of(opened)) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("files", &self.len()).finish_non_exhaustive()
    }
}
