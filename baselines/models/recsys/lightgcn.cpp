// SPDX-License-Identifier: Apache-2.0
// LightGCN: embeddings of users and items spread along the graph of their interactions. The scores
// of a user are the dot products with all items. The graph is a normalised sparse matrix of all
// nodes, users first, and lies beside the embeddings in a checkpoint.
#include <algorithm>
#include <cmath>
#include <random>

#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/engines/feedforward/engine.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;

struct LightgcnConfig {
  int64_t users = 0, items = 0, edges = 0, width = 0, layers = 0;
  int64_t nodes() const { return users + items; }
};

LightgcnConfig read_lightgcn(const Config& config) {
  LightgcnConfig c;
  c.users = bounded(config, "num_users", config.integer("num_users"), kBelowMax);
  c.items = bounded(config, "num_items", config.integer("num_items"), kBelowMax);
  c.edges = read_size(config, "num_interactions");
  if (c.edges / c.users > c.items / 2)
    config.fail_at("num_interactions", "a user may have half of all items on average");
  c.width = read_count(config, "embedding_dim");
  c.layers = bounded(config, "num_layers", config.integer("num_layers"), 255);
  return c;
}

// Interactions without a checkpoint. Few users and few items have many of them, as in public data.
// All are distinct. Rows are users, columns items; a user's items ascend.
std::vector<std::vector<int32_t>> random_interactions(const LightgcnConfig& c) {
  const auto share = [](int64_t i) { return 1 / std::sqrt(static_cast<double>(i + 1)); };
  double all = 0;
  for (int64_t u = 0; u < c.users; ++u) all += share(u);
  std::vector<std::vector<int32_t>> chosen(static_cast<size_t>(c.users));
  std::vector<char> taken(static_cast<size_t>(c.items));
  std::mt19937_64 random(1);
  int64_t left = c.edges;
  for (int64_t u = 0; u < c.users; ++u) {
    const int64_t later = c.users - u - 1, most = c.items / 2 + 1;
    const double wanted = static_cast<double>(c.edges) * share(u) / all;
    // Users before the last few have as many as leave enough room, and not too much, for the rest.
    const int64_t least = std::max<int64_t>(0, left - later * most);
    const int64_t count =
        later == 0 ? left : std::clamp(static_cast<int64_t>(wanted), least, std::min(left, most));
    auto& mine = chosen[static_cast<size_t>(u)];
    while (static_cast<int64_t>(mine.size()) < std::min(count, c.items)) {
      const double at = static_cast<double>(random() >> 11) * 0x1p-53;
      // Squared, so that low numbers are popular. A taken one gives its place to the next free one.
      auto item = static_cast<int64_t>(at * at * static_cast<double>(c.items));
      while (taken[static_cast<size_t>(item)]) item = (item + 1) % c.items;
      taken[static_cast<size_t>(item)] = 1;
      mine.push_back(static_cast<int32_t>(item));
    }
    for (const int32_t item : mine) taken[static_cast<size_t>(item)] = 0;
    std::ranges::sort(mine);
    left -= static_cast<int64_t>(mine.size());
  }
  return chosen;
}

struct Adjacency {
  std::vector<double> indptr, indices, values;
};

// Both directions of each interaction, with the value 1 / sqrt(degree * degree).
Adjacency random_adjacency(const LightgcnConfig& c) {
  const auto chosen = random_interactions(c);
  std::vector<std::vector<int32_t>> nodes(static_cast<size_t>(c.nodes()));
  for (size_t u = 0; u < chosen.size(); ++u) {
    for (const int32_t item : chosen[u]) {
      const auto node = static_cast<size_t>(c.users) + static_cast<size_t>(item);
      nodes[u].push_back(static_cast<int32_t>(node));
      nodes[node].push_back(static_cast<int32_t>(u));
    }
  }
  Adjacency a;
  a.indptr.push_back(0);
  for (const auto& others : nodes) {
    for (const int32_t other : others) {
      const size_t degrees = others.size() * nodes[static_cast<size_t>(other)].size();
      a.indices.push_back(other);
      a.values.push_back(1 / std::sqrt(static_cast<double>(degrees)));
    }
    a.indptr.push_back(static_cast<double>(a.indices.size()));
  }
  return a;
}

class Lightgcn : public Model {
 public:
  explicit Lightgcn(const Config& config) : config_(read_lightgcn(config)) {}

  std::unique_ptr<Engine> engine() const override {
    RequestTensor user{"user", {1}};
    user.below = config_.users;
    user.dtype = DType::i32;
    return feedforward_engine({.phase = "recommend", .outputs = {"scores"}, .inputs = {user}});
  }

  void forward(Net& n, const std::string&) const override {
    const LightgcnConfig& c = config_;
    const Expr batch = n.axis("B");
    const Value x = parameter(n, "embedding.weight", {c.nodes(), c.width}, 1);
    n.tap("hidden.0", {x});
    const Value all =
        n("lightgcn_propagation", "propagation",
          {{"num_layers", c.layers},
           {"indptr", graph(n, "indptr", DType::i32, c.nodes() + 1, &Adjacency::indptr)},
           {"indices", graph(n, "indices", DType::i32, 2 * c.edges, &Adjacency::indices)},
           {"values", graph(n, "values", DType::f32, 2 * c.edges, &Adjacency::values)},
           {"x", x}});
    n.tap("embedding", {all});
    const Value user = n.reshape(n.input("user", DType::i32, {batch, 1}), {batch});
    const Value users = n("gather_rows", "users", {{"x", all}, {"rows", user}});
    const Value scores =
        n("matmul_nt", "scores",
          {{"x", n.reshape(users, {1, batch, c.width})},
           {"y", n.reshape(n.slice(all, 0, c.users, c.items), {1, c.items, c.width})},
           {"out", "f32"}});
    n.output("scores", n.reshape(scores, {batch, c.items}));
  }

 private:
  // A part of the graph, from the checkpoint, or of the random graph.
  Value graph(Net& n, const std::string& part, DType dtype, int64_t count,
              std::vector<double> Adjacency::*values) const {
    WeightSpec spec;
    spec.name = "adjacency." + part;
    spec.dtype = dtype;
    spec.shape = {count};
    spec.compute = [c = config_, values] { return random_adjacency(c).*values; };
    spec.in_checkpoint = true;
    return n.weight(std::move(spec));
  }

  LightgcnConfig config_;
};

std::unique_ptr<Model> make_lightgcn(const Config& config) {
  return std::make_unique<Lightgcn>(config);
}

FK_MODEL(lightgcn, make_lightgcn, {"LightGCN"}, {"lightgcn"});

}  // namespace
}  // namespace fk
