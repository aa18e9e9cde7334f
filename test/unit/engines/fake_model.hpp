// SPDX-License-Identifier: Apache-2.0
// A language model without tensors, for tests of the engines. It keeps tokens in a paged cache, and
// answers with a hash of all tokens which it finds through the block table. So a wrong slot, table,
// length or position changes the answer.
#pragma once
#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/engines/generate/generate.hpp"

namespace mutant {

inline constexpr int64_t kVocab = 97;

inline uint64_t mix(uint64_t h, int64_t token) {
  return (h ^ static_cast<uint64_t>(token + 1)) * 0x9E3779B97F4A7C15ULL + 0x632BE59BD9B4E019ULL;
}
// The answer to a context; `uniform` counts when the temperature is above 0.
inline int64_t answer(const std::vector<int64_t>& context, float temperature, float uniform) {
  uint64_t h = 1;
  for (const int64_t token : context) h = mix(h, token);
  const auto shift = temperature > 0 ? static_cast<int64_t>(uniform * 50) : 0;
  return (static_cast<int64_t>(h >> 40) + shift) % kVocab;
}

// The right answer of a request, computed from the request alone.
inline std::vector<int64_t> expected(const fk::Request& request) {
  std::vector<int64_t> context = request.tokens;
  for (int64_t i = 0; i < request.new_tokens; ++i) {
    const float uniform = fk::sampling_uniform(request.sampling.seed, i);
    int64_t token = answer(context, request.sampling.temperature, uniform);
    if (i < static_cast<int64_t>(request.forced.size()))
      token = request.forced[static_cast<size_t>(i)];
    context.push_back(token);
  }
  return {context.begin() + static_cast<std::ptrdiff_t>(request.tokens.size()), context.end()};
}

// Slot of the cache: which token at which position. Shared by both phases.
struct Cell {
  int64_t token = -1, position = -1;
};
using Cache = std::vector<Cell>;

class Program : public fk::Program {
 public:
  Program(Cache& cache, std::map<std::string, int64_t> limits, int64_t page_size, bool decode)
      : cache_(cache), limits_(std::move(limits)), page_size_(page_size), decode_(decode) {
    for (const auto& [name, limit] : limits_) axes_.push_back(name);
    bound_.resize(axes_.size());
    const auto size = [&](const char* axis) { return static_cast<size_t>(limits_.at(axis)); };
    for (const char* name : {"ids", "positions", "slot_mapping"})
      inputs_[name].resize(size(tokens_axis()) * 8);
    inputs_["block_tables"].resize(size("B") * size("W") * 4);
    inputs_["cu_seqlens"].resize((size("B") + 1) * 4);
    inputs_["seq_lens"].resize(size("B") * 4);
    for (const char* name : {"temperature", "top_k", "top_p", "uniform"})
      inputs_[name].resize(size(rows_axis()) * 4);
    if (!decode_) inputs_["rows"].resize(size("Q") * 4);
  }

  int axis(const std::string& name) const override {
    for (size_t i = 0; i < axes_.size(); ++i)
      if (axes_[i] == name) return static_cast<int>(i);
    return -1;
  }
  int64_t limit(const std::string& axis) const override { return limits_.at(axis); }
  void bind(int axis, int64_t value) override {
    const auto i = static_cast<size_t>(axis);
    if (value < 0 || value > limits_.at(axes_[i])) fk::fail("mutant", "axis out of range");
    bound_[i] = value;
  }
  void* input(const std::string& name) override {
    const auto it = inputs_.find(name);
    return it == inputs_.end() ? nullptr : it->second.data();
  }

  void run() override {
    ++runs;
    for (size_t i = 0; i < fed_.size(); ++i)
      std::memcpy(inputs_["ids"].data() + i * 8, &fed_[i], 8);
    ahead += !fed_.empty();
    fed_.clear();
    const int64_t count = value(tokens_axis()), rows = value(rows_axis());
    batches.insert(value("B"));
    for (int64_t t = 0; t < count; ++t) {
      const auto slot = in<int64_t>("slot_mapping", t);
      if (slot < 0 && !replay) fk::fail("mutant", "a token without a slot");
      if (slot < 0) continue;
      cache_.at(static_cast<size_t>(slot)) = {in<int64_t>("ids", t), in<int64_t>("positions", t)};
    }
    tokens_.clear();
    logits_.assign(static_cast<size_t>(rows * kVocab), 0.F);
    for (int64_t q = 0; q < rows; ++q) {
      const int64_t row = decode_ ? q : in<int32_t>("rows", q);
      const int64_t token =
          answer(context_of(row), in<float>("temperature", q), in<float>("uniform", q));
      tokens_.push_back(token);
      logits_[static_cast<size_t>(q * kVocab + token)] = 1;
    }
  }
  Output output(const std::string&) const override { fk::fail("mutant", "nobody asks"); }
  void read(const std::string& output, void* host, int64_t bytes) override {
    const void* from = output == "tokens" ? static_cast<const void*>(tokens_.data())
                                          : static_cast<const void*>(logits_.data());
    const size_t have = output == "tokens" ? tokens_.size() * 8 : logits_.size() * 4;
    const auto size = static_cast<size_t>(bytes);
    if (replay ? have < size : have != size) fk::fail("mutant", "a read of another size");
    if (bytes > 0) std::memcpy(host, from, size);
  }
  void set_taps(fk::TapSink) override {}
  void set_watch(fk::NodeWatch*) override {}
  void set_marker(volatile int32_t*) override {}
  const std::vector<NodeInfo>& nodes() const override { return nodes_; }
  int64_t arena_bytes() const override { return 0; }

