// SPDX-License-Identifier: Apache-2.0
// Generates tokens by continuous batching. It turns the scheduler's steps (scheduler.hpp) into
// inputs of a program, and its outputs into tokens. All buffers are made once. A step allocates
// only for a new request or for logits.
#include "core/engines/generate/generate.hpp"

#include <algorithm>
#include <deque>

#include "core/base/error.hpp"
#include "core/engines/generate/encoder_phase.hpp"
#include "core/engines/generate/host_sampling.hpp"
#include "core/engines/scheduler.hpp"
#include "core/tensor/random.hpp"

namespace fk {

// The upper 24 bits of a random word, as a number below 1.
float sampling_uniform(uint64_t seed, int64_t index) {
  return static_cast<float>(philox(static_cast<uint64_t>(index), seed)[0] >> 8) * 0x1p-24F;
}

bool take_token(Sequence& s, int64_t index, int64_t sampled, const GenerateSetup& setup,
                Exchange& exchange) {
  const auto& forced = s.request.forced;
  const bool is_forced = index < static_cast<int64_t>(forced.size());
  const int64_t token = is_forced ? forced[static_cast<size_t>(index)] : sampled;
  FK_CHECK(index < s.request.new_tokens, "a finished request was sampled from");
  if (token < 0 || token >= setup.vocab_size) {
    // A provider's fault. The next step would read out of bounds.
    exchange.failed(s.request.id, "token " + std::to_string(index) + " was sampled as " +
                                      std::to_string(token) + ", outside the vocabulary");
    return true;
  }
  const auto at = static_cast<size_t>(s.prompt + index);
  if (at == s.tokens.size()) s.tokens.push_back(token);
  s.tokens[at] = token;
  const bool ended = !s.request.ignore_eos &&
                     std::find(setup.eos.begin(), setup.eos.end(), token) != setup.eos.end();
  const bool last = ended || index + 1 == s.request.new_tokens;
  if (index == 0 && s.shared >= 0) exchange.shared(s.request.id, s.shared);
  exchange.token(s.request.id, index, token, last);
  return last;
}

bool append_token(Sequence& s, int64_t sampled, const GenerateSetup& setup, Exchange& exchange) {
  return take_token(s, s.generated(), sampled, setup, exchange);
}

int64_t decode_batch(int64_t count) {
  int64_t step = 1;
  while (step * 16 < count) step *= 2;
  return (count + step - 1) / step * step;
}

namespace {

// The axes and inputs of one phase. If a phase lacks an input, the values go to an unread buffer. A
// phase lacks `rows` when it samples from each token, and page tables when it has no pages.
class PhaseInputs {
 public:
  PhaseInputs(Program& program, const GenerateSetup& setup)
      : program_(program),
        page_size_(setup.page_size),
        source_(setup.source_rows()),
        context_(setup.max_context) {
    for (const auto& e : setup.encoders)
      groups_.push_back({Sources(e.options), e.options.placeholder, e.first});
    for (const char* name : {"T", "B", "Q", "W", "M"}) axes_.push_back(program.axis(name));
    const int64_t batch = setup.max_batch;
    const int64_t tokens = axes_[0] >= 0 ? program.limit("T") : batch;
    const int64_t width =
        axes_[3] >= 0 ? program.limit("W") : (setup.max_context + page_size_ - 1) / page_size_;
    width_max_ = width;
    ids_ = at<int64_t>("ids");
    positions_ = at<int64_t>("positions", tokens);
    slots_ = at<int64_t>("slot_mapping", tokens);
    tables_ = at<int32_t>("block_tables", batch * width);
    starts_ = at<int32_t>("cu_seqlens", batch + 1);
    lengths_ = at<int32_t>("seq_lens", batch);
    state_slots_ = at<int32_t>("state_slots", batch);
    has_state_ = at<int32_t>("has_initial_state", batch);
    source_lens_ = at<int32_t>("source_lens", batch);
    source_rows_ = static_cast<int32_t*>(program.input("source_rows"));
    source_tokens_ = static_cast<int32_t*>(program.input("source_tokens"));
    axis_rows_ = static_cast<int64_t*>(program.input("axis_rows"));
    temperature_ = at<float>("temperature");
    top_k_ = at<int32_t>("top_k");
    top_p_ = at<float>("top_p");
    uniform_ = at<float>("uniform");
    rows_ = at<int32_t>("rows", axes_[2] >= 0 ? program.limit("Q") : batch);
    batch_max_ = axes_[1] >= 0 ? program.limit("B") : batch;
    pads_ = program.input("slot_mapping") && !program.input("state_slots") &&
            !program.input("source_lens");
  }

