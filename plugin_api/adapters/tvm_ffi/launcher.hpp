// SPDX-License-Identifier: Apache-2.0
// An op that is a function which tvm-ffi exports. build.py generates the class `Plan`: the
// function, and the values of its arguments. A view of the ABI begins with a DLTensor, so the
// function gets the views themselves.
#pragma once
#include <cstdint>
#include <stdexcept>

#include "fk/cpp/plugin.hpp"

namespace fk_tvm_ffi {

// TVMFFIAny. support.cc compares both layouts.
struct Any {
  int32_t type;  // 0 none, 1 integer, 3 number, 7 pointer to a DLTensor
  uint32_t zero;
  union {
    int64_t integer;
    double number;
    const void* pointer;
  };
};
using Function = int(void* self, const Any* arguments, int32_t count, Any* result);

inline Any argument(int64_t value) {
  Any any{1, 0, {}};
  any.integer = value;
  return any;
}
inline Any argument(double value) {
  Any any{3, 0, {}};
  any.number = value;
  return any;
}
inline Any argument(const void* view) {
  Any any{view ? 7 : 0, 0, {}};
  any.pointer = view;
  return any;
}
inline Any argument(fk_opt_in view) { return argument(static_cast<const void*>(view.or_null)); }
inline Any argument(fk_opt_out view) { return argument(static_cast<const void*>(view.or_null)); }

extern "C" {
// The text of the error which a function raised last. Valid until the next call in this thread.
const char* fk_tvm_ffi_message();
// Functions of this thread find `stream` by TVMFFIEnvGetStream.
void fk_tvm_ffi_stream(int32_t device_type, int32_t device_id, void* stream);
}

template <class Plan>
class Op {
 public:
  using op = typename Plan::op;
  static constexpr fk_claims claims = Plan::claims;

  static void supports(const typename op::init& init, const typename op::weights& weights,
                       const typename op::forward& most, fk_need&) {
    if (Plan::refusal) throw fk::unsupported{Plan::refusal};
    if (Plan::supports && !run(Plan::supports, init, weights, most))
      throw fk::unsupported{fk_tvm_ffi_message()};
  }
  Op(const fk_host&, const typename op::init& init, const typename op::weights& weights)
      : init_(init), weights_(weights) {}
  void prepare(const typename op::forward&, const fk_memory&) {}
  void forward(const typename op::forward& args, const fk_ctx& ctx) {
    if (Plan::claims.device_type != FK_CPU)
      fk_tvm_ffi_stream(Plan::claims.device_type, ctx.device_id, ctx.stream);
    if (!run(Plan::function, init_, weights_, args)) throw std::runtime_error(fk_tvm_ffi_message());
  }

 private:
  static bool run(Function* function, const typename op::init& init,
                  const typename op::weights& weights, const typename op::forward& forward) {
    Any result{};
    return Plan::call(function, init, weights, forward, &result) == 0;
  }
  const typename op::init& init_;
  const typename op::weights& weights_;
};

}  // namespace fk_tvm_ffi
