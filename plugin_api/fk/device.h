/* SPDX-License-Identifier: Apache-2.0 */
/* Device backends: a shared library that brings a kind of device to the host, such as `opencl`.
 *
 * A backend exports one symbol, fk_backend_v0, and has one ELF note. FK_BACKEND makes both. The
 * host reads the note before it loads the library. fk/cpp/device.hpp makes the table from a class.
 *
 * A backend is trusted code of the machine's operator. The host loads it into all its processes,
 * also into those that later load a candidate. It is loaded before the process gives up rights.
 *
 * Rules:
 *   - Functions return a status (abi.h), with the reason in `error`. They never throw or exit.
 *   - Members whose name ends in `or_null` may be null. FK_UNSUPPORTED means the same for one call.
 *     Groups of such members are all null, or none is: capture, hold, sharing, mapping, senses.
 *   - A device has one stream. Functions that enqueue are ordered on it.
 *   - One thread at a time uses a device. It may be another thread at the next call.
 *   - count() and describe() make no context on the device: they cost little, and the process that
 *     judges calls them. A device is open in a process from open() to close().
 *   - Sizes are bytes. The caller owns `error`. */
#ifndef FK_DEVICE_H
#define FK_DEVICE_H
#include "plugin.h"

/* Version of this interface. The minor rises when members are appended. */
#define FK_BACKEND_MAJOR 0
#define FK_BACKEND_MINOR 0

typedef struct fk_device fk_device;   /* an open device */
typedef struct fk_graph fk_graph;     /* captured work */
typedef struct fk_watch fk_watch;     /* a stopwatch of a device */
typedef struct fk_sense fk_sense;     /* telemetry of a device, without opening it */

enum { FK_DEVICE_HOST_READS = 1 }; /* the host reads device memory by the same address */

/* A device of the kind. Texts are zero-terminated. */
typedef struct fk_device_info {
  uint32_t struct_size;
  int32_t cpu_threads;  /* most CPU threads that an op may use */
  int64_t memory_bytes; /* of the device; 0: it uses the host's memory */
  uint64_t flags;       /* FK_DEVICE_... */
  char name[128];       /* the product's name; registry/devices files name it: "NVIDIA H200" */
  char identity[128];   /* unique on the machine, such as a UUID or a PCI address; empty: none */
  char driver[128];     /* name and version of the driver, which verdicts depend on; empty: none */
} fk_device_info;
FK_ASSERT(offsetof(fk_device_info, name) == 24 && offsetof(fk_device_info, driver) == 280, "layout");

/* A part of device memory, in bytes; for allocate_parts the place in the range. */
typedef struct fk_part {
  int64_t at, bytes;
} fk_part;
typedef struct fk_span {
  const void *memory;
  int64_t bytes;
} fk_span;
FK_ASSERT(sizeof(fk_part) == 16 && sizeof(fk_span) == 16, "layout");

/* A node of captured work. The host decides by it if the capture is allowed. The host may also
 * meet a kind that it does not know; it refuses such a node. */
enum {
  FK_NODE_KERNEL = 0,
  FK_NODE_COPY = 1,
  FK_NODE_FILL = 2,
  FK_NODE_EMPTY = 3,      /* joins others */
  FK_NODE_HOST = 4,       /* a function of the host */
  FK_NODE_GRAPH = 5,      /* a graph inside the graph, or a conditional one */
  FK_NODE_ALLOCATION = 6,
  FK_NODE_RELEASE = 7,
  FK_NODE_EVENT = 8,      /* recorded or waited for: a stream or a process outside */
  FK_NODE_SEMAPHORE = 9,
  FK_NODE_UNKNOWN = 10
};
typedef struct fk_node {
  int32_t kind;     /* FK_NODE_... */
  int32_t mark;     /* calls of mark_capture() before this node was captured */
  const char *name; /* of the kernel; "": not known */
  /* Memory of copies and fills, and parameters of a kernel that are addresses of allocations. In a
   * span of 0 bytes only the address is known. */
  int64_t span_count;
  const fk_span *spans;
  int64_t after_count;  /* indices of the nodes that it waits for: smaller than its own */
  const int64_t *after;
  int64_t threads, registers, local_bytes, shared_bytes; /* all, per thread, per thread, per block */
  double occupancy; /* resident warps of a multiprocessor, as a share of its maximum */
} fk_node;
/* The nodes in the order of their capture. The backend owns them until the next begin_capture(). */
typedef struct fk_nodes {
  uint32_t struct_size, node_bytes; /* node_bytes: sizeof(fk_node) of the backend */
  int64_t count;
  const fk_node *nodes;
} fk_nodes;
FK_ASSERT(sizeof(fk_node) == 88 && offsetof(fk_node, threads) == 48, "layout");
FK_ASSERT(offsetof(fk_nodes, nodes) == 16, "layout");

