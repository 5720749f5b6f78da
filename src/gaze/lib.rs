//! How a view looks: gaze policies and what they weigh, layouts, motion, events, and feedback of clients. Pure code: no devices,
//! threads or clocks.

pub mod compensation;
mod consumer;
pub mod controller;
pub mod detail;
pub mod events;
pub mod feedback;
mod fixation_state;
pub mod inhibition;
pub mod layout;
pub mod log;
pub mod motion;
pub mod need;
mod parameters;
mod peaks;
pub mod policy;
mod pursuit;
pub mod relevance;
pub mod saliency;
pub mod sight;
pub mod view;
mod weigher;

pub use self::parameters::GazeParameters;
