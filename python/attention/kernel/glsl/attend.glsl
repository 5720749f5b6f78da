// What the passes of a piece of queries share.    Twin: vulkan/records.rs

#include "plan.glsl"

// A piece: some queries of each of some heads.
layout(push_constant) uniform AttendPush {
    uint heads;
    uint queries; // Of a head.
    uint level_count; // With the keys.
    uint cells; // Of all levels.
    uint width; // Words of a key.
    uint value_width; // Numbers of a value.
    uint coarse; // Side of a cell in cells of the level below.
    uint row_words; // Of a query's row.
    uint first_record; // In a query's row: the sum of its weights, and how many cells it opened of each level from 1.
    float scale;
} push;

// The bits of the score that no cell has: negative infinity.
const uint NO_SCORE = 0xFF800000u;
