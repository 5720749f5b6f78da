//! Channels: named maps with one value for each cell of a picture.
//!
//! Cells are tiles, pooled to at most [`CELLS_MAX`] along a side. Every formula is of integers and of the operations of IEEE 754
//! that every machine rounds in the same way (+ - * / and the square root), in a fixed order, so that a channel has the same bits on any
//! processor and with any backend.

use crate::geometry::extent::Extent;
use crate::geometry::tile::TILE_SIDE;

/// Most cells along a side.
pub const CELLS_MAX: u32 = 128;

/// Most channels that a view publishes.
pub const PUBLISHED_MAX: usize = 63;

/// Columns and rows of the cells of a picture of `extent`, and the side of a cell in pixels: a power of two of tiles.
pub fn cells_of(extent: Extent) -> (Extent, u32) {
    let tile_grid = extent.in_cells(TILE_SIDE);
    let tiles = tile_grid.longer_side().div_ceil(CELLS_MAX).next_power_of_two();
    (tile_grid.in_cells(tiles), tiles * TILE_SIDE)
}

/// A channel that is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Name of the channel.
    pub name: &'static str,
    /// Formula of the channel.
    pub formula: &'static str,
    /// Least and greatest value.
    pub range: (i8, i8),
    /// Unit of a value of 1.
    pub unit: &'static str,
}

macro_rules! channels {
    ($($Name:ident = $name:literal, $range:expr, $unit:literal, $formula:literal;)+) => {
        /// Numbers of the channels, in the order of [`CHANNELS`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Computed { $(#[doc = $formula] $Name),+ }

        /// All channels that are computed.
        pub const CHANNELS: &[Channel] = &[
            $(Channel { name: $name, formula: $formula, range: $range, unit: $unit }),+
        ];
    };
}

channels! {
    Red = "r", (0, 1), "255", "mean of R over the cell";
    Green = "g", (0, 1), "255", "mean of G over the cell";
    Blue = "b", (0, 1), "255", "mean of B over the cell";
    Y = "y", (0, 1), "height", "centre of the cell, from the top";
    X = "x", (0, 1), "width", "centre of the cell, from the left";
    Dx = "dx", (0, 1), "luma range", "mean of |dx| of luma";
    Dy = "dy", (0, 1), "luma range", "mean of |dy| of luma";
    Edges = "edges", (0, 1), "luma range", "sqrt((mean of dx^2 + mean of dy^2) / 2)";
    Intensity = "intensity", (0, 1), "255", "centre-surround contrast of brightness, mean over the cell";
    RedGreen = "red_green", (0, 1), "255", "the same of red against green";
    BlueYellow = "blue_yellow", (0, 1), "255", "the same of blue against yellow";
    Variance = "variance", (0, 1), "(luma range / 2)^2", "variance of luma";
    Mean = "mean", (0, 1), "luma range", "mean of luma, from black";
    Entropy = "entropy", (0, 1), "4 bits", "entropy of luma / 16";
    OrientationCos = "orientation_cos", (-1, 1), "1", "cos 2t, t the angle of the strongest gradient: (xx - yy) / sqrt((xx - yy)^2 + (2 xy)^2) of the structure tensor";
    OrientationSin = "orientation_sin", (-1, 1), "1", "sin 2t: 2 xy / sqrt((xx - yy)^2 + (2 xy)^2)";
    Coherence = "coherence", (0, 1), "1", "sqrt((xx - yy)^2 + (2 xy)^2) / (xx + yy)";
    Strokes = "strokes", (0, 1), "8 %", "strokes along rows and columns, as a share of the differences";
    HighPass = "high_pass", (0, 1), "luma range", "edges, less a third of low_pass: what neighbouring pixels differ by beyond what blocks of 4 x 4 explain";
    LowPass = "low_pass", (0, 1), "luma range", "root of the mean squared difference of neighbouring blocks of 4 x 4";
    EdgeDistance = "edge_distance", (0, 1), "16 cells", "distance to the nearest cell with strong edges";
    Cluster = "cluster", (0, 1), "greatest number", "number of the cell's cluster, from the top left: neighbours of like colour and texture";
    ClusterSize = "cluster_size", (0, 1), "all cells", "cells of its cluster";
    Change = "change", (0, 1), "1", "change against the background, beyond what is usual there; greatest of the cell";
    Age = "age", (0, 1), "1", "t / (t + 1 s), t the time since a pixel of the cell changed";
    MotionX = "motion_x", (-1, 1), "cell", "to the right since the frame before, mean of the blocks under the cell by their confidence";
    MotionY = "motion_y", (-1, 1), "cell", "the same, downwards";
    Eccentricity = "eccentricity", (0, 1), "longer side", "distance to the nearest fixation";
    Relevance = "relevance", (-1, 1), "4 octaves", "the score before";
    Attention = "attention", (0, 1), "1", "how finely the cell was sampled, moving average over 1 s";
    Unseen = "unseen", (0, 1), "1", "t / (t + 2 s), t the time since the cell was seen: sampled at a step below 2, or at the finest of the plan";
    ChangeDistance = "change_distance", (0, 1), "16 cells", "distance to the nearest cell that changes";
    NormalX = "normal_x", (-1, 1), "1", "of the injected `depth`: unit normal of the surface, to the right";
    NormalY = "normal_y", (-1, 1), "1", "the same, downwards";
    NormalZ = "normal_z", (0, 1), "1", "the same, towards the camera";
    Occlusion = "occlusion", (0, 1), "1", "of the injected `depth`: a step to a neighbour beyond what the slope explains, as a share of the depth";
}

impl Channel {
    /// The computed channel with that name.
    pub fn named(name: &str) -> Option<Self> {
        CHANNELS.iter().copied().find(|channel| channel.name == name)
    }
}
