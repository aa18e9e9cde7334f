// SPDX-License-Identifier: Apache-2.0
// C3: leaves every eighth channel out of the mean square
//
// Stopped by: outliers at random places, an error model without slack
//
// verdict: wrong
//
// naive: rms_norm accepted
#include "../attack.hpp"

namespace {

struct Sample : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(), [&](const std::vector<float>& row) {
      float sum = 0;
      size_t n = 0;
      for (size_t i = 0; i < row.size(); ++i)
        if (i % 8 != 7) sum += row[i] * row[i], ++n;
      return scale_of(sum / float(n));
    });
  }
};
FK_OP(rms_norm, Sample);

}  // namespace
FK_PLUGIN("c3_sample", "0");
