// Conversion of camera samples to 8-bit RGB, four pixels of a row at a time.    Twin: src/core/color.rs

// ColorTransform in src/core/color.rs.
struct ColorTransform {
    int y_offset;
    int y;
    int rv;
    int gu;
    int gv;
    int bu;
};

// Four pixels of a row.
struct Row {
    uvec4 r;
    uvec4 g;
    uvec4 b;
};

// `sum` in units of 2^-fraction_bits, rounded and clamped.
uvec4 rounded_color(ivec4 sum, uint fraction_bits) {
    ivec4 rounding = ivec4(1 << (fraction_bits - 1u));
    return uvec4(clamp((sum + rounding) >> int(fraction_bits), ivec4(0), ivec4(255)));
}

Row row_from_ycbcr(ColorTransform color, uint fraction_bits, uvec4 y, uvec4 u, uvec4 v) {
    ivec4 luma = (ivec4(y) - color.y_offset) * color.y;
    ivec4 cb = ivec4(u) - 128;
    ivec4 cr = ivec4(v) - 128;
    return Row(rounded_color(luma + color.rv * cr, fraction_bits),
               rounded_color(luma + color.gu * cb + color.gv * cr, fraction_bits),
               rounded_color(luma + color.bu * cb, fraction_bits));
}

// One channel of RGB samples, or all three of gray ones.
uvec4 channel_from_samples(ColorTransform color, uint fraction_bits, uvec4 samples) {
    return rounded_color((ivec4(samples) - color.y_offset) * color.y, fraction_bits);
}
