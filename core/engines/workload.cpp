// SPDX-License-Identifier: Apache-2.0
// Reads workload files strictly, and makes requests of random tokens from a seed.
#include "core/engines/workload.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"
#include "core/base/yaml.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

using Length = Workload::Length;

// Limits on a sequence's tokens, and on requests and rounds, which take memory or time.
constexpr int64_t kTokensMost = int64_t{1} << 31, kCountMost = 1'000'000;

// The numbers of one workload; those of `tiny` override its own.
class Numbers {
 public:
  Numbers(const Yaml& yaml, bool tiny) {
    if (tiny) {
      if (const auto found = yaml.find("tiny")) layers_.push_back(*found);
    }
    layers_.push_back(yaml);
  }
  bool has(std::string_view key) const {
    return std::any_of(layers_.begin(), layers_.end(), [&](const Yaml& y) { return y.has(key); });
  }
  int64_t get(std::string_view key, int64_t least) const {
    for (const Yaml& layer : layers_) {
      if (!layer.has(key)) continue;
      const Yaml value = layer.at(key);
      const bool counted =
          key == "requests" || key == "batch" || key == "warmup" || key == "iterations";
      const int64_t most = counted ? kCountMost : kTokensMost;
      if (value.integer() < least || value.integer() > most)
        value.fail("`" + std::string(key) + "` must be at " +
                   (value.integer() < least ? "least " + std::to_string(least)
                                            : "most " + std::to_string(most)));
      return value.integer();
    }
    return layers_.back().at(key).integer();  // Error: the key is absent
  }
  int64_t get(std::string_view key, int64_t least, int64_t fallback) const {
    return has(key) ? get(key, least) : fallback;
  }

 private:
  std::vector<Yaml> layers_;
};

int64_t whole(std::string_view text, const std::string& where) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > kTokensMost)
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

Length scaled(Length length, const Numbers& numbers) {
  const int64_t divide = numbers.get("divide", 1, 1);
  const auto shrink = [&](int64_t value, const char* cap) {
    const int64_t most = numbers.get(cap, 1, INT64_MAX);
    return value == 0 ? 0 : std::min(most, std::max<int64_t>(1, value / divide));
  };
  return {shrink(length.prompt, "prompt_cap"), shrink(length.output, "output_cap")};
}

// The lengths before scaling: from a file, or equal for all requests.
std::vector<Length> raw_lengths(const Yaml& yaml, const Numbers& numbers) {
  if (const auto found = yaml.find("lengths")) {
    if (yaml.has("prompt")) yaml.at("prompt").fail("there are `lengths` already");
    return read_lengths(std::filesystem::path(yaml.file()).parent_path() / found->text());
  }
  return {{numbers.get("prompt", 1, 0), 0}};
}

Workload::Kind read_kind(const Yaml& yaml) {
  if (yaml.text() == "throughput") return Workload::Kind::throughput;
  if (yaml.text() == "latency") return Workload::Kind::latency;
  yaml.fail("`" + yaml.text() + "` is not a kind of workload",
            did_you_mean(yaml.text(), {"throughput", "latency"}));
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

Yaml find_workload(const Yaml& yaml, const std::string& name) {
  yaml.only({"summary", "workloads"});
  const Yaml all = yaml.at("workloads");
  if (!all.has(name))
    all.fail("there is no workload `" + name + "`", did_you_mean(name, all.keys()));
  return all.at(name);
}

void check_keys(const Yaml& yaml) {
  yaml.only({"summary", "kind", "lengths", "prompt", "requests", "prompt_cap", "output",
             "output_cap", "divide", "batch", "warmup", "iterations", "sampling", "tiny"});
  if (const auto tiny = yaml.find("tiny")) {
    tiny->only({"prompt", "requests", "prompt_cap", "output", "output_cap", "divide", "batch",
                "warmup", "iterations"});
  }
}

}  // namespace

int64_t Workload::prompt_tokens() const {
  int64_t sum = 0;
  for (const Length& l : lengths) sum += l.prompt;
  return sum;
}
int64_t Workload::output_tokens() const {
  int64_t sum = 0;
  for (const Length& l : lengths) sum += l.output;
  return sum;
}

Workload load_workload(const std::filesystem::path& file, const std::string& name, bool tiny,
                       int64_t context_max) {
  const Yaml yaml = find_workload(Yaml::load(file), name);
  check_keys(yaml);
  const Numbers numbers(yaml, tiny);
  Workload w;
  w.name = name;
  w.summary = yaml.text_or("summary", "");
  w.kind = read_kind(yaml.at("kind"));
  if (const auto sampling = yaml.find("sampling")) read_sampling(*sampling, w.sampling);
  const bool latency = w.kind == Workload::Kind::latency;
  if (latency) {
    w.batch = numbers.get("batch", 1);
    w.warmup = numbers.get("warmup", 0, 0);
    w.iterations = numbers.get("iterations", 1);
  }
  const auto rows = raw_lengths(yaml, numbers);
  const int64_t wanted = latency ? w.batch : numbers.get("requests", 1);
  size_t skipped_in_a_row = 0;
  for (size_t i = 0; static_cast<int64_t>(w.lengths.size()) + (latency ? 0 : w.left_out) < wanted;
       ++i) {
    Length length = rows[i % rows.size()];
    length = scaled(length, numbers);
    if (numbers.has("output")) length.output = numbers.get("output", 0);
    if (length.prompt + length.output <= context_max) {
      w.lengths.push_back(length);
      skipped_in_a_row = 0;
      continue;
    }
    // A batch takes the next rows that fit. A set of requests loses those that do not fit.
    if (!latency) ++w.left_out;
    if (++skipped_in_a_row >= rows.size() && w.lengths.empty()) break;
  }
  if (w.lengths.empty()) {
    yaml.fail("none of its requests fits the context of " + std::to_string(context_max) +
              " tokens");
  }
  return w;
}

std::vector<std::string> workload_names(const std::filesystem::path& file) {
  const Yaml yaml = Yaml::load(file);
  yaml.only({"summary", "workloads"});
  return yaml.at("workloads").keys();
}

void add_tensors(Request& request, const std::vector<Model::RequestTensor>& tensors,
                 uint64_t seed) {
  for (const auto& [name, shape] : tensors) {
    NamedTensor& tensor = request.tensors.emplace_back(NamedTensor{name, shape, {}});
    tensor.values.resize(static_cast<size_t>(numel(shape)));
    fill_normal(tensor.values.data(), DType::f32, numel(shape), seed_of(name, seed), /*offset=*/0,
                /*mean=*/0, /*stddev=*/1);
  }
}

std::vector<Request> make_requests(const Workload& workload, int64_t vocab_size,
                                   const std::vector<Model::RequestTensor>& tensors, uint64_t seed,
                                   int64_t round) {
  const uint64_t stream = seed_of(workload.name, seed);
  std::vector<Request> requests;
  for (const Length& length : workload.lengths) {
    Request& r = requests.emplace_back();
    r.id = requests.size();
    r.new_tokens = length.output;
    r.tokens.resize(static_cast<size_t>(length.prompt));
    const uint64_t own =
        seed_of("round " + std::to_string(round) + " request " + std::to_string(r.id), stream);
    FK_CHECK(vocab_size > 0 || length.prompt == 0, "tokens of a model without tokens");
    if (length.prompt > 0)
      fill_int(r.tokens.data(), DType::i64, length.prompt, own, /*offset=*/0, /*low=*/0,
               vocab_size);
    add_tensors(r, tensors, own);
    r.sampling = workload.sampling;
    r.sampling.seed = own;
  }
  return requests;
}

}  // namespace fk
