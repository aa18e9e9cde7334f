// SPDX-License-Identifier: Apache-2.0
// If this fails, tokens of an image or behind it have other positions than in the library. Or
// patches see other frames, or requests are computed whose images do not fit their patches or
// prompts.
#include "core/engines/generate/image_inputs.hpp"

#include <cmath>
#include <map>
#include <numeric>

#include "test/catch.hpp"

namespace image_inputs_test {

namespace {

constexpr int64_t kImageToken = 7, kPatches = 64, kSquare = 2, kSide = 3, kContext = 64;

// An encoder's inputs without nodes.
class Inputs final : public fk::Program {
 public:
  Inputs() {
    const std::map<std::string, int64_t> bytes{
        {"pixel_values", kPatches * 4},       {"frame_starts", (kPatches + 1) * 4},
        {"patch_rows", kPatches * 16},        {"corner_rows", kPatches * 32},
        {"corner_weights", kPatches * 16},    {"window_rows", kPatches * 4},
        {"window_starts", (kPatches + 1) * 4}};
    for (const auto& [name, size] : bytes) memory_[name].resize(static_cast<size_t>(size) / 8 + 1);
  }
  int axis(const std::string& name) const override {
    return name == "B" ? 0 : name == "G" ? 1 : -1;
  }
  int64_t limit(const std::string&) const override { return kPatches; }
  void bind(int axis, int64_t value) override { (axis == 0 ? frames : windows) = value; }
  void* input(const std::string& name) override {
    const auto it = memory_.find(name);
    return it == memory_.end() ? nullptr : it->second.data();
  }
  void run() override {}
  Output output(const std::string&) const override { return {}; }
  void read(const std::string&, void*, int64_t) override {}
  void set_taps(fk::TapSink) override {}
  void set_watch(fk::NodeWatch*) override {}
  void set_marker(volatile int32_t*) override {}
  const std::vector<NodeInfo>& nodes() const override { return nodes_; }
  int64_t arena_bytes() const override { return 0; }

  template <class T>
  std::vector<T> first(const std::string& name, int64_t count) {
    const auto* data = static_cast<const T*>(input(name));
    return {data, data + count};
  }
  int64_t frames = -1, windows = -1;

