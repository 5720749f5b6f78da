// The laws of the C reader, on segments and over a socket of this program: it needs no daemon.
//
//     cc -std=c11 -O2 -pthread -I include tests/c/laws.c -o laws && ./laws
//
// `./laws LAW` runs one of them. Run it with -fsanitize=address,undefined, too. Under -fsanitize=thread it says nothing, since
// whatever two threads touch is atomic; that sanitizer knows no fences, so a missing one shows in the words of torn frames alone.
// Nothing here waits for time to pass; an alarm ends what hangs.

// Counts what the header allocates.
#define _GNU_SOURCE 1
#include <stdlib.h>

static long allocation_count;

static void *counted_calloc(size_t count, size_t size) {
    allocation_count++;
    return calloc(count, size);
}

static void *counted_realloc(void *memory, size_t size) {
    allocation_count++;
    return realloc(memory, size);
}

#define calloc counted_calloc
#define realloc counted_realloc
#define FOVEATE_IMPLEMENTATION
#include <foveate.h>
#undef calloc
#undef realloc

#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <signal.h>

#include "stand_in.h"

#define HANG_SECONDS 300
// A race takes so many frames that were read, or that were written: on a busy machine a reader gets one in a time slice.
#define TORN_FRAME_READS 20000
#define TORN_FRAME_WRITES 2000000
#define FUZZ_ROUNDS 20000

// ---------------------------------------------------------------------------------------------------------------------
// Frames.

LAW(a_frame_is_copied_in_every_byte) {
    struct written_segment *segment = new_segment(8);
    publish(segment, 1);
    struct session *session = session_with(segment);
    EXPECT_NEWEST(session, 1, 0);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NOTHING);
}

LAW(the_segment_says_what_it_is) {
    struct written_segment *segment = new_segment(8);
    struct foveate_camera_frame camera_frame = FOVEATE_ZEROS;
    strcpy(camera_frame.optical_frame, "camera_optical");
    strcpy(camera_frame.parent_frame, "base_link");
    camera_frame.parent_from_optical[11] = 1.5;
    camera_frame.source_from_calibrated[0] = 0.5;
    camera_frame.calibrated_width = 1280;
    camera_frame.calibrated_height = 960;
    memcpy(segment->base + FOVEATE_CAMERA_FRAME_OFFSET, &camera_frame, sizeof camera_frame);
    struct session *session = new_session();
    EXPECT(foveate_current_segment(session->reader) == NULL);
    EXPECT(foveate_state(session->reader, NULL) == FOVEATE_STATE_UNKNOWN);
    say_segment(session->client, segment->file);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NEW_SEGMENT);
    const struct foveate_segment *said = foveate_current_segment(session->reader);
    struct foveate_segment_header expected = valid_header(8);
    expected.epoch = segment->epoch;
    EXPECT(memcmp(&said->header, &expected, sizeof expected) == 0);
    EXPECT(memcmp(&said->camera_frame, &camera_frame, sizeof camera_frame) == 0);
    EXPECT(said->dtype == FOVEATE_DTYPE_U8 && said->token_bytes == TOKEN_BYTES && said->number == 1);
}

LAW(a_reader_begins_with_the_newest_frame) {
    struct written_segment *segment = new_segment(8);
    publish_up_to(segment, 1, 5);
    struct session *session = session_with(segment);
    EXPECT_NEXT(session, 5, 0);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_NOTHING);
}

LAW(reading_in_order_skips_only_what_is_gone) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    publish_up_to(segment, 1, 3);
    for (uint64_t sequence = 1; sequence <= 3; sequence++) {
        EXPECT_NEXT(session, sequence, 0);
    }
    publish_up_to(segment, 4, 10);
    EXPECT_NEXT(session, 7, 3);
}

LAW(reading_the_newest_passes_over_the_rest) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    publish_up_to(segment, 1, 3);
    EXPECT_NEWEST(session, 3, 2);
}

LAW(a_frame_that_is_being_written_is_not_read) {
    struct written_segment *segment = new_segment(2);
    struct session *session = session_with(segment);
    publish_up_to(segment, 1, 2);
    // The writer has begun frame 3 in the slot of frame 1.
    uint64_t *lock = (uint64_t *)(void *)(segment->base + FOVEATE_HEADER_BYTES + SLOT_STRIDE);
    __atomic_store_n(lock, 2 * 3 - 1, __ATOMIC_RELEASE);
    EXPECT_NEXT(session, 2, 1);
}

LAW(a_frame_is_kept_until_the_buffer_suffices) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    publish(segment, 1);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_OK);
    publish(segment, 2);
    EXPECT(1 < tokens_of(2));
    size_t capacity = session->frame.token_capacity;
    session->frame.token_capacity = 1;
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_TOO_SMALL);
    EXPECT_TEXT(foveate_last_error(session->reader)->text, "foveate_frame_reserve");
    EXPECT(session->frame.token_count == 0 && session->frame.pixel_bytes == 0);
    session->frame.token_capacity = capacity;
    session->frame.pixel_capacity -= TOKEN_BYTES * (CAPACITY - 1);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_TOO_SMALL);
    session->frame.pixel_capacity += TOKEN_BYTES * (CAPACITY - 1);
    session->frame.plane_capacities[1] -= sizeof(float) * (CAPACITY - 1);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_TOO_SMALL);
    EXPECT_TEXT(foveate_last_error(session->reader)->text, "`relevance`");
    session->frame.plane_capacities[1] += sizeof(float) * (CAPACITY - 1);
    EXPECT_NEWEST(session, 2, 0);
}

LAW(a_plane_is_found_by_its_name) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    const struct foveate_segment *said = foveate_current_segment(session->reader);
    EXPECT(foveate_plane_index(said, "pixels") == 0 && foveate_plane_index(said, "relevance") == 1);
    EXPECT(foveate_plane_index(said, "relevance ") == -1 && foveate_plane_index(said, "") == -1);
}

// Two channels of 2 x 3 cells, in the place of `relevance`.
LAW(channels_are_found_by_their_names) {
    struct written_segment *segment = new_segment(4);
    struct foveate_plane *plane = &((struct foveate_segment_header *)(void *)segment->base)->planes[1];
    strcpy(plane->name, "channels");
    strcpy(plane->order, "CHW");
    plane->dtype = FOVEATE_DTYPE_F16;
    plane->ndim = 3;
    plane->shape[0] = plane->shape[1] = 2;
    plane->shape[2] = 3;
    plane->token_stride = 12;
    plane->bytes = 24;
    struct foveate_channels *channels = (struct foveate_channels *)(void *)(segment->base + FOVEATE_CHANNEL_OFFSET);
    channels->cell_side = 32;
    channels->count = 2;
    strcpy(channels->names[0], "strokes");
    strcpy(channels->names[1], "query");
    struct session *session = session_with(segment);
    const struct foveate_segment *said = foveate_current_segment(session->reader);
    EXPECT(foveate_plane_index(said, "channels") == 1);
    EXPECT(foveate_channel_index(said, "strokes") == 0 && foveate_channel_index(said, "query") == 1);
    EXPECT(foveate_channel_index(said, "depth") == -1);
    // All cells count, whatever the number of tokens: six of them have the bytes of 24.
    publish(segment, 1);
    EXPECT(foveate_frame_reserve(&session->frame, said) == FOVEATE_OK && 24 <= session->frame.plane_capacities[1]);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_OK);
    const unsigned char *slot = segment->base + FOVEATE_HEADER_BYTES + SLOT_STRIDE;
    EXPECT(memcmp(session->frame.planes[1], slot + RELEVANCE_OFFSET, 24) == 0);
    session->frame.plane_capacities[1] = 23;
    publish(segment, 2);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_TOO_SMALL);
}

LAW(planes_that_nobody_made_room_for_are_left_out) {
    struct written_segment *segment = new_segment(4);
    struct session *session = new_session();
    static struct foveate_token tokens[CAPACITY];
    static unsigned char pixels[CAPACITY * TOKEN_BYTES];
    session->frame.tokens = tokens;
    session->frame.token_capacity = CAPACITY;
    session->frame.pixels = pixels;
    session->frame.pixel_capacity = sizeof pixels;
    say_segment(session->client, segment->file);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NEW_SEGMENT);
    publish(segment, 1);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_OK);
    EXPECT(are_words(pixels, 1, session->frame.pixel_bytes) && session->frame.planes[1] == NULL);
    memset(&session->frame, 0, sizeof session->frame);
}

LAW(a_frame_is_found_by_when_it_was_taken) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    publish_up_to(segment, 1, 6);
    // Of 4 frames that are in the ring, taken at 15, 20, 25 and 30.
    const uint64_t asked[][2] = {{0, 3}, {17, 3}, {18, 4}, {20, 4}, {27, 5}, {28, 6}, {UINT64_MAX, 6}};
    for (size_t index = 0; index < sizeof asked / sizeof *asked; index++) {
        session->frame.missed = 99;
        EXPECT_RESULT(foveate_read_at(session->reader, asked[index][0], &session->frame, 0), FOVEATE_OK);
        expect_frame(&session->frame, asked[index][1]);
        EXPECT(session->frame.missed == 0);
    }
    publish_taken_at(segment, 7, 32);
    EXPECT_RESULT(foveate_read_at(session->reader, 31, &session->frame, 0), FOVEATE_OK);
    // As near as frame 7, and older.
    expect_frame(&session->frame, 6);
}

LAW(a_frame_found_by_its_time_does_not_count_as_read) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    publish_up_to(segment, 1, 2);
    EXPECT_RESULT(foveate_read_at(session->reader, 10, &session->frame, 0), FOVEATE_OK);
    for (uint64_t sequence = 1; sequence <= 2; sequence++) {
        EXPECT_NEXT(session, sequence, 0);
    }
    EXPECT_RESULT(foveate_read_at(session->reader, 5, &session->frame, 0), FOVEATE_OK);
    expect_frame(&session->frame, 1);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_NOTHING);
}

LAW(a_frame_that_is_being_written_is_not_found) {
    struct written_segment *segment = new_segment(2);
    struct session *session = session_with(segment);
    publish_up_to(segment, 1, 2);
    uint64_t *lock = (uint64_t *)(void *)(segment->base + FOVEATE_HEADER_BYTES + SLOT_STRIDE);
    __atomic_store_n(lock, 2 * 3 - 1, __ATOMIC_RELEASE);
    EXPECT_RESULT(foveate_read_at(session->reader, 5, &session->frame, 0), FOVEATE_OK);
    expect_frame(&session->frame, 2);
}

LAW(finding_by_time_goes_to_the_newest_segment_at_once) {
    struct written_segment *segments[2] = {new_segment(4), new_segment(4)};
    struct session *session = session_with(segments[0]);
    publish(segments[0], 1);
    publish(segments[1], 1);
    say_segment(session->client, segments[1]->file);
    EXPECT_RESULT(foveate_read_at(session->reader, 5, &session->frame, 0), FOVEATE_NEW_SEGMENT);
    EXPECT_RESULT(foveate_read_at(session->reader, 5, &session->frame, 0), FOVEATE_OK);
    expect_frame(&session->frame, 1);
}

LAW(finding_by_time_reports_an_ended_stream) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    publish_up_to(segment, 1, 2);
    hang_up(session->client);
    EXPECT_RESULT(foveate_read_at(session->reader, 10, &session->frame, -1), FOVEATE_OK);
    expect_frame(&session->frame, 2);
    EXPECT_RESULT(foveate_read_at(session->reader, 11, &session->frame, -1), FOVEATE_DISCONNECTED);
}

// A frame from the future has no age.
#define TAKEN_JUST_NOW UINT64_MAX
// Any other is older than that.
#define MAX_AGE_NS 1

LAW(what_is_too_old_is_passed_over_and_counted) {
    struct written_segment *segment = new_segment(8);
    struct session *session = session_with(segment);
    struct foveate_borrowed borrowed;
    publish(segment, 1);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_OK);
    foveate_set_max_age(session->reader, MAX_AGE_NS);
    publish_up_to(segment, 2, 3);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NOTHING);
    publish(segment, 4);
    EXPECT_RESULT(foveate_borrow_newest(session->reader, &borrowed, 0), FOVEATE_NOTHING);
    publish(segment, 5);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_NOTHING);
    // The buffer's contents belong to the caller.
    expect_frame(&session->frame, 1);
    EXPECT_RESULT(foveate_wait(session->reader, 0), FOVEATE_NOTHING);

    publish_taken_at(segment, 6, TAKEN_JUST_NOW);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_OK);
    EXPECT(session->frame.head.ring_sequence == 6 && session->frame.missed == 4);
    publish(segment, 7);
    publish_taken_at(segment, 8, TAKEN_JUST_NOW);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_OK);
    EXPECT(session->frame.head.ring_sequence == 8 && session->frame.missed == 1);
    publish_taken_at(segment, 9, TAKEN_JUST_NOW);
    EXPECT_RESULT(foveate_borrow_newest(session->reader, &borrowed, 0), FOVEATE_OK);
    EXPECT(borrowed.head.ring_sequence == 9 && borrowed.missed == 0);

    foveate_set_max_age(session->reader, 0);
    publish(segment, 10);
    EXPECT_NEWEST(session, 10, 0);
}

LAW(a_ring_of_old_frames_hides_no_young_one) {
    const uint64_t slots = 2 * FOVEATE__TRIES_MAX;
    struct written_segment *segment = new_segment((uint32_t)slots);
    struct session *session = session_with(segment);
    foveate_set_max_age(session->reader, MAX_AGE_NS);
    publish_up_to(segment, 1, slots - 1);
    publish_taken_at(segment, slots, TAKEN_JUST_NOW);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_OK);
    EXPECT(session->frame.head.ring_sequence == slots && session->frame.missed == slots - 1);
}

static void *publish_an_old_and_a_young_frame(void *of) {
    const struct written_segment *segment = (const struct written_segment *)of;
    publish(segment, 1);
    wake(segment);
    publish_taken_at(segment, 2, TAKEN_JUST_NOW);
    wake(segment);
    return NULL;
}

LAW(what_is_too_old_ends_no_wait) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    pthread_t thread;
    foveate_set_max_age(session->reader, MAX_AGE_NS);
    EXPECT(pthread_create(&thread, NULL, publish_an_old_and_a_young_frame, segment) == 0);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, -1), FOVEATE_OK);
    EXPECT(session->frame.head.ring_sequence == 2 && session->frame.missed == 1);
    EXPECT(pthread_join(thread, NULL) == 0);
}

