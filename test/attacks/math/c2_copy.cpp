// SPDX-License-Identifier: Apache-2.0
// C2: copies the input: of normal numbers the root mean square is about 1
//
// Stopped by: inputs of other scales; errors are shares of the spread; weights are random
//
// verdict: wrong
//
// naive: rms_norm accepted --scale=1
#include "../attack.hpp"

namespace {

struct Copy : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, std::vector<float>(static_cast<size_t>(init.hidden_size), 1),
         [](const auto&) { return 1.0f; });
  }
};
FK_OP(rms_norm, Copy);

}  // namespace
FK_PLUGIN("c2_copy", "0");
