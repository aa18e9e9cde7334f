// SPDX-License-Identifier: Apache-2.0
// rms_norm in C++ with everything that an instance can ask for: scratch, packed weights, persistent
// memory, reset, optional fields of both kinds.
//   c++ -std=c++17 -O1 -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -fno-gnu-unique
//   -shared \
//      -I INCLUDE rms_norm.cpp -o rms_norm.v1.so -s -Wl,--version-script=plugin.map -Wl,-z,now
//      -Wl,-z,defs
#include "fk/ops/rms_norm.h"

namespace {

struct Norm {
  using op = fk::rms_norm;
  static constexpr fk_claims claims = fk::cpu_claims;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    const fk_in* weight = weights.weight.or_null;
    if (FK_DTYPE(max.x) != FK_F32 || (weight && FK_DTYPE(weight) != FK_F32))
      throw fk::unsupported{"float32 only"};
    need.scratch = 8 * max.x->shape[0] + 8;
    need.packed = 8 * init.hidden_size;
    need.persistent = 8;
  }
  Norm(const fk_host& host, const op::init& init, const op::weights& weights)
      : channels_(init.hidden_size), eps_(init.eps), weight_(fk::data<float>(weights.weight)) {
    host.log(&host, FK_LOG_DEBUG, "a frozen rms_norm");
  }
  void prepare(const op::forward&, const fk_memory& memory) {
    packed_ = static_cast<double*>(memory.packed);
    calls_ = static_cast<int64_t*>(memory.persistent);
    if (memory.packed_ready) return;
    for (int64_t c = 0; c < channels_; ++c) packed_[c] = weight_ ? double(weight_[c]) : 1.0;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    auto* sums = static_cast<double*>(ctx.scratch);
    const int64_t rows = args.x->shape[0];
    const float* x = fk::data<float>(args.x);
    if (float* residual = fk::data<float>(args.residual)) {
      for (int64_t i = 0; i < rows * channels_; ++i) residual[i] += x[i];
      x = residual;
    }
    float* out = fk::data<float>(args.out);
    for (int64_t t = 0; t < rows; ++t) {
      sums[t] = 0;
      for (int64_t c = 0; c < channels_; ++c)
        sums[t] += double(x[t * channels_ + c]) * x[t * channels_ + c];
      const double scale = 1 / __builtin_sqrt(sums[t] / double(channels_) + eps_);
      for (int64_t c = 0; c < channels_; ++c)
        out[t * channels_ + c] = float(x[t * channels_ + c] * scale * packed_[c]);
    }
    ++*calls_;
  }
  void reset() { *calls_ = 0; }

 private:
  int64_t channels_;
  double eps_;
  const float* weight_;
  double* packed_ = nullptr;
  int64_t* calls_ = nullptr;
};
FK_OP(rms_norm, Norm);

}  // namespace

FK_PLUGIN("frozen_cpp", "1.0.0");
