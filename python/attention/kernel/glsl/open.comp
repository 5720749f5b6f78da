#version 460
#extension GL_GOOGLE_include_directive : require
#include "../../../../glsl/shared/linear.glsl"
#include "attend.glsl"

// Opens the best cells of each query, level by level down to the keys, and turns its scores into weights.
//
// One workgroup per query. The scores of a level become integers of the same order, followed by the cell with its bits turned,
// so that all of these numbers differ; the bound that as many reach as are to be opened is found bit by bit, from the highest,
// and without ties after a few bits. The opened cells are listed in the order of their scores in the row, whatever invocation
// finds them, so that results are the same from run to run. Whether a score is a number is asked of its bits: devices may take
// all numbers to be finite.
//
// Host side: vulkan/passes.rs    Twin: select.rs, and open and soften in block.rs

layout(local_size_x = 64) in;

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
layout(set = 0, binding = 3, std430) coherent restrict buffer Rows {
    uint words[];
} rows;

const uint INFINITY = 0x7F800000u;
const uint NOT_A_NUMBER = 0x7FC00000u;

// The query, and where its row starts.
uint query;
uint row;

// How many numbers reach the bound that differs in a bit, and, last, how many there are.
shared uint reached[65];
// Opened by each invocation.
shared uint counts[gl_WorkGroupSize.x];
shared uint largest;
shared uint are_numbers;
shared float sums[gl_WorkGroupSize.x];

bool is_coarsest(uint level) {
    return level + 1u == push.level_count;
}

// The cell at a place of the scores of a level; or none, beyond the edge of the grid.
uint cell_at(uint level, uint place) {
    if (is_coarsest(level)) {
        return place;
    }
    LevelRecord at = plan.levels[level];
    LevelRecord above = plan.levels[level + 1u];
    uint family = family_count(at);
    uint parent = rows.words[row + above.first_opened + place / family];
    uint child = place % family;
    uint y = parent / above.columns * push.coarse + child / at.family_columns;
    uint x = parent % above.columns * push.coarse + child % at.family_columns;
    return y < at.rows && x < at.columns ? y * at.columns + x : NO_CELL;
}

// An integer of the order of a score; 0 if it is none, or not a number.
uint order_of(uint score) {
    if (score == NO_SCORE || INFINITY < (score & 0x7FFFFFFFu)) {
        return 0u;
    }
    return (score & 0x80000000u) != 0u ? ~score : score | 0x80000000u;
}

// Whether the number at a place reaches a bound.
bool reaches(uint level, uint place, uvec2 bound) {
    uint order = order_of(rows.words[row + plan.levels[level].first_score + place]);
    if (order != bound.x || bound.y == 0u) {
        return bound.x <= order;
    }
    return bound.y <= ~cell_at(level, place);
}

// The bound that the best `wanted` of a level reach, or all if there are fewer.
uvec2 bound_of_best(uint level, uint places, uint wanted) {
    for (uint i = gl_LocalInvocationIndex; i < 65u; i += gl_WorkGroupSize.x) {
        reached[i] = 0u;
    }
    barrier();
    uvec2 bound = uvec2(1, 0);
    uvec2 found = bound;
    for (uint bit = 64u; true; bit--) {
        uint count = 0u;
        for (uint place = gl_LocalInvocationIndex; place < places; place += gl_WorkGroupSize.x) {
            count += uint(reaches(level, place, bound));
        }
        atomicAdd(reached[bit], count);
        barrier();
        bool is_all = bit == 64u && reached[bit] <= wanted;
        if (is_all || reached[bit] == wanted) {
            return bound;
        }
        found = bit == 64u ? uvec2(0) : wanted < reached[bit] ? bound : found;
        if (bit == 0u) {
            return found;
        }
        uint next = bit - 1u;
        bound = found | (next < 32u ? uvec2(0, 1u << next) : uvec2(1u << (next - 32u), 0));
    }
}

