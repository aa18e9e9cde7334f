// SPDX-License-Identifier: Apache-2.0
// The policy that scheduler.hpp describes. A request waits, or it runs with a slot and pages.
#include "core/engines/scheduler.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "core/base/sha256.hpp"

namespace fk {

std::string token_refusal(const std::vector<int64_t>& tokens, int64_t vocab, const char* what) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab) continue;
    return std::string(what) + " " + std::to_string(i) + " is " + std::to_string(tokens[i]) +
           ", outside the vocabulary of " + std::to_string(vocab);
  }
  return "";
}

std::string sampling_refusal(const Sampling& sampling) {
  if (!(sampling.temperature >= 0)) return "the temperature is negative";
  if (sampling.top_k < 0) return "top_k is negative";
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) return "top_p is not in (0, 1]";
  if (!(sampling.min_p >= 0 && sampling.min_p <= 1)) return "min_p is not in [0, 1]";
  if (!(std::isfinite(sampling.frequency_penalty) && std::isfinite(sampling.presence_penalty)))
    return "a penalty is no number";
  if (!(sampling.repetition_penalty > 0 && std::isfinite(sampling.repetition_penalty)))
    return "repetition_penalty is not positive";
  return "";
}

namespace {

// The name of a page that continues the page `before`: a hash, because clients choose the tokens.
std::string page_name(const std::string& before, const int64_t* tokens, int64_t count) {
  return sha256(before + std::string(reinterpret_cast<const char*>(tokens),
                                     static_cast<size_t>(count) * sizeof *tokens));
}

}  // namespace

Scheduler::Scheduler(const Options& options)
    : options_(options),
      own_pool_(options.pool ? nullptr : std::make_unique<KvPagePool>(options.pages)),
      pool_(options.pool ? *options.pool : *own_pool_) {
  FK_CHECK(options.max_batch > 0 && options.chunk_tokens > 0 && options.page_size > 0,
           "a scheduler without room for a request");
  FK_CHECK(options.rows > 0, "a scheduler without rows for logits");
  running_.reserve(static_cast<size_t>(options.max_batch));
  work_.reserve(static_cast<size_t>(options.max_batch));
  for (auto slot = static_cast<int32_t>(options.max_batch); slot-- > 0;)
    free_slots_.push_back(slot);
}

int64_t Scheduler::pages_of(int64_t tokens) const {
  return (tokens + options_.page_size - 1) / options_.page_size;
}

std::string Scheduler::refusal(const Request& request) const {
  const auto prompt = static_cast<int64_t>(request.tokens.size());
  if (prompt == 0) return "the prompt is empty";
  if (request.new_tokens < 0) return "the number of new tokens is negative";
  if (request.new_tokens == 0 && !request.prompt_logits)
    return "the request asks for no new tokens and no logits";
  if (auto why = token_refusal(request.tokens, options_.vocab_size, "prompt token"); !why.empty())
    return why;
  if (auto why = token_refusal(request.forced, options_.vocab_size, "forced token"); !why.empty())
    return why;
  if (request.new_tokens > options_.max_context - prompt) {
    return "its " + std::to_string(prompt) + " prompt tokens and " +
           std::to_string(request.new_tokens) + " new ones exceed the context of " +
           std::to_string(options_.max_context);
  }
  // The last token is no input, so it needs no slot.
  const int64_t pages =
      pages_of(prompt + std::max<int64_t>(request.new_tokens - 1, 0) + options_.step_slots - 1);
  if (pages > pool_.total()) {
    return "it needs " + std::to_string(pages) + " pages of the cache, which has " +
           std::to_string(pool_.total());
  }
  return sampling_refusal(request.sampling);
}

void Scheduler::add(Request request) {
  auto s = std::make_unique<Sequence>();
  s->prompt = static_cast<int64_t>(request.tokens.size());
  s->tokens.reserve(static_cast<size_t>(s->prompt + request.new_tokens));
  s->tokens = request.tokens;
  // A request without new tokens ends with the logits row of its prompt's end.
  s->reported = std::clamp<int64_t>(request.first_logits, 0, s->prompt - 1);
  s->pages.reserve(
      static_cast<size_t>(pages_of(s->prompt + request.new_tokens + options_.step_slots)));
  s->request = std::move(request);
  waiting_.push_back(std::move(s));
}

bool Scheduler::admits_next() const {
  return !waiting_.empty() && running() < options_.max_batch &&
         pool_.free() >= pages_of(waiting_.front()->length()) + running();
}

