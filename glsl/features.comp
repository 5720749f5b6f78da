#version 460
#extension GL_GOOGLE_include_directive : require
#include "shared/bytes.glsl"
#include "shared/linear.glsl"
#include "shared/sampling.glsl"
#include "shared/tiles.glsl"

// Sums over the luma of tiles, and those of their colours, which ingest.comp has made: what each looks like.
//
// One workgroup per tile, one invocation per block of 4x4 pixels. Luma is kept in shared memory, 0 beyond the source; sums are
// added up there, in integers, so their order does not matter.
//
// Host side: src/engine/backend/vulkan/features.rs    Twin: src/engine/backend/cpu/features.rs

layout(local_size_x = 64) in; // (TILE_SIDE / 4)^2

layout(constant_id = 0) const uint TILE_SIDE = 1;
layout(constant_id = 1) const uint SAMPLING = 0; // Of shared/sampling.glsl.
layout(constant_id = 2) const bool IS_RESIDENT = false; // Whether records are those of the whole grid, not of the list.
layout(constant_id = 3) const int STRONG = 0;
layout(constant_id = 4) const uint STROKE_MAX = 0;

// As of ingest.comp.
layout(set = 0, binding = 0, std430) readonly restrict buffer Records {
    uint words[];
} records;
layout(set = 0, binding = 1, std430) readonly restrict buffer TileList {
    uvec3 groups;
    uint count;
    TileRecord tiles[];
} dirty;

const uint BINS = 16u;

// Twin: src/gaze/relevance/features.rs
struct TileFeatures {
    uint count;
    uint luma;
    uint luma_squared;
    uint differences[2];
    uint gradient[2];
    uint gradient_squared[2];
    int gradient_product;
    uint coarse_differences;
    uint coarse_squared;
    uint strokes[2];
    uint histogram[BINS];
    uint color[3];
};

// Per tile of the grid, row by row.
layout(set = 0, binding = 2, std430) writeonly restrict buffer Features {
    TileFeatures tiles[];
} features;

// As of ingest.comp, of the only layer.
layout(set = 0, binding = 3, std430) readonly restrict buffer TileSums {
    uvec4 sums[];
} tile_sums;

layout(push_constant) uniform FeaturesPush {
    uvec2 extent; // Of the source, in pixels.
    uint is_whole; // Whether all tiles of the grid are meant, not those of the list; only if records are resident.
} push;

shared uint luma[TILE_SIDE * TILE_SIDE];
shared uint means[64]; // Of the blocks.
shared uint sums[13]; // Of the fields of TileFeatures from `luma` on; the product is stored as a uint.
shared uint histogram[BINS];

const uint LUMA = 0u;
const uint LUMA_SQUARED = 1u;
const uint GRADIENT = 2u;
const uint GRADIENT_SQUARED = 4u;
const uint PRODUCT = 6u;
const uint COARSE = 7u;
const uint COARSE_SQUARED = 8u;
const uint STROKES = 9u;

uint word_at(uint first_word, uint row_bytes, uvec2 byte_at) {
    return records.words[first_word + (byte_at.y * row_bytes + byte_at.x) / 4u];
}

uint luma_of(uint pixel) {
    uvec4 bytes = bytes_of(pixel);
    uvec3 rgb = is_reversed(SAMPLING) ? bytes.zyx : bytes.xyz;
    return (54u * rgb.r + 183u * rgb.g + 19u * rgb.b + 128u) >> 8u;
}

// Luma of the pixels at..at + (3, 0) of the tile that starts `first_word` words into the records; at.x is a multiple of 4.
uvec4 load_row(uint first_word, uvec2 at) {
    if (SAMPLING == SAMPLING_YUY2) {
        uvec4 left = bytes_of(word_at(first_word, TILE_SIDE * 2u, uvec2(at.x * 2u, at.y)));
        uvec4 right = bytes_of(word_at(first_word, TILE_SIDE * 2u, uvec2(at.x * 2u + 4u, at.y)));
        return uvec4(left.xz, right.xz);
    }
    if (SAMPLING == SAMPLING_RGB || SAMPLING == SAMPLING_BGR) {
        uint first = first_word + (at.y * TILE_SIDE + at.x) / 4u * 3u;
        uvec4 pixels = spread_pixels(uvec3(records.words[first], records.words[first + 1u], records.words[first + 2u]));
        return uvec4(luma_of(pixels.x), luma_of(pixels.y), luma_of(pixels.z), luma_of(pixels.w));
    }
    if (SAMPLING == SAMPLING_RGBX || SAMPLING == SAMPLING_BGRX) {
        uint first_pixel = first_word + at.y * TILE_SIDE + at.x;
        return uvec4(luma_of(records.words[first_pixel]), luma_of(records.words[first_pixel + 1u]),
                     luma_of(records.words[first_pixel + 2u]), luma_of(records.words[first_pixel + 3u]));
    }
    return bytes_of(word_at(first_word, TILE_SIDE, at));
}

int luma_at(uint x, uint y) {
    return int(luma[y * TILE_SIDE + x]);
}

// How many bits of `strong` are followed by one of `other` within STROKE_MAX.
uint strokes_in(uint strong, uint other) {
    uint near = 0u;
    for (uint later = 1u; later <= STROKE_MAX; later++) {
        near |= other >> later;
    }
    return uint(bitCount(strong & near));
}

// Strokes along row, or column, `index` of a tile with so many real pixels along it.
uint strokes_along(uint index, bool is_row, uint real) {
    uint rises = 0u;
    uint falls = 0u;
    for (uint i = 0u; i + 1u < real; i++) {
        int here = is_row ? luma_at(i, index) : luma_at(index, i);
        int next = is_row ? luma_at(i + 1u, index) : luma_at(index, i + 1u);
        rises |= uint(STRONG <= next - here) << i;
        falls |= uint(next - here <= -STRONG) << i;
    }
    return strokes_in(rises, falls) + strokes_in(falls, rises);
}