LAW(age_is_never_negative) {
    struct foveate_slot_header head = head_of(1);
    head.capture_ns = UINT64_MAX;
    EXPECT(foveate_age_ns(&head) == 0);
    head.capture_ns = (uint64_t)foveate__now_ns() - 1000;
    EXPECT(1000 <= foveate_age_ns(&head) && foveate_age_ns(&head) < (uint64_t)HANG_SECONDS * 1000000000);
}

LAW(numbers_of_every_format_are_exact) {
    const unsigned char bytes[] = {0, 255};
    const uint16_t halves[] = {0x3C00, 0xC000, 0x0001, 0x83FF, 0x7BFF, 0x3555, 0x0400, 0x8000, 0x7C00, 0xFC00};
    const double numbers[] = {1.0,     -2.0, 0x1p-24,          -1023 * 0x1p-24,  65504.0, 0.333251953125,
                              0x1p-14, 0.0,  (double)INFINITY, -(double)INFINITY};
    const uint16_t brains[] = {0x3F80, 0xC049};
    const float singles[] = {0.1f, -3e38f};
    EXPECT(foveate_number(FOVEATE_DTYPE_U8, bytes, 1) == 255.0f);
    for (size_t index = 0; index < sizeof halves / sizeof *halves; index++) {
        EXPECT((double)foveate_number(FOVEATE_DTYPE_F16, halves, index) == numbers[index]);
    }
    const uint16_t not_a_number = 0x7E00;
    EXPECT(isnan(foveate_number(FOVEATE_DTYPE_F16, &not_a_number, 0)));
    EXPECT(foveate_number(FOVEATE_DTYPE_BF16, brains, 0) == 1.0f
           && foveate_number(FOVEATE_DTYPE_BF16, brains, 1) == -3.140625f);
    EXPECT(foveate_number(FOVEATE_DTYPE_F32, singles, 0) == singles[0]
           && foveate_number(FOVEATE_DTYPE_F32, singles, 1) == singles[1]);
}

LAW(reading_allocates_nothing) {
    struct written_segment *segments[2] = {new_segment(4), new_segment(4)};
    struct session *session = session_with(segments[0]);
    long before = allocation_count;
    EXPECT(0 < before);
    for (uint64_t sequence = 1; sequence <= 100; sequence++) {
        publish(segments[0], sequence);
        EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_OK);
        EXPECT_RESULT(foveate_read_at(session->reader, 0, &session->frame, 0), FOVEATE_OK);
    }
    say_segment(session->client, segments[1]->file);
    publish(segments[1], 1);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NEW_SEGMENT);
    EXPECT_RESULT(foveate_frame_reserve(&session->frame, foveate_current_segment(session->reader)), FOVEATE_OK);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_OK);
    EXPECT(allocation_count == before);
}

// ---------------------------------------------------------------------------------------------------------------------
// A writer at full speed.

struct full_speed {
    struct written_segment *segment;
    bool is_over;
    pthread_t thread;
};

static bool is_over(const struct full_speed *writer) {
    return __atomic_load_n(&writer->is_over, __ATOMIC_RELAXED);
}

static void end_race(struct full_speed *writer) {
    __atomic_store_n(&writer->is_over, true, __ATOMIC_RELAXED);
}

static void *publish_at_full_speed(void *of) {
    struct full_speed *writer = (struct full_speed *)of;
    for (uint64_t sequence = 1; sequence <= TORN_FRAME_WRITES && !is_over(writer); sequence++) {
        publish(writer->segment, sequence);
    }
    end_race(writer);
    return NULL;
}

static void start_writing(struct full_speed *writer, uint32_t slot_count) {
    writer->segment = new_segment(slot_count);
    writer->is_over = false;
    EXPECT(pthread_create(&writer->thread, NULL, publish_at_full_speed, writer) == 0);
}

static void stop_writing(struct full_speed *writer) {
    end_race(writer);
    EXPECT(pthread_join(writer->thread, NULL) == 0);
}

// Whether there is no frame now, or the writer was faster each time. Lets the writer go on, where it has no processor of its own.
static bool is_race_lost(enum foveate_result result) {
    bool is_lost = result == FOVEATE_NOTHING || result == FOVEATE_OVERTAKEN;
    if (is_lost) sched_yield();
    return is_lost;
}

LAW(a_copied_frame_is_never_torn) {
    // Two slots, so that the writer is always at the next one.
    struct full_speed writer;
    start_writing(&writer, 2);
    struct session *session = session_with(writer.segment);
    uint64_t last = 0;
    int reads = 0;
    while (reads < TORN_FRAME_READS && !is_over(&writer)) {
        enum foveate_result result = reads % 2 == 0 ? foveate_read_newest(session->reader, &session->frame, 0)
                                                    : foveate_read_next(session->reader, &session->frame, 0);
        if (is_race_lost(result)) continue;
        EXPECT_RESULT(result, FOVEATE_OK);
        uint64_t sequence = session->frame.head.ring_sequence;
        expect_frame(&session->frame, sequence);
        EXPECT(sequence == last + session->frame.missed + 1 || last == 0);
        last = sequence;
        reads++;
    }
    EXPECT(0 < reads);
    stop_writing(&writer);
}

LAW(a_frame_found_by_its_time_is_never_torn) {
    struct full_speed writer;
    start_writing(&writer, 4);
    struct session *session = session_with(writer.segment);
    int reads = 0;
    while (reads < TORN_FRAME_READS && !is_over(&writer)) {
        uint64_t newest = __atomic_load_n(&live_of(writer.segment)->newest, __ATOMIC_RELAXED);
        enum foveate_result result = foveate_read_at(session->reader, 5 * newest - 5, &session->frame, 0);
        if (is_race_lost(result)) continue;
        EXPECT_RESULT(result, FOVEATE_OK);
        expect_frame(&session->frame, session->frame.head.ring_sequence);
        reads++;
    }
    EXPECT(0 < reads);
    stop_writing(&writer);
}

// Copies what is borrowed as a user would who minds data races.
static void copy_borrowed(const struct foveate_borrowed *borrowed, struct foveate_token *tokens, unsigned char *pixels,
                          float *relevance) {
    for (size_t index = 0; index < borrowed->token_count; index++) tokens[index] = foveate_borrowed_token(borrowed, index);
    foveate__load(pixels, borrowed->pixels, borrowed->pixel_bytes);
    foveate__load(relevance, borrowed->planes[1], borrowed->token_count * sizeof *relevance);
}

LAW(a_released_frame_was_never_torn) {
    struct full_speed writer;
    start_writing(&writer, 2);
    struct session *session = session_with(writer.segment);
    struct foveate_token tokens[CAPACITY];
    unsigned char pixels[CAPACITY * TOKEN_BYTES];
    float relevance[CAPACITY];
    int reads = 0;
    while (reads < TORN_FRAME_READS && !is_over(&writer)) {
        struct foveate_borrowed borrowed;
        enum foveate_result result = foveate_borrow_newest(session->reader, &borrowed, 0);
        if (is_race_lost(result)) continue;
        EXPECT_RESULT(result, FOVEATE_OK);
        copy_borrowed(&borrowed, tokens, pixels, relevance);
        if (foveate_release(session->reader, &borrowed) == FOVEATE_LAPPED) continue;
        uint64_t sequence = borrowed.head.ring_sequence;
        EXPECT(is_head_of(&borrowed.head, sequence) && borrowed.token_count == tokens_of(sequence));
        EXPECT(are_words(tokens, sequence, borrowed.token_count * sizeof *tokens));
        EXPECT(are_words(pixels, sequence, borrowed.pixel_bytes));
        EXPECT(are_words(relevance, sequence, borrowed.token_count * sizeof *relevance));
        reads++;
    }
    EXPECT(0 < reads);
    stop_writing(&writer);
}

// ---------------------------------------------------------------------------------------------------------------------
// Borrowing.

LAW(a_borrowed_frame_lies_in_the_ring_until_it_is_lapped) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    struct foveate_borrowed borrowed;
    EXPECT_RESULT(foveate_borrow_newest(session->reader, &borrowed, 0), FOVEATE_NOTHING);
    publish_up_to(segment, 1, 3);
    EXPECT_RESULT(foveate_borrow_newest(session->reader, &borrowed, 0), FOVEATE_OK);
    EXPECT(borrowed.missed == 2 && borrowed.token_count == tokens_of(3));
    EXPECT(are_words(borrowed.tokens, 3, borrowed.token_count * sizeof *borrowed.tokens));
    EXPECT(are_words(borrowed.pixels, 3, borrowed.pixel_bytes));
    EXPECT(borrowed.planes[0] == borrowed.pixels && borrowed.planes[2] == NULL);
    EXPECT(are_words(borrowed.planes[1], 3, borrowed.token_count * sizeof(float)));
    publish_up_to(segment, 4, 6);
    EXPECT(foveate_still_valid(session->reader, &borrowed));
    EXPECT_RESULT(foveate_release(session->reader, &borrowed), FOVEATE_OK);
    publish(segment, 7);
    EXPECT(!foveate_still_valid(session->reader, &borrowed));
    EXPECT_RESULT(foveate_release(session->reader, &borrowed), FOVEATE_LAPPED);
    EXPECT_TEXT(foveate_last_error(session->reader)->text, "frame 3");
}

LAW(a_new_segment_ends_what_was_borrowed) {
    struct written_segment *segments[2] = {new_segment(4), new_segment(4)};
    struct session *session = session_with(segments[0]);
    struct foveate_borrowed borrowed;
    publish(segments[0], 1);
    publish(segments[1], 1);
    EXPECT_RESULT(foveate_borrow_newest(session->reader, &borrowed, 0), FOVEATE_OK);
    say_segment(session->client, segments[1]->file);
    EXPECT_RESULT(foveate_wait(session->reader, 0), FOVEATE_OK);
    EXPECT(foveate_still_valid(session->reader, &borrowed));
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NEW_SEGMENT);
    EXPECT(!foveate_still_valid(session->reader, &borrowed));
    EXPECT_RESULT(foveate_release(session->reader, &borrowed), FOVEATE_LAPPED);
}

// ---------------------------------------------------------------------------------------------------------------------
// Segments, ends and hang-ups.

LAW(every_frame_comes_before_a_new_segment) {
    struct written_segment *segments[2] = {new_segment(4), new_segment(4)};
    struct session *session = session_with(segments[0]);
    publish_up_to(segments[0], 1, 2);
    publish_up_to(segments[1], 1, 3);
    say_segment(session->client, segments[1]->file);
    for (uint64_t sequence = 1; sequence <= 2; sequence++) {
        EXPECT_NEXT(session, sequence, 0);
    }
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_NEW_SEGMENT);
    EXPECT(foveate_current_segment(session->reader)->number == 2);
    // All of it: nothing of a segment that follows is older than the reader.
    for (uint64_t sequence = 1; sequence <= 3; sequence++) {
        EXPECT_NEXT(session, sequence, 0);
    }
}

LAW(every_frame_comes_before_the_end_and_its_reason) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    publish(segment, 1);
    say(session->client, "{\"event\":\"ended\",\"view\":\"camera/main\",\"reason\":\"end of the \\\"file\\\"\"}");
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_OK);
    hang_up(session->client);
    for (int times = 0; times < 2; times++) {
        EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, -1), FOVEATE_ENDED);
        EXPECT_TEXT(foveate_last_error(session->reader)->text, "end of the \"file\"");
    }
}

LAW(every_frame_comes_before_a_hang_up) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    publish(segment, 1);
    hang_up(session->client);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, -1), FOVEATE_OK);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, -1), FOVEATE_DISCONNECTED);
    EXPECT(foveate_descriptor(session->reader) == -1);
}

LAW(a_reopened_reader_continues_in_the_new_segment) {
    struct written_segment *segments[2] = {new_segment(4), new_segment(4)};
    struct session *session = session_with(segments[0]);
    hang_up(session->client);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
    EXPECT_RESULT(foveate_reopen(session->reader), FOVEATE_OK);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NOTHING);
    session->client = accept_client();
    hear(session->client);
    EXPECT(strcmp(heard, "{\"op\":\"subscribe\",\"view\":\"camera/main\",\"notify\":true}") == 0);
    publish_up_to(segments[1], 1, 2);
    say(session->client, "{\"ok\":true,\"view\":\"camera/main\"}");
    say_segment(session->client, segments[1]->file);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_NEW_SEGMENT);
    EXPECT_NEXT(session, 1, 0);
}

LAW(a_hung_up_connection_continues_in_the_same_segment) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    publish_up_to(segment, 1, 2);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_OK);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_OK);
    hang_up(session->client);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
    EXPECT_RESULT(foveate_reopen(session->reader), FOVEATE_OK);
    session->client = accept_client();
    hear(session->client);
    say(session->client, "{\"ok\":true,\"view\":\"camera/main\"}");
    say_segment(session->client, segment->file);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_NEW_SEGMENT);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_NOTHING);
    publish_up_to(segment, 3, 3);
    EXPECT_NEXT(session, 3, 0);
}

LAW(a_refusal_comes_in_the_daemons_own_words) {
    struct foveate_error error;
    int client;
    const char *answer =
        "{\"ok\":false,\"reason\":\"unknown-view\",\"error\":\"there is no view `camera/main`; there are: `x`\"}";
    EXPECT(open_with(answer, 0, &client, &error) == NULL);
    EXPECT(error.result == FOVEATE_REFUSED);
    EXPECT(strcmp(error.reason, "unknown-view") == 0);
    EXPECT(strcmp(error.text, "there is no view `camera/main`; there are: `x`") == 0);
}

LAW(a_refusal_after_opening_anew_is_told_by_the_next_read) {
    struct session *session = new_session();
    hang_up(session->client);
    EXPECT_RESULT(foveate_reopen(session->reader), FOVEATE_OK);
    session->client = accept_client();
    say(session->client, "{\"ok\":false,\"reason\":\"too-many-clients\",\"error\":\"64 clients are connected\"}");
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_REFUSED);
    EXPECT(strcmp(foveate_last_error(session->reader)->reason, "too-many-clients") == 0);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
}

