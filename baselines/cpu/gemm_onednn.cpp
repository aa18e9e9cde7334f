// SPDX-License-Identifier: Apache-2.0
// gemm.hpp by oneDNN, versions 2 and 3. Weights keep their layout [N,K]: on AMX, with M above 16,
// the library is as fast with it as with its own. A repacked copy would double a model's memory.
#include "gemm.hpp"

#include <omp.h>

#include <array>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <stdexcept>
#include <vector>

namespace fk::cpu {

namespace {

// Sets OpenMP to one thread for the calling thread while the object lives. The library uses that
// many threads.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

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
  // The caller provides the library's scratch. By default it belongs to the thread that made the
  // primitive, but other threads run the primitive, too.
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  return has_bias ? dnnl::matmul::primitive_desc(engine(), x, w, bias, out, attr)
                  : dnnl::matmul::primitive_desc(engine(), x, w, out, attr);
#else
  return {has_bias ? dnnl::matmul::desc(x, w, bias, out) : dnnl::matmul::desc(x, w, out), attr,
          engine()};
#endif
}

}  // namespace

void sgemm_nt(int64_t m, int64_t n, int64_t k, const float* x, int64_t x_stride, const float* w,
              int64_t w_stride, float* out, int64_t out_stride) {
  const OneThread alone;
  if (dnnl_sgemm('N', 'T', m, n, k, 1.f, x, x_stride, w, w_stride, 0.f, out, out_stride) !=
      dnnl_success) {
    throw std::runtime_error("oneDNN: sgemm failed");
  }
}

struct Bf16Gemm::State {
  // The arguments of a primitive; each thread has its own.
  struct Arguments {
    dnnl::memory x, w, bias, out, scratch;
  };
  // Generated code for one shape of a block.
  struct Plan {
    dnnl::matmul primitive;
    std::vector<Arguments> of_thread;
  };
  // A serving engine sees many M. With more plans than this, all are dropped.
  static constexpr size_t kPlansMax = 128;
  // whole blocks and smaller last ones, of rows and columns
  static constexpr size_t kShapesOfGrid = 4;

  int64_t n, k;
  int out_type, bias_type, threads;
  std::map<std::array<int64_t, 3>, Plan> plans;  // key: rows, columns, x_stride

  // Makes the plan of a shape unless it exists.
  void plan(int64_t rows, int64_t columns, int64_t x_stride) {
    const std::array<int64_t, 3> key{rows, columns, x_stride};
    if (plans.contains(key)) return;
    const auto bf16 = dnnl::memory::data_type::bf16;
    const dnnl::memory::desc x({rows, k}, bf16, dnnl::memory::dims{x_stride, 1});
    const dnnl::memory::desc w({k, columns}, bf16, dnnl::memory::dims{1, k});
    const dnnl::memory::desc out({rows, columns}, data_type(out_type), dnnl::memory::dims{n, 1});
    const bool has_bias = bias_type >= 0;
    const dnnl::memory::desc bias({1, columns}, data_type(has_bias ? bias_type : 0),
                                  dnnl::memory::dims{columns, 1});
    const auto described = describe(x, w, bias, out, has_bias);
    Plan made{dnnl::matmul(described), {}};
    for (int i = 0; i < threads; ++i) {
      made.of_thread.push_back({{x, engine(), DNNL_MEMORY_NONE},
                                {w, engine(), DNNL_MEMORY_NONE},
                                {bias, engine(), DNNL_MEMORY_NONE},
                                {out, engine(), DNNL_MEMORY_NONE},
                                {described.scratchpad_desc(), engine()}});
    }
    plans.emplace(key, std::move(made));
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
    : state_(new State{n, k, out_type, bias_type, threads, {}}) {}
Bf16Gemm::~Bf16Gemm() = default;

void Bf16Gemm::prepare(const Grid& grid, int64_t x_stride) {
  const OneThread alone;
  if (state_->plans.size() + State::kShapesOfGrid > State::kPlansMax) state_->plans.clear();
  const Grid::Block first = grid.block(0), last = grid.block(grid.blocks() - 1);
  for (const int64_t rows : {first.rows, last.rows})
    for (const int64_t columns : {first.columns, last.columns})
      state_->plan(rows, columns, x_stride);
}

void Bf16Gemm::run(const Grid& grid, int64_t block, int thread, const void* x, int64_t x_stride,
                   const void* w, const void* bias, void* out) {
  const OneThread alone;
  const Grid::Block at = grid.block(block);
  State::Plan& plan = state_->plans.at({at.rows, at.columns, x_stride});
  State::Arguments& mine = plan.of_thread[static_cast<size_t>(thread)];
  // Points `memory` at element `elements` after `start`; type 0 is float32.
  const auto set = [](dnnl::memory& memory, const void* start, int64_t elements, int type) {
    memory.set_data_handle(static_cast<char*>(const_cast<void*>(start)) +
                           elements * (type == 0 ? 4 : 2));
  };
  set(mine.x, x, at.row * x_stride, 1);
  set(mine.w, w, at.column * state_->k, 1);
  set(mine.out, out, at.row * state_->n + at.column, state_->out_type);
  if (bias != nullptr) set(mine.bias, bias, at.column, state_->bias_type);
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, mine.x.get()},
                                  {DNNL_ARG_WEIGHTS, mine.w.get()},
                                  {DNNL_ARG_DST, mine.out.get()},
                                  {DNNL_ARG_SCRATCHPAD, mine.scratch.get()},
                                  {DNNL_ARG_BIAS, mine.bias.get()}};
  thread_local dnnl::stream stream{engine()};
  const int count_args = bias == nullptr ? 4 : 5;
  if (dnnl_primitive_execute(plan.primitive.get(), stream.get(), count_args, args) !=
      dnnl_success) {
    throw std::runtime_error("oneDNN: matmul failed");
  }
  stream.wait();
}

}  // namespace fk::cpu
