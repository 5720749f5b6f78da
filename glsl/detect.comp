#version 460
#extension GL_GOOGLE_include_directive : require
#include "shared/bytes.glsl"
#include "shared/linear.glsl"
#include "shared/tiles.glsl"

// Finds the tiles of a frame that are to be ingested, and copies them to the resident copy.
//
// One workgroup per tile of the grid: it compares the samples a word at a time and writes their largest difference; if that
// exceeds the threshold, or the tile is due for a refresh, it copies the samples and lists the tile. Bytes that are not samples
// are ignored: those beyond the frame's edge, the fourth byte of RGBx, the last luma of an odd row of YUY2.
// The resident copy has a record for each tile of the grid, as the ingest pass reads them. Tiles are listed in no particular
// order.
//
// Host side: src/engine/backend/vulkan/detect.rs    Twin: src/engine/change/detect.rs

layout(local_size_x = 64) in;

// Extent of a tile in each plane: words of a row, then rows; 0 if there is no such plane.
layout(constant_id = 0) const uint ROW_WORDS_0 = 1;
layout(constant_id = 1) const uint ROW_WORDS_1 = 0;
layout(constant_id = 2) const uint ROW_WORDS_2 = 0;
layout(constant_id = 3) const uint ROWS_0 = 1;
layout(constant_id = 4) const uint ROWS_1 = 0;
layout(constant_id = 5) const uint ROWS_2 = 0;
// Masks of the bytes that are samples: of any word, and of the last word of a row.
layout(constant_id = 6) const uint SAMPLE_MASK = 0;
layout(constant_id = 7) const uint ROW_END_MASK = 0;
layout(constant_id = 8) const uint GROUPS_PER_ROW = 1;

const uint PLANE_1_WORD = ROW_WORDS_0 * ROWS_0;
const uint PLANE_2_WORD = PLANE_1_WORD + ROW_WORDS_1 * ROWS_1;
const uint PLANE_COUNT = ROWS_2 != 0u ? 3u : ROWS_1 != 0u ? 2u : 1u;
const uint RECORD_WORDS = PLANE_2_WORD + ROW_WORDS_2 * ROWS_2;

// A plane in the frame's memory.
struct PlanePlace {
    uint first_byte;
    uint stride;
    uint row_bytes; // Without padding.
    uint rows;
};

layout(set = 0, binding = 0, std430) readonly restrict buffer Frame {
    uint words[];
} frame;
layout(set = 0, binding = 1, std430) restrict buffer Resident {
    uint words[];
} resident;
// One per tile of the grid, row by row.
layout(set = 0, binding = 2, std430) writeonly restrict buffer Differences {
    uint largest[];
} differences;
// Initially empty.
layout(set = 0, binding = 3, std430) restrict buffer TileList {
    uvec3 groups;
    uint count;
    TileRecord tiles[];
} ingested;
// One bit per tile of the grid, row by row; initially 0.
layout(set = 0, binding = 4, std430) restrict buffer TileBits {
    uint words[];
} bits;

layout(push_constant) uniform DetectPush {
    PlanePlace planes[3];
    uvec2 grid; // Columns and rows of tiles.
    uvec2 refreshed; // Range of indices of the tiles due for a refresh, end exclusive.
    uint threshold;
} push;

shared uint largest_of_tile;

// Share of an invocation of one plane of a tile: a column of words, in every few rows.
struct Column {
    uint word; // Of the first row, in the resident copy.
    uint word_step; // To the next row.
    uint byte; // Of the first row, in the frame.
    uint byte_step; // To the next row.
    uint row_count;
    uint byte_count; // Bytes of a word inside the frame.
    uint mask; // Bytes of a word that are samples.
};