  Program& program() { return program_; }

  // Writes all inputs and binds the axes. Returns the number of logits rows.
  int64_t write(const std::vector<Work>& work) {
    int64_t width = 1, token = 0, row = 0;
    placed_ = 0;
    for (const Work& w : work) width = std::max(width, pages(w));
    // Powers of two, so that few widths are captured.
    int64_t wide = 1;
    while (wide < width) wide *= 2;
    width = std::min(wide, width_max_);
    for (size_t b = 0; b < work.size(); ++b) {
      const Work& w = work[b];
      const Sequence& s = *w.sequence;
      starts_[b] = static_cast<int32_t>(token);
      lengths_[b] = static_cast<int32_t>(w.first + w.count);
      state_slots_[b] = s.slot;
      has_state_[b] = w.first > 0;
      source_lens_[b] = 0;
      for (const Group& g : groups_)
        source_lens_[b] += static_cast<int32_t>(g.sources.left_by(s.request));
      if (source_rows_ && source_tokens_) write_sources(w, token);
      int32_t* table = tables_ + static_cast<int64_t>(b) * width;
      std::fill(std::copy_n(s.pages.begin(), pages(w), table), table + width, 0);
      for (int64_t p = w.first; p < w.first + w.count; ++p, ++token) {
        ids_[token] = s.tokens[static_cast<size_t>(p)];
        positions_[token] = p;
        if (axis_rows_) write_axes(s, p, token);
        slots_[token] = s.pages[static_cast<size_t>(p / page_size_)] * page_size_ + p % page_size_;
      }
      for (int64_t r = token - w.rows; r < token; ++r, ++row) write_row(row, r, w, r == token - 1);
    }
    starts_[work.size()] = static_cast<int32_t>(token);
    const auto count = static_cast<int64_t>(work.size());
    // Only a step with one token and one row for each request may be padded.
    const int64_t batch = token == count && row == count ? padded(count, width) : count;
    const int64_t more = batch - count;
    const int64_t values[] = {token + more, batch, row + more, width, placed_};  // T, B, Q, W, M
    for (size_t i = 0; i < axes_.size(); ++i)
      if (axes_[i] >= 0) program_.bind(axes_[i], values[i]);
    return row;
  }

 private:
  // Returns an input. With `count`, the phase may lack it: this returns an unread buffer of `count`
  // elements then.
  template <class T>
  T* at(const char* name, int64_t count = 0) {
    void* data = program_.input(name);
    if (data == nullptr && count == 0)
      fail("generate", std::string("the phase has no input `") + name + "`");
    if (data == nullptr) data = unread_.emplace_back(static_cast<size_t>(count)).data();
    return static_cast<T*>(data);
  }

  // Captured decode steps have few batch sizes. Extra requests repeat the first one, so that they
  // are valid, but write to no slot of the cache. Their results are unread.
  int64_t padded(int64_t count, int64_t width) {
    if (!program_.replays() || !pads_) return count;
    const int64_t batch = std::min(decode_batch(count), batch_max_);
    for (int64_t b = count; b < batch; ++b) {
      starts_[b + 1] = static_cast<int32_t>(b + 1);
      lengths_[b] = lengths_[0];
      std::copy_n(tables_, width, tables_ + b * width);
      ids_[b] = ids_[0];
      positions_[b] = positions_[0];
      if (axis_rows_) std::copy_n(axis_rows_, 3, axis_rows_ + 3 * b);
      slots_[b] = -1;
      rows_[b] = static_cast<int32_t>(b);
      temperature_[b] = uniform_[b] = 0;
      top_k_[b] = 0;
      top_p_[b] = 1;
    }
    return batch;
  }

