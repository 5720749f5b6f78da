// List of the sampled tokens of a frame.    Twin: src/engine/backend/vulkan/sample.rs

// Position of a token, in texels of its level, and where that level starts in the tail.
struct TokenRecord {
    uint level;
    uint x;
    uint y;
    uint tail_offset;
};
