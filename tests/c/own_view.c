// Makes a view of its own on a stream, reads it and steers it, whatever becomes of the daemon: a frame of each of SEGMENTS
// segments, none older than a second, and each once more by when it was taken.
//
//     cc -std=c11 -O2 -I include tests/c/own_view.c -o own_view && ./own_view front '{"budget":64}' 1

#define FOVEATE_IMPLEMENTATION
#include <foveate.h>

#include <stdio.h>
#include <stdlib.h>

#define MAX_AGE_NS 1000000000
#define FRAME_MS 100

static void say(const char *what, const char *name) {
    printf("%s: %s\n", name, what);
    fflush(stdout);
}

// Whether the frame that was taken when `frame` was taken is `frame`.
static bool is_found_by_its_time(struct foveate_reader *reader, struct foveate_frame *frame) {
    uint64_t frame_seq = frame->head.frame_seq, capture_ns = frame->head.capture_ns;
    enum foveate_result result = foveate_read_at(reader, capture_ns, frame, FRAME_MS);
    return result == FOVEATE_OK && frame->head.frame_seq == frame_seq && frame->head.capture_ns == capture_ns;
}

// Reads one frame, and goes on where the daemon is gone or has nothing to show. False at an error.
static bool read_one(struct foveate_reader *reader, struct foveate_frame *frame) {
    bool is_gone = false;
    for (;;) {
        enum foveate_result result = foveate_read_newest(reader, frame, FRAME_MS);
        if (result == FOVEATE_OK) return true;
        if (result == FOVEATE_DISCONNECTED && !is_gone) say("gone", foveate_view_name(reader));
        is_gone = is_gone || result == FOVEATE_DISCONNECTED;
        if (result == FOVEATE_NEW_SEGMENT) result = foveate_frame_reserve(frame, foveate_current_segment(reader));
        if (result < FOVEATE_OK && result != FOVEATE_DISCONNECTED) {
            fprintf(stderr, "%s: %s\n", foveate_strerror(result), foveate_last_error(reader)->text);
            return false;
        }
    }
}

// Looks at the middle of the picture, if the daemon is there. False at an error.
static bool look(struct foveate_reader *reader) {
    struct foveate_point point = FOVEATE_ZEROS;
    point.x = point.y = 0.5;
    point.normalised = true;
    enum foveate_result result = foveate_look(reader, &point, FRAME_MS, NULL);
    if (result == FOVEATE_OK || result == FOVEATE_DISCONNECTED || result == FOVEATE_TIMED_OUT) return true;
    fprintf(stderr, "%s: %s\n", foveate_strerror(result), foveate_last_error(reader)->text);
    return false;
}

// Reads until a frame of `segment_count` segments was read.
static bool read_segments(struct foveate_reader *reader, struct foveate_frame *frame, unsigned long segment_count) {
    uint64_t number = 0;
    while (number < segment_count) {
        if (!read_one(reader, frame) || !look(reader)) return false;
        if (foveate_current_segment(reader)->number == number) continue;
        number = foveate_current_segment(reader)->number;
        char tokens[64];
        snprintf(tokens, sizeof tokens, "%zu tokens", frame->token_count);
        say(tokens, foveate_view_name(reader));
        say(is_found_by_its_time(reader, frame) ? "found by its time" : "not found by its time", foveate_view_name(reader));
    }
    return true;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s STREAM KEYS SEGMENTS\n", argv[0]);
        return 2;
    }
    struct foveate_error error;
    struct foveate_reader *reader = foveate_open_view(argv[1], argv[2], NULL, FOVEATE_RECONNECT, 2000, &error);
    if (reader == NULL) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    struct foveate_frame frame = FOVEATE_ZEROS;
    foveate_set_max_age(reader, MAX_AGE_NS);
    bool is_done = read_segments(reader, &frame, strtoul(argv[3], NULL, 10));
    foveate_frame_free(&frame);
    foveate_close(reader);
    return is_done ? 0 : 1;
}
