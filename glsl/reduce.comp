#version 460
#extension GL_GOOGLE_include_directive : require
#include "shared/mean.glsl"

// Builds the tail of the pyramid, level 6 and up, from the sums of the tiles.
//
// One workgroup climbs level by level: the whole tail of 1920x1080 is 685 texels, too few to share out. Every texel
// is rounded once, from the exact sums and counts of the level below, never from rounded texels.
//
// Host side: src/retina/vulkan/reduce.rs    Twin: src/retina/cpu/reduce.rs

layout(local_size_x = 256) in;

// R, G, B and the number of pixels: the tile grid, which is level 5, then level after level.
layout(set = 0, binding = 0, std430) coherent restrict buffer TileSums {
    uvec4 sums[];
} tile_sums;
// Texel i is the mean of sum i, R lowest; the part of the tile grid stays empty, as the image holds it.
layout(set = 0, binding = 1, std430) writeonly restrict buffer TailTexels {
    uint texels[];
} tail;

layout(push_constant) uniform ReducePush {
    uvec2 grid; // Extent of the tile grid.
    uint tail_level_count;
} push;

// The sum of the up to 2x2 entries of the finer level below entry `at`.
uvec4 sum_below(uint finer_offset, uvec2 finer, uvec2 at) {
    uvec4 sum = uvec4(0);
    for (uint y = at.y * 2u; y < min(at.y * 2u + 2u, finer.y); y++) {
        for (uint x = at.x * 2u; x < min(at.x * 2u + 2u, finer.x); x++) {
            sum += tile_sums.sums[finer_offset + y * finer.x + x];
        }
    }
    return sum;
}

void main() {
    uvec2 finer = push.grid;
    uint finer_offset = 0;
    for (uint level = 0; level < push.tail_level_count; level++) {
        uvec2 extent = (finer + 1u) / 2u;
        uint offset = finer_offset + finer.x * finer.y;
        for (uint i = gl_LocalInvocationIndex; i < extent.x * extent.y; i += gl_WorkGroupSize.x) {
            uvec4 sum = sum_below(finer_offset, finer, uvec2(i % extent.x, i / extent.x));
            uvec3 mean = rounded_mean(sum.rgb, sum.w);
            tile_sums.sums[offset + i] = sum;
            tail.texels[offset + i] = mean.r | mean.g << 8 | mean.b << 16 | 0xFFu << 24;
        }
        memoryBarrierBuffer();
        barrier();
        finer = extent;
        finer_offset = offset;
    }
}
