// SPDX-License-Identifier: Apache-2.0
// The graphs of sdpa.hpp, made once per shape and kept until the process ends.
#include "sdpa.hpp"

#include "frontend.hpp"

namespace fkd {

namespace {

enum Id : int64_t {
  kQ = 1,
  kK,
  kV,
  kOut,
  kTablesK,
  kTablesV,
  kQueries,
  kKeys,
  kQStarts,
  kOutStarts,
  kKStarts,
  kVStarts
};

Tensor integers(fe::graph::Graph& g, Id id, std::vector<int64_t> dim) {
  std::vector<int64_t> stride(dim.size(), 1);
  for (size_t i = dim.size() - 1; i > 0; --i) stride[i - 1] = stride[i] * dim[i];
  return g.tensor(Tensor_attributes().set_uid(id).set_dim(dim).set_stride(stride).set_data_type(
      fe::DataType_t::INT32));
}

std::unique_ptr<Made> make(const Shape& s) {
  auto made = std::make_unique<Made>();
  fe::graph::Graph& g = made->graph;
  g.set_io_data_type(s.bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto starts = [&](Id id) { return integers(g, id, {s.requests + 1, 1, 1, 1}); };
  // Requests of one length follow each other. For others, cuDNN gets their starts.
  const auto rows = [&](Id id, Id ragged, int64_t heads, int64_t length, int64_t token,
                        int64_t head) {
    auto t = Tensor_attributes()
                 .set_uid(id)
                 .set_dim({s.requests, heads, length, s.width})
                 .set_stride({length * token, head, token, 1});
    if (!s.exact) t.set_ragged_offset(starts(ragged));
    return g.tensor(t);
  };
  Tensor q = rows(kQ, kQStarts, s.heads, s.queries, s.q_token, s.q_head);
  const auto cache = [&](Id id, Id ragged, int64_t slot, int64_t head, int64_t page) {
    if (s.pages)
      return g.tensor(Tensor_attributes()
                          .set_uid(id)
                          .set_dim({s.pages, s.kv_heads, s.page_size, s.width})
                          .set_stride({page, head, slot, 1}));
    return rows(id, ragged, s.kv_heads, s.keys, slot, head);
  };
  Tensor k = cache(kK, kKStarts, s.k_slot, s.k_head, s.k_page),
         v = cache(kV, kVStarts, s.v_slot, s.v_head, s.v_page);
  auto options =
      fe::graph::SDPA_attributes().set_generate_stats(false).set_attn_scale(float(s.scale));
  if (!s.exact)
    options.set_padding_mask(true)
        .set_seq_len_q(integers(g, kQueries, {s.requests, 1, 1, 1}))
        .set_seq_len_kv(integers(g, kKeys, {s.requests, 1, 1, 1}));
  const bool square =
      s.exact && s.queries == s.keys;  // both alignments are the same, and this one has more kernels
  if (s.causal)
    options
        .set_diagonal_alignment(square ? fe::DiagonalAlignment_t::TOP_LEFT
                                       : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
        .set_diagonal_band_right_bound(0);
  if (s.window) options.set_diagonal_band_left_bound(int(s.window));
  if (s.pages)
    options.set_paged_attention_k_table(integers(g, kTablesK, {s.requests, 1, s.table_width, 1}))
        .set_paged_attention_v_table(integers(g, kTablesV, {s.requests, 1, s.table_width, 1}))
        .set_paged_attention_max_seq_len_kv(int(s.keys));
  const auto [out, stats] = g.sdpa(q, k, v, options);
  out->set_output(true)
      .set_uid(kOut)
      .set_dim({s.requests, s.heads, s.queries, s.width})
      .set_stride({s.queries * s.heads * s.width, s.width, s.heads * s.width, 1});
  if (!s.exact) out->set_ragged_offset(starts(kOutStarts));
  describe(*made);
  check(g.create_execution_plans({fe::HeurMode_t::A}), "create_execution_plans");
  build(*made, kWorkspace);
  return made;
}

}  // namespace

void make_attention(const Shape& shape) {
  const std::lock_guard lock(mutex());
  made_for(shape, make);
}

void run_attention(const Shape& shape, const Pointers& p) {
  const std::lock_guard lock(mutex());
  Made& made = made_for(shape, make);
  const auto at = [](const void* pointer) { return const_cast<void*>(pointer); };
  std::unordered_map<int64_t, void*> pack{
      {kQ, at(p.q)}, {kK, at(p.k)}, {kV, at(p.v)}, {kOut, p.out}};
  if (!shape.exact)
    pack.insert({{kQueries, at(p.queries)},
                 {kKeys, at(p.keys)},
                 {kQStarts, at(p.q_starts)},
                 {kOutStarts, at(p.out_starts)}});
  if (shape.pages)
    pack.insert({{kTablesK, at(p.tables)}, {kTablesV, at(p.tables)}});
  else if (!shape.exact)
    pack.insert({{kKStarts, at(p.k_starts)}, {kVStarts, at(p.v_starts)}});
  execute(made, pack, p.workspace, p.workspace_bytes, p.stream);
}

}  // namespace fkd
