// The texels of tokens: of a level of the pyramid, of boxes of its level 0, or weighted texels of a level. After mean.glsl, tokens.glsl
// and the push constants, which have the `extent` of the source.

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

// Columns and rows of a level.
ivec2 level_extent(uint level) {
    return ivec2((push.extent + (1u << level) - 1u) >> level);
}

// Texel `at` of the token's level, which has `width` columns.
uvec3 fetch(TokenSource token, ivec2 at, int width) {
    if (token.level < TILE_LEVEL_COUNT) {
        return texelFetch(levels, ivec3(at, token.layer), int(token.level)).rgb;
    }
    uint texel = tail.texels[int(token.tail_offset) + at.y * width + at.x];
    return (uvec3(texel) >> uvec3(0, 8, 16)) & 0xFFu;
}

Texel fetch_level(TokenSource token, ivec2 offset) {
    ivec2 extent = level_extent(token.level);
    ivec2 place = ivec2(token.x, token.y) + offset;
    ivec2 at = clamp(place, ivec2(0), extent - 1);
    return Texel(fetch(token, at, extent.x), at == place);
}

uvec3 mean(uvec3 sum, uint count) {
    return ROUNDS_DOWN ? sum / count : rounded_mean(sum, count);
}

// The quotient, rounded down.
int floored(int dividend, int divisor) {
    return dividend < 0 ? -((divisor - 1 - dividend) / divisor) : dividend / divisor;
}

ivec2 floored(ivec2 dividend, ivec2 divisor) {
    return ivec2(floored(dividend.x, divisor.x), floored(dividend.y, divisor.y));
}

// The box under a texel along both axes, and whether it has a real part. Else it is the one under the nearest texel that has.
struct Box {
    ivec2 start;
    ivec2 end;
    bool is_real;
};

// The box of `step` at `offset` steps from `origin` in a source of `extent`, all in the same unit.
Box box_under(ivec2 origin, ivec2 step, ivec2 offset, ivec2 extent) {
    // The first and the last texel over a real pixel.
    ivec2 nearest = clamp(offset, floored(-origin, step), floored(extent - 1 - origin, step));
    ivec2 start = origin + nearest * step;
    return Box(max(start, ivec2(0)), min(start + step, extent), nearest == offset);
}

Texel fetch_box(TokenSource token, ivec2 offset) {
    ivec2 step = ivec2(token.width, token.height);
    Box box = box_under(ivec2(token.x, token.y), step, offset, ivec2(push.extent));
    uvec3 sum = uvec3(0);
    for (int y = box.start.y; y < box.end.y; y++) {
        for (int x = box.start.x; x < box.end.x; x++) {
            sum += texelFetch(levels, ivec3(x, y, token.layer), 0).rgb;
        }
    }
    ivec2 side = box.end - box.start;
    return Texel(mean(sum, uint(side.x * side.y)), box.is_real);
}

// What a box shares along an axis with a texel of a level that begins at `start` and is `side` long.
int shared_length(int box_start, int box_end, int start, int side) {
    return min(box_end, start + side) - max(box_start, start);
}

// All lengths are in parts of a pixel, P of them.
Texel fetch_weighted(TokenSource token, ivec2 offset) {
    const int unit = int(PATCH_SIDE);
    ivec2 step = ivec2(token.width, token.height);
    Box box = box_under(ivec2(token.x, token.y) * unit, step, offset, ivec2(push.extent) * unit);
    int side = unit << token.level;
    int columns = level_extent(token.level).x;
    ivec2 first = box.start / side;
    ivec2 last = (box.end - 1) / side;
    uvec3 sum = uvec3(0);
    for (int y = first.y; y <= last.y; y++) {
        int height = shared_length(box.start.y, box.end.y, y * side, side);
        for (int x = first.x; x <= last.x; x++) {
            int width = shared_length(box.start.x, box.end.x, x * side, side);
            sum += uint(width * height) * fetch(token, ivec2(x, y), columns);
        }
    }
    ivec2 whole = box.end - box.start;
    return Texel(mean(sum, uint(whole.x * whole.y)), box.is_real);
}

Texel fetch_texel(TokenSource token, ivec2 offset) {
    return token.kind == OF_LEVEL ? fetch_level(token, offset)
         : token.kind == OF_BOXES ? fetch_box(token, offset)
         : fetch_weighted(token, offset);
}
