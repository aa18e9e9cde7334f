// SPDX-License-Identifier: Apache-2.0
// gemm.hpp by oneDNN, versions 2 and 3. Weights stay as they are, [N,K]: on AMX the library is as
// fast with them as with its own layout once M is above 16, and a repacked copy would double a
// model's memory.
#include "gemm.hpp"

#include <omp.h>

#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <stdexcept>

namespace fk::cpu {

namespace {

// The library asks OpenMP, whose setting belongs to the calling thread; this is it for one call.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  const int before_;
};

dnnl::engine& engine() {
  static dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}

dnnl::memory::data_type data_type(int type) {
  return type == 0 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

dnnl::matmul::primitive_desc describe(const dnnl::memory::desc& x, const dnnl::memory::desc& w,
                                      const dnnl::memory::desc& bias, const dnnl::memory::desc& out,
                                      bool has_bias) {
#if DNNL_VERSION_MAJOR >= 3
  return has_bias ? dnnl::matmul::primitive_desc(engine(), x, w, bias, out)
                  : dnnl::matmul::primitive_desc(engine(), x, w, out);
#else
  return {has_bias ? dnnl::matmul::desc(x, w, bias, out) : dnnl::matmul::desc(x, w, out), engine()};
#endif
}

}  // namespace

void sgemm_nt(int64_t m, int64_t n, int64_t k, const float* x, int64_t x_stride, const float* w,
              int64_t w_stride, float* out, int64_t out_stride, int threads) {
  const ThreadCount count(threads);
  if (dnnl_sgemm('N', 'T', m, n, k, 1.f, x, x_stride, w, w_stride, 0.f, out, out_stride) !=
      dnnl_success) {
    throw std::runtime_error("oneDNN: sgemm failed");
  }
}

struct Bf16Gemm::State {
  struct Plan {
    dnnl::matmul primitive;
    dnnl::memory x, w, bias, out;
  };
  static constexpr size_t kPlansMax =
      128;  // a serving engine sees many M; forget them all at some point

  int64_t n, k;
  int out_type, bias_type, threads;
  dnnl::stream stream{engine()};
  std::map<std::pair<int64_t, int64_t>, Plan> plans;

  Plan& plan(int64_t m, int64_t x_stride) {
    const auto found = plans.find({m, x_stride});
    if (found != plans.end()) return found->second;
    if (plans.size() >= kPlansMax) plans.clear();
    const auto bf16 = dnnl::memory::data_type::bf16;
    const dnnl::memory::desc x({m, k}, bf16, dnnl::memory::dims{x_stride, 1});
    const dnnl::memory::desc w({k, n}, bf16, dnnl::memory::dims{1, k});
    const dnnl::memory::desc out({m, n}, data_type(out_type), dnnl::memory::dims{n, 1});
    const bool has_bias = bias_type >= 0;
    const dnnl::memory::desc bias({1, n}, data_type(has_bias ? bias_type : 0),
                                  dnnl::memory::dims{n, 1});
    Plan made{dnnl::matmul(describe(x, w, bias, out, has_bias)),
              {x, engine(), DNNL_MEMORY_NONE},
              {w, engine(), DNNL_MEMORY_NONE},
              {bias, engine(), DNNL_MEMORY_NONE},
              {out, engine(), DNNL_MEMORY_NONE}};
    return plans.emplace(std::pair{m, x_stride}, std::move(made)).first->second;
  }
};

bool Bf16Gemm::available() {
  static const bool found = [] {
    const dnnl::memory::dims dims{32, 32}, rows{32, 1}, columns{1, 32};
    const auto bf16 = dnnl::memory::data_type::bf16;
    try {
      const auto pd =
          describe({dims, bf16, rows}, {dims, bf16, columns}, {}, {dims, bf16, rows}, false);
      return std::string(pd.impl_info_str()).find("ref") == std::string::npos;
    } catch (const dnnl::error&) {
      return false;  // this processor lacks the instructions
    }
  }();
  return found;
}

Bf16Gemm::Bf16Gemm(int64_t n, int64_t k, int out_type, int bias_type, int threads)
    : state_(new State{n, k, out_type, bias_type, threads, dnnl::stream(engine()), {}}) {}
Bf16Gemm::~Bf16Gemm() = default;

void Bf16Gemm::prepare(int64_t m, int64_t x_stride) {
  const ThreadCount count(state_->threads);
  state_->plan(m, x_stride);
}

void Bf16Gemm::run(int64_t m, const void* x, int64_t x_stride, const void* w, const void* bias,
                   void* out) {
  const ThreadCount count(state_->threads);
  State::Plan& plan = state_->plan(m, x_stride);
  plan.x.set_data_handle(const_cast<void*>(x));
  plan.w.set_data_handle(const_cast<void*>(w));
  plan.bias.set_data_handle(const_cast<void*>(bias));
  plan.out.set_data_handle(out);
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, plan.x.get()},
                                  {DNNL_ARG_WEIGHTS, plan.w.get()},
                                  {DNNL_ARG_DST, plan.out.get()},
                                  {DNNL_ARG_BIAS, plan.bias.get()}};
  const int count_args = bias == nullptr ? 3 : 4;
  if (dnnl_primitive_execute(plan.primitive.get(), state_->stream.get(), count_args, args) !=
      dnnl_success) {
    throw std::runtime_error("oneDNN: matmul failed");
  }
  state_->stream.wait();
}

}  // namespace fk::cpu
