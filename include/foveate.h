// foveate.h: reads the token frames of a Foveate view from shared memory, and steers the view.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
//
// C11 and C++17, Linux on 64-bit little-endian machines, nothing to link: copy this header and foveate/abi.h, which has the
// structs of the memory. The header has declarations; in exactly one source file of a program, before any other header,
// write
//
//     #define FOVEATE_IMPLEMENTATION
//     #include <foveate.h>
//
// and only include it elsewhere. A program of one file:
//
//     cc -std=c11 -O2 -I include tests/c/print.c -o print && ./print camera/main
//
// Names that begin with `foveate__` are the header's own. `docs/guide/c.md` is the guide, `docs/reference/abi.md` specifies the memory,
// byte by byte, and `docs/reference/control.md` the messages on the socket.
//
// General rules:
//
// - No call waits longer than its `timeout_ms`: 0 never waits, a negative one waits without limit, as in poll(2).
// - Only foveate_open, foveate_open_view, foveate_frame_reserve and foveate_token_cache_new allocate memory; a new segment
//   is one more mapping.
// - One thread at a time may use a reader. Readers share nothing, and there is no global state.
// - Nothing aborts, nothing is printed. A failed call returns a negative foveate_result, and foveate_last_error() gives
//   the cause and the remedy.
// - Shared memory is checked before it is trusted: a broken daemon leads to an error, not to a crash.
// - Times are in nanoseconds on CLOCK_MONOTONIC unless stated. Positions are in source pixels: the origin is the top left
//   corner, x goes right, y down, boxes are half-open, and the centre of pixel (x, y) lies at (x + 0.5, y + 0.5).

#ifndef FOVEATE_H
#define FOVEATE_H

// Linux declarations that the implementation needs and -std=c11 hides.
#if defined(FOVEATE_IMPLEMENTATION) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "foveate/abi.h"

// The version of this header, for package managers and CMake. The ABI has a version of its own, in foveate/abi.h.
#define FOVEATE_HEADER_VERSION "0.1.0"

// Prefix of each declaration, such as `static` or a visibility attribute.
#ifndef FOVEATE_API
#define FOVEATE_API extern
#endif

// All zeros, in C and C++ without a warning: struct foveate_frame frame = FOVEATE_ZEROS;
// clang-format off
#ifdef __cplusplus
#define FOVEATE_ZEROS {}
#else
#define FOVEATE_ZEROS {0}
#endif
// clang-format on

#ifdef __cplusplus
extern "C" {
#endif

FOVEATE__ASSERT(sizeof(void *) == 8, "segments are mapped whole: Foveate needs a 64-bit machine");
FOVEATE__ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "segments are little-endian");

// ---------------------------------------------------------------------------------------------------------------------
// The numbers in the structs of foveate/abi.h.

// Number formats of a plane: foveate_plane.dtype.
enum foveate_dtype {
    FOVEATE_DTYPE_U8 = 1,
    FOVEATE_DTYPE_F16 = 2,  // IEEE 754 binary16
    FOVEATE_DTYPE_BF16 = 3, // the upper half of a binary32
    FOVEATE_DTYPE_F32 = 4,  // IEEE 754 binary32
};

// The source of a frame's capture time: foveate_slot_header.capture_clock. Others count as unknown.
enum foveate_capture_clock {
    FOVEATE_CLOCK_UNKNOWN = 0,   // the arrival is used
    FOVEATE_CLOCK_PIPELINE = 1,  // base time + running time
    FOVEATE_CLOCK_REFERENCE = 2, // a reference timestamp of the camera
};

// The reason for a fixation: foveate_fixation.reason. Others count as the policy.
enum foveate_fixation_reason {
    FOVEATE_FIXATION_POLICY = 0,    // fixed by the view's policy
    FOVEATE_FIXATION_LOOK = 1,      // a client's `look`
    FOVEATE_FIXATION_ATTENTION = 2, // a client's attention
    FOVEATE_FIXATION_SALIENCY = 3,
    FOVEATE_FIXATION_RELEVANCE = 4, // what a scorer makes of the channels
    FOVEATE_FIXATION_CHANGED = 5,   // what the view needs, which has just changed
    FOVEATE_FIXATION_UNSEEN = 6,    // what the view needs, which it has not seen yet, or not for a while
};

// What a texel without a real pixel is: foveate_segment_header.outside.
enum foveate_outside {
    FOVEATE_OUTSIDE_EDGE = 0, // the nearest texel of the token's grid that has one
    FOVEATE_OUTSIDE_MEAN = 1, // the number 0: `mean` in a normalised view
};

// How the mean of a texel's pixels becomes 8 bits: foveate_segment_header.rounding.
enum foveate_rounding {
    FOVEATE_ROUNDING_HALF_UP = 0, // to the nearest value
    FOVEATE_ROUNDING_FLOOR = 1,   // down
};

// How the source's samples become RGB: foveate_segment_header.color_matrix. Others count as unknown. The numbers of this and the
// next two are those of GStreamer's GstVideoColorMatrix, GstVideoColorRange and GstVideoTransferFunction.
enum foveate_color_matrix {
    FOVEATE_MATRIX_UNKNOWN = 0,
    FOVEATE_MATRIX_RGB = 1, // they are RGB
    FOVEATE_MATRIX_FCC = 2,
    FOVEATE_MATRIX_BT709 = 3,
    FOVEATE_MATRIX_BT601 = 4,
    FOVEATE_MATRIX_SMPTE240M = 5,
    FOVEATE_MATRIX_BT2020 = 6,
};

// What black and white are: foveate_segment_header.color_range. Others count as unknown.
enum foveate_color_range {
    FOVEATE_RANGE_UNKNOWN = 0,
    FOVEATE_RANGE_FULL = 1,    // 0 to 255
    FOVEATE_RANGE_LIMITED = 2, // luma 16 to 235, chroma 16 to 240
};

// How samples follow from light: foveate_segment_header.color_transfer. Others count as unknown.
enum foveate_color_transfer {
    FOVEATE_TRANSFER_UNKNOWN = 0,
    FOVEATE_TRANSFER_GAMMA10 = 1, // linear
    FOVEATE_TRANSFER_GAMMA18 = 2,
    FOVEATE_TRANSFER_GAMMA20 = 3,
    FOVEATE_TRANSFER_GAMMA22 = 4,
    FOVEATE_TRANSFER_BT709 = 5,
    FOVEATE_TRANSFER_SMPTE240M = 6,
    FOVEATE_TRANSFER_SRGB = 7,
    FOVEATE_TRANSFER_GAMMA28 = 8,
    FOVEATE_TRANSFER_LOG100 = 9,
    FOVEATE_TRANSFER_LOG316 = 10,
    FOVEATE_TRANSFER_BT2020_12 = 11,
    FOVEATE_TRANSFER_ADOBERGB = 12,
    FOVEATE_TRANSFER_BT2020_10 = 13,
    FOVEATE_TRANSFER_SMPTE2084 = 14,    // PQ, of HDR10
    FOVEATE_TRANSFER_ARIB_STD_B67 = 15, // HLG
    FOVEATE_TRANSFER_BT601 = 16,
};

// Bits of foveate_segment_header.color_assumed: what the source does not say.
#define FOVEATE_ASSUMED_MATRIX 1u // chosen by the height of the pictures
#define FOVEATE_ASSUMED_RANGE 2u  // chosen by the format

// The state of a view: foveate_state_block.code.
enum foveate_state_code {
    FOVEATE_STATE_UNKNOWN = 0, // there is no segment yet, or none since the daemon is back
    FOVEATE_STATE_LIVE = 1,
    FOVEATE_STATE_STALLED = 2, // no frame for a while
    FOVEATE_STATE_ENDED = 3,   // no more frames in this segment
};

// ---------------------------------------------------------------------------------------------------------------------
// Results and errors.

// The result of a call: 0 is success, positive another outcome, negative an error that foveate_last_error() explains.
enum foveate_result {
    FOVEATE_OK = 0,      // done; a read has a frame
    FOVEATE_NOTHING = 1, // no unread frame, or nothing arrived in time, or a signal did
    // The view publishes in a new segment, or its first: foveate_current_segment() has changed, borrowed frames are
    // gone, and buffers may need foveate_frame_reserve().
    FOVEATE_NEW_SEGMENT = 2,
    FOVEATE_ENDED = 3,  // the view has ended, and every frame was read; foveate_last_error() has the reason
    FOVEATE_LAPPED = 4, // the writer replaced a frame while it was borrowed: discard any results

    FOVEATE_DISCONNECTED = -1,    // the daemon is gone or closed the connection: foveate_reopen(), or FOVEATE_RECONNECT
    FOVEATE_TIMED_OUT = -2,       // the daemon did not answer in time
    FOVEATE_REFUSED = -3,         // the daemon refused: foveate_last_error() has its reason and its message
    FOVEATE_NO_DAEMON = -4,       // no daemon listens on the socket
    FOVEATE_PERMISSION = -5,      // the user may not talk to the daemon
    FOVEATE_INVALID = -6,         // an argument is invalid
    FOVEATE_TOO_SMALL = -7,       // the frame does not fit the caller's buffer: foveate_frame_reserve()
    FOVEATE_NOT_A_SEGMENT = -8,   // the daemon sent a descriptor of something else, or one that could change its size
    FOVEATE_VERSION = -9,         // the segment follows another major version of the ABI
    FOVEATE_MALFORMED = -10,      // the segment is inconsistent
    FOVEATE_OVERTAKEN = -11,      // the writer kept replacing the frame during the copy
    FOVEATE_NOT_UNDERSTOOD = -12, // the daemon's message cannot be parsed
    FOVEATE_NO_MEMORY = -13,
    FOVEATE_SYSTEM = -14, // the kernel refused a call
};

// Bytes of an error's text, its NUL included; longer texts are cut.
#define FOVEATE_ERROR_BYTES 1280

// The last error.
struct foveate_error {
    enum foveate_result result;
    char reason[32];                // with FOVEATE_REFUSED: the `reason` of docs/reference/control.md, such as "held"; else empty
    char text[FOVEATE_ERROR_BYTES]; // the cause and the remedy, for people
};

// Returns a short static description of `result`, also of unknown ones.
FOVEATE_API const char *foveate_strerror(enum foveate_result result);

// ---------------------------------------------------------------------------------------------------------------------
// Opening.

// A subscription to a view: a connection to the daemon, and the segment received over it.
struct foveate_reader;

// For foveate_open and foveate_open_view: make the descriptor readable with every frame, so that it can be polled.
#define FOVEATE_NOTIFY 1u

// For foveate_open and foveate_open_view: while the daemon is gone, let each read look for it, at most every 100 ms.
// Such a read waits as for a frame, and returns FOVEATE_DISCONNECTED only if no daemon has answered by its timeout;
// then keep reading. Once it is back, reading continues with FOVEATE_NEW_SEGMENT. A daemon that is back without the
// view refuses: FOVEATE_REFUSED. If no daemon answers within the timeout, opening succeeds, and reads look for one.
#define FOVEATE_RECONNECT 2u

// Subscribes to `view`, such as "camera/main", and waits at most `timeout_ms` for the daemon's answer.
//
// The daemon listens on `socket_path`; if that is NULL, on `$FOVEATE_SOCKET`, or on the first foveate.sock that there is
// in the first directory of `$RUNTIME_DIRECTORY`, in `$XDG_RUNTIME_DIR/foveate`, and in /run/foveate; if there is none, in
// the first of these that is set. A relative `$XDG_RUNTIME_DIR` counts as unset. `flags` is 0 or a combination of FOVEATE_NOTIFY
// and FOVEATE_RECONNECT; others are FOVEATE_INVALID.
//
// There is no segment yet: the first read returns FOVEATE_NEW_SEGMENT once the view publishes. On failure returns NULL
// and fills `error`, unless that is NULL. With FOVEATE_RECONNECT it also succeeds without a daemon.
FOVEATE_API struct foveate_reader *foveate_open(const char *view, const char *socket_path, unsigned flags, int timeout_ms,
                                                struct foveate_error *error);

// Opens a view of the caller's own on `stream`, such as "camera", and subscribes to it. It lives until foveate_close(),
// until its daemon is gone, or until the process ends. The rest is as for foveate_open.
//
// `keys` is a JSON object with the keys of a `[[stream.view]]` of the daemon's configuration, all optional, such as
// {"budget":128,"dtype":"u8","gaze":{"policy":"feedback"}}; NULL takes the defaults. The daemon refuses invalid keys
// with FOVEATE_REFUSED, and also a stream that has not delivered a frame yet ("not-started"): try again later.
FOVEATE_API struct foveate_reader *foveate_open_view(const char *stream, const char *keys, const char *socket_path,
                                                     unsigned flags, int timeout_ms, struct foveate_error *error);

// Returns the view's address, such as "camera/main". Valid until the next read or foveate_close(): a view of the
// caller's own may get another one when it is opened again.
FOVEATE_API const char *foveate_view_name(const struct foveate_reader *reader);

// Connects again, after FOVEATE_DISCONNECTED or at any time; a view of the caller's own is opened again. Does not wait:
// FOVEATE_NO_DAEMON if there is no daemon yet; the next reads tell whether it grants the view. The segment in use stays
// mapped until FOVEATE_NEW_SEGMENT.
FOVEATE_API enum foveate_result foveate_reopen(struct foveate_reader *reader);

// Ends the subscription and frees everything that belongs to it, borrowed frames included. NULL is allowed.
FOVEATE_API void foveate_close(struct foveate_reader *reader);

// Returns the error of the last failed call, or the reason for the end of the view. Valid until the next call.
FOVEATE_API const struct foveate_error *foveate_last_error(const struct foveate_reader *reader);

// The checked header of a segment, and values derived from it.
struct foveate_segment {
    struct foveate_segment_header header;
    struct foveate_camera_frame camera_frame; // valid if header.camera.kind is not 0
    struct foveate_channels channels;         // `count` is 0 without the plane `channels`
    enum foveate_dtype dtype;                 // of the texels
    size_t token_bytes;                       // of a token's texels: 3 * P * P numbers
    uint64_t number;                          // counts the segments of this reader, from 1
};

// Returns the segment in use, or NULL before the first FOVEATE_NEW_SEGMENT. Valid until the next read.
FOVEATE_API const struct foveate_segment *foveate_current_segment(const struct foveate_reader *reader);

// Returns the index of the plane with this name in header.planes, foveate_frame.planes and foveate_borrowed.planes; -1 if the
// segment has none, such as one of an older daemon. Look it up again after FOVEATE_NEW_SEGMENT.
//
// The first plane is always `pixels`: [capacity, 3, P, P], dense, channels R G B. `relevance` is the weight that the layout gave to
// each token: f32 [capacity]. `channels` is what a scorer read: [channels, rows, columns]. `depth` is nearest and mean depth in
// metres and the share of known depth, f32 [capacity, 3], or of each texel, [capacity, 3, P, P]; `boxes` are least and greatest
// x, y, z in metres in the camera's optical frame, f32 [capacity, 6]. `tiles` is when each tile of 32 x 32 pixels last changed,
// u64 [rows, columns] as bytes, of a view with memory = "canvas".
FOVEATE_API int foveate_plane_index(const struct foveate_segment *segment, const char *name);

// Returns the index of the channel with this name, such as "strokes", in the plane `channels`; -1 if the view does not publish it.
// Its cells are `index * foveate_plane.token_stride` bytes from the start of the plane: shape[1] rows of shape[2] cells.
FOVEATE_API int foveate_channel_index(const struct foveate_segment *segment, const char *name);

// Returns the state of the view, and writes the reason; `reason` may be NULL. An unknown state reads as ended, and so does
// that of a view whose daemon is gone.
FOVEATE_API enum foveate_state_code foveate_state(const struct foveate_reader *reader, char reason[FOVEATE_REASON_BYTES]);

// ---------------------------------------------------------------------------------------------------------------------
// Reading copies.

// A frame in the caller's memory. Set it to FOVEATE_ZEROS, then point `tokens`, `pixels` and any other planes that you
// need at memory, or call foveate_frame_reserve. It can be reused for any number of reads.
struct foveate_frame {
    struct foveate_slot_header head; // header of the frame
    uint64_t missed;                 // frames between this one and the one read before that were not read
    size_t token_count;              // tokens of this frame; 0 after a read that failed
    size_t pixel_bytes;              // token_count * foveate_segment.token_bytes

    struct foveate_token *tokens; // [token_count]
    size_t token_capacity;        // room in `tokens`, in tokens
    void *pixels;                 // [token_count, 3, P, P] of foveate_segment.dtype, dense
    size_t pixel_capacity;        // room in `pixels`, in bytes

    // The items of each plane of the segment, foveate_plane.token_stride bytes apart. Reading sets the first one to
    // `pixels`; others that are NULL are not copied.
    void *planes[FOVEATE_PLANE_COUNT_MAX];
    size_t plane_capacities[FOVEATE_PLANE_COUNT_MAX]; // room in each of `planes`, in bytes
};

// Allocates `tokens`, `pixels` and `planes` such that every frame of `segment` fits. All must be 0 or come from this
// function. Returns FOVEATE_OK, or FOVEATE_NO_MEMORY, after which the frame can be used as before.
FOVEATE_API enum foveate_result foveate_frame_reserve(struct foveate_frame *frame, const struct foveate_segment *segment);

// Frees what foveate_frame_reserve allocated.
FOVEATE_API void foveate_frame_free(struct foveate_frame *frame);

// Copies the newest frame, unless it was read before; `missed` counts the older ones that are skipped. Waits at most
// `timeout_ms` for one.
//
// Returns FOVEATE_OK, FOVEATE_NOTHING, FOVEATE_NEW_SEGMENT, FOVEATE_ENDED or an error. All published frames come before
// a new segment, an end or a hang-up. An end or a hang-up is returned by every further call; foveate_reopen() starts
// over.
FOVEATE_API enum foveate_result foveate_read_newest(struct foveate_reader *reader, struct foveate_frame *frame, int timeout_ms);

// Like foveate_read_newest, but copies the oldest unread frame still in the ring; `missed` counts those that the writer
// has replaced.
FOVEATE_API enum foveate_result foveate_read_next(struct foveate_reader *reader, struct foveate_frame *frame, int timeout_ms);

// Copies the frame of the ring captured nearest to `capture_ns`, read before or not; of two equally near ones the
// older. `missed` is 0. Marks nothing as read, and ignores foveate_set_max_age(): compare `frame->head.capture_ns`.
//
// Waits at most `timeout_ms`, and only while the ring is empty: for a time in the future, the newest frame is the
// nearest. Once the view has ended or the daemon is gone for good, such a time gives FOVEATE_ENDED or
// FOVEATE_DISCONNECTED. Otherwise it returns like foveate_read_newest, but FOVEATE_NEW_SEGMENT at once, and skips
// unread frames of the segment before.
FOVEATE_API enum foveate_result foveate_read_at(struct foveate_reader *reader, uint64_t capture_ns, struct foveate_frame *frame,
                                                int timeout_ms);

// Makes foveate_read_newest, foveate_read_next and foveate_borrow_newest skip frames that are older than `max_age_ns`
// at the time of the read, and wait for newer ones. `missed` counts skipped frames. 0, the default, takes frames of any
// age. Before using a frame later, check foveate_age_ns().
FOVEATE_API void foveate_set_max_age(struct foveate_reader *reader, uint64_t max_age_ns);

// Returns the time since a frame's capture, in nanoseconds; 0 for a capture time in the future.
FOVEATE_API uint64_t foveate_age_ns(const struct foveate_slot_header *head);

// Returns number `index` of the dense items of a plane in the format `dtype`, exactly. A texel is 0 to 255 for u8, and
// a normalised value for the others.
FOVEATE_API float foveate_number(enum foveate_dtype dtype, const void *items, size_t index);

// Width and height of a token in source pixels, whole numbers, with what lies outside the picture.
FOVEATE_API uint32_t foveate_token_width(const struct foveate_token *token);
FOVEATE_API uint32_t foveate_token_height(const struct foveate_token *token);

// Writes the texel of a token under a point, in source pixels: 0 to P - 1 for a point inside the token.
FOVEATE_API void foveate_texel_at(const struct foveate_token *token, double x, double y, int64_t *column, int64_t *row);

// Writes the source pixels that a texel is the mean of, x0, y0, x1, y1, before they are cut to the picture: a pixel counts by the
// share of it that lies in the box.
FOVEATE_API void foveate_texel_box(const struct foveate_token *token, int64_t column, int64_t row, double box[4]);

// Draws a frame of `segment` as R, G, B, row by row, 3 * source_width * source_height bytes; black where no token lies.
//
// In `blocks` each texel fills the pixels whose centres lie in it; where tokens overlap, those of the smaller area, width by
// height, are on top. It shows what the tokens are.
//
// `smooth` is for models and people: it has no edges of texels and tokens, and is exact where the steps are 1. The texels of a
// token are cells of a grid that goes on beyond the token; a cell outside it has the mean of its pixels in `blocks`, by the share of
// each that lies in it, rounded half up, which goes on beyond its edges with the pixels at its edges. A pixel is interpolated between the centres of 4 x 4 cells by
// Catmull-Rom splines, with weights rounded to 2^-14 along each axis, and rounded half up. Every reader draws the same bytes. NULL
// leaves it out.
FOVEATE_API void foveate_rebuild(const struct foveate_segment *segment, const struct foveate_frame *frame, uint8_t *blocks,
                                 uint8_t *smooth);

// ---------------------------------------------------------------------------------------------------------------------
// Reading in place.

// A borrowed frame in the ring. The writer does not know of it and may replace it at any time: results are valid only
// after foveate_release() returned FOVEATE_OK.
//
// `tokens`, `pixels` and `planes` may change at any time. Copy or compute from them, but never use a value found there
// unchecked as an index, a length or a condition; foveate_borrowed_token() copies one token. The pointers are valid
// until the next FOVEATE_NEW_SEGMENT or foveate_close().
struct foveate_borrowed {
    struct foveate_slot_header head; // a checked copy
    uint64_t missed;                 // older frames that were skipped
    size_t token_count;
    size_t pixel_bytes;
    const struct foveate_token *tokens; // [token_count]
    const void *pixels;                 // [token_count, 3, P, P] of foveate_segment.dtype, dense
    uint64_t segment_number;            // foveate_segment.number

