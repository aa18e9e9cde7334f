// SPDX-License-Identifier: Apache-2.0
// Fills the answers of requests with tokens, in any order (engine.hpp). A step computes the first
// requests which fit, in order of arrival, each as a whole. The device keeps nothing of a request
// between steps, so other requests simply wait.
#include "core/engines/masked_diffusion/masked_diffusion.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "core/base/error.hpp"
#include "core/engines/generate/generate.hpp"
#include "core/engines/scheduler.hpp"

namespace fk {

int64_t fixed_in_step(int64_t count, int64_t steps, int64_t step) {
  return count / steps + (step < count % steps ? 1 : 0);
}

namespace {

// An accepted request with its answer so far. Tokens that are not fixed are masks.
struct Canvas {
  Request request;
  std::vector<int64_t> tokens;     // prompt, then answer
  std::vector<bool> fixed;         // by token of the answer
  int64_t prompt = 0, scored = 0;  // scored: prompt positions whose logits are reported
  int64_t done = 0;                // fixed tokens of the answer
  int64_t block = 0, step = 0;     // current block of the answer, and step in it
  int64_t rounds = 0;              // steps so far

  int64_t answer() const { return static_cast<int64_t>(tokens.size()) - prompt; }
  bool scores() const { return request.prompt_logits && scored < prompt; }
};

// A canvas' share of a step: `count` rows. They are prompt positions from `first` on, or the masks
// of its block.
struct Share {
  Canvas* canvas = nullptr;
  int64_t count = 0;
  bool scores = false;
};

// The result of a step for one mask.
struct Proposal {
  int64_t row = 0, index = 0, token = 0;  // index: in the answer
  float logprob = 0;
};

class Denoiser {
 public:
  Denoiser(Program& program, Exchange& exchange, const MaskedDiffusionSetup& setup)
      : program_(program),
        exchange_(exchange),
        setup_(setup),
        tokens_max_(program.limit("T")),
        batch_max_(program.limit("B")),
        rows_max_(program.limit("Q")) {
    const MaskedDiffusionOptions& o = setup.options;
    FK_CHECK(o.block_length > 0 && o.block_steps > 0, "a block without tokens or steps");
    FK_CHECK(rows_max_ >= o.block_length, "fewer rows than a block has tokens");
    tokens_.resize(static_cast<size_t>(rows_max_));
    logprobs_.resize(static_cast<size_t>(rows_max_));
  }

  void run() {
    Request request;
    for (;;) {
      while (exchange_.next(request, canvases_.empty())) {
        if (const std::string why = refusal(request); !why.empty())
          exchange_.failed(request.id, why);
        else
          take(std::move(request));
        request = {};
      }
      if (canvases_.empty()) return;
      plan();
      write();
      program_.run();
      read();
      canvases_.erase(std::remove_if(canvases_.begin(), canvases_.end(), is_done), canvases_.end());
    }
  }

 private:
  static bool is_done(const Canvas& c) { return !c.scores() && c.done == c.answer(); }

  template <class T>
  T* at(const char* name) {
    void* data = program_.input(name);
    if (data == nullptr) fail("diffuse", std::string("the phase has no input `") + name + "`");
    return static_cast<T*>(data);
  }

  std::string refusal(const Request& r) const {
    const auto prompt = static_cast<int64_t>(r.tokens.size());
    const int64_t most = std::min(setup_.max_context, tokens_max_);
    if (prompt == 0) return "the prompt is empty";
    if (r.new_tokens < 0) return "the number of new tokens is negative";
    if (r.new_tokens == 0 && !r.prompt_logits)
      return "the request asks for no new tokens and no logits";
    if (r.new_tokens > most - prompt) {
      return "its " + std::to_string(prompt) + " prompt tokens and " +
             std::to_string(r.new_tokens) + " new ones exceed the context of " +
             std::to_string(most);
    }
    for (const auto& [tokens, what] :
         {std::pair{&r.tokens, "prompt token"}, std::pair{&r.forced, "forced token"}}) {
      if (auto why = token_refusal(*tokens, setup_.vocab_size, what); !why.empty()) return why;
    }
    if (auto why = order_refusal(r); !why.empty()) return why;
    return r.sampling.on_host() ? kNoHostSampling : sampling_refusal(r.sampling);
  }

