// SPDX-License-Identifier: Apache-2.0
// Weights as models want them, from what checkpoints hold.
#include "core/exec/weights.hpp"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/json.hpp"
#include "test/catch.hpp"
#include "test/folder.hpp"

namespace {

// The only weight of a table, as float32 values.
std::vector<float> filled(const fk::WeightSpec& spec, const fk::Checkpoint* checkpoint) {
  fk::WeightTable table;
  table.add(spec);
  std::vector<std::byte> block(static_cast<size_t>(fk::WeightLayout(table).bytes));
  fk::fill_weights(table, checkpoint, 7, block.data(), 1, {});
  std::vector<float> values(static_cast<size_t>(fk::numel(spec.shape)));
  std::memcpy(values.data(), block.data(), values.size() * sizeof(float));
  return values;
}

fk::WeightSpec spec_of(const std::string& name, std::vector<int64_t> shape) {
  fk::WeightSpec spec;
  spec.name = name;
  spec.shape = std::move(shape);
  return spec;
}

}  // namespace

TEST_CASE("weights_are_mapped_whether_read_or_made") {
  const Folder folder;
  const fk::Tensor log = fk::Tensor::of(fk::DType::f32, {2}, {0, 1});
  fk::write_safetensors(folder.path / "model.safetensors", {{"A_log", log}});
  const fk::Checkpoint checkpoint = fk::Checkpoint::open(folder.path);
  fk::WeightSpec spec = spec_of("A_log", {2});
  spec.map = [](double v) { return -std::exp(v); };
  CHECK(filled(spec, &checkpoint) == std::vector<float>{-1, -std::exp(1.F)});
  for (const float v : filled(spec, nullptr)) CHECK(v < 0);
}

