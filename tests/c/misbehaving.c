// A plug-in of GStreamer as nobody wants it: an element that delivers gray frames, and then does what its property says. It says on
// standard error how that went.

#define _GNU_SOURCE
#define PACKAGE "misbehaving"

#include <errno.h>
#include <fcntl.h>
#include <gst/base/gstpushsrc.h>
#include <gst/gst.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WIDTH = 64, HEIGHT = 48, GOOD_FRAMES = 3, MESSAGE_BYTES_MAX = 1 << 16 };

typedef struct {
    GstPushSrc parent;
    char *deed;
    char *script;
    int frames;
} Misbehaving;

typedef struct {
    GstPushSrcClass parent;
} MisbehavingClass;

enum { PROPERTY_DEED = 1, PROPERTY_SCRIPT };

GType misbehaving_get_type(void);
G_DEFINE_TYPE(Misbehaving, misbehaving, GST_TYPE_PUSH_SRC)

static void tell(const char *deed, int failed, int error) {
    fprintf(stderr, "WARN misbehaving: %s was %s\n", deed, failed ? strerror(error) : "allowed");
}

static void wait_for_ever(void) {
    for (;;) {
        pause();
    }
}

static void leak(void) {
    for (;;) {
        // GLib ends the process where there is no more.
        memset(g_malloc(1 << 20), 1, 1 << 20);
    }
}

// In memory that no limit of the kernel counts.
static void hoard(void) {
    const size_t part = 4 << 20;
    for (int taken = 0; taken < 200; taken++) {
        const int file = memfd_create("hoard", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, part)) {
            break;
        }
        void *memory = mmap(NULL, part, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (memory == MAP_FAILED) {
            break;
        }
        memset(memory, 1, part);
        g_usleep(10000);
    }
    wait_for_ever();
}

static void try_fork(void) {
    const pid_t child = fork();
    const int error = errno;
    if (child == 0) {
        _exit(0);
    }
    tell("fork", child < 0, error);
    if (0 < child) {
        waitpid(child, NULL, 0);
    }
}

static void try_exec(void) {
    execl("/bin/sh", "sh", "-c", "echo 'WARN misbehaving: exec was allowed' >&2", (char *)NULL);
    tell("exec", 1, errno);
}

static void try_open(const char *path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    char deed[64];
    snprintf(deed, sizeof deed, "opening %s", path);
    tell(deed, file < 0, errno);
    if (0 <= file) {
        close(file);
    }
}

// The socket to the daemon: the only one of its kind.
static int daemon_socket(void) {
    for (int fd = 3; fd < 1024; fd++) {
        int type = 0;
        socklen_t length = sizeof type;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET) {
            return fd;
        }
    }
    fprintf(stderr, "WARN misbehaving: no socket to the daemon\n");
    abort();
}

// A descriptor as `kind` says, such as `sealed:4096`.
static int descriptor(const char *kind) {
    const char *colon = strchr(kind, ':');
    const long bytes = colon ? atol(colon + 1) : 0;
    if (strncmp(kind, "file", 4) == 0) {
        return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    }
    if (strncmp(kind, "pipe", 4) == 0) {
        int ends[2];
        return pipe2(ends, O_CLOEXEC) < 0 ? -1 : ends[0];
    }
    const int file = memfd_create("misbehaving", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const int is_hollow = strncmp(kind, "hollow", 6) == 0;
    if (file < 0 || (is_hollow ? ftruncate(file, bytes) : posix_fallocate(file, 0, bytes))) {
        return -1;
    }
    if (strncmp(kind, "unsealed", 8) != 0) {
        // F_SEAL_FUTURE_WRITE is 16; headers may be older.
        fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | 16);
    }
    return file;
}

static void say(int socket, const guint8 *message, size_t length, int file) {
    struct iovec part = {(void *)message, length};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control = {{0}};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (0 <= file) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &file, sizeof file);
    }
    if (sendmsg(socket, &header, MSG_NOSIGNAL) < 0) {
        // The daemon has hung up.
        wait_for_ever();
    }
}

// Messages with a semicolon behind each: bytes in hexadecimal digits, perhaps none, then `+` and a kind of descriptor, and `*` and how
// often.
static void play(const char *script) {
    static guint8 message[MESSAGE_BYTES_MAX];
    const int socket = daemon_socket();
    char **lines = g_strsplit(script, ";", 0);
    for (char **line = lines; line[0] && line[1]; line++) {
        size_t length = 0;
        const char *at = *line;
        unsigned byte;
        for (; length < sizeof message && g_ascii_isxdigit(*at); at += 2) {
            sscanf(at, "%2x", &byte);
            message[length++] = (guint8)byte;
        }
        const int file = *at == '+' ? descriptor(at + 1) : -1;
        const char *times = strchr(at, '*');
        for (long left = times ? atol(times + 1) : 1; 0 < left; left--) {
            say(socket, message, length, file);
        }
    }
    g_strfreev(lines);
}

static gpointer scribble(gpointer data) {
    GstMapInfo *map = data;
    for (guint8 value = 0;; value++) {
        memset(map->data, value, map->size);
    }
    return NULL;
}

