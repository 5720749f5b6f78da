#version 460
#extension GL_GOOGLE_include_directive : require
#include "../../../../glsl/shared/linear.glsl"
#include "plan.glsl"

// Means of the keys, or of the values, over the cells of all levels, four numbers in a word.
//
// One invocation per four numbers of a cell. It sums the keys themselves, row by row and then the rows, so that no level waits
// for another and long sums lose little. Level 0 is a copy, filled up to whole words like the others.
//
// Host side: vulkan/passes.rs    Twin: keys.rs

layout(local_size_x = 64) in;

// Whether the words of a cell lie together, as values are read; otherwise those of the same four numbers do, as keys are.
layout(constant_id = 0) const bool BY_CELL = false;

// [heads, keys, width]
layout(set = 0, binding = 0, std430) readonly restrict buffer Source {
    float numbers[];
} source;
layout(set = 0, binding = 1, std430) readonly restrict buffer Plan {
    LevelRecord levels[LEVELS_MAX];
    float offsets[];
} plan;
// [heads, cells of all levels], those of a level together.
layout(set = 0, binding = 2, std430) writeonly restrict buffer Means {
    vec4 words[];
} means;

layout(push_constant) uniform MeansPush {
    uint heads;
    uint level_count;
    uint cells; // Of all levels.
    uint width; // Numbers of a vector.
} push;

vec4 load(uint vector, uint word) {
    vec4 found = vec4(0);
    for (uint i = 0; i < min(push.width - word * 4u, 4u); i++) {
        found[i] = source.numbers[vector * push.width + word * 4u + i];
    }
    return found;
}

vec4 mean_of(uint head, LevelRecord level, uint cell, uint word) {
    uvec2 grid = uvec2(plan.levels[0].columns, plan.levels[0].rows);
    uvec2 start = uvec2(cell % level.columns, cell / level.columns) * level.side;
    uvec2 end = min(start + level.side, grid);
    vec4 sum = vec4(0);
    for (uint y = start.y; y < end.y; y++) {
        vec4 row = vec4(0);
        for (uint x = start.x; x < end.x; x++) {
            row += load(head * grid.x * grid.y + y * grid.x + x, word);
        }
        sum += row;
    }
    return sum / float((end.x - start.x) * (end.y - start.y));
}

void main() {
    uint words = (push.width + 3u) / 4u;
    uint index = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (index >= push.heads * push.cells * words) {
        return;
    }
    uint word = index % words;
    uint cell = index / words % push.cells;
    uint head = index / words / push.cells;
    uint level = push.level_count - 1u;
    while (cell < plan.levels[level].first_cell) {
        level--;
    }
    LevelRecord at = plan.levels[level];
    cell -= at.first_cell;
    uint place = BY_CELL ? cell * words + word : word * cell_count(at) + cell;
    means.words[(head * push.cells + at.first_cell) * words + place] = mean_of(head, at, cell, word);
}
