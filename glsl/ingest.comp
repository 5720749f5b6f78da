#version 460
#extension GL_GOOGLE_include_directive : require
#include "shared/bytes.glsl"
#include "shared/color.glsl"
#include "shared/linear.glsl"
#include "shared/mean.glsl"
#include "shared/sampling.glsl"
#include "shared/tiles.glsl"

// Converts the camera's samples of the dirty tiles to texels of levels 0 to 5, and writes one sum per tile.
//
// One workgroup per dirty tile, one invocation per block of 4x4 pixels: a row of a block is one word of luma, so every sample is
// read once, and levels 0 to 2 are computed in registers; levels 3 to 5 through shared memory. Sums are exact until each texel is
// rounded, once. Texels beyond the source are written to the image's padding.
//
// Host side: src/engine/backend/vulkan/ingest.rs    Twin: src/engine/backend/cpu/ingest.rs

layout(local_size_x = 64) in; // (TILE_SIDE / 4)^2

layout(constant_id = 0) const uint TILE_SIDE = 1;
layout(constant_id = 1) const uint SAMPLING = 0; // Of shared/sampling.glsl.
layout(constant_id = 2) const uint FRACTION_BITS = 1;
layout(constant_id = 3) const bool IS_RESIDENT = false; // Whether records are those of the whole grid, not of the list.

// One record per tile of the list or of the grid: the planes of a source of TILE_SIDE x TILE_SIDE pixels, without padding.
layout(set = 0, binding = 0, std430) readonly restrict buffer Records {
    uint words[];
} records;
layout(set = 0, binding = 1, std430) readonly restrict buffer TileList {
    uvec3 groups;
    uint count;
    TileRecord tiles[];
} dirty;
layout(set = 0, binding = 2, rgba8ui) uniform writeonly restrict uimage2DArray level_0;
layout(set = 0, binding = 3, rgba8ui) uniform writeonly restrict uimage2DArray level_1;
layout(set = 0, binding = 4, rgba8ui) uniform writeonly restrict uimage2DArray level_2;
layout(set = 0, binding = 5, rgba8ui) uniform writeonly restrict uimage2DArray level_3;
layout(set = 0, binding = 6, rgba8ui) uniform writeonly restrict uimage2DArray level_4;
layout(set = 0, binding = 7, rgba8ui) uniform writeonly restrict uimage2DArray level_5;
// R, G, B and the number of pixels, per tile of the grid, row by row, layer after layer.
layout(set = 0, binding = 8, std430) writeonly restrict buffer TileSums {
    uvec4 sums[];
} tile_sums;

layout(push_constant) uniform IngestPush {
    uvec2 extent; // Of the source, in pixels.
    ColorTransform color;
    uint layer_sums; // Sums of a layer.
} push;

// Layer of the tile.
uint layer;

// Sums of the blocks, then those of the texels of levels 3 and 4.
shared uvec3 climb[64 + 16 + 4];

// Number of source pixels in the square of `side` pixels at `origin`.
uint pixel_count(uvec2 origin, uint side) {
    uvec2 real = clamp(ivec2(push.extent) - ivec2(origin), ivec2(0), ivec2(side));
    return real.x * real.y;
}

// Four bytes of a plane that starts `first_word` words into the records and has rows of `row_bytes`.
uint word_at(uint first_word, uint row_bytes, uvec2 byte_at) {
    return records.words[first_word + (byte_at.y * row_bytes + byte_at.x) / 4u];
}

// The two chroma samples of an I420 plane for four pixels, each twice.
uvec4 i420_chroma(uint first_word, uvec2 at) {
    uint word = word_at(first_word, TILE_SIDE / 2u, at / 2u);
    return bytes_of(word >> (at.x / 2u % 4u * 8u)).xxyy;
}

