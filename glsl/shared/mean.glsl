// The rounding rule of the pyramid.    Twin: rounded_mean in src/core/geometry/pyramid.rs

// Mean of `count` samples with sum `sum`, rounded half up. A count of 0 belongs to a texel outside its level, which is never
// read.
uvec3 rounded_mean(uvec3 sum, uint count) {
    return (sum + count / 2u) / max(count, 1u);
}
