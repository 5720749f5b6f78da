// Says where a view looks in every way there is, and prints where it looks then: once a point, once a box, once the peak of a map, once the
// token with the highest score, and then no more. The view's policy must be `auto` or `feedback`.
//
//     cc -std=c11 -O2 -I include tests/c/steer.c -o steer && ./steer front/robot

#define FOVEATE_IMPLEMENTATION
#include <foveate.h>

#include <stdio.h>
#include <stdlib.h>

#define ANSWER_MS 5000

// Prints what an answer says, or why there is none; whether it is one.
static bool print_answer(struct foveate_reader *reader, const char *what, enum foveate_result result,
                         const struct foveate_looking *looking) {
    if (result != FOVEATE_OK) {
        fprintf(stderr, "%s: %s\n", what, foveate_last_error(reader)->text);
        return false;
    }
    printf("%s (%.4f, %.4f)%s\n", what, looking->x, looking->y, looking->has_fixation ? ", decided" : "");
    return true;
}

// Three quarters down the middle, and hears what came of it.
static bool look(struct foveate_reader *reader) {
    struct foveate_point point = FOVEATE_ZEROS;
    struct foveate_looking looking;
    point.x = 0.5;
    point.y = 0.75;
    point.normalised = point.wait = true;
    return print_answer(reader, "point", foveate_look(reader, &point, ANSWER_MS, &looking), &looking);
}

// The half in the middle of the upper half. Only a valid box is sent.
static bool look_at_box(struct foveate_reader *reader) {
    struct foveate_point point = FOVEATE_ZEROS;
    struct foveate_looking looking;
    point.has_box = point.normalised = point.wait = true;
    point.box[0] = 0.25;
    point.box[2] = 0.75;
    point.box[3] = 1.5;
    if (foveate_look(reader, &point, ANSWER_MS, NULL) != FOVEATE_INVALID) return false;
    point.box[3] = 0.5;
    point.share = 2.0;
    if (foveate_look(reader, &point, ANSWER_MS, NULL) != FOVEATE_INVALID) return false;
    point.share = 0.5;
    return print_answer(reader, "box", foveate_look(reader, &point, ANSWER_MS, &looking), &looking);
}

// The middle of the last of 4 x 6 cells.
static bool attend(struct foveate_reader *reader) {
    float numbers[4 * 6] = FOVEATE_ZEROS;
    struct foveate_map map = FOVEATE_ZEROS;
    struct foveate_looking looking;
    map.rows = 4;
    map.columns = 6;
    numbers[4 * 6 - 1] = 1.0f;
    return print_answer(reader, "map", foveate_attend(reader, &map, numbers, ANSWER_MS, &looking), &looking);
}

// The first token of the frame.
static bool attend_tokens(struct foveate_reader *reader, const struct foveate_frame *frame) {
    struct foveate_scores scores = FOVEATE_ZEROS;
    struct foveate_looking looking;
    unsigned char *numbers = (unsigned char *)calloc(frame->token_count, 1);
    if (numbers == NULL) return false;
    numbers[0] = 1;
    scores.frame = frame->head.frame_seq;
    scores.count = frame->token_count;
    scores.format = FOVEATE_NUMBER_U8;
    enum foveate_result result = foveate_attend_tokens(reader, &scores, numbers, ANSWER_MS, &looking);
    free(numbers);
    const struct foveate_token *first = &frame->tokens[0];
    if (result == FOVEATE_OK && first->x0 <= looking.x && looking.x <= first->x1) printf("inside the token\n");
    return print_answer(reader, "scores", result, &looking);
}

static bool let_go(struct foveate_reader *reader) {
    struct foveate_looking nowhere = FOVEATE_ZEROS;
    return print_answer(reader, "released", foveate_release_gaze(reader, ANSWER_MS), &nowhere);
}

// Reads a frame, and before it the news of its segment.
static bool read_one(struct foveate_reader *reader, struct foveate_frame *frame) {
    enum foveate_result result = foveate_read_newest(reader, frame, ANSWER_MS);
    if (result == FOVEATE_NEW_SEGMENT) {
        if (foveate_frame_reserve(frame, foveate_current_segment(reader)) != FOVEATE_OK) return false;
        result = foveate_read_newest(reader, frame, ANSWER_MS);
    }
    if (result != FOVEATE_OK) fprintf(stderr, "no frame: %s\n", foveate_strerror(result));
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
    // A view that has not published yet cannot be steered.
    bool is_seeing = read_one(reader, &frame);
    bool is_done = is_seeing && look(reader) && look_at_box(reader);
    is_done = is_done && attend(reader) && attend_tokens(reader, &frame) && let_go(reader);
    foveate_frame_free(&frame);
    foveate_close(reader);
    return is_done ? 0 : 1;
}
