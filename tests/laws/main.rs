//! Laws of what knows no device and no stream: geometry, layouts, gaze, configuration, messages and words.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attention_laws;
mod backoff_laws;
mod camera;
mod color_laws;
mod config_files;
mod config_limits;
mod config_refusals;
mod control_messages;
mod depth_config;
mod depth_pairing;
mod depth_rays;
mod documents;
mod ego_laws;
mod event_laws;
mod frame_laws;
mod gaze_log;
mod gaze_policies;
mod gaze_saliency;
mod inset_laws;
mod layout_laws;
mod mask_laws;
mod motion_laws;
mod redaction;
mod relevance_laws;
mod stats_laws;