void main() {
    uint tile_index = linear_workgroup();
    uvec2 grid = (push.extent + TILE_SIDE - 1u) / TILE_SIDE;
    bool is_whole = push.is_whole != 0u;
    if (tile_index >= (is_whole ? grid.x * grid.y : dirty.count)) {
        return;
    }
    uvec2 tile = uvec2(tile_index % grid.x, tile_index / grid.x);
    if (!is_whole) {
        tile = uvec2(dirty.tiles[tile_index].column, dirty.tiles[tile_index].row);
    }
    uint grid_index = tile.y * grid.x + tile.x;
    uint first_word = (IS_RESIDENT ? grid_index : tile_index) * record_words(SAMPLING, TILE_SIDE * TILE_SIDE);
    uvec2 real = min(push.extent - tile * TILE_SIDE, uvec2(TILE_SIDE));
    uint index = gl_LocalInvocationIndex;
    uvec2 block = uvec2(index % (TILE_SIDE / 4u), index / (TILE_SIDE / 4u)) * 4u;

    if (index < 13u) {
        sums[index] = 0u;
    }
    if (index < BINS) {
        histogram[index] = 0u;
    }
    uint block_sum = 0u;
    for (uint y = block.y; y < block.y + 4u; y++) {
        uvec4 row = load_row(first_word, uvec2(block.x, y));
        row *= uvec4(lessThan(block.xxxx + uvec4(0, 1, 2, 3), real.xxxx)) * uint(y < real.y);
        for (uint i = 0u; i < 4u; i++) {
            luma[y * TILE_SIDE + block.x + i] = row[i];
        }
        block_sum += row.x + row.y + row.z + row.w;
    }
    means[index] = (block_sum + 8u) >> 4u;
    barrier();

    uint own[7] = uint[7](0u, 0u, 0u, 0u, 0u, 0u, 0u);
    int product = 0;
    for (uint y = block.y; y < min(block.y + 4u, real.y); y++) {
        for (uint x = block.x; x < min(block.x + 4u, real.x); x++) {
            int here = luma_at(x, y);
            bool has_dx = x + 1u < real.x;
            bool has_dy = y + 1u < real.y;
            int dx = has_dx ? luma_at(x + 1u, y) - here : 0;
            int dy = has_dy ? luma_at(x, y + 1u) - here : 0;
            own[LUMA] += uint(here);
            own[LUMA_SQUARED] += uint(here * here);
            own[GRADIENT] += uint(abs(dx));
            own[GRADIENT + 1u] += uint(abs(dy));
            own[GRADIENT_SQUARED] += uint(dx * dx);
            own[GRADIENT_SQUARED + 1u] += uint(dy * dy);
            product += dx * dy;
            atomicAdd(histogram[uint(here) * BINS / 256u], 1u);
        }
    }
    own[PRODUCT] = uint(product);
    for (uint i = 0u; i < 7u; i++) {
        atomicAdd(sums[i], own[i]);
    }

    uvec2 whole = real / 4u * 4u; // Where blocks end whose pixels are all real.
    if (all(lessThan(block, whole))) {
        uint mean = means[index];
        if (block.x + 4u < whole.x) {
            uint difference = max(mean, means[index + 1u]) - min(mean, means[index + 1u]);
            atomicAdd(sums[COARSE], 1u);
            atomicAdd(sums[COARSE_SQUARED], difference * difference);
        }
        if (block.y + 4u < whole.y) {
            uint below = means[index + TILE_SIDE / 4u];
            uint difference = max(mean, below) - min(mean, below);
            atomicAdd(sums[COARSE], 1u);
            atomicAdd(sums[COARSE_SQUARED], difference * difference);
        }
    }
    bool is_row = index < TILE_SIDE;
    uint line = index % TILE_SIDE;
    if (line < (is_row ? real.y : real.x)) {
        atomicAdd(sums[STROKES + uint(!is_row)], strokes_along(line, is_row, is_row ? real.x : real.y));
    }
    barrier();

    if (index < BINS) {
        features.tiles[grid_index].histogram[index] = histogram[index];
    }
    if (index == 0u) {
        features.tiles[grid_index].count = real.x * real.y;
        features.tiles[grid_index].luma = sums[LUMA];
        features.tiles[grid_index].luma_squared = sums[LUMA_SQUARED];
        features.tiles[grid_index].differences[0] = (real.x - 1u) * real.y;
        features.tiles[grid_index].differences[1] = real.x * (real.y - 1u);
        features.tiles[grid_index].gradient[0] = sums[GRADIENT];
        features.tiles[grid_index].gradient[1] = sums[GRADIENT + 1u];
        features.tiles[grid_index].gradient_squared[0] = sums[GRADIENT_SQUARED];
        features.tiles[grid_index].gradient_squared[1] = sums[GRADIENT_SQUARED + 1u];
        features.tiles[grid_index].gradient_product = int(sums[PRODUCT]);
        features.tiles[grid_index].coarse_differences = sums[COARSE];
        features.tiles[grid_index].coarse_squared = sums[COARSE_SQUARED];
        features.tiles[grid_index].strokes[0] = sums[STROKES];
        features.tiles[grid_index].strokes[1] = sums[STROKES + 1u];
        uvec4 color = tile_sums.sums[grid_index];
        features.tiles[grid_index].color[0] = color.r;
        features.tiles[grid_index].color[1] = color.g;
        features.tiles[grid_index].color[2] = color.b;
    }
}
