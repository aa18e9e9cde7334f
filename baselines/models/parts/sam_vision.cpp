// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/sam_vision.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "baselines/models/parts/diffusers/clip_text.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk::parts {

using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

SamVision read_sam_vision(const Config& config) {
  SamVision c;
  const Config vit = config.child("backbone_config");
  c.vit = read_vit(vit, false);
  read_patches(vit, c.vit);
  c.vit.eps = vit.number("layer_norm_eps", 1e-6);
  c.colours = read_count(vit, "num_channels");
  if (c.vit.image_size % c.vit.patch != 0) vit.fail_at("image_size", "patches do not fill it");
  c.window = read_count(vit, "window_size");
  if (c.side() % c.window != 0) vit.fail_at("window_size", "windows do not fill the image");
  c.pretrained = read_count(vit, "pretrain_image_size") / c.vit.patch;
  if (c.pretrained < 1) vit.fail_at("pretrain_image_size", "no patch fits into it");
  if (c.vit.head_dim() % 4 != 0)
    vit.fail_at("num_attention_heads", "a head must have a multiple of 4 channels");
  c.global = vit.integers("global_attn_indexes", {7, 15, 23, 31});
  c.theta = 10000;
  if (vit.has("rope_parameters")) {
    const Config rope = vit.child("rope_parameters");
    need_text(rope, "rope_type", "axial");
    c.theta = rope.number("rope_theta", 10000);
  }
  if (!(c.theta > 1)) vit.fail_at("rope_parameters", "rope_theta must exceed 1");
  c.width = read_size(config, "fpn_hidden_size");
  if (c.width % 8 != 0) config.fail_at("fpn_hidden_size", "it must be a multiple of 8");
  if (config.numbers("scale_factors") != Numbers{4, 2, 1, 0.5})
    config.fail_at("scale_factors", "only 4, 2, 1 and 0.5 are supported");
  for (const char* key : {"backbone_feature_sizes", "hidden_act", "layer_norm_eps"})
    config.ignore(key);
  return c;
}

Value plain_conv(Net& n, const std::string& path, Value x, int64_t out, int64_t edge) {
  return n("conv2d", path,
           {{"out_channels", out},
            {"kernel_size", Ints{edge, edge}},
            {"stride", Ints{1, 1}},
            {"padding", Ints{edge / 2, edge / 2}},
            {"dilation", Ints{1, 1}},
            {"x", x}},
           {"bias"});
}
Value each_image(Net& n, const std::string& path, Value rows) {
  const Dims shape = n.shape(rows);
  const Value same = repeated_row(n, path, n.reshape(rows, {1, shape[0] * shape[1]}), n.axis("B"));
  return n.reshape(same, {n.axis("B"), shape[0], shape[1]});
}

Value sum_rows(Net& n, const std::string& path, Value a, Value b) {
  const Dims shape = n.shape(a);
  Expr rows = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) rows = rows * shape[d];
  const Dims flat = {rows, shape.back()};
  return n.reshape(n("add", path, {{"a", n.reshape(a, flat)}, {"b", n.reshape(b, flat)}}), shape);
}

namespace {

Value twice(Net& n, const std::string& path, Value x, int64_t out) {
  return n("conv_transpose2d", path,
           {{"out_channels", out},
            {"kernel_size", Ints{2, 2}},
            {"stride", Ints{2, 2}},
            {"padding", Ints{0, 0}},
            {"dilation", Ints{1, 1}},
            {"x", x}},
           {"bias"});
}

// The token in each place of the order of windows, and the place of each token.
Ints window_order(const SamVision& c) {
  const int64_t side = c.side(), window = c.window;
  Ints order;
  for (int64_t top = 0; top < side; top += window)
    for (int64_t left = 0; left < side; left += window)
      for (int64_t y = top; y < top + window; ++y)
        for (int64_t x = left; x < left + window; ++x) order.push_back(y * side + x);
  return order;
}
Value order_rows(Net& n, const SamVision& c, const std::string& name,
                 std::function<int64_t(int64_t)> row) {
  const Ints order = window_order(c);
  return computed(n, name, DType::i32, {c.tokens()}, [=] {
    Numbers rows;
    for (const int64_t token : order) rows.push_back(static_cast<double>(row(token)));
    return rows;
  });
}

// Cosines or sines of places [place of column, place of row], for attention over `tokens`.
Value turns(Net& n, const SamVision& c, const std::string& name, double (*wave)(double),
            bool whole) {
  const int64_t head = c.vit.head_dim(), side = whole ? c.side() : c.window;
  const double step = static_cast<double>(c.window) / static_cast<double>(side);
  Ints order = window_order(c);
  if (!whole) order.resize(static_cast<size_t>(side * side));
  const int64_t all = c.side();
  const double theta = c.theta;
  return computed(n, name, DType::f32, {static_cast<int64_t>(order.size()), head}, [=] {
    Numbers table;
    for (const int64_t token : order)
      for (int64_t i = 0; i < head; ++i) {
        const int64_t at = i < head / 2 ? token % all : token / all;
        const auto share =
            static_cast<double>(i % (head / 2) / 2 * 2) / (static_cast<double>(head) / 2);
        table.push_back(wave(static_cast<double>(at) * step * std::pow(theta, -share)));
      }
    return table;
  });
}

}  // namespace

