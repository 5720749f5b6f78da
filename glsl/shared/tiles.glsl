// The list of the tiles that a frame brings up to date.    Twin: src/engine/backend/vulkan/tiles.rs

// Where a tile lies in the tile grid.
struct TileRecord {
    uint column;
    uint row;
};
