// SPDX-License-Identifier: Apache-2.0
// G1: a thread prints without end, as fast as whoever reads it can, and claims in its words that it
// is faster
//
// Stopped by: nobody reads words for a verdict; what is kept of them is bounded
//
// verdict: slower same cannot_tell violation
//
// work: honest
//
// naive: -
#include "../attack.hpp"

#include <unistd.h>
#include <thread>

namespace {

struct Flood : attack::Silu {
  Flood(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    static const bool once = [] {
      std::thread([] {
        std::vector<char> text;
        for (int i = 0; i < 2000; ++i)
          for (const char c : {'f', 'a', 's', 't', 'e', 'r', '\n'}) text.push_back(c);
        for (;;)
          if (write(2, text.data(), text.size()) < 0) return;
      }).detach();
      return true;
    }();
    (void)once;
  }
  void forward(const op::forward& args, const fk_ctx&) { honest(args); }
};
FK_OP(silu_and_mul, Flood);

}  // namespace
FK_PLUGIN("g1_flood", "0");
