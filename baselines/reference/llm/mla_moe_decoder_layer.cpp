// SPDX-License-Identifier: Apache-2.0
// mla_moe_decoder_layer: the layer of decoder.hpp with MlaDecoder (mla.hpp) for attention. Its
// second half is a router, its experts and the shared ones (grouped_experts.hpp).
#include "fk/ops/mla_moe_decoder_layer.h"
#include "decoder.hpp"
#include "grouped_experts.hpp"
#include "mla.hpp"

namespace fk::reference {
namespace {

struct MlaMoeDecoderLayer : Base<mla_moe_decoder_layer> {
  using Base::Base;
  struct Rows {
    MlaRows decoder;
    double* out;
    GroupedExpertsRows mlp;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : decoder(s, i, args), out(s.take(i.hidden_size)), mlp(s, i) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.input_norm, weights.post_norm, max.hidden, max.residual);
    need_mla(weights, max);
    need_grouped_experts(init, weights);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const MlaDecoder<op::init, op::weights, op::forward> decoder{init, weights, args, rows.decoder};
    decoder_layer_tokens(decoder, rows.out, [&](const double* x, double* out) {
      grouped_experts(init, weights,
                      init.scoring_func == FK_MLA_MOE_DECODER_LAYER_SCORING_FUNC_SIGMOID, x,
                      rows.mlp, out);
    });
  }
};
FK_OP(mla_moe_decoder_layer, MlaMoeDecoderLayer);

}  // namespace
}  // namespace fk::reference
