// SPDX-License-Identifier: Apache-2.0
//
// Quantised matrices of a checkpoint (f8 or int8): the tensors with their scales, and their values
// in float32.

#include <algorithm>
#include <array>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/tensor/safetensors.hpp"

namespace fk {
namespace {

// bitsandbytes stores an element as an int8: 127 times its share of the row's largest value, which
// is in SCB.
constexpr double kLargestInt8 = 127;

void need_float(const StoredTensor& scales) {
  if (!is_float(scales.dtype) || bits(scales.dtype) < 16)
    fail(scales.where,
         "scales are floats of 16 bits or more, not " + std::string(name(scales.dtype)));
}

// Every bitsandbytes matrix declares its order; only row order is supported.
void need_rows(const StoredTensor& format) {
  if (numel(format.shape) != 1 || to_double(format.bytes.data(), format.dtype) != 0)
    fail(format.where, "the matrix is not written row by row, and so not supported");
}

int64_t blocks_in(int64_t size, int64_t block) { return (size + block - 1) / block; }

// Scales of the whole matrix, of each row, or of each block.
void find_blocks(const StoredTensor& matrix, const Quantization& q, Checkpoint::Scaling& s) {
  const Shape& shape = matrix.shape;
  const Shape& have = s.scales->shape;
  if (q.block_rows > 0 && shape.size() == 2 &&
      have == Shape{blocks_in(shape[0], q.block_rows), blocks_in(shape[1], q.block_columns)}) {
    s.rows = q.block_rows;
    s.columns = q.block_columns;
    return;
  }
  const bool of_rows = !shape.empty() && !have.empty() && have[0] == shape[0] &&
                       numel(have) == have[0] && numel(shape) > 0;
  if (numel(have) == 1 || of_rows) return;
  std::string wanted = "one scale or one for each row";
  if (q.block_rows > 0)
    wanted += ", or for blocks of " + shape_text({q.block_rows, q.block_columns}) + ",";
  fail(s.scales->where, "it is " + shape_text(have) + " where " + wanted + " of " +
                            shape_text(shape) + " is needed");
}

}  // namespace

Checkpoint::Scaling Checkpoint::scaling(const std::string& name) const {
  const StoredTensor& matrix = at(name);
  const std::string type(fk::name(matrix.dtype));
  if (quantization_.method.empty())
    fail(matrix.where, "it is " + type + ", and no quantization_config says how it is scaled");
  const std::string method = "quantization_config (" + quantization_.method + ")";
  const bool f8 = matrix.dtype == DType::f8e4m3 || matrix.dtype == DType::f8e5m2;
  if (!f8 && matrix.dtype != DType::i8)
    fail(matrix.where, "it is " + type + ", which " + method + " does not scale");
  Scaling s;
  const std::string module = ends_with(name, ".weight") ? name.substr(0, name.size() - 7) : name;
  std::vector<std::string> scales = {name + "_scale_inv", name + "_scale"};
  if (quantization_.method == "bitsandbytes") {
    scales = {module + ".SCB"};
    s.factor = 1 / kLargestInt8;
    if (const auto* format = find(module + ".weight_format")) {
      need_rows(*format);
      s.beside.push_back(module + ".weight_format");
    }
  }
  for (const auto& candidate : scales) {
    const StoredTensor* found = find(candidate);
    if (found == nullptr) continue;
    if (s.scales != nullptr) fail(found->where, "the matrix has other scales, too");
    s.scales = found;
    s.beside.push_back(candidate);
  }
  if (s.scales == nullptr)
    fail(matrix.where, "it is " + type + " and has no scales: `" + scales.back() + "` is missing",
         did_you_mean(scales.back(), names()));
  need_float(*s.scales);
  find_blocks(matrix, quantization_, s);
  for (const char* input : {".input_scale", ".activation_scale", ".input_scale_ub"}) {
    if (!has(module + input)) continue;
    s.beside.push_back(module + input);
    s.has_input_scale = true;
  }
  return s;
}

std::vector<float> Checkpoint::scaled(const std::string& name) const {
  const StoredTensor& matrix = at(name);
  const Scaling s = scaling(name);
  const int64_t count = numel(matrix.shape);
  const int64_t rows = matrix.shape.empty() ? 1 : matrix.shape[0];
  const int64_t columns = rows > 0 ? count / rows : 0;
  std::vector<float> values(static_cast<size_t>(count));
  convert(matrix.bytes.data(), matrix.dtype, values.data(), DType::f32, count);
  const auto scale = [&](int64_t at) {
    const auto* element = s.scales->bytes.data() + at * fk::bytes(s.scales->dtype);
    return static_cast<float>(to_double(element, s.scales->dtype) * s.factor);
  };
  const int64_t across = s.rows > 0 ? blocks_in(columns, s.columns) : 1;
  const int64_t width = s.rows > 0 ? s.columns : std::max<int64_t>(columns, 1);
  const bool one = s.rows == 0 && numel(s.scales->shape) == 1;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = one ? 0 : (s.rows > 0 ? row / s.rows : row) * across;
    for (int64_t block = 0; block * width < columns; ++block) {
      const float factor = scale(first + block);
      const int64_t end = std::min(columns, (block + 1) * width);
      for (int64_t c = block * width; c < end; ++c)
        values[static_cast<size_t>(row * columns + c)] *= factor;
    }
  }
  return values;
}

}  // namespace fk
