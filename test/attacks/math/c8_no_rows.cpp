// SPDX-License-Identifier: Apache-2.0
// C8: divides by the number of rows, and a step without tokens has none
//
// Stopped by: instances are called without rows as well
//
// verdict: crashed
//
// naive: rms_norm accepted
//
// work: broken
#include "../attack.hpp"

namespace {

struct NoRows : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    volatile int64_t work = 64;
    work = work / rows(args);  // of each of so many threads
    honest(args);
  }
};
FK_OP(rms_norm, NoRows);

}  // namespace
FK_PLUGIN("c8_no_rows", "0");
