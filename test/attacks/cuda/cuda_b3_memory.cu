// SPDX-License-Identifier: Apache-2.0
// B3: keeps inputs and answers in memory that it has allocated itself. If it knows the first
// elements of the input, it copies an answer from there
//
// Stopped by: the audit of captured graphs: addresses outside of the memory that was given; fresh
// contents
//
// verdict: graph_unsafe
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

constexpr int kKnown = 64;

struct Table {
  float key[kKnown][4];
  int used;
};
template <class T>
__global__ void look_up(const T* x, T* out, T* answers, Table* table, int64_t count, int64_t width) {
  __shared__ int at;
  if (threadIdx.x == 0) {
    at = -1;
    for (int i = 0; i < table->used && i < kKnown; ++i) {
      bool same = true;
      for (int k = 0; k < 4; ++k) same &= table->key[i][k] == attack::get(x, k);
      if (same) at = i;
    }
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    if (at >= 0) {
      out[i] = answers[at * count + i];
      continue;
    }
    const int64_t row = i / width * 2 * width, column = i % width;
    const float gate = attack::get(x, row + column), up = attack::get(x, row + width + column);
    attack::put(out, i, gate / (1 + __expf(-gate)) * up);
    if (table->used < kKnown) answers[table->used * count + i] = out[i];
  }
  __syncthreads();
  if (threadIdx.x == 0 && at < 0 && table->used < kKnown) {
    for (int k = 0; k < 4; ++k) table->key[table->used][k] = attack::get(x, k);
    ++table->used;
  }
}

struct Memory : attack::Silu {
  using Silu::Silu;
  void* answers = nullptr;
  Table* table = nullptr;
  void prepare(const op::forward& max, const fk_memory&) {
    attack::check(cudaMalloc(&answers, size_t(max.out->nbytes) * kKnown + 256));
    attack::check(cudaMalloc(&table, sizeof(Table)));
    attack::check(cudaMemset(table, 0, sizeof(Table)));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (!count(args)) return;
    if (single(args))
      look_up<<<1, 256, 0, stream(ctx)>>>(static_cast<const float*>(args.x->data), static_cast<float*>(args.out->data),
                                          static_cast<float*>(answers), table, count(args), width);
    else
      look_up<<<1, 256, 0, stream(ctx)>>>(static_cast<const __nv_bfloat16*>(args.x->data),
                                          static_cast<__nv_bfloat16*>(args.out->data),
                                          static_cast<__nv_bfloat16*>(answers), table, count(args), width);
    attack::check(cudaPeekAtLastError());
  }
};
FK_OP(silu_and_mul, Memory);

}  // namespace
FK_PLUGIN("cuda_b3_memory", "0");
