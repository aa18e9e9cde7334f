// SPDX-License-Identifier: Apache-2.0
// Generates tokens by speculation (EAGLE-3): a small draft model guesses, and the target model
// checks. In a round, the draft grows a tree of guesses for each running request. The target
// computes all trees in one step. The longest path that the target would have written is taken, and
// its keys and values move to their final places. The target's choice at a node depends on the
// answer's token index alone. So the answer equals the target's own, sampled or greedy.
#include "core/engines/speculate/speculate.hpp"

#include <algorithm>
#include <cstdio>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/engines/scheduler.hpp"
#include "core/engines/speculate/draft_tree.hpp"
#include "core/engines/speculate/step_inputs.hpp"

namespace fk {

namespace {

class Speculator {
 public:
  Speculator(const SpeculatePhases& phases, Exchange& exchange, const SpeculateSetup& setup)
      : setup_(setup),
        options_(setup.options),
        exchange_(exchange),
        scheduler_({setup.generate.max_batch, setup.generate.max_context, phases.prefill.limit("T"),
                    phases.prefill.limit("Q"), setup.generate.page_size, setup.generate.pages,
                    setup.generate.vocab_size, setup.options.slots()}),
        prefill_(phases.prefill, setup.generate.page_size),
        verify_(phases.verify, setup.generate.page_size),
        extend_(phases.extend, setup.generate.page_size),
        draft_(phases.draft, setup.generate.page_size),
        accept_(phases.accept),
        trees_(static_cast<size_t>(setup.generate.max_batch)),
        guesses_(static_cast<size_t>(setup.generate.max_batch)) {
    FK_CHECK(options_.depth > 0 && options_.top_k > 0 && options_.tokens > 1, "an empty tree");
    from_ = static_cast<int64_t*>(accept_.input("from_slots"));
    to_ = static_cast<int64_t*>(accept_.input("to_slots"));
    if (!from_ || !to_) fail("speculate", "the phase accept has no from_slots and to_slots");
  }

  SpeculateStats run() {
    for (;;) {
      while (exchange_.next(request_, scheduler_.idle())) take_request();
      if (scheduler_.idle()) break;
      const Scheduler::Step step = scheduler_.next();
      FK_CHECK(step != Scheduler::Step::none, "requests are waiting but none can be computed");
      step == Scheduler::Step::prefill ? prefill() : round();
    }
    if (stats_.steps > 0) log_info("speculation: " + mean_text() + " tokens a step");
    return stats_;
  }

 private:
  // The draft's guesses for the next token of a running request, by slot.
  struct Guess {
    std::vector<int64_t> tokens;
    std::vector<float> logprobs;
  };
  // Positions [first, first + count) of a request. The target has left their hidden states in these
  // rows, in order.
  struct Fresh {
    const Sequence* sequence;
    int64_t first;
    std::vector<int32_t> rows;
  };

  void take_request() {
    std::string why = scheduler_.refusal(request_);
    if (why.empty() && request_.sampling.on_host()) why = kNoHostSampling;
    if (!why.empty())
      exchange_.failed(request_.id, why);
    else
      scheduler_.add(std::move(request_));
    request_ = {};
  }

  std::string mean_text() const {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", stats_.mean());
    return text;
  }

  void read_choices(StepInputs& step, bool logits) {
    const auto rows = static_cast<size_t>(step.rows());
    tokens_.resize(rows);
    step.program().read("tokens", tokens_.data(), static_cast<int64_t>(rows * sizeof(int64_t)));
    if (!logits) return;
    logits_.resize(rows * static_cast<size_t>(setup_.generate.vocab_size));
    step.program().read("logits", logits_.data(),
                        static_cast<int64_t>(logits_.size() * sizeof(float)));
  }
  void report_logits(const Sequence& s, int64_t position, int64_t row) {
    const int64_t vocab = setup_.generate.vocab_size;
    exchange_.logits(s.request.id, position, logits_.data() + row * vocab, vocab);
  }

  // ---- prompts ----

  void prefill() {
    prefill_.clear();
    bool logits = false;
    const std::vector<Work> work = scheduler_.work();
    for (const Work& w : work) {
      const Sequence& s = *w.sequence;
      prefill_.begin(s, w.first + w.count);
      for (int64_t p = w.first; p < w.first + w.count; ++p) {
        prefill_.token(s.tokens[static_cast<size_t>(p)], p, p);
        const bool last = p + 1 == w.first + w.count;
        if (p >= w.first + w.count - w.rows)
          prefill_.row(s, last && w.samples ? s.generated() : -1);
      }
      logits |= w.rows > 0 && (s.request.logits || s.request.prompt_logits);
    }
    prefill_.bind("Q", prefill_.rows());
    prefill_.run();
    read_choices(prefill_, logits);
    exchange_.progress("prefill " + std::to_string(prefill_.tokens()) + " tokens");
    int64_t row = 0;
    int32_t token = 0;
    fresh_.clear();
    for (const Work& w : work) {
      Sequence& s = *w.sequence;
      scheduler_.computed(w);
      report_rows(w, row);
      row += w.rows;
      Fresh fresh{&s, w.first, {}};
      for (int64_t i = 0; i < w.count; ++i) fresh.rows.push_back(token++);
      if (w.samples && take_token(s, tokens_[static_cast<size_t>(row - 1)])) continue;
      const bool scored = s.request.new_tokens == 0 && s.cached == s.prompt;
      fresh_.push_back(std::move(fresh));
      if (scored) finished_.push_back(&s);
    }
    extend();
    for (Sequence* s : finished_) scheduler_.finish(s);
    finished_.clear();
  }

