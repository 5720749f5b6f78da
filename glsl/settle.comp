#version 460
#extension GL_GOOGLE_include_directive : require
#include "shared/linear.glsl"
#include "shared/tokens.glsl"
#include "shared/sent.glsl"

// Chooses the texels of the tokens of one view: those that they were last published with, if none has moved by more than the
// threshold, or those of the pyramid. Remembers them, and converts them to the view's number format.
//
// One invocation per word of a token's channel, as in sample.comp.
//
// Host side: src/engine/backend/vulkan/keep.rs    Twin: src/engine/backend/cpu/sent.rs

layout(local_size_x = 64) in;

layout(constant_id = 0) const uint PATCH_SIDE = 1;
layout(constant_id = 1) const uint TEXELS_PER_WORD = 1;
layout(constant_id = 3) const bool OUTSIDE_IS_0 = false;

const uint CHANNEL_WORDS = PATCH_SIDE * PATCH_SIDE / TEXELS_PER_WORD;

layout(set = 0, binding = 0, std430) readonly restrict buffer TokenList {
    uvec3 groups;
    uint count;
    TokenSource tokens[];
} stale;
// Numbers for the values 0..255 of R, then of G, then of B.
layout(set = 0, binding = 1, std430) readonly restrict buffer Table {
    uint numbers[];
} table;
// For each token of the plan, the row of the texels that it was last published with, or NO_ROW.
layout(set = 0, binding = 2, std430) readonly restrict buffer Rows {
    uint tokens[];
} rows;
// [N, P, P]
layout(set = 0, binding = 3, std430) readonly restrict buffer Found {
    uint texels[];
} found;
// For each token, the most by which one of its texels differs.
layout(set = 0, binding = 4, std430) readonly restrict buffer Moved {
    uint most[];
} moved;
// Rows of [P, P] texels.
layout(set = 0, binding = 5, std430) restrict buffer Sent {
    uint texels[];
} sent;
// [N, 3, P, P] from word `first_word` on.
layout(set = 0, binding = 6, std430) writeonly restrict buffer Tokens {
    uint words[];
} target;

layout(push_constant) uniform SettlePush {
    uint first_word; // Of the first item.
    uint first_row; // Of the plan's first token.
    uint threshold; // The most by which a texel of a kept token may have moved.
} push;

void main() {
    uint index = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (index >= stale.count * CHANNEL_WORDS) {
        return;
    }
    uint word = index % CHANNEL_WORDS;
    uint item = stale.tokens[index / CHANNEL_WORDS].item;
    uint row = rows.tokens[item];
    bool is_kept = row != NO_ROW && moved.most[item] <= push.threshold;

    uvec3 words = uvec3(0);
    for (uint i = 0; i < TEXELS_PER_WORD; i++) {
        uint place = word * TEXELS_PER_WORD + i;
        uint texel = is_kept ? sent.texels[row * PATCH_SIDE * PATCH_SIDE + place]
                             : found.texels[item * PATCH_SIDE * PATCH_SIDE + place];
        sent.texels[(push.first_row + item) * PATCH_SIDE * PATCH_SIDE + place] = texel;
        uvec3 value = (uvec3(texel) >> uvec3(0, 8, 16)) & 0xFFu;
        uvec3 number = uvec3(table.numbers[value.r], table.numbers[256u + value.g], table.numbers[512u + value.b]);
        if (OUTSIDE_IS_0 && (texel & REAL_BIT) == 0u) {
            number = uvec3(0);
        }
        words |= number << (i * 32u / TEXELS_PER_WORD);
    }
    uint first = push.first_word + item * 3u * CHANNEL_WORDS + word;
    target.words[first] = words.r;
    target.words[first + CHANNEL_WORDS] = words.g;
    target.words[first + 2u * CHANNEL_WORDS] = words.b;
}
