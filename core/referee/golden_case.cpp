// SPDX-License-Identifier: Apache-2.0
#include "core/referee/golden_case.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

std::vector<int64_t> integers(const StoredTensor& tensor) {
  if (!is_integer(tensor.dtype) && tensor.dtype != DType::boolean)
    fail(tensor.where,
         "has dtype " + std::string(fk::name(tensor.dtype)) + " where integers are needed");
  const Tensor copy = tensor.load().to(DType::i64);
  const auto values = copy.as<int64_t>();
  return {values.begin(), values.end()};
}

void need_shape(const StoredTensor& tensor, const Shape& want) {
  if (tensor.shape != want)
    fail(tensor.where,
         "has shape " + shape_text(tensor.shape) + " where " + shape_text(want) + " is needed");
}

// Lengths of the rows from a mask of ones followed by zeros.
std::vector<int64_t> lengths_of(const StoredTensor& mask, int64_t rows, int64_t padded) {
  need_shape(mask, {rows, padded});
  const auto values = integers(mask);
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < rows; ++b) {
    int64_t length = 0;
    for (int64_t t = 0; t < padded; ++t) {
      const int64_t v = values[static_cast<size_t>(b * padded + t)];
      if (v != 0 && v != 1) fail(mask.where, "has a value other than 0 and 1");
      if (v == 1 && length < t)
        fail(mask.where, "is not right padding in row " + std::to_string(b));
      length += v;
    }
    if (length == 0) fail(mask.where, "masks all of row " + std::to_string(b));
    lengths.push_back(length);
  }
  return lengths;
}

void read_inputs(GoldenCase& golden, const SafeTensors& file) {
  const StoredTensor& ids = file.at("in.input_ids");
  if (ids.shape.size() != 2 || ids.shape[0] < 1 || ids.shape[1] < 1)
    fail(ids.where, "has shape " + shape_text(ids.shape) + " where [rows, tokens] is needed");
  const int64_t rows = ids.shape[0];
  golden.padded = ids.shape[1];
  const auto values = integers(ids);
  std::vector<int64_t> lengths(static_cast<size_t>(rows), golden.padded);
  if (const auto* mask = file.find("in.attention_mask"))
    lengths = lengths_of(*mask, rows, golden.padded);
  for (int64_t b = 0; b < rows; ++b) {
    const auto first = values.begin() + b * golden.padded;
    golden.rows.emplace_back(first, first + lengths[static_cast<size_t>(b)]);
  }
  if (const auto* types = file.find("in.token_type_ids")) {
    need_shape(*types, ids.shape);
    for (const int64_t v : integers(*types))
      if (v != 0) fail(types->where, "has a token type other than 0, which is not supported");
  }
}

// [B, T, C] without padding: [tokens, C].
Tensor packed(const GoldenCase& golden, const StoredTensor& tensor) {
  const auto rows = static_cast<int64_t>(golden.rows.size());
  if (tensor.shape.size() != 3 || tensor.shape[0] != rows || tensor.shape[1] != golden.padded)
    fail(tensor.where, "has shape " + shape_text(tensor.shape) + " where [" + std::to_string(rows) +
                           ", " + std::to_string(golden.padded) + ", C] is needed");
  if (!is_float(tensor.dtype))
    fail(tensor.where,
         "has dtype " + std::string(fk::name(tensor.dtype)) + " where floats are needed");
  const int64_t width = tensor.shape[2];
  const Tensor all = tensor.load().to(DType::f32);
  Tensor out(DType::f32, {golden.tokens(), width});
  const auto source = all.as<float>();
  auto target = out.as<float>().begin();
  for (int64_t b = 0; b < rows; ++b) {
    const auto first = source.begin() + b * golden.padded * width;
    const auto length = static_cast<int64_t>(golden.rows[static_cast<size_t>(b)].size());
    target = std::copy(first, first + length * width, target);
  }
  return out;
}

// The number after a prefix; -1 if the name is not of that form.
int64_t numbered(const std::string& name, const std::string& prefix) {
  if (!starts_with(name, prefix)) return -1;
  int64_t number = -1;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + prefix.size(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end ? number : -1;
}

void read_outputs(GoldenCase& golden, const SafeTensors& file) {
  for (const auto& name : file.names()) {
    const StoredTensor& tensor = file.at(name);
    const int64_t mid = numbered(name, "mid.hidden."), state = numbered(name, "out.hidden_states.");
    if (mid >= 0 || state >= 0) {
      golden.hidden[std::max(mid, state)] = packed(golden, tensor);
    } else if (name == "out.greedy") {
      if (tensor.shape.size() != 2 || tensor.shape[0] > static_cast<int64_t>(golden.rows.size()))
        fail(tensor.where,
             "has shape " + shape_text(tensor.shape) +
                 " where [rows, tokens] is needed, with at most the rows of the input");
      const auto values = integers(tensor);
      for (int64_t b = 0; b < tensor.shape[0]; ++b) {
        const auto first = values.begin() + b * tensor.shape[1];
        golden.greedy.emplace_back(first, first + tensor.shape[1]);
      }
    } else if (name == "out.logits" || name == "out.last_hidden_state") {
      golden.outputs[name.substr(4)] = packed(golden, tensor);
    } else if (!starts_with(name, "in.")) {
      golden.not_compared.push_back(name);
    } else if (name != "in.input_ids" && name != "in.attention_mask" &&
               name != "in.token_type_ids") {
      fail(tensor.where, "is an input that these models do not have",
           did_you_mean(name, {"in.input_ids", "in.attention_mask", "in.token_type_ids"}));
    }
  }
  if (golden.outputs.empty() && golden.greedy.empty())
    fail(file.file(), "has none of out.logits, out.last_hidden_state, out.greedy",
         did_you_mean("out.logits", file.names()));
}

}  // namespace

int64_t GoldenCase::tokens() const {
  int64_t count = 0;
  for (const auto& row : rows) count += static_cast<int64_t>(row.size());
  return count;
}

int64_t GoldenCase::row_longest() const {
  size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.size());
  return static_cast<int64_t>(longest);
}

GoldenCase GoldenCase::load(const fs::path& folder) {
  if (!fs::is_directory(folder)) fail(folder.string(), "is not a folder");
  GoldenCase golden{fs::absolute(folder).lexically_normal().filename().string(),
                    Config::load(folder / "config.json"),
                    Checkpoint::open(fs::exists(folder / "model.safetensors.index.json")
                                         ? folder
                                         : folder / "model.safetensors"),
                    {},
                    0,
                    {},
                    {},
                    {},
                    {}};
  if (golden.name.empty()) golden.name = fs::absolute(folder).parent_path().filename().string();
  const auto file = SafeTensors::open(folder / "golden.safetensors");
  read_inputs(golden, file);
  read_outputs(golden, file);
  return golden;
}

}  // namespace fk
