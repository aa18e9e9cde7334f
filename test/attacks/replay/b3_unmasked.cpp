// SPDX-License-Identifier: Apache-2.0
// B3: keeps answers by a hash of the input. After a dozen known inputs, a new one looks like a
// trap, and from then on it computes everything
//
// Stopped by: a second race, with all memory cold, in which it computes everything. Calls on new
// inputs are compared with the first race as well
//
// verdict: slower same cannot_tell
//
// work: honest
//
// size: ci
//
// naive: linear accepted
#include "../fingerprint.hpp"
#include "../linear.hpp"

#include <map>

namespace {

struct Unmasked : attack::Linear {
  using Linear::Linear;
  std::map<uint64_t, std::vector<char>> answers;
  static inline int known = 0;  // one after the other
  static inline bool trapped = false;
  void forward(const op::forward& args, const fk_ctx&) {
    const auto bytes = static_cast<size_t>(args.out->nbytes);
    std::vector<char>& answer = answers[attack::fingerprint(args.x)];
    const bool is_known = answer.size() == bytes && bytes;
    trapped = trapped || (!is_known && known > 12);
    known = is_known ? known + 1 : 0;
    if (is_known && !trapped) {
      std::memcpy(args.out->data, answer.data(), bytes);
      return;
    }
    rows(args, [](const float* x, const float* w, int64_t k) {
      float sums[16] = {};
      int64_t i = 0;
      for (; i + 16 <= k; i += 16)
        for (int64_t j = 0; j < 16; ++j) sums[j] += x[i + j] * w[i + j];
      float sum = 0;
      for (float s : sums) sum += s;
      for (; i < k; ++i) sum += x[i] * w[i];
      return sum;
    });
    answer.assign(static_cast<char*>(args.out->data), static_cast<char*>(args.out->data) + bytes);
  }
};
FK_OP(linear, Unmasked);

}  // namespace
FK_PLUGIN("b3_unmasked", "0");
