// Workgroups that are counted along one line. A dispatch may hold only 65535 of them along one axis, so the host
// wraps the line into rows (src/gpu/recorder.rs), the last of which may hang over: compare with the count.

uint linear_workgroup() {
    return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}
