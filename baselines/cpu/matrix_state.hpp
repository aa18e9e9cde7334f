// SPDX-License-Identifier: Apache-2.0
// The kernel of recurrences whose state is a matrix for each head, and the base class of their ops.
// The ops are gated_linear_attention, gated_delta_rule, dplr_recurrence and their forms with one
// token. Columns of a state do not depend on each other. So the kernel keeps a tile of columns in
// the first-level cache and takes it through all tokens.
#pragma once
#include "level.hpp"

namespace fk::cpu {
// Arguments of one call. A token of a head: state = diag(decay) state + b (a^T state)^T + k v^T,
// out = scale * q^T state.
struct MatrixState {
  // gated: neither a nor b, and decays from g and `fixed`, either of which may be null. delta: a
  // and b follow from k, the decays and beta. low_rank: all are given.
  enum Form { gated, delta, low_rank } form;
  const void *q, *k, *v, *g, *beta, *a, *b;
  void *out, *state;
  const float* fixed;                    // logarithms of decays, per head
  int64_t width, values, heads_per_key;  // of a key, of a value; value heads of a key head
  int64_t gate_width;                    // 1: one decay for all channels of k
  int64_t q_token, q_head, k_token, k_head, v_token, v_head, g_token, g_head;  // in elements
  int64_t beta_token, a_token, a_head, b_token, b_head, out_token;
  int64_t state_slot, state_head, state_row;
  float scale, eps;
  bool normalize;  // q and k
  int type, gate_type, beta_type, state_type;
};
inline constexpr int64_t kStateTile = 32;  // columns of a tile
}  // namespace fk::cpu
// Tokens [first, last) of a request and a head, columns [begin, begin + kStateTile) of its state,
// or as many as there are. If `fresh`, the state counts as zeros. `scratch` has
// matrix_state_scratch() floats.
FK_CPU_KERNEL(matrix_state_tile, const MatrixState&, int64_t first, int64_t last, int64_t slot,
              bool fresh, int64_t head, int64_t begin, float* scratch)

#ifdef FK_CPU_OPS
#include "op.hpp"

namespace fk::cpu {

inline int64_t matrix_state_scratch(int64_t width) {
  return padded(width) * (kStateTile + 5) + kStateTile;
}

// The base of all these ops. Derived has `void describe(const forward&, MatrixState&)`.
template <class Op, class Derived>
class MatrixStateOp {
 public:
  using op = Op;
  static constexpr fk_claims claims = cpu_claims;

  MatrixStateOp(const fk_host& host, const typename op::init& init,
                const typename op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const typename op::forward&, const fk_memory&) {}

  // All tokens of each request, or one.
  void forward(const typename op::forward& args, const fk_ctx& ctx) {
    if constexpr (requires { args.cu_seqlens; }) {
      const int32_t* starts = data<int32_t>(args.cu_seqlens);
      const int32_t* has_state = data<int32_t>(args.has_initial_state);
      run(args, ctx.scratch, [&](int64_t b, int64_t& first, int64_t& last, bool& fresh) {
        first = starts[b];
        last = starts[b + 1];
        fresh = has_state[b] == 0;
      });
    } else {
      run(args, ctx.scratch, [](int64_t b, int64_t& first, int64_t& last, bool&) {
        first = b;
        last = b + 1;
      });
    }
  }

 protected:
  static void need(const typename op::init& init, const typename op::forward& max, fk_need& need) {
    need_same(max.k, max.v, "v: of k's type");
    need_same(max.k, max.out, "out: of k's type");
    need_float(max.k, "k: f32, bf16 or f16");
    need_float(max.recurrent_state, "recurrent_state: f32, bf16 or f16");
    need.scratch = threads_max() * matrix_state_scratch(init.head_dim) * 4;
  }
  template <class View>
  static void set(const View* view, const void*& to, int64_t& token, int64_t& head) {
    to = view->data, token = view->strides[0], head = view->strides[1];
  }

  const typename op::init& init_;
  const typename op::weights& weights_;

