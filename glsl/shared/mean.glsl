// The rounding rule of the pyramid.    Twin: rounded_mean in src/core/geometry/pyramid.rs

// The mean, rounded half up, of `count` samples that add up to `sum`. A count of 0 belongs to a texel outside its
// level, which nobody reads.
uvec3 rounded_mean(uvec3 sum, uint count) {
    return (sum + count / 2u) / max(count, 1u);
}
