/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of plugins for this vendor's device: fk_ctx.stream points to it. */
#ifndef VENDOR_STREAM_H
#define VENDOR_STREAM_H

typedef struct vendor_stream vendor_stream;
struct vendor_stream {
  /* Copies `bytes` of `argument` and enqueues work(copy). `name` is a literal. */
  void (*enqueue)(vendor_stream *, const char *name, void (*work)(void *), const void *argument,
                  unsigned long bytes);
};
enum { VENDOR_TYPE = 12 }; /* DLPack's type of devices without a number of their own */

#endif
