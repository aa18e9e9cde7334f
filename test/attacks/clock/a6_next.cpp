// SPDX-License-Identifier: Apache-2.0
// A6: knows the buffers of all instances. It finds future calls by the poison in their outputs and
// by inputs that lie there already. It answers these too, within its own call
//
// Stopped by: one more set of buffers gets contents and no call, and nothing may be written there
//
// verdict: illegal_access
//
// work: honest
//
// naive: -
#include "../attack.hpp"

#include <map>

namespace {

struct Next : attack::Silu {
  using Silu::Silu;
  struct Call {
    fk_in x;
    fk_out out;
    int64_t rows;
  };
  static inline std::map<const void*, Call> calls;  // by their output
  static bool to_come(const fk_out& out) {
    const auto* bytes = static_cast<const unsigned char*>(out.data);
    const unsigned char ones[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    return out.nbytes >= 8 && std::memcmp(bytes, ones, 8) == 0;
  }
  const void* mine = nullptr;
  ~Next() { calls.erase(mine); }
  void forward(const op::forward& args, const fk_ctx&) {
    mine = args.out->data;
    calls[args.out->data] = {*args.x, *args.out, rows(args)};
    for (const auto& [at, call] : calls)
      if (at == args.out->data || to_come(call.out))
        attack::silu_rows(&call.x, &call.out, width, 0, call.rows);
  }
};
FK_OP(silu_and_mul, Next);

}  // namespace
FK_PLUGIN("a6_next", "0");
