// SPDX-License-Identifier: Apache-2.0
#include "core/engines/text_load.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"
#include "core/engines/recorded_load.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

using Length = TextLoad::Length;

constexpr int64_t kMostTokens = int64_t{1} << 31;  // of one sequence, which takes memory or time

int64_t whole(std::string_view text, const std::string& where) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > kMostTokens)
    fail(where, "`" + excerpt(text) + "` is not a number of tokens");
  return value;
}

// Reads "prompt_tokens,output_tokens" and a row per request. Lines that start with # name the
// source.
std::vector<Length> read_lengths(const std::filesystem::path& file) {
  constexpr size_t kBytesMost = size_t{64} << 20;
  std::istringstream in(read_file(file, kBytesMost));
  std::vector<Length> lengths;
  std::string line;
  bool header = false;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string where = file.string() + ":" + std::to_string(number);
    const std::string_view text = trim(line);
    if (text.empty() || text[0] == '#') continue;
    if (!header) {
      if (text != "prompt_tokens,output_tokens")
        fail(where, "the first row is not `prompt_tokens,output_tokens`");
      header = true;
      continue;
    }
    const auto parts = split(text, ',');
    if (parts.size() != 2) fail(where, "a row has two numbers");
    lengths.push_back({whole(parts[0], where), whole(parts[1], where)});
    if (lengths.back().prompt == 0) fail(where, "a request has at least one token");
  }
  if (lengths.empty()) fail(file.string(), "the file has no rows");
  return lengths;
}

Length scaled(Length length, const WorkloadKeys& keys) {
  const int64_t divide = keys.get("divide", 1, kMostTokens, 1);
  const auto shrink = [&](int64_t value, const char* cap) {
    const int64_t most = keys.get(cap, 1, kMostTokens, INT64_MAX);
    return value == 0 ? 0 : std::min(most, std::max<int64_t>(1, value / divide));
  };
  return {shrink(length.prompt, "prompt_cap"), shrink(length.output, "output_cap")};
}

// The lengths before scaling: from a file, or equal for all requests.
std::vector<Length> raw_lengths(const WorkloadKeys& keys) {
  const Yaml& yaml = keys.yaml();
  if (const auto found = yaml.find("lengths")) {
    if (yaml.has("prompt")) yaml.at("prompt").fail("there are `lengths` already");
    return read_lengths(std::filesystem::path(yaml.file()).parent_path() / found->text());
  }
  return {{keys.get("prompt", 1, kMostTokens, 0), 0}};
}

void read_sampling(const Yaml& yaml, Sampling& sampling) {
  yaml.only({"temperature", "top_k", "top_p"});
  sampling.temperature = static_cast<float>(yaml.number_or("temperature", 0));
  sampling.top_k = static_cast<int32_t>(yaml.integer_or("top_k", 0));
  sampling.top_p = static_cast<float>(yaml.number_or("top_p", 1));
  if (!(sampling.temperature >= 0)) yaml.at("temperature").fail("the temperature is negative");
  if (sampling.top_k < 0) yaml.at("top_k").fail("top_k is negative");
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) yaml.at("top_p").fail("top_p is not in (0, 1]");
}

constexpr int64_t kImageSide = 256;               // squares
constexpr int64_t kSoundMost = int64_t{1} << 20;  // frames

// The request without its random tensors, and their placeholders.
void take_tensors(const RequestForm& form, Request& r) {
  r.tensors.clear();
  for (const int64_t placeholder : form.placeholders)
    std::ranges::replace(r.tokens, placeholder, placeholder > 0 ? placeholder - 1 : 1);
}

// Tensors of the group of `grid`, whose values are `shapes`, with `rows` ragged rows.
void give_tensors(const RequestForm& form, Request& r, const RequestTensor& grid,
                  std::vector<float> shapes, int64_t rows, uint64_t seed) {
  for (const RequestTensor& wanted : form.tensors) {
    if (!wanted.ragged || wanted.group != grid.group) continue;
    if (rows > wanted.shape[0])
      fail("workload", "tensors of " + std::to_string(rows) +
                           " rows, where the model has at most " + std::to_string(wanted.shape[0]));
    NamedTensor tensor{wanted.name, {rows, wanted.shape[1]}, {}};
    tensor.values.resize(static_cast<size_t>(rows * wanted.shape[1]));
    fill_normal(tensor.values.data(), DType::f32, rows * wanted.shape[1],
                seed_of(wanted.name, seed), /*offset=*/0, /*mean=*/0, wanted.stddev);
    r.tensors.push_back(std::move(tensor));
  }
  r.tensors.push_back({grid.name, {1, grid.shape[1]}, std::move(shapes)});
}

