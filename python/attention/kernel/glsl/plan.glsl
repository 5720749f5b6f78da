// Shape and settings of an attention, and where its numbers lie.    Twin: vulkan/records.rs

const uint LEVELS_MAX = 4; // With the keys.

// No cell: a place beyond the edge of the grid.
const uint NO_CELL = 0xFFFFFFFFu;

// The cells of a level, row by row; those of level 0 are the keys.
struct LevelRecord {
    uint rows;
    uint columns;
    uint side; // Of a cell, in keys; at most that of the grid.
    uint first_cell; // Among those of all levels.
    uint open; // How many may be opened; 0 for keys.
    uint family_rows; // Of the cells that one of the level above is made of.
    uint family_columns;
    // In the row of a query: its scores, and the cells that it opened.
    uint first_score;
    uint first_opened;
};

uint cell_count(LevelRecord level) {
    return level.rows * level.columns;
}

uint family_count(LevelRecord level) {
    return level.family_rows * level.family_columns;
}
