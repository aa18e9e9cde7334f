/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin is a shared library with one exported symbol, a constant table of ops, and ELF notes.
 * The host reads the notes before it loads the library.
 *
 * A plugin has one FK_PLUGIN(name, version) and one op or more, in any number of files. The linker
 * collects the ops: each has a pointer in the section fk_ops. There is no list to edit and no
 * static constructor. A plugin without ops does not link. */
#ifndef FK_PLUGIN_H
#define FK_PLUGIN_H
#include "comm.h"
#include "op.h"

/* The plugin's constant table. `minor` is the lowest ABI minor that the plugin works with. */
typedef struct fk_plugin {
  uint32_t struct_size, minor;
  const char *name, *version;                     /* equal to the note's */
  const fk_op *const *ops_begin, *const *ops_end; /* half-open range of op tables, one or more */
} fk_plugin;
FK_ASSERT(offsetof(fk_plugin, ops_begin) == 24 && offsetof(fk_plugin, ops_end) == 32, "layout");

/* The host's greeting: the argument of the entry. The host owns it; it is valid during the call. A
 * plugin that needs a higher minor than the host's returns null, with the reason in `error`. */
typedef struct fk_hello {
  uint32_t struct_size, minor;
  const char *host_name, *host_version;
  fk_error *error;
} fk_hello;
FK_ASSERT(offsetof(fk_hello, error) == 24, "layout");

/* The entry, exported as fk_plugin_v1. It returns the plugin's table, which is valid until the
 * process ends. The host compares minors. The entry makes no device call, thread or allocation.
 * Each call returns the same table. [any thread] */
typedef const fk_plugin *(*fk_plugin_entry)(const fk_hello *);
#define FK_PLUGIN_SYMBOL "fk_plugin_v1"

/* ELF notes (section .note.fk, owner "FK") describe a plugin to tools that do not load it. Texts
 * are zero-terminated within their arrays. `sm`, `build` and `compiler` hold FK_BUILD_SM,
 * FK_BUILD_ID and FK_COMPILER. */
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
  uint32_t slots[4];   /* slot counts of init, weights, forward, plan */
  uint32_t hash[4][2]; /* low and high half of each section's hash over all its slots */
} fk_note_op;
FK_ASSERT(sizeof(fk_note_plugin) == 16 + 8 + 320 && sizeof(fk_note_op) == 16 + 64 + 4 + 16 + 32, "notes");
#define FK_NOTE_BEGIN(T, TYPE) 4, (uint32_t)sizeof(T) - 16u, TYPE, {'F', 'K', 0, 0}
#define FK_NOTE_SECTION __attribute__((used, section(".note.fk"), aligned(4)))

/* The build defines both: compute capabilities with code inside ("90a 100a"), and a hash of the
 * sources. */
#ifndef FK_BUILD_SM
#define FK_BUILD_SM ""
#endif
#ifndef FK_BUILD_ID
#define FK_BUILD_ID ""
#endif
/* The compiler's name, of at most 95 characters. __VERSION__ of some builds of clang is longer. */
#ifdef __clang__
#define FK_DIGITS(NUMBER) #NUMBER
#define FK_TEXT(NUMBER) FK_DIGITS(NUMBER)
#define FK_COMPILER \
  "clang " FK_TEXT(__clang_major__) "." FK_TEXT(__clang_minor__) "." FK_TEXT(__clang_patchlevel__)
#else
#define FK_COMPILER __VERSION__
#endif

/* Use at file scope: adds the op table OP, a const fk_op *, to the plugin. Ops' headers use it. */
#define FK_REGISTER(NAME, OP)                                                                       \
  static const fk_op *const NAME##_registered __attribute__((used, section("fk_ops"))) = (OP)

/* Use at file scope, once in a plugin: defines the plugin's note and its entry. NAME has at most 63
 * characters, VERSION 31. */
#define FK_PLUGIN(NAME, VERSION)                                                                    \
  static const fk_note_plugin fk_plugin_note FK_NOTE_SECTION = {                                    \
      FK_NOTE_BEGIN(fk_note_plugin, FK_NOTE_PLUGIN), FK_ABI_MAJOR, FK_ABI_MINOR, NAME, VERSION,     \
      FK_COMPILER, FK_BUILD_SM, FK_BUILD_ID};                                                       \
  FK_EXTERN_C const fk_op *const __start_fk_ops[] __attribute__((visibility("hidden")));            \
  FK_EXTERN_C const fk_op *const __stop_fk_ops[] __attribute__((visibility("hidden")));             \
  FK_EXTERN_C __attribute__((visibility("default"))) const fk_plugin *fk_plugin_v1(                 \
      const fk_hello *hello);                                                                       \
  FK_EXTERN_C const fk_plugin *fk_plugin_v1(const fk_hello *hello) {                                \
    static const fk_plugin table = {FK_END(fk_plugin, ops_end), FK_ABI_MINOR,   NAME, VERSION,       \
                                    __start_fk_ops,             __stop_fk_ops};                     \
    (void)hello;                                                                                    \
    return &table;                                                                                  \
  }                                                                                                 \
  FK_ASSERT(1, "")
#endif