// Four pixels of RGB, each in the lowest bytes of a word.
uvec4 load_pixels(uint first_word, uvec2 at) {
    uint first_pixel = at.y * TILE_SIDE + at.x;
    if (SAMPLING == SAMPLING_RGB || SAMPLING == SAMPLING_BGR) {
        uint first = first_word + first_pixel / 4u * 3u;
        return spread_pixels(uvec3(records.words[first], records.words[first + 1u], records.words[first + 2u]));
    }
    uint first = first_word + first_pixel;
    return uvec4(records.words[first], records.words[first + 1u], records.words[first + 2u], records.words[first + 3u]);
}

// The pixels at..at + (3, 0) of the tile that starts `first_word` words into the records; at.x is a multiple of 4.
Row load_row(uint first_word, uvec2 at) {
    const uint PLANE_WORDS = TILE_SIDE * TILE_SIDE / 4u;
    if (SAMPLING == SAMPLING_NV12) {
        uvec4 y = bytes_of(word_at(first_word, TILE_SIDE, at));
        uvec4 uv = bytes_of(word_at(first_word + PLANE_WORDS, TILE_SIDE, uvec2(at.x, at.y / 2u)));
        return row_from_ycbcr(push.color, FRACTION_BITS, y, uv.xxzz, uv.yyww);
    }
    if (SAMPLING == SAMPLING_I420) {
        uvec4 y = bytes_of(word_at(first_word, TILE_SIDE, at));
        uvec4 u = i420_chroma(first_word + PLANE_WORDS, at);
        uvec4 v = i420_chroma(first_word + PLANE_WORDS * 5u / 4u, at);
        return row_from_ycbcr(push.color, FRACTION_BITS, y, u, v);
    }
    if (SAMPLING == SAMPLING_YUY2) {
        uvec4 left = bytes_of(word_at(first_word, TILE_SIDE * 2u, uvec2(at.x * 2u, at.y)));
        uvec4 right = bytes_of(word_at(first_word, TILE_SIDE * 2u, uvec2(at.x * 2u + 4u, at.y)));
        return row_from_ycbcr(push.color, FRACTION_BITS, uvec4(left.xz, right.xz),
                              uvec4(left.yy, right.yy), uvec4(left.ww, right.ww));
    }
    if (SAMPLING == SAMPLING_GRAY) {
        uvec4 y = bytes_of(word_at(first_word, TILE_SIDE, at));
        uvec4 gray = channel_from_samples(push.color, FRACTION_BITS, y);
        return Row(gray, gray, gray);
    }
    uvec4 pixels = load_pixels(first_word, at);
    uvec4 first = channel_from_samples(push.color, FRACTION_BITS, pixels & 0xFFu);
    uvec4 second = channel_from_samples(push.color, FRACTION_BITS, pixels >> 8u & 0xFFu);
    uvec4 third = channel_from_samples(push.color, FRACTION_BITS, pixels >> 16u & 0xFFu);
    return is_reversed(SAMPLING) ? Row(third, second, first) : Row(first, second, third);
}

// Stores four pixels in level 0 and returns them with 0 for those outside the source.
Row ingest_row(uint first_word, uvec2 at_in_tile, uvec2 at) {
    Row row = load_row(first_word, at_in_tile);
    uvec4 real = uvec4(lessThan(at.xxxx + uvec4(0, 1, 2, 3), push.extent.xxxx));
    real *= uint(at.y < push.extent.y);
    row = Row(row.r * real, row.g * real, row.b * real);
    for (uint i = 0; i < 4u; i++) {
        imageStore(level_0, ivec3(at + uvec2(i, 0), layer), uvec4(row.r[i], row.g[i], row.b[i], 255));
    }
    return row;
}

// Sums over the left and the right 2x2 pixels of two rows of four.
uvec3 left_sum(Row top, Row bottom) {
    Row sum = Row(top.r + bottom.r, top.g + bottom.g, top.b + bottom.b);
    return uvec3(sum.r.x + sum.r.y, sum.g.x + sum.g.y, sum.b.x + sum.b.y);
}

