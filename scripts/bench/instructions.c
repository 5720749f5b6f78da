// A plugin of qemu-user that counts the instructions that a program executes. At its end it writes the number to the file that
// the environment names: FOVEATE_INSTRUCTIONS.
//
//     gcc -shared -fPIC -O2 -o libinstructions.so instructions.c
//     FOVEATE_INSTRUCTIONS=count qemu-aarch64 -plugin ./libinstructions.so PROGRAM
//
// Debian packages the plugins' interface without its header, so the few declarations of it that are needed are here: QEMU 7.2,
// include/qemu/qemu-plugin.h.
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
typedef struct qemu_info_t qemu_info_t;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*callback)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block, void (*callback)(unsigned int, void *), int flags,
                                          void *count);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*callback)(qemu_plugin_id_t, void *), void *nothing);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);

EXPORT int qemu_plugin_version = 1;

static uint64_t executed;

static void block_executed(unsigned int processor, void *count) {
    (void)processor;
    __atomic_fetch_add(&executed, (uintptr_t)count, __ATOMIC_RELAXED);
}

// A block of instructions without a branch is executed whole.
static void block_translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(block, block_executed, 0, (void *)qemu_plugin_tb_n_insns(block));
}

static void ended(qemu_plugin_id_t id, void *nothing) {
    (void)id;
    (void)nothing;
    const char *path = getenv("FOVEATE_INSTRUCTIONS");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL || fprintf(file, "%" PRIu64 "\n", executed) < 0 || fclose(file) != 0) {
        fprintf(stderr, "instructions.c: FOVEATE_INSTRUCTIONS must name a file that can be written\n");
    }
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, block_translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
