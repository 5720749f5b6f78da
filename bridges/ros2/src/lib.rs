//! Publishes views of Foveate as topics of ROS 2 and looks where a topic says, as ROS 2's `rmw_zenoh` does it: over Zenoh, without
//! an installation of ROS. `docs/guide/ros.md` is the guide.

pub mod graph;
pub mod messages;
pub mod view;
