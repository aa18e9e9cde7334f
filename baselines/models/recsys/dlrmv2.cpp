// SPDX-License-Identifier: Apache-2.0
// DLRM: whether a person clicks. Numbers go through an MLP, categories choose rows of tables, and
// an interaction of all of them feeds a last MLP. The interaction is a dot product of each pair, or
// the low-rank crosses of DCN v2.
#include <cmath>

#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/engines/feedforward/engine.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;
using Ints = std::vector<int64_t>;

constexpr size_t kTablesMax = 255;

struct DlrmConfig {
  int64_t numbers = 0, width = 0;  // width: of an embedding
  Ints tables, bag;                // rows of each table; ids of each category
  Ints bottom, top;                // widths of the two MLPs
  int64_t crosses = 0, rank = 0;   // crosses 0: dot products of pairs
  std::string interaction;

  int64_t features() const { return static_cast<int64_t>(tables.size()); }
};

Ints read_widths(const Config& config, const char* key) {
  Ints widths = config.integers(key);
  if (widths.empty() || widths.size() > kTablesMax) config.fail_at(key, "it needs 1 to 255 widths");
  for (const int64_t width : widths) bounded(config, key, width, kSizeMax);
  return widths;
}

DlrmConfig read_dlrm(const Config& config) {
  DlrmConfig c;
  c.numbers = read_count(config, "dense_in_features");
  c.width = read_count(config, "embedding_dim");
  c.tables = config.integers("num_embeddings_per_feature");
  if (c.tables.empty() || c.tables.size() > kTablesMax)
    config.fail_at("num_embeddings_per_feature", "it needs 1 to 255 tables");
  // Requests have their numbers in float32.
  for (const int64_t rows : c.tables)
    bounded(config, "num_embeddings_per_feature", rows, kBelowMax);
  c.bag =
      config.has("multi_hot_sizes") ? config.integers("multi_hot_sizes") : Ints(c.tables.size(), 1);
  if (c.bag.size() != c.tables.size())
    config.fail_at("multi_hot_sizes", "it needs one number for each table");
  for (const int64_t ids : c.bag) bounded(config, "multi_hot_sizes", ids, kCountMax);
  c.bottom = read_widths(config, "dense_arch_layer_sizes");
  if (c.bottom.back() != c.width)
    config.fail_at("dense_arch_layer_sizes", "the last width must be embedding_dim");
  c.top = read_widths(config, "over_arch_layer_sizes");
  if (c.top.back() != 1) config.fail_at("over_arch_layer_sizes", "the last width must be 1");
  c.interaction = config.text("interaction_type", "original");
  if (c.interaction == "dcn") {
    c.crosses = read_count(config, "dcn_num_layers");
    if (c.crosses > 255) config.fail_at("dcn_num_layers", "it must be at most 255");
    c.rank = read_count(config, "dcn_low_rank_dim");
  } else if (c.interaction != "original") {
    config.fail_at("interaction_type", "it must be `original` or `dcn`");
  }
  return c;
}

class Dlrm : public Model {
 public:
  explicit Dlrm(const Config& config) : config_(read_dlrm(config)) {}

  std::unique_ptr<Engine> engine() const override {
    std::vector<RequestTensor> inputs = {{"dense", {config_.numbers}}};
    for (size_t i = 0; i < config_.tables.size(); ++i) {
      RequestTensor& ids = inputs.emplace_back(RequestTensor{category(i), {config_.bag[i]}});
      ids.below = config_.tables[i];
      ids.dtype = DType::i64;
    }
    return feedforward_engine(
        {.phase = "score", .outputs = {"logits"}, .inputs = std::move(inputs)});
  }

  void forward(Net& n, const std::string&) const override {
    const DlrmConfig& c = config_;
    Value x = n.input("dense", DType::f32, {n.axis("B"), c.numbers});
    for (size_t i = 0; i < c.bottom.size(); ++i)
      x = relu(n, fmt::format("dense_arch.model._mlp.{}", i), x, c.bottom[i]);
    n.tap("hidden.0", {x});
    const Value rows = embeddings(n);
    n.tap("hidden.1", {flat(n, rows)});
    x = c.crosses > 0 ? crossed(n, x, rows)
                      : n("dot_interaction", "inter_arch", {{"dense", x}, {"sparse", rows}});
    n.tap("hidden.2", {x});
    const size_t last = c.top.size() - 1;
    for (size_t i = 0; i < last; ++i) {
      x = relu(n, fmt::format("over_arch.model.0._mlp.{}", i), x, c.top[i]);
      n.tap(fmt::format("hidden.{}", i + 3), {x});
    }
    n.output("logits", n("linear", "over_arch.model.1",
                         {{"out_features", c.top[last]}, {"x", x}, {"out", "f32"}}, {"bias"}));
  }