  // An order must name each token once, and a block's tokens before the next block's.
  std::string order_refusal(const Request& r) const {
    if (r.order.empty() || r.forced.empty()) return "";
    if (static_cast<int64_t>(r.order.size()) != r.new_tokens)
      return "the order does not name every new token";
    std::vector<bool> seen(r.order.size());
    for (size_t i = 0; i < r.order.size(); ++i) {
      const int64_t index = r.order[i], length = setup_.options.block_length;
      const bool known = index >= 0 && index < r.new_tokens;
      if (!known || seen[static_cast<size_t>(index)] ||
          index / length != static_cast<int64_t>(i) / length)
        return "the order has token " + std::to_string(index) + " in place " + std::to_string(i);
      seen[static_cast<size_t>(index)] = true;
    }
    return "";
  }

  void take(Request request) {
    Canvas& c = canvases_.emplace_back();
    c.prompt = static_cast<int64_t>(request.tokens.size());
    c.scored = std::clamp<int64_t>(request.first_logits, 0, c.prompt - 1);
    c.tokens = request.tokens;
    c.tokens.resize(request.tokens.size() + static_cast<size_t>(request.new_tokens),
                    setup_.options.mask_token);
    c.fixed.resize(static_cast<size_t>(request.new_tokens));
    c.request = std::move(request);
  }

  int64_t block_end(const Canvas& c) const {
    return std::min(c.answer(), c.block + setup_.options.block_length);
  }
  int64_t to_fix(const Canvas& c) const {
    return fixed_in_step(block_end(c) - c.block, setup_.options.block_steps, c.step);
  }

  void plan() {
    shares_.clear();
    int64_t tokens = tokens_max_, rows = rows_max_;
    for (Canvas& c : canvases_) {
      Share s{&c, 0, c.scores()};
      const auto length = s.scores ? c.prompt : static_cast<int64_t>(c.tokens.size());
      s.count = s.scores ? std::min(rows, c.prompt - c.scored) : block_end(c) - c.done;
      if (length > tokens || s.count > rows || s.count == 0) break;
      shares_.push_back(s);
      tokens -= length;
      rows -= s.count;
      if (static_cast<int64_t>(shares_.size()) == batch_max_) break;
    }
  }

  void write() {
    auto *ids = at<int64_t>("ids"), *positions = at<int64_t>("positions");
    auto *starts = at<int32_t>("cu_seqlens"), *rows = at<int32_t>("rows");
    int64_t token = 0, row = 0;
    for (size_t b = 0; b < shares_.size(); ++b) {
      const Share& s = shares_[b];
      const Canvas& c = *s.canvas;
      const auto length = s.scores ? c.prompt : static_cast<int64_t>(c.tokens.size());
      starts[b] = static_cast<int32_t>(token);
      for (int64_t p = 0; p < length; ++p) {
        ids[token + p] = c.tokens[static_cast<size_t>(p)];
        positions[token + p] = p;
      }
      const int64_t first = s.scores ? c.scored : c.prompt + c.block;
      const int64_t end = s.scores ? c.scored + s.count : c.prompt + block_end(c);
      for (int64_t p = first; p < end; ++p) {
        if (!s.scores && c.fixed[static_cast<size_t>(p - c.prompt)]) continue;
        write_sampling(row, c, s.scores ? -1 : p - c.prompt);
        rows[row++] = static_cast<int32_t>(token + p);
      }
      token += length;
    }
    starts[shares_.size()] = static_cast<int32_t>(token);
    program_.bind(program_.axis("T"), token);
    program_.bind(program_.axis("B"), static_cast<int64_t>(shares_.size()));
    program_.bind(program_.axis("Q"), row);
    step_tokens_ = token;
    step_rows_ = row;
  }

  // `index`: token of the answer; -1: a row that is only scored. Each step has new random numbers.
  void write_sampling(int64_t row, const Canvas& c, int64_t index) {
    const Sampling& sampling = c.request.sampling;
    const bool draws = index >= 0 && sampling.temperature > 0;
    at<float>("temperature")[row] = draws ? sampling.temperature : 0;
    at<int32_t>("top_k")[row] = draws ? sampling.top_k : 0;
    at<float>("top_p")[row] = draws ? sampling.top_p : 1;
    at<float>("uniform")[row] =
        draws ? sampling_uniform(sampling.seed, c.rounds * c.answer() + index) : 0;
  }