LAW(opening_says_what_is_wrong) {
    struct foveate_error error;
    const char *wrong[] = {"camera", "camera/", "/main", "camera/main/", "Camera/main", "camera/ma in", ""};
    for (size_t index = 0; index < sizeof wrong / sizeof *wrong; index++) {
        EXPECT(foveate_open(wrong[index], socket_path, 0, 0, &error) == NULL);
        EXPECT(error.result == FOVEATE_INVALID);
        EXPECT_TEXT(error.text, "STREAM/VIEW");
    }
    EXPECT(foveate_open(NULL, socket_path, 0, 0, &error) == NULL && error.result == FOVEATE_INVALID);
    EXPECT(foveate_open("camera/main", "/nonexistent/foveate.sock", 0, 0, &error) == NULL);
    EXPECT(error.result == FOVEATE_NO_DAEMON);
    EXPECT_TEXT(error.text, "/nonexistent/foveate.sock");
    char path[200];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    EXPECT(foveate_open("camera/main", path, 0, 0, &error) == NULL && error.result == FOVEATE_INVALID);
    EXPECT_TEXT(error.text, "199 bytes");
    EXPECT(foveate_open("camera/main", "/nonexistent/foveate.sock", 0, 0, NULL) == NULL);
}

LAW(a_daemon_that_does_not_answer_is_not_waited_for) {
    struct foveate_error error;
    EXPECT(foveate_open("camera/main", socket_path, 0, 0, &error) == NULL);
    EXPECT(error.result == FOVEATE_TIMED_OUT);
    // It gave up, and left a connection to accept.
    hang_up(accept_client());
}

static void expect_address(const char *explicit_path, const char *expected) {
    struct sockaddr_un address;
    struct foveate_error error;
    memset(&address, 0, sizeof address);
    EXPECT_RESULT(foveate__find_address(&address, explicit_path, &error), FOVEATE_OK);
    EXPECT(strcmp(address.sun_path, expected) == 0);
}

LAW(the_socket_is_looked_for_where_the_document_says) {
    const char *system = "/run/foveate/foveate.sock";
    bool is_served = access(system, F_OK) == 0; // A daemon of this machine, on which the law must not depend.
    char folder[] = "/tmp/foveate-laws-XXXXXX", users[64], own[96], runtime[96];
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(users, sizeof users, "%s/foveate", folder);
    snprintf(own, sizeof own, "%s/foveate.sock", users);
    snprintf(runtime, sizeof runtime, ":%s:/c", users);
    EXPECT(mkdir(users, 0700) == 0);
    setenv("FOVEATE_SOCKET", "/a/socket", 1);
    setenv("RUNTIME_DIRECTORY", ":/b:/c", 1);
    setenv("XDG_RUNTIME_DIR", folder, 1);
    expect_address("/explicit", "/explicit");
    expect_address(NULL, "/a/socket");
    setenv("FOVEATE_SOCKET", "", 1);

    // There is none: the first place that is set.
    expect_address(NULL, is_served ? system : "/b/foveate.sock");
    setenv("RUNTIME_DIRECTORY", ":", 1);
    expect_address(NULL, is_served ? system : own);

    // There is one: the first place that has it.
    EXPECT(mknod(own, S_IFREG | 0600, 0) == 0);
    expect_address(NULL, own);
    setenv("RUNTIME_DIRECTORY", ":/b:/c", 1);
    expect_address(NULL, own);
    char longest[400];
    memset(longest, 'l', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    setenv("RUNTIME_DIRECTORY", longest, 1);
    expect_address(NULL, own);
    setenv("RUNTIME_DIRECTORY", runtime, 1);
    setenv("XDG_RUNTIME_DIR", "/d", 1);
    expect_address(NULL, own);

    setenv("RUNTIME_DIRECTORY", "", 1);
    unsetenv("XDG_RUNTIME_DIR");
    expect_address(NULL, system);
    // A relative path is ignored.
    setenv("XDG_RUNTIME_DIR", "run/user", 1);
    expect_address(NULL, system);
    unsetenv("XDG_RUNTIME_DIR");
    EXPECT(unlink(own) == 0 && rmdir(users) == 0 && rmdir(folder) == 0);
}

// ---------------------------------------------------------------------------------------------------------------------
// Views of one's own.

#define MADE "{\"ok\":true,\"view\":\"camera/client-7\"}"
#define KEYS "{\"budget\":128}"

LAW(a_view_of_ones_own_is_made_then_subscribed_to) {
    struct written_segment *segment = new_segment(4);
    struct call calls[3] = {{MADE, -1, ""}, {GRANTED, -1, ""}, {NULL, -1, ""}};
    struct foveate_error error;
    struct foveate_frame frame = FOVEATE_ZEROS;
    struct foveate_reader *reader = open_view_with("{\"budget\":\n128}", calls, 0, &error);
    EXPECT(reader != NULL);
    EXPECT(strcmp(calls[0].said, "{\"op\":\"open_view\",\"stream\":\"camera\",\"view\":{\"budget\": 128}}") == 0);
    EXPECT(strcmp(calls[1].said, "{\"op\":\"subscribe\",\"view\":\"camera/client-7\",\"notify\":false}") == 0);
    EXPECT(strcmp(foveate_view_name(reader), "camera/client-7") == 0);
    say_segment(calls[1].client, segment->file);
    EXPECT_RESULT(foveate_read_newest(reader, &frame, 0), FOVEATE_NEW_SEGMENT);

    // It lives by the connection that it is steered over.
    struct foveate_point point = FOVEATE_ZEROS;
    EXPECT_RESULT(foveate_look(reader, &point, 0, NULL), FOVEATE_TIMED_OUT);
    hear(calls[0].client);
    EXPECT_TEXT(heard, "{\"op\":\"look\",\"view\":\"camera/client-7\"");
    say(calls[0].client, "{\"ok\":true,\"points\":[[1,1]]}");
    EXPECT_RESULT(foveate_answer(reader, 0, NULL), FOVEATE_OK);
    foveate_close(reader);
    EXPECT(recv(calls[0].client, heard, sizeof heard, 0) == 0 && recv(calls[1].client, heard, sizeof heard, 0) == 0);
}

LAW(a_refused_view_has_the_daemons_words) {
    struct foveate_error error;
    struct call refused[2] = {{"{\"ok\":false,\"reason\":\"bad-request\",\"error\":\"unknown field `bugdet`\"}", -1, ""},
                              {NULL, -1, ""}};
    EXPECT(open_view_with("{\"bugdet\":1}", refused, FOVEATE_RECONNECT, &error) == NULL);
    EXPECT(error.result == FOVEATE_REFUSED && strcmp(error.reason, "bad-request") == 0);
    EXPECT_TEXT(error.text, "unknown field `bugdet`");

    struct call nameless[2] = {{"{\"ok\":true,\"view\":\"camera\"}", -1, ""}, {NULL, -1, ""}};
    EXPECT(open_view_with(NULL, nameless, 0, &error) == NULL && error.result == FOVEATE_NOT_UNDERSTOOD);
    EXPECT_TEXT(nameless[0].said, "\"view\":{}}");

    struct call unsubscribed[3] = {
        {MADE, -1, ""}, {"{\"ok\":false,\"reason\":\"too-many-clients\",\"error\":\"no\"}", -1, ""}, {NULL, -1, ""}};
    EXPECT(open_view_with(NULL, unsubscribed, 0, &error) == NULL && error.result == FOVEATE_REFUSED);
}

LAW(a_view_that_makes_no_sense_is_not_asked_for) {
    struct foveate_error error;
    const char *wrong[] = {"", "camera/main", "Camera", "a\"b"};
    for (size_t index = 0; index < sizeof wrong / sizeof *wrong; index++) {
        EXPECT(foveate_open_view(wrong[index], NULL, socket_path, 0, 0, &error) == NULL);
        EXPECT(error.result == FOVEATE_INVALID);
        EXPECT_TEXT(error.text, "is not a stream name");
    }
    EXPECT(foveate_open_view(NULL, NULL, socket_path, 0, 0, &error) == NULL && error.result == FOVEATE_INVALID);
    char keys[FOVEATE__KEYS_BYTES_MAX + 2];
    memset(keys, ' ', sizeof keys - 1);
    keys[sizeof keys - 1] = '\0';
    EXPECT(foveate_open_view("camera", keys, socket_path, 0, 0, &error) == NULL && error.result == FOVEATE_INVALID);
    EXPECT_TEXT(error.text, "4097 bytes");
    EXPECT(!is_called());
    // One byte less is for the daemon to judge.
    keys[FOVEATE__KEYS_BYTES_MAX] = '\0';
    EXPECT(foveate_open_view("camera", keys, socket_path, 0, 0, &error) == NULL && error.result == FOVEATE_TIMED_OUT);
    int client = accept_client();
    hear(client);
    EXPECT(heard[heard_bytes - 1] == '}' && FOVEATE__KEYS_BYTES_MAX < heard_bytes);
}

LAW(a_lost_own_view_is_reopened_before_steering) {
    struct call calls[3] = {{MADE, -1, ""}, {GRANTED, -1, ""}, {NULL, -1, ""}};
    struct foveate_error error;
    struct foveate_frame frame = FOVEATE_ZEROS;
    struct foveate_point point = FOVEATE_ZEROS;
    struct foveate_reader *reader = open_view_with(KEYS, calls, 0, &error);
    EXPECT(reader != NULL);
    hang_up(calls[0].client);
    EXPECT_RESULT(foveate_look(reader, &point, 0, NULL), FOVEATE_DISCONNECTED);
    EXPECT(!is_called());
    hang_up(calls[1].client);
    EXPECT_RESULT(foveate_read_newest(reader, &frame, -1), FOVEATE_DISCONNECTED);

    EXPECT_RESULT(foveate_reopen(reader), FOVEATE_OK);
    int maker = accept_client();
    hear(maker);
    EXPECT(strcmp(heard, calls[0].said) == 0);
    // Over this connection the view has yet to come.
    EXPECT_RESULT(foveate_look(reader, &point, 0, NULL), FOVEATE_DISCONNECTED);
    EXPECT_RESULT(foveate_read_newest(reader, &frame, 0), FOVEATE_NOTHING);
    EXPECT(!is_called());
    say(maker, "{\"ok\":true,\"view\":\"camera/client-8\"}");
    // The news to wait for comes over it, too.
    EXPECT(foveate__poll(foveate_descriptor(reader), POLLIN, 0) == 1);
    EXPECT_RESULT(foveate_read_newest(reader, &frame, 0), FOVEATE_NOTHING);
    int client = accept_client();
    hear(client);
    EXPECT_TEXT(heard, "\"op\":\"subscribe\",\"view\":\"camera/client-8\"");
    EXPECT(strcmp(foveate_view_name(reader), "camera/client-8") == 0);
    foveate_close(reader);
}

// ---------------------------------------------------------------------------------------------------------------------
// Looking for a daemon that is gone.

// A daemon that answers calls, and sends `segment` over the last one.
struct return_of_the_daemon {
    struct call *calls;
    int *last_client;
    const struct written_segment *segment;
};

static void *come_back(void *of) {
    struct return_of_the_daemon *daemon = (struct return_of_the_daemon *)of;
    answer_calls(daemon->calls);
    say_segment(*daemon->last_client, daemon->segment->file);
    return NULL;
}

LAW(a_patient_reader_goes_on_when_the_daemon_is_back) {
    struct written_segment *segments[2] = {new_segment(4), new_segment(4)};
    struct session *session = patient_session_with(segments[0]);
    struct call calls[2] = {{GRANTED, -1, ""}, {NULL, -1, ""}};
    struct return_of_the_daemon daemon = {calls, &calls[0].client, segments[1]};
    pthread_t thread;
    publish(segments[0], 1);
    publish_up_to(segments[1], 1, 2);
    hang_up(session->client);
    long before = allocation_count;
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, -1), FOVEATE_OK);
    EXPECT(pthread_create(&thread, NULL, come_back, &daemon) == 0);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, -1), FOVEATE_NEW_SEGMENT);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(strcmp(calls[0].said, "{\"op\":\"subscribe\",\"view\":\"camera/main\",\"notify\":true}") == 0);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, -1), FOVEATE_OK);
    expect_frame(&session->frame, 1);
    EXPECT(session->frame.missed == 0 && allocation_count == before);
    session->client = calls[0].client;
}

LAW(a_patient_reader_reports_the_missing_daemon_at_timeout) {
    struct written_segment *segment = new_segment(4);
    struct session *session = patient_session_with(segment);
    take_socket_away();
    hang_up(session->client);
    for (int timeout_ms = 0; timeout_ms <= 2; timeout_ms++) {
        EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, timeout_ms), FOVEATE_DISCONNECTED);
    }
    EXPECT_TEXT(foveate_last_error(session->reader)->text, "read on");
    // It is time to look again.
    EXPECT_RESULT(foveate_wait(session->reader, -1), FOVEATE_OK);
    EXPECT(session->reader->retry_ns <= foveate__now_ns());
    put_socket_back();
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
    session->client = accept_client();
    hear(session->client);
    say(session->client, GRANTED);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NOTHING);
}

LAW(a_missing_daemon_is_sought_ten_times_a_second) {
    struct written_segment *segment = new_segment(4);
    struct session *session = patient_session_with(segment);
    hang_up(session->client);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
    int64_t before_ns = foveate__now_ns();
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
    EXPECT(before_ns + FOVEATE__RECONNECT_NS <= session->reader->retry_ns);
    // Lost again before it is time.
    hang_up(accept_client());
    session->reader->retry_ns = FOVEATE__NEVER;
    for (int times = 0; times < 3; times++) {
        EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
    }
    EXPECT(!is_called());
    session->reader->retry_ns = foveate__now_ns();
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
    session->client = accept_client();
}

LAW(a_stopped_daemon_is_awaited) {
    struct written_segment *segment = new_segment(4);
    struct session *session = patient_session_with(segment);
    publish(segment, 1);
    say(session->client, "{\"event\":\"ended\",\"view\":\"camera/main\",\"reason\":\"daemon_stopped\"}");
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_OK);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
    hang_up(session->client);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
    session->client = accept_client();
    hear(session->client);
    say(session->client, GRANTED);
    say(session->client, "{\"event\":\"ended\",\"view\":\"camera/main\",\"reason\":\"end of file\"}");
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, -1), FOVEATE_ENDED);
    EXPECT_TEXT(foveate_last_error(session->reader)->text, "end of file");
    EXPECT(!is_called());
}

