// SPDX-License-Identifier: Apache-2.0
// Chooses the requests and tokens of the next step of a generating model. Decides over slots and
// pages only, without tensors, so that every decision can be tested.
//
// The policy is that of vLLM's first engine. Requests are served in order of arrival. A request is
// admitted if a slot is free and the cache has enough pages: those for its tokens, and one for each
// running request. Prefill goes before decode. Prompts are computed in chunks, several requests in
// one step. When no prompt is left, all running requests get one token. When the cache is full, the
// youngest running request gives its pages back. It is computed again later, from its prompt and
// its generated tokens.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/engines/kv_page_pool.hpp"
#include "core/exec/request.hpp"

namespace fk {

// Why a request cannot be served with any cache: a token outside of the vocabulary (`what` names
// its list), or an invalid distribution. Empty: it can.
std::string token_refusal(const std::vector<int64_t>& tokens, int64_t vocab, const char* what);
std::string sampling_refusal(const Sampling& sampling);
// The refusal of an engine that samples on the device alone.
inline constexpr const char* kNoHostSampling = "this engine has no min_p and no penalties";

// An accepted request.
struct Sequence {
  Request request;
  std::vector<int64_t> tokens;  // prompt, then generated tokens
  std::vector<int32_t> pages;   // token i is in slot i % page_size of pages[i / page_size]
  int32_t slot = -1;            // in states with the axis N, while it runs
  bool encoded = false;         // its encoder has run since it got its slot
  int64_t prompt = 0;
  // Positions of the prompt's tokens on three axes, those of a token side by side. Empty: a token
  // has its number on each. Later tokens have their number and `shift`, which is not positive.
  std::vector<int32_t> axes;
  int64_t shift = 0;
  int64_t cached = 0;    // leading tokens with keys and values in the cache
  int64_t named = 0;     // leading pages that have names
  std::string name;      // of the last of these: it stands for all tokens up to there
  int64_t shared = -1;   // leading tokens that the cache had at its first admission; -1: not asked
  int64_t reported = 0;  // leading positions that have had their logits row, or need none

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  int64_t generated() const { return length() - prompt; }
};

// A sequence's share of a step: tokens [first, first + count). The last `rows` of them get logits.
struct Work {
  Sequence* sequence = nullptr;
  int64_t first = 0, count = 0, rows = 0;
  bool samples = false;  // the last row chooses the next token
};

class Scheduler {
 public:
  struct Options {
    int64_t max_batch = 1, max_context = 0, chunk_tokens = 0;
    int64_t rows = 0;  // logits rows of one prefill step, at least max_batch
    int64_t page_size = 1, pages = 0, vocab_size = 0;
    // slots that a decode step may write for a request, from its first token on
    int64_t step_slots = 1;
    // Outlives the scheduler. Requests with shares_prefix share whole pages of prompts in it. Null:
    // its own pages, without shares.
    KvPagePool* pool = nullptr;
  };
  explicit Scheduler(const Options& options);

  // Why a request can never be served; empty: it can.
  std::string refusal(const Request& request) const;
  // FK_CHECK: refusal(request) is empty.
  void add(Request request);
  bool idle() const { return waiting_.empty() && running_.empty(); }

  // True when next() would give a decode step of exactly the running requests.
  bool steady() const;
  enum class Step { none, prefill, decode };
  // The next step. work() holds it until the next call.
  Step next();
  const std::vector<Work>& work() const { return work_; }

  // Call after a step for each Work in order: its tokens are in the cache.
  void computed(const Work& work);
  // The sequence of a request that waits or runs; null: it has ended.
  Sequence* find(uint64_t id) const;
  // Ends a sequence: frees its slot and pages. The pointer becomes invalid. The work of the last
  // next() must not be used any more if it has a sequence which is ended before its computed().
  void finish(Sequence* sequence);

  int64_t preemptions() const { return preemptions_; }
  int64_t running() const { return static_cast<int64_t>(running_.size()); }

 private:
  int64_t pages_of(int64_t tokens) const;
  bool admits_next() const;
  void admit();
  void share_pages(Sequence& s);
  void name_pages(Sequence& s);
  bool needs_prefill(const Sequence& s) const;
  void plan_prefill();
  void plan_decode();
  bool grow(size_t index);
  void preempt_youngest();
  void release(Sequence& s);

  Options options_;
  std::unique_ptr<KvPagePool> own_pool_;
  KvPagePool& pool_;
  std::vector<int32_t> free_slots_;
  std::deque<std::unique_ptr<Sequence>> waiting_;  // both in order of arrival
  std::vector<std::unique_ptr<Sequence>> running_;
  std::vector<Work> work_;
  int64_t preemptions_ = 0;
};

}  // namespace fk