 private:
  std::map<std::string, std::vector<int64_t>> memory_;
  std::vector<NodeInfo> nodes_;
};

fk::GenerateEncoder image_encoder() {
  fk::GenerateEncoder s;
  s.length = kPatches / (kSquare * kSquare);
  s.placeholder = kImageToken;
  s.position_side = kSide;
  s.tensors = {
      {.name = "pixel_values",
       .shape = {kPatches, 1},
       .ragged = true,
       .multiple = kSquare * kSquare},
      {.name = "image_grid_thw", .shape = {kPatches, 3}, .square = kSquare, .below = 1000}};
  return s;
}

using Shapes = std::vector<float>;

fk::Request request(const Shapes& shapes, std::vector<int64_t> tokens) {
  fk::Request r;
  r.tokens = std::move(tokens);
  int64_t patches = 0;
  for (size_t i = 0; i < shapes.size(); i += 3)
    patches += static_cast<int64_t>(shapes[i] * shapes[i + 1] * shapes[i + 2]);
  if (shapes.empty()) return r;
  r.tensors.push_back(
      {"pixel_values", {patches, 1}, std::vector<float>(static_cast<size_t>(patches))});
  r.tensors.push_back({"image_grid_thw", {static_cast<int64_t>(shapes.size()) / 3, 3}, shapes});
  return r;
}

std::string refusal(const fk::Request& r) {
  Inputs inputs;
  const fk::RequestTensors tensors(inputs, image_encoder().tensors);
  const std::string why = tensors.refusal(r);
  return why.empty() ? fk::ImageInputs(inputs, image_encoder(), kContext).refusal(r) : why;
}

}  // namespace

TEST_CASE("tokens of images and behind them have the positions of a grid") {
  Inputs inputs;
  const fk::ImageInputs images(inputs, image_encoder(), kContext);
  fk::Sequence s;
  // Two tokens, 2 x 3 squares, a token, 1 x 1 square, a token.
  s.request = request({1, 4, 6, 1, 2, 2}, {1, 2, 7, 7, 7, 7, 7, 7, 3, 7, 4});
  s.tokens = s.request.tokens;
  s.prompt = 11;
  images.place_tokens(s);
  const std::vector<int32_t> want{0, 0, 0, 1, 1, 1,                                      // text
                                  2, 2, 2, 2, 2, 3, 2, 2, 4, 2, 3, 2, 2, 3, 3, 2, 3, 4,  // 2 x 3
                                  5, 5, 5, 6, 6, 6, 7, 7, 7};
  CHECK(s.axes == want);
  CHECK(s.shift == -3);
  // Frames count on the first axis. Text goes on behind the largest position of all axes.
  s.request = request({3, 2, 2}, {7, 7, 7, 1});
  s.tokens = s.request.tokens;
  s.prompt = 4;
  images.place_tokens(s);
  CHECK(s.axes == std::vector<int32_t>{0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 3, 3});
  CHECK(s.shift == 0);
  s.request = request({}, {7, 7});
  images.place_tokens(s);
  CHECK(s.axes.empty());
  CHECK(s.shift == 0);
}

TEST_CASE("frames of a film may be several positions apart, within the context") {
  Inputs inputs;
  fk::GenerateEncoder encoder = image_encoder();
  encoder.frame_step = 4;
  fk::Sequence s;
  s.request = request({3, 2, 2}, {7, 7, 7, 1});
  s.tokens = s.request.tokens;
  s.prompt = 4;
  const fk::ImageInputs images(inputs, encoder, kContext);
  images.place_tokens(s);
  CHECK(s.axes == std::vector<int32_t>{0, 0, 0, 4, 0, 0, 8, 0, 0, 9, 9, 9});
  CHECK(s.shift == 6);
  CHECK(images.refusal(s.request).empty());
  CHECK(fk::ImageInputs(inputs, encoder, 10).refusal(s.request).empty());
  CHECK_THAT(fk::ImageInputs(inputs, encoder, 9).refusal(s.request),
             ContainsSubstring("reach position 10, and the context is 9"));
}

TEST_CASE("windows divide frames, and left rows know their places") {
  Inputs inputs;
  fk::GenerateEncoder encoder = image_encoder();
  encoder.window = 2;
  fk::ImageInputs images(inputs, encoder, kContext);
  images.add(request({1, 2, 2}, {}), 0);
  images.add(request({2, 4, 6}, {}), 4);  // 2 x 3 squares: windows of 2 x 2 and 2 x 1
  images.bind();
  CHECK(inputs.frames == 3);
  CHECK(inputs.windows == 5);
  CHECK(inputs.first<int32_t>("window_starts", 6) == std::vector<int32_t>{0, 4, 20, 28, 44, 52});
  CHECK(inputs.first<int32_t>("frame_starts", 4) == std::vector<int32_t>{0, 4, 28, 52});
  std::vector<int64_t> left;
  for (int64_t i = 0; i < 12; ++i) left.push_back(images.left_row(i));
  CHECK(left == std::vector<int64_t>{0, 1, 3, 4, 2, 5, 6, 7, 9, 10, 8, 11});
  const auto rows = inputs.first<int32_t>("window_rows", 52);
  CHECK(rows[4] == 4);
  CHECK(rows[4 + 8] == 4 + 12);   // the third square of the window is the fourth of the frame
  CHECK(rows[4 + 16] == 4 + 8);   // the second window begins with the third square
  CHECK(rows[4 + 24] == 4 + 24);  // the second frame
  const int64_t c = kPatches / kSquare;
  const auto places = inputs.first<int64_t>("patch_rows", 2 * 52);
  CHECK(places[2 * (4 + 16)] == 0);
  CHECK(places[2 * (4 + 16) + 1] == c + 4);
}

TEST_CASE("patches are in squares, frames see themselves, and tables spread over images") {
  Inputs inputs;
  fk::ImageInputs images(inputs, image_encoder(), kContext);
  images.add(request({2, 2, 4}, {}), 0);
  images.add(request({1, 2, 2}, {}), 16);
  images.bind();
  CHECK(inputs.frames == 3);
  CHECK(inputs.first<int32_t>("frame_starts", 4) == std::vector<int32_t>{0, 8, 16, 20});
  const int64_t c = kPatches / kSquare;  // where columns begin
  const auto rows = inputs.first<int64_t>("patch_rows", 16);
  CHECK(rows == std::vector<int64_t>{0, c, 0, c + 1, 1, c, 1, c + 1,  // the left square
                                     0, c + 2, 0, c + 3, 1, c + 2, 1, c + 3});
  // Patch 1 is (0, 1) of 2 x 4: column 2/3 of a table of 3 x 3. Patch 2 is (1, 0): its last row.
  const auto corners = inputs.first<int64_t>("corner_rows", 12);
  const auto weights = inputs.first<float>("corner_weights", 12);
  CHECK(corners[4] == 0);
  CHECK(corners[5] == 1);
  CHECK(std::abs(weights[4] - 1 / 3.F) < 1e-6F);
  CHECK(std::abs(weights[5] - 2 / 3.F) < 1e-6F);
  CHECK(corners[8] == 2 * kSide);
  CHECK(std::abs(weights[8] - 1) < 1e-6F);
  for (auto it = weights.begin(); it != weights.end(); it += 4)
    CHECK(std::abs(std::accumulate(it, it + 4, 0.F) - 1) < 1e-6F);
  images.bind();
  CHECK(inputs.frames == 0);
}

TEST_CASE("requests whose images do not fit are refused with the reason") {
  CHECK(refusal(request({1, 4, 4}, {1, 7, 7, 7, 7, 2})).empty());
  CHECK(refusal(request({}, {1, 7, 2})).empty());
  CHECK_THAT(refusal(request({1, 4, 4}, {7, 7, 1, 7, 7})),
             ContainsSubstring("2 placeholders side"));
  CHECK_THAT(refusal(request({1, 4, 3}, {7, 7, 7})), ContainsSubstring("not multiples of 2"));
  auto wrong = request({1, 4, 4}, {7, 7, 7, 7});
  wrong.tensors[1].values[1] = 6;
  CHECK_THAT(refusal(wrong), ContainsSubstring("more than all patches"));
  wrong.tensors[1].values[1] = 2;
  CHECK_THAT(refusal(wrong), ContainsSubstring("shapes of 8 patches, and the request has 16"));
  wrong.tensors[1].values[1] = 2.5F;
  CHECK_THAT(refusal(wrong), ContainsSubstring("whole numbers"));
  wrong.tensors[1].values[1] = 0;
  CHECK_THAT(refusal(wrong), ContainsSubstring("a side of 0"));
  wrong.tensors.pop_back();
  CHECK_THAT(refusal(wrong), ContainsSubstring("has no tensor `image_grid_thw`"));
}

TEST_CASE("random requests have images that fit, or none") {
  const fk::RequestForm form{
      .vocabulary = 50, .tensors = image_encoder().tensors, .placeholders = {kImageToken}};
  int alone = 0, two = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const fk::Request r = form.random(1 + static_cast<int64_t>(seed % 24), seed);
    INFO("seed " << seed);
    CHECK(refusal(r) == "");
    alone += r.tensors.empty();
    two += !r.tensors.empty() && r.tensors[1].shape[0] == 2;
  }
  CHECK(alone > 20);
  CHECK(alone < 100);
  CHECK(two > 20);
}

}  // namespace image_inputs_test
