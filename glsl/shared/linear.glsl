// Workgroups that are counted along one line. A dispatch may hold only 65535 of them along one axis, so the host
// wraps the line into rows (src/gpu/recorder.rs), the last of which may hang over: compare with the count. A pass that
// says in how many workgroups another one runs wraps the line alike.

uint linear_workgroup() {
    return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}

// Columns and rows of `count` workgroups, `per_row` in a row.
uvec2 wrapped_groups(uint count, uint per_row) {
    return uvec2(min(count, per_row), (count + per_row - 1u) / per_row);
}
