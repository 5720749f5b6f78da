// Prints the next COUNT frames of a view, in order, as JSON: one object a line, every number exact. For comparing readers.
//
//     dump VIEW COUNT
//
// Floating-point numbers are given by the bits of a binary64, `head` and `tokens` by their bytes, and `pixels`, `relevance` and the
// pictures `blocks` and `smooth` of small sources by the 64-bit FNV-1a of their bytes, all in hexadecimal.

#define FOVEATE_IMPLEMENTATION
#include <foveate.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void print_bytes(const char *name, const void *bytes, size_t count) {
    printf("\"%s\":\"", name);
    for (size_t index = 0; index < count; index++) printf("%02x", ((const unsigned char *)bytes)[index]);
    printf("\",");
}

static uint64_t bits_of(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static void print_numbers(const char *name, const double *numbers, size_t count) {
    printf("\"%s\":[", name);
    for (size_t index = 0; index < count; index++) printf("%s%" PRIu64, index == 0 ? "" : ",", bits_of(numbers[index]));
    printf("],");
}

static void print_camera(const struct foveate_segment *segment) {
    const struct foveate_camera *camera = &segment->header.camera;
    const struct foveate_camera_frame *frame = &segment->camera_frame;
    if (camera->kind == 0) {
        printf("\"camera\":null,");
        return;
    }
    printf("\"camera\":{\"distortion\":\"%s\",\"optical_frame\":\"%s\",\"parent_frame\":\"%s\",", camera->distortion_name,
           frame->optical_frame, frame->parent_frame);
    print_numbers("k", camera->k, 9);
    print_numbers("coefficients", camera->coefficients, camera->coefficient_count);
    print_numbers("parent_from_optical", frame->parent_from_optical, frame->parent_frame[0] == '\0' ? 0 : 12);
    print_numbers("source_from_calibrated", frame->source_from_calibrated, 6);
    printf("\"extent\":[%" PRIu32 ",%" PRIu32 "]},", frame->calibrated_width, frame->calibrated_height);
}

static void print_segment(const struct foveate_segment *segment) {
    const struct foveate_segment_header *header = &segment->header;
    printf("\"stream\":\"%s\",\"view\":\"%s\",\"layout\":\"%s\",", header->stream_name, header->view_name, header->layout_name);
    printf("\"pixel_format\":\"%s\",\"device\":\"%s\",", header->pixel_format, header->backend_device);
    print_count("abi_minor", header->abi_minor);
    print_count("epoch", header->epoch);
    print_count("patch", header->patch_side);
    print_count("dtype", segment->dtype);
    print_count("capacity", header->token_capacity);
    print_count("grid_columns", header->grid_columns);
    print_count("grid_rows", header->grid_rows);
    print_count("foveae", header->fovea_capacity);
    print_count("outside", header->outside);
    print_count("rounding", header->rounding);
    print_count("pixel_aspect_width", header->pixel_aspect_width);
    print_count("pixel_aspect_height", header->pixel_aspect_height);
    print_count("color_matrix", header->color_matrix);
    print_count("color_range", header->color_range);
    print_count("color_transfer", header->color_transfer);
    print_count("color_assumed", header->color_assumed);
    print_count("width", header->source_width);
    print_count("height", header->source_height);
    print_count("backend", header->backend_kind);
    print_count("slot_count", header->slot_count);
    print_numbers("mean", header->mean, 3);
    print_numbers("std", header->std, 3);
    print_camera(segment);
}

// Larger pictures are not drawn.
static void print_pictures(const struct foveate_segment *segment, const struct foveate_frame *frame) {
    static uint8_t blocks[1 << 20], smooth[1 << 20];
    size_t bytes = 3 * (size_t)segment->header.source_width * segment->header.source_height;
    if (sizeof blocks < bytes) return;
    foveate_rebuild(segment, frame, blocks, smooth);
    printf("\"blocks\":\"%016" PRIx64 "\",", fnv1a(blocks, bytes));
    printf("\"smooth\":\"%016" PRIx64 "\",", fnv1a(smooth, bytes));
}

// What a canvas is after the frame, if the view is for one.
static void print_canvas(struct foveate_canvas *canvas, const struct foveate_segment *segment, const struct foveate_frame *frame) {
    static uint8_t rgb[1 << 20];
    if (foveate_plane_index(segment, "tiles") < 0) return;
    size_t pixels = (size_t)segment->header.source_width * segment->header.source_height;
    enum foveate_result result = foveate_canvas_update(canvas, segment, frame);
    if (result == FOVEATE_TOO_SMALL) {
        free(canvas->memory);
        canvas->capacity = foveate_canvas_bytes(segment);
        canvas->memory = malloc(canvas->capacity);
        result = foveate_canvas_update(canvas, segment, frame);
    }
    if (result != FOVEATE_OK || sizeof rgb < 3 * pixels) exit(3);
    foveate_canvas_rgb(canvas, segment, rgb);
    size_t places = (size_t)canvas->columns * canvas->rows;
    size_t number_bytes = segment->token_bytes / (3 * (size_t)segment->header.patch_side * segment->header.patch_side);
    printf("\"canvas\":[\"%016" PRIx64 "\",\"%016" PRIx64 "\",\"%016" PRIx64 "\",\"%016" PRIx64 "\",\"%016" PRIx64 "\",%s,%s],",
           fnv1a(canvas->pixels, 3 * pixels * number_bytes), fnv1a(canvas->steps, places * sizeof *canvas->steps),
           fnv1a(canvas->frames, places * sizeof *canvas->frames), fnv1a(canvas->drawn, places), fnv1a(rgb, 3 * pixels),
           canvas->is_new ? "true" : "false", canvas->wants_refresh ? "true" : "false");
}

static void print_frame(const struct foveate_segment *segment, const struct foveate_frame *frame, int relevance,
                        struct foveate_canvas *canvas) {
    printf("{");
    print_segment(segment);
    print_bytes("head", &frame->head, sizeof frame->head);
    print_bytes("tokens", frame->tokens, frame->token_count * sizeof *frame->tokens);
    printf("\"pixels\":\"%016" PRIx64 "\",", fnv1a(frame->pixels, frame->pixel_bytes));
    print_pictures(segment, frame);
    print_canvas(canvas, segment, frame);
    printf("\"relevance\":\"%016" PRIx64 "\"}\n", fnv1a(frame->planes[relevance], frame->token_count * sizeof(float)));
    fflush(stdout);
}

// Prints `count` frames, or those up to the view's end; 0 where that went well.
static int dump(struct foveate_reader *reader, struct foveate_frame *frame, long count) {
    int relevance = -1;
    struct foveate_canvas canvas = FOVEATE_ZEROS;
    while (0 < count) {
        enum foveate_result result = foveate_read_next(reader, frame, 60000);
        if (result == FOVEATE_NEW_SEGMENT) {
            relevance = foveate_plane_index(foveate_current_segment(reader), "relevance");
            if (relevance < 0 || foveate_frame_reserve(frame, foveate_current_segment(reader)) != FOVEATE_OK) return 1;
        } else if (result == FOVEATE_OK) {
            print_frame(foveate_current_segment(reader), frame, relevance, &canvas);
            count--;
        } else if (result == FOVEATE_ENDED) {
            break;
        } else {
            fprintf(stderr, "%s\n", result == FOVEATE_NOTHING ? "no frame within a minute" : foveate_last_error(reader)->text);
            return 1;
        }
    }
    free(canvas.memory);
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
