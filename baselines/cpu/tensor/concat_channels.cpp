// SPDX-License-Identifier: Apache-2.0
// concat_channels: copies rows; memory bounds its time.
#ifdef FK_CPU_OPS
#include "fk/ops/concat_channels.h"
#include "op.hpp"

namespace fk::cpu {

struct ConcatChannelsOp {
  using op = fk::concat_channels;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    int64_t all = 0;
    for (int64_t n = 0; n < init.num_parts; ++n) {
      need_same(max.x->at[n], max.out, "out: of x's type");
      all += init.sizes->at[n];
    }
    if (all != init.size) throw unsupported{"size: not the sum of sizes"};
  }
  ConcatChannelsOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t element = args.out->dtype.bits / 8;
    split(threads_, args.out->shape[0], args.out->nbytes * 2, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        auto* to = data<char>(args.out) + t * init_.size * element;
        for (int64_t n = 0; n < init_.num_parts; ++n) {
          const int64_t bytes = init_.sizes->at[n] * element;
          std::memcpy(to, data<char>(args.x->at[n]) + t * bytes, static_cast<size_t>(bytes));
          to += bytes;
        }
      }
    });
  }

 private:
  const op::init& init_;
  const int threads_;
};
FK_OP(concat_channels, ConcatChannelsOp);

}  // namespace fk::cpu
#endif
