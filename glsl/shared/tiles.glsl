// List of the ingested tiles of a frame.    Twin: src/engine/backend/vulkan/tiles.rs

// Position in the tile grid of a picture, and the picture.
struct TileRecord {
    uint column;
    uint row;
    uint layer;
};