// Reads without waiting, at a time when the daemon may be looked for, and gives it an answer.
static enum foveate_result read_refused(struct session *session, const char *answer) {
    session->reader->retry_ns = 0;
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
    session->client = accept_client();
    hear(session->client);
    say(session->client, answer);
    enum foveate_result result = foveate_read_newest(session->reader, &session->frame, 0);
    hang_up(session->client);
    return result;
}

LAW(a_refusal_that_passes_is_waited_for_and_another_is_told) {
    struct written_segment *segment = new_segment(4);
    struct session *session = patient_session_with(segment);
    const char *passing[] = {"not-started", "ended", "name-taken", "too-many-clients"};
    hang_up(session->client);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
    for (size_t index = 0; index < sizeof passing / sizeof *passing; index++) {
        char answer[128];
        snprintf(answer, sizeof answer, "{\"ok\":false,\"reason\":\"%s\",\"error\":\"\"}", passing[index]);
        EXPECT_RESULT(read_refused(session, answer), FOVEATE_DISCONNECTED);
    }
    const char *answer = "{\"ok\":false,\"reason\":\"unknown-view\",\"error\":\"there is no view\"}";
    EXPECT_RESULT(read_refused(session, answer), FOVEATE_REFUSED);
    EXPECT(strcmp(foveate_last_error(session->reader)->reason, "unknown-view") == 0);
}

LAW(a_patient_reader_makes_its_own_view_anew) {
    struct call calls[3] = {{MADE, -1, ""}, {GRANTED, -1, ""}, {NULL, -1, ""}};
    struct foveate_error error;
    struct session *session = add_session();
    session->reader = open_view_with(KEYS, calls, FOVEATE_RECONNECT, &error);
    EXPECT(session->reader != NULL);
    hang_up(calls[0].client);
    hang_up(calls[1].client);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
    // The stream of a daemon that has just started.
    const char *answer = "{\"ok\":false,\"reason\":\"not-started\",\"error\":\"no frame yet\"}";
    EXPECT_RESULT(read_refused(session, answer), FOVEATE_DISCONNECTED);
    EXPECT(strcmp(heard, calls[0].said) == 0);
    // Then it dies before it answers.
    session->reader->retry_ns = 0;
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
    hang_up(accept_client());

    struct written_segment *segment = new_segment(4);
    struct call again[3] = {{MADE, -1, ""}, {GRANTED, -1, ""}, {NULL, -1, ""}};
    struct return_of_the_daemon daemon = {again, &again[1].client, segment};
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, come_back, &daemon) == 0);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, -1), FOVEATE_NEW_SEGMENT);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(strcmp(again[0].said, calls[0].said) == 0 && strcmp(again[1].said, calls[1].said) == 0);
}

LAW(a_daemon_that_takes_no_connections_is_looked_for_again) {
    struct written_segment *segment = new_segment(4);
    struct session *session = patient_session_with(segment);
    struct foveate_error error;
    int waiting[64], count = 0;
    while (foveate__connect(&session->reader->address, &waiting[count], &error) == FOVEATE_OK) EXPECT(++count < 64);
    EXPECT(error.result == FOVEATE_TIMED_OUT);
    hang_up(session->client);
    for (int times = 0; times < 2; times++) {
        session->reader->retry_ns = 0;
        EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
    }
    while (0 < count) {
        close(waiting[--count]);
        hang_up(accept_client());
    }
    session->reader->retry_ns = 0;
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
    session->client = accept_client();
}

// As behind systemd, whose socket stays where the daemon was killed.
LAW(a_socket_that_listens_while_nobody_accepts_is_no_daemon) {
    struct written_segment *segments[2] = {new_segment(4), new_segment(4)};
    struct session *session = patient_session_with(segments[0]);
    char reason[FOVEATE_REASON_BYTES];
    publish(segments[0], 1);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_OK);
    hang_up(session->client);
    int64_t started_ns = foveate__now_ns();
    const int timeouts_ms[] = {0, 0, 1, 150, 0, 150, 1};
    for (size_t index = 0; index < sizeof timeouts_ms / sizeof *timeouts_ms; index++) {
        EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, timeouts_ms[index]), FOVEATE_DISCONNECTED);
        EXPECT_TEXT(foveate_last_error(session->reader)->text, "the daemon is gone");
        EXPECT(foveate_state(session->reader, reason) == FOVEATE_STATE_ENDED);
        EXPECT_TEXT(reason, "the daemon is gone");
    }
    EXPECT(foveate__now_ns() - started_ns < (int64_t)5 * 1000000000);

    // It waits in the queue instead of filling it, and the next daemon finds it there.
    session->client = accept_client();
    EXPECT(!is_called());
    hear(session->client);
    EXPECT_TEXT(heard, "\"op\":\"subscribe\",\"view\":\"camera/main\"");
    say(session->client, GRANTED);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NOTHING);
    EXPECT(foveate_state(session->reader, reason) == FOVEATE_STATE_UNKNOWN);
    EXPECT_TEXT(reason, "not delivered a frame");
    EXPECT_RESULT(foveate_wait(session->reader, 0), FOVEATE_NOTHING);
    say_segment(session->client, segments[1]->file);
    EXPECT_RESULT(foveate_wait(session->reader, -1), FOVEATE_OK);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NEW_SEGMENT);
    EXPECT(foveate_state(session->reader, reason) == FOVEATE_STATE_LIVE);
}

// The next client's connection, which is granted camera/main.
static int grant_next(const char *operation, const char *answer) {
    int client = accept_client();
    hear(client);
    EXPECT_TEXT(heard, operation);
    say(client, answer);
    return client;
}

// What an event loop does: it waits for the descriptor, which it asked for once, then reads until there is nothing.
static enum foveate_result read_when_ready(int descriptor, struct foveate_reader *reader, struct foveate_frame *frame) {
    EXPECT(foveate__poll(descriptor, POLLIN, FOVEATE__NEVER) == 1);
    return foveate_read_newest(reader, frame, 0);
}

LAW(one_descriptor_outlives_every_daemon) {
    struct written_segment *segment = new_segment(4);
    struct session *session = patient_session_with(segment);
    int descriptor = foveate_descriptor(session->reader);
    EXPECT(foveate__poll(descriptor, POLLIN, 0) == 0);
    for (int life = 0; life < 3; life++) {
        struct written_segment *next = new_segment(4);
        take_socket_away();
        hang_up(session->client);
        for (int times = 0; times < 3; times++) {
            EXPECT_RESULT(read_when_ready(descriptor, session->reader, &session->frame), FOVEATE_DISCONNECTED);
        }
        put_socket_back();
        EXPECT_RESULT(read_when_ready(descriptor, session->reader, &session->frame), FOVEATE_DISCONNECTED);
        EXPECT(foveate__poll(descriptor, POLLIN, 0) == 0);
        session->client = grant_next("subscribe", GRANTED);
        say_segment(session->client, next->file);
        EXPECT_RESULT(read_when_ready(descriptor, session->reader, &session->frame), FOVEATE_NEW_SEGMENT);
        EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NOTHING);
        EXPECT(foveate__poll(descriptor, POLLIN, 0) == 0);
        EXPECT(foveate_descriptor(session->reader) == descriptor);
        }
    // A fork keeps the connection open, and the descriptor must not go on about it.
    int kept = dup(session->reader->subscription);
    take_socket_away();
    hang_up(session->client);
    EXPECT_RESULT(read_when_ready(descriptor, session->reader, &session->frame), FOVEATE_DISCONNECTED);
    EXPECT_RESULT(read_when_ready(descriptor, session->reader, &session->frame), FOVEATE_DISCONNECTED);
    EXPECT(foveate__poll(descriptor, POLLIN, 0) == 0);
    close(kept);
    put_socket_back();
}

LAW(a_patient_reader_is_opened_before_its_daemon) {
    struct foveate_error error;
    struct foveate_frame frame = FOVEATE_ZEROS;
    char reason[FOVEATE_REASON_BYTES];
    for (int is_own = 0; is_own < 2; is_own++) {
        take_socket_away();
        struct foveate_reader *reader = is_own ? foveate_open_view("camera", KEYS, socket_path, FOVEATE_RECONNECT, 10, &error)
                                               : foveate_open("camera/main", socket_path, FOVEATE_RECONNECT, 0, &error);
        EXPECT(reader != NULL);
        int descriptor = foveate_descriptor(reader);
        EXPECT_RESULT(read_when_ready(descriptor, reader, &frame), FOVEATE_DISCONNECTED);
        EXPECT_TEXT(foveate_last_error(reader)->text, socket_path);
        EXPECT(foveate_state(reader, reason) == FOVEATE_STATE_UNKNOWN);
        EXPECT_TEXT(reason, "no daemon has answered");
        put_socket_back();
        EXPECT_RESULT(read_when_ready(descriptor, reader, &frame), FOVEATE_DISCONNECTED);
        int maker = is_own ? grant_next("open_view", MADE) : -1;
        if (is_own) EXPECT_RESULT(read_when_ready(descriptor, reader, &frame), FOVEATE_DISCONNECTED);
        grant_next("subscribe", GRANTED);
        EXPECT_RESULT(read_when_ready(descriptor, reader, &frame), FOVEATE_NOTHING);
        // Answers to steering do not wake a reader.
        if (is_own) say(maker, "{\"ok\":true,\"points\":[[1,1]]}");
        EXPECT(foveate__poll(descriptor, POLLIN, 0) == 0);
        foveate_close(reader);
    }
    // Permanent errors are reported at once.
    int client;
    EXPECT(open_with("{\"ok\":false,\"reason\":\"unknown-view\",\"error\":\"no\"}", FOVEATE_RECONNECT, &client, &error) == NULL);
    EXPECT(error.result == FOVEATE_REFUSED);
    EXPECT(foveate_open("camera", socket_path, FOVEATE_RECONNECT, 0, &error) == NULL && error.result == FOVEATE_INVALID);
}

LAW(unknown_flags_are_refused_at_once) {
    struct foveate_error error;
    EXPECT(foveate_open("camera/main", socket_path, FOVEATE_RECONNECT | 4u, 0, &error) == NULL && error.result == FOVEATE_INVALID);
    EXPECT_TEXT(error.text, "invalid flags 0x6");
    EXPECT(foveate_open_view("camera", NULL, socket_path, 8, 0, &error) == NULL && error.result == FOVEATE_INVALID);
    EXPECT_TEXT(error.text, "invalid flags 0x8");
}

static void *answer_one_call(void *of) {
    *(int *)of = grant_next("subscribe", GRANTED);
    return NULL;
}

LAW(an_opening_that_waits_ends_when_its_daemon_answers) {
    struct foveate_error error;
    pthread_t thread;
    int client = -1;
    EXPECT(pthread_create(&thread, NULL, answer_one_call, &client) == 0);
    struct foveate_reader *reader = foveate_open("camera/main", socket_path, FOVEATE_RECONNECT, -1, &error);
    EXPECT(reader != NULL && foveate_state(reader, NULL) == FOVEATE_STATE_UNKNOWN);
    EXPECT(pthread_join(thread, NULL) == 0);
    foveate_close(reader);
}

// ---------------------------------------------------------------------------------------------------------------------
// The state.

LAW(the_state_comes_with_its_reason) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    char reason[FOVEATE_REASON_BYTES];
    EXPECT(foveate_state(session->reader, reason) == FOVEATE_STATE_LIVE && reason[0] == '\0');
    set_state(segment, FOVEATE_STATE_STALLED, "no frame for 2 s");
    EXPECT(foveate_state(session->reader, reason) == FOVEATE_STATE_STALLED);
    EXPECT(strcmp(reason, "no frame for 2 s") == 0);
    set_state(segment, FOVEATE_STATE_ENDED, "the caps changed");
    EXPECT(foveate_state(session->reader, reason) == FOVEATE_STATE_ENDED);
    EXPECT(strcmp(reason, "the caps changed") == 0);
}

LAW(an_unknown_state_reads_as_ended) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    set_state(segment, 4, "later");
    EXPECT(foveate_state(session->reader, NULL) == FOVEATE_STATE_ENDED);
}

// ---------------------------------------------------------------------------------------------------------------------
// Waiting.

LAW(waiting_ends_at_once_where_there_is_news) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    EXPECT_RESULT(foveate_wait(session->reader, 0), FOVEATE_NOTHING);
    publish(segment, 1);
    EXPECT_RESULT(foveate_wait(session->reader, -1), FOVEATE_OK);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_OK);
    EXPECT_RESULT(foveate_wait(session->reader, 0), FOVEATE_NOTHING);
    set_state(segment, FOVEATE_STATE_STALLED, "");
    EXPECT_RESULT(foveate_wait(session->reader, -1), FOVEATE_OK);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NOTHING);
    hang_up(session->client);
    EXPECT_RESULT(foveate_wait(session->reader, -1), FOVEATE_OK);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_DISCONNECTED);
}

static void *publish_and_wake(void *of) {
    const struct written_segment *segment = (const struct written_segment *)of;
    publish(segment, 1);
    wake(segment);
    return NULL;
}

LAW(a_reader_that_waits_gets_the_frame) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, publish_and_wake, segment) == 0);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, -1), FOVEATE_OK);
    expect_frame(&session->frame, 1);
    EXPECT(pthread_join(thread, NULL) == 0);
}

#define STOLEN_FRAMES 100

// A writer, a thief, and what the honest reader has read.
struct robbery {
    struct written_segment *segment;
    const void *futex; // in a read-only mapping
    uint32_t elsewhere;
    uint64_t read;
    bool is_over;
};

static void pause_us(long us) {
    struct timespec time = {0, us * 1000};
    nanosleep(&time, NULL);
}

// Moves all waiters for a frame to a futex that nobody wakes, again and again.
static void *steal_wakes(void *of) {
    struct robbery *robbery = (struct robbery *)of;
    while (!__atomic_load_n(&robbery->is_over, __ATOMIC_RELAXED)) {
        uintptr_t most = INT_MAX;
        EXPECT(0 <= syscall(SYS_futex, robbery->futex, FUTEX_REQUEUE, 0, most, &robbery->elsewhere, 0));
        pause_us(100);
    }
    return NULL;
}

