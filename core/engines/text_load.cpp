// SPDX-License-Identifier: Apache-2.0
#include "core/engines/text_load.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"

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
  r.new_tokens = length.output;
  r.sampling = sampling_;
  r.sampling.seed = seed;
  return r;
}

std::shared_ptr<const Load> TextLoad::read(const WorkloadKeys& keys, const LoadSize& size) {
  auto load = std::make_shared<TextLoad>();
  if (const auto sampling = keys.yaml().find("sampling")) read_sampling(*sampling, load->sampling_);
  const auto rows = raw_lengths(keys);
  auto& lengths = load->lengths_;
  size_t skipped_in_a_row = 0;
  for (size_t i = 0; load->requests() + (size.replaces ? 0 : load->left_out_) < size.requests;
       ++i) {
    Length length = scaled(rows[i % rows.size()], keys);
    if (keys.has("output")) length.output = keys.get("output", 0, kMostTokens);
    if (length.prompt + length.output <= size.context) {
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
                     " tokens");
  return load;
}

EngineKind TextLoad::reads() { return {{"lengths"}, {"prompt", "prompt_cap", "divide"}, read}; }

EngineKind TextLoad::writes() {
  EngineKind kind = reads();
  kind.keys.emplace_back("sampling");
  kind.numbers.insert(kind.numbers.end(), {"output", "output_cap"});
  return kind;
}

}  // namespace fk
