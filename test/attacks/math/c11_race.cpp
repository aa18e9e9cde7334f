// SPDX-License-Identifier: Apache-2.0
// C11: two threads add to one sum without telling each other
//
// Stopped by: repeated runs must agree; every call is compared
//
// verdict: wrong violation nondeterministic
//
// naive: rms_norm accepted
#include "../attack.hpp"

#include <thread>

namespace {

struct Race : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(), [&](const std::vector<float>& row) {
      volatile float sum = 0;
      const auto half = [&](size_t from, size_t to) {
        for (size_t i = from; i < to; ++i) {
          const float now = sum;
          if (i % 16 == 0) std::this_thread::yield();
          sum = now + row[i] * row[i];
        }
      };
      // Few channels are shared, so that little is lost.
      const size_t shared = std::min<size_t>(row.size(), row.size() / 64 + 24);
      half(shared, row.size());
      std::thread other(half, 0, shared / 2);
      half(shared / 2, shared);
      other.join();
      return scale_of(sum / float(row.size()));
    });
  }
};
FK_OP(rms_norm, Race);

}  // namespace
FK_PLUGIN("c11_race", "0");