 private:
  // tokens(request, first, last, fresh) sets the last three: the request's tokens are [first,
  // last).
  template <class Tokens>
  void run(const typename op::forward& args, void* scratch, const Tokens& tokens) const {
    MatrixState a{};
    set(args.k, a.k, a.k_token, a.k_head);
    set(args.v, a.v, a.v_token, a.v_head);
    a.out = args.out->data, a.out_token = args.out->strides[0];
    a.state = args.recurrent_state->data;
    a.state_slot = args.recurrent_state->strides[0];
    a.state_head = args.recurrent_state->strides[1];
    a.state_row = args.recurrent_state->strides[2];
    a.width = a.gate_width = init_.head_dim, a.values = init_.v_head_dim, a.heads_per_key = 1;
    a.scale = static_cast<float>(init_.scale);
    a.type = type_of(args.k), a.state_type = type_of(args.recurrent_state);
    static_cast<const Derived*>(this)->describe(args, a);
    const int64_t room = matrix_state_scratch(init_.head_dim);
    const int32_t* slots = data<int32_t>(args.state_slots);
    const int64_t requests = args.state_slots->shape[0], tokens_all = args.k->shape[0];
    const int64_t tiles = (a.values + kStateTile - 1) / kStateTile;
    // An estimate: each state element is read and written (8 bytes), and the arithmetic of a token
    // takes the time of 2 bytes for each.
    const int64_t bytes =
        (requests * 8 + tokens_all * 2) * init_.num_heads * init_.head_dim * init_.v_head_dim;
    share(threads_, requests * init_.num_heads * tiles, bytes, [&](int64_t item, int thread) {
      const int64_t request = item / tiles / init_.num_heads;
      int64_t first = 0, last = 0;
      bool fresh = false;
      tokens(request, first, last, fresh);
      if (first < last) {
        kernel_(a, first, last, slots[request], fresh, item / tiles % init_.num_heads,
                item % tiles * kStateTile, static_cast<float*>(scratch) + thread * room);
      }
    });
  }

  const int threads_;
  decltype(&generic::matrix_state_tile) kernel_ = FK_CPU_PICK(matrix_state_tile);
};

template <class Op>
struct GatedStateOp : MatrixStateOp<Op, GatedStateOp<Op>> {
  using MatrixStateOp<Op, GatedStateOp<Op>>::MatrixStateOp;
  static void supports(const typename Op::init& init, const typename Op::weights&,
                       const typename Op::forward& max, fk_need& need) {
    need_same(max.k, max.q, "q: of k's type");
    if (max.g.or_null) need_float(max.g.or_null, "g: f32, bf16 or f16");
    GatedStateOp::need(init, max, need);
  }
  void describe(const typename Op::forward& f, MatrixState& a) const {
    a.form = MatrixState::gated;
    this->set(f.q, a.q, a.q_token, a.q_head);
    if (f.g.or_null) this->set(f.g.or_null, a.g, a.g_token, a.g_head);
    a.gate_type = type_or_f32(f.g);
    a.fixed = data<float>(this->weights_.decay);
  }
};

template <class Op>
struct DeltaStateOp : MatrixStateOp<Op, DeltaStateOp<Op>> {
  using MatrixStateOp<Op, DeltaStateOp<Op>>::MatrixStateOp;
  static void supports(const typename Op::init& init, const typename Op::weights&,
                       const typename Op::forward& max, fk_need& need) {
    need_same(max.k, max.q, "q: of k's type");
    need_float(max.g, "g: f32");
    need_float(max.beta, "beta: f32, bf16 or f16");
    if (init.num_heads % init.num_k_heads)
      throw unsupported{"num_heads is not a multiple of num_k_heads"};
    if (init.gate_dim != 1 && init.gate_dim != init.head_dim)
      throw unsupported{"gate_dim is neither 1 nor head_dim"};
    DeltaStateOp::need(init, max, need);
  }
  void describe(const typename Op::forward& f, MatrixState& a) const {
    a.form = MatrixState::delta;
    this->set(f.q, a.q, a.q_token, a.q_head);
    this->set(f.g, a.g, a.g_token, a.g_head);
    int64_t head;  // dense
    this->set(f.beta, a.beta, a.beta_token, head);
    a.gate_type = type_of(f.g), a.beta_type = type_of(f.beta);
    a.heads_per_key = this->init_.num_heads / this->init_.num_k_heads;
    a.gate_width = this->init_.gate_dim;
    a.normalize = this->init_.qk_l2_norm != 0;
    a.eps = static_cast<float>(this->init_.norm_eps);
  }
};

template <class Op>
struct DplrStateOp : MatrixStateOp<Op, DplrStateOp<Op>> {
  using MatrixStateOp<Op, DplrStateOp<Op>>::MatrixStateOp;
  static void supports(const typename Op::init& init, const typename Op::weights&,
                       const typename Op::forward& max, fk_need& need) {
    need_same(max.k, max.r, "r: of k's type");
    need_same(max.k, max.a, "a: of k's type");
    need_same(max.k, max.b, "b: of k's type");
    need_float(max.w, "w: f32, bf16 or f16");
    DplrStateOp::need(init, max, need);
  }
  void describe(const typename Op::forward& f, MatrixState& a) const {
    a.form = MatrixState::low_rank;
    this->set(f.r, a.q, a.q_token, a.q_head);
    this->set(f.w, a.g, a.g_token, a.g_head);
    this->set(f.a, a.a, a.a_token, a.a_head);
    this->set(f.b, a.b, a.b_token, a.b_head);
    a.gate_type = type_of(f.w);
  }
};

}  // namespace fk::cpu
#endif
