// The four bytes of a word, lowest first.

uvec4 bytes_of(uint word) {
    return (uvec4(word) >> uvec4(0, 8, 16, 24)) & 0xFFu;
}
