#version 460
#extension GL_EXT_samplerless_texture_functions : require
#extension GL_GOOGLE_include_directive : require
#include "shared/linear.glsl"
#include "shared/mean.glsl"
#include "shared/tokens.glsl"
#include "shared/sent.glsl"

// Samples the tokens of one view into texels, and finds by how much each token has moved since it was last published.
//
// One invocation per word of a token's channel, as in sample.comp, so that both passes have as many workgroups.
//
// Host side: src/engine/backend/vulkan/keep.rs    Twin: src/engine/backend/cpu/sent.rs

layout(local_size_x = 64) in;

layout(set = 0, binding = 2, std430) readonly restrict buffer TokenList {
    uvec3 groups;
    uint count;
    TokenSource tokens[];
} stale;
// For each token of the plan, the row of the texels that it was last published with, or NO_ROW.
layout(set = 0, binding = 3, std430) readonly restrict buffer Rows {
    uint tokens[];
} rows;
// Rows of [P, P] texels.
layout(set = 0, binding = 4, std430) readonly restrict buffer Sent {
    uint texels[];
} sent;
// [N, P, P]
layout(set = 0, binding = 5, std430) writeonly restrict buffer Found {
    uint texels[];
} found;
// For each token, the most by which one of its texels differs; 0 before.
layout(set = 0, binding = 6, std430) restrict buffer Moved {
    uint most[];
} moved;

layout(push_constant) uniform ComparePush {
    uvec2 extent; // Of the source, in pixels.
} push;

#include "shared/texels.glsl"

void main() {
    uint index = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (index >= stale.count * CHANNEL_WORDS) {
        return;
    }
    TokenSource token = stale.tokens[index / CHANNEL_WORDS];
    uint row = rows.tokens[token.item];
    uint most = 0u;
    for (uint i = 0; i < TEXELS_PER_WORD; i++) {
        uint place = index % CHANNEL_WORDS * TEXELS_PER_WORD + i;
        Texel texel = fetch_texel(token, ivec2(place % PATCH_SIDE, place / PATCH_SIDE));
        uvec3 value = texel.value;
        found.texels[token.item * PATCH_SIDE * PATCH_SIDE + place] =
            value.r | value.g << 8 | value.b << 16 | (texel.is_real ? REAL_BIT : 0u);
        if (row != NO_ROW) {
            uint before = sent.texels[row * PATCH_SIDE * PATCH_SIDE + place];
            ivec3 difference = abs(ivec3(value) - ivec3((uvec3(before) >> uvec3(0, 8, 16)) & 0xFFu));
            most = max(most, uint(max(difference.r, max(difference.g, difference.b))));
        }
    }
    if (0u < most) {
        atomicMax(moved.most[token.item], most);
    }
}
