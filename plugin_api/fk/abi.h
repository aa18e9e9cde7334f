/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of the boundary between host and plugin: language checks, growing structs, status codes and
 * errors.
 *
 * All headers in fk/ are C11 and C++17 for little-endian LP64. They include stdint.h and stddef.h
 * alone. No function defined here allocates, throws or prints. A pointer argument is non-null
 * unless its name ends in `or_null`. No bool, enum type, bit-field, long or C++ type crosses the
 * boundary.
 *
 * Most structs of the boundary can grow and start with `struct_size`. The writer of a struct sets
 * struct_size to the end of the last member in its version of the header (FK_END). sizeof would be
 * wrong: a new member may fit into tail padding and leave sizeof unchanged. Members are only
 * appended, and zero is a valid default of each. Before a reader touches an appended member, it
 * asks FK_HAS. */
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
/* These diagnostics check the types of the ABI. C compilers only warn by default. */
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic error "-Wdiscarded-qualifiers"
#pragma GCC diagnostic error "-Wint-conversion"
#pragma GCC diagnostic error "-Wimplicit-function-declaration"
#pragma GCC diagnostic error "-Wreturn-type"
#endif

/* The entry symbol's name contains the major: fk_plugin_v1. The minor rises when members, functions
 * or enum values are appended. docs/abi.md says what may be added, and what never changes. */
#define FK_ABI_MAJOR 1
#define FK_ABI_MINOR 0

/* Offset in bytes of the end of member `last` in T: the value for struct_size. */
#define FK_END(T, last) ((uint32_t)(offsetof(T, last) + sizeof(((T *)0)->last)))
/* True if the writer of *p, a T, knew `member`. */
#define FK_HAS(p, T, member) ((p)->struct_size >= FK_END(T, member))

FK_ASSERT(sizeof(void *) == 8 && sizeof(double) == 8 && sizeof(void (*)(void)) == 8, "LP64 only");

/* Return values of host and plugin functions. A value outside of this list is a failure, too. */
enum {
  FK_OK = 0,
  FK_UNSUPPORTED = 1, /* supports(): this provider does not take this case; not an error */
  FK_INVALID = 2,     /* the host broke the contract */
  FK_FAILED = 3       /* any other failure: out of memory, a library's error, a failed launch */
};

/* The caller owns this struct. A callee can therefore report a failure without allocating, even
 * before versions are negotiated. The callee fills it before it returns a status other than FK_OK.
 * It keeps no pointer to it.
 *   code    the returned status again
 *   native  a cudaError_t, errno or library status; 0: none
 *   line    source line; 0: unknown
 *   text    one sentence in UTF-8, zero-terminated */
typedef struct fk_error {
  uint32_t struct_size;
  int32_t code, native, line;
  char text[240];
} fk_error;

/* Copies `why` into the error, truncated to fit, and returns `code`. Use: `return fk_fail(...)`.
 * [any thread] */
static inline int32_t fk_fail(fk_error *error, int32_t code, const char *why) {
  size_t i = 0;
  for (; why[i] && i + 1 < sizeof error->text; ++i) error->text[i] = why[i];
  error->text[i] = 0;
  error->code = code;
  return code;
}
/* For supports(): refuses this case with one sentence, such as "x: float32 only". [any thread] */
static inline int32_t fk_refuse(fk_error *why, const char *text) {
  return fk_fail(why, FK_UNSUPPORTED, text);
}
#endif
