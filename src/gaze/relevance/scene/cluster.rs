//! Clusters: neighbouring cells of like colour and texture.

use foveate_core::channel::Computed;
use foveate_core::geometry::extent::Extent;

/// Most by which neighbours may differ, in each of these channels.
const ALIKE: [(Computed, f32); 4] = [
    (Computed::Red, 0.06),
    (Computed::Green, 0.06),
    (Computed::Blue, 0.06),
    (Computed::Edges, 0.06),
];

/// Fills the channels of clusters, by flood filling from the top left.
pub(super) fn fill(channels: &mut [Vec<f32>], grid: Extent) {
    let (width, count) = (grid.width as usize, grid.area());
    let is_alike = |a: usize, b: usize| {
        ALIKE.iter().all(|&(channel, most)| {
            let cells = &channels[channel as usize];
            (cells[a] - cells[b]).abs() <= most
        })
    };
    let mut number = vec![usize::MAX; count];
    let mut sizes: Vec<usize> = Vec::new();
    let mut open = Vec::new();
    for start in 0..count {
        if number[start] != usize::MAX {
            continue;
        }
        number[start] = sizes.len();
        sizes.push(0);
        open.push(start);
        while let Some(cell) = open.pop() {
            sizes[number[cell]] += 1;
            let near = [
                (0 < cell % width).then(|| cell - 1),
                (cell % width + 1 < width).then_some(cell + 1),
                cell.checked_sub(width),
                (cell + width < count).then_some(cell + width),
            ];
            for next in near.into_iter().flatten() {
                if number[next] == usize::MAX && is_alike(cell, next) {
                    number[next] = number[cell];
                    open.push(next);
                }
            }
        }
    }
    let greatest = (sizes.len() - 1).max(1) as f32;
    for (cell, number) in number.into_iter().enumerate() {
        channels[Computed::Cluster as usize][cell] = number as f32 / greatest;
        channels[Computed::ClusterSize as usize][cell] = sizes[number] as f32 / count as f32;
    }
}
