// List of the sampled tokens of a frame.    Twin: src/engine/backend/vulkan/sample.rs

// Level of a token whose texels are no level's.
const uint BOXES = 0xFFFFFFFFu;

// Position of a token: in texels of its level, with the start of that level in the tail; or in source pixels.
struct TokenRecord {
    int x;
    int y;
    uint sx; // Source pixels per texel.
    uint sy;
    uint level; // Or BOXES.
    uint tail_offset;
    uint layer; // Of the levels.
    uint item; // Where its texels go.
};
