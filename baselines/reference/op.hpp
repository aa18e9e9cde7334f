// SPDX-License-Identifier: Apache-2.0
// The base of every op class here: its claims, references to its frames, and rows of doubles in
// scratch.
#pragma once
#include <stdexcept>

#include "math.hpp"

namespace fk::reference {

inline constexpr fk_claims kClaims{FK_END(fk_claims, sm), FK_CPU,
                                   FK_GRAPH_ALWAYS,       /*deterministic=*/1,
                                   /*batch_invariant=*/1, FK_ACCUMULATE_F64,
                                   /*side_streams=*/0,    /*sm_count=*/0,
                                   /*sm=*/nullptr};

template <class Op>
struct Base {
  using op = Op;
  static constexpr fk_claims claims = kClaims;
  Base(const fk_host&, const typename Op::init& i, const typename Op::weights& w)
      : init(i), weights(w) {}
  void prepare(const typename Op::forward&, const fk_memory&) {}

 protected:
  const typename Op::init& init;
  const typename Op::weights& weights;
};

// Hands out rows of doubles from scratch. Made without memory, it only counts. So supports() and
// forward() construct the same structs of rows (`Rows`), the first for the size, the second for the
// memory. Ops with a single row state its bytes themselves, 8 per double.
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(const fk_ctx& ctx)
      : base_(static_cast<double*>(ctx.scratch)), room_(ctx.scratch_bytes / 8) {}
  // A row of `count` doubles, or null if it only counts.
  double* take(int64_t count) {
    const int64_t at = used_;
    used_ += count;
    if (!base_) return nullptr;
    if (used_ > room_) throw std::runtime_error("scratch is smaller than supports() asked for");
    return base_ + at;
  }
  int64_t bytes() const { return used_ * 8; }

 private:
  double* base_ = nullptr;
  int64_t room_ = 0, used_ = 0;
};

// Bytes of a struct of rows, for supports(). Rows is constructible from a Scratch and `args`.
template <class Rows, class... Args>
int64_t scratch_bytes(const Args&... args) {
  Scratch counting;
  const Rows rows(counting, args...);
  return counting.bytes();
}

}  // namespace fk::reference
