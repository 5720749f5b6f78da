// Four samples in a word, the first lowest.

uvec4 bytes_of(uint word) {
    return (uvec4(word) >> uvec4(0, 8, 16, 24)) & 0xFFu;
}
