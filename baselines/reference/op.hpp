// SPDX-License-Identifier: Apache-2.0
// What every op class here begins with: its claims, frames kept by reference, scratch by the row.
#pragma once
#include <stdexcept>

#include "math.hpp"

namespace fk::reference {

inline constexpr fk_claims kClaims{
    FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F64, 0, 0, nullptr};

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

// Cuts scratch into rows of doubles. Made without memory it only counts, so that supports() and
// forward() share the code that says which rows there are.
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(const fk_ctx& ctx)
      : base_(static_cast<double*>(ctx.scratch)), room_(ctx.scratch_bytes / 8) {}
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

// What a struct of rows takes, for supports(): Rows is constructible from a Scratch and the rest.
template <class Rows, class... Args>
int64_t scratch_bytes(const Args&... args) {
  Scratch counting;
  const Rows rows(counting, args...);
  return counting.bytes();
}

}  // namespace fk::reference
