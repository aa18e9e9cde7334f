// SPDX-License-Identifier: Apache-2.0
#include "core/endpoint/completion.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/text.hpp"
#include "core/endpoint/logprobs.hpp"
#include "core/endpoint/stop_texts.hpp"

namespace fk {

namespace {

std::string event_text(const Json& json) {
  return "data: " + json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n\n";
}

std::string random_name(const char* prefix) {
  static const uint64_t first = (uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  static std::atomic<uint64_t> number{0};
  char text[64];
  std::snprintf(text, sizeof text, "%s-%016llx%08llx", prefix,
                static_cast<unsigned long long>(first), static_cast<unsigned long long>(++number));
  return text;
}

Json error_body(unsigned status, const std::string& message, const std::string& key) {
  const char* type = status == 401   ? "authentication_error"
                     : status == 404 ? "not_found_error"
                     : status == 429 ? "rate_limit_error"
                     : status < 500  ? "invalid_request_error"
                                     : "server_error";
  return {{"error",
           {{"message", message},
            {"type", type},
            {"param", key.empty() ? Json(nullptr) : Json(key)},
            {"code", status}}}};
}

// One answer to one prompt.
struct Choice {
  Choice(size_t of, double now, const std::vector<std::string>& stops)
      : prompt(of), stop(stops), last_s(now) {}
  size_t prompt;
  uint64_t id = 0;
  std::vector<int64_t> tokens;
  std::optional<text::Detokenizer> words;
  StopTexts stop;
  std::string text;  // that is certain
  std::vector<TokenLogprobs> logprobs;
  std::vector<float> logits;       // of the next token
  std::string finish;              // "stop", "length"; empty: it goes on
  size_t sent = 0, text_sent = 0;  // tokens and bytes in earlier events
  bool begin_sent = false, ended_sent = false;
  int64_t cached = 0;  // tokens of its prompt that were in the cache
  double last_s;       // of the request, or of its last token
  double first_s = 0;  // of its first token
};

class Completion : public std::enable_shared_from_this<Completion> {
 public:
  Completion(const EndpointParts& parts, CompletionRequest request)
      : parts_(parts), request_(std::move(request)), created_(std::time(nullptr)) {
    request_.seed = request_.seed.value_or(uint64_t{std::random_device{}()} << 16);
  }

  void begin() {
    const std::lock_guard lock(mutex_);
    begin_s_ = now_seconds();
    open_ = request_.prompts.size() * static_cast<size_t>(request_.n);
    for (size_t p = 0; p < request_.prompts.size(); ++p) {
      prompt_tokens_ += request_.prompts[p].tokens.size();
      for (int64_t i = 0; i < request_.n; ++i) add_choice(p);
    }
    parts_.metrics.begin(static_cast<int64_t>(prompt_tokens_));
    for (size_t c = 0; c < choices_.size(); ++c)
      choices_[c].id = parts_.submit(
          request_of(c), [me = shared_from_this(), c](RunnerEvent& event) { me->hear(c, event); });
  }

  // The client has gone.
  void abandon() {
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
    for (Choice& choice : choices_) {
      if (!choice.finish.empty()) continue;
      choice.finish = "abort";
      parts_.cancel(choice.id);
      record(choice);
      parts_.metrics.end("abort", now_seconds() - begin_s_);
    }
  }

  void when_news(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
  }

  LaterBody::Part take() {
    const std::lock_guard lock(mutex_);
    return request_.stream ? next_events() : whole();
  }

 private:
  void add_choice(size_t prompt) {
    Choice& choice = choices_.emplace_back(prompt, begin_s_, request_.stop);
    if (parts_.tokenizer) choice.words.emplace(*parts_.tokenizer);
  }

  // The text of a token alone.
  std::string token_name(int64_t token) const {
    if (!parts_.tokenizer) return "token_id:" + std::to_string(token);
    const auto id = static_cast<int32_t>(token);
    return parts_.tokenizer->decode(std::span(&id, 1), false);
  }

  Request request_of(size_t c) const {
    Request out;
    out.tokens = request_.prompts[choices_[c].prompt].tokens;
    out.new_tokens = new_tokens(out.tokens.size());
    out.sampling = request_.sampling;
    out.sampling.seed = *request_.seed + c;
    out.ignore_eos = request_.ignore_eos;
    out.logits = request_.logprobs.has_value();
    return out;
  }

  // Without a wish, an answer ends with the context.
  int64_t new_tokens(size_t prompt) const {
    const int64_t room = parts_.limits.context - static_cast<int64_t>(prompt);
    return request_.max_tokens_given ? request_.max_tokens : std::min(request_.max_tokens, room);
  }

  void hear(size_t c, RunnerEvent& event) {
    const std::lock_guard lock(mutex_);
    Choice& choice = choices_[c];
    if (!choice.finish.empty()) return;  // it was cancelled
    if (event.kind == RunnerEvent::Kind::logits) {
      choice.logits = std::move(event.values);
      return;
    }
    if (event.kind == RunnerEvent::Kind::shared) {
      choice.cached = event.index;
      const size_t prompt = request_.prompts[choice.prompt].tokens.size();
      parts_.metrics.prefix(static_cast<int64_t>(prompt), event.index);
      return;
    }
    if (event.kind == RunnerEvent::Kind::failed)
      fail_all(event.text);
    else
      add_token(choice, event);
    if (wake_) wake_();
  }

  void add_token(Choice& choice, const RunnerEvent& event) {
    choice.tokens.push_back(event.token);
    if (request_.logprobs)
      choice.logprobs.push_back(logprobs_of(choice.logits, event.token, *request_.logprobs));
    parts_.metrics.token(choice.tokens.size() == 1, event.time_s - choice.last_s);
    choice.last_s = event.time_s;
    if (choice.tokens.size() == 1) choice.first_s = event.time_s;
    if (choice.words) {
      choice.text += choice.stop.push(choice.words->push(static_cast<int32_t>(event.token)));
      if (choice.stop.stopped()) return finish(choice, "stop", event.last);
    }
    const bool eos = !request_.ignore_eos && std::ranges::count(parts_.eos, event.token) > 0;
    if (eos || std::ranges::count(request_.stop_tokens, event.token) > 0)
      finish(choice, "stop", event.last);
    else if (event.last)
      finish(choice, "length", true);
  }

  void finish(Choice& choice, const char* reason, bool ended) {
    choice.finish = reason;
    --open_;
    if (choice.words) {
      choice.text += choice.stop.push(choice.words->finish());
      choice.text += choice.stop.finish();
    }
    if (!ended) parts_.cancel(choice.id);
    record(choice);
    parts_.metrics.end(reason, now_seconds() - begin_s_);
  }

  void record(const Choice& choice) const {
    if (!parts_.recorder) return;
    const auto c = static_cast<size_t>(&choice - choices_.data());
    const Request asked = request_of(c);
    RecordedRequest out;
    out.at_s = begin_s_ - parts_.recorder->begun_s();
    out.prompt = asked.tokens;
    out.answer = choice.tokens;
    out.end = choice.finish;
    out.max_tokens = asked.new_tokens;
    out.sampling = asked.sampling;
    out.first_token_s = choice.tokens.empty() ? 0 : choice.first_s - begin_s_;
    out.done_s = now_seconds() - begin_s_;
    parts_.recorder->add(out);
  }

  // One failure ends all answers of the request.
  void fail_all(const std::string& why) {
    failed_ = why;
    for (Choice& choice : choices_)
      if (choice.finish.empty()) finish(choice, "error", false);
  }

  // The probabilities of a choice's tokens from one on.
  Json logprobs_json(const Choice& choice, size_t from) const {
    if (!request_.logprobs) return nullptr;
    Json tokens = Json::array(), own = Json::array(), best = Json::array(), at = Json::array();
    size_t offset = 0;
    for (size_t i = 0; i < choice.tokens.size(); ++i) {
      const std::string name = token_name(choice.tokens[i]);
      offset += name.size();
      if (i < from) continue;
      const TokenLogprobs& each = choice.logprobs[i];
      tokens.push_back(name);
      own.push_back(each.own);
      Json row = Json::object();
      for (const auto& [token, value] : each.best) row[token_name(token)] = value;
      row[name] = each.own;
      best.push_back(std::move(row));
      at.push_back(offset - name.size());
    }
    return {{"tokens", tokens},
            {"token_logprobs", own},
            {"top_logprobs", *request_.logprobs > 0 ? best : Json(nullptr)},
            {"text_offset", at}};
  }

  // The same for a message.
  Json chat_logprobs_json(const Choice& choice, size_t from) const {
    if (!request_.logprobs) return nullptr;
    const auto row = [&](int64_t token, double value) {
      const std::string name = token_name(token);
      const std::vector<int> bytes(reinterpret_cast<const uint8_t*>(name.data()),
                                   reinterpret_cast<const uint8_t*>(name.data()) + name.size());
      return Json{{"token", name}, {"logprob", value}, {"bytes", bytes}};
    };
    Json content = Json::array();
    for (size_t i = from; i < choice.tokens.size(); ++i) {
      const TokenLogprobs& each = choice.logprobs[i];
      Json entry = row(choice.tokens[i], each.own);
      entry["top_logprobs"] = Json::array();
      for (const auto& [token, value] : each.best)
        entry["top_logprobs"].push_back(row(token, value));
      content.push_back(std::move(entry));
    }
    return {{"content", content}};
  }

  // A choice as a client gets it: its tokens from one on, and its text from a byte on.
  Json choice_json(size_t c) const {
    const Choice& choice = choices_[c];
    std::vector<int64_t> ids(choice.tokens.begin() + static_cast<ptrdiff_t>(choice.sent),
                             choice.tokens.end());
    std::string text = choice.text.substr(choice.text_sent);
    const Prompt& prompt = request_.prompts[choice.prompt];
    if (request_.echo && !choice.begin_sent) {
      ids.insert(ids.begin(), prompt.tokens.begin(), prompt.tokens.end());
      text = prompt.text.value_or("") + text;
    }
    Json out = {{"index", c}};
    if (!request_.chat) {
      out["text"] = text;
      out["logprobs"] = logprobs_json(choice, choice.sent);
    } else {
      Json message = Json::object();
      if (!choice.begin_sent) message["role"] = "assistant";
      if (!request_.stream || !text.empty() || !choice.begin_sent) message["content"] = text;
      out[request_.stream ? "delta" : "message"] = std::move(message);
      out["logprobs"] = chat_logprobs_json(choice, choice.sent);
    }
    out["finish_reason"] = choice.finish.empty() ? Json(nullptr) : Json(choice.finish);
    if (request_.token_ids || !parts_.tokenizer) out["token_ids"] = ids;
    if (request_.token_ids && !choice.begin_sent) out["prompt_token_ids"] = prompt.tokens;
    return out;
  }

  Json head() const {
    const char* object = !request_.chat    ? "text_completion"
                         : request_.stream ? "chat.completion.chunk"
                                           : "chat.completion";
    return {
        {"id", name_}, {"object", object}, {"created", created_}, {"model", parts_.limits.model}};
  }

  // A prompt counts once, also with several answers.
  Json usage() const {
    size_t tokens = 0;
    int64_t cached = 0;
    for (const Choice& choice : choices_) tokens += choice.tokens.size();
    for (size_t c = 0; c < choices_.size(); c += static_cast<size_t>(request_.n))
      cached += choices_[c].cached;
    return {{"prompt_tokens", prompt_tokens_},
            {"completion_tokens", tokens},
            {"total_tokens", prompt_tokens_ + tokens},
            {"prompt_tokens_details", {{"cached_tokens", cached}}}};
  }

  LaterBody::Part whole() const {
    if (!failed_.empty()) return {error_body(500, failed_, "").dump() + "\n", true, 500};
    if (open_ > 0) return {};
    Json out = head();
    out["choices"] = Json::array();
    for (size_t c = 0; c < choices_.size(); ++c) out["choices"].push_back(choice_json(c));
    out["usage"] = usage();
    return {out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n", true};
  }

  LaterBody::Part next_events() {
    LaterBody::Part part;
    for (size_t c = 0; c < choices_.size(); ++c) {
      Choice& choice = choices_[c];
      const bool ended = !choice.finish.empty() && !choice.ended_sent;
      const bool shows_tokens = request_.token_ids || request_.logprobs || !parts_.tokenizer;
      const bool more = choice.text.size() > choice.text_sent ||
                        (shows_tokens && choice.tokens.size() > choice.sent);
      if (!failed_.empty() || (!more && !ended)) continue;
      Json out = head();
      out["choices"] = Json::array({choice_json(c)});
      part.text += event_text(out);
      choice.sent = choice.tokens.size();
      choice.text_sent = choice.text.size();
      choice.begin_sent = true;
      choice.ended_sent = ended;
    }
    if (!failed_.empty()) {
      part.text += event_text(error_body(500, failed_, ""));
      part.over = true;
    } else if (open_ == 0) {
      if (request_.usage) {
        Json out = head();
        out["choices"] = Json::array();
        out["usage"] = usage();
        part.text += event_text(out);
      }
      part.text += "data: [DONE]\n\n";
      part.over = true;
    }
    return part;
  }

  const EndpointParts parts_;
  CompletionRequest request_;
  const std::string name_ = random_name(request_.chat ? "chatcmpl" : "cmpl");
  const std::time_t created_;
  std::mutex mutex_;  // of all below
  double begin_s_ = 0;
  size_t prompt_tokens_ = 0, open_ = 0;
  std::vector<Choice> choices_;
  std::string failed_;
  std::function<void()> wake_;
};

class CompletionBody final : public LaterBody {
 public:
  explicit CompletionBody(std::shared_ptr<Completion> completion)
      : completion_(std::move(completion)) {}
  ~CompletionBody() override { completion_->abandon(); }
  Part take() override { return completion_->take(); }
  void when_news(std::function<void()> wake) override { completion_->when_news(std::move(wake)); }

 private:
  std::shared_ptr<Completion> completion_;
};

}  // namespace

ApiAnswer openai_error(unsigned status, const std::string& message, const std::string& key) {
  ApiAnswer out;
  out.status = status;
  out.body =
      error_body(status, message, key).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  return out;
}

ApiAnswer begin_completion(const EndpointParts& parts, CompletionRequest request) {
  for (const Prompt& prompt : request.prompts) {
    const auto length = static_cast<int64_t>(prompt.tokens.size());
    const int64_t wanted = request.max_tokens_given ? request.max_tokens : 1;
    if (length + wanted > parts.limits.context)
      throw BadRequest(request.max_tokens_given ? "max_tokens" : "prompt",
                       std::to_string(length) + " tokens and " + std::to_string(wanted) +
                           " new ones exceed the context of " +
                           std::to_string(parts.limits.context));
  }
  ApiAnswer out;
  out.streams = request.stream;
  if (request.stream) out.type = "text/event-stream; charset=utf-8";
  auto completion = std::make_shared<Completion>(parts, std::move(request));
  completion->begin();
  out.later = std::make_shared<CompletionBody>(std::move(completion));
  return out;
}

}  // namespace fk