 private:
  static std::string category(size_t i) { return fmt::format("cat_{}", i); }

  // The first product takes numbers in float32; its result has the dtype of activations.
  static Value relu(Net& n, const std::string& path, Value x, int64_t width) {
    const Value y =
        n("linear", path + "._linear",
          {{"out_features", width}, {"x", x}, {"out", std::string(name(n.limits().dtype))}},
          {"bias"});
    return n("activation", path + ".relu", {{"kind", "relu"}, {"x", y}});
  }

  static Value flat(Net& n, Value rows) {
    const Dims& shape = n.shape(rows);
    return n.reshape(rows, {shape[0], shape[1] * shape[2]});
  }

  // [B, features, width]. All requests have as many ids of a category.
  Value embeddings(Net& n) const {
    const DlrmConfig& c = config_;
    // All sessions share weights, so the table has rows for each batch which an option allows.
    const int64_t most = std::max<int64_t>(n.limits().max_batch, 65536);
    std::vector<Value> tables, ids, offsets;
    for (size_t i = 0; i < c.tables.size(); ++i) {
      const int64_t each = c.bag[i];
      // Dots of two rows have about the variance 1.
      tables.push_back(parameter(
          n, fmt::format("sparse_arch.embedding_bag_collection.embedding_bags.t_cat_{}.weight", i),
          {c.tables[i], c.width}, std::pow(static_cast<double>(c.width), -0.25)));
      ids.push_back(
          n.reshape(n.input(category(i), DType::i64, {n.axis("B"), each}), {n.axis("B") * each}));
      const Value starts =
          computed(n, fmt::format("bags_of_{}", each), DType::i64, {most + 1}, [most, each] {
            std::vector<double> all;
            for (int64_t b = 0; b <= most; ++b) all.push_back(static_cast<double>(b * each));
            return all;
          });
      offsets.push_back(n.slice(starts, 0, 0, n.axis("B") + 1));
    }
    return n("embedding_bag", "sparse_arch.embedding_bag_collection",
             {{"num_tables", c.features()},
              {"num_embeddings", c.tables},
              {"embedding_dim", c.width},
              {"mode", "sum"},
              {"tables", tables},
              {"indices", ids},
              {"offsets", offsets},
              {"out", n.empty(n.limits().dtype, {n.axis("B"), c.features(), c.width})}});
  }

  // All features side by side, crossed.
  Value crossed(Net& n, Value dense, Value rows) const {
    const DlrmConfig& c = config_;
    const int64_t width = (c.features() + 1) * c.width;
    const Value all = n.empty(n.limits().dtype, {n.axis("B"), width});
    n("concat_channels", "inter_arch.features",
      {{"num_parts", 2},
       {"sizes", Ints{c.width, c.features() * c.width}},
       {"size", width},
       {"x", std::vector<Value>{dense, flat(n, rows)}},
       {"out", all}});
    std::vector<Value> v, w, bias;
    const std::string path = "inter_arch.crossnet.";
    for (int64_t l = 0; l < c.crosses; ++l) {
      v.push_back(parameter(n, fmt::format("{}V_kernels.{}", path, l), {c.rank, width}, 0));
      w.push_back(parameter(n, fmt::format("{}W_kernels.{}", path, l), {width, c.rank}, 0));
      WeightSpec spec;
      spec.name = fmt::format("{}bias.{}", path, l);
      spec.dtype = n.limits().weights();
      spec.shape = {width};
      spec.view = PartView{{width}, 0, 0, width, {0}};  // of a column
      spec.stddev = 0.1;
      bias.push_back(n.weight(std::move(spec)));
    }
    return n("low_rank_cross", "inter_arch.crossnet",
             {{"num_layers", c.crosses},
              {"low_rank", c.rank},
              {"v", v},
              {"w", w},
              {"bias", bias},
              {"x", all}});
  }

  DlrmConfig config_;
};

std::unique_ptr<Model> make_dlrm(const Config& config) { return std::make_unique<Dlrm>(config); }

FK_MODEL(dlrmv2, make_dlrm, {"DLRM", "DLRM_DCN"}, {"dlrmv2"});

}  // namespace
}  // namespace fk