void Scheduler::admit() {
  while (admits_next()) {
    Sequence& s = *waiting_.front();
    if (options_.pool && s.request.shares_prefix && !s.request.prompt_logits) {
      share_pages(s);
      if (s.shared < 0) s.shared = s.cached;
    }
    pool_.acquire(pages_of(s.length()) - static_cast<int64_t>(s.pages.size()), s.pages);
    s.slot = free_slots_.back();
    free_slots_.pop_back();
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

// Takes the pages of earlier prompts which begin like this one. The last token is computed anyway,
// because it gives the next one.
void Scheduler::share_pages(Sequence& s) {
  const int64_t size = options_.page_size;
  s.named = 0;
  for (s.name.clear(); s.cached + size < s.prompt; s.cached += size, ++s.named) {
    std::string name = page_name(s.name, s.tokens.data() + s.cached, size);
    if (!pool_.share(name, s.pages)) return;
    s.name = std::move(name);
  }
}

// Names the pages of a prompt that are whole by now.
void Scheduler::name_pages(Sequence& s) {
  const int64_t size = options_.page_size;
  for (; (s.named + 1) * size <= std::min(s.cached, s.prompt); ++s.named) {
    s.name = page_name(s.name, s.tokens.data() + s.named * size, size);
    pool_.name(s.pages[static_cast<size_t>(s.named)], s.name);
  }
}

// False for one missing token of the answer: a decode step computes it as well.
bool Scheduler::needs_prefill(const Sequence& s) const {
  return s.cached < s.prompt || s.length() - s.cached > 1;
}

void Scheduler::plan_prefill() {
  int64_t tokens = options_.chunk_tokens, rows = options_.rows;
  for (const auto& entry : running_) {
    Sequence& s = *entry;
    if (!needs_prefill(s)) continue;
    int64_t end = std::min(s.length(), s.cached + tokens);
    // A scored prompt needs a row for each position that was not reported before a preemption.
    const bool scored = s.request.prompt_logits;
    const int64_t first_row = scored ? std::max(s.cached, s.reported) : s.length() - 1;
    end = std::min(end, first_row + rows);
    if (end <= s.cached) break;
    const bool complete = end == s.length();
    const Work w{&s, s.cached, end - s.cached, std::max<int64_t>(end - first_row, 0),
                 complete && s.request.new_tokens > 0};
    work_.push_back(w);
    tokens -= w.count;
    rows -= w.rows;
    if (tokens == 0) break;
  }
}

void Scheduler::release(Sequence& s) {
  pool_.release(s.pages);
  free_slots_.push_back(s.slot);
  s.slot = -1;
}

void Scheduler::preempt_youngest() {
  std::unique_ptr<Sequence> s = std::move(running_.back());
  running_.pop_back();
  release(*s);
  s->cached = s->named = 0;
  s->name.clear();
  s->encoded = false;
  waiting_.push_front(std::move(s));
  ++preemptions_;
}

// Gets pages for the next step of running_[index]. False: that request itself was preempted.
bool Scheduler::grow(size_t index) {
  Sequence& s = *running_[index];
  const int64_t missing =
      pages_of(s.cached + options_.step_slots) - static_cast<int64_t>(s.pages.size());
  while (missing > 0 && !pool_.acquire(missing, s.pages)) {
    preempt_youngest();
    if (index == running_.size()) return false;
  }
  return true;
}

void Scheduler::plan_decode() {
  for (size_t i = 0; i < running_.size() && grow(i); ++i) {
    Sequence& s = *running_[i];
    work_.push_back({&s, s.cached, /*count=*/1, /*rows=*/1, /*samples=*/true});
  }
}

bool Scheduler::steady() const {
  if (running_.empty() || admits_next()) return false;
  int64_t missing = 0;
  for (const auto& s : running_) {
    if (needs_prefill(*s)) return false;
    missing += std::max<int64_t>(
        pages_of(s->cached + options_.step_slots) - static_cast<int64_t>(s->pages.size()), 0);
  }
  return missing <= pool_.free();
}

Scheduler::Step Scheduler::next() {
  work_.clear();
  admit();
  plan_prefill();
  if (!work_.empty()) return Step::prefill;
  plan_decode();
  return work_.empty() ? Step::none : Step::decode;
}

void Scheduler::computed(const Work& work) {
  Sequence& s = *work.sequence;
  s.cached = work.first + work.count;
  if (work.rows > 0) s.reported = s.cached;
  if (options_.pool && s.request.shares_prefix) name_pages(s);
}

Sequence* Scheduler::find(uint64_t id) const {
  for (const auto& entry : running_)
    if (entry->request.id == id) return entry.get();
  for (const auto& entry : waiting_)
    if (entry->request.id == id) return entry.get();
  return nullptr;
}

void Scheduler::finish(Sequence* sequence) {
  const auto is_it = [&](const auto& entry) { return entry.get() == sequence; };
  if (const auto it = std::ranges::find_if(running_, is_it); it != running_.end()) {
    release(*sequence);
    running_.erase(it);
    return;
  }
  const auto it = std::ranges::find_if(waiting_, is_it);
  FK_CHECK(it != waiting_.end(), "a request finished that neither ran nor waited");
  waiting_.erase(it);
}

}  // namespace fk
