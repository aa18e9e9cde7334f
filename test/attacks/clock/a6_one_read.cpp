// SPDX-License-Identifier: Apache-2.0
// A6: knows where the inputs of all instances lie. With one read of the weights it also computes
// the next calls of instances with equal weights, into memory of its own. Such a call only copies
// its answer
//
// Stopped by: no two calls of a sample have the same weights
//
// verdict: slower same cannot_tell nondeterministic
//
// work: honest
//
// naive: -
#include "../same_weights.hpp"

namespace {

struct OneRead : attack::SameWeights {
  static inline std::vector<OneRead*> round;  // as they were made, which is how they are called
  static constexpr size_t kTogether = 4;
  size_t at = 0;
  fk_in input{};            // as they were in the last call
  fk_out output{};          // the same
  int64_t extents[4] = {};  // of input
  bool first = true;
  std::vector<char> seen, answer;  // what lay there when it was answered

  OneRead(const fk_host& host, const op::init& i, const op::weights& w) : SameWeights(host, i, w) {
    at = round.size();
    round.push_back(this);
  }
  ~OneRead() {
    round.erase(round.begin() + static_cast<long>(at));
    for (size_t i = at; i < round.size(); ++i) round[i]->at = i;
  }
  static size_t reach(const fk_in& x) {
    const int64_t elements = x.shape[0] ? (x.shape[0] - 1) * x.strides[0] + x.shape[1] : 0;
    return static_cast<size_t>(elements * (FK_DTYPE(&x) == FK_F32 ? 4 : 2));
  }
  bool answered() const {
    return seen.size() == reach(input) && std::memcmp(seen.data(), input.data, seen.size()) == 0;
  }
  void answer_together(bool alone) {
    OneRead* calls[kTogether];
    size_t count = 0;
    int64_t all = 0, row_at = 0;
    for (size_t i = 0; i < std::min(kTogether, round.size()); ++i) {
      OneRead* const other = round[(at + i) % round.size()];
      if (other != this &&
          (alone || other->mine != mine || !other->input.data || other->answered()))
        continue;
      calls[count++] = other;
      all += other->input.shape[0];
    }
    room(all);
    for (size_t c = 0; c < count; ++c) {
      const fk_in& in = calls[c]->input;
      calls[c]->seen.resize(reach(in));
      std::memcpy(calls[c]->seen.data(), in.data, reach(in));
      for (int64_t m = 0; m < in.shape[0]; ++m, ++row_at)
        fk::load(&in, m * in.strides[0], init.in_features, &x[static_cast<size_t>(row_at * wide)]);
    }
    multiply(all);
    row_at = 0;
    for (size_t c = 0; c < count; ++c) {
      fk_out into = calls[c]->output;
      calls[c]->answer.resize(static_cast<size_t>(into.nbytes));
      into.data = calls[c]->answer.data();
      store(&into, row_at, calls[c]->input.shape[0], all);
      row_at += calls[c]->input.shape[0];
    }
  }
  void forward(const op::forward& args, const fk_ctx&) {
    input = *args.x;
    output = *args.out;
    // The views point to the caller's extents.
    std::copy_n(input.shape, 2, extents);
    std::copy_n(input.strides, 2, extents + 2);
    input.shape = extents;
    input.strides = extents + 2;
    if (!answered()) answer_together(first);
    std::memcpy(output.data, answer.data(), answer.size());
    seen.clear();                     // the next call is another one, whatever lies there
    if (first) input.data = nullptr;  // of a smaller step before the others, whose memory goes
    first = false;
  }
};
FK_OP(linear, OneRead);

}  // namespace
FK_PLUGIN("a6_one_read", "0");