static void *publish_when_read(void *of) {
    struct robbery *robbery = (struct robbery *)of;
    for (uint64_t sequence = 1; sequence <= STOLEN_FRAMES; sequence++) {
        // Time to fall asleep, and to be robbed.
        pause_us(5000);
        publish(robbery->segment, sequence);
        wake(robbery->segment);
        while (__atomic_load_n(&robbery->read, __ATOMIC_ACQUIRE) < sequence) sched_yield();
    }
    return NULL;
}

// Where a stolen wake cost 100 ms, these frames took ten seconds.
LAW(a_reader_whose_wakes_are_stolen_finds_each_frame_by_itself) {
    struct robbery robbery;
    memset(&robbery, 0, sizeof robbery);
    robbery.segment = new_segment(4);
    struct session *session = session_with(robbery.segment);
    void *mapped = mmap(NULL, FOVEATE_HEADER_BYTES, PROT_READ, MAP_SHARED, robbery.segment->file, 0);
    EXPECT(mapped != MAP_FAILED);
    robbery.futex = (const unsigned char *)mapped + FOVEATE_LIVE_OFFSET + offsetof(struct foveate_live, futex);
    pthread_t writer, thief;
    int64_t started_ns = foveate__now_ns();
    EXPECT(pthread_create(&thief, NULL, steal_wakes, &robbery) == 0);
    EXPECT(pthread_create(&writer, NULL, publish_when_read, &robbery) == 0);
    for (uint64_t sequence = 1; sequence <= STOLEN_FRAMES; sequence++) {
        EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, -1), FOVEATE_OK);
        EXPECT(session->frame.head.ring_sequence == sequence && session->frame.missed == 0);
        __atomic_store_n(&robbery.read, sequence, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&robbery.is_over, true, __ATOMIC_RELAXED);
    EXPECT(pthread_join(writer, NULL) == 0 && pthread_join(thief, NULL) == 0);
    EXPECT(foveate__now_ns() - started_ns < (int64_t)5 * 1000000000);
    munmap(mapped, FOVEATE_HEADER_BYTES);
}

LAW(waiting_for_a_time_accepts_the_first_frame) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    pthread_t thread;
    EXPECT_RESULT(foveate_read_at(session->reader, 77, &session->frame, 0), FOVEATE_NOTHING);
    EXPECT(pthread_create(&thread, NULL, publish_and_wake, segment) == 0);
    EXPECT_RESULT(foveate_read_at(session->reader, 77, &session->frame, -1), FOVEATE_OK);
    expect_frame(&session->frame, 1);
    EXPECT(pthread_join(thread, NULL) == 0);
}

static void *hang_up_on(void *client) {
    hang_up(*(int *)client);
    return NULL;
}

LAW(a_reader_that_waits_notices_a_hang_up) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, hang_up_on, &session->client) == 0);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, -1), FOVEATE_DISCONNECTED);
    EXPECT(pthread_join(thread, NULL) == 0);
}

struct signaller {
    pthread_t target;
    bool is_over;
};

static void do_nothing(int signal_number) {
    (void)signal_number;
}

// Again and again, since a signal that comes before the wait ends nothing.
static void *send_signals(void *of) {
    struct signaller *signaller = (struct signaller *)of;
    while (!__atomic_load_n(&signaller->is_over, __ATOMIC_RELAXED)) {
        pthread_kill(signaller->target, SIGUSR1);
        sched_yield();
    }
    return NULL;
}

LAW(a_signal_ends_a_wait) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    struct signaller signaller = {pthread_self(), false};
    pthread_t thread;
    signal(SIGUSR1, do_nothing);
    EXPECT(pthread_create(&thread, NULL, send_signals, &signaller) == 0);
    EXPECT_RESULT(foveate_wait(session->reader, -1), FOVEATE_NOTHING);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, -1), FOVEATE_NOTHING);
    __atomic_store_n(&signaller.is_over, true, __ATOMIC_RELAXED);
    EXPECT(pthread_join(thread, NULL) == 0);
}

LAW(a_notice_makes_the_descriptor_readable_until_it_was_read) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    int descriptor = foveate_descriptor(session->reader);
    EXPECT(foveate__poll(descriptor, POLLIN, 0) == 0);
    publish(segment, 1);
    uint64_t notice[2] = {1, 99};
    say_bytes(session->client, notice, sizeof notice);
    EXPECT(foveate__poll(descriptor, POLLIN, 0) == 1);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_OK);
    EXPECT(foveate__poll(descriptor, POLLIN, 0) == 0);
}

// ---------------------------------------------------------------------------------------------------------------------
// Steering.

LAW(a_look_says_what_was_asked_and_tells_the_answer) {
    struct session *session = new_session();
    struct foveate_point point = FOVEATE_ZEROS;
    struct foveate_looking looking;
    point.x = 0.1;
    point.y = -2.5e-9;
    EXPECT_RESULT(foveate_look(session->reader, &point, 0, &looking), FOVEATE_TIMED_OUT);
    int steering = accept_client();
    hear(steering);
    EXPECT(strcmp(heard, "{\"op\":\"look\",\"view\":\"camera/main\",\"points\":[[0.10000000000000001,-2.5000000000000001e-09]]}")
           == 0);
    say(steering, "{\"ok\":true,\"view\":\"camera/main\",\"points\":[[586.6875,-0.0625]],\"later\":{\"x\":1}}");
    EXPECT_RESULT(foveate_answer(session->reader, -1, &looking), FOVEATE_OK);
    EXPECT(looking.x == 586.6875 && looking.y == -0.0625 && !looking.has_fixation);
    EXPECT_RESULT(foveate_answer(session->reader, -1, &looking), FOVEATE_NOTHING);

    point.normalised = point.wait = true;
    point.for_ms = 250;
    point.frame = 812;
    point.x = point.y = 0.5;
    EXPECT_RESULT(foveate_look(session->reader, &point, 0, NULL), FOVEATE_TIMED_OUT);
    hear(steering);
    EXPECT_TEXT(heard, "\"points\":[[0.5,0.5]],\"normalised\":true,\"for_ms\":250,\"frame\":812,\"wait\":true}");
    say(steering, "{\"ok\":true,\"points\":[[320,240.0]],\"fixations\":[{\"id\":9,\"x\":320.5,\"y\":24e1,\"since_frame\":813,"
                  "\"reason\":\"look\"}]}");
    EXPECT_RESULT(foveate_answer(session->reader, -1, &looking), FOVEATE_OK);
    EXPECT(looking.x == 320.0 && looking.has_fixation && looking.fixation_id == 9 && looking.fixation_x == 320.5);
    EXPECT(looking.fixation_y == 240.0 && looking.fixation_since_frame == 813);

    struct foveate_point points[9] = FOVEATE_ZEROS;
    points[0].x = 1.0;
    points[1].y = 2.5;
    points[0].for_ms = 9;
    EXPECT_RESULT(foveate_look_at(session->reader, points, 2, 0, NULL), FOVEATE_TIMED_OUT);
    hear(steering);
    EXPECT_TEXT(heard, "{\"op\":\"look\",\"view\":\"camera/main\",\"points\":[[1,0],[0,2.5]],\"for_ms\":9}");
    say(steering, "{\"ok\":true,\"points\":[[1,0],[0,2.5]]}");
    EXPECT_RESULT(foveate_answer(session->reader, -1, &looking), FOVEATE_OK);
    EXPECT(looking.x == 1.0 && looking.y == 0.0 && !looking.has_fixation);
    EXPECT_RESULT(foveate_look_at(session->reader, points, 0, 0, NULL), FOVEATE_INVALID);
    EXPECT_RESULT(foveate_look_at(session->reader, points, 9, 0, NULL), FOVEATE_INVALID);
}

LAW(attention_follows_its_newline_in_every_byte) {
    struct session *session = new_session();
    struct foveate_map map = FOVEATE_ZEROS;
    float numbers[6] = {0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 5.0f};
    map.rows = 2;
    map.columns = 3;
    EXPECT_RESULT(foveate_attend(session->reader, &map, numbers, 0, NULL), FOVEATE_TIMED_OUT);
    int steering = accept_client();
    hear(steering);
    const char *text = "{\"op\":\"attend\",\"view\":\"camera/main\",\"shape\":[2,3],\"dtype\":\"f32\"}\n";
    EXPECT(heard_bytes == strlen(text) + sizeof numbers && memcmp(heard, text, strlen(text)) == 0);
    EXPECT(memcmp(heard + strlen(text), numbers, sizeof numbers) == 0);

    map.has_box = true;
    map.box[1] = -420.0;
    map.box[2] = 1920.0;
    map.box[3] = 1500.0;
    map.frame = 7;
    map.format = FOVEATE_NUMBER_U8;
    EXPECT_RESULT(foveate_attend(session->reader, &map, numbers, 0, NULL), FOVEATE_TIMED_OUT);
    hear(steering);
    EXPECT_TEXT(heard, "\"dtype\":\"u8\",\"box\":[0,-420,1920,1500],\"frame\":7}\n");
    EXPECT(heard_bytes == (size_t)(strchr(heard, '\n') + 1 - heard) + 6);

    struct foveate_scores scores = FOVEATE_ZEROS;
    scores.frame = 812;
    scores.count = 3;
    scores.format = FOVEATE_NUMBER_F16;
    EXPECT_RESULT(foveate_attend_tokens(session->reader, &scores, numbers, 0, NULL), FOVEATE_TIMED_OUT);
    hear(steering);
    text = "{\"op\":\"attend_tokens\",\"view\":\"camera/main\",\"frame\":812,\"dtype\":\"f16\"}\n";
    EXPECT(heard_bytes == strlen(text) + 6 && memcmp(heard, text, strlen(text)) == 0);

    scores.wait = true;
    EXPECT_RESULT(foveate_attend_tokens(session->reader, &scores, numbers, 0, NULL), FOVEATE_TIMED_OUT);
    hear(steering);
    EXPECT_TEXT(heard, ",\"dtype\":\"f16\",\"wait\":true}\n");

    EXPECT_RESULT(foveate_release_gaze(session->reader, 0), FOVEATE_TIMED_OUT);
    hear(steering);
    EXPECT(strcmp(heard, "{\"op\":\"release\",\"view\":\"camera/main\"}") == 0);
}

LAW(channels_are_named_and_weighed) {
    struct session *session = new_session();
    struct foveate_map map = FOVEATE_ZEROS;
    float numbers[6] = {0.0f, -1.0f, 2.0f, 3.0f, 4.0f, 5.0f};
    map.rows = 2;
    map.columns = 3;
    EXPECT_RESULT(foveate_inject(session->reader, "depth", &map, numbers, 0, 0), FOVEATE_TIMED_OUT);
    int steering = accept_client();
    hear(steering);
    const char *text =
        "{\"op\":\"inject\",\"view\":\"camera/main\",\"name\":\"depth\",\"shape\":[2,3],\"dtype\":\"f32\"}\n";
    EXPECT(heard_bytes == strlen(text) + sizeof numbers && memcmp(heard, text, strlen(text)) == 0);
    EXPECT(memcmp(heard + strlen(text), numbers, sizeof numbers) == 0);
    map.has_box = map.wait = true;
    map.box[2] = map.box[3] = 64.0;
    map.frame = 7;
    EXPECT_RESULT(foveate_inject(session->reader, "depth", &map, numbers, 250, 0), FOVEATE_TIMED_OUT);
    hear(steering);
    EXPECT_TEXT(heard, "\"box\":[0,0,64,64],\"frame\":7,\"ttl_ms\":250}\n");

    const struct foveate_weight weights[] = {{"depth", 1.5}, {"edges", -0.25}};
    EXPECT_RESULT(foveate_weigh(session->reader, weights, 2, 0), FOVEATE_TIMED_OUT);
    hear(steering);
    EXPECT(strcmp(heard, "{\"op\":\"weigh\",\"view\":\"camera/main\",\"weights\":{\"depth\":1.5,\"edges\":-0.25}}") == 0);
    say(steering, "{\"ok\":true}");
    say(steering, "{\"ok\":true}");
    say(steering, "{\"ok\":true}");
    EXPECT_RESULT(foveate_answer(session->reader, -1, NULL), FOVEATE_OK);

    // As long as any may be.
    struct foveate_weight most[65];
    for (size_t index = 0; index < 65; index++) {
        most[index].channel = "abcdefghijklmnopqrstuvwxyz01234";
        most[index].weight = -0x1.fffffffffffffp-1000;
    }
    EXPECT_RESULT(foveate_weigh(session->reader, most, 64, 0), FOVEATE_TIMED_OUT);
    hear(steering);
    EXPECT(strcmp(heard + heard_bytes - 2, "}}") == 0);
    EXPECT_RESULT(foveate_weigh(session->reader, most, 65, 0), FOVEATE_INVALID);
    EXPECT_RESULT(foveate_weigh(session->reader, most, 0, 0), FOVEATE_INVALID);
    most[0].weight = (double)INFINITY;
    EXPECT_RESULT(foveate_weigh(session->reader, most, 1, 0), FOVEATE_INVALID);
    const char *names[] = {"", "Depth", "a\"b", "abcdefghijklmnopqrstuvwxyz012345"};
    for (size_t index = 0; index < 4; index++) {
        most[0].channel = names[index];
        EXPECT_RESULT(foveate_weigh(session->reader, most, 1, 0), FOVEATE_INVALID);
        EXPECT_RESULT(foveate_inject(session->reader, names[index], &map, numbers, 0, 0), FOVEATE_INVALID);
        EXPECT_TEXT(foveate_last_error(session->reader)->text, "1 to 31 of a-z");
    }
}

LAW(the_answer_is_that_to_the_newest_message) {
    struct session *session = new_session();
    struct foveate_point point = FOVEATE_ZEROS;
    struct foveate_looking looking;
    for (int times = 0; times < 3; times++) {
        EXPECT_RESULT(foveate_look(session->reader, &point, 0, &looking), FOVEATE_TIMED_OUT);
    }
    int steering = accept_client();
    say(steering, "{\"ok\":true,\"points\":[[1,1]]}");
    EXPECT_RESULT(foveate_answer(session->reader, 0, &looking), FOVEATE_TIMED_OUT);
    say(steering, "{\"ok\":false,\"reason\":\"held\",\"error\":\"no\"}");
    say(steering, "{\"ok\":true,\"points\":[[3,3]]}");
    EXPECT_RESULT(foveate_answer(session->reader, 0, &looking), FOVEATE_OK);
    EXPECT(looking.x == 3.0);
}

