#version 460
#extension GL_GOOGLE_include_directive : require
#include "../../../../glsl/shared/linear.glsl"
#include "attend.glsl"

// Results: the values of cells and keys by their weights, over the sum of the weights.
//
// A workgroup takes some queries of a head. An invocation has four numbers of a value; where values are short, several share
// the cells, and their sums are added last. The coarsest cells are read once for all of the queries, what a query opened for
// itself.
//
// Host side: vulkan/passes.rs    Twin: add_coarsest and add_children in block.rs

layout(local_size_x = 64) in;

const uint QUERIES = 4;

layout(set = 0, binding = 0, std430) readonly restrict buffer Values {
    vec4 words[];
} values;
layout(set = 0, binding = 1, std430) readonly restrict buffer Plan {
    LevelRecord levels[LEVELS_MAX];
    float offsets[];
} plan;
// A row for each query, with weights for scores.
layout(set = 0, binding = 2, std430) readonly restrict buffer Rows {
    uint words[];
} rows;
// [heads, queries, value width]
layout(set = 0, binding = 3, std430) writeonly restrict buffer Results {
    float numbers[];
} results;

shared vec4 parts[QUERIES][gl_WorkGroupSize.x];

float weight_at(uint place) {
    return uintBitsToFloat(rows.words[place]);
}

// The values of a level by their weights, of every `step`th place from `first` of those that a query has below its opened cells.
vec4 sum_of_children(uint row, uint first_word, uint words, uint level, uint first, uint step) {
    LevelRecord at = plan.levels[level];
    LevelRecord above = plan.levels[level + 1u];
    uint family = family_count(at);
    uint places = rows.words[row + push.first_record + level + 1u] * family;
    vec4 sum = vec4(0);
    for (uint place = first; place < places; place += step) {
        uint parent = rows.words[row + above.first_opened + place / family];
        uint child = place % family;
        uint y = parent / above.columns * push.coarse + child / at.family_columns;
        uint x = parent % above.columns * push.coarse + child % at.family_columns;
        if (y < at.rows && x < at.columns) {
            uint cell = at.first_cell + y * at.columns + x;
            sum += weight_at(row + at.first_score + place) * values.words[first_word + cell * words];
        }
    }
    return sum;
}

void write(uint query, uint word, vec4 sum) {
    vec4 result = sum / weight_at(query * push.row_words + push.first_record);
    for (uint i = 0; i < min(push.value_width - word * 4u, 4u); i++) {
        results.numbers[query * push.value_width + word * 4u + i] = result[i];
    }
}

void main() {
    uint query_blocks = (push.queries + QUERIES - 1u) / QUERIES;
    uint index = linear_workgroup();
    if (index >= push.heads * query_blocks) {
        return;
    }
    uint head = index / query_blocks;
    uint first_query = index % query_blocks * QUERIES;
    uint count = min(push.queries - first_query, QUERIES);
    first_query += head * push.queries;
    uint words = (push.value_width + 3u) / 4u;
    LevelRecord coarsest = plan.levels[push.level_count - 1u];
    // All of them may be open.
    uint cells = coarsest.open < cell_count(coarsest) ? cell_count(coarsest) : 0u;

    for (uint start = 0; start < words; start += gl_WorkGroupSize.x) {
        uint columns = min(words - start, gl_WorkGroupSize.x);
        uint sharing = gl_WorkGroupSize.x / columns;
        uint part = gl_LocalInvocationIndex / columns;
        uint word = start + gl_LocalInvocationIndex % columns;
        vec4 sums[QUERIES];
        for (uint query = 0; query < QUERIES; query++) {
            sums[query] = vec4(0);
        }
        if (part < sharing) {
            uint first_word = head * push.cells * words + word;
            for (uint cell = part; cell < cells; cell += sharing) {
                vec4 value = values.words[first_word + (coarsest.first_cell + cell) * words];
                for (uint query = 0; query < QUERIES; query++) {
                    // Those beyond the last query work on it, too.
                    uint row = (first_query + min(query, count - 1u)) * push.row_words;
                    sums[query] += weight_at(row + coarsest.first_score + cell) * value;
                }
            }
            for (uint query = 0; query < QUERIES; query++) {
                uint row = (first_query + min(query, count - 1u)) * push.row_words;
                for (uint level = 0; level + 1u < push.level_count; level++) {
                    sums[query] += sum_of_children(row, first_word, words, level, part, sharing);
                }
            }
        }
        for (uint query = 0; query < QUERIES; query++) {
            parts[query][gl_LocalInvocationIndex] = sums[query];
        }
        barrier();
        for (uint query = 0; part == 0u && query < count; query++) {
            vec4 sum = vec4(0);
            for (uint i = 0; i < sharing; i++) {
                sum += parts[query][i * columns + gl_LocalInvocationIndex];
            }
            write(first_query + query, word, sum);
        }
        barrier();
    }
}
