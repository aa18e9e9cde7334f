// SPDX-License-Identifier: Apache-2.0
// C12: takes the one shape that it was written for, of which every case is renormalised, and does
// so whatever it is asked for
//
// Stopped by: large cases are also called with the switches of small ones
//
// verdict: wrong
//
// naive: - it takes no float32
//
// work: broken
//
// size: ci
#include "../topk.hpp"

namespace {

struct OneShapeFlag : attack::OneShapeTopK {
  using OneShapeTopK::OneShapeTopK;
};
FK_OP(topk_softmax, OneShapeFlag);

}  // namespace
FK_PLUGIN("c12_one_shape_flag", "0");
