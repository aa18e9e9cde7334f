// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/golden_case.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

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

// Lengths of rows from a mask of ones with zeros behind them.
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

constexpr std::string_view kTokenInputs[] = {"in.input_ids", "in.decoder_input_ids",
                                             "in.attention_mask", "in.token_type_ids"};

bool is_token_input(const std::string& name) {
  return std::find(std::begin(kTokenInputs), std::end(kTokenInputs), name) !=
         std::end(kTokenInputs);
}

void need_float(const StoredTensor& tensor) {
  if (!is_float(tensor.dtype))
    fail(tensor.where,
         "has dtype " + std::string(fk::name(tensor.dtype)) + " where floats are needed");
}

void read_tokens(GoldenCase& golden, const SafeTensors& file, const StoredTensor& ids) {
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

// <name>.rows counts the rows which requests have of the padded tensor <name>.
constexpr std::string_view kRows = ".rows";

bool counts_rows(const SafeTensors& file, const std::string& name) {
  return ends_with(name, kRows) && file.find(name.substr(0, name.size() - kRows.size()));
}

// Rows of each request's tensor; empty: all of them.
std::vector<int64_t> ragged_rows(const SafeTensors& file, const StoredTensor& tensor,
                                 const std::string& name) {
  const StoredTensor* counts = file.find(name + std::string(kRows));
  if (!counts) return {};
  need_shape(*counts, {tensor.shape[0]});
  std::vector<int64_t> rows = integers(*counts);
  for (const int64_t n : rows)
    if (n < 0 || n > tensor.shape[1])
      fail(counts->where, "has " + std::to_string(n) + " where 0 to " +
                              std::to_string(tensor.shape[1]) + " rows are possible");
  return rows;
}

// The ragged tensor with the most rows gives the rows of an encoder's hidden states. The engine
// judges if the rows of several tensors fit each other.
void keep_ragged(GoldenCase& golden, const StoredTensor& tensor, const std::vector<int64_t>& rows) {
  if (tensor.shape[1] < golden.ragged_most) return;
  golden.ragged = rows;
  golden.ragged_most = tensor.shape[1];
}

// Reads the other inputs: tensors whose first axis counts requests.
void read_tensors(GoldenCase& golden, const SafeTensors& file) {
  for (const auto& name : file.names()) {
    if (!starts_with(name, "in.") || is_token_input(name) || counts_rows(file, name)) continue;
    const StoredTensor& tensor = file.at(name);
    need_float(tensor);
    if (tensor.shape.size() < 2 || tensor.shape[0] < 1)
      fail(tensor.where, "has shape " + shape_text(tensor.shape) + " where [rows, ...] is needed");
    if (golden.rows.empty()) golden.rows.resize(static_cast<size_t>(tensor.shape[0]));
    if (tensor.shape[0] != static_cast<int64_t>(golden.rows.size()))
      fail(tensor.where, "has another number of rows than the inputs before it");
    golden.tensors.resize(golden.rows.size());
    const Tensor all = tensor.load().to(DType::f32);
    const std::vector<int64_t> ragged = ragged_rows(file, tensor, name);
    if (!ragged.empty()) keep_ragged(golden, tensor, ragged);
    const Shape padded(tensor.shape.begin() + 1, tensor.shape.end());
    auto at = all.as<float>().begin();
    for (size_t b = 0; b < golden.tensors.size(); ++b, at += numel(padded)) {
      Shape shape = padded;
      if (!ragged.empty()) shape[0] = ragged[b];
      if (shape[0] == 0) continue;  // this request lacks the tensor
      golden.tensors[b].push_back({name.substr(3), shape, {at, at + numel(shape)}});
    }
  }
}

void read_inputs(GoldenCase& golden, const SafeTensors& file) {
  for (const char* name : {"in.input_ids", "in.decoder_input_ids"})
    if (const auto* ids = file.find(name); ids && golden.rows.empty())
      read_tokens(golden, file, *ids);
  read_tensors(golden, file);
  if (golden.rows.empty())
    fail(file.file(), "has no input", did_you_mean("in.input_ids", file.names()));
  golden.tensors.resize(golden.rows.size());
}

// The lengths of rows of [B, T, C] without padding: of tokens, or of ragged tensors, of which an
// encoder may join several rows. Empty: nothing is padded.
std::vector<int64_t> lengths_in(const GoldenCase& golden, const StoredTensor& tensor,
                                bool of_encoder) {
  std::vector<int64_t> lengths;
  if (tensor.shape.size() != 3) return lengths;
  const int64_t length = tensor.shape[1];
  if (of_encoder && !golden.ragged.empty() && golden.ragged_most % length == 0) {
    for (const int64_t n : golden.ragged) lengths.push_back(n / (golden.ragged_most / length));
  } else if (length == golden.padded) {
    for (const auto& row : golden.rows) lengths.push_back(static_cast<int64_t>(row.size()));
  }
  return lengths;
}

// Removes the padding from [B, T, C]; other tensors stay unchanged: [.., C]. `of_tokens`: the
// tensor must have a value for every token.
Tensor packed(const GoldenCase& golden, const StoredTensor& tensor, bool of_tokens,
              std::vector<int64_t> lengths = {}, bool of_encoder = false) {
  const auto rows = static_cast<int64_t>(golden.rows.size());
  if (of_tokens && golden.padded > 0 &&
      (tensor.shape.size() != 3 || tensor.shape[0] != rows || tensor.shape[1] != golden.padded))
    fail(tensor.where, "has shape " + shape_text(tensor.shape) + " where [" + std::to_string(rows) +
                           ", " + std::to_string(golden.padded) + ", C] is needed");
  if (tensor.shape.size() < 2 || tensor.shape[0] != rows || numel(tensor.shape) == 0)
    fail(tensor.where, "has shape " + shape_text(tensor.shape) + " where [" + std::to_string(rows) +
                           ", ..., C] is needed");
  need_float(tensor);
  const int64_t width = tensor.shape.back();
  const Tensor all = tensor.load().to(DType::f32);
  const auto source = all.as<float>();
  if (lengths.empty()) lengths = lengths_in(golden, tensor, of_encoder);
  if (lengths.empty()) {
    Tensor out(DType::f32, {all.numel() / width, width});
    std::copy(source.begin(), source.end(), out.as<float>().begin());
    return out;
  }
  Tensor out(DType::f32, {std::accumulate(lengths.begin(), lengths.end(), int64_t{0}), width});
  auto target = out.as<float>().begin();
  for (int64_t b = 0; b < rows; ++b) {
    const auto first = source.begin() + b * tensor.shape[1] * width;
    target = std::copy(first, first + lengths[static_cast<size_t>(b)] * width, target);
  }
  return out;
}

// From [B, C, rows, columns] to the layout of images in models: [pixels, C].
Tensor channels_last(const StoredTensor& tensor) {
  need_float(tensor);
  const Tensor all = tensor.load().to(DType::f32);
  const int64_t channels = tensor.shape[1], pixels = tensor.shape[2] * tensor.shape[3];
  Tensor out(DType::f32, {tensor.shape[0] * pixels, channels});
  const auto source = all.as<float>();
  auto target = out.as<float>().begin();
  for (int64_t b = 0; b < tensor.shape[0]; ++b)
    for (int64_t p = 0; p < pixels; ++p)
      for (int64_t c = 0; c < channels; ++c)
        *target++ = source[static_cast<size_t>((b * channels + c) * pixels + p)];
  return out;
}

// The tap of a name: mid.hidden.3 and out.hidden_states.3 are "hidden.3",
// out.encoder_hidden_states.3 is "encoder_hidden.3"; empty for other names.
std::string tap_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot + 1 == name.size() || dot < 4) return {};
  if (name.find_first_not_of("0123456789", dot + 1) != std::string::npos) return {};
  for (const std::string_view ending : {"hidden_states", "hidden"}) {
    const std::string middle = name.substr(4, dot - 4);
    if (!ends_with(middle, ending)) continue;
    return middle.substr(0, middle.size() - ending.size()) + "hidden" + name.substr(dot);
  }
  return {};
}

