//! Where a view looks, for those who record it.

use super::ViewName;
use foveate_core::geometry::gaze_entry::GazeEntry;

/// Where a view looks from a frame on.
#[derive(Clone, Debug, PartialEq)]
pub struct GazeEvent {
    /// Which view.
    pub view: ViewName,
    /// From which frame on, and where.
    pub entry: GazeEntry,
    /// Events of this view that were lost since the subscription, because too many came at once.
    pub lost: u64,
}

foveate_core::object!(GazeEvent { "view": view, "entry": entry, "lost": lost });
