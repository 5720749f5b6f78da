#version 460
#extension GL_EXT_samplerless_texture_functions : require
#extension GL_GOOGLE_include_directive : require
#include "shared/linear.glsl"
#include "shared/mean.glsl"
#include "shared/tokens.glsl"

// Samples the tokens of one view from the pyramid, or from boxes of its level 0, and converts their texels to the view's number
// format.
//
// One invocation per word of a token's channel: it fetches the one, two or four texels that share the word and writes R, G and B,
// so that each texel is fetched once. Texels without a real pixel repeat the nearest one that has some, or are 0.
//
// Host side: src/engine/backend/vulkan/sample.rs    Twin: src/engine/backend/cpu/sample.rs

layout(local_size_x = 64) in;

layout(constant_id = 0) const uint PATCH_SIDE = 1;
layout(constant_id = 1) const uint TEXELS_PER_WORD = 1;
layout(constant_id = 2) const uint TILE_LEVEL_COUNT = 1;
layout(constant_id = 3) const bool OUTSIDE_IS_0 = false;
layout(constant_id = 4) const bool ROUNDS_DOWN = false;

const uint CHANNEL_WORDS = PATCH_SIDE * PATCH_SIDE / TEXELS_PER_WORD;

layout(set = 0, binding = 0) uniform utexture2DArray levels;
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
// [N, 3, P, P] from word `first_word` on.
layout(set = 0, binding = 4, std430) writeonly restrict buffer Tokens {
    uint words[];
} target;

layout(push_constant) uniform SamplePush {
    uvec2 extent; // Of the source, in pixels.
    uint first_word; // Of the first item.
} push;

// A texel, and whether it has a real pixel.
struct Texel {
    uvec3 value;
    bool is_real;
};

Texel fetch_level(TokenRecord token, ivec2 offset) {
    ivec2 last = ivec2((push.extent + (1u << token.level) - 1u) >> token.level) - 1;
    ivec2 place = ivec2(token.x, token.y) + offset;
    ivec2 at = clamp(place, ivec2(0), last);
    if (token.level < TILE_LEVEL_COUNT) {
        return Texel(texelFetch(levels, ivec3(at, token.layer), int(token.level)).rgb, at == place);
    }
    uint texel = tail.texels[int(token.tail_offset) + at.y * (last.x + 1) + at.x];
    return Texel((uvec3(texel) >> uvec3(0, 8, 16)) & 0xFFu, at == place);
}

// The quotient, rounded down.
int floored(int dividend, int divisor) {
    return dividend < 0 ? -((divisor - 1 - dividend) / divisor) : dividend / divisor;
}

ivec2 floored(ivec2 dividend, ivec2 divisor) {
    return ivec2(floored(dividend.x, divisor.x), floored(dividend.y, divisor.y));
}

Texel fetch_box(TokenRecord token, ivec2 offset) {
    ivec2 extent = ivec2(push.extent);
    ivec2 origin = ivec2(token.x, token.y);
    ivec2 step = ivec2(token.sx, token.sy);
    // The first and the last texel over a real pixel.
    ivec2 nearest = clamp(offset, floored(-origin, step), floored(extent - 1 - origin, step));
    ivec2 start = max(origin + nearest * step, ivec2(0));
    ivec2 end = min(origin + (nearest + 1) * step, extent);
    uvec3 sum = uvec3(0);
    for (int y = start.y; y < end.y; y++) {
        for (int x = start.x; x < end.x; x++) {
            sum += texelFetch(levels, ivec3(x, y, token.layer), 0).rgb;
        }
    }
    uint count = uint((end.x - start.x) * (end.y - start.y));
    return Texel(ROUNDS_DOWN ? sum / count : rounded_mean(sum, count), nearest == offset);
}

void main() {
    uint index = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (index >= stale.count * CHANNEL_WORDS) {
        return;
    }
    uint word = index % CHANNEL_WORDS;
    TokenRecord token = stale.tokens[index / CHANNEL_WORDS];

    uvec3 words = uvec3(0);
    for (uint i = 0; i < TEXELS_PER_WORD; i++) {
        uint place = word * TEXELS_PER_WORD + i;
        ivec2 offset = ivec2(place % PATCH_SIDE, place / PATCH_SIDE);
        Texel texel = token.level == BOXES ? fetch_box(token, offset) : fetch_level(token, offset);
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
