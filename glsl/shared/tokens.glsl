// List of the sampled tokens of a frame.    Twin: src/engine/backend/vulkan/sample.rs

// What the texels of a token are.
const uint OF_LEVEL = 0; // Texels of a level.
const uint OF_BOXES = 1; // Means of boxes of pixels.
const uint OF_WEIGHTS = 2; // Means of texels of a level, by what they share with a box.

// Position of a token, in source pixels or in texels of its level, and that level with its start in the tail.
struct TokenSource {
    uint kind;
    int x;
    int y;
    uint width; // Of a texel, in source pixels; with weights, of P texels.
    uint height;
    uint level;
    uint tail_offset;
    uint layer; // Of the levels.
    uint item; // Where its texels go.
};