    // The items of each plane of the segment, foveate_plane.token_stride bytes apart; the first is `pixels`.
    const void *planes[FOVEATE_PLANE_COUNT_MAX];
};

// Borrows the newest frame, unless it was read before. Waits and returns like foveate_read_newest.
FOVEATE_API enum foveate_result foveate_borrow_newest(struct foveate_reader *reader, struct foveate_borrowed *borrowed,
                                                      int timeout_ms);

// Copies the record of token `index`, below `token_count`, as it is now.
FOVEATE_API struct foveate_token foveate_borrowed_token(const struct foveate_borrowed *borrowed, size_t index);

// Returns whether everything read of the frame so far belongs to it. May be called any number of times.
FOVEATE_API bool foveate_still_valid(const struct foveate_reader *reader, const struct foveate_borrowed *borrowed);

// Ends the borrow. Returns FOVEATE_OK, or FOVEATE_LAPPED if the writer replaced the frame or the segment is gone.
FOVEATE_API enum foveate_result foveate_release(struct foveate_reader *reader, struct foveate_borrowed *borrowed);

// ---------------------------------------------------------------------------------------------------------------------
// Reusing results. Tokens with the same epoch, place (x, y, sx, sy, extra_width, extra_height) and changed_frame have the same
// bytes. So what a model computed from the bytes alone, such as a patch embedding before position embeddings and attention, is still exact. A
// cache gives each token a row of a table that the caller keeps, and says which rows to compute.

// Which place each row of a table is for. For one thread at a time.
struct foveate_token_cache;

#define FOVEATE_CACHE_ROWS_MAX (1u << 20)

// Makes a cache of `capacity` rows, 1 to FOVEATE_CACHE_ROWS_MAX: at least the tokens of a frame, several times that to
// keep places of past fixations. Returns NULL for another capacity, or without memory.
FOVEATE_API struct foveate_token_cache *foveate_token_cache_new(uint32_t capacity);

// Frees the cache. NULL is allowed.
FOVEATE_API void foveate_token_cache_free(struct foveate_token_cache *cache);

// Forgets every row, as is needed when the weights of the model change.
FOVEATE_API void foveate_token_cache_clear(struct foveate_token_cache *cache);

// Writes the row of each token of a frame of `segment` to `rows`, [frame->token_count], and the tokens whose rows are to be
// computed from now on, before any is used, to `missing`, [frame->token_count], ascending. Rows of new places are those of
// the places that were not used for longest. `rows` and `missing` have room for header.token_capacity items.
//
// Returns the number of missing tokens, or FOVEATE_TOO_SMALL if the frame has more tokens than the cache has rows.
FOVEATE_API int64_t foveate_token_cache_update(struct foveate_token_cache *cache, const struct foveate_segment *segment,
                                               const struct foveate_frame *frame, uint32_t *rows, uint32_t *missing);

// ---------------------------------------------------------------------------------------------------------------------
// A canvas: the picture of the finest texels so far, of a view with layout = "adaptive" and memory = "canvas".
//
// A place is a square of `side` x `side` pixels, the greatest that lies in one token and in one tile of change detection. Each
// frame draws a place if its token there is at least as fine as what the canvas has, or if a tile under the texel that it was drawn
// from has changed since; so no place shows what is not in the picture any more. docs/reference/canvas.md is the definition, which
// all languages follow byte for byte.
//
// Feed it every frame, in order, as foveate_read_next gives them.

// Set it to FOVEATE_ZEROS, then `memory` and `capacity`. Nothing else is allocated. For one thread at a time.
struct foveate_canvas {
    void *memory;    // the caller's, aligned for u64, such as from malloc
    size_t capacity; // its size in bytes, at least foveate_canvas_bytes

    // What follows is written by foveate_canvas_update.
    uint32_t width, height; // of the source, in pixels
    uint32_t side;          // of a place, in pixels
    uint32_t columns, rows; // of places
    uint64_t frame_seq;     // of the newest frame
    bool is_new;            // whether the newest frame cleared the canvas first, as the first frame of a segment does
    size_t drawn_count;     // how many places it drew

    // Whether the daemon may count tokens as delivered that this canvas did not get: it joined late, or missed frames. Set it to
    // false when foveate_refresh returned FOVEATE_OK.
    bool wants_refresh;

    void *pixels;     // [height, width, 3]: R, G, B, in foveate_segment.dtype; 0 where nothing was drawn
    uint16_t *steps;  // [rows, columns]: width of the texels that a place was drawn from, in source pixels; 0 if it was not
    uint64_t *frames; // [rows, columns]: newest frame_seq that changed the pixels under those texels, as far as tiles tell
    uint8_t *drawn;   // [rows, columns]: 1 if the newest frame drew the place

    uint64_t *tokens; // changed_frame of the token that each place was drawn from
    uint64_t epoch;
    uint64_t ring_sequence;
};

// Returns the memory that a canvas of a segment needs, in bytes.
FOVEATE_API size_t foveate_canvas_bytes(const struct foveate_segment *segment);

// Draws a frame of `segment`, with its plane `tiles`. Clears the canvas first if the segment is another one than before.
//
// Returns FOVEATE_OK; FOVEATE_TOO_SMALL if `capacity` is below foveate_canvas_bytes; or FOVEATE_INVALID if the view or the frame
// does not have the plane, or the frame is not newer than the newest. The canvas then stays as it was.
FOVEATE_API enum foveate_result foveate_canvas_update(struct foveate_canvas *canvas, const struct foveate_segment *segment,
                                                      const struct foveate_frame *frame);

// Writes the picture to `rgb`, [height, width, 3] bytes: R, G, B; black where nothing was drawn. `segment` is that of the newest
// frame.
FOVEATE_API void foveate_canvas_rgb(const struct foveate_canvas *canvas, const struct foveate_segment *segment, uint8_t *rgb);

// ---------------------------------------------------------------------------------------------------------------------
// Waiting.

// Waits at most `timeout_ms` until a read may return something: a frame, a new segment, an end, a hang-up, or a change
// of the state. Returns FOVEATE_OK, FOVEATE_NOTHING at the timeout or on a signal, or an error. A hang-up is noticed
// within 100 ms. Once a view has ended it returns at once. While FOVEATE_RECONNECT looks for the daemon, it returns
// FOVEATE_OK whenever a read should try again.
FOVEATE_API enum foveate_result foveate_wait(struct foveate_reader *reader, int timeout_ms);

// Returns a descriptor for poll(2) and the like. It becomes readable with a new segment, an end, a hang-up, and with
// FOVEATE_NOTIFY with every frame; then read until FOVEATE_NOTHING, or FOVEATE_DISCONNECTED. With FOVEATE_RECONNECT it is
// always the same, and becomes readable also when a read should look for the daemon. Otherwise it is the connection: -1
// without one, and another after foveate_reopen.
FOVEATE_API int foveate_descriptor(const struct foveate_reader *reader);

// ---------------------------------------------------------------------------------------------------------------------
// Steering. A reader steers its view over a second connection, opened by the first of these calls. It holds a lease on
// the view until the lease times out, or foveate_release_gaze() or foveate_close(). A view of the caller's own depends
// on that connection: when it is lost, so is the view, and steering returns FOVEATE_DISCONNECTED until the view was
// opened again.
//
// With FOVEATE_RECONNECT, steering returns FOVEATE_DISCONNECTED while the daemon is away, starts or stops, has too many
// clients, or does not know the frame that the message names: read on, and steer again with a later frame. The message
// has had no effect.
//
// A message is sent at once. With a `timeout_ms` of 0 the call does not wait for the answer, and FOVEATE_TIMED_OUT
// means that the message was sent; foveate_answer() gets the answer later. The next message drops an answer that was
// not fetched.

// The daemon's answer: where the view will look.
struct foveate_looking {
    double x; // source pixels: of the point, the first of several, or of the greatest peak of the map
    double y;
    bool has_fixation;             // only with `wait`, and if a frame came within a second
    uint64_t fixation_id;          // the first resulting fixation: the policy may have stayed where it was
    double fixation_x;             // source pixels
    double fixation_y;             // source pixels
    uint64_t fixation_since_frame; // frame_seq of the first frame sampled around it
    uint64_t taken_for;            // the newest frame, if the message counts for that because its own is too old; else 0
};

// Number formats of attention.
enum foveate_number_format {
    FOVEATE_NUMBER_F32 = 0,
    FOVEATE_NUMBER_F16 = 1,
    FOVEATE_NUMBER_U8 = 2,
};

// How the camera moved from the frame that a message names until now, as odometry or a gyroscope has it; at most one of the two, and then
// the message names a frame. Places move by it instead of by the motion that the daemon measured meanwhile. docs/reference/gaze.md says
// how.
struct foveate_ego_motion {
    // 3 x 3 numbers, row by row, that take (x, y, 1) in source pixels of then to source pixels of now, times any factor
    const double *homography;
    // 4 numbers x, y, z, w: a quaternion of length 1 that takes a direction in the camera's optical frame of then (x right, y
    // down, z forward) to the same direction in that of now. The stream needs a calibrated camera
    const double *rotation;
};

// A point or a box to look at. FOVEATE_ZEROS are the defaults.
struct foveate_point {
    double x; // source pixels, or shares of the sides; without meaning with a box
    double y;
    bool normalised; // x and y, or the box, are shares of the sides, 0 to 1
    uint32_t for_ms; // how long, in stream time; 0: until the next message, or as the view's policy says
    // frame_seq of the frame that the point refers to; 0: the newest. One of the last ten seconds, and of the last 64 frames
    // in any case: an older one counts as the newest, and the answer says so
    uint64_t frame;
    bool strict; // an older frame is refused instead
    bool wait;   // answer after the decision
    struct foveate_ego_motion ego; // since `frame`
    bool has_box;  // look at a box instead: sharp all over it, as far as the budget goes
    double box[4]; // x0, y0, x1, y1
    double share;  // of the budget, above 0 to 1, with the layouts "adaptive" and "inset"; 0: as the layout says
};

// An attention map, and the area that it covers. Zeros are the defaults of all but `rows` and `columns`.
struct foveate_map {
    uint32_t rows;    // 1 to 128
    uint32_t columns; // 1 to 128
    enum foveate_number_format format;
    bool has_box;   // else the map covers the image
    double box[4];  // x0, y0, x1, y1 in source pixels; may extend beyond the image
    uint64_t frame; // frame_seq of the frame that the map was computed on, as that of a point; 0: the newest
    bool strict;    // an older frame is refused
    bool wait;      // answer after the decision
    struct foveate_ego_motion ego; // since `frame`
};

// One score for each token of a frame.
struct foveate_scores {
    // frame_seq of the frame whose tokens were scored, as that of a point. One whose tokens are not known any more is refused
    uint64_t frame;
    bool strict;    // an older frame is refused
    size_t count;   // of the scores; those after the last token are padding
    enum foveate_number_format format;
    bool wait; // answer after the decision
    struct foveate_ego_motion ego; // since `frame`
};

// What a channel adds to the score of the view.
struct foveate_weight {
    const char *channel; // its name, computed or injected: 1 to 31 of a-z, 0-9, _ and -
    double weight;       // octaves of relevance for each unit of it, at most 64 from 0; 0 takes a weight back
};

// Makes the view look at a point, or at a box, from the very next frame on. `looking` may be NULL.
FOVEATE_API enum foveate_result foveate_look(struct foveate_reader *reader, const struct foveate_point *point, int timeout_ms,
                                             struct foveate_looking *looking);

// The same with several points at a time, 1 to 8 and at most as many as the view has foveae: it looks at these and at
// nothing else. Only the place of each counts; all else is as the first one has it. A box is looked at alone.
FOVEATE_API enum foveate_result foveate_look_at(struct foveate_reader *reader, const struct foveate_point *points,
                                                size_t count, int timeout_ms, struct foveate_looking *looking);

// Makes the view look at the peaks of a map, from the next decision on. `numbers` are rows * columns numbers, row by
// row, finite and not negative, at least one above 0. `looking` may be NULL.
FOVEATE_API enum foveate_result foveate_attend(struct foveate_reader *reader, const struct foveate_map *map,
                                               const void *numbers, int timeout_ms, struct foveate_looking *looking);

// Makes the view look at the tokens of a frame with the highest score, from the next decision on. `numbers` are
// `scores->count` numbers, as for foveate_attend, in the order of that frame's tokens. `looking` may be NULL.
FOVEATE_API enum foveate_result foveate_attend_tokens(struct foveate_reader *reader, const struct foveate_scores *scores,
                                                      const void *numbers, int timeout_ms, struct foveate_looking *looking);

// Gives the view a map as the channel `channel`, for `ttl_ms` of stream time after the map's frame; 0 is 1000. Its policy must
// be `auto` or `relevance`. `numbers` are as for foveate_attend, but may be negative, and all 0; `wait` and `ego` of the map do not count.
// Needs no lease: the name is this reader's until the map's time is over, or foveate_close().
FOVEATE_API enum foveate_result foveate_inject(struct foveate_reader *reader, const char *channel, const struct foveate_map *map,
                                               const void *numbers, uint32_t ttl_ms, int timeout_ms);

// Sets what channels of the view add to its score, 1 to 64 at a time. Its policy must be `auto` or `relevance`.
FOVEATE_API enum foveate_result foveate_weigh(struct foveate_reader *reader, const struct foveate_weight *weights,
                                              size_t count, int timeout_ms);

// Returns the view to its policy, with the weights of its configuration, so that other clients may steer it.
FOVEATE_API enum foveate_result foveate_release_gaze(struct foveate_reader *reader, int timeout_ms);

// Has a view with memory = "canvas" forget what it takes for delivered, at most once a second, for a canvas that wants it. Needs no
// lease: all readers of a view share its memory.
FOVEATE_API enum foveate_result foveate_refresh(struct foveate_reader *reader, int timeout_ms);

// Waits at most `timeout_ms` for the answer to the newest of these messages. FOVEATE_NOTHING if no answer is due.
// `looking` may be NULL.
FOVEATE_API enum foveate_result foveate_answer(struct foveate_reader *reader, int timeout_ms, struct foveate_looking *looking);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // FOVEATE_H

// =====================================================================================================================
#if defined(FOVEATE_IMPLEMENTATION) && !defined(FOVEATE__IMPLEMENTED)
#define FOVEATE__IMPLEMENTED

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef F_GET_SEALS
#error "Include foveate.h before any other header where FOVEATE_IMPLEMENTATION is defined, or compile with -D_GNU_SOURCE."
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Failed copies in a row after which a read gives up: a working reader loses one in a thousand.
#define FOVEATE__TRIES_MAX 64
// Bounds of the wait for a frame before the next look at the ring and the socket: see foveate__patience_ns. A daemon that
// dies wakes nobody, so the upper one bounds how late that is noticed.
#define FOVEATE__PATIENCE_MIN_NS 1000000
#define FOVEATE__PATIENCE_MAX_NS 100000000
// The longest message to the daemon, in bytes.
#define FOVEATE__MESSAGE_BYTES_MAX 131072
// Longer than any message to a reader: the longest is a refusal with at most 4096 bytes of text, which JSON escapes may
// make six times as long.
#define FOVEATE__INBOX_BYTES 32768
#define FOVEATE__NOTICE_BYTES 16
// More than a socket holds, so that a daemon that never stops sending cannot block a reader.
#define FOVEATE__MESSAGES_MAX 1024
#define FOVEATE__MAP_SIDE_MAX 128
// Two names of at most 63 bytes, the slash between them and a NUL.
#define FOVEATE__VIEW_BYTES 128
// The name of a stream of at most 63 bytes, and a NUL.
#define FOVEATE__STREAM_BYTES 64
// The longest view description that the daemon accepts.
#define FOVEATE__KEYS_BYTES_MAX 4096
// Interval of attempts to reconnect.
#define FOVEATE__RECONNECT_NS 100000000
// Bytes of a request's JSON: the longest has a view and a name and a number for each of 64 channels.
#define FOVEATE__REQUEST_BYTES 4096
// Weights of a message, at most.
#define FOVEATE__WEIGHTS_MAX 64
#define FOVEATE__CHANNEL_NAME_BYTES_MAX 31
// Foveae of a view, at most.
#define FOVEATE__POINTS_MAX 8
// A part of the ABI; the headers of old kernels lack it.
#define FOVEATE__SEAL_FUTURE_WRITE 0x0010

#define FOVEATE__NEVER INT64_MAX

// ---------------------------------------------------------------------------------------------------------------------
// Errors and time.

__attribute__((format(printf, 3, 4))) static enum foveate_result
foveate__fail(struct foveate_error *error, enum foveate_result result, const char *format, ...) {
    error->result = result;
    error->reason[0] = '\0';
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return result;
}

static enum foveate_result foveate__fail_system(struct foveate_error *error, const char *call, int number) {
    return foveate__fail(error, FOVEATE_SYSTEM, "%s failed with errno %d", call, number);
}

FOVEATE_API const char *foveate_strerror(enum foveate_result result) {
    switch (result) {
    case FOVEATE_OK: return "done";
    case FOVEATE_NOTHING: return "nothing new";
    case FOVEATE_NEW_SEGMENT: return "the view publishes in a new segment";
    case FOVEATE_ENDED: return "the view has ended";
    case FOVEATE_LAPPED: return "the writer replaced the frame while it was borrowed";
    case FOVEATE_DISCONNECTED: return "the daemon is gone";
    case FOVEATE_TIMED_OUT: return "the daemon did not answer in time";
    case FOVEATE_REFUSED: return "the daemon refused";
    case FOVEATE_NO_DAEMON: return "no daemon listens on the socket";
    case FOVEATE_PERMISSION: return "no permission for the socket";
    case FOVEATE_INVALID: return "an argument is invalid";
    case FOVEATE_TOO_SMALL: return "the frame does not fit the buffer";
    case FOVEATE_NOT_A_SEGMENT: return "the descriptor is not a Foveate segment";
    case FOVEATE_VERSION: return "the segment follows another version of the ABI";
    case FOVEATE_MALFORMED: return "the segment is broken";
    case FOVEATE_OVERTAKEN: return "the writer overtook this reader again and again";
    case FOVEATE_NOT_UNDERSTOOD: return "cannot understand the daemon's message";
    case FOVEATE_NO_MEMORY: return "out of memory";
    case FOVEATE_SYSTEM: return "the kernel refused a call";
    }
    return "an unknown result";
}

