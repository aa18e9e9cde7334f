// SPDX-License-Identifier: Apache-2.0
// Checkpoints whose matrices stay f8e4m3, as `quantization_config` says.
#pragma once
#include <string>
#include <vector>

#include "core/exec/model.hpp"

namespace fk::parts {

struct Fp8 {
  bool on = false;
  int64_t rows = 128, columns = 128;  // of a block
  // `dynamic`: inputs are rounded to f8e4m3 too. Without the key only the weights are.
  bool quantize_input = false;
};

// Off where matrices become floats when they are read: without a quantization_config, and with one
// that declares no blocks of fp8.
Fp8 read_fp8(const Config& config);

// Products with matrices which stay f8e4m3, with scales of blocks, of rows or of the whole matrix.
// Inputs are rounded to f8e4m3 too, as the checkpoint's own runtime does.
struct Fp8Products {
  enum class Scales { none, blocks, rows, matrix };
  Scales scales = Scales::none;       // none: matrices become floats when they are read
  int64_t rows = 128, columns = 128;  // of a block
  bool quantize_input = false;        // beside blocks; else inputs are always rounded
  std::string suffix;                 // of a matrix's name: the name of its scales
  // Modules whose matrices are floats: names, parents of names, or patterns behind "re:".
  std::vector<std::string> kept;
  std::string bound;  // behind a module's name: a tensor which bounds the scales of inputs

  bool on() const { return scales != Scales::none; }
  bool keeps(const std::string& module) const;
};

// Off for forms of fp8 without an op here: static scales of inputs, one scale for all tokens,
// inputs in floats beside scales of rows. Also off for fp8 without blocks: it names no kind of
// scales.
Fp8Products read_fp8_products(const Config& config);

}  // namespace fk::parts
