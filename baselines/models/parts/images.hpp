// SPDX-License-Identifier: Apache-2.0
// Images before a decoder: a vision tower over patches of images of any shape, and the places of
// its rows in a prompt. A decoder's description has them as `vision` (registry/models/README.md).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/engines/generate/engine.hpp"
#include "core/exec/model.hpp"

namespace fk::parts {

struct DecoderForm;

struct VisionTower {
  static constexpr const char* phase = "see";
  // Fixed in transformers: no configuration changes them.
  static constexpr double eps = 1e-6, theta = 10000;

  std::string path, activation;  // activation: gelu, gelu_tanh, quick_gelu, silu
  int64_t width = 0, layers = 0, heads = 0, mlp = 0, out = 0;
  int64_t patch_width = 0, square = 0;  // square * square patches become one row
  int64_t patches = 0;                  // most of one request
  bool patch_bias = false;
  bool rms = false;    // norms without means
  bool gated = false;  // the MLP, whose products have biases
  // Attention sees windows of so many by so many squares, but in the layers `whole` the frame.
  int64_t window = 0;  // 0: always the frame
  std::vector<int64_t> whole;
  int64_t side = 0;  // of a square table of positions, which is spread over each image; 0: none
  // Names below `path`, or below a layer. `qkv` has one or three, `up` one or two (the gate first).
  std::vector<std::string> qkv, up;
  std::string down, merger_norm, merger_up, merger_down, deep;
  // Their outputs are merged too, and added behind the first layers of the decoder.
  std::vector<int64_t> deep_layers;
  int64_t placeholder = 0, frame_step = 1;  // GenerateEncoder's

  int64_t rows() const { return patches / (square * square); }  // most of one request
};

// `description` is the decoder's, whose `vision` must be present.
VisionTower read_vision_tower(const Config& description, const Config& config);
// The configuration of the words: the object `text_config` where there is one, with the outer keys
// that it lacks.
Config words_of(const Config& config);
// Adds the encoder and the tensors of images.
void add_images(const VisionTower& tower, GenerateOptions& options);

// [N * rows, width]: the rows which encoders leave for each request, `rows` of all encoders.
Value kept_rows(Net& n, const std::string& state, int64_t rows, int64_t width);

// Records the encoder's phase. It leaves the rows of each request in states of `rows`.
void record_tower(Net& n, const VisionTower& tower, int64_t rows);

// The places in a prefill of what encoders leave.
class SeenImages {
 public:
  SeenImages(Net& n, const VisionTower& tower, int64_t rows);
  // Replaces the placeholders' rows of x [T,C], or of the sum of all ranks' shares of it.
  Value replace(Value x);
  // Adds the rows of merged layer `number` of the tower to x [T,C], which must be no share.
  void add_deep(int64_t number, Value x);

 private:
  Value rows_of(const std::string& state);
  Net& n_;
  const int64_t kept_, width_;
  Value rows_, tokens_;
};

// Cosines and sines [T,R] of the step's tokens, which have positions on three axes. A pair of
// channels turns by one of them.
struct AxisTables {
  Value cos, sin;
};
AxisTables axis_tables(Net& n, const DecoderForm& form, Expr tokens, int64_t positions);

}  // namespace fk::parts