// One image and one sound in place of the random ones, behind the first token; 0: none.
void give_tensors(const RequestForm& form, Request& r, const TextLoad::Given& given,
                  uint64_t seed) {
  const RequestTensor *images = form.images(), *sounds = form.sounds();
  if (given.image_rows >= 0 && images == nullptr)
    fail("workload", "the model takes no images: `image_rows` has no effect");
  if (given.sound_frames >= 0 && sounds == nullptr)
    fail("workload", "the model takes no sounds: `sound_frames` has no effect");
  take_tensors(form, r);
  auto at = r.tokens.begin() + 1;
  if (given.image_rows > 0) {
    const int64_t square = images->square, rows = given.image_rows, columns = given.image_columns;
    const auto side = [&](int64_t squares) { return static_cast<float>(squares * square); };
    give_tensors(form, r, *images, {1, side(rows), side(columns)}, rows * columns * square * square,
                 seed);
    at = std::fill_n(at, rows * columns, form.placeholder(images->group));
  }
  if (given.sound_frames > 0) {
    give_tensors(form, r, *sounds, {static_cast<float>(given.sound_frames)}, given.sound_frames,
                 seed);
    std::fill_n(at, rows_of_sound(given.sound_frames), form.placeholder(sounds->group));
  }
}

}  // namespace

int64_t TextLoad::prompt_tokens() const {
  int64_t sum = 0;
  for (const Length& l : lengths_) sum += l.prompt;
  return sum;
}
int64_t TextLoad::output_tokens() const {
  int64_t sum = 0;
  for (const Length& l : lengths_) sum += l.output;
  return sum;
}
int64_t TextLoad::longest() const {
  int64_t longest = 0;
  for (const Length& l : lengths_) longest = std::max(longest, l.prompt + l.output);
  return longest;
}

Request TextLoad::request(const RequestForm& form, int64_t index, uint64_t seed) const {
  const Length& length = lengths_[static_cast<size_t>(index)];
  Request r = form.random(length.prompt, seed);
  if (given_.image_rows >= 0 || given_.sound_frames >= 0) give_tensors(form, r, given_, seed);
  r.new_tokens = length.output;
  r.sampling = sampling_;
  r.sampling.seed = seed;
  return r;
}

std::shared_ptr<const Load> TextLoad::read(const WorkloadKeys& keys, const LoadSize& size) {
  if (keys.has("recorded")) return RecordedLoad::read(keys, size);
  auto load = std::make_shared<TextLoad>();
  if (const auto sampling = keys.yaml().find("sampling")) read_sampling(*sampling, load->sampling_);
  Given& given = load->given_;
  given.image_rows = keys.get("image_rows", 0, kImageSide, -1);
  given.image_columns = keys.get("image_columns", 0, kImageSide, given.image_rows);
  given.sound_frames = keys.get("sound_frames", 0, kSoundMost, -1);
  const int64_t places = (given.image_rows > 0 ? given.image_rows * given.image_columns : 0) +
                         (given.sound_frames > 0 ? rows_of_sound(given.sound_frames) : 0);
  const auto rows = raw_lengths(keys);
  auto& lengths = load->lengths_;
  size_t skipped_in_a_row = 0;
  for (size_t i = 0; load->requests() + (size.replaces ? 0 : load->left_out_) < size.requests;
       ++i) {
    Length length = scaled(rows[i % rows.size()], keys);
    if (keys.has("output")) length.output = keys.get("output", 0, kMostTokens);
    if (length.prompt + length.output <= size.context && length.prompt > places) {
      lengths.push_back(length);
      skipped_in_a_row = 0;
      continue;
    }
    // A batch takes the next rows that fit. A set of requests loses those that do not fit.
    if (!size.replaces) ++load->left_out_;
    if (++skipped_in_a_row >= rows.size() && lengths.empty()) break;
  }
  if (lengths.empty())
    keys.yaml().fail("none of its requests fits the context of " + std::to_string(size.context) +
                     " tokens" +
                     (places > 0 ? ", and has more than the " + std::to_string(places) +
                                       " tokens of its image and its sound"
                                 : ""));
  return load;
}

EngineKind TextLoad::reads() {
  return {{"lengths", "recorded"}, {"prompt", "prompt_cap", "divide"}, read};
}

EngineKind TextLoad::writes() {
  EngineKind kind = reads();
  kind.keys.emplace_back("sampling");
  kind.numbers.insert(kind.numbers.end(),
                      {"output", "output_cap", "image_rows", "image_columns", "sound_frames"});
  return kind;
}

}  // namespace fk
