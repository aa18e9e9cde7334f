// SPDX-License-Identifier: Apache-2.0
// linear_fp8_block by cuBLASLt, which multiplies f8e4m3 with a scale for 128 x 128 weights and a
// scale for 128 inputs of a row. It needs a multiple of 4 rows. Other numbers are padded with
// zeros, and the output goes to scratch memory first.
#include "fk/ops/linear_fp8_block.h"
#include "lt.hpp"
#include "quantize.hpp"

namespace {
using namespace fkb;

int64_t up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
int64_t width_of(const fk_out* view) { return view->dtype.bits / 8; }

class LinearFp8Block {
 public:
  using op = fk::linear_fp8_block;
  // The tensor cores add f8e4m3 products with fewer bits than float32 has.
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 0, FK_ACCUMULATE_REDUCED, 0, 1, kSm};
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& need) {
    if (CUBLAS_VERSION < 120900) throw fk::unsupported{"scales of blocks: built with a cuBLAS older than 12.9"};
    if (!init.quantize_input) throw fk::unsupported{"quantize_input: cuBLASLt multiplies f8e4m3 with f8e4m3 only"};
    if (init.block_n != kGroup || init.block_k != kGroup) throw fk::unsupported{"blocks of 128 x 128 only"};
    if (weights.bias.or_null) throw fk::unsupported{"bias: not beside scales of blocks"};
    if (init.in_features % 16 || init.out_features % 16) throw fk::unsupported{"features must be multiples of 16"};
    const Places all(init, max.x->shape[0], width_of(max.out));
    need.scratch = all.bytes;
    if (across(init) % 4) need.packed = up(across(init), 4) * down(init) * 4;
  }
  LinearFp8Block(const fk_host&, const op::init& init, const op::weights& weights) : init_(init), weights_(weights) {}
  void prepare(const op::forward& max, const fk_memory& memory) {
    scales_ = weights_.weight_scale_inv->data;
    if (memory.packed) pack(memory);
#if CUBLAS_VERSION >= 120900
    product_ = std::make_unique<Product>();
    product_->set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F);
    product_->set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
    product_->set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales_);
    product_->set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales_);  // until forward() sets it, as it must not be null
#endif
    // For the largest and the smallest step.
    product_->find(problem(up(max.x->shape[0], 4), max));
    product_->find(problem(4, max));
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t m = a.x->shape[0];
    if (!m) return;
    const auto stream = static_cast<cudaStream_t>(ctx.stream);
    const Places at(init_, m, width_of(a.out));
    auto* scratch = static_cast<char*>(ctx.scratch);
    const Quantized x{reinterpret_cast<uint8_t*>(scratch + at.values), reinterpret_cast<float*>(scratch + at.scales), m, at.padded, init_.in_features};
    quantize(a.x, x, stream);
    product_->set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, x.scales);
    void* out = at.padded == m ? a.out->data : scratch + at.out;
    product_->run(problem(at.padded, a), weights_.weight->data, x.values, out, ctx);
    if (at.padded == m) return;
    check(cudaMemcpyAsync(a.out->data, out, size_t(m * init_.out_features * width_of(a.out)), cudaMemcpyDeviceToDevice, stream), "copy");
  }

 private:
  // The weight's scales stand across k in memory. cuBLASLt takes them in place if their rows have a
  // multiple of 4 elements.
  static int64_t across(const op::init& init) { return (init.in_features + kGroup - 1) / kGroup; }
  static int64_t down(const op::init& init) { return (init.out_features + kGroup - 1) / kGroup; }

  // Scratch memory behind the workspace: the rounded input, its scales, and outputs of a padded
  // number of rows.
  struct Places {
    int64_t padded, values, scales, out, bytes;
    // `m` rows or fewer of an output of `width` bytes an element.
    Places(const op::init& init, int64_t m, int64_t width)
        : padded(up(m, 4)),
          values(kWorkspace),
          scales(values + up(padded * init.in_features, 256)),
          out(scales + up(padded * across(init) * 4, 256)),
          bytes(out + padded * init.out_features * width) {}
  };
  void pack(const fk_memory& memory) {
    const size_t from = size_t(across(init_)) * 4, to = size_t(up(across(init_), 4)) * 4;
    if (!memory.packed_ready) {
      const auto stream = static_cast<cudaStream_t>(memory.stream);
      check(cudaMemsetAsync(memory.packed, 0, size_t(memory.packed_bytes), stream), "memset");
      check(cudaMemcpy2DAsync(memory.packed, to, scales_, from, from, size_t(down(init_)), cudaMemcpyDeviceToDevice, stream), "copy of scales");
      check(cudaStreamSynchronize(stream), "copy of scales");
    }
    scales_ = memory.packed;
  }
  Problem problem(int64_t m, const op::forward& a) const {
    const int64_t k = init_.in_features, n = init_.out_features;
    return {{CUDA_R_8F_E4M3, k, n, k}, {CUDA_R_8F_E4M3, k, m, k}, {type_of(fk_as_in(a.out)), n, m, n}};
  }
  const op::init& init_;
  const op::weights& weights_;
  const void* scales_ = nullptr;
  std::unique_ptr<Product> product_;
};
FK_OP(linear_fp8_block, LinearFp8Block);

}  // namespace