LAW(steering_is_refused_in_the_daemons_own_words) {
    struct session *session = new_session();
    struct foveate_point point = FOVEATE_ZEROS;
    EXPECT_RESULT(foveate_look(session->reader, &point, 0, NULL), FOVEATE_TIMED_OUT);
    int steering = accept_client();
    say(steering, "{\"ok\":false,\"reason\":\"held\",\"error\":\"process 4711 steers this view\",\"holder\":\"process 4711\"}");
    EXPECT_RESULT(foveate_answer(session->reader, -1, NULL), FOVEATE_REFUSED);
    EXPECT(strcmp(foveate_last_error(session->reader)->reason, "held") == 0);
    EXPECT_TEXT(foveate_last_error(session->reader)->text, "process 4711 steers");
}

LAW(steering_connects_again_after_a_hang_up) {
    struct session *session = new_session();
    struct foveate_point point = FOVEATE_ZEROS;
    EXPECT_RESULT(foveate_look(session->reader, &point, 0, NULL), FOVEATE_TIMED_OUT);
    hang_up(accept_client());
    EXPECT_RESULT(foveate_answer(session->reader, -1, NULL), FOVEATE_DISCONNECTED);
    EXPECT_RESULT(foveate_look(session->reader, &point, 0, NULL), FOVEATE_TIMED_OUT);
    int steering = accept_client();
    hear(steering);
    EXPECT_TEXT(heard, "\"op\":\"look\"");
    say(steering, "{\"ok\":true,\"points\":[[1,1]]}");
    EXPECT_RESULT(foveate_answer(session->reader, 0, NULL), FOVEATE_OK);
    hang_up(steering);
    // Nobody looked at this hang-up, and still the next message arrives.
    EXPECT_RESULT(foveate_look(session->reader, &point, 0, NULL), FOVEATE_TIMED_OUT);
    steering = accept_client();
    hear(steering);
    EXPECT_TEXT(heard, "\"op\":\"look\"");
}

// Whatever a restart of the daemon does, a patient reader has one result for it.
LAW(steering_while_the_daemon_restarts_is_disconnected) {
    struct written_segment *segment = new_segment(4);
    struct session *session = patient_session_with(segment);
    struct foveate_point point = FOVEATE_ZEROS;
    EXPECT_RESULT(foveate_look(session->reader, &point, 0, NULL), FOVEATE_TIMED_OUT);
    int steering = accept_client();
    const char *reasons[] = {"unavailable", "not-started", "busy", "too-many-clients", "unknown-frame"};
    for (size_t index = 0; index < sizeof reasons / sizeof *reasons; index++) {
        char answer[128];
        snprintf(answer, sizeof answer, "{\"ok\":false,\"reason\":\"%s\",\"error\":\"not now\"}", reasons[index]);
        say(steering, answer);
        EXPECT_RESULT(foveate_answer(session->reader, 0, NULL), FOVEATE_DISCONNECTED);
        EXPECT_TEXT(foveate_last_error(session->reader)->text, "not now");
        EXPECT(foveate_last_error(session->reader)->reason[0] == '\0');
        EXPECT_RESULT(foveate_look(session->reader, &point, 0, NULL), FOVEATE_TIMED_OUT);
    }
    hang_up(steering);
    take_socket_away();
    for (int times = 0; times < 2; times++) {
        EXPECT_RESULT(foveate_look(session->reader, &point, 0, NULL), FOVEATE_DISCONNECTED);
        EXPECT_RESULT(foveate_release_gaze(session->reader, 0), FOVEATE_DISCONNECTED);
    }
    put_socket_back();
    EXPECT_RESULT(foveate_look(session->reader, &point, 0, NULL), FOVEATE_TIMED_OUT);
    steering = accept_client();
    // What does not pass is still refused.
    say(steering, "{\"ok\":false,\"reason\":\"ended\",\"error\":\"no\"}");
    EXPECT_RESULT(foveate_answer(session->reader, 0, NULL), FOVEATE_REFUSED);
}

LAW(what_cannot_be_meant_is_not_sent) {
    struct session *session = new_session();
    struct foveate_point point = FOVEATE_ZEROS;
    point.x = (double)INFINITY;
    EXPECT_RESULT(foveate_look(session->reader, &point, 0, NULL), FOVEATE_INVALID);
    const double beyond[] = {5.0, -0.1, (double)NAN};
    point.normalised = true;
    for (size_t index = 0; index < 3; index++) {
        point.x = beyond[index];
        EXPECT_RESULT(foveate_look(session->reader, &point, 0, NULL), FOVEATE_INVALID);
    }
    struct foveate_map map = FOVEATE_ZEROS;
    map.rows = 129;
    map.columns = 1;
    EXPECT_RESULT(foveate_attend(session->reader, &map, &point, 0, NULL), FOVEATE_INVALID);
    EXPECT_TEXT(foveate_last_error(session->reader)->text, "129 x 1");
    map.rows = 1;
    map.has_box = true;
    map.box[2] = (double)NAN;
    EXPECT_RESULT(foveate_attend(session->reader, &map, &point, 0, NULL), FOVEATE_INVALID);
    struct foveate_scores scores = FOVEATE_ZEROS;
    scores.count = 1 << 16;
    EXPECT_RESULT(foveate_attend_tokens(session->reader, &scores, &point, 0, NULL), FOVEATE_INVALID);
    EXPECT_TEXT(foveate_last_error(session->reader)->text, "too many scores: 65536");
    scores.count = 1;
    scores.format = (enum foveate_number_format)3;
    EXPECT_RESULT(foveate_attend_tokens(session->reader, &scores, &point, 0, NULL), FOVEATE_INVALID);
    EXPECT_RESULT(foveate_answer(session->reader, -1, NULL), FOVEATE_NOTHING);
}

// ---------------------------------------------------------------------------------------------------------------------
// A daemon that is broken, or means harm.

// What reading leads to when `file` was sent as a segment. Whatever it is, nothing crashes, and all is read that can be.
static enum foveate_result read_all_of(struct session *session, int file) {
    struct foveate_borrowed borrowed;
    say_segment(session->client, file);
    enum foveate_result result = foveate_read_next(session->reader, &session->frame, 0);
    if (result != FOVEATE_NEW_SEGMENT) return result;
    char reason[FOVEATE_REASON_BYTES];
    foveate_state(session->reader, reason);
    EXPECT(strnlen(reason, sizeof reason) < sizeof reason);
    if (foveate_frame_reserve(&session->frame, foveate_current_segment(session->reader)) != FOVEATE_OK)
        return FOVEATE_NO_MEMORY;
    for (int times = 0; times < 3; times++) foveate_read_next(session->reader, &session->frame, 0);
    foveate_read_at(session->reader, 10, &session->frame, 0);
    foveate_wait(session->reader, 0);
    if (foveate_borrow_newest(session->reader, &borrowed, 0) == FOVEATE_OK) {
        const struct foveate_segment *segment = foveate_current_segment(session->reader);
        EXPECT(foveate_plane_index(segment, "relevance") < (int)segment->header.plane_count);
        for (uint32_t index = 0; index < segment->header.plane_count; index++) {
            size_t bytes = borrowed.token_count * (size_t)segment->header.planes[index].token_stride;
            foveate__load(session->frame.planes[index], borrowed.planes[index], bytes);
        }
        foveate_release(session->reader, &borrowed);
    }
    return FOVEATE_OK;
}

// A segment with four frames, to be spoilt.
static unsigned char *valid_bytes(size_t *bytes) {
    struct written_segment *segment = new_segment(4);
    publish_up_to(segment, 1, 4);
    unsigned char *copy = (unsigned char *)malloc(segment->bytes);
    EXPECT(copy != NULL);
    memcpy(copy, segment->base, segment->bytes);
    *bytes = segment->bytes;
    return copy;
}

struct spoilt_field {
    size_t offset;
    uint64_t value;
    size_t width;
    enum foveate_result result;
    const char *said;
};

#define HEADER(field) offsetof(struct foveate_segment_header, field)
#define PLANE(field) (offsetof(struct foveate_segment_header, planes) + offsetof(struct foveate_plane, field))
#define SECOND(field) (PLANE(field) + sizeof(struct foveate_plane))
#define CAMERA(field) (offsetof(struct foveate_segment_header, camera) + offsetof(struct foveate_camera, field))

static const struct spoilt_field spoilt_fields[] = {
    {HEADER(magic), 'f', 1, FOVEATE_NOT_A_SEGMENT, "not a Foveate segment"},
    {HEADER(abi_major), 0x700000003, 8, FOVEATE_VERSION, "follows ABI 3.7, but this reader supports 1.0: compile"},
    {HEADER(total_bytes), 1ull << 40, 8, FOVEATE_MALFORMED, "total_bytes is 1099511627776"},
    {HEADER(header_bytes), 64, 4, FOVEATE_MALFORMED, "header_bytes"},
    {HEADER(slot_count), 1, 4, FOVEATE_MALFORMED, "slot_count"},
    {HEADER(slot_count), 1025, 4, FOVEATE_MALFORMED, "slot_count"},
    {HEADER(slot_count), 9, 4, FOVEATE_MALFORMED, "slot_stride"},
    {HEADER(slot_stride), UINT64_MAX - 63, 8, FOVEATE_MALFORMED, "slot_stride"},
    {HEADER(slot_stride), 1ull << 62, 8, FOVEATE_MALFORMED, "slot_stride"},
    {HEADER(slot_header_bytes), 0, 4, FOVEATE_MALFORMED, "slot_header_bytes"},
    {HEADER(record_bytes), 57, 4, FOVEATE_MALFORMED, "record_bytes"},
    {HEADER(records_offset), 0, 4, FOVEATE_MALFORMED, "records_offset"},
    {HEADER(records_offset), 516, 4, FOVEATE_MALFORMED, "records_offset"},
    {HEADER(token_capacity), UINT32_MAX, 4, FOVEATE_MALFORMED, "token_capacity"},
    {HEADER(token_capacity), 0, 4, FOVEATE_MALFORMED, "token_capacity"},
    {HEADER(token_capacity), 5, 4, FOVEATE_MALFORMED, "planes.shape[0]"},
    {HEADER(patch_side), 16, 4, FOVEATE_MALFORMED, "planes[0].shape[2]"},
    {HEADER(plane_count), 0, 4, FOVEATE_MALFORMED, "plane_count"},
    {HEADER(plane_count), 1, 4, FOVEATE_OK, ""},
    {HEADER(plane_count), 3, 4, FOVEATE_MALFORMED, "planes.dtype"},
    {HEADER(plane_count), 9, 4, FOVEATE_MALFORMED, "plane_count"},
    {HEADER(source_width), 0, 4, FOVEATE_MALFORMED, "source_width"},
    {HEADER(source_height), 16385, 4, FOVEATE_MALFORMED, "source_height"},
    {HEADER(backend_kind), 3, 4, FOVEATE_MALFORMED, "backend_kind"},
    {HEADER(fovea_capacity), 0, 4, FOVEATE_MALFORMED, "fovea_capacity is 0"},
    {HEADER(fovea_capacity), 9, 4, FOVEATE_MALFORMED, "fovea_capacity is 9"},
    {HEADER(grid_columns), 2 | 3ull << 32, 8, FOVEATE_OK, ""},
    {HEADER(grid_columns), 2 | 4ull << 32, 8, FOVEATE_MALFORMED, "grid_columns x grid_rows is 8"},
    {HEADER(grid_columns), UINT64_MAX, 8, FOVEATE_MALFORMED, "grid_columns x grid_rows"},
    {HEADER(grid_columns), 1ull << 31 | 2ull << 32, 8, FOVEATE_MALFORMED, "grid_columns x grid_rows"},
    {HEADER(grid_columns), 1, 4, FOVEATE_MALFORMED, "grid_columns x grid_rows"},
    {HEADER(grid_rows), 1, 4, FOVEATE_MALFORMED, "grid_columns x grid_rows"},
    {HEADER(outside), 1, 4, FOVEATE_OK, ""},
    {HEADER(outside), 2, 4, FOVEATE_MALFORMED, "outside is 2"},
    {HEADER(rounding), 1, 4, FOVEATE_OK, ""},
    {HEADER(rounding), 2, 4, FOVEATE_MALFORMED, "rounding is 2"},
    {HEADER(pixel_aspect_width), 64 | 45ull << 32, 8, FOVEATE_OK, ""},
    {HEADER(pixel_aspect_width), 0, 8, FOVEATE_OK, ""},
    {HEADER(pixel_aspect_width), 0, 4, FOVEATE_MALFORMED, "pixel_aspect_width : pixel_aspect_height is 0"},
    {HEADER(color_matrix), UINT64_MAX, 8, FOVEATE_OK, ""},
    {HEADER(view_name), 0xFF, 1, FOVEATE_MALFORMED, "view_name"},
    {HEADER(layout_name), 0x80ED, 2, FOVEATE_MALFORMED, "layout_name"},
    {HEADER(backend_device) + 11, 0x7878787878787878, 8, FOVEATE_OK, ""},
    {CAMERA(coefficient_count), 15, 4, FOVEATE_MALFORMED, "camera.coefficient_count"},
    {CAMERA(distortion_name), 0xC0, 1, FOVEATE_MALFORMED, "camera.distortion_name"},
    {FOVEATE_CAMERA_FRAME_OFFSET, 0xF5, 1, FOVEATE_MALFORMED, "camera.optical_frame"},
    {PLANE(dtype), 5, 4, FOVEATE_MALFORMED, "planes.dtype"},
    {PLANE(dtype), 4, 4, FOVEATE_MALFORMED, "planes.token_stride"},
    {PLANE(ndim), 5, 4, FOVEATE_MALFORMED, "planes.ndim"},
    {PLANE(ndim), 3, 4, FOVEATE_MALFORMED, "planes[0].ndim"},
    {PLANE(shape), 4, 4, FOVEATE_MALFORMED, "planes.shape[0]"},
    {PLANE(shape) + 4, 2, 4, FOVEATE_MALFORMED, "planes[0].shape[1]"},
    {PLANE(shape) + 4, UINT64_MAX, 8, FOVEATE_MALFORMED, "planes.shape"},
    {PLANE(shape) + 8, 0, 4, FOVEATE_MALFORMED, "planes.shape"},
    {PLANE(offset), 64, 8, FOVEATE_MALFORMED, "planes.offset"},
    {PLANE(offset), 904, 8, FOVEATE_MALFORMED, "planes.offset"},
    {PLANE(offset), UINT64_MAX - 63, 8, FOVEATE_MALFORMED, "planes.bytes"},
    {PLANE(offset), SLOT_STRIDE, 8, FOVEATE_MALFORMED, "planes.bytes"},
    {PLANE(bytes), 4096, 8, FOVEATE_MALFORMED, "planes.bytes"},
    {PLANE(bytes), 588, 8, FOVEATE_MALFORMED, "planes.token_stride"},
    {PLANE(token_stride), UINT64_MAX, 8, FOVEATE_MALFORMED, "planes.token_stride"},
    {PLANE(token_stride), 590, 8, FOVEATE_MALFORMED, "planes.token_stride"},
    {PLANE(name), 'P', 1, FOVEATE_MALFORMED, "planes[0].name"},
    {PLANE(order), 'H', 1, FOVEATE_MALFORMED, "planes[0].order"},
    {SECOND(dtype), 5, 4, FOVEATE_MALFORMED, "planes.dtype"},
    {SECOND(ndim), 0, 4, FOVEATE_MALFORMED, "planes.ndim"},
    {SECOND(shape), 4, 4, FOVEATE_MALFORMED, "planes.shape[0]"},
    {SECOND(offset), 64, 8, FOVEATE_MALFORMED, "planes.offset"},
    {SECOND(offset), SLOT_STRIDE, 8, FOVEATE_MALFORMED, "planes.bytes"},
    {SECOND(bytes), 65, 8, FOVEATE_MALFORMED, "planes.bytes"},
    {SECOND(token_stride), 3, 8, FOVEATE_MALFORMED, "planes.token_stride"},
    {SECOND(token_stride), 5, 8, FOVEATE_MALFORMED, "planes.token_stride"},
    {SECOND(name), 0xFF, 1, FOVEATE_MALFORMED, "planes.name"},
    {SECOND(name), 0x736C65786970, 8, FOVEATE_MALFORMED, "planes.name"}, // `pixels`, twice
    {HEADER(abi_minor), 77, 4, FOVEATE_OK, ""},
};

