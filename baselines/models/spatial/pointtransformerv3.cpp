// SPDX-License-Identifier: Apache-2.0
// Point Transformer V3: points of a cloud in cells, stages of attention along curves through them,
// pooled cells, and the way back to the points. Names and sizes are Pointcept's. Orders of curves
// keep their places, which Pointcept shuffles.
#include <algorithm>
#include <cmath>

#include "baselines/models/parts/sizes.hpp"
#include "core/engines/feedforward/engine.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

using namespace parts;
using Ints = std::vector<int64_t>;

struct CloudConfig {
  int64_t points = 0, channels = 0, classes = 0, bits = 0;
  double grid = 0;
  Ints depths, widths, heads, patches;              // of the encoder's stages
  Ints up_depths, up_widths, up_heads, up_patches;  // of the decoder's, the finest first
  Ints room;                                        // cells of a cloud in each stage
  std::vector<std::string> orders;
  int64_t mlp_ratio = 0;
  bool qkv_bias = true;
  size_t stages() const { return depths.size(); }
};

Ints read_stages(const Config& config, const char* key, size_t count, int64_t most) {
  Ints all = config.integers(key);
  if (all.size() != count)
    config.fail_at(key, "it has " + std::to_string(all.size()) + " numbers in place of " +
                            std::to_string(count));
  for (const int64_t v : all) bounded(config, key, v, most);
  return all;
}

// Names of orders as Pointcept writes them, for space_filling_code.
std::string order_of(const Config& config, std::string name) {
  std::ranges::replace(name, '-', '_');
  for (const char* known : {"z", "z_trans", "hilbert", "hilbert_trans"})
    if (name == known) return name;
  config.fail_at("order", "`" + excerpt(name) + "` must be z, z-trans, hilbert or hilbert-trans");
}

CloudConfig read_cloud(const Config& config) {
  CloudConfig c;
  c.depths = config.integers("enc_depths");
  if (c.depths.empty() || c.depths.size() > 8) config.fail_at("enc_depths", "1 to 8 stages");
  const size_t stages = c.stages();
  c.depths = read_stages(config, "enc_depths", stages, kCountMax);
  c.widths = read_stages(config, "enc_channels", stages, kCountMax);
  c.heads = read_stages(config, "enc_num_head", stages, kCountMax);
  c.patches = read_stages(config, "enc_patch_size", stages, kCountMax);
  c.up_depths = read_stages(config, "dec_depths", stages - 1, kCountMax);
  c.up_widths = read_stages(config, "dec_channels", stages - 1, kCountMax);
  c.up_heads = read_stages(config, "dec_num_head", stages - 1, kCountMax);
  c.up_patches = read_stages(config, "dec_patch_size", stages - 1, kCountMax);
  for (const int64_t s : config.integers("stride"))
    if (s != 2) config.fail_at("stride", "only 2 is supported");
  if (config.integers("stride").size() + 1 != stages) config.fail_at("stride", "one for each pool");
  for (size_t i = 0; i < stages; ++i)
    if (c.widths[i] % c.heads[i] != 0)
      config.fail_at("enc_num_head", "it must divide enc_channels");
  for (size_t i = 0; i + 1 < stages; ++i)
    if (c.up_widths[i] % c.up_heads[i] != 0)
      config.fail_at("dec_num_head", "it must divide dec_channels");
  for (const std::string& name : config.texts("order")) c.orders.push_back(order_of(config, name));
  if (c.orders.empty()) config.fail_at("order", "a list of curves");
  c.points = read_count(config, "num_points");
  c.channels = read_count(config, "in_channels");
  c.classes = read_count(config, "num_classes");
  c.bits = bounded(config, "serialization_depth", config.integer("serialization_depth", 10), 16);
  if (c.bits < static_cast<int64_t>(stages))
    config.fail_at("serialization_depth", "it must be the number of stages or more");
  c.grid = config.number("grid_size");
  if (!(c.grid > 0)) config.fail_at("grid_size", "it must be above 0");
  c.room = config.has("max_voxels") ? read_stages(config, "max_voxels", stages, kSizeMax)
                                    : Ints(stages, c.points);
  c.mlp_ratio = bounded(config, "mlp_ratio", config.integer("mlp_ratio", 4), 64);
  c.qkv_bias = config.boolean("qkv_bias", true);
  need_boolean(config, {"pre_norm"}, true);
  need_boolean(config, {"shuffle_orders", "enable_rpe", "cls_mode"}, false);
  return c;
}

// Where the rows of a stage's cells are in patches along one curve.
struct Patches {
  Value padded_rows, places, mask;
};

// The cells of a stage. Rows are those of all clouds of a batch, then rows that remain.
struct Cells {
  Value coords, clouds, cluster, rows, offsets, count, table;
  int64_t room = 0, bits = 0, patch = 0;
  std::vector<Patches> orders;  // along each curve
};

