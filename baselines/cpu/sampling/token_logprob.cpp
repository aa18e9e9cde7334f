// SPDX-License-Identifier: Apache-2.0
// token_logprob, and the kernel of log_sum.hpp. It passes over a row twice, for the largest logit
// and for the sum of exponentials; the second pass reads from the cache. Four sums at a time hide
// the latency of additions.
#include "log_sum.hpp"

#include "math.hpp"

namespace fk::cpu::FK_CPU_LEVEL {

void log_sum(const LogSum& a, float* top, float* total) {
  with_type(a.type, [&]<class T>() {
    const T* x = static_cast<const T*>(a.logits);
    const int64_t whole = a.vocabulary / kLanes * kLanes;
    Vf most = splat(-__builtin_inff());
    for (int64_t i = 0; i < whole; i += kLanes) most = max(load(x + i), most);
    float best = max(most);
    for (int64_t i = whole; i < a.vocabulary; ++i)
      best = to_float(x[i]) > best ? to_float(x[i]) : best;
    Vf sums[4] = {};
    int64_t i = 0;
    for (; i + 4 * kLanes <= whole; i += 4 * kLanes) {
      for (int j = 0; j < 4; ++j) sums[j] += exp(load(x + i + j * kLanes) - best);
    }
    for (; i < whole; i += kLanes) sums[0] += exp(load(x + i) - best);
    // The last, partial vector: its unused lanes are not added.
    const Vf rest = exp(load_n(x + whole, a.vocabulary - whole) - best);
    float sum_all = sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (int64_t j = 0; j < a.vocabulary - whole; ++j) sum_all += rest[j];
    *top = best;
    *total = sum_all;
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/token_logprob.h"
#include "op.hpp"

namespace fk::cpu {

struct TokenLogprobOp {
  using op = fk::token_logprob;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (FK_DTYPE(max.logits) != FK_F32 && FK_DTYPE(max.logits) != FK_BF16)
      throw unsupported{"logits: f32 or bf16"};
  }
  TokenLogprobOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int type = type_of(args.logits);
    // Four times the bytes, because arithmetic dominates.
    share(threads_, args.logits->shape[0], args.logits->nbytes * 4, [&](int64_t b, int) {
      const char* row = data<char>(args.logits) + b * init_.vocab_size * bytes_of(type);
      float top = 0, total = 0;
      kernel_({row, init_.vocab_size, type}, &top, &total);
      const int64_t token = data<int64_t>(args.tokens)[b];
      float logit = 0;
      if (type == kF32) {
        logit = reinterpret_cast<const float*>(row)[token];
      } else {
        const uint32_t bits = uint32_t{reinterpret_cast<const uint16_t*>(row)[token]} << 16;
        std::memcpy(&logit, &bits, sizeof logit);
      }
      data<float>(args.logprob)[b] = logit - top - std::log(total);
    });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::log_sum) kernel_ = FK_CPU_PICK(log_sum);
};
FK_OP(token_logprob, TokenLogprobOp);

}  // namespace fk::cpu
#endif
