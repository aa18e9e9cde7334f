/* SPDX-License-Identifier: Apache-2.0 */
/* The ground rules of the boundary: language checks, growing structs, status codes and the error struct.
 *
 * Everything in fk/ is C11 and C++17, little-endian LP64, and uses only stdint and stddef. No function
 * here allocates, throws or prints. A pointer argument is non-null unless its name ends in `or_null`.
 * No bool, enum type, bit-field, long or C++ type crosses the boundary.
 *
 * A struct that crosses it starts with `struct_size`: the end of the last member that its writer knows
 * (FK_END), never sizeof, which tail padding can leave unchanged when a member is added. Members are
 * only ever appended, and zero is a valid default for every appended one. A reader asks FK_HAS (which
 * compares with >=) before it touches a member that was not in the first version. */
#ifndef FK_ABI_H
#define FK_ABI_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define FK_ASSERT(condition, message) static_assert(condition, message)
#define FK_EXTERN_C extern "C"
#else
#define FK_ASSERT(condition, message) _Static_assert(condition, message)
#define FK_EXTERN_C extern
/* C merely warns about these; here they are the type check of the ABI, so they are errors. */
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic error "-Wdiscarded-qualifiers"
#pragma GCC diagnostic error "-Wint-conversion"
#pragma GCC diagnostic error "-Wimplicit-function-declaration"
#pragma GCC diagnostic error "-Wreturn-type"
#endif

/* The major is in the name of the entry symbol (fk_plugin_v0); the minor counts appended members. */
#define FK_ABI_MAJOR 0
#define FK_ABI_MINOR 0

/* The end of member `last` in T, in bytes: what goes into struct_size. */
#define FK_END(T, last) ((uint32_t)(offsetof(T, last) + sizeof(((T *)0)->last)))
/* Whether the writer of *p, which is a T, knew `member`. */
#define FK_HAS(p, T, member) ((p)->struct_size >= FK_END(T, member))

FK_ASSERT(sizeof(void *) == 8 && sizeof(double) == 8 && sizeof(void (*)(void)) == 8, "LP64 only");

/* What functions of both sides return; any other value but FK_OK is a failure, too. */
enum {
  FK_OK = 0,
  FK_UNSUPPORTED = 1, /* supports(): this provider does not take this case; not an error */
  FK_INVALID = 2,     /* the host broke the contract */
  FK_FAILED = 3       /* anything else: out of memory, a library's error, a launch that failed */
};

/* Owned by the caller, so that a failure can be told before anything is negotiated and without memory. Who
 * is called fills it before it returns anything but FK_OK, and keeps no pointer to it.
 * `code` repeats the returned status; `native` is a cudaError_t, errno or library status, 0 when there is
 * none; `line` is the source line, 0 when unknown; `text` is one sentence, zero-terminated. */
typedef struct fk_error {
  uint32_t struct_size;
  int32_t code, native, line;
  char text[240];
} fk_error;

/* Writes `why` into the error (cut to fit) and returns `code`, so that `return fk_fail(...)` works.
 * `why` is copied. [any thread] */
static inline int32_t fk_fail(fk_error *error, int32_t code, const char *why) {
  size_t i = 0;
  for (; why[i] && i + 1 < sizeof error->text; ++i) error->text[i] = why[i];
  error->text[i] = 0;
  error->code = code;
  return code;
}
/* For supports(): refuses this case and says why in one sentence ("x: float32 only"). */
static inline int32_t fk_refuse(fk_error *why, const char *text) {
  return fk_fail(why, FK_UNSUPPORTED, text);
}
#endif
