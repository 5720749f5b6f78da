// Prints a line for each frame of a view, until the view ends or COUNT frames came.
//
//     cc -std=c11 -O2 -I include tests/c/print.c -o print && ./print front/robot 3

#define FOVEATE_IMPLEMENTATION
#include <foveate.h>

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static void print_segment(const struct foveate_segment *segment) {
    const struct foveate_segment_header *header = &segment->header;
    printf("%s/%s: %" PRIu32 "x%" PRIu32 " %s, at most %" PRIu32 " tokens of %" PRIu32 "x%" PRIu32
           ", layout %s, epoch %016" PRIx64 "\n",
           header->stream_name, header->view_name, header->source_width, header->source_height, header->pixel_format,
           header->token_capacity, header->patch_side, header->patch_side, header->layout_name, header->epoch);
}

static void print_frame(const struct foveate_frame *frame) {
    printf("frame %" PRIu64 ": %zu tokens around (%.1f, %.1f), %.1f ms old, %" PRIu64 " missed\n", frame->head.frame_seq,
           frame->token_count, frame->head.fixations[0].x, frame->head.fixations[0].y, (double)foveate_age_ns(&frame->head) / 1e6,
           frame->missed);
    fflush(stdout);
}

// Reads until the view ends or `count` frames came; 0 where that went well.
static int print_frames(struct foveate_reader *reader, struct foveate_frame *frame, long count) {
    while (0 < count) {
        enum foveate_result result = foveate_read_newest(reader, frame, 1000);
        switch (result) {
        case FOVEATE_OK:
            print_frame(frame);
            count--;
            break;
        case FOVEATE_NOTHING: printf("no frame within a second\n"); break;
        case FOVEATE_NEW_SEGMENT:
            print_segment(foveate_current_segment(reader));
            if (foveate_frame_reserve(frame, foveate_current_segment(reader)) != FOVEATE_OK) return 1;
            break;
        case FOVEATE_ENDED: printf("%s\n", foveate_last_error(reader)->text); return 0;
        default: fprintf(stderr, "%s\n", foveate_last_error(reader)->text); return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s VIEW [COUNT]\n", argv[0]);
        return 2;
    }
    struct foveate_error error;
    struct foveate_reader *reader = foveate_open(argv[1], NULL, 0, 2000, &error);
    if (reader == NULL) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    struct foveate_frame frame = FOVEATE_ZEROS;
    int code = print_frames(reader, &frame, argc < 3 ? LONG_MAX : strtol(argv[2], NULL, 10));
    foveate_frame_free(&frame);
    foveate_close(reader);
    return code;
}
