// SPDX-License-Identifier: Apache-2.0
// The small ops around recurrences, one pass each: delta_gate, token_shift_mix, rwkv7_gates,
// rwkv7_output. A thread has eight neighbouring channels. Some lanes of a warp have a head.
#include "fk/ops/delta_gate.h"
#include "fk/ops/rwkv7_gates.h"
#include "fk/ops/rwkv7_output.h"
#include "fk/ops/token_shift_mix.h"
#include "recurrence.cuh"

namespace {
using namespace fkc;
__device__ float sigmoid(float v) { return 1.F / (1.F + __expf(-v)); }

// A thread has kPer decays of a head.
template <class T, int kPer>
__global__ void __launch_bounds__(kItemThreads)
    delta_gate(const T* x, const T* b, const float* a, Scalars bias, float* g, float* beta,
               int64_t items, int heads, int width, int64_t x_token, int64_t x_head, bool aligned,
               int64_t b_token, int64_t b_head) {
  wait_for_inputs();
  const int64_t item = item_of_thread();
  if (item >= items) return;
  const int pieces = width / kPer, first = int(item % pieces) * kPer;
  const int64_t t = item / pieces / heads;
  const int head = int(item / pieces % heads);
  const T* const from = x + t * x_token + head * x_head + first;
  float v[kPer];
  if constexpr (kPer > 1)
    load_run(from, aligned, v);
  else
    v[0] = to_float(*from);
#pragma unroll
  for (int k = 0; k < kPer; ++k) {
    v[k] += bias.of(int64_t(head) * width + first + k);
    v[k] = a[head] * (v[k] < 20.F ? log1pf(__expf(v[k])) : v[k]);
  }
  if constexpr (kPer > 1)
    store_floats(g + item * kPer, v);
  else
    g[item] = v[0];
  if (first == 0) beta[t * heads + head] = sigmoid(to_float(b[t * b_token + head * b_head]));
}
struct DeltaGate : Base<fk::delta_gate> {
  using Base::Base;
  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_16bit(max.x);
    need(FK_DTYPE(weights.dt_bias) != FK_F64, "dt_bias: float32, float16 and bfloat16 only");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const bool fours = init.gate_dim % 4 == 0;
    const int64_t items = fk_numel(a.x) / (fours ? 4 : 1);
    if (!items) return;
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      launch(fours ? delta_gate<T, 4> : delta_gate<T, 1>, blocks_of(items), kItemThreads, 0, ctx,
             fk::data<T>(a.x), fk::data<T>(a.b), fk::data<float>(weights.a),
             Scalars{weights.dt_bias->data, FK_DTYPE(weights.dt_bias)}, fk::data<float>(a.g),
             fk::data<float>(a.beta), items, int(init.num_heads), int(init.gate_dim),
             a.x->strides[0], a.x->strides[1], in_fours(a.x), a.b->strides[0], a.b->strides[1]);
    });
  }
};

