// Says three times where something was in a frame, and how the camera moved since: a point and the scores of tokens by a homography,
// a map by a rotation. Prints where each leads. The view's policy must be `auto` or `feedback`, and its camera calibrated.
//
//     cc -std=c11 -O2 -I include tests/c/ego_motion.c -o ego_motion && ./ego_motion front/robot

#define FOVEATE_IMPLEMENTATION
#include <foveate.h>

#include <stdio.h>
#include <stdlib.h>

#define ANSWER_MS 5000

// To the right by 10 pixels and up by 4.5, and a tenth larger.
static const double HOMOGRAPHY[9] = {1.1, 0.0, 10.0, 0.0, 1.1, -4.5, 0.0, 0.0, 1.0};

// Two degrees to the right and one about the axis, in sines and cosines of halves.
static const double ROTATION[4] = {0.0, -0.01745, 0.00873, 0.99981};

static bool print_answer(struct foveate_reader *reader, enum foveate_result result, const struct foveate_looking *looking) {
    if (result != FOVEATE_OK) {
        fprintf(stderr, "%s\n", foveate_last_error(reader)->text);
        return false;
    }
    printf("%.3f %.3f\n", looking->x, looking->y);
    return true;
}

static bool look(struct foveate_reader *reader, uint64_t frame) {
    struct foveate_point point = FOVEATE_ZEROS;
    struct foveate_looking looking;
    point.x = 50.0;
    point.y = 40.0;
    point.frame = frame;
    point.ego.homography = HOMOGRAPHY;
    return print_answer(reader, foveate_look(reader, &point, ANSWER_MS, &looking), &looking);
}

static bool attend(struct foveate_reader *reader, uint64_t frame) {
    float numbers[3 * 4] = FOVEATE_ZEROS;
    struct foveate_map map = FOVEATE_ZEROS;
    struct foveate_looking looking;
    map.rows = 3;
    map.columns = 4;
    map.frame = frame;
    map.ego.rotation = ROTATION;
    numbers[1 * 4 + 2] = 1.0f;
    return print_answer(reader, foveate_attend(reader, &map, numbers, ANSWER_MS, &looking), &looking);
}

static bool attend_tokens(struct foveate_reader *reader, const struct foveate_frame *frame) {
    struct foveate_scores scores = FOVEATE_ZEROS;
    struct foveate_looking looking;
    unsigned char *numbers = (unsigned char *)calloc(frame->token_count, 1);
    if (numbers == NULL) return false;
    numbers[0] = 1;
    scores.frame = frame->head.frame_seq;
    scores.count = frame->token_count;
    scores.format = FOVEATE_NUMBER_U8;
    scores.ego.homography = HOMOGRAPHY;
    enum foveate_result result = foveate_attend_tokens(reader, &scores, numbers, ANSWER_MS, &looking);
    free(numbers);
    return print_answer(reader, result, &looking);
}

// What cannot be meant is not sent.
static bool refuses(struct foveate_reader *reader) {
    struct foveate_point point = FOVEATE_ZEROS;
    double beyond[4] = {0.0, 0.0, 0.0, 1.0};
    point.ego.rotation = beyond;
    bool is_refused = foveate_look(reader, &point, ANSWER_MS, NULL) == FOVEATE_INVALID; // since no frame
    point.frame = 1;
    point.ego.homography = HOMOGRAPHY;
    is_refused = is_refused && foveate_look(reader, &point, ANSWER_MS, NULL) == FOVEATE_INVALID; // both
    point.ego.homography = NULL;
    beyond[1] = 1e300 * 1e300;
    return is_refused && foveate_look(reader, &point, ANSWER_MS, NULL) == FOVEATE_INVALID;
}

// Reads a frame, and before it the news of its segment.
static bool read_one(struct foveate_reader *reader, struct foveate_frame *frame) {
    enum foveate_result result = foveate_read_newest(reader, frame, ANSWER_MS);
    if (result == FOVEATE_NEW_SEGMENT) {
        if (foveate_frame_reserve(frame, foveate_current_segment(reader)) != FOVEATE_OK) return false;
        result = foveate_read_newest(reader, frame, ANSWER_MS);
    }
    return result == FOVEATE_OK && 0 < frame->token_count;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s VIEW\n", argv[0]);
        return 2;
    }
    struct foveate_error error;
    struct foveate_reader *reader = foveate_open(argv[1], NULL, 0, ANSWER_MS, &error);
    if (reader == NULL) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    struct foveate_frame frame = FOVEATE_ZEROS;
    bool is_done = read_one(reader, &frame) && look(reader, frame.head.frame_seq) && attend(reader, frame.head.frame_seq)
        && attend_tokens(reader, &frame) && refuses(reader) && foveate_release_gaze(reader, ANSWER_MS) == FOVEATE_OK;
    foveate_frame_free(&frame);
    foveate_close(reader);
    return is_done ? 0 : 1;
}