  void report_rows(const Work& w, int64_t row) {
    const Request& r = w.sequence->request;
    for (int64_t p = w.first + w.count - w.rows; p < w.first + w.count; ++p, ++row) {
      const int64_t prompt = w.sequence->prompt;
      if ((r.prompt_logits && p < prompt) || (r.logits && p >= prompt - 1))
        report_logits(*w.sequence, p, row);
    }
  }

  // True when the request has ended; its sequence is gone then.
  bool take_token(Sequence& s, int64_t sampled) {
    if (!append_token(s, sampled, setup_.generate, exchange_)) return false;
    scheduler_.finish(&s);
    return true;
  }

  // ---- the draft ----

  // The row of a hidden state for the draft: of an expanded node by its place, or with -1 of the
  // last accepted token.
  int64_t state_row(const Sequence& s, int32_t place) const {
    return s.slot * (1 + options_.expansions()) + 1 + place;
  }

  // The draft reads the target's results: each position p with the token after it, as far as known.
  void extend() {
    extend_.clear();
    rows_of_.clear();
    for (const Fresh& f : fresh_) {
      const Sequence& s = *f.sequence;
      const int64_t end = std::min(f.first + static_cast<int64_t>(f.rows.size()), s.length() - 1);
      if (end <= f.first) continue;
      extend_.begin(s, end);
      for (int64_t p = f.first; p < end; ++p) {
        extend_.token(s.tokens[static_cast<size_t>(p) + 1], p, p);
        extend_.add("aux_rows", f.rows[static_cast<size_t>(p - f.first)]);
      }
      if (end < s.length() - 1) continue;
      extend_.add("rows", static_cast<int32_t>(extend_.tokens() - 1));
      extend_.add("state_rows", static_cast<int32_t>(state_row(s, -1)));
      rows_of_.push_back(s.slot);
    }
    if (extend_.tokens() == 0) return;
    extend_.bind("Q", static_cast<int64_t>(rows_of_.size()));
    extend_.run();
    read_guesses(extend_, rows_of_.size());
    const auto k = options_.top_k;
    for (size_t i = 0; i < rows_of_.size(); ++i) {
      Guess& guess = guesses_[static_cast<size_t>(rows_of_[i])];
      const auto at = static_cast<int64_t>(i) * k;
      guess.tokens.assign(guess_tokens_.begin() + at, guess_tokens_.begin() + at + k);
      guess.logprobs.assign(guess_logprobs_.begin() + at, guess_logprobs_.begin() + at + k);
    }
  }

  void read_guesses(StepInputs& step, size_t rows) {
    const size_t count = rows * static_cast<size_t>(options_.top_k);
    guess_tokens_.resize(count);
    guess_logprobs_.resize(count);
    step.program().read("tokens", guess_tokens_.data(),
                        static_cast<int64_t>(count * sizeof(int64_t)));
    step.program().read("logprobs", guess_logprobs_.data(),
                        static_cast<int64_t>(count * sizeof(float)));
  }

  void add_children(DraftTree& tree, int32_t parent, const int64_t* tokens, const float* logprobs) {
    for (int64_t i = 0; i < options_.top_k; ++i)
      if (tokens[i] >= 0 && tokens[i] < setup_.generate.vocab_size)
        tree.add_child(parent, tokens[i], logprobs[i]);
  }

  DraftTree& tree_of(const Sequence& s) { return trees_[static_cast<size_t>(s.slot)]; }
  // Useful levels: none beyond the last wanted token.
  int64_t levels(const Sequence& s) const {
    return std::min(options_.depth, s.request.new_tokens - s.generated() - 1);
  }

  void grow_trees(const std::vector<Work>& work) {
    for (const Work& w : work) {
      const Sequence& s = *w.sequence;
      DraftTree& tree = tree_of(s);
      tree.begin(s.tokens.back());
      const Guess& guess = guesses_[static_cast<size_t>(s.slot)];
      if (levels(s) > 0) add_children(tree, 0, guess.tokens.data(), guess.logprobs.data());
    }
    for (int64_t level = 1; level < options_.depth; ++level) grow_level(work, level);
    for (const Work& w : work) tree_of(*w.sequence).prune(options_.tokens);
  }

