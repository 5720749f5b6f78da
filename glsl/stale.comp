#version 460
#extension GL_GOOGLE_include_directive : require
#include "shared/linear.glsl"
#include "shared/tokens.glsl"

// Lists the stale tokens of one view for the sample pass: those over an ingested tile, or all of a new plan.
//
// One workgroup, 256 tokens at a time. Tokens are listed in plan order, with their indices in the plan for the CPU, which notes
// what was sampled.
//
// Host side: src/engine/backend/vulkan/stale.rs    Twin: Planes::find_stale in src/engine/planes.rs

layout(local_size_x = 256) in;

layout(constant_id = 0) const uint CHANNEL_WORDS = 1;
layout(constant_id = 1) const uint SAMPLE_INVOCATIONS = 1;
layout(constant_id = 2) const uint GROUPS_PER_ROW = 1;

// A token and the range of tiles below it, end exclusive.
struct TokenEntry {
    TokenSource token;
    uint first_tile[2]; // Column, row.
    uint end_tile[2];
};

layout(set = 0, binding = 0, std430) readonly restrict buffer Plan {
    TokenEntry entries[];
} plan;
// One bit per tile of the grid that was ingested, row by row.
layout(set = 0, binding = 1, std430) readonly restrict buffer TileBits {
    uint words[];
} bits;
layout(set = 0, binding = 2, std430) writeonly restrict buffer TokenList {
    uvec3 groups;
    uint count;
    TokenSource tokens[];
} stale;

// Indices in the plan of the stale tokens, for the CPU.
layout(set = 0, binding = 3, std430) writeonly restrict buffer Found {
    uint count;
    uint indices[];
} found_tokens;

layout(push_constant) uniform StalePush {
    uint token_count;
    uint grid_width;
    uint is_new; // Whether the plan has not been sampled yet.
} push;

// One bit per token of the current 256.
shared uint found[gl_WorkGroupSize.x / 32u];

// Whether any bit of the non-empty range first..end is set.
bool any_set(uint first, uint end) {
    uint last = end - 1u;
    for (uint word = first / 32u; word <= last / 32u; word++) {
        uint mask = 0xFFFFFFFFu;
        mask = word == first / 32u ? mask << (first % 32u) : mask;
        mask = word == last / 32u ? mask & (0xFFFFFFFFu >> (31u - last % 32u)) : mask;
        if ((bits.words[word] & mask) != 0u) {
            return true;
        }
    }
    return false;
}

bool lies_over_ingested(TokenEntry entry) {
    for (uint row = entry.first_tile[1]; row < entry.end_tile[1]; row++) {
        uint first = row * push.grid_width;
        if (any_set(first + entry.first_tile[0], first + entry.end_tile[0])) {
            return true;
        }
    }
    return false;
}

// Number of stale tokens before `place`.
uint found_before(uint place) {
    uint count = 0u;
    for (uint word = 0u; word < found.length(); word++) {
        uint below = clamp(place, word * 32u, word * 32u + 32u) - word * 32u;
        uint mask = below == 32u ? 0xFFFFFFFFu : (1u << below) - 1u;
        count += bitCount(found[word] & mask);
    }
    return count;
}

void main() {
    uint place = gl_LocalInvocationIndex;
    uint listed = 0u;
    for (uint first = 0u; first < push.token_count; first += gl_WorkGroupSize.x) {
        if (place < found.length()) {
            found[place] = 0u;
        }
        barrier();
        uint token = first + place;
        bool is_stale = token < push.token_count
            && (push.is_new != 0u || lies_over_ingested(plan.entries[token]));
        if (is_stale) {
            atomicOr(found[place / 32u], 1u << (place % 32u));
        }
        barrier();
        if (is_stale) {
            uint index = listed + found_before(place);
            stale.tokens[index] = plan.entries[token].token;
            found_tokens.indices[index] = token;
        }
        listed += found_before(gl_WorkGroupSize.x);
        barrier();
    }
    if (place == 0u) {
        uint invocations = listed * CHANNEL_WORDS;
        uint groups = (invocations + SAMPLE_INVOCATIONS - 1u) / SAMPLE_INVOCATIONS;
        stale.groups = uvec3(wrapped_groups(groups, GROUPS_PER_ROW), 1u);
        stale.count = listed;
        found_tokens.count = listed;
    }
}
