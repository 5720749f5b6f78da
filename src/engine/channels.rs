//! The plane of channels of one view: what its scorer read at the newest decision.

use foveate_core::channel::cells_of;
use foveate_core::geometry::extent::Extent;
use foveate_core::token::DType;
use foveate_core::token::numbers::encoded;
use foveate_gaze::relevance::scene::Scene;
use foveate_gaze::view::ViewSpec;

/// The plane [`channels`](foveate_core::plane::CHANNELS), `[C, rows, columns]`; empty if the view publishes none.
#[derive(Debug)]
pub struct ChannelPlane {
    names: Vec<String>,
    dtype: DType,
    bytes: Vec<u8>,
    version: u64,
    /// The [decision](Scene::decisions) whose channels the plane has; 0 before any.
    decision: u64,
    frame_seq: u64,
}

impl ChannelPlane {
    /// A plane of zeros for a source of `extent`.
    pub(crate) fn new(spec: &ViewSpec, extent: Extent) -> Self {
        let (names, dtype) = (spec.channels.clone(), spec.channel_dtype());
        let bytes = vec![0; names.len() * cells_of(extent).0.area() * dtype.bytes()];
        Self { names, dtype, bytes, version: 1, decision: 0, frame_seq: 0 }
    }

    /// A plane of zeros for a source that is now of `extent`. Versions continue, since sinks may hold old ones.
    pub(crate) fn renewed(&self, spec: &ViewSpec, extent: Extent) -> Self {
        Self { version: self.version + 1, ..Self::new(spec, extent) }
    }

    /// Zeros the plane until the next decision: the channels may show what masks cover now.
    pub(crate) fn apply_mask(&mut self) {
        self.bytes.fill(0);
        self.version += 1;
        self.frame_seq = 0;
    }

    /// Takes the channels of `scene`, if there was a decision since; 0 for an injected one that is not there.
    pub(crate) fn update(&mut self, scene: &Scene) {
        if self.names.is_empty() || self.decision == scene.decisions() {
            return;
        }
        let cell_bytes = self.dtype.bytes();
        let channels = self.bytes.chunks_exact_mut(scene.grid().area() * cell_bytes);
        for (name, target) in self.names.iter().zip(channels) {
            let Some(cells) = scene.channel(name) else {
                target.fill(0);
                continue;
            };
            for (target, cell) in target.chunks_exact_mut(cell_bytes).zip(cells) {
                let bits = encoded(f64::from(*cell), self.dtype).to_le_bytes();
                target.copy_from_slice(&bits[..cell_bytes]);
            }
        }
        (self.decision, self.frame_seq) = (scene.decisions(), scene.decided_frame_seq());
        self.version += 1;
    }

    /// The channels one after the other, each row by row, little-endian.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A number that grows whenever they change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// `frame_seq` of the frame that they were made from; 0 before the first decision.
    pub fn frame_seq(&self) -> u64 {
        self.frame_seq
    }
}
