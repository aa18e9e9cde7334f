// SPDX-License-Identifier: Apache-2.0
// B2: the answer of the first call of a shape is kept and copied out for every later one
//
// Stopped by: fresh contents for every call, every timed output compared
//
// verdict: cheating
//
// naive: silu_and_mul faster
#include "../attack.hpp"

#include <map>

namespace {

struct Shape : attack::Silu {
  using Silu::Silu;
  std::map<int64_t, std::vector<char>> answers;
  void forward(const op::forward& args, const fk_ctx&) {
    std::vector<char>& answer = answers[rows(args)];
    const auto bytes = static_cast<size_t>(args.out->nbytes);
    if (answer.size() == bytes) {
      std::memcpy(args.out->data, answer.data(), bytes);
      return;
    }
    honest(args);
    answer.assign(static_cast<char*>(args.out->data), static_cast<char*>(args.out->data) + bytes);
  }
};
FK_OP(silu_and_mul, Shape);

}  // namespace
FK_PLUGIN("b2_shape", "0");