  void grow_level(const std::vector<Work>& work, int64_t level) {
    draft_.clear();
    parents_.clear();
    for (const Work& w : work) {
      const Sequence& s = *w.sequence;
      DraftTree& tree = tree_of(s);
      if (level >= levels(s) || tree[tree.size() - 1].depth != level) continue;
      const auto& frontier = tree.expand(options_.top_k);
      const auto& expanded = tree.expanded();
      const auto nodes = static_cast<int64_t>(expanded.size());
      draft_.begin(s, s.cached + nodes, nodes);
      for (const int32_t i : frontier) {
        const DraftNode& node = tree[i];
        draft_.token(node.token, s.cached + level - 1, s.cached + node.place);
        for (const int32_t other : expanded) draft_.sees(tree.leads_to(other, i));
        draft_.add("hidden_rows", static_cast<int32_t>(state_row(s, tree[node.parent].place)));
        draft_.add("state_rows", static_cast<int32_t>(state_row(s, node.place)));
        parents_.push_back({&tree, i});
      }
    }
    if (parents_.empty()) return;
    draft_.run();
    read_guesses(draft_, parents_.size());
    for (size_t i = 0; i < parents_.size(); ++i) {
      const size_t at = i * static_cast<size_t>(options_.top_k);
      add_children(*parents_[i].tree, parents_[i].node, guess_tokens_.data() + at,
                   guess_logprobs_.data() + at);
    }
  }

  // ---- verification by the target ----

  void round() {
    const std::vector<Work> work = scheduler_.work();
    grow_trees(work);
    verify_.clear();
    bool logits = false;
    for (const Work& w : work) {
      const Sequence& s = *w.sequence;
      const DraftTree& tree = tree_of(s);
      verify_.begin(s, s.cached + tree.size(), tree.size());
      for (int32_t i = 0; i < tree.size(); ++i) {
        verify_.token(tree[i].token, s.cached + tree[i].depth, s.cached + i);
        for (int32_t j = 0; j < tree.size(); ++j) verify_.sees(tree.leads_to(j, i));
        verify_.row(s, s.generated() + tree[i].depth);
      }
      logits |= s.request.logits;
    }
    verify_.bind("Q", verify_.rows());
    verify_.run();
    read_choices(verify_, logits);
    int64_t row = 0;
    moves_ = 0;
    fresh_.clear();
    for (const Work& w : work) {
      const int64_t next = row + tree_of(*w.sequence).size();
      judge(w, row);
      row = next;
    }
    move_accepted();
    extend();
    exchange_.progress("verify " + std::to_string(work.size()) + " requests, " + mean_text() +
                       " tokens a step");
  }

  // Follows the target's choices down the tree of a request. Its rows begin at `row`.
  void judge(const Work& w, int64_t row) {
    Sequence& s = *w.sequence;
    const DraftTree& tree = tree_of(s);
    const int64_t first = s.cached;
    Fresh fresh{&s, first, {}};
    ++stats_.steps;
    for (int32_t node = 0; node >= 0;) {
      const auto depth = static_cast<int64_t>(fresh.rows.size());
      if (node != depth) move(s, first + node, first + depth);
      fresh.rows.push_back(static_cast<int32_t>(row) + node);
      if (s.request.logits) report_logits(s, first + depth, row + node);
      ++stats_.tokens;
      scheduler_.computed({&s, first, depth + 1, /*rows=*/1, /*samples=*/true});
      if (take_token(s, tokens_[static_cast<size_t>(row + node)])) return;
      node = tree.child(node, s.tokens.back());
    }
    fresh_.push_back(std::move(fresh));
  }

  void move(const Sequence& s, int64_t from, int64_t to) {
    const int64_t size = setup_.generate.page_size;
    const auto slot = [&](int64_t place) {
      return s.pages[static_cast<size_t>(place / size)] * size + place % size;
    };
    from_[moves_] = slot(from);
    to_[moves_++] = slot(to);
  }

  void move_accepted() {
    if (moves_ == 0) return;
    accept_.bind(accept_.axis("M"), moves_);
    accept_.run();
  }

  struct Parent {
    DraftTree* tree;
    int32_t node;
  };

  SpeculateSetup setup_;
  SpeculateOptions options_;
  Exchange& exchange_;
  Scheduler scheduler_;
  StepInputs prefill_, verify_, extend_, draft_;
  Program& accept_;
  int64_t *from_, *to_, moves_ = 0;
  std::vector<DraftTree> trees_;  // by slot; guesses too
  std::vector<Guess> guesses_;
  std::vector<Fresh> fresh_;
  std::vector<Sequence*> finished_;
  std::vector<int32_t> rows_of_;  // slots
  std::vector<Parent> parents_;
  Request request_;
  std::vector<int64_t> tokens_, guess_tokens_;
  std::vector<float> logits_, guess_logprobs_;
  SpeculateStats stats_;
};

}  // namespace

SpeculateStats speculate(const SpeculatePhases& phases, Exchange& exchange,
                         const SpeculateSetup& setup) {
  return Speculator(phases, exchange, setup).run();
}

}  // namespace fk
