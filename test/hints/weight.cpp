// SPDX-License-Identifier: Apache-2.0
// wrong: the optional weight is not read
// hint: input_ignored
// says: weight is ignored
// next: Read weight when it is there: its pointer is not null.
#include "../attacks/attack.hpp"

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
FK_PLUGIN("wrong_weight", "0");
