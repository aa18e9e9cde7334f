// SPDX-License-Identifier: Apache-2.0
// topk_logprobs: the sum of exponentials by log_sum.hpp, then a pass that keeps the best logits in
// a short sorted list. Few logits are larger than its last entry.
#ifdef FK_CPU_OPS
#include "fk/ops/topk_logprobs.h"
#include "log_sum.hpp"
#include "op.hpp"

namespace fk::cpu {

struct TopkLogprobsOp {
  using op = fk::topk_logprobs;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    if (FK_DTYPE(max.logits) != FK_F32 && FK_DTYPE(max.logits) != FK_BF16)
      throw unsupported{"logits: f32 or bf16"};
    if (init.top_k > init.vocab_size) throw unsupported{"top_k: at most the vocabulary"};
    need.scratch = threads_max() * padded(init.top_k) * 4;
  }
  TopkLogprobsOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init),
        offsets_(weights.offsets.or_null ? data<int64_t>(weights.offsets) : nullptr),
        threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int type = type_of(args.logits);
    // Four times the bytes, because arithmetic dominates.
    share(threads_, args.logits->shape[0], args.logits->nbytes * 4, [&](int64_t b, int thread) {
      const char* row = data<char>(args.logits) + b * init_.vocab_size * bytes_of(type);
      int64_t* tokens = data<int64_t>(args.tokens) + b * init_.top_k;
      float* logprobs = data<float>(args.logprobs) + b * init_.top_k;
      float* best = static_cast<float*>(ctx.scratch) + thread * padded(init_.top_k);
      float top = 0, total = 0;
      kernel_({row, init_.vocab_size, type}, &top, &total);
      if (type == kF32)
        select(
            reinterpret_cast<const float*>(row), [](float x) { return x; }, best, tokens);
      else
        select(reinterpret_cast<const uint16_t*>(row), from_bf16, best, tokens);
      const float below = std::log(total);
      for (int64_t k = 0; k < init_.top_k; ++k) {
        logprobs[k] = best[k] - top - below;
        if (offsets_) tokens[k] += offsets_[tokens[k]];
      }
    });
  }

 private:
  static float from_bf16(uint16_t half) {
    const uint32_t bits = uint32_t{half} << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  // Inserts each logit into the sorted list. The first of equal logits stays in front, because only
  // a larger one moves it.
  template <class T, class ToFloat>
  void select(const T* row, ToFloat to_float, float* best, int64_t* tokens) const {
    int64_t count = 0;
    const int64_t most = init_.top_k;
    for (int64_t v = 0; v < init_.vocab_size; ++v) {
      const float x = to_float(row[v]);
      if (count == most && !(x > best[most - 1])) continue;
      int64_t at = count < most ? count++ : most - 1;
      for (; at > 0 && x > best[at - 1]; --at) {
        best[at] = best[at - 1];
        tokens[at] = tokens[at - 1];
      }
      best[at] = x;
      tokens[at] = v;
    }
  }

  const op::init& init_;
  const int64_t* const offsets_;
  const int threads_;
  decltype(&generic::log_sum) kernel_ = FK_CPU_PICK(log_sum);
};
FK_OP(topk_logprobs, TopkLogprobsOp);

}  // namespace fk::cpu
#endif
