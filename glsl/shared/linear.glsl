// Linear workgroup indices. A dispatch may have only 65535 workgroups along an axis, so the host wraps the line into rows
// (src/gpu/recorder.rs), the last of which may be partial: compare the index with the count. Passes that write the workgroup
// count of another pass wrap it in the same way.

uint linear_workgroup() {
    return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}

// Columns and rows of `count` workgroups, `per_row` in a row.
uvec2 wrapped_groups(uint count, uint per_row) {
    return uvec2(min(count, per_row), (count + per_row - 1u) / per_row);
}
