// SPDX-License-Identifier: Apache-2.0
// honest: aligned copies in and out with memcpy of whole rows
#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t bytes = args.x->dtype.bits / 8;
    std::vector<char> copy(static_cast<size_t>(2 * width * bytes)),
        made(static_cast<size_t>(width * bytes));
    for (int64_t t = 0; t < rows(args); ++t) {
      std::memcpy(copy.data(), static_cast<const char*>(args.x->data) + t * 2 * width * bytes,
                  copy.size());
      fk_in x = *args.x;
      fk_out out = *args.out;
      x.data = copy.data(), out.data = made.data();
      attack::silu_rows(&x, &out, width, 0, 1);
      std::memcpy(static_cast<char*>(args.out->data) + t * width * bytes, made.data(), made.size());
    }
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("non_temporal", "0");