TEST_CASE("weights_of_a_depthwise_convolution_lose_their_axis_of_one") {
  const Folder folder;
  const fk::Tensor conv = fk::Tensor::of(fk::DType::f32, {2, 1, 3}, {1, 2, 3, 4, 5, 6});
  fk::write_safetensors(folder.path / "model.safetensors", {{"conv", conv}});
  const fk::Checkpoint checkpoint = fk::Checkpoint::open(folder.path);
  CHECK(filled(spec_of("conv", {2, 3}), &checkpoint) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK_THAT(message_of<fk::Error>([&] {
               filled(spec_of("conv", {3, 2}), &checkpoint);
             }),
             ContainsSubstring("it is [2, 1, 3], which does not fit into row 0 of conv [3, 2]"));
}

TEST_CASE("weights_have_zeros_where_a_part_has_no_name") {
  const Folder folder;
  fk::write_safetensors(folder.path / "model.safetensors",
                        {{"q", fk::Tensor::of(fk::DType::f32, {2}, {1, 2})},
                         {"v", fk::Tensor::of(fk::DType::f32, {1}, {3})}});
  const fk::Checkpoint checkpoint = fk::Checkpoint::open(folder.path);
  fk::WeightSpec spec = spec_of("qkv", {6});
  spec.parts = {{"q", "", "v"}};
  CHECK(filled(spec, &checkpoint) == std::vector<float>{1, 2, 0, 0, 0, 3});
  spec.shape = {2};
  CHECK_THAT(message_of<fk::Error>([&] { filled(spec, &checkpoint); }),
             ContainsSubstring("no rows are left"));
}

TEST_CASE("weights_see_a_part_reshaped_cut_and_turned") {
  const Folder folder;
  // Two heads of three rows (two of keys, one of values), two columns.
  const fk::Tensor kv =
      fk::Tensor::of(fk::DType::f32, {6, 2}, {0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121});
  fk::write_safetensors(folder.path / "model.safetensors", {{"kv", kv}});
  const fk::Checkpoint checkpoint = fk::Checkpoint::open(folder.path);
  fk::WeightSpec keys = spec_of("keys", {2, 2, 2});
  keys.parts = {{"kv"}};
  keys.view = fk::PartView{{2, 3, 2}, 1, 0, 2, {0, 2, 1}};
  CHECK(filled(keys, &checkpoint) == std::vector<float>{0, 10, 1, 11, 100, 110, 101, 111});
  fk::WeightSpec values = spec_of("values", {2, 1, 2});
  values.parts = {{"kv"}};
  values.view = fk::PartView{{2, 3, 2}, 1, 2, 1, {0, 1, 2}};
  CHECK(filled(values, &checkpoint) == std::vector<float>{20, 21, 120, 121});
  values.view->shape = {2, 4, 2};
  CHECK_THAT(message_of<fk::Error>([&] { filled(values, &checkpoint); }),
             ContainsSubstring("cannot be seen as [2, 4, 2]"));
}

TEST_CASE("weights_in_f8e4m3_are_multiplied_by_the_scales_of_their_blocks") {
  const Folder folder;
  // Blocks of two rows and three columns, the last ones cut off.
  const fk::Tensor w =
      fk::Tensor::of(fk::DType::f8e4m3, {3, 4}, {1, 1, 1, 2, 1, 1, 1, 2, 4, 4, 4, 8});
  const fk::Tensor scales = fk::Tensor::of(fk::DType::f32, {2, 2}, {0.5, 3, 10, 100});
  fk::write_safetensors(folder.path / "model.safetensors", {{"w", w}, {"w_scale_inv", scales}});
  const fk::WeightSpec spec = spec_of("w", {3, 4});
  const auto values = [&](const std::string& block) {
    const std::string text = R"({"quantization_config": {"quant_method": "fp8")" + block + "}}";
    const auto checkpoint =
        fk::Checkpoint::open(folder.path, fk::Config(fk::parse_json(text, "config"), "config"));
    return filled(spec, &checkpoint);
  };
  CHECK(values(R"(, "weight_block_size": [2, 3])") ==
        std::vector<float>{.5F, .5F, .5F, 6, .5F, .5F, .5F, 6, 40, 40, 40, 800});
  CHECK_THAT(message_of<fk::Error>([&] { values(R"(, "weight_block_size": [1, 3])"); }),
             ContainsSubstring("it is [2, 2] where one scale or one for each row"));
  CHECK_THAT(message_of<fk::Error>([&] {
               const auto undeclared = fk::Checkpoint::open(folder.path);
               filled(spec, &undeclared);
             }),
             ContainsSubstring("no quantization_config says how it is scaled"));
}

TEST_CASE("weights_that_are_computed_are_read_where_a_checkpoint_has_them") {
  const Folder folder;
  fk::write_safetensors(folder.path / "model.safetensors",
                        {{"table", fk::Tensor::of(fk::DType::f32, {2}, {3, 4})}});
  const fk::Checkpoint checkpoint = fk::Checkpoint::open(folder.path);
  fk::WeightSpec spec = spec_of("table", {2});
  spec.compute = [] { return std::vector<double>{1, 2}; };
  CHECK(filled(spec, &checkpoint) == std::vector<float>{1, 2});
  spec.in_checkpoint = true;
  CHECK(filled(spec, &checkpoint) == std::vector<float>{3, 4});
  CHECK(filled(spec, nullptr) == std::vector<float>{1, 2});
}

TEST_CASE("weights_of_other_limits_are_refused_with_the_computed_ones") {
  fk::WeightTable table, other;
  const auto computed = [](int64_t max_batch) {
    fk::WeightSpec spec = spec_of("model.offsets", {max_batch});
    spec.compute = [max_batch] { return std::vector<double>(static_cast<size_t>(max_batch), 1.0); };
    return spec;
  };
  table.add(spec_of("model.norm.weight", {3}));
  table.add(computed(65));
  other.add(spec_of("model.norm.weight", {3}));
  other.add(computed(129));
  const auto source = [&] {
    return fk::shared_weights(fk::SharedMemory::create(
        "weights_test", static_cast<size_t>(fk::WeightLayout(table).bytes)));
  };
  CHECK(source()->block(table) != nullptr);
  CHECK_THAT(message_of<fk::Error>([&] { source()->block(other); }),
             ContainsSubstring("has 768 bytes, this session's weights 1024") &&
                 ContainsSubstring("computed are model.offsets [129]") &&
                 ContainsSubstring("the same for each max_batch"));
}

TEST_CASE("weights_computed_in_another_size_are_named") {
  fk::WeightSpec spec = spec_of("model.offsets", {4});
  spec.compute = [] { return std::vector<double>(3, 1.0); };
  CHECK_THAT(message_of<fk::Error>([&] { filled(spec, nullptr); }),
             ContainsSubstring("model.offsets") && ContainsSubstring("3 values"));
}