  // Rows of the encoders' states for the placeholders among the tokens of `w`, which begin at
  // `token` of the step. Tokens behind a group's last row are no placeholders.
  void write_sources(const Work& w, int64_t token) {
    const Sequence& s = *w.sequence;
    const auto begin = s.tokens.begin();
    for (const Group& g : groups_) {
      const int64_t rows = g.sources.left_by(s.request);
      int64_t row = std::count(begin, begin + std::min(w.first, s.prompt), g.placeholder);
      for (int64_t p = w.first; p < std::min(w.first + w.count, s.prompt) && row < rows; ++p) {
        if (s.tokens[static_cast<size_t>(p)] != g.placeholder) continue;
        source_rows_[placed_] = static_cast<int32_t>(s.slot * source_ + g.first + row++);
        source_tokens_[placed_++] = static_cast<int32_t>(token + p - w.first);
      }
    }
  }

  // Token `p` of a sequence is token `token` of the step.
  void write_axes(const Sequence& s, int64_t p, int64_t token) {
    const auto first = static_cast<size_t>(3 * p);
    for (size_t axis = 0; axis < 3; ++axis) {
      const int64_t position = p < s.prompt && !s.axes.empty() ? s.axes[first + axis] : p + s.shift;
      axis_rows_[3 * token + static_cast<int64_t>(axis)] =
          static_cast<int64_t>(axis) * context_ + position;
    }
  }

  int64_t pages(const Work& w) const { return (w.first + w.count + page_size_ - 1) / page_size_; }

  void write_row(int64_t row, int64_t token, const Work& w, bool last) {
    const Sampling& sampling = w.sequence->request.sampling;
    const bool samples = last && w.samples;
    rows_[row] = static_cast<int32_t>(token);
    temperature_[row] = samples ? sampling.temperature : 0;
    top_k_[row] = samples ? sampling.top_k : 0;
    top_p_[row] = samples ? sampling.top_p : 1;
    uniform_[row] = samples && sampling.temperature > 0
                        ? sampling_uniform(sampling.seed, w.sequence->generated())
                        : 0;
  }

  struct Group {  // of an encoder
    Sources sources;
    int64_t placeholder, first;
  };

  Program& program_;
  int64_t page_size_, source_, context_, placed_ = 0, width_max_ = 1, batch_max_ = 1;
  std::vector<Group> groups_;
  bool pads_ = false;      // a request's state is in pages only
  std::vector<int> axes_;  // T tokens, B requests, Q rows of logits, W pages of a request, M
  int64_t *ids_, *positions_, *slots_;
  int64_t* axis_rows_;  // null: tokens have one position
  int32_t *tables_, *starts_, *lengths_, *state_slots_, *has_state_, *source_lens_, *rows_, *top_k_;
  int32_t *source_rows_, *source_tokens_;  // null: the phase has no placeholders
  float *temperature_, *top_p_, *uniform_;
  std::deque<std::vector<int64_t>> unread_;
};

// Serves requests step by step. If decode can run ahead, a step of the same requests is enqueued
// before the last tokens are known. Tokens go from output to input on the device, and the host
// reads them while the device computes. Until then a sequence has 0 for such a token. A request may
// end while its next step is enqueued already; the result of that step is dropped.
class Generator {
 public:
  Generator(Program& prefill, Program& decode, Exchange& exchange, const GenerateSetup& setup)
      : setup_(setup),
        exchange_(exchange),
        scheduler_({setup.max_batch, setup.max_context, prefill.limit("T"), prefill.limit("Q"),
                    setup.page_size, setup.pages, setup.vocab_size, /*step_slots=*/1, setup.pool}),
        prefill_(prefill, setup),
        decode_(decode, setup),
        tokens_(static_cast<size_t>(std::max(prefill.limit("Q"), setup.max_batch))) {
    for (size_t i = 0; i < setup.encoders.size(); ++i) encoders_.emplace_back(setup, i);
  }

