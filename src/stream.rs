//! One frame through the stages: the only file that knows their order.
