// SPDX-License-Identifier: Apache-2.0
// honest: takes the one shape and the one value of a switch that it was written for, and refuses
// what is asked for otherwise
//
// size: ci
#include "../topk.hpp"

namespace {

struct OneFlag : attack::OneShapeTopK {
  using OneShapeTopK::OneShapeTopK;
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    OneShapeTopK::supports(init, w, max, need);
    if (!init.renormalize) throw fk::unsupported{"renormalised weights only"};
  }
};
FK_OP(topk_softmax, OneFlag);

}  // namespace
FK_PLUGIN("one_flag", "0");
