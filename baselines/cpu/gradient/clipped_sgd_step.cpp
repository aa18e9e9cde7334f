// SPDX-License-Identifier: Apache-2.0
// clipped_sgd_step: squares of equal parts of the gradients, whose sums are double, then one pass
// over the weights. Parts do not depend on the number of threads.
#include "simd.hpp"

namespace fk::cpu {
struct SgdPart {
  const void* grad;
  float* weight;
  int64_t count;
  float step;
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(sgd_squares, const SgdPart&, float* total)
FK_CPU_KERNEL(sgd_step, const SgdPart&)

namespace fk::cpu::FK_CPU_LEVEL {

void sgd_squares(const SgdPart& a, float* total) {
  with_type(a.type, [&]<class T>() {
    const T* grad = static_cast<const T*>(a.grad);
    Vf squares{};
    each_vector(a.count, [&](int64_t i, auto n) {
      const Vf g = load(grad + i, n);
      squares += g * g;
    });
    *total = sum(squares);
  });
}

void sgd_step(const SgdPart& a) {
  with_type(a.type, [&]<class T>() {
    const T* grad = static_cast<const T*>(a.grad);
    each_vector(a.count, [&](int64_t i, auto n) {
      store(a.weight + i, load(a.weight + i, n) - load(grad + i, n) * a.step, n);
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/clipped_sgd_step.h"
#include "op.hpp"

namespace fk::cpu {

struct ClippedSgdStepOp {
  using op = fk::clipped_sgd_step;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    int64_t parts = 0;
    for (int64_t k = 0; k < init.num_tensors; ++k) {
      need_float(max.grad->at[k], "grad: f32, bf16 or f16");
      parts += parts_of(max.grad->at[k]);
    }
    need.scratch = parts * 4;
  }
  ClippedSgdStepOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    auto* squares = static_cast<float*>(ctx.scratch);
    int64_t parts = 0;
    each_tensor(
        args,
        [&](int64_t k, int64_t part, const SgdPart& a) {
          squares_(a, squares + parts + part);
          (void)k;
        },
        0, [&](int64_t count) { parts += count; });
    double sum = 0;
    for (int64_t i = 0; i < parts; ++i) sum += static_cast<double>(squares[i]);
    const double norm = std::sqrt(sum) + init_.eps;
    const double step = init_.lr * (norm > init_.max_norm ? init_.max_norm / norm : norm * 0 + 1);
    each_tensor(
        args, [&](int64_t, int64_t, const SgdPart& a) { step_(a); }, static_cast<float>(step),
        [](int64_t) {});
  }

 private:
  static constexpr int64_t kPart = 4096;  // elements whose squares are one sum in float32
  template <class View>
  static int64_t parts_of(const View* view) {
    return (view->shape[0] + kPart - 1) / kPart;
  }

  // body(tensor, part, arguments) for all parts of a tensor, then done(number of parts).
  template <class Body, class Done>
  void each_tensor(const op::forward& args, const Body& body, float step, const Done& done) {
    for (int64_t k = 0; k < init_.num_tensors; ++k) {
      const fk_in* grad = args.grad->at[k];
      const int type = type_of(grad);
      float* weight = data<float>(args.weight->at[k]);
      const int64_t all = grad->shape[0];
      split(threads_, parts_of(grad), grad->nbytes * 3, [&](int64_t begin, int64_t end, int) {
        for (int64_t part = begin; part < end; ++part) {
          const int64_t at = part * kPart;
          body(k, part,
               SgdPart{data<char>(grad) + at * bytes_of(type), weight + at,
                       std::min(kPart, all - at), step, type});
        }
      });
      done(parts_of(grad));
    }
  }

  const op::init& init_;
  const int threads_;
  decltype(&generic::sgd_squares) squares_ = FK_CPU_PICK(sgd_squares);
  decltype(&generic::sgd_step) step_ = FK_CPU_PICK(sgd_step);
};
FK_OP(clipped_sgd_step, ClippedSgdStepOp);

}  // namespace fk::cpu
#endif