  void run() {
    for (;;) {
      // Waits only when idle. False then means that no request will come.
      while (exchange_.next(request_, scheduler_.idle())) take_request();
      if (scheduler_.idle()) return;
      // The next step has other requests, so the tokens of the unread step are read first.
      if (!unread_.empty() && !follows()) {
        last_.of.clear();
        std::swap(unread_, last_);
        settle();
        continue;
      }
      const Scheduler::Step step = scheduler_.next();
      FK_CHECK(step != Scheduler::Step::none, "requests are waiting but none can be computed");
      encode();
      if (step == Scheduler::Step::decode && decode_.program().runs_ahead() && plain()) {
        run_ahead();
        continue;
      }
      run_step(step == Scheduler::Step::prefill ? prefill_ : decode_);
      exchange_.progress(step == Scheduler::Step::prefill
                             ? "prefill " + std::to_string(step_tokens_) + " tokens"
                             : decoded(scheduler_.work().size()));
    }
  }

 private:
  // An enqueued step goes on, and its result for this request is dropped.
  void cancel(uint64_t id) {
    Sequence* const s = scheduler_.find(id);
    if (!s) return;
    std::replace(unread_.of.begin(), unread_.of.end(), s, static_cast<Sequence*>(nullptr));
    scheduler_.finish(s);
    exchange_.failed(id, kCancelled);
  }

  void take_request() {
    if (request_.cancels) return cancel(request_.id);
    std::string why = scheduler_.refusal(request_);
    for (const EncoderPhase& encoder : encoders_)
      if (why.empty()) why = encoder.refusal(request_);
    if (why.empty() && encoders_.empty() && !request_.tensors.empty())
      why = "the model takes no tensor `" + request_.tensors[0].name + "`";
    if (why.empty())
      scheduler_.add(std::move(request_));
    else
      exchange_.failed(request_.id, why);
    request_ = {};
  }

  void encode() {
    for (EncoderPhase& encoder : encoders_) encoder.run(scheduler_.work());
    if (encoders_.empty()) return;
    for (const Work& w : scheduler_.work()) w.sequence->encoded = true;
  }

  static std::string decoded(size_t requests) {
    return "decode " + std::to_string(requests) + " requests";
  }

  // An enqueued step with unread results: its sequences (null: no longer wanted), and the place of
  // the tokens.
  struct Unread {
    std::vector<Sequence*> of;
    int64_t fetch = 0;
    bool empty() const { return of.empty(); }
  };

  // True when the host needs only tokens from the step.
  bool plain() const {
    const auto& work = scheduler_.work();
    return std::none_of(work.begin(), work.end(), [](const Work& w) {
      return w.sequence->request.logits || w.sequence->request.sampling.on_host();
    });
  }

  // True when the next step has exactly the requests of the unread step.
  bool follows() const {
    const auto goes_on = [](const Sequence* s) {
      if (!s) return false;
      const int64_t taken = s->generated();  // includes the unread token
      return taken < s->request.new_tokens &&
             taken > static_cast<int64_t>(s->request.forced.size());
    };
    return std::all_of(unread_.of.begin(), unread_.of.end(), goes_on) && scheduler_.steady();
  }

  void run_ahead() {
    const std::vector<Work>& work = scheduler_.work();
    Program& program = decode_.program();
    const int64_t rows = decode_.write(work);
    if (!unread_.empty()) program.feed_tokens("ids", "tokens", rows, setup_.vocab_size);
    program.run();
    std::swap(unread_, last_);
    unread_.of.clear();
    unread_.fetch = program.fetch("tokens", rows * static_cast<int64_t>(sizeof(int64_t)));
    for (const Work& w : work) {
      scheduler_.computed(w);
      w.sequence->tokens.push_back(0);
      unread_.of.push_back(w.sequence);
    }
    settle();
  }

