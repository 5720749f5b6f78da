// What the laws need of a daemon, without one: segments made by hand, a writer as docs/reference/abi.md describes it, and a socket that
// answers as the test says. Included by laws.c alone, behind the implementation.

#ifndef STAND_IN_H
#define STAND_IN_H

#include <pthread.h>

// Ends the program with a reason where a law does not hold.
#define EXPECT(condition) expect((condition), #condition, __FILE__, __LINE__)
#define EXPECT_RESULT(call, expected) expect_result((call), (expected), #call, __FILE__, __LINE__)
#define EXPECT_TEXT(text, part) expect_text((text), (part), __FILE__, __LINE__)

static inline void expect(bool holds, const char *condition, const char *file, int line) {
    if (holds) return;
    fprintf(stderr, "%s:%d: %s does not hold (errno %d)\n", file, line, condition, errno);
    exit(1);
}

static inline void expect_result(int result, int expected, const char *call, const char *file, int line) {
    if (result == expected) return;
    fprintf(stderr, "%s:%d: %s gave %d (%s), not %d\n", file, line, call, result, foveate_strerror((enum foveate_result)result),
            expected);
    exit(1);
}

static inline void expect_text(const char *text, const char *part, const char *file, int line) {
    if (strstr(text, part) != NULL) return;
    fprintf(stderr, "%s:%d: \"%s\" is not in \"%s\"\n", file, line, part, text);
    exit(1);
}

struct law {
    const char *name;
    void (*holds)(void);
};

#define LAWS_MAX 100
static struct law laws[LAWS_MAX];
static size_t law_count;

static inline void add_law(const char *name, void (*holds)(void)) {
    EXPECT(law_count < LAWS_MAX);
    laws[law_count].name = name;
    laws[law_count++].holds = holds;
}

// Defines a law that the program finds without a list. What the law makes with the functions of this file is removed after it.
#define LAW(law) \
    static void law(void); \
    __attribute__((constructor)) static void add_##law(void) { add_law(#law, law); } \
    static void law(void)

// A sequence of numbers that looks random and is the same every time.
static uint64_t random_state = 1;

