// The list of the tokens that a frame samples.    Twin: src/engine/backend/vulkan/sample.rs

// Where a token lies, in texels of its level, and where the level starts in the tail.
struct TokenRecord {
    uint level;
    uint x;
    uint y;
    uint tail_offset;
};
