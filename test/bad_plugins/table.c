/* SPDX-License-Identifier: Apache-2.0 */
/* `add` with tables made by hand, one entry of which is wrong: BAD_... says which. */
#include <stdio.h>
#include <string.h>

#include "fk/ops/add.h"

static int32_t add_supports(const void *init, const void *weights, const void *max, fk_need *need, fk_error *why) {
  (void)init, (void)weights, (void)need;
  return FK_DTYPE(((const fk_add_forward *)max)->a) == FK_F32 ? FK_OK : fk_refuse(why, "float32 only");
}
static int32_t add_create(const fk_host *host, const void *init, const void *weights, void **self, fk_error *error) {
  (void)host, (void)weights, (void)error;
  *self = (void *)(uintptr_t)init;
  return FK_OK;
}
static int32_t add_prepare(void *self, const void *max, const fk_memory *memory, fk_error *error) {
  (void)self, (void)max, (void)memory, (void)error;
  return FK_OK;
}
__attribute__((unused)) static int32_t add_forward(void *self, const void *frame, const fk_ctx *ctx) {
  const fk_add_forward *args = frame;
  const float *a = args->a->data, *b = args->b->data;
  (void)self, (void)ctx;
  for (int64_t i = fk_numel(args->a) - 1; i >= 0; --i) ((float *)args->out->data)[i] = a[i] + b[i];
  return FK_OK;
}
static int32_t add_reset(void *self, fk_error *error) {
  (void)self;
#ifdef BAD_RESET
  return fk_fail(error, FK_FAILED, "reset() fails on purpose");
#endif
  (void)error;
  return FK_OK;
}
__attribute__((unused)) static void add_destroy(void *self) { (void)self; }

#ifdef BAD_CLAIM_DEVICE
#define DEVICE 99
#elif defined BAD_CLAIM_CODE
#define DEVICE FK_CUDA
#else
#define DEVICE FK_CPU
#endif
#ifdef BAD_CLAIM_GRAPH
#define GRAPH 17
#else
#define GRAPH FK_GRAPH_ALWAYS
#endif
#define SM_LIST NULL
#ifdef BAD_CLAIM_SM
#define SM 3
#elif defined BAD_CLAIM_CODE /* a fat binary with a cubin for 8.0, of no bytes, and a claim for 9.0 */
#define SM 1
#undef SM_LIST
#define SM_LIST sm_list
static const int32_t sm_list[] = {90};
static const struct {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;
  uint16_t kind, part_version;
  uint32_t part_header_bytes;
  uint64_t part_bytes, options;
  uint32_t format, sm;
  uint64_t rest[4];
} fat_binary __attribute__((used, section(".nv_fatbin"), aligned(8))) = {0xba55ed50, 1, 16, 64, 2, 0x101, 64, 0, 0, 1, 80, {0}};
#else
#define SM 0
#endif
#ifdef BAD_CLAIM_SHORT
#define CLAIMS_END FK_END(fk_claims, graph)
#else
#define CLAIMS_END FK_END(fk_claims, sm)
#endif
#ifdef BAD_CLAIM_YES
#define DETERMINISTIC 2 /* more than yes */
#else
#define DETERMINISTIC 1
#endif
#ifdef BAD_CLAIM_SUM
#define ACCUMULATE 9
#else
#define ACCUMULATE FK_ACCUMULATE_F32
#endif
#ifdef BAD_CLAIM_STREAMS
#define STREAMS -1
#else
#define STREAMS 0
#endif
__attribute__((unused)) static const fk_claims claims = {CLAIMS_END, DEVICE, GRAPH, DETERMINISTIC, 1, ACCUMULATE, STREAMS, SM, SM_LIST};