static inline uint64_t random_number(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

// ---------------------------------------------------------------------------------------------------------------------
// Segments.

#define CAPACITY 6u
#define PATCH_SIDE 14u
// 588 bytes: not a whole number of words, so that the last one is shared by two tokens.
#define TOKEN_BYTES (3u * PATCH_SIDE * PATCH_SIDE)
#define RECORDS_OFFSET 512u
#define PIXELS_OFFSET 896u
#define RELEVANCE_OFFSET 4480u
#define SLOT_STRIDE 4544u
#define MEMORY_NAME "foveate-laws"
#define ALL_SEALS (F_SEAL_GROW | F_SEAL_SHRINK | FOVEATE__SEAL_FUTURE_WRITE | F_SEAL_SEAL)

struct written_segment {
    int file;
    unsigned char *base;
    size_t bytes;
    uint32_t slot_count;
    uint64_t epoch;
};

static inline struct foveate_segment_header valid_header(uint32_t slot_count) {
    struct foveate_segment_header header;
    memset(&header, 0, sizeof header);
    memcpy(header.magic, "FOVEATE", 8);
    header.abi_major = FOVEATE_ABI_MAJOR;
    header.abi_minor = FOVEATE_ABI_MINOR;
    header.total_bytes = FOVEATE_HEADER_BYTES + (uint64_t)slot_count * SLOT_STRIDE;
    header.header_bytes = FOVEATE_HEADER_BYTES;
    header.slot_count = slot_count;
    header.slot_stride = SLOT_STRIDE;
    header.slot_header_bytes = sizeof(struct foveate_slot_header);
    header.record_bytes = sizeof(struct foveate_token);
    header.records_offset = RECORDS_OFFSET;
    header.token_capacity = CAPACITY;
    header.patch_side = PATCH_SIDE;
    header.plane_count = 2;
    header.epoch = 0x00C0FFEE;
    header.source_width = 640;
    header.source_height = 480;
    header.backend_kind = 1;
    header.fovea_capacity = FOVEATE_FOVEAE_MAX;
    header.pixel_aspect_width = header.pixel_aspect_height = 1;
    strcpy(header.stream_name, "camera");
    strcpy(header.view_name, "main");
    strcpy(header.layout_name, "foveal");
    strcpy(header.pixel_format, "NV12");
    strcpy(header.backend_device, "a processor");
    struct foveate_plane *pixels = &header.planes[0];
    strcpy(pixels->name, "pixels");
    strcpy(pixels->order, "NCHW");
    pixels->dtype = FOVEATE_DTYPE_U8;
    pixels->ndim = 4;
    pixels->shape[0] = CAPACITY;
    pixels->shape[1] = 3;
    pixels->shape[2] = pixels->shape[3] = PATCH_SIDE;
    pixels->offset = PIXELS_OFFSET;
    pixels->token_stride = TOKEN_BYTES;
    pixels->bytes = CAPACITY * TOKEN_BYTES;
    struct foveate_plane *relevance = &header.planes[1];
    strcpy(relevance->name, "relevance");
    strcpy(relevance->order, "N");
    relevance->dtype = FOVEATE_DTYPE_F32;
    relevance->ndim = 1;
    relevance->shape[0] = CAPACITY;
    relevance->offset = RELEVANCE_OFFSET;
    relevance->token_stride = sizeof(float);
    relevance->bytes = CAPACITY * sizeof(float);
    return header;
}

// A memfd of `bytes` bytes, all of them there, that begins with `contents`, sealed with `seals`.
static inline int memory_file(const void *contents, size_t content_bytes, size_t bytes, unsigned seals) {
    int file = memfd_create(MEMORY_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT(0 <= file);
    EXPECT(bytes == 0 || posix_fallocate(file, 0, (off_t)bytes) == 0);
    EXPECT(pwrite(file, contents, content_bytes, 0) == (ssize_t)content_bytes);
    EXPECT(fcntl(file, F_ADD_SEALS, seals) == 0);
    return file;
}

#define SEGMENTS_MAX 8
static struct written_segment segments_made[SEGMENTS_MAX];
static size_t segment_count;

// A segment that nobody has written to yet, live.
static inline struct written_segment *new_segment(uint32_t slot_count) {
    static uint64_t epochs_used;
    EXPECT(segment_count < SEGMENTS_MAX);
    struct written_segment *segment = &segments_made[segment_count++];
    struct foveate_segment_header header = valid_header(slot_count);
    header.epoch += epochs_used++;
    segment->epoch = header.epoch;
    segment->bytes = (size_t)header.total_bytes;
    segment->slot_count = slot_count;
    segment->file = memory_file(&header, sizeof header, segment->bytes, 0);
    void *base = mmap(NULL, segment->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment->file, 0);
    EXPECT(base != MAP_FAILED);
    EXPECT(fcntl(segment->file, F_ADD_SEALS, ALL_SEALS) == 0);
    segment->base = (unsigned char *)base;
    struct foveate_live *live = (struct foveate_live *)(void *)(segment->base + FOVEATE_LIVE_OFFSET);
    live->states[0].code = FOVEATE_STATE_LIVE;
    return segment;
}

static inline struct foveate_live *live_of(const struct written_segment *segment) {
    return (struct foveate_live *)(void *)(segment->base + FOVEATE_LIVE_OFFSET);
}

// ---------------------------------------------------------------------------------------------------------------------
// The writer: every word of a frame says which frame it belongs to.

static inline uint32_t tokens_of(uint64_t sequence) {
    return (uint32_t)(sequence % CAPACITY) + 1;
}

static inline uint64_t word_of(uint64_t sequence, size_t index) {
    return sequence * 0x9E3779B97F4A7C15u + index;
}

static inline void store_words(unsigned char *target, uint64_t sequence, size_t bytes) {
    uint64_t *words = (uint64_t *)(void *)target;
    for (size_t index = 0; index < (bytes + 7) / 8; index++) {
        __atomic_store_n(&words[index], word_of(sequence, index), __ATOMIC_RELAXED);
    }
}

static inline bool are_words(const void *bytes, uint64_t sequence, size_t count) {
    for (size_t offset = 0; offset < count; offset += 8) {
        uint64_t word = word_of(sequence, offset / 8);
        size_t rest = count - offset < 8 ? count - offset : 8;
        if (memcmp((const unsigned char *)bytes + offset, &word, rest) != 0) return false;
    }
    return true;
}

static inline struct foveate_slot_header head_of(uint64_t sequence) {
    struct foveate_slot_header head;
    memset(&head, 0, sizeof head);
    head.lock = 2 * sequence - 1;
    head.ring_sequence = sequence;
    head.frame_seq = 3 * sequence;
    head.capture_ns = 5 * sequence;
    head.fixation_count = (uint32_t)(sequence % FOVEATE_FOVEAE_MAX) + 1;
    for (uint32_t index = 0; index < head.fixation_count; index++) {
        head.fixations[index].id = sequence - index;
        head.fixations[index].x = 0.5 * (double)sequence;
        head.fixations[index].weight = 1.0f / (float)(index + 1);
    }
    head.token_count = tokens_of(sequence);
    head.asked_ns = 7 * sequence;
    return head;
}

static inline bool is_head_of(const struct foveate_slot_header *head, uint64_t sequence) {
    struct foveate_slot_header expected = head_of(sequence);
    expected.publish_ns = head->publish_ns;
    return memcmp(&head->ring_sequence, &expected.ring_sequence, sizeof expected - sizeof expected.lock) == 0;
}

// The writer's half of docs/reference/abi.md, but for the waking. The frame is like any other but for its capture time.
static inline void publish_taken_at(const struct written_segment *segment, uint64_t sequence, uint64_t capture_ns) {
    unsigned char *slot = segment->base + FOVEATE_HEADER_BYTES + sequence % segment->slot_count * SLOT_STRIDE;
    struct foveate_slot_header head = head_of(sequence);
    head.capture_ns = capture_ns;
    head.publish_ns = (uint64_t)foveate__now_ns();
    uint64_t words[sizeof head / 8];
    memcpy(words, &head, sizeof head);
    __atomic_store_n((uint64_t *)(void *)slot, 2 * sequence - 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (size_t index = 1; index < sizeof words / 8; index++) {
        __atomic_store_n((uint64_t *)(void *)slot + index, words[index], __ATOMIC_RELAXED);
    }
    store_words(slot + RECORDS_OFFSET, sequence, head.token_count * sizeof(struct foveate_token));
    store_words(slot + PIXELS_OFFSET, sequence, head.token_count * TOKEN_BYTES);
    store_words(slot + RELEVANCE_OFFSET, sequence, head.token_count * sizeof(float));
    __atomic_store_n((uint64_t *)(void *)slot, 2 * sequence, __ATOMIC_RELEASE);
    __atomic_store_n(&live_of(segment)->newest, sequence, __ATOMIC_RELEASE);
    __atomic_fetch_add(&live_of(segment)->futex, 1, __ATOMIC_RELEASE);
}

static inline void publish(const struct written_segment *segment, uint64_t sequence) {
    publish_taken_at(segment, sequence, head_of(sequence).capture_ns);
}

static inline void publish_up_to(const struct written_segment *segment, uint64_t first, uint64_t last) {
    for (uint64_t sequence = first; sequence <= last; sequence++) publish(segment, sequence);
}

static inline void wake(const struct written_segment *segment) {
    syscall(SYS_futex, &live_of(segment)->futex, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static inline void set_state(const struct written_segment *segment, uint32_t code, const char *reason) {
    struct foveate_live *live = live_of(segment);
    uint32_t sequence = __atomic_load_n(&live->state_sequence, __ATOMIC_RELAXED);
    struct foveate_state_block block;
    memset(&block, 0, sizeof block);
    block.code = code;
    strncpy(block.reason, reason, sizeof block.reason - 1);
    uint64_t words[sizeof block / 8];
    memcpy(words, &block, sizeof block);
    uint64_t *target = (uint64_t *)(void *)&live->states[(sequence + 1) % 2];
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (size_t index = 0; index < sizeof words / 8; index++) __atomic_store_n(&target[index], words[index], __ATOMIC_RELAXED);
    __atomic_store_n(&live->state_sequence, sequence + 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&live->futex, 1, __ATOMIC_RELEASE);
}

// ---------------------------------------------------------------------------------------------------------------------
// The socket.

static char socket_path[108];
static int listener = -1;

static inline void listen_at(const char *folder) {
    struct sockaddr_un address;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    EXPECT(snprintf(socket_path, sizeof socket_path, "%s/foveate.sock", folder) < (int)sizeof socket_path);
    strcpy(address.sun_path, socket_path);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    EXPECT(bind(listener, (const struct sockaddr *)&address, sizeof address) == 0);
    EXPECT(listen(listener, 8) == 0);
}

// Renames the socket, so that nobody finds it.
static inline void take_socket_away(void) {
    char away[sizeof socket_path + 5];
    snprintf(away, sizeof away, "%s.away", socket_path);
    EXPECT(rename(socket_path, away) == 0);
}

static inline void put_socket_back(void) {
    char away[sizeof socket_path + 5];
    snprintf(away, sizeof away, "%s.away", socket_path);
    EXPECT(rename(away, socket_path) == 0);
}

// What a client said last.
static char heard[1 << 17];
static size_t heard_bytes;

static inline void hear(int client) {
    ssize_t bytes = recv(client, heard, sizeof heard - 1, 0);
    EXPECT(0 < bytes);
    heard_bytes = (size_t)bytes;
    heard[heard_bytes] = '\0';
}

static inline void say_bytes(int client, const void *bytes, size_t count) {
    EXPECT(send(client, bytes, count, MSG_NOSIGNAL) == (ssize_t)count);
}

static inline void say(int client, const char *message) {
    say_bytes(client, message, strlen(message));
}

static inline void say_segment(int client, int file) {
    const char *text = "{\"event\":\"segment\",\"view\":\"camera/main\",\"epoch\":\"00c0ffee00c0ffee\"}";
    union {
        struct cmsghdr aligned;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {(void *)(uintptr_t)text, strlen(text)};
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(rights), &file, sizeof file);
    EXPECT(sendmsg(client, &message, MSG_NOSIGNAL) == (ssize_t)part.iov_len);
}

#define CLIENTS_MAX 100
static int clients[CLIENTS_MAX];
static size_t client_count;

static inline int accept_client(void) {
    int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    EXPECT(0 <= client && client_count < CLIENTS_MAX);
    clients[client_count++] = client;
    return client;
}

static inline void hang_up(int client) {
    for (size_t index = 0; index < client_count; index++) {
        if (clients[index] == client) clients[index] = -1;
    }
    EXPECT(close(client) == 0);
}

// Whether somebody has connected who was not accepted yet.
static inline bool is_called(void) {
    return foveate__poll(listener, POLLIN, 0) == 1;
}

// The next clients, in the order in which they connect: what each gets for an answer, and what it said.
struct call {
    const char *answer; // NULL: the last one was before
    int client;
    char said[8192];
};

static inline void *answer_calls(void *of) {
    for (struct call *call = (struct call *)of; call->answer != NULL; call++) {
        call->client = accept_client();
        hear(call->client);
        EXPECT(heard_bytes < sizeof call->said);
        memcpy(call->said, heard, heard_bytes + 1);
        say(call->client, call->answer);
    }
    return NULL;
}

#define GRANTED "{\"ok\":true,\"view\":\"camera/main\"}"

// Opens camera/main; the stand-in gives `answer`. `client` becomes the stand-in's end of the connection.
static inline struct foveate_reader *open_with(const char *answer, unsigned flags, int *client, struct foveate_error *error) {
    struct call calls[2] = {{answer, -1, ""}, {NULL, -1, ""}};
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, answer_calls, calls) == 0);
    struct foveate_reader *reader = foveate_open("camera/main", socket_path, flags, 60000, error);
    EXPECT(pthread_join(thread, NULL) == 0);
    *client = calls[0].client;
    return reader;
}

// Opens a view of one's own on camera; the stand-in answers `calls`.
static inline struct foveate_reader *open_view_with(const char *keys, struct call *calls, unsigned flags,
                                                    struct foveate_error *error) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, answer_calls, calls) == 0);
    struct foveate_reader *reader = foveate_open_view("camera", keys, socket_path, flags, 60000, error);
    EXPECT(pthread_join(thread, NULL) == 0);
    return reader;
}

