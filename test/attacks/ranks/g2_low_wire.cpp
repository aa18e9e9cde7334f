// SPDX-License-Identifier: Apache-2.0
// G2: sends bfloat16 where the tensors are float32: half of the bytes
//
// Stopped by: an error model by dtype
//
// verdict: wrong
//
// naive: all_reduce accepted
#include "../ranks.hpp"

namespace {

struct LowWire : attack::Peers {
  using Peers::Peers;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    std::vector<float> sum = own(args);
    for (size_t i = 0; i < sum.size(); ++i) of(comm->rank)[i] = fk::from_bf16(fk::to_bf16(sum[i]));
    barrier(ctx);
    sum.assign(of(0), of(0) + sum.size());
    for (int r = 1; r < comm->size; ++r) combine(sum.data(), of(r), count(args));
    barrier(ctx);
    fk::store(args.out, 0, count(args), sum.data());
  }
};
FK_OP(all_reduce, LowWire);

}  // namespace
FK_PLUGIN("g2_low_wire", "0");
