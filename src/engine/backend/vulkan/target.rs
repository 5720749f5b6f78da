//! Where the device writes the tokens of one view: into the slot of its ring, or to where the CPU copies them from.

use std::sync::Arc;

use super::sample::{WORD_BYTES, count};
use foveate_gpu::{Buffer, BufferKind, Gpu, GpuError, HostTarget};
use foveate_ring::{Items, SegmentMemory};

/// Memory for the sampled tokens of one view.
///
/// [`Lane::run`](foveate_gpu::Lane::run) returns only when the device writes no more, lost or not, so a slot belongs to the CPU again
/// before it is published, and before another backend begins it again.
#[derive(Debug)]
pub(super) struct TokenTarget {
    /// `[N, 3, P, P]`, for sinks whose memory the device cannot write.
    own: Buffer,
    /// The segment of the newest sink, and its words, unless the device cannot import them.
    imported: Option<(SegmentMemory, Option<HostTarget<SegmentMemory>>)>,
    /// Word of the imported memory to which the next tokens go; `None` if they go to `own`.
    first_word: Option<u32>,
    token_bytes: usize,
}

impl TokenTarget {
    /// Room for `count` tokens of `token_bytes` bytes.
    ///
    /// # Errors
    ///
    /// If they are too many for the device, or the device refuses.
    pub(super) fn new(gpu: &Arc<Gpu>, count: usize, token_bytes: usize) -> Result<Self, GpuError> {
        let own = Buffer::new(gpu, "tokens", BufferKind::Readback, count * token_bytes)?;
        Ok(Self { own, imported: None, first_word: None, token_bytes })
    }

    /// Has the next tokens, of a plan of `token_count`, go to `items`, if the device can write there.
    ///
    /// # Panics
    ///
    /// If they do not fit there.
    pub(super) fn aim(&mut self, gpu: &Arc<Gpu>, items: &Items, token_count: usize) {
        assert_eq!(items.item_bytes(), self.token_bytes, "items of another format than the view's");
        assert!(token_count <= items.count(), "{token_count} tokens for {} items", items.count());
        self.first_word = items.memory().and_then(|(memory, start)| {
            if self.imported.as_ref().is_none_or(|(imported, _)| imported != memory) {
                // Free the previous import first: pinned memory may be limited.
                self.imported = None;
                let target = HostTarget::import(gpu, "segment", Arc::new(memory.clone()));
                self.imported = Some((memory.clone(), target));
            }
            self.imported()?;
            Some(count(start / WORD_BYTES))
        });
    }

    /// The buffer that the next tokens go to, and the word of it at which the first item begins.
    pub(super) fn place(&self) -> (&Buffer, u32) {
        let imported = self.first_word.zip(self.imported());
        imported.map_or((&self.own, 0), |(word, target)| (target.buffer(), word))
    }

    /// Copies the tokens with these indices to their places in `items`, unless the device wrote them there. Returns how many bytes
    /// were copied.
    pub(super) fn collect(&mut self, items: &Items, indices: &[u32]) -> u64 {
        if self.first_word.is_some() {
            return 0;
        }
        let (store, token_bytes) = (items.store(), self.token_bytes);
        let tokens = self.own.mapped::<u8>();
        for index in indices.iter().map(|&index| index as usize) {
            store.item(index).put(0, &tokens[index * token_bytes..][..token_bytes]);
        }
        (indices.len() * token_bytes) as u64
    }

    /// The tokens that did not go to a sink.
    pub(super) fn tokens(&mut self) -> impl Iterator<Item = &[u8]> {
        self.own.mapped::<u8>().chunks_exact(self.token_bytes)
    }

    fn imported(&self) -> Option<&HostTarget<SegmentMemory>> {
        self.imported.as_ref()?.1.as_ref()
    }
}