static int64_t foveate__now_ns(void) {
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t foveate__deadline_ns(int timeout_ms) {
    return timeout_ms < 0 ? FOVEATE__NEVER : foveate__now_ns() + (int64_t)timeout_ms * 1000000;
}

// Time until `deadline_ns`, at most `most_ns`, never below 0.
static int64_t foveate__left_ns(int64_t deadline_ns, int64_t most_ns) {
    if (deadline_ns == FOVEATE__NEVER) return most_ns;
    int64_t left = deadline_ns - foveate__now_ns();
    return left < 0 ? 0 : left < most_ns ? left : most_ns;
}

static struct timespec foveate__timespec(int64_t ns) {
    struct timespec time;
    time.tv_sec = (time_t)(ns / 1000000000);
    time.tv_nsec = (long)(ns % 1000000000);
    return time;
}

// Waits until `socket` has one of `events` or was hung up, or `deadline_ns`. Positive: it has; 0: time is up; -1: errno.
static int foveate__poll(int socket, short events, int64_t deadline_ns) {
    struct pollfd entry = {socket, events, 0};
    if (deadline_ns == FOVEATE__NEVER) return ppoll(&entry, 1, NULL, NULL);
    struct timespec left = foveate__timespec(foveate__left_ns(deadline_ns, FOVEATE__NEVER));
    return ppoll(&entry, 1, &left, NULL);
}

// ---------------------------------------------------------------------------------------------------------------------
// Messages. Requests are written with snprintf. Answers are scanned for the few fields that matter: the scanner trusts
// nothing, stays within bounds, and treats anything that is not JSON as a message without those fields.

// Part of a message: [at, end).
struct foveate__span {
    const char *at;
    const char *end;
};

static const char *foveate__skip_space(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')) at++;
    return at;
}

// `at` is after the opening quote. Returns the closing one, or NULL.
static const char *foveate__string_end(const char *at, const char *end) {
    for (; at < end; at++) {
        if (*at == '"') return at;
        if (*at == '\\' && ++at == end) return NULL;
    }
    return NULL;
}

// Returns the end of the value that begins at `at`, or NULL.
static const char *foveate__value_end(const char *at, const char *end) {
    size_t depth = 0;
    for (; at < end; at++) {
        switch (*at) {
        case '"':
            at = foveate__string_end(at + 1, end);
            if (at == NULL) return NULL;
            break;
        case '{':
        case '[': depth++; break;
        case '}':
        case ']':
            if (depth == 0) return at;
            depth--;
            break;
        case ',':
            if (depth == 0) return at;
            break;
        default: break;
        }
    }
    return depth == 0 ? at : NULL;
}

// Finds the value of `key` among the members of `object`, not of objects inside it.
static bool foveate__find(struct foveate__span object, const char *key, struct foveate__span *value) {
    size_t key_bytes = strlen(key);
    const char *at = foveate__skip_space(object.at, object.end);
    if (at == object.end || *at != '{') return false;
    do {
        at = foveate__skip_space(at + 1, object.end);
        if (at == object.end || *at != '"') return false;
        const char *name = at + 1;
        const char *name_end = foveate__string_end(name, object.end);
        if (name_end == NULL) return false;
        at = foveate__skip_space(name_end + 1, object.end);
        if (at == object.end || *at != ':') return false;
        value->at = foveate__skip_space(at + 1, object.end);
        value->end = at = foveate__value_end(value->at, object.end);
        if (at == NULL) return false;
        if ((size_t)(name_end - name) == key_bytes && memcmp(name, key, key_bytes) == 0) return true;
    } while (at < object.end && *at == ',');
    return false;
}

// Finds element `index` of `array`.
static bool foveate__element(struct foveate__span array, size_t index, struct foveate__span *value) {
    const char *at = foveate__skip_space(array.at, array.end);
    if (at == array.end || *at != '[') return false;
    do {
        value->at = foveate__skip_space(at + 1, array.end);
        value->end = at = foveate__value_end(value->at, array.end);
        if (at == NULL || value->at == at) return false;
        if (index-- == 0) return true;
    } while (at < array.end && *at == ',');
    return false;
}

// Whether `value` is `word`, possibly followed by blanks.
static bool foveate__is(struct foveate__span value, const char *word) {
    size_t bytes = strlen(word);
    if ((size_t)(value.end - value.at) < bytes || memcmp(value.at, word, bytes) != 0) return false;
    return foveate__skip_space(value.at + bytes, value.end) == value.end;
}

// Appends the UTF-8 of a code point of the basic plane to `text` if it fits, its NUL included; halves of surrogates become '?'.
static size_t foveate__append_utf8(char *text, size_t length, size_t size, unsigned code) {
    unsigned char bytes[3];
    size_t count = 1;
    if (0xD800 <= code && code <= 0xDFFF) code = '?';
    if (code < 0x80) {
        bytes[0] = (unsigned char)code;
    } else if (code < 0x800) {
        bytes[0] = (unsigned char)(0xC0 | code >> 6);
        bytes[1] = (unsigned char)(0x80 | (code & 0x3F));
        count = 2;
    } else {
        bytes[0] = (unsigned char)(0xE0 | code >> 12);
        bytes[1] = (unsigned char)(0x80 | (code >> 6 & 0x3F));
        bytes[2] = (unsigned char)(0x80 | (code & 0x3F));
        count = 3;
    }
    if (size - length <= count) return length;
    memcpy(text + length, bytes, count);
    return length + count;
}

// Reads the four digits of \uXXXX; -1 if they are invalid.
static int foveate__hex4(const char *at, const char *end) {
    int code = 0;
    if (end - at < 4) return -1;
    for (int digit = 0; digit < 4; digit++) {
        const char *digits = "0123456789abcdefABCDEF";
        const char *found = at[digit] == '\0' ? NULL : strchr(digits, at[digit]);
        if (found == NULL) return -1;
        int value = (int)(found - digits);
        code = code * 16 + (value < 16 ? value : value - 6);
    }
    return code;
}

// Copies the string `value` to `text`, `size` bytes with the NUL, truncated if necessary. False and empty if it is not
// a string.
static bool foveate__string(struct foveate__span value, char *text, size_t size) {
    size_t length = 0;
    text[0] = '\0';
    if (value.at == value.end || *value.at != '"') return false;
    const char *end = foveate__string_end(value.at + 1, value.end);
    if (end == NULL) return false;
    for (const char *at = value.at + 1; at < end && length + 1 < size; at++) {
        char byte = *at;
        if (byte == '\\') {
            // There is another character: the string's end was found.
            byte = *++at;
            int code = byte == 'u' ? foveate__hex4(at + 1, end) : -1;
            if (0 < code) {
                length = foveate__append_utf8(text, length, size, (unsigned)code);
                at += 4;
                continue;
            }
            byte = byte == 'n' ? '\n' : byte == 't' ? '\t' : byte == 'r' ? '\r' : byte;
        }
        text[length++] = byte;
    }
    text[length] = '\0';
    return true;
}

// Reads a number; strtod depends on the locale's decimal point. Exact for positions as the daemon sends them, since
// both the digits and the power of ten are exact; 0 if it is not a number.
static double foveate__number(struct foveate__span value) {
    uint64_t digits = 0;
    int exponent = 0, written = 0;
    const char *at = value.at;
    bool is_negative = at < value.end && *at == '-';
    bool is_fraction = false;
    for (at += is_negative; at < value.end && (*at == '.' || ('0' <= *at && *at <= '9')); at++) {
        if (*at == '.') {
            is_fraction = true;
        } else if (digits < UINT64_MAX / 10 - 1) {
            digits = digits * 10 + (uint64_t)(*at - '0');
            exponent -= is_fraction;
        } else {
            exponent += !is_fraction;
        }
    }
    if (at < value.end && (*at == 'e' || *at == 'E')) {
        bool is_small = ++at < value.end && *at == '-';
        for (at += at < value.end && (*at == '-' || *at == '+'); at < value.end && '0' <= *at && *at <= '9'; at++) {
            if (written < 1000) written = written * 10 + (*at - '0');
        }
        exponent += is_small ? -written : written;
    }
    double power = 1.0;
    for (int step = exponent < 0 ? -exponent : exponent; 0 < step && power < 1e300; step--) power *= 10.0;
    double number = exponent < 0 ? (double)digits / power : (double)digits * power;
    return is_negative ? -number : number;
}

// Reads a count: digits only. 0 if it is invalid.
static uint64_t foveate__count(struct foveate__span value) {
    uint64_t count = 0;
    for (const char *at = value.at; at < value.end && '0' <= *at && *at <= '9'; at++)
        count = count * 10 + (uint64_t)(*at - '0');
    return count;
}

static double foveate__find_number(struct foveate__span object, const char *key) {
    struct foveate__span value;
    return foveate__find(object, key, &value) ? foveate__number(value) : 0.0;
}

static uint64_t foveate__find_count(struct foveate__span object, const char *key) {
    struct foveate__span value;
    return foveate__find(object, key, &value) ? foveate__count(value) : 0;
}

// A request under construction. Its texts are checked names, so nothing needs to be escaped.
struct foveate__request {
    char text[FOVEATE__REQUEST_BYTES];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void foveate__append(struct foveate__request *request, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof request->text - request->length;
    int written = vsnprintf(request->text + request->length, room, format, arguments);
    va_end(arguments);
    if (0 < written) request->length += (size_t)written < room ? (size_t)written : room - 1;
}

// Appends printf's text of a finite number, with JSON's decimal point instead of the locale's.
static void foveate__append_digits(struct foveate__request *request, const char *digits) {
    bool was_point = false;
    for (; *digits != '\0'; digits++) {
        bool is_point = strchr("+-0123456789e", *digits) == NULL;
        // A decimal point may have several bytes.
        if (!is_point || !was_point) foveate__append(request, "%c", is_point ? '.' : *digits);
        was_point = is_point;
    }
}

// Appends a finite number, exactly.
static void foveate__append_number(struct foveate__request *request, double number) {
    char digits[64];
    snprintf(digits, sizeof digits, "%.17g", number);
    foveate__append_digits(request, digits);
}

static void foveate__begin(struct foveate__request *request, const char *operation, const char *view) {
    request->length = 0;
    foveate__append(request, "{\"op\":\"%s\",\"view\":\"%s\"", operation, view);
}

static bool foveate__is_finite(double number) {
    return number - number == 0.0;
}

// ---------------------------------------------------------------------------------------------------------------------
// The socket.

// Length of the name, 1 to 63 of a-z, 0-9, `_` and `-`, that `text` begins with; 0 if it begins with none.
static size_t foveate__name_bytes(const char *text) {
    size_t bytes = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return bytes <= 63 ? bytes : 0;
}

static bool foveate__is_stream(const char *stream) {
    size_t bytes = foveate__name_bytes(stream);
    return 0 < bytes && stream[bytes] == '\0';
}

// Whether `view` is STREAM/VIEW.
static bool foveate__is_view(const char *view) {
    size_t bytes = foveate__name_bytes(view);
    return 0 < bytes && view[bytes] == '/' && foveate__is_stream(view + bytes + 1);
}

static const char *foveate__variable(const char *name) {
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

// Makes an address of a path, if it fits.
__attribute__((format(printf, 3, 4))) static enum foveate_result
foveate__set_address(struct sockaddr_un *address, struct foveate_error *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(address->sun_path, sizeof address->sun_path, format, arguments);
    va_end(arguments);
    address->sun_family = AF_UNIX;
    if (0 < length && (size_t)length < sizeof address->sun_path) return FOVEATE_OK;
    return foveate__fail(error, FOVEATE_INVALID, "invalid socket path: %d bytes (expected 1 to %zu): choose another one",
                         length, sizeof address->sun_path - 1);
}

// Where the socket may be: under `name` in `directory`, of whose path `bytes` count.
struct foveate__place {
    const char *directory;
    int bytes;
    const char *name;
};

static enum foveate_result foveate__set_place(struct sockaddr_un *address, const struct foveate__place *place,
                                              struct foveate_error *error) {
    return foveate__set_address(address, error, "%.*s/%s", place->bytes, place->directory, place->name);
}

// The daemon's address: see docs/reference/control.md.
static enum foveate_result foveate__find_address(struct sockaddr_un *address, const char *socket_path,
                                                 struct foveate_error *error) {
    const char *path = socket_path != NULL ? socket_path : foveate__variable("FOVEATE_SOCKET");
    if (path != NULL) return foveate__set_address(address, error, "%s", path);
    const char *runtime = foveate__variable("RUNTIME_DIRECTORY");
    // systemd separates several directories by colons.
    if (runtime != NULL) runtime += strspn(runtime, ":");
    size_t bytes = runtime != NULL ? strcspn(runtime, ":") : 0;
    const char *user = foveate__variable("XDG_RUNTIME_DIR");
    // Its specification demands that a relative path is ignored.
    if (user != NULL && user[0] != '/') user = NULL;
    int most = (int)sizeof address->sun_path;
    struct foveate__place places[3] = {
        {runtime, bytes < (size_t)most ? (int)bytes : most, "foveate.sock"},
        {user, most, "foveate/foveate.sock"},
        {"/run", most, "foveate/foveate.sock"},
    };
    const struct foveate__place *first = NULL;
    for (const struct foveate__place *place = places; place < places + 3; place++) {
        if (place->directory == NULL || place->bytes == 0) continue;
        if (first == NULL) first = place;
        struct foveate_error too_long;
        struct stat status;
        enum foveate_result result = foveate__set_place(address, place, &too_long);
        if (result == FOVEATE_OK && stat(address->sun_path, &status) == 0) return FOVEATE_OK;
    }
    return foveate__set_place(address, first, error);
}

static enum foveate_result foveate__fail_connect(struct foveate_error *error, const char *path, int number) {
    switch (number) {
    case ENOENT:
    case ENOTDIR:
    case ECONNREFUSED:
        return foveate__fail(error, FOVEATE_NO_DAEMON,
                             "no daemon listens on %s: start `foveated`, or give its path with FOVEATE_SOCKET", path);
    case EACCES:
    case EPERM:
        return foveate__fail(error, FOVEATE_PERMISSION,
                             "no permission for %s: run as the daemon's user or as a member of its group", path);
    case EPROTOTYPE:
        return foveate__fail(error, FOVEATE_NO_DAEMON, "%s is the socket of another program: give the daemon's path",
                             path);
    case EAGAIN:
        return foveate__fail(error, FOVEATE_TIMED_OUT, "the daemon at %s does not accept clients: it may be overloaded or stopped",
                             path);
    default: return foveate__fail_system(error, "connect", number);
    }
}

// Connects without waiting: a local socket accepts a connection at once, or its queue is full.
static enum foveate_result foveate__connect(const struct sockaddr_un *address, int *connected, struct foveate_error *error) {
    int socket_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket_fd < 0) return foveate__fail_system(error, "socket", errno);
    if (connect(socket_fd, (const struct sockaddr *)address, (socklen_t)sizeof *address) != 0) {
        int number = errno;
        close(socket_fd);
        return foveate__fail_connect(error, address->sun_path, number);
    }
    *connected = socket_fd;
    return FOVEATE_OK;
}

// Sends `request` and the raw bytes that belong to it as one message.
static enum foveate_result foveate__send(int socket, const struct foveate__request *request, const void *payload,
                                         size_t payload_bytes, int64_t deadline_ns, struct foveate_error *error) {
    struct iovec parts[2];
    parts[0].iov_base = (void *)(uintptr_t)request->text;
    parts[0].iov_len = request->length;
    parts[1].iov_base = (void *)(uintptr_t)payload;
    parts[1].iov_len = payload_bytes;
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = parts;
    message.msg_iovlen = payload_bytes == 0 ? 1 : 2;
    for (;;) {
        if (0 <= sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT)) return FOVEATE_OK;
        // A daemon that rejects a client sends the reason before it hangs up, which is received later.
        if (errno == EPIPE || errno == ECONNRESET) return FOVEATE_OK;
        if (errno != EAGAIN && errno != EINTR) return foveate__fail_system(error, "sendmsg", errno);
        if (foveate__poll(socket, POLLOUT, deadline_ns) == 0) {
            return foveate__fail(error, FOVEATE_TIMED_OUT, "the daemon does not read messages: it may be overloaded or stopped");
        }
    }
}

// A received message.
struct foveate__received {
    ssize_t bytes;  // 0: the daemon hung up; -1: nothing to receive
    int descriptor; // that came with it, or -1
};

// Takes the descriptor out of a message, and closes any other.
static int foveate__taken_descriptor(struct msghdr *message) {
    int taken = -1;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t index = 0; index < count; index++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(part) + index * sizeof descriptor, sizeof descriptor);
            if (taken < 0) {
                taken = descriptor;
            } else {
                close(descriptor);
            }
        }
    }
    return taken;
}

