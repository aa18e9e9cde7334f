// SPDX-License-Identifier: Apache-2.0
// If these fail, an image model has another head than its configuration says, or takes sizes at
// which nothing of the image is left.
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/exec/model.hpp"
#include "core/graph/builder.hpp"
#include "test/catch.hpp"

namespace {

std::unique_ptr<fk::Model> make(const std::string& more) {
  const fk::Config base(
      fk::parse_json(R"({"hidden_sizes": [8, 12], "depths": [1, 2], "num_stages": 2})",
                     "config.json"),
      "config.json");
  return fk::make_model("convnextv2", base.with(fk::parse_json("{" + more + "}", "more")));
}

fk::Dims logits(const std::string& more) {
  const fk::Catalog catalog(fk::paths::registry_dirs());
  fk::Net b(catalog, "classify", std::make_shared<fk::WeightTable>(), {});
  make(more)->forward(b, "classify");
  const fk::Graph graph = b.finish();
  return graph.info(graph.outputs.at("logits")).shape;
}

}  // namespace

TEST_CASE("convnextv2_has_as_many_classes_as_labels") {
  const fk::Expr batch = fk::Expr::symbol("B");
  CHECK(logits("") == fk::Dims{batch, 2});
  CHECK(logits(R"("num_labels": 7)") == fk::Dims{batch, 7});
  const std::string labels = R"("id2label": {"0": "cat", "1": "dog", "2": "owl"})";
  CHECK(logits(labels) == fk::Dims{batch, 3});
  CHECK(logits(labels + R"(, "num_labels": 7)") == fk::Dims{batch, 3});
}

TEST_CASE("convnextv2_asks_for_images_of_its_size") {
  const auto wanted = make(R"("image_size": 33, "num_channels": 1)")->engine()->form().tensors;
  REQUIRE(wanted.size() == 1);
  CHECK(wanted[0].name == "pixel_values");
  CHECK(wanted[0].shape == std::vector<int64_t>{1, 33, 33});
}

TEST_CASE("convnextv2_refuses_sizes_without_an_image") {
  CHECK_NOTHROW(make(R"("image_size": 8)"));
  for (const char* more :
       {R"("image_size": 7)", R"("depths": [1])", R"("num_stages": 3)", R"("patch_size": 0)",
        R"("hidden_act": "relu")", R"("id2label": {})", R"("hidden_sizes": [8, -1])"}) {
    INFO(more);
    CHECK_THROWS_AS(make(more), fk::Error);
  }
}
