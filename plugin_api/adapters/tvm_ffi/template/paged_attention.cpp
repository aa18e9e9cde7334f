// fk-host: paged_attention, plugin template_tvm_ffi 0.1.0
// SPDX-License-Identifier: Apache-2.0
// paged_attention: attention of ragged queries over a paged cache, one query of a head at a time
// arguments: q, k_cache, v_cache, block_tables, cu_seqlens, seq_lens, sinks, out
// arguments: scale, window, softcap
// The contract as a page: fk-host show paged_attention
// edition 1
// claims deterministic batch_invariant
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <vector>

#include "fk/cpp/floats.hpp"

using tvm::ffi::Optional;
using tvm::ffi::TensorView;

namespace {

float get(const TensorView& tensor, int64_t at) {
  const auto* half = static_cast<const uint16_t*>(tensor.data_ptr());
  if (tensor.dtype().bits == 32) return static_cast<const float*>(tensor.data_ptr())[at];
  return tensor.dtype().code == kDLBfloat ? fk::from_bf16(half[at]) : fk::from_f16(half[at]);
}

void put(const TensorView& tensor, int64_t at, float value) {
  auto* half = static_cast<uint16_t*>(tensor.data_ptr());
  if (tensor.dtype().bits == 32)
    static_cast<float*>(tensor.data_ptr())[at] = value;
  else
    half[at] = tensor.dtype().code == kDLBfloat ? fk::to_bf16(value) : fk::to_f16(value);
}

}  // namespace

void paged_attention(TensorView q, TensorView k_cache, TensorView v_cache, TensorView block_tables,
                     TensorView cu_seqlens, TensorView seq_lens, Optional<TensorView> sinks,
                     TensorView out, double scale, int64_t window, double softcap) {
  const int64_t requests = seq_lens.size(0), heads = q.size(1), width = q.size(2),
                page = k_cache.size(1), group = heads / k_cache.size(2);
  const auto* starts = static_cast<const int32_t*>(cu_seqlens.data_ptr());
  const auto* lengths = static_cast<const int32_t*>(seq_lens.data_ptr());
  const auto* tables = static_cast<const int32_t*>(block_tables.data_ptr());
  std::vector<float> weights, sums(static_cast<size_t>(width));
  for (int64_t b = 0; b < requests; ++b)
    for (int64_t t = starts[b]; t < starts[b + 1]; ++t)
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t last = lengths[b] - (starts[b + 1] - t);
        const int64_t first = window > 0 && last - window + 1 > 0 ? last - window + 1 : 0;
        const auto place = [&](const TensorView& cache, int64_t key) {
          return tables[b * block_tables.size(1) + key / page] * cache.stride(0) +
                 key % page * cache.stride(1) + head / group * cache.stride(2);
        };
        float most = sinks.has_value() ? get(*sinks, head) : -INFINITY;
        weights.clear();
        for (int64_t key = first; key <= last; ++key) {
          float score = 0;
          for (int64_t d = 0; d < width; ++d)
            score += get(q, t * q.stride(0) + head * q.stride(1) + d) *
                     get(k_cache, place(k_cache, key) + d);
          score *= static_cast<float>(scale);
          if (softcap > 0)
            score = static_cast<float>(softcap) * std::tanh(score / static_cast<float>(softcap));
          weights.push_back(score);
          most = std::fmax(most, score);
        }
        float total = sinks.has_value() ? std::exp(get(*sinks, head) - most) : 0;
        sums.assign(sums.size(), 0);
        for (int64_t key = first; key <= last; ++key) {
          const float weight = std::exp(weights[static_cast<size_t>(key - first)] - most);
          total += weight;
          for (int64_t d = 0; d < width; ++d)
            sums[static_cast<size_t>(d)] += weight * get(v_cache, place(v_cache, key) + d);
        }
        for (int64_t d = 0; d < width; ++d)
          put(out, (t * heads + head) * width + d, sums[static_cast<size_t>(d)] / total);
      }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(paged_attention, paged_attention);