// A reader, the daemon's end of its connection, and a buffer.
struct session {
    struct foveate_reader *reader;
    int client;
    struct foveate_frame frame;
};

#define SESSIONS_MAX 2
static struct session sessions[SESSIONS_MAX];
static size_t session_count;

static inline struct session *add_session(void) {
    EXPECT(session_count < SESSIONS_MAX);
    struct session *session = &sessions[session_count++];
    memset(session, 0, sizeof *session);
    return session;
}

static inline struct session *new_session_with(unsigned flags) {
    struct session *session = add_session();
    struct foveate_error error;
    session->reader = open_with(GRANTED, flags, &session->client, &error);
    EXPECT(session->reader != NULL);
    return session;
}

static inline struct session *new_session(void) {
    return new_session_with(FOVEATE_NOTIFY);
}

// Moves a session to `segment`.
static inline void enter(struct session *session, const struct written_segment *segment) {
    say_segment(session->client, segment->file);
    EXPECT_RESULT(foveate_read_newest(session->reader, &session->frame, 0), FOVEATE_NEW_SEGMENT);
    EXPECT_RESULT(foveate_frame_reserve(&session->frame, foveate_current_segment(session->reader)), FOVEATE_OK);
}

// A session that reads `segment`.
static inline struct session *session_with(const struct written_segment *segment) {
    struct session *session = new_session();
    enter(session, segment);
    return session;
}

