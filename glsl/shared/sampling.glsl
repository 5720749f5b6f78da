// How a record holds the samples of a tile.    Twin: `sampling` in src/engine/backend/vulkan/ingest.rs

const uint SAMPLING_NV12 = 0;
const uint SAMPLING_I420 = 1;
const uint SAMPLING_YUY2 = 2;
const uint SAMPLING_RGBX = 3;
const uint SAMPLING_BGRX = 4;
const uint SAMPLING_GRAY = 5;
const uint SAMPLING_RGB = 6;
const uint SAMPLING_BGR = 7;

// Whether B is the first byte of a pixel.
bool is_reversed(uint sampling) {
    return sampling == SAMPLING_BGRX || sampling == SAMPLING_BGR;
}

// Words of the record of a tile of `tile_bytes` pixels.
uint record_words(uint sampling, uint tile_bytes) {
    return sampling == SAMPLING_GRAY ? tile_bytes / 4u
         : sampling == SAMPLING_YUY2 ? tile_bytes / 2u
         : sampling == SAMPLING_RGB || sampling == SAMPLING_BGR ? tile_bytes * 3u / 4u
         : sampling == SAMPLING_NV12 || sampling == SAMPLING_I420 ? tile_bytes * 3u / 8u
         : tile_bytes;
}

// Where four pixels of three bytes begin in three words, each in the lowest bytes of a word.
uvec4 spread_pixels(uvec3 words) {
    return uvec4(words.x, words.x >> 24 | words.y << 8, words.y >> 16 | words.z << 16, words.z >> 8);
}
