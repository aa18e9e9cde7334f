// SPDX-License-Identifier: Apache-2.0
// embedding that computes places in the table in 32 bits.
#include <vector>
#define FK_REFERENCE "baselines/reference/embed/embedding.cpp"
#include "test/attacks/reference.hpp"

namespace {

struct Offsets : fk::reference::Embedding {
  using Embedding::Embedding;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const auto width = static_cast<uint32_t>(init.embedding_dim);
    std::vector<int64_t> ids;
    for (int64_t t = 0; t < args.ids->shape[0]; ++t) {
      const auto row = static_cast<uint32_t>(fk::data<int64_t>(args.ids)[t]);
      ids.push_back(row * width / width);  // the row at which 32 bits of the offset arrive
    }
    fk_in view = *args.ids;
    view.data = ids.data();
    op::forward own = args;
    own.ids = &view;
    Embedding::forward(own, ctx);
  }
};
FK_OP(embedding, Offsets);

}  // namespace
FK_PLUGIN("narrow_table", "0");