// The same, and it looks for the daemon when that is gone.
static inline struct session *patient_session_with(const struct written_segment *segment) {
    struct session *session = new_session_with(FOVEATE_NOTIFY | FOVEATE_RECONNECT);
    enter(session, segment);
    return session;
}

// Takes down what a law has made.
static inline void clean_up(void) {
    for (; 0 < session_count; session_count--) {
        foveate_frame_free(&sessions[session_count - 1].frame);
        foveate_close(sessions[session_count - 1].reader);
    }
    for (; 0 < client_count; client_count--) {
        if (0 <= clients[client_count - 1]) close(clients[client_count - 1]);
    }
    for (; 0 < segment_count; segment_count--) {
        munmap(segments_made[segment_count - 1].base, segments_made[segment_count - 1].bytes);
        close(segments_made[segment_count - 1].file);
    }
}

// That a frame is `sequence`, in every byte.
static inline void expect_frame(const struct foveate_frame *frame, uint64_t sequence) {
    EXPECT(is_head_of(&frame->head, sequence));
    EXPECT(frame->token_count == tokens_of(sequence));
    EXPECT(frame->pixel_bytes == frame->token_count * TOKEN_BYTES);
    EXPECT(are_words(frame->tokens, sequence, frame->token_count * sizeof(struct foveate_token)));
    EXPECT(are_words(frame->pixels, sequence, frame->pixel_bytes));
    EXPECT(frame->planes[0] == frame->pixels);
    EXPECT(are_words(frame->planes[1], sequence, frame->token_count * sizeof(float)));
}

// That a read without waiting gives frame `sequence`, after `missed` others that it passed over.
#define EXPECT_NEXT(session, sequence, missed) \
    expect_read(foveate_read_next((session)->reader, &(session)->frame, 0), session, sequence, missed, __FILE__, __LINE__)
#define EXPECT_NEWEST(session, sequence, missed) \
    expect_read(foveate_read_newest((session)->reader, &(session)->frame, 0), session, sequence, missed, __FILE__, __LINE__)

static inline void expect_read(enum foveate_result result, const struct session *session, uint64_t sequence, uint64_t missed,
                               const char *file, int line) {
    expect_result(result, FOVEATE_OK, "reading", file, line);
    expect_frame(&session->frame, sequence);
    expect(session->frame.missed == missed, "the number of missed frames", file, line);
}

#endif // STAND_IN_H
