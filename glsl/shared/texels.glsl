// The texels of tokens, from the pyramid or from boxes of its level 0. After mean.glsl and tokens.glsl.

layout(constant_id = 0) const uint PATCH_SIDE = 1;
layout(constant_id = 1) const uint TEXELS_PER_WORD = 1;
layout(constant_id = 2) const uint TILE_LEVEL_COUNT = 1;
layout(constant_id = 4) const bool ROUNDS_DOWN = false;

const uint CHANNEL_WORDS = PATCH_SIDE * PATCH_SIDE / TEXELS_PER_WORD;

layout(set = 0, binding = 0) uniform utexture2DArray levels;
layout(set = 0, binding = 1, std430) readonly restrict buffer TailTexels {
    uint texels[];
} tail;

// A texel, and whether it has a real pixel.
struct Texel {
    uvec3 value;
    bool is_real;
};

Texel fetch_level(TokenRecord token, uvec2 source, ivec2 offset) {
    ivec2 last = ivec2((source + (1u << token.level) - 1u) >> token.level) - 1;
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

Texel fetch_box(TokenRecord token, uvec2 source, ivec2 offset) {
    ivec2 extent = ivec2(source);
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

// Texel number `place` of a token of a source of this extent.
Texel fetch(TokenRecord token, uvec2 source, uint place) {
    ivec2 offset = ivec2(place % PATCH_SIDE, place / PATCH_SIDE);
    return token.level == BOXES ? fetch_box(token, source, offset) : fetch_level(token, source, offset);
}
