// SPDX-License-Identifier: Apache-2.0
// nerf_render as rays, samples, encodings, two networks and compositing. All samples which fit are
// computed, in float32.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_nerf_render(Builder& b, const Region& r) {
  const auto& size = r.integers("image_size");
  const int64_t capacity = r.integer("capacity");
  const Outputs rays = r.call(b, "camera_rays", ".rays", {{"image_size", size}});
  const Value directions = rays["directions"];
  const Expr images = b.shape(r["viewmats"])[0];
  const int64_t pixels = size[0] * size[1];
  b.tap("hidden.0", {b.reshape(directions, {images, pixels * 3})});
  const int64_t harmonics = r.integer("degree") * r.integer("degree");
  const Value basis = b.call("spherical_harmonics_encoding", r.path() + ".direction_encoding",
                             {{"degree", r.integer("degree")}, {"directions", directions}});
  b.tap("hidden.1", {b.reshape(basis, {images, pixels * harmonics})});
  const Outputs samples = r.call(b, "ray_march", ".march",
                                 {{"origins", rays["origins"]},
                                  {"directions", directions},
                                  {"density_grid", r["density_grid"]},
                                  {"positions", b.empty(DType::f32, {capacity, 3})},
                                  {"deltas", b.empty(DType::f32, {capacity})},
                                  {"ray_ids", b.empty(DType::i32, {capacity})},
                                  {"n_samples", r["n_samples"]}});
  const auto layer = [&](const std::string& name, const std::string& weight, Value x,
                         const char* behind) {
    const Value out = b.call("linear", r.path() + name,
                             {{"weight", r[weight]},
                              {"x", x},
                              {"out", b.empty(DType::f32, {capacity, b.shape(r[weight])[0]})}});
    if (!behind) return out;
    return Value(b.call("activation", r.path() + name + "." + behind,
                        {{"kind", std::string(behind)}, {"x", out}}));
  };
  const Value encoded =
      r.call(b, "hash_grid_encoding", ".encoding", {{"positions", samples["positions"]}});
  const Value hidden = layer(".density.0", "density_in", encoded, "relu");
  const Value features = layer(".density.1", "density_out", hidden, nullptr);
  const Value seen = b.call("gather_rows", r.path() + ".directions_of_samples",
                            {{"x", basis}, {"rows", samples["ray_ids"]}});
  const int64_t width = b.shape(features)[1].value();
  const Value both = b.call("concat_channels", r.path() + ".color_input",
                            {{"num_parts", int64_t{2}},
                             {"sizes", std::vector<int64_t>{width, harmonics}},
                             {"size", width + harmonics},
                             {"x", std::vector<Value>{features, seen}},
                             {"out", b.empty(DType::f32, {capacity, width + harmonics})}});
  const Value first = layer(".color.0", "color_in", both, "relu");
  const Value second = layer(".color.1", "color_hidden", first, "relu");
  const Value colors = layer(".color.2", "color_out", second, "sigmoid");
  r.call(b, "volume_render", ".render",
         {{"features", features},
          {"colors", colors},
          {"deltas", samples["deltas"]},
          {"ranges", samples["ranges"]},
          {"out", b.reshape(r["out"], {b.shape(directions)[0], 3})},
          {"alphas", b.reshape(r["alphas"], {b.shape(directions)[0]})}});
}

FK_BLOCK(nerf_render, expand_nerf_render);

}  // namespace
}  // namespace fk
