// A control loop of 100 Hz that never waits for vision: each cycle takes the newest frame if there is one, knows how old what it
// has is, and goes on without where that is too old or the daemon is gone.
//
//     cc -std=c11 -O2 -I include tests/c/control_loop.c -o control_loop && ./control_loop front/robot 500
//
// With 0 cycles it runs until SIGTERM or SIGINT. It prints when it begins and ceases to see, and at the end what it saw. A real
// loop steers something where this one sums up its commands.

#define FOVEATE_IMPLEMENTATION
#include <foveate.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CYCLE_NS 10000000
// Older frames are not acted upon.
#define MAX_AGE_NS 150000000
// Intervals of reconnecting, and of sending where to look.
#define CYCLES_BETWEEN_REOPENING 20
#define CYCLES_BETWEEN_LOOKS 50

// What the loop knows of the world.
struct vision {
    struct foveate_reader *reader;
    struct foveate_frame frame; // the newest that came
    bool has_frame;
    bool is_seeing; // has a frame that is young enough
    long cycle;
    long frame_count;
    long blind_cycle_count; // without a frame that is young enough
    long reopen_count;
    long obeyed_count; // looks that the daemon granted
};

static volatile sig_atomic_t is_stopped;

static void stop(int signal_number) {
    (void)signal_number;
    is_stopped = 1;
}

static void say(const char *what) {
    printf("%s\n", what);
    fflush(stdout);
}

// Connects again. Never waits: the loop runs on without a daemon.
static void reopen(struct vision *vision) {
    if (foveate_reopen(vision->reader) != FOVEATE_OK) return;
    vision->reopen_count++;
    say("reopened");
}

// Takes the newest frame if there is one. Never waits.
static void take_newest(struct vision *vision) {
    enum foveate_result result = foveate_read_newest(vision->reader, &vision->frame, 0);
    // What came before is gone after a read that failed, and after a segment of another shape.
    if (result != FOVEATE_NOTHING) vision->has_frame = result == FOVEATE_OK;
    if (result == FOVEATE_OK) {
        vision->frame_count++;
    } else if (result == FOVEATE_NEW_SEGMENT) {
        // The only allocation; FOVEATE_TOO_SMALL follows where it fails.
        foveate_frame_reserve(&vision->frame, foveate_current_segment(vision->reader));
    } else if (result != FOVEATE_NOTHING && vision->cycle % CYCLES_BETWEEN_REOPENING == 0) {
        // An end, a hang-up, anything else: the daemon may come back.
        reopen(vision);
    }
    bool is_seeing = vision->has_frame && foveate_age_ns(&vision->frame.head) <= MAX_AGE_NS;
    if (is_seeing != vision->is_seeing) say(is_seeing ? "sees" : "blind");
    vision->is_seeing = is_seeing;
    vision->blind_cycle_count += !is_seeing;
}

// Asks for the middle of the image now and then, and hears about it in a later cycle. Never waits.
static void steer_gaze(struct vision *vision) {
    if (foveate_answer(vision->reader, 0, NULL) == FOVEATE_OK) vision->obeyed_count++;
    if (vision->cycle % CYCLES_BETWEEN_LOOKS != 0) return;
    struct foveate_point point = FOVEATE_ZEROS;
    point.x = point.y = 0.5;
    point.normalised = true;
    // The loop runs on after a refusal, too.
    if (foveate_look(vision->reader, &point, 0, NULL) == FOVEATE_OK) vision->obeyed_count++;
}

// How far right of the image's middle the view looks, in shares of its width; 0 where nothing young enough is known.
static double command(const struct vision *vision) {
    if (!vision->is_seeing) return 0.0;
    return vision->frame.head.fixations[0].x / foveate_current_segment(vision->reader)->header.source_width - 0.5;
}

static void add_cycle(struct timespec *time) {
    time->tv_nsec += CYCLE_NS;
    if (1000000000 <= time->tv_nsec) {
        time->tv_nsec -= 1000000000;
        time->tv_sec++;
    }
}

static void run(struct vision *vision, long cycle_count) {
    struct timespec next;
    double commands = 0.0;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (; !is_stopped && (cycle_count == 0 || vision->cycle < cycle_count); vision->cycle++) {
        take_newest(vision);
        steer_gaze(vision);
        commands += command(vision);
        add_cycle(&next);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    printf("cycles %ld, frames %ld, blind %ld, reopened %ld, obeyed %ld, commands %.3f\n", vision->cycle, vision->frame_count,
           vision->blind_cycle_count, vision->reopen_count, vision->obeyed_count, commands);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s VIEW CYCLES (0: until SIGTERM)\n", argv[0]);
        return 2;
    }
    char *end;
    long cycle_count = strtol(argv[2], &end, 10);
    if (end == argv[2] || *end != '\0' || cycle_count < 0) {
        fprintf(stderr, "invalid CYCLES: %s (expected a whole number, 0 for no limit)\n", argv[2]);
        return 2;
    }
    struct foveate_error error;
    struct vision vision = FOVEATE_ZEROS;
    vision.reader = foveate_open(argv[1], NULL, 0, 2000, &error);
    if (vision.reader == NULL) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    run(&vision, cycle_count);
    foveate_frame_free(&vision.frame);
    foveate_close(vision.reader);
    return 0;
}