/* One reading of telemetry. `slowed` has bits of reasons for lower clocks; other bits are shown by
 * their number. Clocks are in MHz, 0 where unknown. */
enum {
  FK_SLOWED_POWER = 0x4,     /* a power cap */
  FK_SLOWED_HARDWARE = 0x8,  /* by the hardware, for any reason */
  FK_SLOWED_HEAT = 0x40,     /* too hot */
  FK_SLOWED_BRAKE = 0x80     /* a power brake from outside */
};
typedef struct fk_state {
  uint32_t struct_size;
  int32_t stopped; /* 1: the driver has stopped a kernel, which never ends */
  int64_t clock_mhz, memory_mhz;
  uint64_t slowed;
  int64_t used_bytes; /* of the device's memory, by all processes; -1: unknown */
} fk_state;
FK_ASSERT(offsetof(fk_state, clock_mhz) == 8 && offsetof(fk_state, used_bytes) == 32, "layout");

/* Needs of a process on such a device after the host has sealed it (docs/sandbox.md). Lists end
 * with a null. */
typedef struct fk_needs {
  uint32_t struct_size;
  int32_t compiles;           /* 1: the driver compiles kernels in the process that calls it */
  const char *const *devices; /* files to open for writing: whole paths, or beginnings: "/dev/dri" */
  const char *const *read;    /* files and folders to read */
  const char *const *execute; /* programs which the compiler starts; with `compiles` only */
  const char *folder_variable; /* names the compiler's folder to the driver; null: none */
} fk_needs;
FK_ASSERT(offsetof(fk_needs, devices) == 8 && offsetof(fk_needs, folder_variable) == 32, "layout");

