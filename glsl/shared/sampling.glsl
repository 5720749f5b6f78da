// How a record holds the samples of a tile.    Twin: `sampling` in src/engine/backend/vulkan/ingest.rs

const uint SAMPLING_NV12 = 0;
const uint SAMPLING_I420 = 1;
const uint SAMPLING_YUY2 = 2;
const uint SAMPLING_RGB = 3;
const uint SAMPLING_BGR = 4;
const uint SAMPLING_GRAY = 5;

// Words of the record of a tile of `tile_bytes` pixels.
uint record_words(uint sampling, uint tile_bytes) {
    return sampling == SAMPLING_GRAY ? tile_bytes / 4u
         : sampling == SAMPLING_YUY2 ? tile_bytes / 2u
         : sampling == SAMPLING_NV12 || sampling == SAMPLING_I420 ? tile_bytes * 3u / 8u
         : tile_bytes;
}