#ifdef BAD_NULL_FORWARD
#define FORWARD NULL
#else
#define FORWARD add_forward
#endif
#ifdef BAD_NULL_DESTROY
#define DESTROY NULL
#else
#define DESTROY add_destroy
#endif
#ifdef BAD_NULL_CLAIMS
#define CLAIMS NULL
#else
#define CLAIMS &claims
#endif
#ifdef BAD_OP_SHORT
#define OP_END FK_END(fk_op, prepare)
#else
#define OP_END FK_END(fk_op, reset_or_null)
#endif
static const fk_op op = {OP_END, 0, &fk_add_contract, CLAIMS, add_supports, add_create, add_prepare, NULL,
                         FORWARD, DESTROY, add_reset};

#ifdef BAD_UNKNOWN_OP /* of which no registry knows */
static const fk_note_op add_note FK_NOTE_SECTION = {
    FK_NOTE_BEGIN(fk_note_op, FK_NOTE_OP), "ad", 1, {0, 0, 0, 0}, {{0, 0}, {0, 0}, {0, 0}, {0, 0}}};
#elif defined BAD_NOTE_OP /* the note of another op than the table's */
#include "fk/ops/silu_and_mul.h"
static const fk_note_op add_note FK_NOTE_SECTION = FK_NOTE_silu_and_mul;
#elif defined BAD_REVISION
static const fk_note_op add_note FK_NOTE_SECTION = {
    FK_NOTE_BEGIN(fk_note_op, FK_NOTE_OP), "add", 77, {0, 0, 0, 0}, {{0, 0}, {0, 0}, {0, 0}, {0, 0}}};
#else
static const fk_note_op add_note FK_NOTE_SECTION = FK_NOTE_add;
#endif
static const fk_note_plugin plugin_note FK_NOTE_SECTION = {
    FK_NOTE_BEGIN(fk_note_plugin, FK_NOTE_PLUGIN), FK_ABI_MAJOR, FK_ABI_MINOR,
#ifdef BAD_NOTE_WORDS
    "bad\033[2J", /* what a terminal would obey */
#else
    BAD_NAME,
#endif
    "1", __VERSION__, "", ""};

__attribute__((visibility("default"))) const fk_plugin *fk_plugin_v1(const fk_hello *hello);
const fk_plugin *fk_plugin_v1(const fk_hello *hello) {
  static const fk_op *const ops[] = {&op};
  static const fk_plugin table = {
#ifdef BAD_TABLE_SHORT
      FK_END(fk_plugin, version),
#else
      FK_END(fk_plugin, ops_end),
#endif
#ifdef BAD_TABLE_MINOR
      FK_ABI_MINOR + 1,
#else
      FK_ABI_MINOR,
#endif
#ifdef BAD_TABLE_NAME
      "somebody_else",
#else
      BAD_NAME,
#endif
      "1", ops,
#ifdef BAD_TABLE_EMPTY
      ops};
#else
      ops + 1};
#endif
  (void)hello;
#if defined BAD_HELLO_LONGER /* no other struct than one's own */
  if (hello->struct_size != sizeof *hello) return NULL;
#elif defined BAD_HELLO_MINOR
  if (hello->minor != FK_ABI_MINOR) return NULL;
#elif defined BAD_HELLO_COPY /* as much as the host has, into as much as was known here */
  struct {
    fk_hello hello;
    char more[16];
  } mine;
  memcpy(&mine, hello, hello->struct_size);
  static char name[64];
  snprintf(name, sizeof name, "%s", mine.hello.host_name);
#elif defined BAD_HELLO_SHORT /* whatever its size is */
  if (hello->host_name[0] == 0) return NULL;
#elif defined BAD_HELLO_AGAIN
  static int times;
  static fk_plugin tables[64];
  tables[times % 64] = table;
  return &tables[times++ % 64];
#endif
#ifdef BAD_ENTRY_NULL
  return NULL;
#endif
#ifdef BAD_ENTRY_CRASH
  static const fk_plugin *const *volatile nowhere = (const fk_plugin *const *)16;
  return *nowhere;
#endif
#ifdef BAD_ENTRY_HANG
  for (volatile int on = 1; on;) continue;
#endif
  return &table;
}