#define FK_E fk_error *error
typedef struct fk_backend {
  uint32_t struct_size, minor; /* minor: the lowest FK_BACKEND_MINOR that the backend works with */
  /* The kind is the name before the colon: "opencl" of `--device opencl:0`. Equal to the note's. */
  const char *kind, *version;
  /* fk_claims.device_type of plugins for this kind, as in DLPack; never FK_CPU or FK_CUDA. */
  int32_t device_type, reserved;
  const char *type_words; /* "OpenCL devices" */
  /* Text of a peaks file, as in registry/devices; null: none. A registry file of its name wins. */
  const char *peaks;
  const fk_needs *needs; /* null: none */

  /* Number of devices. Where it is 0, `error->text` has the reason. */
  int32_t (*count)(int32_t *count, FK_E);
  int32_t (*describe)(int32_t index, fk_device_info *info, FK_E);
  int32_t (*open)(int32_t index, fk_device **device, FK_E);
  void (*close)(fk_device *);

  /* Memory aligned to 256 bytes, content undefined. allocate_host: host memory with fast copies. */
  int32_t (*allocate)(fk_device *, int64_t bytes, void **memory, FK_E);
  int32_t (*release)(fk_device *, void *memory, FK_E);
  int32_t (*allocate_host)(fk_device *, int64_t bytes, void **memory, FK_E);
  int32_t (*release_host)(fk_device *, void *memory, FK_E);
  /* Reserves `bytes` of addresses; only `parts`, ascending, have memory. release() frees it. */
  int32_t (*allocate_parts_or_null)(fk_device *, int64_t bytes, const fk_part *parts, int64_t count,
                                    void **memory, FK_E);
  int32_t (*free_bytes_or_null)(fk_device *, int64_t *bytes, FK_E);

  /* Enqueues copies. upload: the host side may be reused when the call returns. upload_later: from
   * memory of allocate_host(), which must not change until wait_for_uploads() returns; that call
   * waits for copies before the last uploads_enqueued(). download: returns when the data is there.
   * download_later: to memory of allocate_host(). Zero bytes are valid. */
  int32_t (*upload)(fk_device *, void *to, const void *host, int64_t bytes, FK_E);
  int32_t (*upload_later)(fk_device *, void *to, const void *host, int64_t bytes, FK_E);
  int32_t (*uploads_enqueued)(fk_device *, FK_E);
  int32_t (*wait_for_uploads)(fk_device *, FK_E);
  int32_t (*download)(fk_device *, void *host, const void *from, int64_t bytes, FK_E);
  int32_t (*download_later)(fk_device *, void *host, const void *from, int64_t bytes, FK_E);
  int32_t (*copy)(fk_device *, void *to, const void *from, int64_t bytes, FK_E);
  int32_t (*fill)(fk_device *, void *to, int32_t byte, int64_t bytes, FK_E);
  /* Kernels of the host's work. The host has a slower way for each null. docs/backends.md has the
   * values: random numbers, checksums. gather(1): small copies and fills may be deferred, and run
   * before any other operation, until gather(0). */
  int32_t (*copy_rows_or_null)(fk_device *, void *to, int64_t to_step, const void *from,
                               int64_t from_step, int64_t bytes, int64_t rows, FK_E);
  int32_t (*copy_tokens_or_null)(fk_device *, int64_t *to, const int64_t *from, int64_t count,
                                 int64_t vocab_size, FK_E);
  int32_t (*fill_random_or_null)(fk_device *, void *to, int64_t bytes, FK_E);
  int32_t (*fill_normal_or_null)(fk_device *, void *to, int32_t dtype, int64_t count, uint64_t seed,
                                 double mean, double stddev, FK_E);
  int32_t (*checksums_or_null)(fk_device *, const fk_span *parts, int64_t count, uint64_t *sums, FK_E);
  int32_t (*gather_or_null)(fk_device *, int32_t on, FK_E);

  /* Sharing: memory of the device for several processes, by a descriptor which the caller owns.
   * writable: by its openers. The last `gaps` bytes, at unknown places, are never touched. */
  int32_t (*share_or_null)(fk_device *, int64_t bytes, int64_t gaps, int32_t writable, void **memory,
                           int32_t *fd, FK_E);
  int32_t (*open_shared_or_null)(fk_device *, int32_t fd, int64_t bytes, int32_t writable,
                                 void **memory, FK_E);
  int32_t (*close_shared_or_null)(fk_device *, void *memory, int64_t bytes, FK_E);
  /* Mapping, in place of sharing: kernels reach host memory, so the host maps a file in memory
   * into each process. accept_mapping registers or tries such a mapping, or refuses it. */
  int32_t (*accept_mapping_or_null)(fk_device *, void *memory, int64_t bytes, int32_t writable, FK_E);
  int32_t (*drop_mapping_or_null)(fk_device *, void *memory, int64_t bytes, FK_E);

  /* fk_ctx.stream of plugins. All gathered work is enqueued before. */
  int32_t (*stream)(fk_device *, void **stream, FK_E);
  int32_t (*synchronize)(fk_device *, FK_E);     /* waits for the stream */
  int32_t (*synchronize_all)(fk_device *, FK_E); /* for all work of this process on the device */
  /* 1: the device runs no more work of this process, as after a fault of a kernel. */
  int32_t (*lost_or_null)(fk_device *);
  /* Restores state of the thread and the device that other code has changed and must not change.
   * FK_OK: nothing was changed; FK_FAILED: `error->text` has the changes in a sentence. */
  int32_t (*left_behind_or_null)(fk_device *, FK_E);
  int32_t (*profile_or_null)(fk_device *, int32_t on, FK_E);
  int32_t (*share_cores_or_null)(fk_device *, int32_t processes, FK_E);
  /* Hold: work enqueued from now on waits for let_go(), at most `most_s` seconds. peek copies the
   * present content without waiting for enqueued work. */
  int32_t (*hold_or_null)(fk_device *, double most_s, FK_E);
  int32_t (*let_go_or_null)(fk_device *, FK_E);
  int32_t (*peek_or_null)(fk_device *, void *host, const void *from, int64_t bytes, FK_E);

  /* Capture: work on the stream between begin and end does not run, and becomes a unit. whole is 0
   * after work that cannot be captured. Nodes captured after mark_capture() belong to its op.
   * separate_calls: later nodes start only after all earlier ones have ended. end_capture ends the
   * capture also where it fails. launch runs the unit. If gap_s is not null, it gets the device's
   * idle time in seconds since the end of the last launch with a gap_s; -1: there was none. */
  int32_t (*begin_capture_or_null)(fk_device *, FK_E);
  int32_t (*capture_is_whole_or_null)(fk_device *, int32_t *whole, FK_E);
  int32_t (*mark_capture_or_null)(fk_device *, FK_E);
  int32_t (*separate_calls_or_null)(fk_device *, FK_E);
  int32_t (*end_capture_or_null)(fk_device *, fk_graph **graph, fk_nodes *nodes, FK_E);
  int32_t (*launch_or_null)(fk_device *, fk_graph *, double *gap_s, FK_E);
  void (*free_graph_or_null)(fk_device *, fk_graph *);

  /* Clock: flush(); start(); <enqueue>; stop(); seconds(). flush evicts the last cache by reading;
   * all: every cache. late is 1 if the device waited for the host, so that the time is the host's.
   * passes: each flush reads so often from now on. */
  int32_t (*watch_open)(fk_device *, fk_watch **watch, FK_E);
  void (*watch_close)(fk_watch *);
  int32_t (*watch_flush)(fk_watch *, int32_t all, FK_E);
  int32_t (*watch_passes_or_null)(fk_watch *, int32_t passes, FK_E);
  int32_t (*watch_evict_or_null)(fk_watch *, const void *memory, int64_t bytes, FK_E);
  int32_t (*watch_start)(fk_watch *, FK_E);
  int32_t (*watch_stop)(fk_watch *, FK_E);
  int32_t (*watch_seconds)(fk_watch *, double *seconds, int32_t *late, FK_E);

  /* Senses: telemetry, in a process that has not opened the device. */
  int32_t (*sense_open_or_null)(int32_t index, fk_sense **sense, FK_E);
  void (*sense_close_or_null)(fk_sense *);
  int32_t (*sense_look_or_null)(fk_sense *, fk_state *state, FK_E);
} fk_backend;
#undef FK_E
FK_ASSERT(offsetof(fk_backend, count) == 56 && offsetof(fk_backend, sense_look_or_null) == 504, "layout");

