// Prints the next COUNT frames of a view, in order, as JSON: one object a line, every number exact. For comparing readers.
//
//     dump VIEW COUNT
//
// `records`, `pixels`, `relevance`, and the pictures `blocks` and `smooth` are the 64-bit FNV-1a of the bytes, in hexadecimal.

#define FOVEATE_IMPLEMENTATION
#include <foveate.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t fnv1a(const void *bytes, size_t count) {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t index = 0; index < count; index++) {
        hash ^= ((const unsigned char *)bytes)[index];
        hash *= 0x100000001b3;
    }
    return hash;
}

static void print_count(const char *name, uint64_t value) {
    printf("\"%s\":%" PRIu64 ",", name, value);
}

static void print_times(const struct foveate_slot_header *head) {
    if ((head->flags & FOVEATE_FLAG_PTS) != 0) {
        print_count("pts_ns", head->pts_ns);
    } else {
        printf("\"pts_ns\":null,");
    }
    print_count("capture_ns", head->capture_ns);
    print_count("capture_unix_ns", head->capture_unix_ns);
    print_count("capture_clock", head->capture_clock);
    print_count("arrival_ns", head->arrival_ns);
    print_count("publish_ns", head->publish_ns);
}

static void print_fixation(const struct foveate_slot_header *head) {
    print_count("fixation_id", head->fixation_id);
    printf("\"fixation_x\":%.17g,\"fixation_y\":%.17g,", head->fixation_x, head->fixation_y);
    print_count("fixation_since_frame", head->fixation_since_frame);
    print_count("fixation_reason", head->fixation_reason);
}

static void print_pictures(const struct foveate_segment *segment, const struct foveate_frame *frame) {
    static uint8_t blocks[1 << 20], smooth[1 << 20];
    size_t bytes = 3 * (size_t)segment->header.source_width * segment->header.source_height;
    if (sizeof blocks < bytes) exit(1);
    foveate_rebuild(segment, frame, blocks, smooth);
    printf("\"blocks\":\"%016" PRIx64 "\",", fnv1a(blocks, bytes));
    printf("\"smooth\":\"%016" PRIx64 "\",", fnv1a(smooth, bytes));
}

static void print_frame(const struct foveate_segment *segment, const struct foveate_frame *frame, int relevance) {
    const struct foveate_slot_header *head = &frame->head;
    printf("{");
    print_count("ring_sequence", head->ring_sequence);
    print_count("frame_seq", head->frame_seq);
    print_times(head);
    print_fixation(head);
    print_count("sample_bound", head->sample_bound);
    print_count("rgb_bound", head->rgb_bound);
    print_count("dirty_tiles", head->dirty_tiles);
    print_count("tile_count", head->tile_count);
    print_count("relevance_frame", head->relevance_frame);
    print_count("asked_ns", head->asked_ns);
    print_count("token_count", frame->token_count);
    printf("\"records\":\"%016" PRIx64 "\",", fnv1a(frame->tokens, frame->token_count * sizeof *frame->tokens));
    printf("\"pixels\":\"%016" PRIx64 "\",", fnv1a(frame->pixels, frame->pixel_bytes));
    print_pictures(segment, frame);
    printf("\"relevance\":\"%016" PRIx64 "\"}\n", fnv1a(frame->planes[relevance], frame->token_count * sizeof(float)));
    fflush(stdout);
}

// Prints `count` frames, or those up to the view's end; 0 where that went well.
static int dump(struct foveate_reader *reader, struct foveate_frame *frame, long count) {
    int relevance = -1;
    while (0 < count) {
        enum foveate_result result = foveate_read_next(reader, frame, 60000);
        if (result == FOVEATE_NEW_SEGMENT) {
            relevance = foveate_plane_index(foveate_current_segment(reader), "relevance");
            if (relevance < 0 || foveate_frame_reserve(frame, foveate_current_segment(reader)) != FOVEATE_OK) return 1;
        } else if (result == FOVEATE_OK) {
            print_frame(foveate_current_segment(reader), frame, relevance);
            count--;
        } else if (result == FOVEATE_ENDED) {
            return 0;
        } else {
            fprintf(stderr, "%s\n", result == FOVEATE_NOTHING ? "no frame within a minute" : foveate_last_error(reader)->text);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s VIEW COUNT\n", argv[0]);
        return 2;
    }
    struct foveate_error error;
    struct foveate_reader *reader = foveate_open(argv[1], NULL, 0, 2000, &error);
    if (reader == NULL) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    struct foveate_frame frame = FOVEATE_ZEROS;
    int code = dump(reader, &frame, strtol(argv[2], NULL, 10));
    foveate_frame_free(&frame);
    foveate_close(reader);
    return code;
}