// A frame of random places on a small grid, some of them changed in it.
static void fill_frame(struct foveate_frame *frame, uint64_t frame_seq, uint64_t changed[64]) {
    frame->token_count = (size_t)(random_number() % (CAPACITY + 1));
    for (size_t index = 0; index < frame->token_count; index++) {
        uint32_t place = (uint32_t)(random_number() % 64);
        struct foveate_token *token = &frame->tokens[index];
        if (random_number() % 4 == 0) changed[place] = frame_seq;
        memset(token, 0, sizeof *token);
        token->x = (int32_t)(place % 2) - 1;
        token->y = (int32_t)(place / 2 % 2) - 1;
        token->sx = (uint16_t)(place / 4 % 2 + 1);
        token->sy = (uint16_t)(place / 8 % 2 + 1);
        token->extra_width = (uint8_t)(place / 16 % 2);
        token->extra_height = (uint8_t)(place / 32);
    }
    for (size_t index = 0; index < frame->token_count; index++) {
        const struct foveate_token *token = &frame->tokens[index];
        int place = token->x + 1 + 2 * (token->y + 1) + 4 * (token->sx - 1) + 8 * (token->sy - 1);
        place += 16 * token->extra_width + 32 * token->extra_height;
        frame->tokens[index].changed_frame = changed[place];
    }
}

// What a model makes of a token.
static uint64_t result_of(const struct foveate_segment *segment, const struct foveate_token *token) {
    uint64_t result = segment->header.epoch * 1000003 + token->changed_frame;
    result = result * 1000003 + (uint32_t)token->x;
    result = result * 1000003 + (uint32_t)token->y;
    result = (result * 1000003 + token->sx) * 1000003 + token->sy;
    return (result * 1000003 + token->extra_width) * 1000003 + token->extra_height;
}

LAW(a_token_cache_gives_what_would_be_computed_anew) {
    struct foveate_token tokens[CAPACITY];
    struct foveate_frame frame = FOVEATE_ZEROS;
    frame.tokens = tokens;
    for (uint32_t capacity = CAPACITY; capacity < 100; capacity += 31) {
        uint32_t rows[CAPACITY], missing[CAPACITY];
        uint64_t table[100], changed[64] = FOVEATE_ZEROS;
        struct foveate_segment segment;
        memset(&segment, 0, sizeof segment);
        struct foveate_token_cache *cache = foveate_token_cache_new(capacity);
        EXPECT(cache != NULL);
        int64_t computed = 0, found = 0;
        for (uint64_t frame_seq = 1; frame_seq < 3000; frame_seq++) {
            segment.header.epoch = frame_seq / 1000;
            if (frame_seq % 700 == 0) foveate_token_cache_clear(cache);
            fill_frame(&frame, frame_seq, changed);
            int64_t count = foveate_token_cache_update(cache, &segment, &frame, rows, missing);
            EXPECT(0 <= count && count <= (int64_t)frame.token_count);
            for (int64_t index = 0; index < count; index++) {
                EXPECT(index == 0 || missing[index - 1] < missing[index]);
                table[rows[missing[index]]] = result_of(&segment, &tokens[missing[index]]);
            }
            for (size_t index = 0; index < frame.token_count; index++) {
                EXPECT(rows[index] < capacity && table[rows[index]] == result_of(&segment, &tokens[index]));
            }
            computed += count;
            found += (int64_t)frame.token_count - count;
            // Now all of them are there.
            EXPECT(foveate_token_cache_update(cache, &segment, &frame, rows, missing) == 0);
        }
        EXPECT(0 < found && (capacity < 64 || computed < found));
        foveate_token_cache_free(cache);
    }
}

LAW(a_token_cache_drops_what_was_not_used_for_longest) {
    struct foveate_token tokens[2];
    struct foveate_segment segment;
    struct foveate_frame frame = FOVEATE_ZEROS;
    uint32_t rows[2], missing[2];
    memset(&segment, 0, sizeof segment);
    memset(tokens, 0, sizeof tokens);
    frame.tokens = tokens;
    frame.token_count = 1;
    struct foveate_token_cache *cache = foveate_token_cache_new(3);
    // 0, 1 and 2 fill it, 0 is used again, and 3 takes the row of 1.
    const int32_t places[] = {0, 1, 2, 0, 3, 0, 2, 3, 1};
    const int64_t counts[] = {1, 1, 1, 0, 1, 0, 0, 0, 1};
    for (size_t index = 0; index < sizeof places / sizeof *places; index++) {
        tokens[0].x = places[index];
        EXPECT(foveate_token_cache_update(cache, &segment, &frame, rows, missing) == counts[index]);
    }
    foveate_token_cache_free(cache);
    foveate_token_cache_free(NULL);

    cache = foveate_token_cache_new(1);
    frame.token_count = 2;
    EXPECT(foveate_token_cache_update(cache, &segment, &frame, rows, missing) == FOVEATE_TOO_SMALL);
    foveate_token_cache_free(cache);
    EXPECT(foveate_token_cache_new(0) == NULL && foveate_token_cache_new(FOVEATE_CACHE_ROWS_MAX + 1) == NULL);
}

LAW(each_field_that_contradicts_the_document_is_named) {
    size_t bytes;
    unsigned char *contents = valid_bytes(&bytes);
    struct session *session = new_session();
    for (size_t index = 0; index < sizeof spoilt_fields / sizeof *spoilt_fields; index++) {
        const struct spoilt_field *field = &spoilt_fields[index];
        unsigned char kept[8];
        memcpy(kept, contents + field->offset, sizeof kept);
        memcpy(contents + field->offset, &field->value, field->width);
        int file = memory_file(contents, bytes, bytes, ALL_SEALS);
        EXPECT_RESULT(read_all_of(session, file), field->result);
        if (field->result != FOVEATE_OK) EXPECT_TEXT(foveate_last_error(session->reader)->text, field->said);
        memcpy(contents + field->offset, kept, sizeof kept);
        close(file);
    }
    free(contents);
}

LAW(a_count_of_fixations_out_of_bounds_is_clamped) {
    const uint32_t counts[][2] = {{0, 1}, {1, 1}, {8, 8}, {9, 8}, {200, 8}, {UINT32_MAX, 8}};
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    for (size_t index = 0; index < sizeof counts / sizeof *counts; index++) {
        struct foveate_borrowed borrowed;
        for (uint64_t sequence = 2 * index + 1; sequence <= 2 * index + 2; sequence++) {
            publish(segment, sequence);
            unsigned char *slot = segment->base + FOVEATE_HEADER_BYTES + sequence % segment->slot_count * SLOT_STRIDE;
            ((struct foveate_slot_header *)(void *)slot)->fixation_count = counts[index][0];
            if (sequence % 2 == 1) {
                EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_OK);
                EXPECT(session->frame.head.fixation_count == counts[index][1]);
            }
        }
        EXPECT_RESULT(foveate_borrow_newest(session->reader, &borrowed, 0), FOVEATE_OK);
        EXPECT(borrowed.head.fixation_count == counts[index][1]);
        EXPECT_RESULT(foveate_release(session->reader, &borrowed), FOVEATE_OK);
        EXPECT_RESULT(foveate_read_at(session->reader, 0, &session->frame, 0), FOVEATE_OK);
        EXPECT(1 <= session->frame.head.fixation_count && session->frame.head.fixation_count <= FOVEATE_FOVEAE_MAX);
    }
}

// Draws one token of 2 x 2 texels of 77 over a picture of 4 x 4, and returns how many bytes are not black.
static int drawn_bytes(struct foveate_token token) {
    static struct foveate_segment segment;
    struct foveate_frame frame;
    unsigned char texels[3 * 2 * 2];
    uint8_t blocks[3 * 4 * 4], smooth[3 * 4 * 4];
    int count = 0;
    segment.header.source_width = segment.header.source_height = 4;
    segment.header.patch_side = 2;
    segment.dtype = FOVEATE_DTYPE_U8;
    segment.token_bytes = sizeof texels;
    memset(texels, 77, sizeof texels);
    memset(&frame, 0, sizeof frame);
    frame.tokens = &token;
    frame.token_count = 1;
    frame.pixels = texels;
    foveate_rebuild(&segment, &frame, blocks, smooth);
    for (size_t index = 0; index < sizeof blocks; index++) count += blocks[index] != 0 || smooth[index] != 0;
    return count;
}

LAW(records_beyond_their_limits_draw_nothing) {
    struct foveate_token token, broken[11];
    memset(&token, 0, sizeof token);
    token.sx = token.sy = 1;
    token.size = token.columns = token.rows = 2;
    token.x1 = token.y1 = 2;
    EXPECT(drawn_bytes(token) == 3 * 2 * 2);
    for (size_t index = 0; index < sizeof broken / sizeof *broken; index++) broken[index] = token;
    broken[0].sx = 0;
    broken[1].sx = FOVEATE_STEP_MAX + 1;
    broken[2].sy = UINT16_MAX;
    broken[3].size = 3;
    broken[4].columns = 3;
    broken[5].first_row = UINT16_MAX;
    broken[6].x1 = 5;
    broken[7].y0 = 3;
    broken[8].extra_width = 2;
    broken[9].extra_height = UINT8_MAX;
    // Twice 2048 pixels are too many for texels of a fraction of a pixel in height.
    broken[10].extra_height = 1;
    broken[10].sx = FOVEATE_STEP_MAX;
    EXPECT(drawn_bytes(broken[10]) == 3 * 2 * 2);
    broken[10].extra_width = 1;
    for (size_t index = 0; index < sizeof broken / sizeof *broken; index++) EXPECT(drawn_bytes(broken[index]) == 0);
}

LAW(a_texel_covers_its_share_of_the_token) {
    struct foveate_token token = FOVEATE_ZEROS;
    token.x = -3;
    token.y = 5;
    token.sx = 1;
    token.sy = 2;
    token.size = 4;
    token.extra_width = 3;
    EXPECT(foveate_token_width(&token) == 7 && foveate_token_height(&token) == 8);
    double box[4], expected[4] = {-3 + 7.0 / 4, 9, -3 + 14.0 / 4, 11};
    foveate_texel_box(&token, 1, 2, box);
    for (size_t index = 0; index < 4; index++) EXPECT(box[index] == expected[index]);
    for (int64_t index = -1; index < 5; index++) {
        int64_t column, row;
        foveate_texel_box(&token, index, index, box);
        foveate_texel_at(&token, (box[0] + box[2]) / 2, (box[1] + box[3]) / 2, &column, &row);
        EXPECT(column == index && row == index);
    }
}

// Two tokens side by side over a line of 7 pixels, 3 and 4 pixels wide, of 2 x 2 texels.
LAW(a_real_step_is_drawn_by_the_centres_of_pixels) {
    // Of the first, one texel covers 1 1/2 pixels.
    const uint8_t expected_blocks[7] = {0, 30, 30, 60, 60, 90, 90}, expected_smooth[7] = {0, 13, 35, 53, 68, 85, 92};
    static struct foveate_segment segment;
    struct foveate_frame frame;
    struct foveate_token tokens[2];
    uint8_t texels[2][3][2][2], blocks[7][3], smooth[7][3];
    segment.header.source_width = 7;
    segment.header.source_height = 1;
    segment.header.patch_side = 2;
    segment.dtype = FOVEATE_DTYPE_U8;
    segment.token_bytes = sizeof texels[0];
    memset(&frame, 0, sizeof frame);
    memset(tokens, 0, sizeof tokens);
    memset(texels, 0, sizeof texels);
    for (uint32_t index = 0; index < 2; index++) {
        struct foveate_token *token = &tokens[index];
        token->sx = (uint16_t)(1 + index);
        token->extra_width = (uint8_t)(1 - index);
        token->sy = token->rows = 1;
        token->size = token->columns = 2;
        token->x0 = 3 * index;
        token->x = (int32_t)token->x0;
        token->x1 = 3 + 4 * index;
        token->y1 = 1;
        for (uint32_t column = 0; column < 2; column++) texels[index][0][0][column] = (uint8_t)(60 * index + 30 * column);
    }
    frame.tokens = tokens;
    frame.token_count = 2;
    frame.pixels = texels;
    foveate_rebuild(&segment, &frame, &blocks[0][0], &smooth[0][0]);
    for (size_t x = 0; x < 7; x++) EXPECT(blocks[x][0] == expected_blocks[x] && smooth[x][0] == expected_smooth[x]);
}