// Receives one message into `inbox`, without waiting. The caller closes the descriptor.
static enum foveate_result foveate__receive(int socket, char inbox[FOVEATE__INBOX_BYTES], struct foveate__received *received,
                                            struct foveate_error *error) {
    union {
        struct cmsghdr aligned;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {inbox, FOVEATE__INBOX_BYTES};
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    received->descriptor = -1;
    do {
        received->bytes = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (received->bytes < 0 && errno == EINTR);
    if (received->bytes < 0) {
        if (errno == EAGAIN) return FOVEATE_OK;
        if (errno != ECONNRESET) return foveate__fail_system(error, "recvmsg", errno);
        received->bytes = 0;
        return FOVEATE_OK;
    }
    received->descriptor = foveate__taken_descriptor(&message);
    if ((message.msg_flags & MSG_TRUNC) == 0) return FOVEATE_OK;
    if (0 <= received->descriptor) close(received->descriptor);
    return foveate__fail(error, FOVEATE_NOT_UNDERSTOOD,
                         "the daemon sent more than %d bytes at once: daemon and reader may be of different versions",
                         FOVEATE__INBOX_BYTES);
}

static enum foveate_result foveate__fail_not_understood(struct foveate_error *error, struct foveate__span message) {
    int bytes = (int)(message.end - message.at);
    return foveate__fail(error, FOVEATE_NOT_UNDERSTOOD,
                         "cannot understand the daemon's message (\"%.*s\"): daemon and reader may be of different versions",
                         bytes < 80 ? bytes : 80, message.at);
}

// The result of an answer: FOVEATE_OK if the request was granted.
static enum foveate_result foveate__answer_result(struct foveate__span answer, struct foveate_error *error) {
    struct foveate__span value;
    if (!foveate__find(answer, "ok", &value)) return foveate__fail_not_understood(error, answer);
    if (foveate__is(value, "true")) return FOVEATE_OK;
    foveate__fail(error, FOVEATE_REFUSED, "the daemon refused without a reason");
    if (foveate__find(answer, "reason", &value)) foveate__string(value, error->reason, sizeof error->reason);
    if (foveate__find(answer, "error", &value)) foveate__string(value, error->text, sizeof error->text);
    return FOVEATE_REFUSED;
}

// ---------------------------------------------------------------------------------------------------------------------
// The segment. Other processes write it while it is read: it is accessed only through these loads.

static uint32_t foveate__load_u32(const void *address) {
    return __atomic_load_n((const uint32_t *)address, __ATOMIC_RELAXED);
}

static uint64_t foveate__load_u64(const void *address) {
    return __atomic_load_n((const uint64_t *)address, __ATOMIC_RELAXED);
}

// Copies `bytes` bytes from the segment, word by word, relaxed. `source` is aligned to a word, and the last word may be
// read completely.
static void foveate__load(void *target, const void *source, size_t bytes) {
    const unsigned char *from = (const unsigned char *)source;
    unsigned char *to = (unsigned char *)target;
    size_t whole = bytes & ~(size_t)7;
    // Unrolled by hand: compilers do not unroll loops over atomics, and this one dominates the time of a read.
#pragma GCC unroll 8
    for (size_t offset = 0; offset < whole; offset += 8) {
        uint64_t word = foveate__load_u64(from + offset);
        memcpy(to + offset, &word, sizeof word);
    }
    if (whole < bytes) {
        uint64_t word = foveate__load_u64(from + whole);
        memcpy(to + whole, &word, bytes - whole);
    }
}

// A mapped segment. `base` is NULL if there is none.
struct foveate__mapping {
    const unsigned char *base;
    struct foveate_segment segment;
};

static void foveate__unmap(struct foveate__mapping *mapping) {
    if (mapping->base != NULL) munmap((void *)(uintptr_t)mapping->base, (size_t)mapping->segment.header.total_bytes);
    mapping->base = NULL;
}

static const struct foveate_live *foveate__live(const struct foveate__mapping *mapping) {
    return (const struct foveate_live *)(const void *)(mapping->base + FOVEATE_LIVE_OFFSET);
}

// The slot of frame `sequence`, past, present or future.
static const unsigned char *foveate__slot(const struct foveate__mapping *mapping, uint64_t sequence) {
    const struct foveate_segment_header *header = &mapping->segment.header;
    return mapping->base + FOVEATE_HEADER_BYTES + (size_t)(sequence % header->slot_count) * (size_t)header->slot_stride;
}

// Whether `slot` holds frame `sequence`, whole. Later loads are of that frame or of a later one.
static bool foveate__holds(const unsigned char *slot, uint64_t sequence) {
    uint64_t lock = foveate__load_u64(slot + offsetof(struct foveate_slot_header, lock));
    // SYNC(filled): pairs with the last store in `Lock::write`.
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return lock == 2 * sequence;
}

// Whether `slot` has held frame `sequence` until now. If so, earlier loads are of that frame.
static bool foveate__still_holds(const unsigned char *slot, uint64_t sequence) {
    // SYNC(torn): pairs with the fence in `Lock::write`.
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return foveate__load_u64(slot + offsetof(struct foveate_slot_header, lock)) == 2 * sequence;
}

// Checks that accesses to the memory cannot raise SIGBUS.
static enum foveate_result foveate__check_file(int file, size_t *bytes, struct foveate_error *error) {
    const int required = F_SEAL_GROW | F_SEAL_SHRINK | FOVEATE__SEAL_FUTURE_WRITE;
    int seals = fcntl(file, F_GET_SEALS);
    if (seals < 0) {
        return foveate__fail(error, FOVEATE_NOT_A_SEGMENT, "the descriptor is not a Foveate segment: it is not shared memory");
    }
    if ((seals & required) != required) {
        return foveate__fail(error, FOVEATE_NOT_A_SEGMENT,
                             "the descriptor is not a Foveate segment: it lacks seals, has %#x and needs %#x", (unsigned)seals,
                             (unsigned)required);
    }
    struct stat status;
    if (fstat(file, &status) != 0) return foveate__fail_system(error, "fstat", errno);
    if (status.st_size < FOVEATE_HEADER_BYTES || status.st_size % 8 != 0) {
        return foveate__fail(error, FOVEATE_NOT_A_SEGMENT, "the descriptor is not a Foveate segment: it has %lld bytes",
                             (long long)status.st_size);
    }
    // st_blocks counts units of 512 bytes whatever the file system.
    if (status.st_blocks < (status.st_size + 511) / 512) {
        return foveate__fail(error, FOVEATE_NOT_A_SEGMENT,
                             "the descriptor is not a Foveate segment: only %lld * 512 of its %lld bytes are reserved",
                             (long long)status.st_blocks, (long long)status.st_size);
    }
    *bytes = (size_t)status.st_size;
    return FOVEATE_OK;
}

static enum foveate_result foveate__malformed(struct foveate_error *error, const char *field, uint64_t value) {
    return foveate__fail(error, FOVEATE_MALFORMED,
                         "invalid segment: %s is %llu; its writer has a bug, or is of another version", field,
                         (unsigned long long)value);
}

// Whether `text` ends inside its field and is UTF-8.
static bool foveate__is_text(const char *text, size_t size) {
    size_t length = strnlen(text, size);
    if (length == size) return false;
    for (size_t at = 0; at < length;) {
        unsigned char lead = (unsigned char)text[at];
        size_t bytes = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
        if (bytes == 0 || length - at < bytes) return false;
        unsigned code = bytes < 2 ? lead : lead & (0x7Fu >> bytes);
        for (size_t next = 1; next < bytes; next++) {
            unsigned char byte = (unsigned char)text[at + next];
            if ((byte & 0xC0) != 0x80) return false;
            code = code << 6 | (byte & 0x3Fu);
        }
        bool is_long = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
        if (is_long || 0x10FFFF < code || (0xD800 <= code && code <= 0xDFFF)) return false;
        at += bytes;
    }
    return true;
}

// Products of numbers from a segment: false on overflow.
static bool foveate__multiply(uint64_t a, uint64_t b, uint64_t *product) {
    return !__builtin_mul_overflow(a, b, product);
}

static uint32_t foveate__dtype_bytes(uint32_t dtype) {
    switch (dtype) {
    case FOVEATE_DTYPE_U8: return 1;
    case FOVEATE_DTYPE_F16:
    case FOVEATE_DTYPE_BF16: return 2;
    case FOVEATE_DTYPE_F32: return 4;
    default: return 0;
    }
}

// Two u32 and a small factor fit a u64.
static uint64_t foveate__records_end(const struct foveate_segment_header *header) {
    return (uint64_t)header->records_offset + (uint64_t)header->token_capacity * sizeof(struct foveate_token);
}

#define FOVEATE__ENSURE(condition, field, value) \
    do { \
        if (!(condition)) return foveate__malformed(error, field, (uint64_t)(value)); \
    } while (0)

// Checks that the slots fill the segment, and that the records fit in a slot.
static enum foveate_result foveate__check_sizes(const struct foveate_segment_header *header, size_t file_bytes,
                                                struct foveate_error *error) {
    FOVEATE__ENSURE(header->header_bytes == FOVEATE_HEADER_BYTES, "header_bytes", header->header_bytes);
    FOVEATE__ENSURE(header->slot_header_bytes == sizeof(struct foveate_slot_header), "slot_header_bytes",
                    header->slot_header_bytes);
    FOVEATE__ENSURE(header->record_bytes == sizeof(struct foveate_token), "record_bytes", header->record_bytes);
    FOVEATE__ENSURE(header->total_bytes == file_bytes, "total_bytes", header->total_bytes);
    FOVEATE__ENSURE(FOVEATE_SLOT_COUNT_MIN <= header->slot_count && header->slot_count <= FOVEATE_SLOT_COUNT_MAX, "slot_count",
                    header->slot_count);
    FOVEATE__ENSURE(header->slot_stride % 64 == 0, "slot_stride", header->slot_stride);
    uint64_t slots_bytes;
    FOVEATE__ENSURE(foveate__multiply(header->slot_stride, header->slot_count, &slots_bytes)
                        && slots_bytes == header->total_bytes - FOVEATE_HEADER_BYTES,
                    "slot_stride", header->slot_stride);
    FOVEATE__ENSURE(sizeof(struct foveate_slot_header) <= header->records_offset && header->records_offset % 8 == 0,
                    "records_offset", header->records_offset);
    FOVEATE__ENSURE(1 <= header->token_capacity && header->token_capacity <= FOVEATE_TOKEN_CAPACITY_MAX
                        && foveate__records_end(header) <= header->slot_stride,
                    "token_capacity", header->token_capacity);
    return FOVEATE_OK;
}

// Whether a plane has an item for each token.
static bool foveate__is_of_tokens(const struct foveate_plane *plane) { return plane->order[0] == 'N'; }

// Size of a plane's items in a frame.
static size_t foveate__plane_bytes(const struct foveate_plane *plane, size_t token_count) {
    return (foveate__is_of_tokens(plane) ? token_count : plane->shape[0]) * (size_t)plane->token_stride;
}

// Checks that a plane is after the records and inside the slot, with room for every item.
static enum foveate_result foveate__check_plane(const struct foveate_segment_header *header, const struct foveate_plane *plane,
                                                struct foveate_error *error) {
    uint64_t item_bytes = foveate__dtype_bytes(plane->dtype), items_bytes = 0;
    FOVEATE__ENSURE(0 < item_bytes, "planes.dtype", plane->dtype);
    FOVEATE__ENSURE(1 <= plane->ndim && plane->ndim <= 4, "planes.ndim", plane->ndim);
    FOVEATE__ENSURE(foveate__is_of_tokens(plane) ? plane->shape[0] == header->token_capacity : 0 < plane->shape[0],
                    "planes.shape[0]", plane->shape[0]);
    FOVEATE__ENSURE(plane->offset % 64 == 0 && foveate__records_end(header) <= plane->offset, "planes.offset", plane->offset);
    FOVEATE__ENSURE(plane->offset <= header->slot_stride && plane->bytes <= header->slot_stride - plane->offset, "planes.bytes",
                    plane->bytes);
    for (uint32_t axis = 1; axis < plane->ndim; axis++) {
        FOVEATE__ENSURE(0 < plane->shape[axis] && foveate__multiply(item_bytes, plane->shape[axis], &item_bytes), "planes.shape",
                        plane->shape[axis]);
    }
    FOVEATE__ENSURE(item_bytes <= plane->token_stride
                        && foveate__multiply(plane->token_stride, plane->shape[0], &items_bytes)
                        && items_bytes <= plane->bytes,
                    "planes.token_stride", plane->token_stride);
    FOVEATE__ENSURE(foveate__is_text(plane->name, sizeof plane->name), "planes.name[0]", plane->name[0]);
    FOVEATE__ENSURE(foveate__is_text(plane->order, sizeof plane->order), "planes.order[0]", plane->order[0]);
    return FOVEATE_OK;
}

// Checks that the first plane is dense [capacity, 3, P, P].
static enum foveate_result foveate__check_pixels(const struct foveate_segment_header *header, struct foveate_error *error) {
    const struct foveate_plane *pixels = &header->planes[0];
    uint64_t side = header->patch_side;
    FOVEATE__ENSURE(strcmp(pixels->name, "pixels") == 0, "planes[0].name[0]", pixels->name[0]);
    FOVEATE__ENSURE(strcmp(pixels->order, "NCHW") == 0, "planes[0].order[0]", pixels->order[0]);
    FOVEATE__ENSURE(pixels->ndim == 4, "planes[0].ndim", pixels->ndim);
    FOVEATE__ENSURE(pixels->shape[1] == 3, "planes[0].shape[1]", pixels->shape[1]);
    FOVEATE__ENSURE(pixels->shape[2] == side, "planes[0].shape[2]", pixels->shape[2]);
    FOVEATE__ENSURE(pixels->shape[3] == side, "planes[0].shape[3]", pixels->shape[3]);
    FOVEATE__ENSURE(1 <= side && side <= FOVEATE_PATCH_SIDE_MAX
                        && 3 * side * side * foveate__dtype_bytes(pixels->dtype) == pixels->token_stride,
                    "patch_side", side);
    return FOVEATE_OK;
}

static enum foveate_result foveate__check_facts(const struct foveate_segment *segment, struct foveate_error *error) {
    const struct foveate_segment_header *header = &segment->header;
    FOVEATE__ENSURE(1 <= header->source_width && header->source_width <= FOVEATE_SOURCE_SIDE_MAX, "source_width",
                    header->source_width);
    FOVEATE__ENSURE(1 <= header->source_height && header->source_height <= FOVEATE_SOURCE_SIDE_MAX, "source_height",
                    header->source_height);
    FOVEATE__ENSURE(1 <= header->backend_kind && header->backend_kind <= 2, "backend_kind", header->backend_kind);
    FOVEATE__ENSURE(1 <= header->fovea_capacity && header->fovea_capacity <= FOVEATE_FOVEAE_MAX, "fovea_capacity",
                    header->fovea_capacity);
    // Two u32 fit a u64.
    uint64_t cells = (uint64_t)header->grid_columns * header->grid_rows;
    FOVEATE__ENSURE((0 < cells && cells <= header->token_capacity) || (header->grid_columns == 0 && header->grid_rows == 0),
                    "grid_columns x grid_rows", cells);
    FOVEATE__ENSURE(header->outside <= FOVEATE_OUTSIDE_MEAN, "outside", header->outside);
    FOVEATE__ENSURE(header->rounding <= FOVEATE_ROUNDING_FLOOR, "rounding", header->rounding);
    FOVEATE__ENSURE((header->pixel_aspect_width == 0) == (header->pixel_aspect_height == 0),
                    "pixel_aspect_width : pixel_aspect_height", header->pixel_aspect_width);
    FOVEATE__ENSURE(foveate__is_text(header->stream_name, sizeof header->stream_name), "stream_name[0]",
                    header->stream_name[0]);
    FOVEATE__ENSURE(foveate__is_text(header->view_name, sizeof header->view_name), "view_name[0]", header->view_name[0]);
    FOVEATE__ENSURE(foveate__is_text(header->layout_name, sizeof header->layout_name), "layout_name[0]",
                    header->layout_name[0]);
    FOVEATE__ENSURE(foveate__is_text(header->pixel_format, sizeof header->pixel_format), "pixel_format[0]",
                    header->pixel_format[0]);
    FOVEATE__ENSURE(foveate__is_text(header->backend_device, sizeof header->backend_device), "backend_device[0]",
                    header->backend_device[0]);
    const struct foveate_camera *camera = &header->camera;
    FOVEATE__ENSURE(camera->coefficient_count <= 14, "camera.coefficient_count", camera->coefficient_count);
    FOVEATE__ENSURE(foveate__is_text(camera->distortion_name, sizeof camera->distortion_name), "camera.distortion_name[0]",
                    camera->distortion_name[0]);
    const struct foveate_camera_frame *frame = &segment->camera_frame;
    FOVEATE__ENSURE(foveate__is_text(frame->optical_frame, sizeof frame->optical_frame), "camera.optical_frame[0]",
                    frame->optical_frame[0]);
    FOVEATE__ENSURE(foveate__is_text(frame->parent_frame, sizeof frame->parent_frame), "camera.parent_frame[0]",
                    frame->parent_frame[0]);
    const struct foveate_channels *channels = &segment->channels;
    int plane = foveate_plane_index(segment, "channels");
    uint32_t channel_count = plane < 0 ? 0 : header->planes[plane].shape[0];
    FOVEATE__ENSURE(plane < 0 || strcmp(header->planes[plane].order, "CHW") == 0, "planes.order[0]", header->planes[plane].order[0]);
    FOVEATE__ENSURE(plane < 0 || header->planes[plane].ndim == 3, "planes.ndim", header->planes[plane].ndim);
    FOVEATE__ENSURE(plane < 0 || 0 < channels->cell_side, "channels.cell_side", channels->cell_side);
    FOVEATE__ENSURE(channels->count == channel_count && channel_count <= FOVEATE_CHANNEL_COUNT_MAX, "channels.count",
                    channels->count);
    for (uint32_t index = 0; index < channel_count; index++) {
        const char *name = channels->names[index];
        FOVEATE__ENSURE(foveate__is_text(name, sizeof channels->names[index]), "channels.names[0]", name[0]);
    }
    return FOVEATE_OK;
}

// Checks a copy of a segment's header, which is trusted from then on.
static enum foveate_result foveate__check_segment(const struct foveate_segment *segment, size_t file_bytes,
                                                  struct foveate_error *error) {
    const struct foveate_segment_header *header = &segment->header;
    if (memcmp(header->magic, "FOVEATE", 8) != 0) {
        return foveate__fail(error, FOVEATE_NOT_A_SEGMENT,
                             "the descriptor is not a Foveate segment: it starts with other bytes");
    }
    if (header->abi_major != FOVEATE_ABI_MAJOR) {
        return foveate__fail(error, FOVEATE_VERSION,
                             "the segment follows ABI %u.%u, but this reader supports %d.%d: compile with the foveate.h of the daemon",
                             header->abi_major, header->abi_minor, FOVEATE_ABI_MAJOR, FOVEATE_ABI_MINOR);
    }
    enum foveate_result result = foveate__check_sizes(header, file_bytes, error);
    if (result != FOVEATE_OK) return result;
    FOVEATE__ENSURE(1 <= header->plane_count && header->plane_count <= FOVEATE_PLANE_COUNT_MAX, "plane_count",
                    header->plane_count);
    for (uint32_t index = 0; index < header->plane_count; index++) {
        const struct foveate_plane *plane = &header->planes[index];
        result = foveate__check_plane(header, plane, error);
        if (result != FOVEATE_OK) return result;
        for (uint32_t other = 0; other < index; other++) {
            FOVEATE__ENSURE(strcmp(header->planes[other].name, plane->name) != 0, "planes.name[0]", plane->name[0]);
        }
    }
    result = foveate__check_pixels(header, error);
    return result != FOVEATE_OK ? result : foveate__check_facts(segment, error);
}

// Maps and checks the segment of `file`, which is not needed afterwards. Leaves `mapping` empty on failure.
static enum foveate_result foveate__map(struct foveate__mapping *mapping, int file, struct foveate_error *error) {
    size_t bytes = 0;
    mapping->base = NULL;
    enum foveate_result result = foveate__check_file(file, &bytes, error);
    if (result != FOVEATE_OK) return result;
    // Pages are mapped at once, so that the first frames cause no page faults.
    void *address = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
    if (address == MAP_FAILED) return foveate__fail_system(error, "mmap", errno);
    const unsigned char *base = (const unsigned char *)address;
    struct foveate_segment *segment = &mapping->segment;
    foveate__load(&segment->header, base, sizeof segment->header);
    foveate__load(&segment->camera_frame, base + FOVEATE_CAMERA_FRAME_OFFSET, sizeof segment->camera_frame);
    foveate__load(&segment->channels, base + FOVEATE_CHANNEL_OFFSET, sizeof segment->channels);
    result = foveate__check_segment(segment, bytes, error);
    if (result != FOVEATE_OK) {
        munmap(address, bytes);
        return result;
    }
    if (segment->header.pixel_aspect_width == 0) {
        segment->header.pixel_aspect_width = segment->header.pixel_aspect_height = 1;
    }
    segment->dtype = (enum foveate_dtype)segment->header.planes[0].dtype;
    segment->token_bytes = (size_t)segment->header.planes[0].token_stride;
    mapping->base = base;
    return FOVEATE_OK;
}

// ---------------------------------------------------------------------------------------------------------------------
// The reader.

// Progress of a view's end.
enum foveate__ending {
    FOVEATE__RUNNING,
    FOVEATE__ENDED,   // the daemon has sent the reason
    FOVEATE__HUNG_UP, // there is no connection
};

struct foveate_reader {
    char view[FOVEATE__VIEW_BYTES];
    struct sockaddr_un address;
    unsigned flags;

    char stream[FOVEATE__STREAM_BYTES];     // of a view of the caller's own; else empty
    char keys[FOVEATE__KEYS_BYTES_MAX + 2]; // of that view, and the brace that ends the request
    bool is_making_view;                    // the daemon has not answered `open_view` yet

    bool is_granted;     // the daemon has answered the subscription
    bool was_granted;    // a daemon has, once
    bool awaits_segment; // none has come over this connection; `current`, if any, is that of a daemon before
    bool reconnects;     // reconnects automatically
    int64_t retry_ns;    // time of the next attempt
    int beacon;          // an epoll of the connection with news, or of `timer`, if it reconnects; else -1
    int timer;           // runs out at `retry_ns` while there is no connection; or -1
    int subscription;    // a socket, or -1
    enum foveate__ending ending;
    char ending_reason[512]; // with FOVEATE__ENDED: a code if the view may come back
    char ending_text[512];   // the same in words; may be empty

    int steering;         // a socket, or -1
    unsigned answers_due; // on it

    struct foveate__mapping current;
    struct foveate__mapping next; // takes over once every frame of `current` was read
    uint64_t segment_count;       // that were in use
    uint64_t last;                // ring sequence of the last frame that was read or skipped
    uint64_t passed_over;         // frames skipped since the last one that was read
    uint32_t seen;                // the futex word before the last load of the newest sequence
    uint64_t max_age_ns;          // of frames; 0: any

    struct foveate_error error;
    char inbox[FOVEATE__INBOX_BYTES];
};

// Lets the descriptor for poll(2) become readable with `socket`.
static void foveate__watch(struct foveate_reader *reader, int socket) {
    if (reader->beacon < 0) return;
    struct epoll_event event;
    memset(&event, 0, sizeof event);
    event.events = EPOLLIN;
    epoll_ctl(reader->beacon, EPOLL_CTL_ADD, socket, &event);
}

// Lets it become readable with a socket no longer. A fork may have that too, so closing it would not be enough.
static void foveate__unwatch(struct foveate_reader *reader, int socket) {
    if (0 <= reader->beacon) epoll_ctl(reader->beacon, EPOLL_CTL_DEL, socket, NULL);
}

// Lets it become readable when it is time to look for the daemon, or not by time.
static void foveate__set_timer(struct foveate_reader *reader, bool is_looking) {
    struct itimerspec setting;
    memset(&setting, 0, sizeof setting);
    // A time that is over is as good as now, and 0 is never.
    if (is_looking) setting.it_value = foveate__timespec(reader->retry_ns < 1 ? 1 : reader->retry_ns);
    if (0 <= reader->timer) timerfd_settime(reader->timer, TFD_TIMER_ABSTIME, &setting, NULL);
}

static void foveate__close(int *descriptor) {
    if (0 <= *descriptor) close(*descriptor);
    *descriptor = -1;
}

static void foveate__disconnect(struct foveate_reader *reader, int *socket) {
    if (0 <= *socket) foveate__unwatch(reader, *socket);
    foveate__close(socket);
}

static enum foveate_result foveate__fail_disconnected(struct foveate_reader *reader) {
    if (reader->reconnects && !reader->was_granted) {
        return foveate__fail(&reader->error, FOVEATE_DISCONNECTED,
                             "no daemon has answered on %s yet; read on until one does, or give its path with FOVEATE_SOCKET",
                             reader->address.sun_path);
    }
    return foveate__fail(&reader->error, FOVEATE_DISCONNECTED,
                         "the daemon is gone: it has stopped, or it dropped this connection; %s",
                         reader->reconnects ? "read on until it is back and has the view" : "connect again when it is back");
}

// Whether no daemon serves the view: it has hung up, or has not answered yet since another one did.
static bool foveate__is_away(const struct foveate_reader *reader) {
    return reader->ending == FOVEATE__HUNG_UP || (reader->ending == FOVEATE__RUNNING && !reader->is_granted);
}

// Whether the view is the caller's own.
static bool foveate__is_own(const struct foveate_reader *reader) {
    return reader->stream[0] != '\0';
}

// The connection with the next event, or -1.
static int foveate__news_socket(const struct foveate_reader *reader) {
    return reader->is_making_view ? reader->steering : reader->subscription;
}

// Newest ring sequence. There is a segment.
static uint64_t foveate__look_newest(struct foveate_reader *reader) {
    const struct foveate_live *live = foveate__live(&reader->current);
    reader->seen = foveate__load_u32(&live->futex);
    // SYNC(bumped): pairs with the addition in `Live::bump`.
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    uint64_t newest = foveate__load_u64(&live->newest);
    // SYNC(published): pairs with the store in `Live::publish`.
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return newest;
}

static bool foveate__has_news(const struct foveate_reader *reader) {
    const struct foveate_live *live = foveate__live(&reader->current);
    return reader->last < foveate__load_u64(&live->newest) || reader->seen != foveate__load_u32(&live->futex);
}

// Takes a received segment. A pending one is dropped: its frames are older.
static enum foveate_result foveate__take_segment(struct foveate_reader *reader, int descriptor) {
    if (descriptor < 0) {
        return foveate__fail(&reader->error, FOVEATE_NOT_UNDERSTOOD,
                             "a segment arrived without a descriptor: close some files, or raise the limit of open files");
    }
    foveate__unmap(&reader->next);
    enum foveate_result result = foveate__map(&reader->next, descriptor, &reader->error);
    if (result == FOVEATE_OK) reader->ending = FOVEATE__RUNNING;
    if (result == FOVEATE_OK) reader->awaits_segment = false;
    return result;
}

static void foveate__hang_up(struct foveate_reader *reader) {
    foveate__disconnect(reader, &reader->subscription);
    foveate__disconnect(reader, &reader->steering);
    reader->answers_due = 0;
    reader->is_making_view = reader->is_granted = false;
    reader->awaits_segment = true;
    reader->ending = FOVEATE__HUNG_UP;
    foveate__set_timer(reader, true);
}

// Whether a refusal is temporary: the daemon has just started, is about to stop, or has not noticed yet that a
// connection is gone.
static bool foveate__is_temporary(const char *reason) {
    const char *temporary[] = {"not-started", "ended", "busy", "name-taken", "too-many-clients"};
    for (size_t index = 0; index < sizeof temporary / sizeof *temporary; index++) {
        if (strcmp(reason, temporary[index]) == 0) return true;
    }
    return false;
}

// Hangs up after a failed connection. FOVEATE_OK if the reader will try again, else the error.
static enum foveate_result foveate__give_up_connecting(struct foveate_reader *reader, enum foveate_result error) {
    foveate__hang_up(reader);
    bool is_temporary = error == FOVEATE_NO_DAEMON || error == FOVEATE_TIMED_OUT || error == FOVEATE_DISCONNECTED
                      || (error == FOVEATE_REFUSED && foveate__is_temporary(reader->error.reason));
    return reader->reconnects && is_temporary ? FOVEATE_OK : error;
}

// The answer to `subscribe`. A connection whose subscription was refused is closed.
static enum foveate_result foveate__take_subscription_answer(struct foveate_reader *reader, struct foveate__span answer) {
    enum foveate_result result = foveate__answer_result(answer, &reader->error);
    if (result == FOVEATE_REFUSED) return foveate__give_up_connecting(reader, result);
    if (result == FOVEATE_OK) reader->is_granted = reader->was_granted = true;
    return result;
}

// Takes one message of the subscription. Unknown messages were added later and are ignored.
static enum foveate_result foveate__take_message(struct foveate_reader *reader, struct foveate__received received) {
    struct foveate__span message = {reader->inbox, reader->inbox + received.bytes}, value;
    if (received.bytes == FOVEATE__NOTICE_BYTES) return FOVEATE_OK;
    if (!foveate__find(message, "event", &value)) return foveate__take_subscription_answer(reader, message);
    if (foveate__is(value, "\"segment\"")) return foveate__take_segment(reader, received.descriptor);
    if (foveate__is(value, "\"ended\"")) {
        reader->ending = FOVEATE__ENDED;
        reader->ending_reason[0] = '\0';
        if (foveate__find(message, "reason", &value)) {
            foveate__string(value, reader->ending_reason, sizeof reader->ending_reason);
        }
        reader->ending_text[0] = '\0';
        if (foveate__find(message, "text", &value)) {
            foveate__string(value, reader->ending_text, sizeof reader->ending_text);
        }
    }
    return FOVEATE_OK;
}

// Takes one answer from the steering connection into `answer`. FOVEATE_NOTHING if there is none.
static enum foveate_result foveate__take_answer(struct foveate_reader *reader, struct foveate__span *answer) {
    struct foveate__received received;
    enum foveate_result result = foveate__receive(reader->steering, reader->inbox, &received, &reader->error);
    if (result != FOVEATE_OK) return result;
    if (received.bytes < 0) return FOVEATE_NOTHING;
    if (0 <= received.descriptor) close(received.descriptor);
    if (received.bytes == 0) {
        foveate__disconnect(reader, &reader->steering);
        reader->answers_due = 0;
        return foveate__fail_disconnected(reader);
    }
    if (0 < reader->answers_due) reader->answers_due--;
    answer->at = reader->inbox;
    answer->end = reader->inbox + received.bytes;
    return FOVEATE_OK;
}

// Connects and subscribes, without waiting for the answer.
static enum foveate_result foveate__subscribe(struct foveate_reader *reader) {
    enum foveate_result result = foveate__connect(&reader->address, &reader->subscription, &reader->error);
    if (result != FOVEATE_OK) return result;
    struct foveate__request request;
    foveate__begin(&request, "subscribe", reader->view);
    foveate__append(&request, ",\"notify\":%s}", (reader->flags & FOVEATE_NOTIFY) != 0 ? "true" : "false");
    result = foveate__send(reader->subscription, &request, NULL, 0, 0, &reader->error);
    if (result != FOVEATE_OK) foveate__disconnect(reader, &reader->subscription);
    if (result == FOVEATE_OK) foveate__watch(reader, reader->subscription);
    return result;
}

// Connects and opens a view of the caller's own, without waiting for the answer. It lives as long as this connection.
static enum foveate_result foveate__make_view(struct foveate_reader *reader) {
    enum foveate_result result = foveate__connect(&reader->address, &reader->steering, &reader->error);
    if (result != FOVEATE_OK) return result;
    struct foveate__request request;
    request.length = 0;
    foveate__append(&request, "{\"op\":\"open_view\",\"stream\":\"%s\",\"view\":", reader->stream);
    result = foveate__send(reader->steering, &request, reader->keys, strlen(reader->keys), 0, &reader->error);
    if (result != FOVEATE_OK) foveate__disconnect(reader, &reader->steering);
    if (result == FOVEATE_OK) foveate__watch(reader, reader->steering);
    reader->is_making_view = result == FOVEATE_OK;
    return result;
}

// Takes the address of an opened view.
static enum foveate_result foveate__take_view(struct foveate_reader *reader, struct foveate__span answer) {
    struct foveate__span value;
    char view[FOVEATE__VIEW_BYTES];
    enum foveate_result result = foveate__answer_result(answer, &reader->error);
    if (result != FOVEATE_OK) return result;
    if (!foveate__find(answer, "view", &value) || !foveate__string(value, view, sizeof view) || !foveate__is_view(view)) {
        return foveate__fail_not_understood(&reader->error, answer);
    }
    memcpy(reader->view, view, sizeof view);
    return FOVEATE_OK;
}

// Subscribes to the requested view once it is open.
static enum foveate_result foveate__go_on_connecting(struct foveate_reader *reader) {
    struct foveate__span answer = {NULL, NULL};
    enum foveate_result result = foveate__take_answer(reader, &answer);
    if (result == FOVEATE_NOTHING) return FOVEATE_OK;
    reader->is_making_view = false;
    if (0 <= reader->steering) foveate__unwatch(reader, reader->steering);
    if (result == FOVEATE_OK) result = foveate__take_view(reader, answer);
    if (result == FOVEATE_OK) result = foveate__subscribe(reader);
    return result == FOVEATE_OK ? FOVEATE_OK : foveate__give_up_connecting(reader, result);
}

// Receives events up to a new segment.
static enum foveate_result foveate__take_messages(struct foveate_reader *reader) {
    if (reader->is_making_view) {
        enum foveate_result result = foveate__go_on_connecting(reader);
        if (result != FOVEATE_OK) return result;
    }
    for (int taken = 0; taken < FOVEATE__MESSAGES_MAX && reader->next.base == NULL && 0 <= reader->subscription; taken++) {
        struct foveate__received received;
        enum foveate_result result = foveate__receive(reader->subscription, reader->inbox, &received, &reader->error);
        if (result != FOVEATE_OK) return result;
        if (received.bytes < 0) break;
        if (received.bytes == 0) {
            foveate__disconnect(reader, &reader->subscription);
            // An earlier message of the daemon is more specific than the hang-up.
            if (reader->ending == FOVEATE__RUNNING) reader->ending = FOVEATE__HUNG_UP;
            if (reader->ending == FOVEATE__HUNG_UP) foveate__set_timer(reader, true);
            break;
        }
        result = foveate__take_message(reader, received);
        if (0 <= received.descriptor) close(received.descriptor);
        if (result != FOVEATE_OK) return result;
    }
    return FOVEATE_OK;
}

// Moves to the pending segment. A reader sees the newest frame of the first segment at its opening, and every frame of
// later segments; nothing twice if a daemon that had only dropped the connection sends the segment in use again.
static enum foveate_result foveate__move_to_next(struct foveate_reader *reader) {
    bool is_other = reader->current.base == NULL
        || reader->current.segment.header.epoch != reader->next.segment.header.epoch;
    foveate__unmap(&reader->current);
    reader->current = reader->next;
    reader->next.base = NULL;
    if (is_other) reader->last = reader->passed_over = 0;
    uint64_t newest = foveate__look_newest(reader);
    if (reader->segment_count == 0 && 0 < newest) reader->last = newest - 1;
    reader->current.segment.number = ++reader->segment_count;
    return FOVEATE_NEW_SEGMENT;
}

// The header of frame `sequence`. False if its slot holds another.
static bool foveate__load_header(const struct foveate_reader *reader, uint64_t sequence, struct foveate_slot_header *head) {
    const unsigned char *slot = foveate__slot(&reader->current, sequence);
    if (!foveate__holds(slot, sequence)) return false;
    foveate__load(head, slot, sizeof *head);
    return foveate__still_holds(slot, sequence);
}

// The header of frame `sequence`, checked; FOVEATE_LAPPED if its slot holds another.
static enum foveate_result foveate__take_header(struct foveate_reader *reader, uint64_t sequence,
                                                struct foveate_slot_header *head) {
    struct foveate_error *error = &reader->error;
    if (!foveate__load_header(reader, sequence, head)) return FOVEATE_LAPPED;
    FOVEATE__ENSURE(head->ring_sequence == sequence, "ring_sequence", head->ring_sequence);
    FOVEATE__ENSURE(head->token_count <= reader->current.segment.header.token_capacity, "token_count", head->token_count);
    if (head->fixation_count < 1) head->fixation_count = 1;
    if (FOVEATE_FOVEAE_MAX < head->fixation_count) head->fixation_count = FOVEATE_FOVEAE_MAX;
    return FOVEATE_OK;
}

// Marks frame `sequence` as read, and returns the number of unread ones before it.
static uint64_t foveate__took(struct foveate_reader *reader, uint64_t sequence) {
    uint64_t missed = reader->passed_over + (sequence - reader->last - 1);
    reader->last = sequence;
    reader->passed_over = 0;
    return missed;
}

static bool foveate__is_too_old(const struct foveate_reader *reader, const struct foveate_slot_header *head) {
    return reader->max_age_ns != 0 && reader->max_age_ns < foveate_age_ns(head);
}

// Skips frame `sequence` and all before it.
static enum foveate_result foveate__pass_over(struct foveate_reader *reader, uint64_t sequence) {
    reader->passed_over += sequence - reader->last;
    reader->last = sequence;
    return FOVEATE_NOTHING;
}

// Checks that `token_count` tokens and the requested planes fit into `frame`.
static enum foveate_result foveate__check_room(struct foveate_reader *reader, const struct foveate_frame *frame,
                                               size_t token_count) {
    const struct foveate_segment_header *header = &reader->current.segment.header;
    for (uint32_t index = 0; index < header->plane_count; index++) {
        bool is_wanted = index == 0 || frame->planes[index] != NULL;
        size_t bytes = foveate__plane_bytes(&header->planes[index], token_count), room = frame->plane_capacities[index];
        if (token_count <= frame->token_capacity && (!is_wanted || bytes <= room)) continue;
        return foveate__fail(&reader->error, FOVEATE_TOO_SMALL,
                             "the frame has %zu tokens and %zu bytes of `%s`, and the buffer room for %zu and %zu: call "
                             "foveate_frame_reserve after FOVEATE_NEW_SEGMENT",
                             token_count, bytes, header->planes[index].name, frame->token_capacity, room);
    }
    return FOVEATE_OK;
}

// Copies the frame of a checked header; FOVEATE_LAPPED if the writer replaced it meanwhile.
static enum foveate_result foveate__copy_tokens(struct foveate_reader *reader, const struct foveate_slot_header *head,
                                                struct foveate_frame *frame) {
    const struct foveate_segment *segment = &reader->current.segment;
    const unsigned char *slot = foveate__slot(&reader->current, head->ring_sequence);
    size_t token_count = head->token_count;
    frame->planes[0] = frame->pixels;
    frame->plane_capacities[0] = frame->pixel_capacity;
    enum foveate_result result = foveate__check_room(reader, frame, token_count);
    if (result != FOVEATE_OK) return result;
    foveate__load(frame->tokens, slot + segment->header.records_offset, token_count * sizeof(struct foveate_token));
    for (uint32_t index = 0; index < segment->header.plane_count; index++) {
        const struct foveate_plane *plane = &segment->header.planes[index];
        if (frame->planes[index] == NULL) continue;
        foveate__load(frame->planes[index], slot + plane->offset, foveate__plane_bytes(plane, token_count));
    }
    if (!foveate__still_holds(slot, head->ring_sequence)) return FOVEATE_LAPPED;
    frame->head = *head;
    frame->missed = 0;
    frame->token_count = token_count;
    frame->pixel_bytes = token_count * segment->token_bytes;
    return FOVEATE_OK;
}

// Copies frame `sequence`; FOVEATE_LAPPED if the writer replaced it meanwhile.
static enum foveate_result foveate__copy(struct foveate_reader *reader, uint64_t sequence, struct foveate_frame *frame) {
    struct foveate_slot_header head;
    frame->token_count = frame->pixel_bytes = 0;
    enum foveate_result result = foveate__take_header(reader, sequence, &head);
    return result == FOVEATE_OK ? foveate__copy_tokens(reader, &head, frame) : result;
}

// Copies the unread frame `sequence`. FOVEATE_NOTHING, with the buffer unchanged, if it is too old and was skipped.
static enum foveate_result foveate__copy_unread(struct foveate_reader *reader, uint64_t sequence, struct foveate_frame *frame) {
    struct foveate_slot_header head;
    enum foveate_result result = foveate__take_header(reader, sequence, &head);
    if (result == FOVEATE_OK && foveate__is_too_old(reader, &head)) return foveate__pass_over(reader, sequence);
    frame->token_count = frame->pixel_bytes = 0;
    if (result == FOVEATE_OK) result = foveate__copy_tokens(reader, &head, frame);
    if (result == FOVEATE_OK) frame->missed = foveate__took(reader, sequence);
    return result;
}

static enum foveate_result foveate__fail_overtaken(struct foveate_reader *reader) {
    return foveate__fail(&reader->error, FOVEATE_OVERTAKEN,
                         "the writer overtook this reader %d times in a row: it stops for too long while it copies, or the "
                         "segment is broken",
                         FOVEATE__TRIES_MAX);
}

static enum foveate_result foveate__copy_newest(struct foveate_reader *reader, struct foveate_frame *frame) {
    for (int tries = 0; tries < FOVEATE__TRIES_MAX; tries++) {
        uint64_t newest = foveate__look_newest(reader);
        if (newest <= reader->last) return FOVEATE_NOTHING;
        enum foveate_result result = foveate__copy_unread(reader, newest, frame);
        if (result != FOVEATE_LAPPED) return result;
    }
    return foveate__fail_overtaken(reader);
}

static enum foveate_result foveate__copy_next(struct foveate_reader *reader, struct foveate_frame *frame) {
    uint64_t slots = reader->current.segment.header.slot_count, next = reader->last + 1;
    // A ring of frames may be too old.
    for (uint64_t tries = 0; tries < FOVEATE__TRIES_MAX + slots; tries++) {
        uint64_t newest = foveate__look_newest(reader);
        if (newest <= reader->last) return FOVEATE_NOTHING;
        uint64_t oldest = newest < slots ? 1 : newest - slots + 1;
        if (next < oldest) next = oldest;
        if (newest < next) next = newest;
        enum foveate_result result = foveate__copy_unread(reader, next, frame);
        if (result != FOVEATE_LAPPED && result != FOVEATE_NOTHING) return result;
        // It is too old, or the writer is replacing it.
        next++;
    }
    return foveate__fail_overtaken(reader);
}

// A frame by capture time.
struct foveate__capture {
    uint64_t sequence; // 0: there is none
    uint64_t capture_ns;
};

// Finds the newest whole frame of the ring, and the one captured nearest to `capture_ns`; the older of two.
static void foveate__find_nearest(const struct foveate_reader *reader, uint64_t capture_ns, uint64_t newest_sequence,
                                  struct foveate__capture *newest, struct foveate__capture *nearest) {
    struct foveate_slot_header head;
    uint64_t nearest_ns = UINT64_MAX;
    newest->sequence = nearest->sequence = 0;
    for (uint64_t back = 0; back < newest_sequence && back < reader->current.segment.header.slot_count; back++) {
        if (!foveate__load_header(reader, newest_sequence - back, &head)) continue;
        struct foveate__capture found = {newest_sequence - back, head.capture_ns};
        uint64_t distance_ns = head.capture_ns < capture_ns ? capture_ns - head.capture_ns : head.capture_ns - capture_ns;
        if (newest->sequence == 0) *newest = found;
        if (distance_ns <= nearest_ns) *nearest = found;
        if (distance_ns <= nearest_ns) nearest_ns = distance_ns;
    }
}

// Whether the daemon is there or may come back.
static bool foveate__may_go_on(const struct foveate_reader *reader) {
    if (reader->ending == FOVEATE__ENDED && strcmp(reader->ending_reason, "daemon_stopped") != 0
        && strcmp(reader->ending_reason, "stream_restarted") != 0) {
        return false;
    }
    return reader->ending == FOVEATE__RUNNING || reader->reconnects;
}

static enum foveate_result foveate__copy_nearest(struct foveate_reader *reader, uint64_t capture_ns,
                                                 struct foveate_frame *frame) {
    for (int tries = 0; tries < FOVEATE__TRIES_MAX; tries++) {
        uint64_t newest_sequence = foveate__look_newest(reader);
        if (newest_sequence == 0) return FOVEATE_NOTHING;
        struct foveate__capture newest, nearest;
        foveate__find_nearest(reader, capture_ns, newest_sequence, &newest, &nearest);
        if (nearest.sequence == 0) continue;
        // The requested frame will not come.
        if (newest.capture_ns < capture_ns && !foveate__may_go_on(reader)) return FOVEATE_NOTHING;
        enum foveate_result result = foveate__copy(reader, nearest.sequence, frame);
        if (result != FOVEATE_LAPPED) return result;
    }
    return foveate__fail_overtaken(reader);
}

static enum foveate_result foveate__borrow(struct foveate_reader *reader, struct foveate_borrowed *borrowed) {
    const struct foveate_segment *segment = &reader->current.segment;
    for (int tries = 0; tries < FOVEATE__TRIES_MAX; tries++) {
        uint64_t newest = foveate__look_newest(reader);
        if (newest <= reader->last) return FOVEATE_NOTHING;
        struct foveate_slot_header head;
        enum foveate_result result = foveate__take_header(reader, newest, &head);
        if (result == FOVEATE_LAPPED) continue;
        if (result != FOVEATE_OK) return result;
        if (foveate__is_too_old(reader, &head)) return foveate__pass_over(reader, newest);
        const unsigned char *slot = foveate__slot(&reader->current, newest);
        borrowed->head = head;
        borrowed->missed = foveate__took(reader, newest);
        borrowed->token_count = head.token_count;
        borrowed->pixel_bytes = borrowed->token_count * segment->token_bytes;
        borrowed->tokens = (const struct foveate_token *)(const void *)(slot + segment->header.records_offset);
        borrowed->segment_number = segment->number;
        memset(borrowed->planes, 0, sizeof borrowed->planes);
        for (uint32_t index = 0; index < segment->header.plane_count; index++) {
            borrowed->planes[index] = slot + segment->header.planes[index].offset;
        }
        borrowed->pixels = borrowed->planes[0];
        return FOVEATE_OK;
    }
    return foveate__fail_overtaken(reader);
}

// Which frame a read is for.
enum foveate__choice {
    FOVEATE__NEWEST,
    FOVEATE__NEXT,
    FOVEATE__NEAREST,
};

// A read request.
struct foveate__aim {
    struct foveate_frame *frame;       // to copy to
    struct foveate_borrowed *borrowed; // or to borrow, the newest
    enum foveate__choice choice;
    uint64_t capture_ns; // with FOVEATE__NEAREST
};

static enum foveate_result foveate__read_current(struct foveate_reader *reader, const struct foveate__aim *aim) {
    if (aim->borrowed != NULL) return foveate__borrow(reader, aim->borrowed);
    switch (aim->choice) {
    case FOVEATE__NEWEST: break;
    case FOVEATE__NEXT: return foveate__copy_next(reader, aim->frame);
    case FOVEATE__NEAREST: return foveate__copy_nearest(reader, aim->capture_ns, aim->frame);
    }
    return foveate__copy_newest(reader, aim->frame);
}

// Whether the daemon is gone and reconnecting is enabled.
static bool foveate__is_looking(const struct foveate_reader *reader) {
    return reader->reconnects && reader->ending == FOVEATE__HUNG_UP;
}

// Reconnects if the daemon is gone, reconnecting is enabled, and the next attempt is due.
static enum foveate_result foveate__look_for_daemon(struct foveate_reader *reader) {
    if (!foveate__is_looking(reader) || foveate__now_ns() < reader->retry_ns) return FOVEATE_OK;
    reader->retry_ns = foveate__now_ns() + FOVEATE__RECONNECT_NS;
    enum foveate_result result = foveate_reopen(reader);
    return result == FOVEATE_OK ? FOVEATE_OK : foveate__give_up_connecting(reader, result);
}

// The result without a frame or a segment to move to.
static enum foveate_result foveate__read_ending(struct foveate_reader *reader) {
    if (foveate__may_go_on(reader)) {
        // A daemon that stops is gone already.
        if (reader->ending == FOVEATE__ENDED) foveate__hang_up(reader);
        return FOVEATE_NOTHING;
    }
    if (reader->ending == FOVEATE__HUNG_UP) return foveate__fail_disconnected(reader);
    const char *text = *reader->ending_text != '\0' ? reader->ending_text : reader->ending_reason;
    return foveate__fail(&reader->error, FOVEATE_ENDED, "the view has ended: %s", text);
}

// Polls for everything once, without waiting.
static enum foveate_result foveate__step(struct foveate_reader *reader, const struct foveate__aim *aim) {
    enum foveate_result result = foveate__look_for_daemon(reader);
    // Before the frames: a segment that was replaced gets no more.
    if (result == FOVEATE_OK) result = foveate__take_messages(reader);
    if (result != FOVEATE_OK) return result;
    bool is_replaced = reader->next.base != NULL;
    if (reader->current.base != NULL && !(is_replaced && aim->choice == FOVEATE__NEAREST)) {
        result = foveate__read_current(reader, aim);
        // A broken segment is replaced by the next one.
        bool is_broken = result == FOVEATE_MALFORMED || result == FOVEATE_OVERTAKEN;
        if (result != FOVEATE_NOTHING && !(is_broken && is_replaced)) return result;
    }
    return is_replaced ? foveate__move_to_next(reader) : foveate__read_ending(reader);
}

// Waits until the next attempt to reconnect: 1; 0 at the deadline or on a signal; -1 and an error.
static int foveate__wait_to_look(struct foveate_reader *reader, int64_t deadline_ns) {
    bool is_in_time = reader->retry_ns <= deadline_ns;
    // There is no socket: poll(2) ignores a negative one.
    int ready = foveate__poll(-1, 0, is_in_time ? reader->retry_ns : deadline_ns);
    if (ready == 0) return is_in_time;
    if (errno == EINTR) return 0;
    foveate__fail_system(&reader->error, "ppoll", errno);
    return -1;
}

// How long to wait at most before the next look: a quarter of the interval between frames past the time when the next one
// is due, and once that is over, as long as it has been overdue. Any reader can move the waiters of a futex to another
// (FUTEX_REQUEUE needs no write access): so a stolen wake delays a punctual frame by a quarter of an interval, and a
// stream that stands still soon costs ten looks a second.
static int64_t foveate__patience_ns(const struct foveate_reader *reader) {
    struct foveate_slot_header newest, before;
    uint64_t sequence = foveate__load_u64(&foveate__live(&reader->current)->newest), now_ns = (uint64_t)foveate__now_ns();
    if (!foveate__load_header(reader, sequence, &newest)) return FOVEATE__PATIENCE_MIN_NS;
    bool has_before = sequence != 0 && foveate__load_header(reader, sequence - 1, &before);
    // Where the writer has just replaced the frame before, as if there were no interval.
    uint64_t before_ns = has_before ? before.publish_ns : newest.publish_ns;
    uint64_t interval_ns = before_ns < newest.publish_ns ? newest.publish_ns - before_ns : 0;
    uint64_t since_ns = newest.publish_ns < now_ns ? now_ns - newest.publish_ns : 0;
    uint64_t slice_ns = since_ns < interval_ns ? interval_ns - since_ns + interval_ns / 4 : since_ns - interval_ns;
    if (slice_ns < interval_ns / 4) slice_ns = interval_ns / 4;
    if (slice_ns < FOVEATE__PATIENCE_MIN_NS) return FOVEATE__PATIENCE_MIN_NS;
    return slice_ns < FOVEATE__PATIENCE_MAX_NS ? (int64_t)slice_ns : FOVEATE__PATIENCE_MAX_NS;
}

// Waits until there may be events: 1; 0 at the deadline or on a signal; -1 and an error.
static int foveate__wait(struct foveate_reader *reader, int64_t deadline_ns) {
    if (reader->next.base == NULL && foveate__is_looking(reader)) return foveate__wait_to_look(reader, deadline_ns);
    while (reader->next.base == NULL && reader->ending == FOVEATE__RUNNING) {
        bool is_mapped = reader->current.base != NULL;
        if (is_mapped && foveate__has_news(reader)) return 1;
        // The daemon that wrote the segment in use may be gone, and the next has yet to send one.
        bool is_followed = is_mapped && !reader->awaits_segment;
        int ready = foveate__poll(foveate__news_socket(reader), POLLIN, is_followed ? 0 : deadline_ns);
        if (ready < 0 && errno != EINTR) {
            foveate__fail_system(&reader->error, "ppoll", errno);
            return -1;
        }
        if (ready != 0 || !is_followed) return 0 < ready;
        struct timespec left = foveate__timespec(foveate__left_ns(deadline_ns, foveate__patience_ns(reader)));
        if (left.tv_sec == 0 && left.tv_nsec == 0) return 0;
        // Shared, not private: the writer is another process.
        long woken = syscall(SYS_futex, &foveate__live(&reader->current)->futex, FUTEX_WAIT, reader->seen, &left, NULL, 0);
        if (woken == 0 || errno == EAGAIN || errno == ETIMEDOUT) continue;
        if (errno == EINTR) return foveate__has_news(reader);
        foveate__fail_system(&reader->error, "futex", errno);
        return -1;
    }
    return 1;
}

static enum foveate_result foveate__read_in_time(struct foveate_reader *reader, const struct foveate__aim *aim,
                                                 int timeout_ms) {
    enum foveate_result result = foveate__step(reader, aim);
    if (result != FOVEATE_NOTHING || timeout_ms == 0) return result;
    int64_t deadline_ns = foveate__deadline_ns(timeout_ms);
    do {
        int news = foveate__wait(reader, deadline_ns);
        if (news <= 0) return news < 0 ? reader->error.result : FOVEATE_NOTHING;
        result = foveate__step(reader, aim);
    } while (result == FOVEATE_NOTHING);
    return result;
}

static enum foveate_result foveate__read(struct foveate_reader *reader, const struct foveate__aim *aim, int timeout_ms) {
    enum foveate_result result = foveate__read_in_time(reader, aim, timeout_ms);
    bool is_gone = result == FOVEATE_NOTHING && reader->reconnects && foveate__is_away(reader);
    return is_gone ? foveate__fail_disconnected(reader) : result;
}

// ---------------------------------------------------------------------------------------------------------------------
// Opening.

FOVEATE_API enum foveate_result foveate_reopen(struct foveate_reader *reader) {
    foveate__hang_up(reader);
    enum foveate_result result = foveate__is_own(reader) ? foveate__make_view(reader) : foveate__subscribe(reader);
    if (result == FOVEATE_OK) reader->ending = FOVEATE__RUNNING;
    if (result == FOVEATE_OK) foveate__set_timer(reader, false);
    return result;
}

// Waits until the daemon has granted the request, or with FOVEATE_RECONNECT until the deadline.
static enum foveate_result foveate__await_grant(struct foveate_reader *reader, int timeout_ms) {
    int64_t deadline_ns = foveate__deadline_ns(timeout_ms);
    for (;;) {
        enum foveate_result result = foveate__look_for_daemon(reader);
        if (result == FOVEATE_OK) result = foveate__take_messages(reader);
        if (result != FOVEATE_OK || reader->is_granted) return result;
        bool is_absent = reader->ending == FOVEATE__HUNG_UP;
        if (is_absent && !reader->reconnects) return foveate__fail_disconnected(reader);
        bool is_in_time = is_absent && reader->retry_ns < deadline_ns;
        int ready = foveate__poll(foveate__news_socket(reader), POLLIN, is_in_time ? reader->retry_ns : deadline_ns);
        if (ready < 0 && errno != EINTR) return foveate__fail_system(&reader->error, "ppoll", errno);
        if (ready != 0 || is_in_time) continue;
        if (reader->reconnects) return FOVEATE_OK;
        return foveate__fail(&reader->error, FOVEATE_TIMED_OUT,
                             "the daemon did not answer within %d ms: it may be overloaded or stopped", timeout_ms);
    }
}

static enum foveate_result foveate__set_view(struct foveate_reader *reader, const char *view) {
    if (view == NULL || !foveate__is_view(view)) {
        return foveate__fail(
            &reader->error, FOVEATE_INVALID,
            "\"%.127s\" is not a view name (expected STREAM/VIEW, each 1 to 63 of a-z, 0-9, `_` and `-`, "
            "such as camera/main)",
            view == NULL ? "" : view);
    }
    memcpy(reader->view, view, strlen(view) + 1);
    return FOVEATE_OK;
}

static enum foveate_result foveate__set_own_view(struct foveate_reader *reader, const char *stream, const char *keys) {
    if (stream == NULL || !foveate__is_stream(stream)) {
        return foveate__fail(
            &reader->error, FOVEATE_INVALID,
            "\"%.127s\" is not a stream name (expected 1 to 63 of a-z, 0-9, `_` and `-`, such as camera)",
            stream == NULL ? "" : stream);
    }
    if (keys == NULL) keys = "{}";
    size_t bytes = strlen(keys);
    if (FOVEATE__KEYS_BYTES_MAX < bytes) {
        return foveate__fail(&reader->error, FOVEATE_INVALID, "keys of the view too long: %zu bytes (expected at most %d)",
                             bytes, FOVEATE__KEYS_BYTES_MAX);
    }
    memcpy(reader->stream, stream, strlen(stream) + 1);
    // A request is one line. In JSON, newlines occur only between values.
    for (size_t at = 0; at < bytes; at++) reader->keys[at] = keys[at] == '\n' ? ' ' : keys[at];
    reader->keys[bytes] = '}';
    return FOVEATE_OK;
}

static struct foveate_reader *foveate__new_reader(unsigned flags, struct foveate_error *error) {
    struct foveate_reader *reader = (struct foveate_reader *)calloc(1, sizeof *reader);
    if (reader == NULL) {
        if (error != NULL) foveate__fail(error, FOVEATE_NO_MEMORY, "out of memory for a reader");
        return NULL;
    }
    reader->subscription = reader->steering = reader->beacon = reader->timer = -1;
    reader->flags = flags;
    reader->reconnects = (flags & FOVEATE_RECONNECT) != 0;
    reader->awaits_segment = true;
    return reader;
}

static enum foveate_result foveate__check_flags(struct foveate_reader *reader) {
    if ((reader->flags & ~(FOVEATE_NOTIFY | FOVEATE_RECONNECT)) == 0) return FOVEATE_OK;
    return foveate__fail(&reader->error, FOVEATE_INVALID,
                         "invalid flags 0x%x (expected 0 or a combination of FOVEATE_NOTIFY and FOVEATE_RECONNECT)", reader->flags);
}

// Makes the descriptor for poll(2) of a reader that reconnects.
static enum foveate_result foveate__make_beacon(struct foveate_reader *reader) {
    if (!reader->reconnects) return FOVEATE_OK;
    reader->beacon = epoll_create1(EPOLL_CLOEXEC);
    if (reader->beacon < 0) return foveate__fail_system(&reader->error, "epoll_create1", errno);
    reader->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (reader->timer < 0) return foveate__fail_system(&reader->error, "timerfd_create", errno);
    foveate__watch(reader, reader->timer);
    return FOVEATE_OK;
}

// Connects for the first time. A daemon that is not there is left to later if the reader reconnects.
static enum foveate_result foveate__connect_first(struct foveate_reader *reader) {
    enum foveate_result result = foveate_reopen(reader);
    if (result == FOVEATE_OK) return FOVEATE_OK;
    reader->retry_ns = foveate__now_ns() + FOVEATE__RECONNECT_NS;
    return foveate__give_up_connecting(reader, result);
}

// Connects a reader whose view was set, with `result`. On failure frees it and returns NULL.
static struct foveate_reader *foveate__start(struct foveate_reader *reader, enum foveate_result result, const char *socket_path,
                                             int timeout_ms, struct foveate_error *error) {
    if (result == FOVEATE_OK) result = foveate__check_flags(reader);
    if (result == FOVEATE_OK) result = foveate__find_address(&reader->address, socket_path, &reader->error);
    if (result == FOVEATE_OK) result = foveate__make_beacon(reader);
    if (result == FOVEATE_OK) result = foveate__connect_first(reader);
    if (result == FOVEATE_OK) result = foveate__await_grant(reader, timeout_ms);
    if (result == FOVEATE_OK) return reader;
    if (error != NULL) *error = reader->error;
    foveate_close(reader);
    return NULL;
}

FOVEATE_API struct foveate_reader *foveate_open(const char *view, const char *socket_path, unsigned flags, int timeout_ms,
                                                struct foveate_error *error) {
    struct foveate_reader *reader = foveate__new_reader(flags, error);
    if (reader == NULL) return NULL;
    return foveate__start(reader, foveate__set_view(reader, view), socket_path, timeout_ms, error);
}

FOVEATE_API struct foveate_reader *foveate_open_view(const char *stream, const char *keys, const char *socket_path,
                                                     unsigned flags, int timeout_ms, struct foveate_error *error) {
    struct foveate_reader *reader = foveate__new_reader(flags, error);
    if (reader == NULL) return NULL;
    return foveate__start(reader, foveate__set_own_view(reader, stream, keys), socket_path, timeout_ms, error);
}

FOVEATE_API const char *foveate_view_name(const struct foveate_reader *reader) {
    return reader->view;
}

FOVEATE_API void foveate_close(struct foveate_reader *reader) {
    if (reader == NULL) return;
    foveate__unmap(&reader->current);
    foveate__unmap(&reader->next);
    foveate__disconnect(reader, &reader->subscription);
    foveate__disconnect(reader, &reader->steering);
    foveate__close(&reader->timer);
    foveate__close(&reader->beacon);
    free(reader);
}

FOVEATE_API const struct foveate_error *foveate_last_error(const struct foveate_reader *reader) {
    return &reader->error;
}

FOVEATE_API const struct foveate_segment *foveate_current_segment(const struct foveate_reader *reader) {
    return reader->current.base == NULL ? NULL : &reader->current.segment;
}

FOVEATE_API int foveate_plane_index(const struct foveate_segment *segment, const char *name) {
    for (uint32_t index = 0; index < segment->header.plane_count; index++) {
        if (strcmp(segment->header.planes[index].name, name) == 0) return (int)index;
    }
    return -1;
}

FOVEATE_API int foveate_channel_index(const struct foveate_segment *segment, const char *name) {
    for (uint32_t index = 0; index < segment->channels.count; index++) {
        if (strcmp(segment->channels.names[index], name) == 0) return (int)index;
    }
    return -1;
}

// Copies the state out; false if the writer changed it meanwhile.
static bool foveate__load_state(const struct foveate_live *live, struct foveate_state_block *block) {
    uint32_t before = foveate__load_u32(&live->state_sequence);
    // SYNC(state-filled): pairs with the last store in `Live::change_state`.
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    foveate__load(block, &live->states[before % 2], sizeof *block);
    // SYNC(state-torn): pairs with the fence in `Live::change_state`.
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return foveate__load_u32(&live->state_sequence) == before;
}

FOVEATE_API enum foveate_state_code foveate_state(const struct foveate_reader *reader, char reason[FOVEATE_REASON_BYTES]) {
    struct foveate_state_block block;
    memset(&block, 0, sizeof block);
    bool is_away = foveate__is_away(reader);
    if (is_away && reader->was_granted) {
        block.code = FOVEATE_STATE_ENDED;
        snprintf(block.reason, sizeof block.reason, "the daemon is gone");
    } else if (is_away || (reader->awaits_segment && reader->ending == FOVEATE__RUNNING)) {
        snprintf(block.reason, sizeof block.reason,
                 is_away ? "no daemon has answered yet" : "the stream has not delivered a frame yet");
    } else if (reader->current.base != NULL) {
        // Reached only after two changes during each copy.
        bool is_whole = false;
        for (int tries = 0; tries < FOVEATE__TRIES_MAX && !is_whole; tries++) {
            is_whole = foveate__load_state(foveate__live(&reader->current), &block);
        }
        bool is_known = FOVEATE_STATE_LIVE <= block.code && block.code <= FOVEATE_STATE_ENDED;
        if (!is_whole || !is_known) {
            snprintf(block.reason, sizeof block.reason,
                     is_whole ? "the segment has the unknown state %u: compile with a newer foveate.h"
                              : "the state changes faster than it can be read",
                     block.code);
            block.code = FOVEATE_STATE_ENDED;
        }
    }
    block.reason[sizeof block.reason - 1] = '\0';
    if (reason != NULL) memcpy(reason, block.reason, sizeof block.reason);
    return (enum foveate_state_code)block.code;
}

// ---------------------------------------------------------------------------------------------------------------------
// Reading.

// Grows `*memory`, of `*capacity` bytes, to at least `bytes`; false, and unchanged, if there is no memory.
static bool foveate__grow(void **memory, size_t *capacity, size_t bytes) {
    if (bytes <= *capacity) return true;
    void *grown = realloc(*memory, bytes);
    if (grown == NULL) return false;
    *memory = grown;
    *capacity = bytes;
    return true;
}

FOVEATE_API enum foveate_result foveate_frame_reserve(struct foveate_frame *frame, const struct foveate_segment *segment) {
    const struct foveate_segment_header *header = &segment->header;
    size_t token_capacity = header->token_capacity;
    if (frame->token_capacity < token_capacity) {
        void *tokens = realloc(frame->tokens, token_capacity * sizeof *frame->tokens);
        if (tokens == NULL) return FOVEATE_NO_MEMORY;
        frame->tokens = (struct foveate_token *)tokens;
        frame->token_capacity = token_capacity;
    }
    if (!foveate__grow(&frame->pixels, &frame->pixel_capacity, token_capacity * segment->token_bytes)) return FOVEATE_NO_MEMORY;
    frame->planes[0] = frame->pixels;
    for (uint32_t index = 1; index < header->plane_count; index++) {
        size_t bytes = foveate__plane_bytes(&header->planes[index], token_capacity);
        if (!foveate__grow(&frame->planes[index], &frame->plane_capacities[index], bytes)) return FOVEATE_NO_MEMORY;
    }
    return FOVEATE_OK;
}

FOVEATE_API void foveate_frame_free(struct foveate_frame *frame) {
    free(frame->tokens);
    free(frame->pixels);
    // The first one is `pixels`.
    for (size_t index = 1; index < FOVEATE_PLANE_COUNT_MAX; index++) free(frame->planes[index]);
    memset(frame, 0, sizeof *frame);
}

FOVEATE_API enum foveate_result foveate_read_newest(struct foveate_reader *reader, struct foveate_frame *frame,
                                                    int timeout_ms) {
    struct foveate__aim aim = {frame, NULL, FOVEATE__NEWEST, 0};
    return foveate__read(reader, &aim, timeout_ms);
}

FOVEATE_API enum foveate_result foveate_read_next(struct foveate_reader *reader, struct foveate_frame *frame, int timeout_ms) {
    struct foveate__aim aim = {frame, NULL, FOVEATE__NEXT, 0};
    return foveate__read(reader, &aim, timeout_ms);
}

FOVEATE_API enum foveate_result foveate_read_at(struct foveate_reader *reader, uint64_t capture_ns, struct foveate_frame *frame,
                                                int timeout_ms) {
    struct foveate__aim aim = {frame, NULL, FOVEATE__NEAREST, capture_ns};
    return foveate__read(reader, &aim, timeout_ms);
}

FOVEATE_API void foveate_set_max_age(struct foveate_reader *reader, uint64_t max_age_ns) {
    reader->max_age_ns = max_age_ns;
}

FOVEATE_API uint64_t foveate_age_ns(const struct foveate_slot_header *head) {
    uint64_t now_ns = (uint64_t)foveate__now_ns();
    return head->capture_ns < now_ns ? now_ns - head->capture_ns : 0;
}

static float foveate__f32_from_bits(uint32_t bits) {
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static float foveate__f32_from_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1F, fraction = half & 0x3FF;
    // A subnormal is its fraction times 2^-24.
    if (exponent == 0) return (float)fraction * (sign != 0 ? -0x1p-24f : 0x1p-24f);
    // The exponents' biases are 15 and 127; infinity and NaN keep the largest one.
    uint32_t wide = exponent == 0x1F ? 0xFF : exponent + 112;
    return foveate__f32_from_bits(sign | wide << 23 | fraction << 13);
}

FOVEATE_API float foveate_number(enum foveate_dtype dtype, const void *items, size_t index) {
    uint16_t half;
    float single;
    switch (dtype) {
    case FOVEATE_DTYPE_U8: return ((const unsigned char *)items)[index];
    case FOVEATE_DTYPE_F16:
        memcpy(&half, (const unsigned char *)items + 2 * index, sizeof half);
        return foveate__f32_from_f16(half);
    case FOVEATE_DTYPE_BF16:
        memcpy(&half, (const unsigned char *)items + 2 * index, sizeof half);
        return foveate__f32_from_bits((uint32_t)half << 16);
    case FOVEATE_DTYPE_F32: break;
    }
    memcpy(&single, (const unsigned char *)items + 4 * index, sizeof single);
    return single;
}

FOVEATE_API uint32_t foveate_token_width(const struct foveate_token *token) {
    return (uint32_t)token->size * token->sx + token->extra_width;
}

FOVEATE_API uint32_t foveate_token_height(const struct foveate_token *token) {
    return (uint32_t)token->size * token->sy + token->extra_height;
}

// The greatest whole number that is at most `number`, which is in the range of int64_t.
static int64_t foveate__floor(double number) {
    int64_t whole = (int64_t)number;
    return whole - (number < (double)whole);
}

FOVEATE_API void foveate_texel_at(const struct foveate_token *token, double x, double y, int64_t *column, int64_t *row) {
    uint32_t width = foveate_token_width(token), height = foveate_token_height(token);
    // A record that no writer of Foveate's makes may cover nothing.
    *column = width == 0 ? 0 : foveate__floor((x - token->x) * token->size / width);
    *row = height == 0 ? 0 : foveate__floor((y - token->y) * token->size / height);
}

FOVEATE_API void foveate_texel_box(const struct foveate_token *token, int64_t column, int64_t row, double box[4]) {
    double width = foveate_token_width(token), height = foveate_token_height(token), side = token->size;
    box[0] = token->x + (double)column * width / side;
    box[1] = token->y + (double)row * height / side;
    box[2] = token->x + (double)(column + 1) * width / side;
    box[3] = token->y + (double)(row + 1) * height / side;
}

// Cells beyond each edge of a token that its pixels are interpolated from, and the largest count of cells along an axis.
#define FOVEATE__MARGIN 2
#define FOVEATE__CELLS_MAX (FOVEATE_PATCH_SIDE_MAX + 2 * FOVEATE__MARGIN)
// Weights of cells are whole numbers of this part of 1.
#define FOVEATE__ONE (INT32_C(1) << 14)

// A picture and the token that is being drawn.
struct foveate__drawing {
    const struct foveate_segment *segment;
    const struct foveate_token *token;
    const void *texels;    // of the token
    const uint8_t *blocks; // the picture that cells outside the token are read from
};

// Whether a record fits its segment: nothing outside the picture and the token's texels is touched.
static bool foveate__is_drawable(const struct foveate_segment *segment, const struct foveate_token *token) {
    const struct foveate_segment_header *header = &segment->header;
    const int64_t width = foveate_token_width(token), height = foveate_token_height(token);
    bool is_real = token->extra_width != 0 || token->extra_height != 0;
    if (is_real && (FOVEATE_REAL_SIDE_MAX < width || FOVEATE_REAL_SIDE_MAX < height)) return false;
    return token->size == header->patch_side && 1 <= token->sx && token->sx <= FOVEATE_STEP_MAX && 1 <= token->sy
           && token->sy <= FOVEATE_STEP_MAX && token->extra_width < token->size && token->extra_height < token->size
           && token->x1 <= header->source_width && token->y1 <= header->source_height
           && token->x <= (int64_t)token->x0 && token->x1 <= token->x + width
           && token->y <= (int64_t)token->y0 && token->y1 <= token->y + height
           && token->first_column + token->columns <= token->size && token->first_row + token->rows <= token->size;
}

// The byte that a number of a texel was made from.
static uint8_t foveate__byte(const struct foveate_segment *segment, int64_t channel, const void *numbers, size_t index) {
    const struct foveate_segment_header *header = &segment->header;
    double number = (double)foveate_number(segment->dtype, numbers, index);
    if (segment->dtype == FOVEATE_DTYPE_U8) return (uint8_t)number;
    double value = (number * header->std[channel] + header->mean[channel]) * 255.0 + 0.5;
    // So NaN is 0, too.
    return !(0.0 < value) ? 0 : 255.0 < value ? 255 : (uint8_t)value;
}

static uint8_t foveate__texel(const struct foveate__drawing *drawing, int64_t channel, int64_t row, int64_t column) {
    int64_t side = drawing->token->size, index = (channel * side + row) * side + column;
    return foveate__byte(drawing->segment, channel, drawing->texels, (size_t)index);
}

// Rounded down; the divisor is positive.
static int64_t foveate__quotient(int64_t dividend, int64_t divisor) {
    return dividend / divisor - (dividend % divisor < 0);
}

static int64_t foveate__clamped(int64_t value, int64_t least, int64_t greatest) {
    return value < least ? least : greatest < value ? greatest : value;
}

static bool foveate__is_real(const struct foveate_token *token, int64_t row, int64_t column) {
    return token->first_row <= row && row < token->first_row + token->rows && token->first_column <= column
           && column < token->first_column + token->columns;
}

// Part of an axis, in parts of a pixel, of which a pixel has P.
struct foveate__stretch {
    int64_t start, end;
    int64_t pixel_parts;
};

// Cell `index` of a token that begins at pixel `origin`, and whose texels are as many parts wide as it has pixels.
static struct foveate__stretch foveate__cell_stretch(int64_t origin, int64_t length, int64_t index, int64_t side) {
    struct foveate__stretch stretch = {origin * side + index * length, origin * side + (index + 1) * length, side};
    return stretch;
}

static int64_t foveate__first_pixel(struct foveate__stretch stretch) {
    return foveate__quotient(stretch.start, stretch.pixel_parts);
}

// How many parts of a pixel lie in the stretch; 0 past its end.
static int64_t foveate__overlap(struct foveate__stretch stretch, int64_t pixel) {
    int64_t start = pixel * stretch.pixel_parts, end = start + stretch.pixel_parts;
    if (start < stretch.start) start = stretch.start;
    if (stretch.end < end) end = stretch.end;
    return start < end ? end - start : 0;
}

// Of cell (row, column) of the token's grid.
static int32_t foveate__cell(const struct foveate__drawing *drawing, int channel, int64_t row, int64_t column) {
    const struct foveate_token *token = drawing->token;
    if (foveate__is_real(token, row, column)) return foveate__texel(drawing, channel, row, column);
    const int64_t token_width = foveate_token_width(token), token_height = foveate_token_height(token);
    const int64_t width = drawing->segment->header.source_width, height = drawing->segment->header.source_height;
    struct foveate__stretch down = foveate__cell_stretch(token->y, token_height, row, token->size);
    struct foveate__stretch across = foveate__cell_stretch(token->x, token_width, column, token->size);
    int64_t count = token_width * token_height, sum = count / 2, share, part;
    for (int64_t y = foveate__first_pixel(down); 0 < (share = foveate__overlap(down, y)); y++) {
        const uint8_t *line = drawing->blocks + 3 * width * foveate__clamped(y, 0, height - 1);
        for (int64_t x = foveate__first_pixel(across); 0 < (part = foveate__overlap(across, x)); x++) {
            sum += share * part * line[3 * foveate__clamped(x, 0, width - 1) + channel];
        }
    }
    return (int32_t)(sum / count);
}

// The four cells that a pixel is interpolated from along one axis; `first` counts from the start of the margin.
struct foveate__taps {
    int64_t first;
    int32_t weights[4];
};

static int32_t foveate__weight(double weight) {
    double scaled = weight * FOVEATE__ONE + 0.5;
    int32_t whole = (int32_t)scaled;
    return whole - (scaled < whole);
}

// Of the pixel at `offset` in a token of `length` pixels and `side` texels.
static struct foveate__taps foveate__taps_of(int64_t offset, int64_t length, int64_t side) {
    // From the centre of the first cell of the margin, where a cell is 2 * length wide.
    int64_t place = (2 * offset + 1) * side - length + 2 * FOVEATE__MARGIN * length, cell = place / (2 * length);
    double t = (double)(place - 2 * length * cell) / (double)(2 * length);
    struct foveate__taps taps = FOVEATE_ZEROS;
    taps.first = cell - 1;
    taps.weights[0] = foveate__weight(((2.0 - t) * t - 1.0) * t / 2.0);
    taps.weights[1] = foveate__weight(((3.0 * t - 5.0) * t * t + 2.0) / 2.0);
    taps.weights[2] = foveate__weight(((4.0 - 3.0 * t) * t + 1.0) * t / 2.0);
    taps.weights[3] = FOVEATE__ONE - taps.weights[0] - taps.weights[1] - taps.weights[2];
    return taps;
}

// The texel under the centre of the pixel at `offset`.
static int64_t foveate__texel_of_pixel(int64_t offset, int64_t length, int64_t side) {
    return (2 * offset + 1) * side / (2 * length);
}

static void foveate__fill(const struct foveate__drawing *drawing, uint8_t *blocks) {
    const struct foveate_token *token = drawing->token;
    const int64_t token_width = foveate_token_width(token), token_height = foveate_token_height(token);
    int64_t width = drawing->segment->header.source_width;
    for (int64_t y = token->y0; y < token->y1; y++) {
        int64_t row = foveate__texel_of_pixel(y - token->y, token_height, token->size);
        for (int64_t x = token->x0; x < token->x1; x++) {
            int64_t column = foveate__texel_of_pixel(x - token->x, token_width, token->size);
            for (int channel = 0; channel < 3; channel++) {
                blocks[3 * (y * width + x) + channel] = foveate__texel(drawing, channel, row, column);
            }
        }
    }
}

static void foveate__smooth(const struct foveate__drawing *drawing, uint8_t *smooth) {
    const struct foveate_token *token = drawing->token;
    const int64_t token_width = foveate_token_width(token), token_height = foveate_token_height(token);
    const int64_t width = drawing->segment->header.source_width, count = token->size + 2 * FOVEATE__MARGIN;
    const int64_t one = (int64_t)FOVEATE__ONE * FOVEATE__ONE;
    // Row r of cells is in r % 4: pixels need four at a time, and these move on.
    int32_t cells[4][FOVEATE__CELLS_MAX], along[FOVEATE__CELLS_MAX];
    for (int channel = 0; channel < 3; channel++) {
        int64_t made = 0; // rows of cells so far
        for (int64_t y = token->y0; y < token->y1; y++) {
            struct foveate__taps rows = foveate__taps_of(y - token->y, token_height, token->size);
            for (made = made < rows.first ? rows.first : made; made < rows.first + 4; made++) {
                for (int64_t cell = 0; cell < count; cell++) {
                    cells[made % 4][cell] = foveate__cell(drawing, channel, made - FOVEATE__MARGIN, cell - FOVEATE__MARGIN);
                }
            }
            for (int64_t cell = 0; cell < count; cell++) {
                along[cell] = 0;
                for (int tap = 0; tap < 4; tap++) along[cell] += rows.weights[tap] * cells[(rows.first + tap) % 4][cell];
            }
            for (int64_t x = token->x0; x < token->x1; x++) {
                struct foveate__taps columns = foveate__taps_of(x - token->x, token_width, token->size);
                int64_t sum = one / 2;
                for (int tap = 0; tap < 4; tap++) sum += (int64_t)columns.weights[tap] * along[columns.first + tap];
                smooth[3 * (y * width + x) + channel] = (uint8_t)foveate__clamped(sum / one, 0, 255);
            }
        }
    }
}

// Pixels under all texels, those outside the picture included.
static uint64_t foveate__area(const struct foveate_token *token) {
    return (uint64_t)foveate_token_width(token) * foveate_token_height(token);
}

// Draws every token, those with larger texels first.
static void foveate__draw(const struct foveate_segment *segment, const struct foveate_frame *frame, uint8_t *blocks,
                          uint8_t *smooth) {
    memset(smooth != NULL ? smooth : blocks, 0, 3 * (size_t)segment->header.source_width * segment->header.source_height);
    for (uint64_t above = UINT64_MAX, area = 1; 0 < area; above = area) {
        area = 0;
        for (size_t index = 0; index < frame->token_count; index++) {
            uint64_t own = foveate__area(&frame->tokens[index]);
            if (area < own && own < above) area = own;
        }
        for (size_t index = 0; index < frame->token_count; index++) {
            const struct foveate_token *token = &frame->tokens[index];
            if (foveate__area(token) != area || !foveate__is_drawable(segment, token)) continue;
            const unsigned char *texels = (const unsigned char *)frame->pixels + index * segment->token_bytes;
            struct foveate__drawing drawing = {segment, token, texels, blocks};
            if (smooth != NULL) {
                foveate__smooth(&drawing, smooth);
            } else {
                foveate__fill(&drawing, blocks);
            }
        }
    }
}

FOVEATE_API void foveate_rebuild(const struct foveate_segment *segment, const struct foveate_frame *frame, uint8_t *blocks,
                                 uint8_t *smooth) {
    foveate__draw(segment, frame, blocks, NULL);
    if (smooth != NULL) foveate__draw(segment, frame, blocks, smooth);
}

// ---------------------------------------------------------------------------------------------------------------------
// A canvas.

// Side of the tiles that change detection works on, in pixels.
#define FOVEATE__TILE_SIDE 32u

static uint32_t foveate__cells(uint32_t length, uint32_t side) { return length / side + (length % side != 0); }

static uint32_t foveate__place_side(const struct foveate_segment *segment) {
    uint32_t side = FOVEATE__TILE_SIDE;
    while (segment->header.patch_side % side != 0) side /= 2;
    return side;
}

static size_t foveate__place_count(const struct foveate_segment *segment) {
    uint32_t side = foveate__place_side(segment);
    return (size_t)foveate__cells(segment->header.source_width, side) * foveate__cells(segment->header.source_height, side);
}

// Of a canvas, rounded up to whole words, so that what follows is aligned.
static size_t foveate__pixels_room(const struct foveate_segment *segment) {
    size_t pixel_bytes = 3 * foveate__dtype_bytes(segment->dtype);
    return ((size_t)segment->header.source_width * segment->header.source_height * pixel_bytes + 7) / 8 * 8;
}

FOVEATE_API size_t foveate_canvas_bytes(const struct foveate_segment *segment) {
    size_t place_bytes = 2 * sizeof(uint64_t) + sizeof(uint16_t) + sizeof(uint8_t);
    return foveate__place_count(segment) * place_bytes + foveate__pixels_room(segment);
}

static void foveate__open_canvas(struct foveate_canvas *canvas, const struct foveate_segment *segment) {
    struct foveate_canvas opened = FOVEATE_ZEROS;
    size_t count = foveate__place_count(segment);
    opened.memory = canvas->memory;
    opened.capacity = canvas->capacity;
    opened.width = segment->header.source_width;
    opened.height = segment->header.source_height;
    opened.side = foveate__place_side(segment);
    opened.columns = foveate__cells(opened.width, opened.side);
    opened.rows = foveate__cells(opened.height, opened.side);
    opened.frames = (uint64_t *)canvas->memory;
    opened.tokens = opened.frames + count;
    opened.pixels = opened.tokens + count;
    opened.steps = (uint16_t *)((unsigned char *)opened.pixels + foveate__pixels_room(segment));
    opened.drawn = (uint8_t *)(opened.steps + count);
    opened.epoch = segment->header.epoch;
    memset(canvas->memory, 0, foveate_canvas_bytes(segment));
    *canvas = opened;
}

// The newest change of a tile under the texel of `step` that a place is part of.
static uint64_t foveate__newest_change(const struct foveate_canvas *canvas, const unsigned char *tiles, uint32_t column,
                                       uint32_t row, uint32_t step) {
    uint32_t side = step < FOVEATE__TILE_SIDE ? FOVEATE__TILE_SIDE : step, count = side / FOVEATE__TILE_SIDE;
    uint32_t columns = foveate__cells(canvas->width, FOVEATE__TILE_SIDE);
    uint32_t rows = foveate__cells(canvas->height, FOVEATE__TILE_SIDE);
    uint32_t left = column * canvas->side / side * count, top = row * canvas->side / side * count;
    uint64_t newest = 0;
    for (uint32_t y = top; y < rows && y < top + count; y++) {
        for (uint32_t x = left; x < columns && x < left + count; x++) {
            uint64_t frame;
            memcpy(&frame, tiles + ((size_t)y * columns + x) * sizeof frame, sizeof frame);
            if (newest < frame) newest = frame;
        }
    }
    return newest;
}

// Whether a token is of the pyramid-aligned grid. Others are a broken writer's.
static bool foveate__is_aligned(const struct foveate_segment_header *header, const struct foveate_token *token) {
    int64_t step = token->sx, length = step * header->patch_side;
    return step != 0 && (step & (step - 1)) == 0 && token->sy == step && token->size == header->patch_side
           && token->extra_width == 0 && token->extra_height == 0 && 0 <= token->x && token->x < (int64_t)header->source_width
           && 0 <= token->y && token->y < (int64_t)header->source_height && token->x % length == 0 && token->y % length == 0;
}

// Draws a place from a token.
static void foveate__draw_place(struct foveate_canvas *canvas, const struct foveate_token *token, const unsigned char *texels,
                                size_t number_bytes, uint32_t column, uint32_t row) {
    uint32_t x0 = column * canvas->side, y0 = row * canvas->side, step = token->sx, side = token->size;
    uint32_t x1 = canvas->width - x0 < canvas->side ? canvas->width : x0 + canvas->side;
    uint32_t y1 = canvas->height - y0 < canvas->side ? canvas->height : y0 + canvas->side;
    size_t pixel_bytes = 3 * number_bytes, line_bytes = (x1 - x0) * pixel_bytes, stride = canvas->width * pixel_bytes;
    unsigned char *line = (unsigned char *)canvas->pixels + y0 * stride + x0 * pixel_bytes;
    for (uint32_t y = y0; y < y1; y++, line += stride) {
        if (y0 < y && y % step != 0) {
            memcpy(line, line - stride, line_bytes);
            continue;
        }
        size_t texel_row = (y - (uint32_t)token->y) / step;
        for (uint32_t x = x0; x < x1; x++) {
            size_t index = texel_row * side + (x - (uint32_t)token->x) / step;
            for (size_t channel = 0; channel < 3; channel++) {
                memcpy(line + (x - x0) * pixel_bytes + channel * number_bytes,
                       texels + (channel * side * side + index) * number_bytes, number_bytes);
            }
        }
    }
}

// Draws the places of a token that it is better for than what there is.
static void foveate__draw_token(struct foveate_canvas *canvas, const struct foveate_token *token, const unsigned char *texels,
                                size_t number_bytes, const unsigned char *tiles) {
    uint32_t count = (uint32_t)token->size * token->sx / canvas->side;
    uint32_t left = (uint32_t)token->x / canvas->side, top = (uint32_t)token->y / canvas->side;
    for (uint32_t row = top; row < canvas->rows && row < top + count; row++) {
        for (uint32_t column = left; column < canvas->columns && column < left + count; column++) {
            size_t index = (size_t)row * canvas->columns + column;
            uint16_t had = canvas->steps[index];
            bool is_newer = token->sx == had && token->changed_frame != canvas->tokens[index];
            if (had != 0 && had <= token->sx && !is_newer) continue;
            foveate__draw_place(canvas, token, texels, number_bytes, column, row);
            canvas->steps[index] = token->sx;
            canvas->tokens[index] = token->changed_frame;
            canvas->frames[index] = foveate__newest_change(canvas, tiles, column, row, token->sx);
            canvas->drawn[index] = 1;
        }
    }
}

// Blanks a place, which only a broken writer leaves out.
static void foveate__blank_place(struct foveate_canvas *canvas, size_t pixel_bytes, uint32_t column, uint32_t row) {
    uint32_t x0 = column * canvas->side, y0 = row * canvas->side;
    uint32_t x1 = canvas->width - x0 < canvas->side ? canvas->width : x0 + canvas->side;
    for (uint32_t y = y0; y < canvas->height && y < y0 + canvas->side; y++) {
        memset((unsigned char *)canvas->pixels + ((size_t)y * canvas->width + x0) * pixel_bytes, 0, (x1 - x0) * pixel_bytes);
    }
    size_t index = (size_t)row * canvas->columns + column;
    canvas->frames[index] = canvas->tokens[index] = 0;
    canvas->drawn[index] = 1;
}

FOVEATE_API enum foveate_result foveate_canvas_update(struct foveate_canvas *canvas, const struct foveate_segment *segment,
                                                      const struct foveate_frame *frame) {
    const struct foveate_segment_header *header = &segment->header;
    int plane = foveate_plane_index(segment, "tiles");
    if (plane < 0 || frame->planes[plane] == NULL) return FOVEATE_INVALID;
    size_t tile_count = (size_t)foveate__cells(header->source_width, FOVEATE__TILE_SIDE)
                        * foveate__cells(header->source_height, FOVEATE__TILE_SIDE);
    if (foveate__plane_bytes(&header->planes[plane], 0) != tile_count * sizeof(uint64_t)) return FOVEATE_INVALID;
    bool is_new = canvas->side == 0 || canvas->epoch != header->epoch;
    if (!is_new && frame->head.ring_sequence <= canvas->ring_sequence) return FOVEATE_INVALID;
    if (is_new) {
        if (canvas->memory == NULL || canvas->capacity < foveate_canvas_bytes(segment)) return FOVEATE_TOO_SMALL;
        foveate__open_canvas(canvas, segment);
    }
    const unsigned char *tiles = (const unsigned char *)frame->planes[plane];
    size_t number_bytes = foveate__dtype_bytes(segment->dtype), count = foveate__place_count(segment);
    memset(canvas->drawn, 0, count);
    for (uint32_t row = 0; row < canvas->rows; row++) {
        for (uint32_t column = 0; column < canvas->columns; column++) {
            size_t index = (size_t)row * canvas->columns + column;
            uint64_t newest = foveate__newest_change(canvas, tiles, column, row, canvas->steps[index]);
            if (canvas->frames[index] < newest) canvas->steps[index] = 0;
        }
    }
    for (size_t index = 0; index < frame->token_count; index++) {
        const struct foveate_token *token = &frame->tokens[index];
        const unsigned char *texels = (const unsigned char *)frame->pixels + index * segment->token_bytes;
        if (foveate__is_aligned(header, token)) foveate__draw_token(canvas, token, texels, number_bytes, tiles);
    }
    canvas->drawn_count = 0;
    for (size_t index = 0; index < count; index++) {
        if (canvas->steps[index] == 0 && canvas->frames[index] != 0) {
            foveate__blank_place(canvas, 3 * number_bytes, (uint32_t)(index % canvas->columns),
                                 (uint32_t)(index / canvas->columns));
        }
        canvas->drawn_count += canvas->drawn[index];
    }
    canvas->is_new = is_new;
    if (frame->head.ring_sequence != canvas->ring_sequence + 1) canvas->wants_refresh = true;
    canvas->ring_sequence = frame->head.ring_sequence;
    canvas->frame_seq = frame->head.frame_seq;
    return FOVEATE_OK;
}

FOVEATE_API void foveate_canvas_rgb(const struct foveate_canvas *canvas, const struct foveate_segment *segment, uint8_t *rgb) {
    size_t index = 0;
    for (uint32_t y = 0; y < canvas->height; y++) {
        for (uint32_t x = 0; x < canvas->width; x++) {
            size_t place = (size_t)(y / canvas->side) * canvas->columns + x / canvas->side;
            for (int channel = 0; channel < 3; channel++, index++) {
                rgb[index] = canvas->steps[place] == 0 ? 0 : foveate__byte(segment, channel, canvas->pixels, index);
            }
        }
    }
}

FOVEATE_API enum foveate_result foveate_borrow_newest(struct foveate_reader *reader, struct foveate_borrowed *borrowed,
                                                      int timeout_ms) {
    struct foveate__aim aim = {NULL, borrowed, FOVEATE__NEWEST, 0};
    return foveate__read(reader, &aim, timeout_ms);
}

FOVEATE_API struct foveate_token foveate_borrowed_token(const struct foveate_borrowed *borrowed, size_t index) {
    struct foveate_token token;
    foveate__load(&token, &borrowed->tokens[index], sizeof token);
    return token;
}

FOVEATE_API bool foveate_still_valid(const struct foveate_reader *reader, const struct foveate_borrowed *borrowed) {
    if (reader->current.base == NULL || borrowed->segment_number != reader->current.segment.number) return false;
    uint64_t sequence = borrowed->head.ring_sequence;
    return foveate__still_holds(foveate__slot(&reader->current, sequence), sequence);
}

FOVEATE_API enum foveate_result foveate_release(struct foveate_reader *reader, struct foveate_borrowed *borrowed) {
    if (foveate_still_valid(reader, borrowed)) return FOVEATE_OK;
    return foveate__fail(
        &reader->error, FOVEATE_LAPPED,
        "the writer replaced frame %llu while it was borrowed: be quicker, copy it, or give the ring more slots",
        (unsigned long long)borrowed->head.ring_sequence);
}

// ---------------------------------------------------------------------------------------------------------------------
// Reusing results.

#define FOVEATE__NO_ROW UINT32_MAX

// What the bytes of a token depend on, beside its epoch and changed_frame.
struct foveate__token_place {
    int32_t x, y;
    uint16_t sx, sy;
    uint8_t extra_width, extra_height;
};

static struct foveate__token_place foveate__place_of(const struct foveate_token *token) {
    struct foveate__token_place place = {token->x, token->y, token->sx, token->sy, token->extra_width, token->extra_height};
    return place;
}

static bool foveate__is_same_place(const struct foveate__token_place *one, const struct foveate__token_place *other) {
    return one->x == other->x && one->y == other->y && one->sx == other->sx && one->sy == other->sy
           && one->extra_width == other->extra_width && one->extra_height == other->extra_height;
}

// A row of the table: the content that it is for, and its neighbours in the order of use.
struct foveate__row {
    uint64_t epoch;
    uint64_t changed_frame;
    struct foveate__token_place place;
    uint32_t next; // row of the same bucket
    uint32_t newer, older;
};

struct foveate_token_cache {
    uint32_t capacity;
    uint32_t count; // rows in use
    uint32_t newest, oldest;
    uint32_t bucket_mask;  // a power of 2, less 1
    uint32_t *buckets;     // the first row of each
    struct foveate__row *rows;
};

FOVEATE_API struct foveate_token_cache *foveate_token_cache_new(uint32_t capacity) {
    if (capacity < 1 || FOVEATE_CACHE_ROWS_MAX < capacity) return NULL;
    uint32_t bucket_count = 1;
    while (bucket_count < capacity) bucket_count *= 2;
    struct foveate_token_cache *cache = (struct foveate_token_cache *)calloc(1, sizeof *cache);
    if (cache == NULL) return NULL;
    cache->capacity = capacity;
    cache->bucket_mask = bucket_count - 1;
    cache->buckets = (uint32_t *)calloc(bucket_count, sizeof *cache->buckets);
    cache->rows = (struct foveate__row *)calloc(capacity, sizeof *cache->rows);
    if (cache->buckets == NULL || cache->rows == NULL) {
        foveate_token_cache_free(cache);
        return NULL;
    }
    foveate_token_cache_clear(cache);
    return cache;
}

FOVEATE_API void foveate_token_cache_free(struct foveate_token_cache *cache) {
    if (cache == NULL) return;
    free(cache->buckets);
    free(cache->rows);
    free(cache);
}

FOVEATE_API void foveate_token_cache_clear(struct foveate_token_cache *cache) {
    cache->count = 0;
    cache->newest = cache->oldest = FOVEATE__NO_ROW;
    // Every byte of FOVEATE__NO_ROW is 0xFF.
    memset(cache->buckets, 0xFF, ((size_t)cache->bucket_mask + 1) * sizeof *cache->buckets);
}

// The bucket of a place.
static uint32_t *foveate__bucket(struct foveate_token_cache *cache, uint64_t epoch, const struct foveate__token_place *place) {
    uint64_t step = (uint64_t)place->sx << 16 | place->sy, extra = (uint64_t)place->extra_width << 8 | place->extra_height;
    uint64_t hash = epoch ^ ((uint64_t)(uint32_t)place->x << 32 | (uint32_t)place->y);
    hash = (hash ^ hash >> 29) * 0x9E3779B97F4A7C15u ^ extra << 32 ^ step;
    hash *= 0xBF58476D1CE4E5B9u;
    return &cache->buckets[(uint32_t)(hash >> 32) & cache->bucket_mask];
}

// The row of a token's place, or FOVEATE__NO_ROW.
static uint32_t foveate__find_row(struct foveate_token_cache *cache, uint64_t epoch, const struct foveate_token *token) {
    struct foveate__token_place place = foveate__place_of(token);
    uint32_t row = *foveate__bucket(cache, epoch, &place);
    for (; row != FOVEATE__NO_ROW; row = cache->rows[row].next) {
        const struct foveate__row *kept = &cache->rows[row];
        if (kept->epoch == epoch && foveate__is_same_place(&kept->place, &place)) break;
    }
    return row;
}

// Takes a row out of the order of use.
static void foveate__unlink_row(struct foveate_token_cache *cache, uint32_t row) {
    struct foveate__row *kept = &cache->rows[row];
    *(kept->newer == FOVEATE__NO_ROW ? &cache->newest : &cache->rows[kept->newer].older) = kept->older;
    *(kept->older == FOVEATE__NO_ROW ? &cache->oldest : &cache->rows[kept->older].newer) = kept->newer;
}

// Makes a row the one that was used last.
static void foveate__link_newest(struct foveate_token_cache *cache, uint32_t row) {
    cache->rows[row].newer = FOVEATE__NO_ROW;
    cache->rows[row].older = cache->newest;
    *(cache->newest == FOVEATE__NO_ROW ? &cache->oldest : &cache->rows[cache->newest].newer) = row;
    cache->newest = row;
}

// A row for a new place: a free one, or that of the place that was not used for longest.
static uint32_t foveate__take_row(struct foveate_token_cache *cache) {
    if (cache->count < cache->capacity) return cache->count++;
    uint32_t row = cache->oldest;
    const struct foveate__row *kept = &cache->rows[row];
    uint32_t *link = foveate__bucket(cache, kept->epoch, &kept->place);
    while (*link != row) link = &cache->rows[*link].next;
    *link = kept->next;
    foveate__unlink_row(cache, row);
    return row;
}

// The row for a token that is not cached with this content.
static uint32_t foveate__store_token(struct foveate_token_cache *cache, uint64_t epoch, const struct foveate_token *token) {
    uint32_t row = foveate__find_row(cache, epoch, token);
    if (row != FOVEATE__NO_ROW) {
        foveate__unlink_row(cache, row);
    } else {
        row = foveate__take_row(cache);
        struct foveate__row *kept = &cache->rows[row];
        kept->epoch = epoch;
        kept->place = foveate__place_of(token);
        uint32_t *bucket = foveate__bucket(cache, epoch, &kept->place);
        kept->next = *bucket;
        *bucket = row;
    }
    cache->rows[row].changed_frame = token->changed_frame;
    foveate__link_newest(cache, row);
    return row;
}

FOVEATE_API int64_t foveate_token_cache_update(struct foveate_token_cache *cache, const struct foveate_segment *segment,
                                               const struct foveate_frame *frame, uint32_t *rows, uint32_t *missing) {
    if (cache->capacity < frame->token_count) return FOVEATE_TOO_SMALL;
    uint64_t epoch = segment->header.epoch;
    // Hits come first, so that no new place takes the row of one.
    for (size_t index = 0; index < frame->token_count; index++) {
        uint32_t row = foveate__find_row(cache, epoch, &frame->tokens[index]);
        bool is_same = row != FOVEATE__NO_ROW && cache->rows[row].changed_frame == frame->tokens[index].changed_frame;
        rows[index] = is_same ? row : FOVEATE__NO_ROW;
        if (!is_same) continue;
        foveate__unlink_row(cache, row);
        foveate__link_newest(cache, row);
    }
    int64_t missing_count = 0;
    for (size_t index = 0; index < frame->token_count; index++) {
        if (rows[index] != FOVEATE__NO_ROW) continue;
        rows[index] = foveate__store_token(cache, epoch, &frame->tokens[index]);
        missing[missing_count++] = (uint32_t)index;
    }
    return missing_count;
}

FOVEATE_API enum foveate_result foveate_wait(struct foveate_reader *reader, int timeout_ms) {
    int news = foveate__wait(reader, foveate__deadline_ns(timeout_ms));
    return news < 0 ? reader->error.result : 0 < news ? FOVEATE_OK : FOVEATE_NOTHING;
}

FOVEATE_API int foveate_descriptor(const struct foveate_reader *reader) {
    return 0 <= reader->beacon ? reader->beacon : foveate__news_socket(reader);
}

// ---------------------------------------------------------------------------------------------------------------------
// Steering.

static void foveate__read_looking(struct foveate__span answer, struct foveate_looking *looking) {
    struct foveate__span list, point, number, fixation;
    memset(looking, 0, sizeof *looking);
    if (foveate__find(answer, "points", &list) && foveate__element(list, 0, &point)) {
        if (foveate__element(point, 0, &number)) looking->x = foveate__number(number);
        if (foveate__element(point, 1, &number)) looking->y = foveate__number(number);
    }
    looking->taken_for = foveate__find_count(answer, "taken_for");
    looking->has_fixation = foveate__find(answer, "fixations", &list) && foveate__element(list, 0, &fixation);
    if (!looking->has_fixation) return;
    looking->fixation_id = foveate__find_count(fixation, "id");
    looking->fixation_x = foveate__find_number(fixation, "x");
    looking->fixation_y = foveate__find_number(fixation, "y");
    looking->fixation_since_frame = foveate__find_count(fixation, "since_frame");
}

static enum foveate_result foveate__await_newest_answer(struct foveate_reader *reader, int64_t deadline_ns,
                                                        struct foveate_looking *looking) {
    for (;;) {
        struct foveate__span answer = {NULL, NULL};
        enum foveate_result result = foveate__take_answer(reader, &answer);
        if (result == FOVEATE_OK && 0 < reader->answers_due) continue;
        if (result == FOVEATE_OK) {
            result = foveate__answer_result(answer, &reader->error);
            if (result == FOVEATE_OK && looking != NULL) foveate__read_looking(answer, looking);
            return result;
        }
        if (result != FOVEATE_NOTHING) return result;
        int ready = foveate__poll(reader->steering, POLLIN, deadline_ns);
        if (ready < 0 && errno != EINTR) return foveate__fail_system(&reader->error, "ppoll", errno);
        if (ready == 0) return foveate__fail(&reader->error, FOVEATE_TIMED_OUT, "the daemon has not answered yet");
    }
}

// Whether a refusal of feedback passes: the view starts, restarts or stands still, there are too many clients, or the daemon
// does not know the frame, such as one of the daemon before.
static bool foveate__is_passing(const char *reason) {
    const char *passing[] = {"busy", "not-started", "too-many-clients", "unavailable", "unknown-frame"};
    for (size_t index = 0; index < sizeof passing / sizeof *passing; index++) {
        if (strcmp(reason, passing[index]) == 0) return true;
    }
    return false;
}

// The result of a call that steers: with FOVEATE_RECONNECT, whatever a restart of the daemon does is FOVEATE_DISCONNECTED.
static enum foveate_result foveate__steered(struct foveate_reader *reader, enum foveate_result result) {
    bool is_away = result == FOVEATE_NO_DAEMON
                || (result == FOVEATE_REFUSED && foveate__is_passing(reader->error.reason));
    if (!reader->reconnects || !is_away) return result;
    reader->error.reason[0] = '\0';
    return reader->error.result = FOVEATE_DISCONNECTED;
}

// Sends a request with its raw bytes over the steering connection, which is opened on demand, and waits for the answer.
static enum foveate_result foveate__ask(struct foveate_reader *reader, const struct foveate__request *request,
                                        const void *payload, size_t payload_bytes, int timeout_ms,
                                        struct foveate_looking *looking) {
    int64_t deadline_ns = foveate__deadline_ns(timeout_ms);
    struct foveate__span unasked;
    // The view is not open yet on this connection.
    if (reader->is_making_view) return foveate__fail_disconnected(reader);
    // Unfetched answers, and an unnoticed hang-up.
    for (int taken = 0; taken < FOVEATE__MESSAGES_MAX && 0 <= reader->steering; taken++) {
        if (foveate__take_answer(reader, &unasked) != FOVEATE_OK) break;
    }
    if (reader->steering < 0 && foveate__is_own(reader)) return foveate__fail_disconnected(reader);
    if (reader->steering < 0) {
        enum foveate_result result = foveate__connect(&reader->address, &reader->steering, &reader->error);
        // A daemon that accepts no clients has not got the message.
        if (result == FOVEATE_TIMED_OUT) result = FOVEATE_NO_DAEMON;
        if (result != FOVEATE_OK) return foveate__steered(reader, result);
    }
    enum foveate_result result = foveate__send(reader->steering, request, payload, payload_bytes, deadline_ns, &reader->error);
    if (result != FOVEATE_OK) return result;
    reader->answers_due++;
    return foveate__steered(reader, foveate__await_newest_answer(reader, deadline_ns, looking));
}

static void foveate__append_frame_and_wait(struct foveate__request *request, uint64_t frame, bool strict, bool wait) {
    if (frame != 0) foveate__append(request, ",\"frame\":%llu", (unsigned long long)frame);
    if (strict) foveate__append(request, ",\"strict\":true");
    if (wait) foveate__append(request, ",\"wait\":true");
}

// Appends `count` numbers as the field `name`; none of them may be infinite or NaN.
static enum foveate_result foveate__append_motion(struct foveate_reader *reader, struct foveate__request *request,
                                                  const char *name, const double *numbers, int count) {
    for (int index = 0; index < count; index++) {
        if (!foveate__is_finite(numbers[index])) {
            return foveate__fail(&reader->error, FOVEATE_INVALID, "invalid %s (expected finite numbers)", name);
        }
        foveate__append(request, index == 0 ? ",\"%s\":[" : ",", name);
        foveate__append_number(request, numbers[index]);
    }
    foveate__append(request, "]");
    return FOVEATE_OK;
}

// Appends the ego motion since `frame`, if there is any.
static enum foveate_result foveate__append_ego_motion(struct foveate_reader *reader, struct foveate__request *request,
                                                      const struct foveate_ego_motion *ego, uint64_t frame) {
    if (ego->homography == NULL && ego->rotation == NULL) return FOVEATE_OK;
    if (ego->homography != NULL && ego->rotation != NULL) {
        return foveate__fail(&reader->error, FOVEATE_INVALID,
                             "`homography` and `rotation` exclude each other (expected one of them)");
    }
    if (frame == 0) {
        return foveate__fail(&reader->error, FOVEATE_INVALID,
                             "ego motion needs `frame`, the frame since which the camera moved");
    }
    if (ego->homography != NULL) return foveate__append_motion(reader, request, "homography", ego->homography, 9);
    return foveate__append_motion(reader, request, "rotation", ego->rotation, 4);
}

// Its name in docs/reference/control.md; NULL if unknown.
static const char *foveate__format_name(enum foveate_number_format format) {
    switch (format) {
    case FOVEATE_NUMBER_F32: return "f32";
    case FOVEATE_NUMBER_F16: return "f16";
    case FOVEATE_NUMBER_U8: return "u8";
    }
    return NULL;
}

static size_t foveate__format_bytes(enum foveate_number_format format) {
    return format == FOVEATE_NUMBER_F32 ? 4 : format == FOVEATE_NUMBER_F16 ? 2 : 1;
}

static enum foveate_result foveate__append_box(struct foveate_reader *reader, struct foveate__request *request,
                                               const double box[4]) {
    for (int side = 0; side < 4; side++) {
        if (!foveate__is_finite(box[side])) {
            return foveate__fail(&reader->error, FOVEATE_INVALID, "invalid `box` (expected finite numbers)");
        }
        foveate__append(request, side == 0 ? ",\"box\":[" : ",");
        foveate__append_number(request, box[side]);
    }
    foveate__append(request, "]");
    return FOVEATE_OK;
}

// Appends the box of a look, if it has one, and its share.
static enum foveate_result foveate__append_area(struct foveate_reader *reader, struct foveate__request *request,
                                                const struct foveate_point *points, size_t count) {
    for (size_t index = 0; index < count; index++) {
        if (1 < count && points[index].has_box) {
            return foveate__fail(&reader->error, FOVEATE_INVALID,
                                 "a box and %zu points exclude each other (expected one of them)", count);
        }
    }
    if (points->share != 0.0) {
        if (!(0.0 < points->share && points->share <= 1.0)) {
            return foveate__fail(&reader->error, FOVEATE_INVALID, "invalid `share` (expected a number above 0 and up to 1)");
        }
        foveate__append(request, ",\"share\":");
        foveate__append_number(request, points->share);
    }
    for (int edge = 0; edge < 4 && points->has_box && points->normalised; edge++) {
        if (!(0.0 <= points->box[edge] && points->box[edge] <= 1.0)) {
            return foveate__fail(&reader->error, FOVEATE_INVALID,
                                 "invalid normalised `box` (expected shares of the sides, 0 to 1)");
        }
    }
    return points->has_box ? foveate__append_box(reader, request, points->box) : FOVEATE_OK;
}

FOVEATE_API enum foveate_result foveate_look(struct foveate_reader *reader, const struct foveate_point *point, int timeout_ms,
                                             struct foveate_looking *looking) {
    return foveate_look_at(reader, point, 1, timeout_ms, looking);
}

FOVEATE_API enum foveate_result foveate_look_at(struct foveate_reader *reader, const struct foveate_point *points,
                                                size_t count, int timeout_ms, struct foveate_looking *looking) {
    if (count < 1 || FOVEATE__POINTS_MAX < count) {
        return foveate__fail(&reader->error, FOVEATE_INVALID,
                             "invalid number of points (expected 1 to %d): %zu", FOVEATE__POINTS_MAX,
                             count);
    }
    struct foveate__request request;
    foveate__begin(&request, "look", reader->view);
    enum foveate_result result = foveate__append_area(reader, &request, points, count);
    if (result != FOVEATE_OK) return result;
    for (size_t index = 0; index < count && !points->has_box; index++) {
        double x = points[index].x, y = points[index].y;
        if (!foveate__is_finite(x) || !foveate__is_finite(y)) {
            return foveate__fail(&reader->error, FOVEATE_INVALID, "invalid x or y (expected finite numbers)");
        }
        bool is_share = 0.0 <= x && x <= 1.0 && 0.0 <= y && y <= 1.0;
        if (points->normalised && !is_share) {
            return foveate__fail(&reader->error, FOVEATE_INVALID,
                                 "invalid normalised `x` or `y` (expected shares of the sides, 0 to 1)");
        }
        foveate__append(&request, index == 0 ? ",\"points\":[[" : ",[");
        foveate__append_number(&request, x);
        foveate__append(&request, ",");
        foveate__append_number(&request, y);
        foveate__append(&request, "]");
    }
    foveate__append(&request, points->has_box ? "" : "]");
    if (points->normalised) foveate__append(&request, ",\"normalised\":true");
    if (points->for_ms != 0) foveate__append(&request, ",\"for_ms\":%u", points->for_ms);
    result = foveate__append_ego_motion(reader, &request, &points->ego, points->frame);
    if (result != FOVEATE_OK) return result;
    foveate__append_frame_and_wait(&request, points->frame, points->strict, points->wait);
    foveate__append(&request, "}");
    return foveate__ask(reader, &request, NULL, 0, timeout_ms, looking);
}

// Appends the description of a map.
static enum foveate_result foveate__append_map(struct foveate_reader *reader, struct foveate__request *request,
                                               const struct foveate_map *map) {
    const char *format = foveate__format_name(map->format);
    if (format == NULL) return foveate__fail(&reader->error, FOVEATE_INVALID, "unknown number format");
    if (map->rows < 1 || FOVEATE__MAP_SIDE_MAX < map->rows || map->columns < 1 || FOVEATE__MAP_SIDE_MAX < map->columns) {
        return foveate__fail(&reader->error, FOVEATE_INVALID,
                             "invalid map size: %u x %u cells (expected 1 to %d a side)", map->rows,
                             map->columns, FOVEATE__MAP_SIDE_MAX);
    }
    foveate__append(request, ",\"shape\":[%u,%u],\"dtype\":\"%s\"", map->rows, map->columns, format);
    return map->has_box ? foveate__append_box(reader, request, map->box) : FOVEATE_OK;
}

static size_t foveate__map_bytes(const struct foveate_map *map) {
    return (size_t)map->rows * map->columns * foveate__format_bytes(map->format);
}

FOVEATE_API enum foveate_result foveate_attend(struct foveate_reader *reader, const struct foveate_map *map,
                                               const void *numbers, int timeout_ms, struct foveate_looking *looking) {
    struct foveate__request request;
    foveate__begin(&request, "attend", reader->view);
    enum foveate_result result = foveate__append_map(reader, &request, map);
    if (result != FOVEATE_OK) return result;
    result = foveate__append_ego_motion(reader, &request, &map->ego, map->frame);
    if (result != FOVEATE_OK) return result;
    foveate__append_frame_and_wait(&request, map->frame, map->strict, map->wait);
    foveate__append(&request, "}\n");
    return foveate__ask(reader, &request, numbers, foveate__map_bytes(map), timeout_ms, looking);
}

FOVEATE_API enum foveate_result foveate_attend_tokens(struct foveate_reader *reader, const struct foveate_scores *scores,
                                                      const void *numbers, int timeout_ms, struct foveate_looking *looking) {
    const char *format = foveate__format_name(scores->format);
    if (format == NULL) return foveate__fail(&reader->error, FOVEATE_INVALID, "unknown number format");
    size_t number_bytes = foveate__format_bytes(scores->format);
    size_t count_max = (FOVEATE__MESSAGE_BYTES_MAX - FOVEATE__REQUEST_BYTES) / number_bytes;
    if (count_max < scores->count) {
        return foveate__fail(&reader->error, FOVEATE_INVALID, "too many scores: %zu (expected at most %zu)", scores->count,
                             count_max);
    }
    struct foveate__request request;
    foveate__begin(&request, "attend_tokens", reader->view);
    foveate__append(&request, ",\"frame\":%llu,\"dtype\":\"%s\"", (unsigned long long)scores->frame, format);
    enum foveate_result result = foveate__append_ego_motion(reader, &request, &scores->ego, scores->frame);
    if (result != FOVEATE_OK) return result;
    if (scores->strict) foveate__append(&request, ",\"strict\":true");
    foveate__append(&request, scores->wait ? ",\"wait\":true}\n" : "}\n");
    return foveate__ask(reader, &request, numbers, scores->count * number_bytes, timeout_ms, looking);
}

// Whether `channel` is the name of a channel, which needs no escapes in JSON.
static bool foveate__is_channel(const char *channel) {
    size_t length = strspn(channel, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return 0 < length && length <= FOVEATE__CHANNEL_NAME_BYTES_MAX && channel[length] == '\0';
}

static enum foveate_result foveate__fail_channel(struct foveate_reader *reader) {
    return foveate__fail(&reader->error, FOVEATE_INVALID, "invalid channel name (expected 1 to %d of a-z, 0-9, _ and -)",
                         FOVEATE__CHANNEL_NAME_BYTES_MAX);
}

FOVEATE_API enum foveate_result foveate_inject(struct foveate_reader *reader, const char *channel, const struct foveate_map *map,
                                               const void *numbers, uint32_t ttl_ms, int timeout_ms) {
    if (!foveate__is_channel(channel)) return foveate__fail_channel(reader);
    struct foveate__request request;
    foveate__begin(&request, "inject", reader->view);
    foveate__append(&request, ",\"name\":\"%s\"", channel);
    enum foveate_result result = foveate__append_map(reader, &request, map);
    if (result != FOVEATE_OK) return result;
    foveate__append_frame_and_wait(&request, map->frame, map->strict, false);
    if (ttl_ms != 0) foveate__append(&request, ",\"ttl_ms\":%u", ttl_ms);
    foveate__append(&request, "}\n");
    return foveate__ask(reader, &request, numbers, foveate__map_bytes(map), timeout_ms, NULL);
}

FOVEATE_API enum foveate_result foveate_weigh(struct foveate_reader *reader, const struct foveate_weight *weights,
                                              size_t count, int timeout_ms) {
    if (count < 1 || FOVEATE__WEIGHTS_MAX < count) {
        return foveate__fail(&reader->error, FOVEATE_INVALID, "invalid number of weights (expected 1 to %d): %zu",
                             FOVEATE__WEIGHTS_MAX, count);
    }
    struct foveate__request request;
    foveate__begin(&request, "weigh", reader->view);
    for (size_t index = 0; index < count; index++) {
        if (!foveate__is_channel(weights[index].channel)) return foveate__fail_channel(reader);
        if (!foveate__is_finite(weights[index].weight)) {
            return foveate__fail(&reader->error, FOVEATE_INVALID, "invalid weights (expected finite numbers)");
        }
        foveate__append(&request, "%s\"%s\":", index == 0 ? ",\"weights\":{" : ",", weights[index].channel);
        foveate__append_number(&request, weights[index].weight);
    }
    foveate__append(&request, "}}");
    return foveate__ask(reader, &request, NULL, 0, timeout_ms, NULL);
}

FOVEATE_API enum foveate_result foveate_release_gaze(struct foveate_reader *reader, int timeout_ms) {
    struct foveate__request request;
    foveate__begin(&request, "release", reader->view);
    foveate__append(&request, "}");
    return foveate__ask(reader, &request, NULL, 0, timeout_ms, NULL);
}

FOVEATE_API enum foveate_result foveate_refresh(struct foveate_reader *reader, int timeout_ms) {
    struct foveate__request request;
    foveate__begin(&request, "refresh", reader->view);
    foveate__append(&request, "}");
    return foveate__ask(reader, &request, NULL, 0, timeout_ms, NULL);
}

FOVEATE_API enum foveate_result foveate_answer(struct foveate_reader *reader, int timeout_ms, struct foveate_looking *looking) {
    if (reader->steering < 0 || reader->answers_due == 0) return FOVEATE_NOTHING;
    return foveate__steered(reader, foveate__await_newest_answer(reader, foveate__deadline_ns(timeout_ms), looking));
}

#undef FOVEATE__ENSURE

#ifdef __cplusplus
} // extern "C"
#endif

#endif // FOVEATE_IMPLEMENTATION