  void read() {
    const auto rows = static_cast<size_t>(step_rows_);
    program_.read("tokens", tokens_.data(), static_cast<int64_t>(rows * sizeof(int64_t)));
    program_.read("logprob", logprobs_.data(), static_cast<int64_t>(rows * sizeof(float)));
    const bool wanted = std::any_of(shares_.begin(), shares_.end(), [](const Share& s) {
      return s.scores || s.canvas->request.logits;
    });
    if (wanted) {
      logits_.resize(rows * static_cast<size_t>(setup_.vocab_size));
      program_.read("logits", logits_.data(), static_cast<int64_t>(logits_.size() * sizeof(float)));
    }
    int64_t row = 0;
    for (const Share& s : shares_) {
      s.scores ? report_prompt(s, row) : fix(s, row);
      row += s.count;
    }
    exchange_.progress("denoise " + std::to_string(shares_.size()) + " requests, " +
                       std::to_string(step_tokens_) + " tokens");
  }

  void report_logits(const Canvas& c, int64_t position, int64_t row) {
    exchange_.logits(c.request.id, position, logits_.data() + row * setup_.vocab_size,
                     setup_.vocab_size);
  }

  void report_prompt(const Share& s, int64_t row) {
    Canvas& c = *s.canvas;
    for (int64_t i = 0; i < s.count; ++i) report_logits(c, c.scored++, row + i);
  }

  std::vector<Proposal>& proposals(const Canvas& c, int64_t row) {
    proposals_.clear();
    for (int64_t i = c.block; i < block_end(c); ++i) {
      if (c.fixed[static_cast<size_t>(i)]) continue;
      const float logprob = logprobs_[static_cast<size_t>(row)];
      proposals_.push_back(
          {row, i, tokens_[static_cast<size_t>(row)],
           std::isnan(logprob) ? -std::numeric_limits<float>::infinity() : logprob});
      ++row;
    }
    return proposals_;
  }

  // Moves the proposals which stay to the front, in the order of their fixing.
  void rank(const Canvas& c, std::vector<Proposal>& list) const {
    const Request& r = c.request;
    if (r.forced.empty()) {
      std::stable_sort(list.begin(), list.end(),
                       [](const Proposal& a, const Proposal& b) { return a.logprob > b.logprob; });
    } else if (!r.order.empty()) {
      for (int64_t i = 0; i < to_fix(c); ++i) {
        const int64_t index = r.order[static_cast<size_t>(c.done + i)];
        const auto it = std::find_if(list.begin() + i, list.end(),
                                     [&](const Proposal& p) { return p.index == index; });
        std::rotate(list.begin() + i, it, it + 1);
      }
    }
  }

  void fix(const Share& s, int64_t row) {
    Canvas& c = *s.canvas;
    auto& list = proposals(c, row);
    rank(c, list);
    const int64_t count = to_fix(c);
    for (int64_t i = 0; i < count; ++i)
      if (!fix_one(c, list[static_cast<size_t>(i)])) return;
    ++c.rounds;
    ++c.step;
    if (c.done == block_end(c)) {
      c.block = c.done;
      c.step = 0;
    }
  }

  bool fix_one(Canvas& c, const Proposal& p) {
    const Request& r = c.request;
    const bool is_forced = p.index < static_cast<int64_t>(r.forced.size());
    const int64_t token = is_forced ? r.forced[static_cast<size_t>(p.index)] : p.token;
    if (token < 0 || token >= setup_.vocab_size) {
      // A provider's fault. The next step would read out of bounds.
      exchange_.failed(r.id, "token " + std::to_string(p.index) + " was sampled as " +
                                 std::to_string(token) + ", outside the vocabulary");
      c.done = c.answer();
      return false;
    }
    if (r.logits) report_logits(c, c.prompt + p.index, p.row);
    c.tokens[static_cast<size_t>(c.prompt + p.index)] = token;
    c.fixed[static_cast<size_t>(p.index)] = true;
    ++c.done;
    exchange_.token(r.id, p.index, token, c.done == c.answer());
    return true;
  }

  Program& program_;
  Exchange& exchange_;
  MaskedDiffusionSetup setup_;
  int64_t tokens_max_, batch_max_, rows_max_;
  std::deque<Canvas> canvases_;  // in order of arrival
  std::vector<Share> shares_;    // of the current step
  int64_t step_tokens_ = 0, step_rows_ = 0;
  std::vector<int64_t> tokens_;
  std::vector<float> logprobs_, logits_;
  std::vector<Proposal> proposals_;
};

}  // namespace

void diffuse(Program& program, Exchange& exchange, const MaskedDiffusionSetup& setup) {
  Denoiser(program, exchange, setup).run();
}

}  // namespace fk
