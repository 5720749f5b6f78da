#version 460
#extension GL_EXT_samplerless_texture_functions : require
#extension GL_GOOGLE_include_directive : require
#include "shared/linear.glsl"
#include "shared/mean.glsl"
#include "shared/tokens.glsl"

// Samples the tokens of one view from the pyramid, from boxes of its level 0, or from weighted texels of a level, and converts their
// texels to the view's number format.
//
// One invocation per word of a token's channel: it fetches the one, two or four texels that share the word and writes R, G and B,
// so that each texel is fetched once. Texels without a real pixel repeat the nearest one that has some, or are 0.
//
// Host side: src/engine/backend/vulkan/sample.rs    Twin: src/engine/backend/cpu/sample.rs

layout(local_size_x = 64) in;

layout(constant_id = 3) const bool OUTSIDE_IS_0 = false;

layout(set = 0, binding = 2, std430) readonly restrict buffer TokenList {
    uvec3 groups;
    uint count;
    TokenSource tokens[];
} stale;
// Numbers for the values 0..255 of R, then of G, then of B.
layout(set = 0, binding = 3, std430) readonly restrict buffer Table {
    uint numbers[];
} table;
// [N, 3, P, P] from word `first_word` on.
layout(set = 0, binding = 4, std430) writeonly restrict buffer Tokens {
    uint words[];
} target;

layout(push_constant) uniform SamplePush {
    uvec2 extent; // Of the source, in pixels.
    uint first_word; // Of the first item.
} push;

#include "shared/texels.glsl"

void main() {
    uint index = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (index >= stale.count * CHANNEL_WORDS) {
        return;
    }
    uint word = index % CHANNEL_WORDS;
    TokenSource token = stale.tokens[index / CHANNEL_WORDS];

    uvec3 words = uvec3(0);
    for (uint i = 0; i < TEXELS_PER_WORD; i++) {
        uint place = word * TEXELS_PER_WORD + i;
        ivec2 offset = ivec2(place % PATCH_SIDE, place / PATCH_SIDE);
        Texel texel = fetch_texel(token, offset);
        uvec3 number = uvec3(table.numbers[texel.value.r], table.numbers[256u + texel.value.g],
                             table.numbers[512u + texel.value.b]);
        if (OUTSIDE_IS_0 && !texel.is_real) {
            number = uvec3(0);
        }
        words |= number << (i * 32u / TEXELS_PER_WORD);
    }
    uint first = push.first_word + token.item * 3u * CHANNEL_WORDS + word;
    target.words[first] = words.r;
    target.words[first + CHANNEL_WORDS] = words.g;
    target.words[first + 2u * CHANNEL_WORDS] = words.b;
}
