// SPDX-License-Identifier: Apache-2.0
// C12: leaves the weight out: it is 1 where a module is new
//
// Stopped by: weights are inputs with random values
//
// verdict: wrong
//
// naive: rms_norm accepted
#include "../attack.hpp"

namespace {

struct NoWeight : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, std::vector<float>(static_cast<size_t>(init.hidden_size), 1),
         [&](const std::vector<float>& row) { return scale_of(mean_square(row)); });
  }
};
FK_OP(rms_norm, NoWeight);

}  // namespace
FK_PLUGIN("c12_weight", "0");
