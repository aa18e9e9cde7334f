// SPDX-License-Identifier: Apache-2.0
#include "baselines/blocks/projection.hpp"

namespace fk::blocks {

Value project(Builder& b, const Region& r, const char* name, int64_t in, int64_t out_features,
              Value weight, Value scale_inv, Value x, Value out) {
  Args args = {{"in_features", in},
               {"out_features", out_features},
               {"weight", weight},
               {"x", x},
               {"out", out}};
  if (!scale_inv) return b.call("linear", r.path() + name, args);
  pass_integers(args, r, {"block_n", "block_k", "quantize_input"});
  args.emplace_back("weight_scale_inv", scale_inv);
  return b.call("linear_fp8_block", r.path() + name, args);
}

void pass_integers(Args& args, const Region& r, std::initializer_list<const char*> names) {
  for (const char* name : names) args.emplace_back(name, r.integer(name));
}
void pass_tensors(Args& args, const Region& r, std::initializer_list<const char*> names) {
  for (const char* name : names) args.emplace_back(name, r[name]);
}

}  // namespace fk::blocks