/* The entry. It checks minors and returns the table, which is valid until the process ends. It
 * makes no call of a driver. Each call returns the same table. [any thread] */
typedef const fk_backend *(*fk_backend_entry)(const fk_hello *);
#define FK_BACKEND_SYMBOL "fk_backend_v0"

enum { FK_NOTE_BACKEND = 3 };
typedef struct fk_note_backend {
  FK_NOTE_HEADER
  uint32_t major, minor;
  char kind[32], version[32], compiler[96], build[64];
} fk_note_backend;
FK_ASSERT(sizeof(fk_note_backend) == 16 + 8 + 224, "notes");

/* Use at file scope, once: defines the note and the entry. KIND has at most 31 characters: small
 * letters, digits and _. TABLE is a constant fk_backend with this kind and version. */
#define FK_BACKEND(KIND, VERSION, TABLE)                                                             \
  static const fk_note_backend fk_backend_note FK_NOTE_SECTION = {                                   \
      FK_NOTE_BEGIN(fk_note_backend, FK_NOTE_BACKEND), FK_BACKEND_MAJOR, FK_BACKEND_MINOR, KIND,     \
      VERSION, FK_COMPILER, FK_BUILD_ID};                                                            \
  FK_EXTERN_C __attribute__((visibility("default"))) const fk_backend *fk_backend_v0(                \
      const fk_hello *hello);                                                                        \
  FK_EXTERN_C const fk_backend *fk_backend_v0(const fk_hello *hello) {                               \
    (void)hello;                                                                                     \
    return &(TABLE);                                                                                 \
  }                                                                                                  \
  FK_ASSERT(1, "")
#endif