static gboolean set_size(GstBaseSrc *source, int width, int height) {
    GstCaps *caps = gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, "GRAY8", "width", G_TYPE_INT, width,
        "height", G_TYPE_INT, height, "framerate", GST_TYPE_FRACTION, 30, 1, NULL);
    const gboolean is_set = gst_base_src_set_caps(source, caps);
    gst_caps_unref(caps);
    return is_set;
}

static gboolean negotiate(GstBaseSrc *source) {
    return set_size(source, WIDTH, HEIGHT);
}

static GstFlowReturn create(GstPushSrc *source, GstBuffer **buffer) {
    Misbehaving *self = (Misbehaving *)source;
    int width = WIDTH, height = HEIGHT;
    if (strcmp(self->deed, "flap") == 0) {
        // As fast as it can.
        width >>= self->frames % 2;
        height >>= self->frames % 2;
        set_size(GST_BASE_SRC(source), width, height);
    } else {
        g_usleep(33000);
    }
    *buffer = gst_buffer_new_allocate(NULL, width * height, NULL);
    gst_buffer_memset(*buffer, 0, 128, width * height);
    GST_BUFFER_PTS(*buffer) = gst_util_uint64_scale(self->frames, GST_SECOND, 30);
    if (self->frames++ < GOOD_FRAMES && strcmp(self->deed, "say") != 0) {
        return GST_FLOW_OK;
    }
    if (strcmp(self->deed, "crash") == 0) {
        raise(SIGSEGV);
    } else if (strcmp(self->deed, "leak") == 0) {
        leak();
    } else if (strcmp(self->deed, "hoard") == 0) {
        hoard();
    } else if (strcmp(self->deed, "loop") == 0) {
        for (volatile int turns = 0;; turns = turns + 1) {
        }
    } else if (strcmp(self->deed, "fork") == 0 && self->frames == GOOD_FRAMES + 1) {
        try_fork();
    } else if (strcmp(self->deed, "exec") == 0 && self->frames == GOOD_FRAMES + 1) {
        try_exec();
    } else if (strcmp(self->deed, "shadow") == 0 && self->frames == GOOD_FRAMES + 1) {
        try_open("/etc/shadow");
    } else if (strcmp(self->deed, "scribble") == 0 && self->frames == GOOD_FRAMES + 1) {
        // Mapped for good, so that every holder of the buffer sees what is written.
        GstMapInfo *map = g_new(GstMapInfo, 1);
        GstMemory *memory = gst_memory_ref(gst_buffer_peek_memory(*buffer, 0));
        gst_memory_map(memory, map, GST_MAP_READWRITE);
        g_thread_new("scribble", scribble, map);
    } else if (strcmp(self->deed, "say") == 0) {
        play(self->script);
        wait_for_ever();
    }
    return GST_FLOW_OK;
}

static void set_property(GObject *object, guint number, const GValue *value, GParamSpec *spec) {
    Misbehaving *self = (Misbehaving *)object;
    char **field = number == PROPERTY_DEED ? &self->deed : &self->script;
    (void)spec;
    g_free(*field);
    *field = g_value_dup_string(value);
}

static void misbehaving_class_init(MisbehavingClass *class) {
    static GstStaticPadTemplate template = GST_STATIC_PAD_TEMPLATE(
        "src", GST_PAD_SRC, GST_PAD_ALWAYS,
        GST_STATIC_CAPS("video/x-raw,format=GRAY8,framerate=30/1"));
    GObjectClass *object = G_OBJECT_CLASS(class);
    object->set_property = set_property;
    const GParamFlags flags = G_PARAM_WRITABLE | G_PARAM_STATIC_STRINGS;
    g_object_class_install_property(object, PROPERTY_DEED,
        g_param_spec_string("deed", "Deed", "What it does after a few frames", "", flags));
    g_object_class_install_property(object, PROPERTY_SCRIPT,
        g_param_spec_string("script", "Script", "What it says to the daemon", "", flags));
    gst_element_class_add_static_pad_template(GST_ELEMENT_CLASS(class), &template);
    gst_element_class_set_static_metadata(
        GST_ELEMENT_CLASS(class), "Misbehaving source", "Source/Video", "Harms", "Foveate");
    GST_BASE_SRC_CLASS(class)->negotiate = negotiate;
    GST_PUSH_SRC_CLASS(class)->create = create;
}

static void misbehaving_init(Misbehaving *self) {
    self->deed = g_strdup("");
    self->script = g_strdup("");
    gst_base_src_set_live(GST_BASE_SRC(self), TRUE);
    gst_base_src_set_format(GST_BASE_SRC(self), GST_FORMAT_TIME);
}

static gboolean start_plugin(GstPlugin *plugin) {
    return gst_element_register(plugin, "misbehaving", GST_RANK_NONE, misbehaving_get_type());
}

GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, misbehaving, "An element that misbehaves", start_plugin, "1",
    "Proprietary", "misbehaving", "https://example.org/")
