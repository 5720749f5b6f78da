#version 460
#extension GL_EXT_samplerless_texture_functions : require
#extension GL_GOOGLE_include_directive : require
#include "shared/linear.glsl"
#include "shared/tokens.glsl"

// Samples the tokens of one view from the pyramid, and converts their texels to the view's number format.
//
// One invocation per word of a token's channel: it fetches the one, two or four texels that share the word and writes R, G and B,
// so that each texel is fetched once. Texels outside the level repeat the nearest one inside.
//
// Host side: src/engine/backend/vulkan/sample.rs    Twin: src/engine/backend/cpu/sample.rs

layout(local_size_x = 64) in;

layout(constant_id = 0) const uint PATCH_SIDE = 1;
layout(constant_id = 1) const uint TEXELS_PER_WORD = 1;
layout(constant_id = 2) const uint TILE_LEVEL_COUNT = 1;

const uint CHANNEL_WORDS = PATCH_SIDE * PATCH_SIDE / TEXELS_PER_WORD;

layout(set = 0, binding = 0) uniform utexture2D levels;
layout(set = 0, binding = 1, std430) readonly restrict buffer TailTexels {
    uint texels[];
} tail;
layout(set = 0, binding = 2, std430) readonly restrict buffer TokenList {
    uvec3 groups;
    uint count;
    TokenRecord tokens[];
} stale;
// Numbers for the values 0..255 of R, then of G, then of B.
layout(set = 0, binding = 3, std430) readonly restrict buffer Table {
    uint numbers[];
} table;
// [N, 3, P, P]
layout(set = 0, binding = 4, std430) writeonly restrict buffer Tokens {
    uint words[];
} target;

layout(push_constant) uniform SamplePush {
    uvec2 extent; // Of the source, in pixels.
} push;

uvec3 fetch(TokenRecord token, uvec2 offset) {
    uvec2 level_extent = (push.extent + (1u << token.level) - 1u) >> token.level;
    uvec2 at = min(uvec2(token.x, token.y) + offset, level_extent - 1u);
    if (token.level < TILE_LEVEL_COUNT) {
        return texelFetch(levels, ivec2(at), int(token.level)).rgb;
    }
    uint texel = tail.texels[token.tail_offset + at.y * level_extent.x + at.x];
    return (uvec3(texel) >> uvec3(0, 8, 16)) & 0xFFu;
}

void main() {
    uint index = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (index >= stale.count * CHANNEL_WORDS) {
        return;
    }
    uint token_index = index / CHANNEL_WORDS;
    uint word = index % CHANNEL_WORDS;
    TokenRecord token = stale.tokens[token_index];

    uvec3 words = uvec3(0);
    for (uint i = 0; i < TEXELS_PER_WORD; i++) {
        uint place = word * TEXELS_PER_WORD + i;
        uvec3 texel = fetch(token, uvec2(place % PATCH_SIDE, place / PATCH_SIDE));
        uvec3 number = uvec3(table.numbers[texel.r], table.numbers[256u + texel.g],
                             table.numbers[512u + texel.b]);
        words |= number << (i * 32u / TEXELS_PER_WORD);
    }
    uint first = token_index * 3u * CHANNEL_WORDS + word;
    target.words[first] = words.r;
    target.words[first + CHANNEL_WORDS] = words.g;
    target.words[first + 2u * CHANNEL_WORDS] = words.b;
}