class PointTransformer : public Model {
 public:
  explicit PointTransformer(const Config& config) : config_(read_cloud(config)) {}

  // Random clouds fill most of the grid's width.
  std::unique_ptr<Engine> engine() const override {
    const CloudConfig& c = config_;
    RequestTensor points{"coord", {c.points, 3}}, features{"feat", {c.points, c.channels}};
    points.stddev = c.grid * static_cast<double>(int64_t{1} << c.bits) / 8;
    FeedforwardOptions options{
        .phase = "segment", .outputs = {"logits", "features"}, .inputs = {points, features}};
    for (size_t s = 0; s < c.stages(); ++s)
      options.counts.push_back({"voxels." + std::to_string(s), c.room[s], "max_voxels"});
    return feedforward_engine(std::move(options));
  }

  void forward(Net& n, const std::string&) const override {
    const CloudConfig& c = config_;
    const Expr batch = n.axis("B"), points = batch * c.points;
    n.common({{"eps", 1e-5}});
    const Value coord = n.input("coord", DType::f32, {batch, c.points, 3});
    const Value given = n.input("feat", DType::f32, {batch, c.points, c.channels});
    const Value cells =
        n("grid_coords", "grid",
          {{"grid_size", c.grid}, {"edge", int64_t{1} << c.bits}, {"points", coord}});
    std::vector<Cells> stages;
    std::vector<Value> skipped;
    Value x;
    for (size_t s = 0; s < c.stages(); ++s) {
      const std::string path = "backbone.enc.enc" + std::to_string(s);
      stages.push_back(clusters(n, s, s ? stages.back().coords : cells));
      Cells& here = stages.back();
      if (s == 0) {
        const Value feat = reduce(n, "feat", here, n.reshape(given, {points, c.channels}), "mean");
        x = stem(n, here, feat);
      } else {
        const Value wide =
            n("linear", path + ".down.proj", {{"out_features", c.widths[s]}, {"x", x}}, {"bias"});
        x = norm(n, path + ".down.norm.0", reduce(n, path + ".down", here, wide, "max"));
      }
      x = blocks(n, path, here, x, c.depths[s], c.heads[s], c.patches[s]);
      skipped.push_back(x);
    }
    for (size_t s = c.stages() - 1; s-- > 0;) {
      const std::string path = "backbone.dec.dec" + std::to_string(s);
      const Value coarse = projected(n, path + ".up.proj", x, c.up_widths[s]);
      const Value fine = projected(n, path + ".up.proj_skip", skipped[s], c.up_widths[s]);
      const Value parents =
          n("gather_rows", path + ".up.parents", {{"x", coarse}, {"rows", stages[s + 1].cluster}});
      x = n("add", path + ".up.sum", {{"a", fine}, {"b", parents}});
      x = blocks(n, path, stages[s], x, c.up_depths[s], c.up_heads[s], c.up_patches[s]);
    }
    const int64_t width = c.stages() > 1 ? c.up_widths[0] : c.widths[0];
    const Value features = n("gather_rows", "points", {{"x", x}, {"rows", stages[0].cluster}});
    const Value logits =
        n("linear", "seg_head", {{"out_features", c.classes}, {"x", features}, {"out", "f32"}},
          {"bias"});
    n.output("features", n.reshape(features, {batch, c.points, width}));
    n.output("logits", n.reshape(logits, {batch, c.points, c.classes}));
    for (size_t s = 0; s < c.stages(); ++s)
      n.output("voxels." + std::to_string(s), stages[s].count);
  }

 private:
  // The cells of stage s, from the points' cells or from those of the stage before.
  Cells clusters(Net& n, size_t s, Value from) const {
    Cells all;
    all.room = config_.room[s] * n.limits().max_batch;
    all.bits = config_.bits - static_cast<int64_t>(s);
    const Outputs out = n("voxel_clusters", "voxels." + std::to_string(s),
                          {{"shift", s ? 1 : 0},
                           {"depth", all.bits},
                           {"batch_size", n.limits().max_batch},
                           {"coords", from},
                           {"out_coords", n.empty(DType::i32, {all.room, 4})}});
    all.coords = out["out_coords"], all.clouds = out["clouds"], all.cluster = out["cluster"];
    all.rows = out["rows"], all.offsets = out["offsets"], all.count = out["n_clusters"];
    all.table = neighbours(n, "neighbours." + std::to_string(s), all, 3);
    all.orders.resize(config_.orders.size());
    return all;
  }

