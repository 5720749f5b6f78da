#version 460
#extension GL_GOOGLE_include_directive : require
#include "shared/mean.glsl"
#include "shared/tiles.glsl"

// Updates the tail of the pyramid, level 6 and up, above the dirty tiles.
//
// A single workgroup for each layer climbs level by level: the whole tail of 1920x1080 has 685 texels, too few to distribute. One bit of shared
// memory per texel says whether a dirty tile lies below; nothing else is read or written. Every texel is rounded once, from the
// exact sums and counts of the level below, never from rounded texels.
//
// Host side: src/engine/backend/vulkan/reduce.rs    Twin: src/engine/backend/cpu/reduce.rs

layout(local_size_x = 256) in;

// R, G, B and the number of pixels: the tile grid, which is level 5, then level after level; layer after layer.
layout(set = 0, binding = 0, std430) coherent restrict buffer TileSums {
    uvec4 sums[];
} tile_sums;
// Texel i is the mean of sum i, R lowest; the part of the tile grid stays empty, as it is in the image.
layout(set = 0, binding = 1, std430) writeonly restrict buffer TailTexels {
    uint texels[];
} tail;
layout(set = 0, binding = 2, std430) readonly restrict buffer TileList {
    uvec3 groups;
    uint count;
    TileRecord tiles[];
} dirty;

layout(push_constant) uniform ReducePush {
    uvec2 grid; // Extent of the tile grid.
    uint tail_level_count;
    uint layer_sums; // Entries of a layer, in both buffers.
} push;

// One bit per texel of the largest possible tail, level after level: 256^2 + 128^2 + ... + 8^2, over 512^2 tiles.
const uint REACHED_WORDS = (65536 + 16384 + 4096 + 1024 + 256 + 64) / 32;
shared uint reached[REACHED_WORDS];

void mark(uint texel) {
    atomicOr(reached[texel / 32u], 1u << (texel % 32u));
}

// Atomic: the last word of a level also holds bits of the next one, which others set meanwhile.
bool is_reached(uint texel) {
    return (atomicOr(reached[texel / 32u], 0u) >> (texel % 32u) & 1u) != 0u;
}

// Sum of the up to 2x2 entries of the finer level below entry `at`.
uvec4 sum_below(uint finer_offset, uvec2 finer, uvec2 at) {
    uvec4 sum = uvec4(0);
    for (uint y = at.y * 2u; y < min(at.y * 2u + 2u, finer.y); y++) {
        for (uint x = at.x * 2u; x < min(at.x * 2u + 2u, finer.x); x++) {
            sum += tile_sums.sums[finer_offset + y * finer.x + x];
        }
    }
    return sum;
}

// Marks the texels of level 6 above the dirty tiles.
void mark_above_tiles() {
    for (uint i = gl_LocalInvocationIndex; i < REACHED_WORDS; i += gl_WorkGroupSize.x) {
        reached[i] = 0;
    }
    barrier();
    uint width = (push.grid.x + 1u) / 2u;
    for (uint i = gl_LocalInvocationIndex; i < dirty.count; i += gl_WorkGroupSize.x) {
        TileRecord tile = dirty.tiles[i];
        if (tile.layer != gl_WorkGroupID.x) {
            continue;
        }
        mark(tile.row / 2u * width + tile.column / 2u);
    }
    barrier();
}

void main() {
    mark_above_tiles();
    uvec2 finer = push.grid;
    uint finer_offset = gl_WorkGroupID.x * push.layer_sums;
    uint tail_offset = finer_offset + push.grid.x * push.grid.y;
    for (uint level = 0; level < push.tail_level_count; level++) {
        uvec2 extent = (finer + 1u) / 2u;
        uint offset = finer_offset + finer.x * finer.y;
        uint offset_above = offset + extent.x * extent.y;
        for (uint i = gl_LocalInvocationIndex; i < extent.x * extent.y; i += gl_WorkGroupSize.x) {
            if (!is_reached(offset - tail_offset + i)) {
                continue;
            }
            uvec2 at = uvec2(i % extent.x, i / extent.x);
            uvec4 sum = sum_below(finer_offset, finer, at);
            uvec3 mean = rounded_mean(sum.rgb, sum.w);
            tile_sums.sums[offset + i] = sum;
            tail.texels[offset + i] = mean.r | mean.g << 8 | mean.b << 16 | 0xFFu << 24;
            if (level + 1u < push.tail_level_count) {
                uvec2 above = at / 2u;
                mark(offset_above - tail_offset + above.y * ((extent.x + 1u) / 2u) + above.x);
            }
        }
        memoryBarrierBuffer();
        barrier();
        finer = extent;
        finer_offset = offset;
    }
}