// A thread has a run of tokens of a request. The thread with the first token also updates the
// state, which no other thread reads. `has_state` may be null.
constexpr int kShiftRun = 4, kShiftThreads = 64;
template <class T, class S>
__global__ void __launch_bounds__(kShiftThreads)
    token_shift_mix(const T* x, Parameter<T> mu, S* states, T* out, const int32_t* starts,
                    const int32_t* slots, const int32_t* has_state, int64_t x_token, bool aligned,
                    int64_t slot, int64_t tokens, int channels, int mixtures) {
  wait_for_inputs();
  const int c = (int(blockIdx.x) * kShiftThreads + int(threadIdx.x)) * 8;
  const int request = int(blockIdx.z), begin = starts[request], end = starts[request + 1];
  const int first = begin + int(blockIdx.y) * kShiftRun;
  if (c >= channels || first >= end) return;
  float v[kShiftRun + 1][8] = {};  // of the token before the first one, and of the run
  S* const state = states + slots[request] * slot + c;
  if (first > begin)
    load_run(x + (first - 1) * x_token + c, aligned, v[0]);
  else if (!has_state || has_state[request])
    load_floats(state, v[0]);
#pragma unroll
  for (int i = 0; i < kShiftRun; ++i)
    if (first + i < end) load_run(x + (first + i) * x_token + c, aligned, v[i + 1]);
  for (int m = 0; m < mixtures; ++m) {
    float weight[8];
    mu.load(m * channels + c, 0, weight);
#pragma unroll
    for (int i = 0; i < kShiftRun; ++i) {
      if (first + i >= end) break;
      float mixed[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) mixed[k] = v[i + 1][k] + (v[i][k] - v[i + 1][k]) * weight[k];
      store_floats(out + (m * tokens + first + i) * channels + c, mixed);
    }
  }
  if (first > begin) return;
  load_run(x + int64_t(end - 1) * x_token + c, aligned, v[0]);
  store_floats(state, v[0]);
}
struct TokenShiftMix : Base<fk::token_shift_mix> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    const fk_in* const state = fk_as_in(max.shift_state);
    need_16bit(max.x);
    need(init.channels % 8 == 0, "channels: a multiple of 8 only");
    need(init.channels * init.mixtures < int64_t{1} << 31, "mixtures: fewer");
    need_parameter(weights.mu, max.x);
    need(FK_DTYPE(state) == FK_F32 || FK_DTYPE(state) == FK_DTYPE(max.x),
         "shift_state: the dtype of x or float32 only");
    need_aligned(state);
    need(max.state_slots->shape[0] < 65536, "requests: fewer than 65536");
    need(max.max_query_len <= int64_t{65535} * kShiftRun, "max_query_len: fewer");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t requests = a.state_slots->shape[0], tokens = a.x->shape[0];
    if (!requests || !tokens) return;
    const dim3 grid(unsigned(cdiv(init.channels, kShiftThreads * 8)),
                    unsigned(cdiv(std::min(a.max_query_len, tokens), kShiftRun)),
                    unsigned(requests));
    if (!grid.y) return;
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      const auto go = [&](auto* state) {
        launch(
            token_shift_mix<T, std::remove_pointer_t<decltype(state)>>, grid, kShiftThreads, 0, ctx,
            fk::data<T>(a.x), parameter<T>(weights.mu), state, fk::data<T>(a.out),
            fk::data<int32_t>(a.cu_seqlens), fk::data<int32_t>(a.state_slots),
            a.has_initial_state.or_null ? fk::data<int32_t>(a.has_initial_state.or_null) : nullptr,
            a.x->strides[0], in_fours(a.x), a.shift_state->strides[0], tokens, int(init.channels),
            int(init.mixtures));
      };
      if (FK_DTYPE(a.shift_state) == FK_F32)
        go(fk::data<float>(a.shift_state));
      else
        go(fk::data<T>(a.shift_state));
    });
  }
};

// The heads of a block: `lanes` threads, a power of two, have a head of `width` channels.
struct HeadLanes {
  int64_t rows;  // heads of all tokens
  int heads, width, lanes;
  HeadLanes(const fk_in* view)
      : rows(view->shape[0] * view->shape[1]),
        heads(int(view->shape[1])),
        width(int(view->shape[2])),
        lanes(1) {
    while (lanes * 8 < width) lanes *= 2;
  }
  unsigned blocks() const { return unsigned(cdiv(rows, kItemThreads / lanes)); }
  __device__ int64_t row() const { return item_of_thread() / lanes; }
  __device__ int first() const { return int(threadIdx.x) % lanes * 8; }  // of its channels
  __device__ bool there() const { return row() < rows && first() < width; }
  // All threads of a warp call it.
  __device__ float sum(float v) const {
    for (int k = lanes / 2; k > 0; k /= 2) v += __shfl_xor_sync(kAllLanes, v, k);
    return v;
  }
};
void need_heads(const fk_in* view) {
  need_16bit(view);
  need(view->shape[2] % 8 == 0 && view->shape[2] <= 256, "head_dim: a multiple of 8 up to 256");
}

// v, v_first and v_gate may be null.
template <class T>
__global__ void __launch_bounds__(kItemThreads)
    rwkv7_gates(HeadLanes by, const T* w, const T* k, const T* a, T* v, const T* v_first,
                const T* v_gate, Parameter<T> k_k, Parameter<T> k_a, float* decay, T* key,
                T* remove, T* add) {
  wait_for_inputs();
  const bool there = by.there();
  const int64_t row = by.row(), at = row * by.width + by.first();
  const int of_head = int(row % by.heads) * by.width + by.first();
  float own[8] = {}, kk[8] = {}, squares = 0;
  if (there) {
    load_floats(k + at, own);
    k_k.load(of_head, 1, kk);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) kk[i] *= own[i], squares += kk[i] * kk[i];
  const float scale = 1.F / fmaxf(sqrtf(by.sum(squares)), 1e-12F);
  if (!there) return;
  float in[8], s[8], weight[8], out[8];
  load_floats(w + at, in);
#pragma unroll
  for (int i = 0; i < 8; ++i) out[i] = -0.60653066F * sigmoid(in[i]);  // exp(-1/2)
  store_floats(decay + at, out);
  load_floats(a + at, s);
  k_a.load(of_head, 1, weight);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    s[i] = sigmoid(s[i]);
    out[i] = own[i] * (1.F + (s[i] - 1.F) * weight[i]);
    kk[i] *= scale;
  }
  store_floats(key + at, out);
