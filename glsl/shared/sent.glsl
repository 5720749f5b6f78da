// What tokens were last published with: texels of 24 bits, with bit 24 for those that have a real pixel.    Twin: src/engine/reuse.rs

const uint REAL_BIT = 1u << 24;

// Row of a token that nobody remembers.
const uint NO_ROW = 0xFFFFFFFFu;

struct ComparisonRecord {
    uint row; // Of the texels that the token was last published with, or NO_ROW.
    uint tolerance; // The most by which each may differ.
};
