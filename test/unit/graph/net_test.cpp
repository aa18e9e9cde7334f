// SPDX-License-Identifier: Apache-2.0
// If this fails, a model gets another weight, size or state than the contract names, or ranks
// compute with other parts of it. Or an engine reads a model's output at wrong addresses.
#include "core/graph/net.hpp"

#include "core/base/error.hpp"
#include "test/catch.hpp"
#include "test/unit/catalog.hpp"

namespace {

using namespace fk;

struct Recorded {
  std::shared_ptr<WeightTable> table = std::make_shared<WeightTable>();
  Net n;
  Value x;
  explicit Recorded(const Parallel& parallel = {})
      : n(catalog(), "prefill", table, limits_of(parallel)),
        x(n.input("x", DType::bf16, {n.axis("T"), 8})) {}

  static Limits limits_of(const Parallel& parallel) {
    Limits limits;
    limits.dtype = DType::bf16;
    limits.cache_dtype = DType::f16;
    limits.parallel = parallel;
    return limits;
  }
  const WeightSpec& weight(const std::string& name) const {
    for (const auto& spec : table->all())
      if (spec.name == name) return spec;
    FAIL("there is no weight " << name);
    return table->all()[0];
  }
  std::vector<std::string> ops() {
    std::vector<std::string> names;
    for (const Call& call : n.take_back()) names.push_back(call.contract->op);
    return names;
  }
};

}  // namespace

TEST_CASE("a call finds sizes in its tensors and weights by the names of the contract") {
  Recorded r;
  r.n("gated_mlp", "model.mlp", {{"x", r.x}, {"intermediate_size", 12}});
  const WeightSpec& gate_up = r.weight("model.mlp.gate_up_proj.weight");
  CHECK(gate_up.shape == std::vector<int64_t>{24, 8});
  CHECK(gate_up.dtype == DType::bf16);
  CHECK(gate_up.parts == std::vector<std::vector<std::string>>{
                             {"model.mlp.gate_proj.weight", "model.mlp.up_proj.weight"}});
  CHECK(gate_up.cuts.empty());
  CHECK_THROWS_WITH(r.n("gated_mlp", "model.mlp", {{"x", r.x}}),
                    ContainsSubstring("the size 2*F of `gate_up` is not known"));
}

TEST_CASE("usual weights are there unless left out, others where the model has them") {
  Recorded r;
  const Value gain = r.n("rms_norm", "norm", {{"x", r.x}});
  CHECK(r.weight("norm.weight").mean == 1);
  r.n("rms_norm", "plain", {{"x", gain}, {"weight", Value{}}});
  r.n("linear", "fc", {{"x", r.x}, {"out_features", 3}});
  CHECK(r.table->all().size() == 2);
  r.n("linear", "head", {{"x", r.x}, {"out_features", 3}}, {"bias"});
  CHECK(r.weight("head.bias").stddev == 0.1);
  CHECK_THROWS_WITH(r.n("linear", "fc", {{"x", r.x}, {"out_features", 3}}, {"bais"}),
                    ContainsSubstring("did you mean `bias`?"));
}

TEST_CASE("modules have other names where a checkpoint has others") {
  Recorded r;
  r.n.rename({{"mlp.down_proj", "ff_out"}, {"mlp", ""}, {"gate_proj", "ff_proj"}});
  r.n("gated_mlp", "blocks.0.mlp", {{"x", r.x}, {"intermediate_size", 12}});
  CHECK(r.weight("blocks.0.ff_out.weight").shape == std::vector<int64_t>{8, 12});
  CHECK(r.weight("blocks.0.gate_up_proj.weight").parts[0][0] == "blocks.0.ff_proj.weight");
}

TEST_CASE("a rank has its columns, and the next norm sums the shares up") {
  Recorded r({2, 1, 1});
  const Value residual = r.n.zeros(DType::bf16, {r.n.axis("T"), 8});
  const Value y = r.n("gated_mlp", "mlp", {{"x", r.x}, {"intermediate_size", 13}});
  r.n.tap("sum", {y, residual});
  r.n("rms_norm", "norm", {{"x", y}, {"residual", residual}});
  const WeightSpec& down = r.weight("mlp.down_proj.weight");
  REQUIRE(down.cuts.size() == 1);
  CHECK(down.cuts[0].axis == 1);
  CHECK(down.local_shape() == std::vector<int64_t>{8, 7});
  CHECK(down.cuts[0].pieces[0].start == 7);
  CHECK(down.cuts[0].pieces[0].end == 13);
  const Graph graph = r.n.finish();
  REQUIRE(graph.calls.size() == 2);
  CHECK(graph.calls[1].contract->op == "all_reduce_add_rms_norm");
  REQUIRE(graph.taps.size() == 1);
  CHECK(graph.taps[0].before == 2);
  CHECK(graph.taps[0].values == std::vector<Value>{residual});
}

