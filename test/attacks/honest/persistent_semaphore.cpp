// SPDX-License-Identifier: Apache-2.0
// honest: a counter in persistent memory, up and down again in every call
#include "../attack.hpp"

namespace {

struct Honest : attack::Norm {
  using Norm::Norm;
  int64_t* semaphore = nullptr;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    Norm::supports(init, weights, max, need);
    need.persistent = 64;
  }
  void prepare(const op::forward&, const fk_memory& memory) {
    semaphore = static_cast<int64_t*>(memory.persistent);
  }
  void forward(const op::forward& args, const fk_ctx&) {
    semaphore[0] += rows(args);
    honest(args);
    semaphore[0] -= rows(args);
    ++semaphore[1];  // how often it was called, which nobody sees
  }
  void reset() { semaphore[0] = 0; }
};
FK_OP(rms_norm, Honest);

}  // namespace
FK_PLUGIN("persistent_semaphore", "0");
