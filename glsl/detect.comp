#version 460
#extension GL_GOOGLE_include_directive : require
#include "shared/bytes.glsl"
#include "shared/linear.glsl"
#include "shared/tiles.glsl"

// Finds the tiles of a frame that are to be ingested, and takes them over into the resident copy.
//
// One workgroup per tile of the grid: it compares the samples word by word, says by how much they differ at most, and
// where that is beyond the threshold, or where it is the tile's turn, copies them and lists the tile. Bytes that are no
// samples do not count: what hangs over the frame's edge, the fourth byte of RGB, the last luma of an odd row of YUY2.
// The resident copy has a record for each tile of the grid, as the ingest pass reads them. Tiles are listed in any order.
//
// Host side: src/retina/vulkan/detect.rs    Twin: src/change/detect.rs

layout(local_size_x = 64) in;

// What a tile takes of each plane: words of a row, then rows; 0 where there is no such plane.
layout(constant_id = 0) const uint ROW_WORDS_0 = 1;
layout(constant_id = 1) const uint ROW_WORDS_1 = 0;
layout(constant_id = 2) const uint ROW_WORDS_2 = 0;
layout(constant_id = 3) const uint ROWS_0 = 1;
layout(constant_id = 4) const uint ROWS_1 = 0;
layout(constant_id = 5) const uint ROWS_2 = 0;
// Which bytes of a word are samples, of any word and of the last of a row.
layout(constant_id = 6) const uint SAMPLE_MASK = 0;
layout(constant_id = 7) const uint ROW_END_MASK = 0;
layout(constant_id = 8) const uint GROUPS_PER_ROW = 1;

const uint PLANE_1_WORD = ROW_WORDS_0 * ROWS_0;
const uint PLANE_2_WORD = PLANE_1_WORD + ROW_WORDS_1 * ROWS_1;
const uint RECORD_WORDS = PLANE_2_WORD + ROW_WORDS_2 * ROWS_2;

// Where a plane lies in the frame's memory.
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
// For each tile of the grid, row by row.
layout(set = 0, binding = 2, std430) writeonly restrict buffer Differences {
    uint largest[];
} differences;
// Empty before.
layout(set = 0, binding = 3, std430) restrict buffer TileList {
    uvec3 groups;
    uint count;
    TileRecord tiles[];
} ingested;
// A bit for each tile of the grid, row by row; 0 before.
layout(set = 0, binding = 4, std430) restrict buffer TileBits {
    uint words[];
} bits;

layout(push_constant) uniform DetectPush {
    PlanePlace planes[3];
    uvec2 grid; // Columns and rows of tiles.
    uvec2 refreshed; // Indices of the tiles whose turn it is: the first, and the first behind.
    uint threshold;
} push;

shared uint largest_of_tile;

// A word of the frame that belongs into a tile's record.
struct FrameWord {
    uint plane;
    uint x; // In bytes.
    uint y;
};

FrameWord locate(uint word, uvec2 tile) {
    uint plane = uint(PLANE_1_WORD <= word) + uint(PLANE_2_WORD <= word);
    uint first_word = plane == 0u ? 0u : plane == 1u ? PLANE_1_WORD : PLANE_2_WORD;
    uint row_words = plane == 0u ? ROW_WORDS_0 : plane == 1u ? ROW_WORDS_1 : ROW_WORDS_2;
    uint rows = plane == 0u ? ROWS_0 : plane == 1u ? ROWS_1 : ROWS_2;
    uint in_plane = word - first_word;
    uint x = (tile.x * row_words + in_plane % row_words) * 4u;
    return FrameWord(plane, x, tile.y * rows + in_plane / row_words);
}

// Bytes of the word that lie in the frame.
uint real_bytes(FrameWord at) {
    PlanePlace plane = push.planes[at.plane];
    return at.y < plane.rows && at.x < plane.row_bytes ? min(plane.row_bytes - at.x, 4u) : 0u;
}

// Reads no word without a byte that is asked for, as the frame's memory may end there. Rows may begin at any byte.
uint load(FrameWord at, uint byte_count) {
    PlanePlace plane = push.planes[at.plane];
    uint first_byte = plane.first_byte + at.y * plane.stride + at.x;
    uint shift = first_byte % 4u * 8u;
    uint word = frame.words[first_byte / 4u] >> shift;
    if (32u < shift + byte_count * 8u) {
        word |= frame.words[first_byte / 4u + 1u] << (32u - shift);
    }
    return word;
}

// Which bytes of the word, of which `byte_count` lie in the frame, are samples.
uint sample_mask(FrameWord at, uint byte_count) {
    uint mask = SAMPLE_MASK & (0xFFFFFFFFu >> (32u - byte_count * 8u));
    return at.x + 4u == push.planes[at.plane].row_bytes ? mask & ROW_END_MASK : mask;
}

uint largest_difference(uint a, uint b) {
    uvec4 difference = uvec4(abs(ivec4(bytes_of(a)) - ivec4(bytes_of(b))));
    return max(max(difference.x, difference.y), max(difference.z, difference.w));
}

// By how much the samples of this invocation's words of the tile differ at most.
uint compare(uint first_word, uvec2 tile) {
    uint largest = 0u;
    for (uint word = gl_LocalInvocationIndex; word < RECORD_WORDS; word += gl_WorkGroupSize.x) {
        FrameWord at = locate(word, tile);
        uint byte_count = real_bytes(at);
        if (byte_count != 0u) {
            uint mask = sample_mask(at, byte_count);
            uint difference = largest_difference(load(at, byte_count) & mask,
                                                 resident.words[first_word + word] & mask);
            largest = max(largest, difference);
        }
    }
    return largest;
}

void take_over(uint first_word, uvec2 tile) {
    for (uint word = gl_LocalInvocationIndex; word < RECORD_WORDS; word += gl_WorkGroupSize.x) {
        FrameWord at = locate(word, tile);
        uint byte_count = real_bytes(at);
        if (byte_count != 0u) {
            resident.words[first_word + word] = load(at, byte_count);
        }
    }
}

// Lists the tile, and makes the next pass run in a workgroup more.
void list(uint index, uvec2 tile) {
    uint place = atomicAdd(ingested.count, 1u);
    ingested.tiles[place] = TileRecord(tile.x, tile.y);
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
    uint first_word = index * RECORD_WORDS;
    if (gl_LocalInvocationIndex == 0u) {
        largest_of_tile = 0u;
    }
    barrier();
    atomicMax(largest_of_tile, compare(first_word, tile));
    barrier();

    bool is_due = push.refreshed.x <= index && index < push.refreshed.y;
    bool is_ingested = push.threshold < largest_of_tile || is_due;
    if (is_ingested) {
        take_over(first_word, tile);
    }
    if (gl_LocalInvocationIndex == 0u) {
        differences.largest[index] = largest_of_tile;
        if (is_ingested) {
            list(index, tile);
        }
    }
}
