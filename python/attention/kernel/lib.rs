//! Hierarchical attention: a softmax over a partition of the keys, fine where the query cares and coarse elsewhere.
//!
//! Keys lie on a grid, row by row. Level 0 are the keys; a cell of level `l` covers `coarse^l` by `coarse^l` of them, fewer
//! at the right and bottom edges, and has the mean of its keys and the mean of their values. Its score for a query `q` is
//!
//! ```text
//! scale * (q . mean key) + ln(number of keys) + bias of the level
//! ```
//!
//! All cells of the coarsest level are scored. The best `ceil(top * cells of the level)` of them are *opened*: replaced by
//! the cells they are made of, one level down. Of these again the best are opened, at most `ceil(top * cells of that
//! level)`, and so on down to the keys. Of equal scores the lower index is opened, row by row. The result is the softmax
//! over all cells that were not opened and all keys that were reached, so its weights sum to one. With `top = 1` it is full
//! attention, and with biases of zero equal keys give what full attention gives, at any `top`.
//!
//! An [`AttentionPlan`] has what follows from shapes and settings; [`AttentionPlan::run`] computes on the CPU, and with the feature `vulkan`
//! `vulkan::VulkanAttention::run` on a device.

mod block;
mod element;
mod keys;
mod plan;
mod run;
mod select;
mod tile;
#[cfg(feature = "vulkan")]
pub mod vulkan;

pub use element::Element;
pub use foveate_simd::Instructions;
pub use plan::{AttentionPlan, AttentionSettings, CellLevel, LEVELS_MAX, Shape};
pub use run::Tensors;