Value sam_vision(Net& n, const SamVision& c) {
  const VitSizes& vit = c.vit;
  const int64_t side = c.side(), table = c.pretrained, window = c.window;
  const std::string path = "vision_encoder.backbone", embeddings = path + ".embeddings";
  const Value image = pixels(n, c.colours, vit.image_size, vit.image_size);
  const Value patches = n("conv2d", embeddings + ".patch_embeddings.projection",
                          {{"out_channels", vit.hidden},
                           {"kernel_size", Ints{vit.patch, vit.patch}},
                           {"stride", Ints{vit.patch, vit.patch}},
                           {"padding", Ints{0, 0}},
                           {"dilation", Ints{1, 1}},
                           {"x", image}});
  const Value own =
      n("select_rows", embeddings + ".windows",
        {{"x", n.reshape(patches, {n.axis("B"), c.tokens(), vit.hidden})},
         {"rows", order_rows(n, c, "windows.rows", [](int64_t token) { return token; })}});
  const Value positions = n.reshape(
      parameter(n, embeddings + ".position_embeddings", {1, table * table, vit.hidden}, 1),
      {1, table * table, vit.hidden});
  const Value tiled =
      n("select_rows", embeddings + ".tiles",
        {{"x", positions}, {"rows", order_rows(n, c, "tiles.rows", [side, table](int64_t token) {
                              return token / side % table * table + token % side % table;
                            })}});
  Value x =
      sum_rows(n, embeddings + ".sum", own,
               each_image(n, embeddings + ".places", n.reshape(tiled, {c.tokens(), vit.hidden})));
  x = by_rows(n, "layer_norm", path + ".layer_norm", x, {{"eps", vit.eps}});
  for (int64_t i = 0; i < vit.layers; ++i) {
    n.tap(fmt::format("hidden.{}", i), {x});
    const bool whole = std::ranges::find(c.global, i) != c.global.end();
    const int64_t tokens = whole ? c.tokens() : window * window;
    const std::string turned = whole ? "turns.whole" : "turns.window";
    const Value y =
        n("vit_layer", fmt::format("{}.layers.{}", path, i),
          {{"num_heads", vit.heads},
           {"head_dim", vit.head_dim()},
           {"scale", 1 / std::sqrt(static_cast<double>(vit.head_dim()))},
           {"rotary_dim", vit.head_dim()},
           {"interleaved", true},
           {"intermediate_size", vit.mlp},
           {"approximate", vit.approximate},
           {"eps", vit.eps},
           {"cos", turns(
                       n, c, turned + ".cos", [](double v) { return std::cos(v); }, whole)},
           {"sin", turns(
                       n, c, turned + ".sin", [](double v) { return std::sin(v); }, whole)},
           {"x", n.reshape(x, {n.axis("B") * (c.tokens() / tokens), tokens, vit.hidden})}});
    x = n.reshape(y, {n.axis("B"), c.tokens(), vit.hidden});
  }
  n.tap(fmt::format("hidden.{}", vit.layers), {x});
  return x;
}

std::vector<Value> sam_pyramid(Net& n, const SamVision& c, Value x) {
  const int64_t side = c.side(), channels = c.vit.hidden;
  const Ints order = window_order(c);
  const Value rows = computed(n, "images.rows", DType::i32, {c.tokens()}, [order] {
    Numbers places(order.size());
    for (size_t i = 0; i < order.size(); ++i)
      places[static_cast<size_t>(order[i])] = static_cast<double>(i);
    return places;
  });
  const Value image =
      n.reshape(n("select_rows", "vision_encoder.images", {{"x", x}, {"rows", rows}}),
                {n.axis("B"), side, side, channels});
  std::vector<Value> maps;
  for (int64_t level = 0; level < 3; ++level) {
    const std::string path = fmt::format("vision_encoder.neck.fpn_layers.{}", level);
    Value y = image;
    if (level < 2) y = twice(n, path + ".scale_layers.0", y, channels / 2);
    if (level == 0) {
      y = by_rows(n, "gelu", path + ".scale_layers.1", y, {});
      y = twice(n, path + ".scale_layers.2", y, channels / 4);
    }
    y = plain_conv(n, path + ".proj2", plain_conv(n, path + ".proj1", y, c.width, 1), c.width, 3);
    maps.push_back(y);
  }
  return maps;
}

}  // namespace fk::parts