void read_greedy(GoldenCase& golden, const StoredTensor& tensor) {
  if (tensor.shape.size() != 2 || tensor.shape[0] > static_cast<int64_t>(golden.rows.size()))
    fail(tensor.where, "has shape " + shape_text(tensor.shape) +
                           " where [rows, tokens] is needed, with at most the rows of the input");
  const auto values = integers(tensor);
  for (int64_t b = 0; b < tensor.shape[0]; ++b) {
    const auto first = values.begin() + b * tensor.shape[1];
    golden.greedy.emplace_back(first, first + tensor.shape[1]);
  }
}

void read_outputs(GoldenCase& golden, const SafeTensors& file) {
  for (const auto& name : file.names()) {
    if (starts_with(name, "in.") || counts_rows(file, name)) continue;
    const StoredTensor& tensor = file.at(name);
    const bool known = starts_with(name, "mid.") || starts_with(name, "out.");
    if (name == "out.greedy") {
      read_greedy(golden, tensor);
    } else if (!known || !is_float(tensor.dtype) || tensor.shape.size() < 2 ||
               tensor.shape[0] != static_cast<int64_t>(golden.rows.size())) {
      golden.not_compared.push_back(name);
    } else if (const std::string tap = tap_of(name); !tap.empty()) {
      golden.hidden[tap] =
          tensor.shape.size() == 4
              ? channels_last(tensor)
              : packed(golden, tensor, starts_with(tap, "hidden."), ragged_rows(file, tensor, name),
                       starts_with(tap, "encoder_hidden."));
    } else {
      const bool of_tokens = name == "out.logits" || name == "out.last_hidden_state";
      golden.outputs[name.substr(4)] = packed(golden, tensor, of_tokens);
    }
  }
  if (golden.outputs.empty() && golden.greedy.empty())
    fail(file.file(), "has none of out.logits, out.greedy or another out.* that can be compared",
         did_you_mean("out.logits", file.names()));
}

// Where a rounding sends a token to another expert, two right implementations differ by more than
// rounding. The case then says by how much the other one differs from itself.
void read_more(GoldenCase& golden, const fs::path& file) {
  if (!fs::exists(file)) return;
  const Config more = Config::load(file);
  golden.bf16_of_spread = more.number("bf16_of_spread", 0);
  if (golden.bf16_of_spread < 0 || golden.bf16_of_spread > 0.5)
    more.fail_at("bf16_of_spread", "is " + std::to_string(golden.bf16_of_spread) +
                                       " where a share of the spread from 0 to 0.5 is needed");
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
  const bool shards = fs::exists(folder / "model.safetensors.index.json");
  GoldenCase golden{fs::absolute(folder).lexically_normal().filename().string(),
                    Config::load(folder / "config.json"),
                    shards ? folder : folder / "model.safetensors",
                    {},
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
  read_more(golden, folder / "case.json");
  return golden;
}

}  // namespace fk
