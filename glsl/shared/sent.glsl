// What tokens were last published with: texels of 24 bits, with bit 24 for those that have a real pixel.    Twin: src/engine/reuse.rs

const uint REAL_BIT = 1u << 24;

// Row of a token that nobody remembers.
const uint NO_ROW = 0xFFFFFFFFu;