TEST_CASE("a share that no norm sums up is summed up before it is read") {
  Recorded r({2, 1, 0});
  const Value y = r.n("gated_mlp", "mlp", {{"x", r.x}, {"intermediate_size", 12}});
  r.n("add", "sum", {{"a", r.x}, {"b", y}});
  CHECK(r.ops() == std::vector<std::string>{"gated_mlp", "all_reduce", "add"});
}

TEST_CASE("one rank adds the bias of a sum, the others have zeros") {
  for (const int64_t rank : {0, 1}) {
    Recorded r({2, 1, rank});
    r.n.common({{"num_heads", 4},
                {"num_kv_heads", 1},
                {"head_dim", 2},
                {"scale", 1.0},
                {"page_size", 4},
                {"max_query_len", 5},
                {"max_seq_len", 9}});
    const Expr requests = r.n.axis("B"), tokens = r.n.axis("T");
    const auto input = [&](const char* name, DType dtype, Dims shape) {
      return r.n.input(name, dtype, std::move(shape));
    };
    r.n("self_attention", "attn",
        {{"x", r.x},
         {"cos_sin_cache", input("table", DType::f32, {16, 2})},
         {"positions", input("positions", DType::i64, {tokens})},
         {"block_tables", input("block_tables", DType::i32, {requests, r.n.axis("W")})},
         {"cu_seqlens", input("cu_seqlens", DType::i32, {requests + 1})},
         {"seq_lens", input("seq_lens", DType::i32, {requests})},
         {"slot_mapping", input("slot_mapping", DType::i64, {tokens})}},
        {"o_bias"});
    const WeightSpec& bias = r.weight("attn.o_proj.bias");
    CHECK(bias.local_shape() == std::vector<int64_t>{8});
    CHECK(bias.cuts.empty() == (rank == 0));
    if (rank == 1) CHECK(bias.cuts[0].pieces[0].end == 0);
    // One key/value head, which both ranks have.
    const WeightSpec& qkv = r.weight("attn.qkv_proj.weight");
    REQUIRE(qkv.cuts[0].pieces.size() == 3);
    CHECK(qkv.cuts[0].pieces[0].start == 4 * rank);
    CHECK(qkv.cuts[0].pieces[1].start == 8);
    CHECK(qkv.cuts[0].pieces[2].start == 10);
    const Graph graph = r.n.finish();
    bool cache = false;
    for (const auto& buffer : graph.buffers) {
      if (buffer.kind != BufferKind::state || buffer.name != "attn.k_cache") continue;
      cache = true;
      CHECK(buffer.dtype == DType::f16);
      CHECK(buffer.shape[2] == Expr(1));
    }
    CHECK(cache);
  }
}

TEST_CASE("a model that records the parts of a block finds the block's weights") {
  Recorded r({2, 1, 1});
  r.n.common({{"hidden_size", 8}, {"intermediate_size", 12}});
  const Value down = r.n.find("gated_mlp", "mlp", "down");
  CHECK(r.n.shape(down) == Dims{8, 6});
  CHECK(r.weight("mlp.down_proj.weight").cuts[0].pieces[0].start == 6);
  r.n.find("gelu_mlp", "mlp", "fc2_bias");
  CHECK(r.weight("mlp.fc2.bias").cuts[0].pieces[0].end == 0);
  CHECK(r.ops().empty());
}

TEST_CASE("ranks divide the bias of a head like its rows") {
  Recorded r({2, 1, 1});
  const Value logits = r.n.columns("head", r.x, 11, DType::f32, {"bias"});
  CHECK(r.n.shape(logits)[1] == Expr(11));
  CHECK(r.weight("head.bias").local_shape() == std::vector<int64_t>{6});
  CHECK(r.weight("head.bias").cuts[0].pieces[0].start == 6);
  CHECK(r.weight("head.weight").local_shape() == std::vector<int64_t>{6, 8});
  CHECK(r.ops() == std::vector<std::string>{"linear", "all_gather_columns"});
}

TEST_CASE("net_outputs_are_dense") {
  Recorded r;
  Net& n = r.n;
  const Expr batch = n.axis("B");
  const Value states = n.empty(DType::f32, {batch, 5, 8});
  // Views without gaps: whole, in another shape, some first rows.
  n.output("whole", states);
  n.output("rows", n.reshape(states, {batch * 5, 8}));
  n.output("some", n.slice(n.reshape(states, {batch * 5, 8}), 0, 0, batch));
  const Value first = n.reshape(n.slice(states, 1, 0, 1), {batch, 1, 8});
  CHECK_THAT(message_of<Error>([&] { n.output("first", first); }),
             ContainsSubstring("output `first`: axis 0 has the stride 40 and not 8") &&
                 ContainsSubstring("copy the view by an op"));
  CHECK_THROWS_AS(n.output("turned", n.permute(states, {1, 0, 2})), Error);
  CHECK_THROWS_AS(n.output("half", n.slice(states, -1, 0, 4)), Error);
  CHECK(n.finish().outputs.size() == 3);
}
