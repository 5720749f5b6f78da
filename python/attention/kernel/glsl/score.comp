#version 460
#extension GL_GOOGLE_include_directive : require
#include "../../../../glsl/shared/linear.glsl"
#include "attend.glsl"

// Scores of all cells of the coarsest level.
//
// A workgroup takes some queries of a head and as many cells as it has invocations: each reads a key once for all of these
// queries, which lie in shared memory a few words at a time.
//
// Host side: vulkan/passes.rs    Twin: score_coarsest in block.rs

layout(local_size_x = 64) in;

const uint QUERIES = 8;
const uint WORDS = 16; // In shared memory at a time, of each query.

// [heads, queries], filled up with zeros.
layout(set = 0, binding = 0, std430) readonly restrict buffer Queries {
    vec4 words[];
} queries;
layout(set = 0, binding = 1, std430) readonly restrict buffer Keys {
    vec4 words[];
} keys;
layout(set = 0, binding = 2, std430) readonly restrict buffer Plan {
    LevelRecord levels[LEVELS_MAX];
    float offsets[]; // Of the cells from level 1: ln(keys) + bias.
} plan;
// A row for each query.
layout(set = 0, binding = 3, std430) writeonly restrict buffer Rows {
    uint words[];
} rows;

shared vec4 block[QUERIES][WORDS];

void main() {
    LevelRecord coarsest = plan.levels[push.level_count - 1u];
    uint cells = cell_count(coarsest);
    uint cell_blocks = (cells + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;
    uint query_blocks = (push.queries + QUERIES - 1u) / QUERIES;
    uint index = linear_workgroup();
    if (index >= push.heads * query_blocks * cell_blocks) {
        return;
    }
    uint cell = index % cell_blocks * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    uint first_query = index / cell_blocks % query_blocks * QUERIES;
    uint head = index / cell_blocks / query_blocks;
    uint first_row = head * push.queries + first_query;
    uint count = min(push.queries - first_query, QUERIES);
    // Those beyond the last cell work on it, too.
    uint first_word = (head * push.cells + coarsest.first_cell) * push.width + min(cell, cells - 1u);

    float sums[QUERIES];
    for (uint query = 0; query < QUERIES; query++) {
        sums[query] = 0.0;
    }
    for (uint start = 0; start < push.width; start += WORDS) {
        uint words = min(push.width - start, WORDS);
        barrier();
        for (uint i = gl_LocalInvocationIndex; i < QUERIES * words; i += gl_WorkGroupSize.x) {
            uint row = first_row + min(i / words, count - 1u);
            block[i / words][i % words] = queries.words[row * push.width + start + i % words];
        }
        barrier();
        for (uint word = 0; word < words; word++) {
            vec4 key = keys.words[first_word + (start + word) * cells];
            for (uint query = 0; query < QUERIES; query++) {
                sums[query] += dot(key, block[query][word]);
            }
        }
    }
    if (cell >= cells) {
        return;
    }
    float offset = plan.offsets[coarsest.first_cell - cell_count(plan.levels[0]) + cell];
    for (uint query = 0; query < count; query++) {
        uint place = (first_row + query) * push.row_words + coarsest.first_score + cell;
        rows.words[place] = floatBitsToUint(push.scale * sums[query] + offset);
    }
}