LAW(a_plane_that_the_segment_does_not_have_is_not_found) {
    size_t bytes;
    unsigned char *contents = valid_bytes(&bytes);
    contents[offsetof(struct foveate_segment_header, plane_count)] = 1;
    int file = memory_file(contents, bytes, bytes, ALL_SEALS);
    struct session *session = new_session();
    say_segment(session->client, file);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NEW_SEGMENT);
    const struct foveate_segment *said = foveate_current_segment(session->reader);
    EXPECT(foveate_plane_index(said, "pixels") == 0 && foveate_plane_index(said, "relevance") == -1);
    EXPECT_RESULT(foveate_frame_reserve(&session->frame, said), FOVEATE_OK);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_OK);
    EXPECT(session->frame.planes[0] == session->frame.pixels && session->frame.planes[1] == NULL);
    close(file);
    free(contents);
}

LAW(texts_are_utf8_with_an_end) {
    const char *texts[] = {"", "camera", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"};
    // Continuations alone, overlong forms, surrogates, beyond the last code point, and ends inside a character.
    const char *others[] = {"\x80",         "\xC0\xAF",         "\xC1\xBF",         "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
                            "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82",     "\xC3",
                            "\xC3x",        "1234567"};
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index++) {
        EXPECT(foveate__is_text(texts[index], strlen(texts[index]) + 1));
    }
    for (size_t index = 0; index < sizeof others / sizeof *others; index++) {
        EXPECT(!foveate__is_text(others[index], strlen(others[index]) + (index + 1 < sizeof others / sizeof *others)));
    }
}

LAW(memory_that_could_change_its_size_is_refused) {
    size_t bytes;
    unsigned char *contents = valid_bytes(&bytes);
    struct session *session = new_session();
    const unsigned needed[] = {F_SEAL_GROW, F_SEAL_SHRINK, FOVEATE__SEAL_FUTURE_WRITE};
    for (size_t missing = 0; missing < 3; missing++) {
        int file = memory_file(contents, bytes, bytes, ALL_SEALS & ~(needed[missing] | F_SEAL_SEAL));
        EXPECT_RESULT(read_all_of(session, file), FOVEATE_NOT_A_SEGMENT);
        EXPECT_TEXT(foveate_last_error(session->reader)->text, "seals");
        close(file);
    }
    free(contents);
}

LAW(memory_that_is_not_there_is_refused) {
    size_t bytes;
    unsigned char *contents = valid_bytes(&bytes);
    struct session *session = new_session();
    int file = memory_file(contents, FOVEATE_HEADER_BYTES, FOVEATE_HEADER_BYTES, 0);
    EXPECT(ftruncate(file, (off_t)bytes) == 0 && fcntl(file, F_ADD_SEALS, ALL_SEALS) == 0);
    EXPECT_RESULT(read_all_of(session, file), FOVEATE_NOT_A_SEGMENT);
    EXPECT_TEXT(foveate_last_error(session->reader)->text, "reserved");
    close(file);

    file = memory_file(contents, 4088, 4088, ALL_SEALS);
    EXPECT_RESULT(read_all_of(session, file), FOVEATE_NOT_A_SEGMENT);
    EXPECT_TEXT(foveate_last_error(session->reader)->text, "4088 bytes");
    close(file);

    int folder = open("/", O_RDONLY | O_CLOEXEC);
    EXPECT_RESULT(read_all_of(session, folder), FOVEATE_NOT_A_SEGMENT);
    EXPECT_TEXT(foveate_last_error(session->reader)->text, "not shared memory");
    close(folder);
    free(contents);
}

LAW(no_change_of_bytes_hurts_a_reader) {
    size_t bytes;
    unsigned char *contents = valid_bytes(&bytes);
    struct session *session = new_session();
    const uint64_t extremes[] = {0, 1, 2, 3, 63, 64, 4096, UINT32_MAX, 1ull << 32, 1ull << 63, UINT64_MAX - 1, UINT64_MAX};
    const size_t regions[] = {FOVEATE_LIVE_OFFSET, FOVEATE_CAMERA_FRAME_OFFSET, FOVEATE_HEADER_BYTES, bytes - 8};
    int opened = 0;
    for (int round = 0; round < FUZZ_ROUNDS / 10; round++) {
        unsigned char *spoilt = (unsigned char *)malloc(bytes);
        EXPECT(spoilt != NULL);
        memcpy(spoilt, contents, bytes);
        for (uint64_t changes = random_number() % 3 + 1; 0 < changes; changes--) {
            size_t offset = random_number() % regions[random_number() % 4] & ~(size_t)3;
            uint64_t value = random_number() % 2 == 0 ? random_number() : extremes[random_number() % 12];
            memcpy(spoilt + offset, &value, (size_t)1 << random_number() % 4);
        }
        int file = memory_file(spoilt, bytes, bytes, ALL_SEALS);
        opened += read_all_of(session, file) == FOVEATE_OK;
        close(file);
        free(spoilt);
    }
    EXPECT(0 < opened && opened < FUZZ_ROUNDS / 10);
    free(contents);
}

LAW(a_frame_that_claims_too_many_tokens_is_refused) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    struct foveate_slot_header *head =
        (struct foveate_slot_header *)(void *)(segment->base + FOVEATE_HEADER_BYTES + SLOT_STRIDE);
    publish(segment, 1);
    head->token_count = CAPACITY + 1;
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_MALFORMED);
    EXPECT_TEXT(foveate_last_error(session->reader)->text, "token_count is 7");
    head->token_count = 1;
    head->ring_sequence = 5;
    struct foveate_borrowed borrowed;
    EXPECT_RESULT(foveate_borrow_newest(session->reader, &borrowed, 0), FOVEATE_MALFORMED);
    EXPECT_TEXT(foveate_last_error(session->reader)->text, "ring_sequence is 5");
}

LAW(a_writer_that_lies_is_given_up) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    __atomic_store_n(&live_of(segment)->newest, UINT64_MAX, __ATOMIC_RELEASE);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, -1), FOVEATE_OVERTAKEN);
    EXPECT_RESULT(foveate_read_next(session->reader, &session->frame, -1), FOVEATE_OVERTAKEN);
    EXPECT_RESULT(foveate_read_at(session->reader, 5, &session->frame, -1), FOVEATE_OVERTAKEN);
    struct foveate_borrowed borrowed;
    EXPECT_RESULT(foveate_borrow_newest(session->reader, &borrowed, -1), FOVEATE_OVERTAKEN);
    // A better one is welcome.
    struct written_segment *next = new_segment(4);
    say_segment(session->client, next->file);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, -1), FOVEATE_NEW_SEGMENT);
}

LAW(messages_that_make_no_sense_are_errors_and_no_end) {
    struct written_segment *segment = new_segment(4);
    struct session *session = session_with(segment);
    char *long_message = (char *)malloc(FOVEATE__INBOX_BYTES + 1);
    EXPECT(long_message != NULL);
    memset(long_message, '{', FOVEATE__INBOX_BYTES + 1);
    const char *senseless[] = {"nonsense", "{}", "{\"event\"", "[]", "{\"event\":\"segment\"}", "{\"ok\"}", "\"ok\":true"};
    for (size_t index = 0; index < sizeof senseless / sizeof *senseless; index++) {
        say(session->client, senseless[index]);
        EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NOT_UNDERSTOOD);
    }
    say_bytes(session->client, long_message, FOVEATE__INBOX_BYTES + 1);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NOT_UNDERSTOOD);
    // An event of a later version.
    say(session->client, "{\"event\":\"moved\",\"to\":[1,2]}");
    publish(segment, 1);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_OK);
    free(long_message);
}

// ---------------------------------------------------------------------------------------------------------------------
// The scanner.

static struct foveate__span span_of(const char *text) {
    struct foveate__span span = {text, text + strlen(text)};
    return span;
}

LAW(only_members_of_the_object_itself_are_found) {
    struct foveate__span value;
    const char *text = " { \"a\" : {\"b\":[1,{\"c\":\"}\\\"\"}]} , \"\\\"b\":2, \"bc\":3, \"b\": \"x\" ,\"d\":true}";
    EXPECT(foveate__find(span_of(text), "b", &value) && foveate__is(value, "\"x\""));
    EXPECT(foveate__find(span_of(text), "d", &value) && foveate__is(value, "true"));
    EXPECT(!foveate__find(span_of(text), "c", &value));
    EXPECT(foveate__find(span_of(text), "a", &value) && foveate__find(value, "b", &value));
    EXPECT(!foveate__find(span_of("[{\"b\":1}]"), "b", &value));
    EXPECT(!foveate__is(span_of("truely"), "true") && !foveate__is(span_of("tru"), "true"));
}

LAW(elements_of_an_array_are_found) {
    struct foveate__span value;
    const char *text = " [ [1,{\"a\":[2]}] , \"],\", 3 ]";
    EXPECT(foveate__element(span_of(text), 2, &value) && foveate__is(value, "3"));
    EXPECT(foveate__element(span_of(text), 1, &value) && foveate__is(value, "\"],\""));
    EXPECT(foveate__element(span_of(text), 0, &value) && foveate__element(value, 0, &value) && foveate__is(value, "1"));
    EXPECT(!foveate__element(span_of(text), 3, &value) && !foveate__element(span_of(" [ ]"), 0, &value));
    EXPECT(!foveate__element(span_of("{\"a\":1}"), 0, &value) && !foveate__element(span_of("["), 0, &value));
}

static void expect_string(const char *json, const char *expected) {
    char text[16];
    EXPECT(foveate__string(span_of(json), text, sizeof text));
    EXPECT(strcmp(text, expected) == 0);
}

LAW(strings_are_unescaped_and_cut_to_fit) {
    expect_string("\"\"", "");
    expect_string("\"a\\n\\t\\\"\\\\\\/\"", "a\n\t\"\\/");
    expect_string("\"\\u0041\\u00e9\\u20AC\"", "A\xC3\xA9\xE2\x82\xAC");
    expect_string("\"\\u00g1\"", "u00g1");
    expect_string("\"\\ud83d\\ude00\"", "??");
    expect_string("\"0123456789abcdefgh\"", "0123456789abcde");
    expect_string("\"0123456789abcd\\u00e9\"", "0123456789abcd");
    char text[16];
    EXPECT(!foveate__string(span_of("12"), text, sizeof text) && text[0] == '\0');
    EXPECT(!foveate__string(span_of("\"open"), text, sizeof text) && text[0] == '\0');
}

LAW(numbers_are_read_whatever_the_locale) {
    EXPECT(foveate__number(span_of("586.6875")) == 586.6875);
    EXPECT(foveate__number(span_of("-0.0625")) == -0.0625);
    EXPECT(foveate__number(span_of("1e3")) == 1000.0);
    EXPECT(foveate__number(span_of("25E-1")) == 2.5);
    EXPECT(foveate__number(span_of("1.5e+12")) == 1.5e12);
    EXPECT(foveate__number(span_of("16384")) == 16384.0);
    EXPECT(foveate__number(span_of("null")) == 0.0);
    EXPECT(foveate__count(span_of("18446744073709551615")) == UINT64_MAX);
    // Some locales write a decimal comma.
    struct foveate__request request;
    request.length = 0;
    foveate__append_digits(&request, "-1,5e-09");
    EXPECT(strcmp(request.text, "-1.5e-09") == 0);
}

// Looks for everything in `bytes`, which lie in memory of exactly their size, so that a sanitizer sees a step beyond.
static void scan(const char *bytes, size_t count) {
    char *exact = (char *)malloc(count == 0 ? 1 : count);
    EXPECT(exact != NULL);
    memcpy(exact, bytes, count);
    struct foveate__span message = {exact, exact + count}, value;
    struct foveate_error error;
    struct foveate_looking looking;
    char text[8];
    foveate__answer_result(message, &error);
    foveate__read_looking(message, &looking);
    if (foveate__find(message, "reason", &value)) foveate__string(value, text, sizeof text);
    foveate__string(message, text, sizeof text);
    foveate__number(message);
    free(exact);
}

LAW(no_message_leads_out_of_its_bounds) {
    const char *valid =
        "{\"ok\":false,\"reason\":\"h\\u00e9ld\",\"error\":\"a\\\"b\",\"points\":[[-1.5e3,2]],\"fixations\":[{\"id\":1,\"x\":[[]]}]}";
    const char *alphabet = "{}[]\",:\\ue0123456789-+.tf n";
    size_t valid_bytes_count = strlen(valid);
    for (int round = 0; round < FUZZ_ROUNDS; round++) {
        char bytes[256];
        size_t count = random_number() % sizeof bytes;
        bool is_spoilt = round % 2 == 0;
        if (is_spoilt) count = random_number() % (valid_bytes_count + 1);
        for (size_t index = 0; index < count; index++) {
            uint64_t number = random_number();
            bytes[index] = number % 3 == 0 ? (char)(number >> 8) : alphabet[(number >> 8) % strlen(alphabet)];
            if (is_spoilt && (number >> 16) % 16 != 0) bytes[index] = valid[index];
        }
        scan(bytes, count);
    }
    for (size_t count = 0; count <= valid_bytes_count; count++) scan(valid, count);
}

// ---------------------------------------------------------------------------------------------------------------------
// The program.

// Descriptors that the process has open.
static int descriptor_count(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    EXPECT(folder != NULL);
    while (readdir(folder) != NULL) count++;
    closedir(folder);
    return count;
}

// Segments that the process has mapped.
static int mapping_count(void) {
    int count = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    EXPECT(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) count += strstr(line, "memfd:" MEMORY_NAME) != NULL;
    fclose(maps);
    return count;
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/foveate-laws-XXXXXX";
    alarm(HANG_SECONDS);
    EXPECT(mkdtemp(folder) != NULL);
    listen_at(folder);
    int descriptors_before = descriptor_count();
    for (size_t index = 0; index < law_count; index++) {
        if (1 < argc && strcmp(argv[1], laws[index].name) != 0) continue;
        laws[index].holds();
        clean_up();
        // The law of all laws: nothing is left open, and nothing mapped.
        EXPECT(descriptor_count() == descriptors_before);
        EXPECT(mapping_count() == 0);
        printf("ok %s\n", laws[index].name);
        fflush(stdout);
    }
    unlink(socket_path);
    rmdir(folder);
    return 0;
}