  bool replays() const override { return replay; }
  bool runs_ahead() const override { return replay; }
  int64_t fetch(const std::string& output, int64_t bytes) override {
    auto& kept = fetched_[++fetches_ % 2];
    kept.resize(static_cast<size_t>(bytes) / 8);
    read(output, kept.data(), bytes);
    return fetches_;
  }
  const void* fetched(int64_t which) override {
    if (which <= fetches_ - 2 || which > fetches_) fk::fail("mutant", "no longer kept");
    return fetched_[which % 2].data();
  }
  void feed_tokens(const std::string& input, const std::string& output, int64_t count,
                   int64_t vocab_size) override {
    if (input != "ids" || output != "tokens" || vocab_size != kVocab) fk::fail("mutant", "a feed");
    fed_.assign(tokens_.begin(), tokens_.begin() + count);
  }

  int64_t runs = 0;
  int64_t ahead = 0;  // runs before the tokens of the one before were known
  bool replay = false;
  std::set<int64_t> batches;

 private:
  const char* tokens_axis() const { return decode_ ? "B" : "T"; }
  const char* rows_axis() const { return decode_ ? "B" : "Q"; }
  int64_t value(const char* name) const { return bound_[static_cast<size_t>(axis(name))]; }
  template <class T>
  T in(const char* name, int64_t index) const {
    T out;
    std::memcpy(&out, inputs_.at(name).data() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return out;
  }
  // The tokens which row `row` of the step may see: its request's tokens up to its own position.
  std::vector<int64_t> context_of(int64_t row) const {
    int64_t b = 0;
    while (in<int32_t>("cu_seqlens", b + 1) <= row) ++b;
    const int64_t after = in<int32_t>("cu_seqlens", b + 1) - 1 - row;
    std::vector<int64_t> context;
    for (int64_t p = 0; p < in<int32_t>("seq_lens", b) - after; ++p) {
      const int64_t page = in<int32_t>("block_tables", b * value("W") + p / page_size_);
      const Cell& cell = cache_.at(static_cast<size_t>(page * page_size_ + p % page_size_));
      if (cell.position != p) fk::fail("mutant", "the cache holds another position");
      context.push_back(cell.token);
    }
    return context;
  }

  Cache& cache_;
  std::map<std::string, int64_t> limits_;
  int64_t page_size_;
  bool decode_;
  std::vector<std::string> axes_;
  std::vector<int64_t> bound_;
  std::map<std::string, std::vector<char>> inputs_;
  std::vector<int64_t> tokens_, fed_, fetched_[2];
  int64_t fetches_ = 0;
  std::vector<float> logits_;
  std::vector<NodeInfo> nodes_;
};

// Gives out requests, optionally only some at a time, and keeps what comes back.
class Exchange : public fk::Exchange {
 public:
  std::deque<fk::Request> requests;
  size_t per_poll = 1000;  // requests that have arrived between two steps
  std::map<uint64_t, std::vector<int64_t>> tokens;
  std::map<uint64_t, std::vector<std::pair<int64_t, int64_t>>> scored;  // position, argmax
  std::map<uint64_t, std::string> failures;
  std::map<uint64_t, bool> done;
  int64_t steps = 0;

  bool next(fk::Request& request, bool wait) override {
    if (requests.empty() || (!wait && given_ >= per_poll)) return false;
    request = std::move(requests.front());
    requests.pop_front();
    ++given_;
    return true;
  }
  void token(uint64_t id, int64_t index, int64_t token, bool last) override {
    if (static_cast<int64_t>(tokens[id].size()) != index || done[id]) fk::fail("mutant", "order");
    tokens[id].push_back(token);
    done[id] = last;
  }
  void logits(uint64_t id, int64_t position, const float* values, int64_t count) override {
    scored[id].emplace_back(position, std::max_element(values, values + count) - values);
  }
  void tensor(uint64_t, const std::string&, const std::vector<int64_t>&, const float*) override {}
  void failed(uint64_t id, const std::string& why) override { failures[id] = why; }
  void progress(const std::string&) override {
    ++steps;
    given_ = 0;
  }

 private:
  size_t given_ = 0;
};

}  // namespace mutant