uvec3 right_sum(Row top, Row bottom) {
    return left_sum(Row(top.r.zwxy, top.g.zwxy, top.b.zwxy),
                    Row(bottom.r.zwxy, bottom.g.zwxy, bottom.b.zwxy));
}

// 1, 2 or 4 of 2x2 pixels are real, so the mean needs no division.
void store_level_1(uvec2 at, uvec3 sum) {
    uint count = pixel_count(at * 2u, 2u);
    uvec3 mean = (sum + count / 2u) >> max(findMSB(count), 0);
    imageStore(level_1, ivec3(at, layer), uvec4(mean, 255));
}

// Levels 0 to 2 of one block; returns its sum.
uvec3 ingest_block(uint first_word, uvec2 at_in_tile, uvec2 at) {
    uvec3 block_sum = uvec3(0);
    for (uint y = 0; y < 4u; y += 2u) {
        Row top = ingest_row(first_word, at_in_tile + uvec2(0, y), at + uvec2(0, y));
        Row bottom = ingest_row(first_word, at_in_tile + uvec2(0, y + 1u), at + uvec2(0, y + 1u));
        uvec3 left = left_sum(top, bottom);
        uvec3 right = right_sum(top, bottom);
        store_level_1((at + uvec2(0, y)) / 2u, left);
        store_level_1((at + uvec2(2, y)) / 2u, right);
        block_sum += left + right;
    }
    imageStore(level_2, ivec3(at / 4u, layer), uvec4(rounded_mean(block_sum, pixel_count(at, 4u)), 255));
    return block_sum;
}

// The sum over 2x2 entries of a square of side x side entries of `climb`.
uvec3 climb_sum(uint first, uint side, uvec2 cell) {
    uint corner = first + cell.y * 2u * side + cell.x * 2u;
    return climb[corner] + climb[corner + 1u] + climb[corner + side] + climb[corner + side + 1u];
}

void main() {
    uint tile_index = linear_workgroup();
    if (tile_index >= dirty.count) {
        return;
    }
    TileRecord tile = dirty.tiles[tile_index];
    layer = tile.layer;
    uvec2 tile_origin = uvec2(tile.column, tile.row) * TILE_SIDE;
    uint index = gl_LocalInvocationIndex;

    uint grid_width = (push.extent.x + TILE_SIDE - 1u) / TILE_SIDE;
    uint grid_index = tile.row * grid_width + tile.column;
    uint first_word = (IS_RESIDENT ? grid_index : tile_index) * record_words(SAMPLING, TILE_SIDE * TILE_SIDE);
    uvec2 block_at = uvec2(index % (TILE_SIDE / 4u), index / (TILE_SIDE / 4u)) * 4u;
    climb[index] = ingest_block(first_word, block_at, tile_origin + block_at);
    barrier();

    if (index < 16u) {
        uvec2 cell = uvec2(index % 4u, index / 4u);
        uvec3 sum = climb_sum(0u, 8u, cell);
        uint count = pixel_count(tile_origin + cell * 8u, 8u);
        imageStore(level_3, ivec3(tile_origin / 8u + cell, layer), uvec4(rounded_mean(sum, count), 255));
        climb[64u + index] = sum;
    }
    barrier();

    if (index < 4u) {
        uvec2 cell = uvec2(index % 2u, index / 2u);
        uvec3 sum = climb_sum(64u, 4u, cell);
        uint count = pixel_count(tile_origin + cell * 16u, 16u);
        imageStore(level_4, ivec3(tile_origin / 16u + cell, layer), uvec4(rounded_mean(sum, count), 255));
        climb[80u + index] = sum;
    }
    barrier();

    if (index == 0u) {
        uvec3 sum = climb_sum(80u, 2u, uvec2(0));
        uint count = pixel_count(tile_origin, TILE_SIDE);
        imageStore(level_5, ivec3(tile_origin / TILE_SIDE, layer), uvec4(rounded_mean(sum, count), 255));
        tile_sums.sums[layer * push.layer_sums + grid_index] = uvec4(sum, count);
    }
}
