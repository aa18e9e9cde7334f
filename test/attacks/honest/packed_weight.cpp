// SPDX-License-Identifier: Apache-2.0
// honest: the weight in float32 in packed memory, filled once
#include "../attack.hpp"

namespace {

struct Honest : attack::Norm {
  using Norm::Norm;
  const float* gain = nullptr;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    Norm::supports(init, weights, max, need);
    need.packed = 4 * init.hidden_size;
  }
  void prepare(const op::forward&, const fk_memory& memory) {
    gain = static_cast<const float*>(memory.packed);
    if (memory.packed_ready) return;
    const std::vector<float> made = gains();
    std::memcpy(memory.packed, made.data(), made.size() * 4);
  }
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, std::vector<float>(gain, gain + init.hidden_size),
         [&](const std::vector<float>& row) { return scale_of(mean_square(row)); });
  }
};
FK_OP(rms_norm, Honest);

}  // namespace
FK_PLUGIN("packed_weight", "0");
