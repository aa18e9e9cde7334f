/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin as a whole: one exported symbol, a constant table, and notes that are read without running
 * anything.
 *
 * A plugin has one FK_PLUGIN(name, version) and any number of ops, in any number of files. Ops register
 * by a pointer in the linker section fk_ops: no list to edit, no static constructor. A plugin without ops
 * does not link. */
#ifndef FK_PLUGIN_H
#define FK_PLUGIN_H
#include "comm.h"
#include "op.h"

/* The plugin's constant table. `minor` is the ABI's that it needs at least. */
typedef struct fk_plugin {
  uint32_t struct_size, minor;
  const char *name, *version;                     /* as in the note */
  const fk_op *const *ops_begin, *const *ops_end; /* [begin, end): pointers to op tables, one or more */
} fk_plugin;
FK_ASSERT(offsetof(fk_plugin, ops_begin) == 24 && offsetof(fk_plugin, ops_end) == 32, "layout");

/* What the host says first, the host's for the time of the call. A plugin that needs a newer minor returns
 * null and says so in `error`. */
typedef struct fk_hello {
  uint32_t struct_size, minor;
  const char *host_name, *host_version;
  fk_error *error;
} fk_hello;
FK_ASSERT(offsetof(fk_hello, error) == 24, "layout");

/* The entry, exported as fk_plugin_v0: negotiates and returns a table that lives as long as the process.
 * No device call, thread or allocation. Asked more than once, it gives the same table. [any thread] */
typedef const fk_plugin *(*fk_plugin_entry)(const fk_hello *);
#define FK_PLUGIN_SYMBOL "fk_plugin_v0"

/* ELF notes (section .note.fk, owner "FK"): the static facts. Texts end with a zero within their arrays;
 * `sm` and `build` are FK_BUILD_SM and FK_BUILD_ID, `compiler` is __VERSION__. */
enum { FK_NOTE_PLUGIN = 1, FK_NOTE_OP = 2 };
#define FK_NOTE_HEADER uint32_t name_bytes, desc_bytes, type; char owner[4];
typedef struct fk_note_plugin {
  FK_NOTE_HEADER
  uint32_t abi_major, abi_minor;
  char name[64], version[32], compiler[96], sm[64], build[64];
} fk_note_plugin;
typedef struct fk_note_op {
  FK_NOTE_HEADER
  char op[64];
  uint32_t revision;
  uint32_t slots[4];   /* init, weights, forward, plan */
  uint32_t hash[4][2]; /* low and high half of the hash over all slots of each section */
} fk_note_op;
FK_ASSERT(sizeof(fk_note_plugin) == 16 + 8 + 320 && sizeof(fk_note_op) == 16 + 64 + 4 + 16 + 32, "notes");
#define FK_NOTE_BEGIN(T, TYPE) 4, (uint32_t)sizeof(T) - 16u, TYPE, {'F', 'K', 0, 0}
#define FK_NOTE_SECTION __attribute__((used, section(".note.fk"), aligned(4)))

/* Set by the build: compute capabilities inside ("90a 100a") and a hash of the sources. */
#ifndef FK_BUILD_SM
#define FK_BUILD_SM ""
#endif
#ifndef FK_BUILD_ID
#define FK_BUILD_ID ""
#endif

/* At file scope: the op table OP (a const fk_op *) becomes one of the plugin's. The headers of ops use it. */
#define FK_REGISTER(NAME, OP)                                                                       \
  static const fk_op *const NAME##_registered __attribute__((used, section("fk_ops"))) = (OP)

/* At file scope, once in a plugin: its note and its entry. NAME has at most 63 characters, VERSION 31. */
#define FK_PLUGIN(NAME, VERSION)                                                                    \
  static const fk_note_plugin fk_plugin_note FK_NOTE_SECTION = {                                    \
      FK_NOTE_BEGIN(fk_note_plugin, FK_NOTE_PLUGIN), FK_ABI_MAJOR, FK_ABI_MINOR, NAME, VERSION,     \
      __VERSION__, FK_BUILD_SM, FK_BUILD_ID};                                                       \
  FK_EXTERN_C const fk_op *const __start_fk_ops[] __attribute__((visibility("hidden")));            \
  FK_EXTERN_C const fk_op *const __stop_fk_ops[] __attribute__((visibility("hidden")));             \
  FK_EXTERN_C __attribute__((visibility("default"))) const fk_plugin *fk_plugin_v0(                 \
      const fk_hello *hello);                                                                       \
  FK_EXTERN_C const fk_plugin *fk_plugin_v0(const fk_hello *hello) {                                \
    static const fk_plugin table = {FK_END(fk_plugin, ops_end), FK_ABI_MINOR,   NAME, VERSION,       \
                                    __start_fk_ops,             __stop_fk_ops};                     \
    (void)hello;                                                                                    \
    return &table;                                                                                  \
  }                                                                                                 \
  FK_ASSERT(1, "")
#endif
