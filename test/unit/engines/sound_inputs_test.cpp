// SPDX-License-Identifier: Apache-2.0
// If this fails, frames of a sound see another chunk or sound, or a prompt has wrong means of rows.
// Or requests are computed whose sounds do not fit.
#include "core/engines/generate/sound_inputs.hpp"

#include <map>

#include "core/engines/generate/encoder_phase.hpp"
#include "test/catch.hpp"

namespace sound_inputs_test {

namespace {

constexpr int64_t kFrames = 64, kChunk = 10, kSoundToken = 5;

// An encoder's inputs without nodes. Axes are S, B, E, R.
class SoundProgram final : public fk::Program {
 public:
  int axis(const std::string& name) const override {
    return static_cast<int>(std::string("SBER").find(name));
  }
  int64_t limit(const std::string& name) const override { return name == "B" ? 9 : kFrames; }
  void bind(int axis, int64_t value) override { sizes[axis] = value; }
  void* input(const std::string& name) override {
    if (name == "state_slots" || name == "cu_seqlens") return nullptr;
    auto& memory = memory_[name];
    memory.resize(static_cast<size_t>(kFrames + 1));
    return memory.data();
  }
  void run() override { ++runs; }
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
  std::map<int, int64_t> sizes;
  int runs = 0;

 private:
  std::map<std::string, std::vector<int64_t>> memory_;
  std::vector<NodeInfo> nodes_;
};

fk::GenerateEncoder sound_encoder() {
  fk::GenerateEncoder e;
  e.phase = "hear";
  e.length = 12;
  e.placeholder = kSoundToken;
  e.tensors = {{.name = "frames", .shape = {kFrames, 1}, .ragged = true},
               {.name = "lengths", .shape = {6, 1}, .chunk = kChunk, .below = 1000}};
  return e;
}

fk::Request request(const std::vector<float>& lengths, std::vector<int64_t> tokens) {
  fk::Request r;
  r.tokens = std::move(tokens);
  int64_t frames = 0;
  for (const float length : lengths) frames += static_cast<int64_t>(length);
  if (lengths.empty()) return r;
  r.tensors.push_back({"frames", {frames, 1}, std::vector<float>(static_cast<size_t>(frames))});
  r.tensors.push_back({"lengths", {static_cast<int64_t>(lengths.size()), 1}, lengths});
  return r;
}

using Ints = std::vector<int32_t>;

}  // namespace

TEST_CASE("sounds lie in chunks, and pairs of rows cross them") {
  CHECK(fk::rows_of_sound(1) == 0);
  CHECK(fk::rows_of_sound(2) == 0);
  CHECK(fk::rows_of_sound(3) == 1);
  CHECK(fk::rows_of_sound(13) == 3);
  SoundProgram program;
  fk::SoundInputs sounds(program, sound_encoder());
  const fk::Request first = request({13, 10}, {}), second = request({4}, {});
  sounds.add(first, 0, 0);  // chunks of 10, 3 and 10 frames: 5, 2 and 5 rows, then 3 + 2 left ones
  sounds.add(second, 23, 5);
  CHECK(program.first<int32_t>("chunk_starts", 5) == Ints{0, 5, 7, 12, 14});
  const auto places = program.first<int32_t>("frame_places", 27);
  CHECK(Ints(places.begin() + 8, places.begin() + 14) == Ints{8, 9, 10, 11, 12, 20});
  CHECK(places[23] == 30);
  const auto kept = program.first<int32_t>("kept_places", 14);
  CHECK(kept == Ints{0, 1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15, 16});
  CHECK(program.first<int64_t>("positions", 8) == std::vector<int64_t>{0, 1, 2, 3, 4, 0, 1, 0});
  // The fifth row and the sixth are of two chunks of a sound. Its seventh row is left out.
  CHECK(program.first<int32_t>("pair_rows", 12) == Ints{0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 13});
  CHECK(sounds.fit(request({50}, {})));
  CHECK(!sounds.fit(request({51}, {})));
  sounds.bind();
  CHECK(program.sizes.at(1) == 4);
  CHECK(program.sizes.at(2) == 14);
}

TEST_CASE("two encoders fill one state behind each other") {
  SoundProgram images, sounds;
  fk::GenerateSetup setup;
  setup.max_context = 64;
  fk::GenerateEncoder pictures;
  pictures.phase = "see";
  pictures.length = 3;
  pictures.placeholder = 7;
  pictures.tensors = {{.name = "patches", .shape = {3, 1}, .ragged = true}};
  setup.encoders = {{&images, pictures, 0}, {&sounds, sound_encoder(), 3}};
  CHECK(setup.source_rows() == 15);
  fk::EncoderPhase hear(setup, 1);
  fk::Sequence s;
  s.slot = 2;
  s.request = request({13}, {1, 5, 5, 5});
  s.request.tensors.push_back({"patches", {1, 1}, {0}});
  CHECK(hear.refusal(s.request).empty());
  hear.run({{.sequence = &s}});
  CHECK(sounds.runs == 1);
  CHECK(sounds.first<int32_t>("state_rows", 3) == Ints{33, 34, 35});
  CHECK(sounds.sizes.at(3) == 3);
  s.request.tensors.push_back({"other", {1, 1}, {0}});
  CHECK_THAT(hear.refusal(s.request), ContainsSubstring("takes no tensor `other`"));
}

TEST_CASE("requests whose sounds do not fit are refused with the reason") {
  SoundProgram program;
  fk::GenerateSetup setup;
  setup.max_context = 64;
  setup.encoders = {{&program, sound_encoder(), 0}};
  const fk::EncoderPhase hear(setup, 0);
  CHECK(hear.refusal(request({}, {5, 5})).empty());
  CHECK_THAT(hear.refusal(request({13}, {5, 5, 1})),
             ContainsSubstring("2 placeholders for 3 rows"));
  CHECK_THAT(hear.refusal(request({13, 2}, {5, 5, 5})), ContainsSubstring("2 frames, too few"));
  auto wrong = request({13}, {5, 5, 5});
  wrong.tensors[1].values[0] = 12;
  CHECK_THAT(hear.refusal(wrong),
             ContainsSubstring("lengths of 12 frames, and the request has 13"));
  wrong.tensors.pop_back();
  CHECK_THAT(hear.refusal(wrong), ContainsSubstring("has no tensor `lengths`"));
}

TEST_CASE("random requests have sounds that fit, or none") {
  SoundProgram program;
  fk::GenerateSetup setup;
  setup.max_context = 64;
  setup.encoders = {{&program, sound_encoder(), 0}};
  const fk::EncoderPhase hear(setup, 0);
  const fk::RequestForm form{
      .vocabulary = 50, .tensors = sound_encoder().tensors, .placeholders = {kSoundToken}};
  int alone = 0, two = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const fk::Request r = form.random(1 + static_cast<int64_t>(seed % 13), seed);
    INFO("seed " << seed);
    CHECK(hear.refusal(r) == "");
    alone += r.tensors.empty();
    two += !r.tensors.empty() && r.tensors[1].shape[0] == 2;
  }
  CHECK(alone > 20);
  CHECK(alone < 100);
  CHECK(two > 20);
}

}  // namespace sound_inputs_test