// Lists the best cells of a level, takes their scores out, and returns how many they are.
uint open_best(uint level, uint places) {
    LevelRecord at = plan.levels[level];
    uvec2 bound = bound_of_best(level, places, at.open);
    uint share = (places + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;
    uint first = min(gl_LocalInvocationIndex * share, places);
    uint end = min(first + share, places);
    uint count = 0u;
    for (uint place = first; place < end; place++) {
        count += uint(reaches(level, place, bound));
    }
    counts[gl_LocalInvocationIndex] = count;
    barrier();
    uint slot = 0u;
    uint opened = 0u;
    for (uint i = 0u; i < gl_WorkGroupSize.x; i++) {
        slot += i < gl_LocalInvocationIndex ? counts[i] : 0u;
        opened += counts[i];
    }
    for (uint place = first; place < end; place++) {
        if (reaches(level, place, bound)) {
            rows.words[row + at.first_opened + slot] = cell_at(level, place);
            rows.words[row + at.first_score + place] = NO_SCORE;
            slot++;
        }
    }
    memoryBarrierBuffer();
    barrier();
    return opened;
}

// Scores the cells of a level that were opened above.
void score_children(uint level, uint places) {
    LevelRecord at = plan.levels[level];
    uint cells = cell_count(at);
    uint first_word = (query / push.queries * push.cells + at.first_cell) * push.width;
    for (uint place = gl_LocalInvocationIndex; place < places; place += gl_WorkGroupSize.x) {
        uint cell = cell_at(level, place);
        uint score = NO_SCORE;
        if (cell != NO_CELL) {
            float sum = 0.0;
            for (uint word = 0; word < push.width; word++) {
                sum += dot(keys.words[first_word + word * cells + cell], queries.words[query * push.width + word]);
            }
            float offset = level == 0u ? 0.0 : plan.offsets[at.first_cell - cell_count(plan.levels[0]) + cell];
            score = floatBitsToUint(push.scale * sum + offset);
        }
        rows.words[row + at.first_score + place] = score;
    }
    memoryBarrierBuffer();
    barrier();
}

// Takes the scores of a level into account for the largest of all.
void find_largest(uint level, uint places) {
    uint order = 0u;
    bool is_number = true;
    for (uint place = gl_LocalInvocationIndex; place < places; place += gl_WorkGroupSize.x) {
        uint score = rows.words[row + plan.levels[level].first_score + place];
        order = max(order, order_of(score));
        is_number = is_number && (score == NO_SCORE || (score & 0x7FFFFFFFu) < INFINITY);
    }
    atomicMax(largest, order);
    atomicAnd(are_numbers, uint(is_number));
}

// Turns the scores of a level into weights, and returns the sum of those of this invocation.
float soften(uint level, uint places, float shift) {
    float sum = 0.0;
    for (uint place = gl_LocalInvocationIndex; place < places; place += gl_WorkGroupSize.x) {
        uint at = row + plan.levels[level].first_score + place;
        uint score = rows.words[at];
        float weight = score == NO_SCORE ? 0.0 : exp(uintBitsToFloat(score) - shift);
        rows.words[at] = floatBitsToUint(weight);
        sum += weight;
    }
    return sum;
}

void main() {
    query = linear_workgroup();
    if (query >= push.heads * push.queries) {
        return;
    }
    row = query * push.row_words;
    if (gl_LocalInvocationIndex == 0u) {
        largest = 0u;
        are_numbers = 1u;
    }
    barrier();

    uint places[LEVELS_MAX];
    uint coarsest = push.level_count - 1u;
    places[coarsest] = cell_count(plan.levels[coarsest]);
    for (uint level = coarsest; level != 0u; level--) {
        uint opened = open_best(level, places[level]);
        if (gl_LocalInvocationIndex == 0u) {
            rows.words[row + push.first_record + level] = opened;
        }
        places[level - 1u] = opened * family_count(plan.levels[level - 1u]);
        score_children(level - 1u, places[level - 1u]);
    }

    for (uint level = 0u; level < push.level_count; level++) {
        find_largest(level, places[level]);
    }
    barrier();
    uint bits = (largest & 0x80000000u) != 0u ? largest & 0x7FFFFFFFu : ~largest;
    float sum = 0.0;
    for (uint level = 0u; level < push.level_count; level++) {
        sum += soften(level, places[level], uintBitsToFloat(bits));
    }
    sums[gl_LocalInvocationIndex] = sum;
    barrier();
    if (gl_LocalInvocationIndex == 0u) {
        float total = 0.0;
        for (uint i = 0u; i < gl_WorkGroupSize.x; i++) {
            total += sums[i];
        }
        bool is_number = are_numbers != 0u && largest != 0u;
        rows.words[row + push.first_record] = is_number ? floatBitsToUint(total) : NOT_A_NUMBER;
    }
}