Column column_of(uint plane, uint index, uvec2 tile) {
    uint first_word = plane == 0u ? 0u : plane == 1u ? PLANE_1_WORD : PLANE_2_WORD;
    uint row_words = plane == 0u ? ROW_WORDS_0 : plane == 1u ? ROW_WORDS_1 : ROW_WORDS_2;
    uint rows = plane == 0u ? ROWS_0 : plane == 1u ? ROWS_1 : ROWS_2;
    PlanePlace place = push.planes[plane];

    // A workgroup spans whole rows; where row_words do not divide it, the last invocations have no share.
    uint row_step = gl_WorkGroupSize.x / row_words;
    bool has_share = gl_LocalInvocationIndex < row_step * row_words;
    uint x = (tile.x * row_words + gl_LocalInvocationIndex % row_words) * 4u;
    uint y = tile.y * rows + gl_LocalInvocationIndex / row_words;
    uint end_y = min(tile.y * rows + rows, place.rows);
    if (!has_share || place.row_bytes <= x || end_y <= y) {
        return Column(0u, 0u, 0u, 0u, 0u, 0u, 0u);
    }
    uint byte_count = min(place.row_bytes - x, 4u);
    uint mask = SAMPLE_MASK & (0xFFFFFFFFu >> (32u - byte_count * 8u));
    return Column(index * RECORD_WORDS + first_word + gl_LocalInvocationIndex,
                  row_step * row_words,
                  place.first_byte + y * place.stride + x,
                  row_step * place.stride,
                  (end_y - y + row_step - 1u) / row_step,
                  byte_count,
                  x + 4u == place.row_bytes ? mask & ROW_END_MASK : mask);
}

// The frame's word in row `row` of the column. Never reads a word without a byte of the frame, as its memory may end there. Rows
// may begin at any byte.
uint load(Column column, uint row) {
    uint first_byte = column.byte + row * column.byte_step;
    uint shift = first_byte % 4u * 8u;
    uint word = frame.words[first_byte / 4u] >> shift;
    if (32u < shift + column.byte_count * 8u) {
        word |= frame.words[first_byte / 4u + 1u] << (32u - shift);
    }
    return word;
}

// Largest difference of this invocation's samples of the tile.
uint compare(uint index, uvec2 tile) {
    uvec4 largest = uvec4(0);
    for (uint plane = 0u; plane < PLANE_COUNT; plane++) {
        Column column = column_of(plane, index, tile);
        for (uint row = 0u; row < column.row_count; row++) {
            uint new = load(column, row) & column.mask;
            uint old = resident.words[column.word + row * column.word_step] & column.mask;
            largest = max(largest, uvec4(abs(ivec4(bytes_of(new)) - ivec4(bytes_of(old)))));
        }
    }
    return max(max(largest.x, largest.y), max(largest.z, largest.w));
}

void copy_to_resident(uint index, uvec2 tile) {
    for (uint plane = 0u; plane < PLANE_COUNT; plane++) {
        Column column = column_of(plane, index, tile);
        for (uint row = 0u; row < column.row_count; row++) {
            resident.words[column.word + row * column.word_step] = load(column, row);
        }
    }
}

// Lists the tile, and adds a workgroup to the next pass.
void list(uint index, uvec2 tile) {
    uint place = atomicAdd(ingested.count, 1u);
    ingested.tiles[place] = TileRecord(tile.x, tile.y, 0u);
    uvec2 groups = wrapped_groups(place + 1u, GROUPS_PER_ROW);
    atomicMax(ingested.groups.x, groups.x);
    atomicMax(ingested.groups.y, groups.y);
    atomicOr(bits.words[index / 32u], 1u << (index % 32u));
}

void main() {
    uint index = linear_workgroup();
    if (index >= push.grid.x * push.grid.y) {
        return;
    }
    uvec2 tile = uvec2(index % push.grid.x, index / push.grid.x);
    if (gl_LocalInvocationIndex == 0u) {
        largest_of_tile = 0u;
    }
    barrier();
    atomicMax(largest_of_tile, compare(index, tile));
    barrier();

    bool is_due = push.refreshed.x <= index && index < push.refreshed.y;
    bool is_ingested = push.threshold < largest_of_tile || is_due;
    if (is_ingested) {
        copy_to_resident(index, tile);
    }
    if (gl_LocalInvocationIndex == 0u) {
        differences.largest[index] = largest_of_tile;
        if (is_ingested) {
            list(index, tile);
        }
    }
}