  // Reads the tokens of the last step. Requests that end are dropped from the step after it.
  void settle() {
    if (last_.empty()) return;
    const auto* tokens = static_cast<const int64_t*>(decode_.program().fetched(last_.fetch));
    for (size_t i = 0; i < last_.of.size(); ++i) {
      Sequence* const s = last_.of[i];
      if (!s) continue;
      // An unread step has appended its 0 behind this token.
      const int64_t behind = unread_.empty() ? 1 : 2;
      if (!take_token(*s, s->generated() - behind, tokens[i], setup_, exchange_)) continue;
      std::replace(unread_.of.begin(), unread_.of.end(), s, static_cast<Sequence*>(nullptr));
      scheduler_.finish(s);
    }
    exchange_.progress(decoded(last_.of.size()));
  }

  void run_step(PhaseInputs& phase) {
    const std::vector<Work>& work = scheduler_.work();
    const int64_t rows = phase.write(work);
    phase.program().run();
    bool samples = false, logits = false;
    step_tokens_ = 0;
    for (const Work& w : work) {
      samples |= w.samples;
      const Request& r = w.sequence->request;
      logits |= w.rows > 0 && (r.logits || r.prompt_logits || r.sampling.on_host());
      step_tokens_ += w.count;
    }
    if (samples) {
      phase.program().read("tokens", tokens_.data(), rows * static_cast<int64_t>(sizeof(int64_t)));
    }
    if (logits) {
      logits_.resize(static_cast<size_t>(rows * setup_.vocab_size));
      phase.program().read("logits", logits_.data(),
                           rows * setup_.vocab_size * static_cast<int64_t>(sizeof(float)));
    }
    int64_t row = 0;
    for (const Work& w : work) {
      scheduler_.computed(w);
      if (w.rows > 0) report_logits(w, row);
      row += w.rows;
      Sequence& s = *w.sequence;
      // A request that only scores its prompt ends with the prompt.
      const bool ended = w.samples ? append_token(s, token_of(s, row - 1), setup_, exchange_)
                                   : s.request.new_tokens == 0 && s.cached == s.prompt;
      if (ended) scheduler_.finish(&s);
    }
  }

  // The token that a row of the step gives a sequence.
  int64_t token_of(const Sequence& s, int64_t row) {
    const Sampling& sampling = s.request.sampling;
    if (!sampling.on_host()) return tokens_[static_cast<size_t>(row)];
    const auto size = static_cast<size_t>(setup_.vocab_size);
    return sampler_.choose({logits_.data() + static_cast<size_t>(row) * size, size}, s.tokens,
                           s.prompt, sampling, sampling_uniform(sampling.seed, s.generated()));
  }

  void report_logits(const Work& w, int64_t row) {
    const Request& request = w.sequence->request;
    const int64_t prompt = w.sequence->prompt;
    for (int64_t p = w.first + w.count - w.rows; p < w.first + w.count; ++p, ++row) {
      const bool wanted =
          (request.prompt_logits && p < prompt) || (request.logits && p >= prompt - 1);
      if (!wanted) continue;
      exchange_.logits(request.id, p, logits_.data() + row * setup_.vocab_size, setup_.vocab_size);
    }
  }

  GenerateSetup setup_;
  Exchange& exchange_;
  Scheduler scheduler_;
  PhaseInputs prefill_, decode_;
  std::deque<EncoderPhase> encoders_;
  Request request_;
  std::vector<int64_t> tokens_;
  std::vector<float> logits_;
  HostSampler sampler_;
  int64_t step_tokens_ = 0;
  Unread unread_, last_;  // the last enqueued step, and the one before it
};

}  // namespace

void generate(Program& prefill, Program& decode, Exchange& exchange, const GenerateSetup& setup) {
  Generator(prefill, decode, exchange, setup).run();
}

GenerateSetup generate_setup(Session& session, const RequestForm& form,
                             const std::vector<int64_t>& eos) {
  const Limits& limits = session.limits();
  GenerateSetup setup;
  setup.max_batch = limits.max_batch;
  setup.max_context = form.context(limits);
  setup.page_size = limits.page_size;
  setup.pages = session.pages();
  setup.vocab_size = form.vocabulary;
  setup.eos = eos;
  return setup;
}

}  // namespace fk
