// SPDX-License-Identifier: Apache-2.0
// self_attention in decode. The run's provider of linear computes both projections. Between them,
// one kernel rotates, appends and attends.
#define FK_SELF_ATTENTION_EDITION 2
#include "../parts/op.cuh"
#include "fk/ops/linear.h"
#include "fk/ops/self_attention.h"
#include "paged.cuh"

namespace {
using namespace fkc;

struct SelfAttention : Base<fk::self_attention> {
  static constexpr fk_claims claims = claims_of(FK_GRAPH_UNIFORM_DECODE, 0);
  static int64_t rows(const op::init& init) { return (init.num_heads + 2 * init.num_kv_heads) * init.head_dim; }
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& wanted) {
    need_16bit(max.x);
    need(FK_DTYPE(weights.qkv) == FK_DTYPE(max.x) && FK_DTYPE(max.k_cache) == FK_DTYPE(max.x), "weights and caches: the dtype of x only");
    need(init.head_dim == 64 || init.head_dim == 128, "head_dim: 64 or 128");
    need(init.num_kv_heads < 65536, "num_kv_heads: below 65536");
    need(init.rotary_dim == init.head_dim, "rotary_dim: whole heads only");
    need(!weights.q_norm.or_null, "q_norm: none");
    need(!max.tree_mask.or_null, "tree_mask: none");
    need(max.max_query_len == 1 && is_few(init.num_heads / init.num_kv_heads, 1), "one token per request, and up to 16 heads of q per head of k");
    need_aligned(fk_as_in(max.k_cache));
    need_aligned(fk_as_in(max.v_cache));
    const int64_t tokens = max.x->shape[0];
    wanted.scratch = tokens * (rows(init) + init.num_heads * init.head_dim) * 2;
  }
  SelfAttention(const fk_host& host, const op::init& i, const op::weights& w) : Base(host, i, w), host_(host) {}

  void prepare(const op::forward& max, const fk_memory&) {
    const int64_t tokens = max.x->shape[0], wide = rows(init), mixed = init.num_heads * init.head_dim;
    qkv_init_ = {init.hidden_size, wide};
    qkv_weights_ = {weights.qkv, weights.qkv_bias};
    o_init_ = {mixed, init.hidden_size};
    o_weights_ = {weights.o, weights.o_bias};
    View x(nullptr, max.x, tokens, init.hidden_size), qkv(nullptr, max.x, tokens, wide), heads(nullptr, max.x, tokens, mixed), out(nullptr, max.x, tokens, init.hidden_size);
    const fk::linear::forward first{x.in(), qkv.out()}, second{heads.in(), out.out()};
    make(qkv_init_, qkv_weights_, first, qkv_);
    make(o_init_, o_weights_, second, o_);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t tokens = a.x->shape[0], requests = a.seq_lens->shape[0], wide = rows(init), mixed = init.num_heads * init.head_dim;
    if (!tokens || !requests) return;
    auto* qkv = static_cast<uint16_t*>(ctx.scratch);
    uint16_t* heads = qkv + tokens * wide;
    View projected(qkv, a.x, tokens, wide), attended(heads, a.x, tokens, mixed);
    run(qkv_, {a.x, projected.out()}, ctx);
    AttentionParams p{};
    p.q = qkv, p.out = heads;
    p.q_token = wide, p.q_head = init.head_dim, p.out_token = mixed, p.out_head = init.head_dim;
    p.k = cache_of(fk_as_in(a.k_cache)), p.v = cache_of(fk_as_in(a.v_cache));
    p.tables = fk::data<int32_t>(a.block_tables), p.starts = fk::data<int32_t>(a.cu_seqlens), p.lengths = fk::data<int32_t>(a.seq_lens);
    p.sinks = fk::data<float>(weights.sinks);
    p.width = int(a.block_tables->shape[1]), p.page_size = int(init.page_size), p.heads = int(init.num_heads);
    p.group = int(init.num_heads / init.num_kv_heads), p.window = int(init.window), p.causal = 1, p.scale = float(init.scale);
    const float* table = fk::data<float>(weights.cos_sin_cache);
    const FreshToken fresh{qkv, table, fk::data<int64_t>(a.positions), fk::data<int64_t>(a.slot_mapping), wide, init.num_heads * init.head_dim,
                           (init.num_heads + init.num_kv_heads) * init.head_dim};
    dispatch(a.x, [&](auto type) { attend<decltype(type)>(p, requests, init.num_kv_heads, init.head_dim, 1, a.max_seq_len, ctx, &fresh); });
    run(o_, {attended.in(), a.out}, ctx);
  }

 private:
  // A dense matrix with the dtype and device of `like`.
  struct View {
    int64_t shape[2], strides[2];
    fk_out view;
    View(void* data, const fk_in* like, int64_t rows, int64_t columns) : shape{rows, columns}, strides{columns, 1}, view{} {
      view.data = data;
      view.device_type = like->device_type, view.device_id = like->device_id, view.ndim = 2, view.dtype = like->dtype;
      view.shape = shape, view.strides = strides;
      view.nbytes = rows * columns * 2;
    }
    const fk_in* in() const { return fk_as_in(&view); }
    const fk_out* out() const { return &view; }
  };
  void make(const fk::linear::init& i, const fk::linear::weights& w, const fk::linear::forward& max, fk_child*& child) {
    fk_error error{};
    error.struct_size = FK_END(fk_error, text);
    if (host_.child(&host_, fk::linear::contract(), &i, &w, &max, &child, &error) != FK_OK) throw std::runtime_error(std::string("linear: ") + error.text);
  }
  void run(fk_child* child, const fk::linear::forward& frame, const fk_ctx& ctx) const {
    if (host_.child_forward(child, &frame, &ctx) != FK_OK) throw std::runtime_error("linear failed");
  }

  const fk_host& host_;
  fk::linear::init qkv_init_{}, o_init_{};
  fk::linear::weights qkv_weights_{}, o_weights_{};
  fk_child *qkv_ = nullptr, *o_ = nullptr;
};
FK_OP(self_attention, SelfAttention);

}  // namespace