#pragma unroll
  for (int i = 0; i < 8; ++i) out[i] = -kk[i];
  store_floats(remove + at, out);
#pragma unroll
  for (int i = 0; i < 8; ++i) out[i] = kk[i] * s[i];
  store_floats(add + at, out);
  if (!v) return;
  float first[8];
  load_floats(v + at, own);
  load_floats(v_first + at, first);
  load_floats(v_gate + at, in);
#pragma unroll
  for (int i = 0; i < 8; ++i) out[i] = own[i] + (first[i] - own[i]) * sigmoid(in[i]);
  store_floats(v + at, out);
}
struct Rwkv7Gates : Base<fk::rwkv7_gates> {
  using Base::Base;
  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_heads(max.k);
    need_parameter(weights.k_k, max.k);
    need_parameter(weights.k_a, max.k);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const HeadLanes by(a.k);
    if (!by.rows) return;
    dispatch(a.k, [&](auto type) {
      using T = decltype(type);
      const bool first = a.v.or_null != nullptr;
      launch(rwkv7_gates<T>, by.blocks(), kItemThreads, 0, ctx, by, fk::data<T>(a.w),
             fk::data<T>(a.k), fk::data<T>(a.a), first ? fk::data<T>(a.v.or_null) : nullptr,
             first ? fk::data<T>(a.v_first.or_null) : nullptr,
             first ? fk::data<T>(a.v_gate.or_null) : nullptr, parameter<T>(weights.k_k),
             parameter<T>(weights.k_a), fk::data<float>(a.decay), fk::data<T>(a.key),
             fk::data<T>(a.remove), fk::data<T>(a.add));
    });
  }
};

template <class T>
__global__ void __launch_bounds__(kItemThreads)
    rwkv7_output(HeadLanes by, const T* o, const T* r, const T* k, const T* v, const T* g,
                 Parameter<T> weight, Parameter<T> bias, Parameter<T> r_k, T* out, float eps) {
  wait_for_inputs();
  const bool there = by.there();
  const int64_t row = by.row(), at = row * by.width + by.first();
  const int of_head = int(row % by.heads) * by.width + by.first();
  float own[8] = {}, rs[8] = {}, ks[8] = {}, w[8] = {}, sum = 0, product = 0, squares = 0;
  if (there) {
    load_floats(o + at, own);
    load_floats(r + at, rs);
    load_floats(k + at, ks);
    r_k.load(of_head, 0, w);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += own[i], product += rs[i] * ks[i] * w[i];
  const float mean = by.sum(sum) / float(by.width);
  product = by.sum(product);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    own[i] = there ? own[i] - mean : 0.F;
    squares += own[i] * own[i];
  }
  const float scale = rsqrtf(by.sum(squares) / float(by.width) + eps);
  if (!there) return;
  float b[8], values[8], gates[8];
  weight.load(of_head, 1, w);
  bias.load(of_head, 0, b);
  load_floats(v + at, values);
  load_floats(g + at, gates);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    own[i] = (own[i] * scale * w[i] + b[i] + product * values[i]) * gates[i];
  store_floats(out + at, own);
}
struct Rwkv7Output : Base<fk::rwkv7_output> {
  using Base::Base;
  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_heads(max.o);
    need_parameter(weights.weight, max.o);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const HeadLanes by(a.o);
    if (!by.rows) return;
    dispatch(a.o, [&](auto type) {
      using T = decltype(type);
      launch(rwkv7_output<T>, by.blocks(), kItemThreads, 0, ctx, by, fk::data<T>(a.o),
             fk::data<T>(a.r), fk::data<T>(a.k), fk::data<T>(a.v), fk::data<T>(a.g),
             parameter<T>(weights.weight), parameter<T>(weights.bias), parameter<T>(weights.r_k),
             fk::data<T>(a.out), float(init.eps));
    });
  }
};
FK_OP(delta_gate, DeltaGate);
FK_OP(token_shift_mix, TokenShiftMix);
FK_OP(rwkv7_gates, Rwkv7Gates);
FK_OP(rwkv7_output, Rwkv7Output);

}  // namespace