  // The neighbours of cells in a cube of `edge` cells. Rows that remain are cells of other clouds.
  Value neighbours(Net& n, const std::string& path, const Cells& cells, int64_t edge) const {
    const int64_t side = int64_t{1} << cells.bits, volume = side * side * side;
    const Ints cube(3, edge), ones(3, 1);
    const Outputs map =
        n("sparse_conv_neighbor_map", path + ".map",
          {{"batch_size", n.limits().max_batch + (cells.room + volume - 1) / volume},
           {"spatial_shape", Ints(3, side)},
           {"kernel_size", cube},
           {"stride", ones},
           {"padding", Ints(3, (edge - 1) / 2)},
           {"dilation", ones},
           {"submanifold", true},
           {"coords", cells.coords},
           {"out_coords", n.empty(DType::i32, {cells.room, 4})}});
    return n("neighbor_table", path + ".table",
             {{"num_outputs", cells.room},
              {"pairs", map["pairs"]},
              {"pair_counts", map["pair_counts"]}});
  }

  Value reduce(Net& n, const std::string& path, const Cells& to, Value x, const char* kind) const {
    const int64_t width = n.shape(x)[1].value();
    return n("segment_reduce", path,
             {{"reduce", kind},
              {"num_segments", to.room},
              {"x", x},
              {"rows", to.rows},
              {"offsets", to.offsets},
              {"out", n.empty(n.limits().dtype, {to.room, width})}});
  }

  // Pointcept's batch norms have this epsilon.
  Value norm(Net& n, const std::string& path, Value x) const {
    return n("batch_norm", path, {{"eps", 1e-3}, {"activation", "gelu"}, {"x", x}});
  }

  Value projected(Net& n, const std::string& path, Value x, int64_t width) const {
    return norm(n, path + ".1",
                n("linear", path + ".0", {{"out_features", width}, {"x", x}}, {"bias"}));
  }

  Value stem(Net& n, const Cells& cells, Value x) const {
    constexpr int64_t kEdge = 5;
    const Value near = n("sparse_conv", "backbone.embedding.stem.conv",
                         {{"out_channels", config_.widths[0]},
                          {"kernel_volume", kEdge * kEdge * kEdge},
                          {"x", x},
                          {"table", neighbours(n, "neighbours.stem", cells, kEdge)}});
    return norm(n, "backbone.embedding.stem.norm", near);
  }

  // Blocks take turns in the curves.
  Value blocks(Net& n, const std::string& path, Cells& cells, Value x, int64_t count, int64_t heads,
               int64_t patch) const {
    const int64_t width = n.shape(x)[1].value();
    if (patch != cells.patch) cells.orders.assign(config_.orders.size(), {});
    cells.patch = patch;
    for (int64_t i = 0; i < count; ++i) {
      const auto order = static_cast<size_t>(i) % config_.orders.size();
      if (!cells.orders[order].places) cells.orders[order] = cut(n, path, cells, order);
      const Patches& patches = cells.orders[order];
      Args args{{"intermediate_size", width * config_.mlp_ratio},
                {"num_heads", heads},
                {"patch_size", patch},
                {"scale", 1 / std::sqrt(static_cast<double>(width / heads))},
                {"x", x},
                {"table", cells.table},
                {"padded_rows", patches.padded_rows},
                {"places", patches.places},
                {"mask", patches.mask}};
      if (!config_.qkv_bias) args.emplace_back("qkv_bias", Value{});
      x = n("point_transformer_block", path + ".block" + std::to_string(i), args);
    }
    return x;
  }

  // Patches along one curve.
  Patches cut(Net& n, const std::string& path, const Cells& cells, size_t order) const {
    const std::string name = path + "." + config_.orders[order];
    const Value codes = n("space_filling_code", name + ".codes",
                          {{"order", config_.orders[order]},
                           {"depth", cells.bits},
                           {"batch_size", n.limits().max_batch},
                           {"coords", cells.coords}});
    const Outputs sorted = n("sort_rows", name + ".rows", {{"keys", codes}});
    // The room for patches: each cloud fills up one at most.
    const int64_t patches = cells.room / cells.patch + n.limits().max_batch;
    const Value mask = n.empty(DType::f32, {patches, 1, cells.patch});
    const Outputs all = n("attention_patches", name + ".patches",
                          {{"patch_size", cells.patch},
                           {"num_clouds", n.limits().max_batch},
                           {"rows", sorted["rows"]},
                           {"ranks", sorted["ranks"]},
                           {"clouds", cells.clouds},
                           {"mask", mask}});
    const Value rows = n.slice(all["padded_rows"], 0, 0, patches * cells.patch);
    return {n.reshape(rows, {patches, cells.patch}), all["places"], mask};
  }

  CloudConfig config_;
};

std::unique_ptr<Model> make_pointtransformerv3(const Config& config) {
  return std::make_unique<PointTransformer>(config);
}

FK_MODEL(pointtransformerv3, make_pointtransformerv3, {"PointTransformerV3"},
         {"pointtransformerv3"}, {"drop_path"});

}  // namespace
}  // namespace fk
