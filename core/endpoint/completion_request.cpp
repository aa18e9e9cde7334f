// SPDX-License-Identifier: Apache-2.0
#include "core/endpoint/completion_request.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

// A key that this server knows and does not do, with its value for "off".
struct Undone {
  const char* key;
  const char* off;  // JSON
  const char* why;
};

constexpr const char* kNoSampler = "the sampler favours and forbids no token by its number";
constexpr Undone kUndoneSampling[] = {
    {"logit_bias", "{}", kNoSampler},
    {"min_tokens", "0", "an end token cannot be forbidden"},
    {"best_of", "1", "answers are not ranked; ask for `n`"},
    {"suffix", "\"\"", "the model has no text behind its answer"},
    {"use_beam_search", "false", "there is no beam search"},
    {"bad_words", "[]", kNoSampler},
    {"allowed_token_ids", "[]", kNoSampler},
    {"prompt_logprobs", "0", "only the answer has them"},
};

// Reads the keys of one object, and remembers them.
class BodyReader {
 public:
  explicit BodyReader(const Json& body, std::string prefix = "")
      : body_(body), prefix_(std::move(prefix)) {
    if (!body.is_object()) bad("", "is no JSON object");
  }

  // Null: the key is absent or null.
  const Json* find(const char* key) {
    known_.push_back(key);
    const auto at = body_.find(key);
    return at == body_.end() || at->is_null() ? nullptr : &*at;
  }
  bool boolean(const char* key, bool otherwise) {
    const Json* value = find(key);
    if (!value) return otherwise;
    if (!value->is_boolean()) bad(key, "is neither true nor false");
    return value->get<bool>();
  }
  int64_t integer(const char* key, int64_t otherwise, int64_t least, int64_t most) {
    const Json* value = find(key);
    if (!value) return otherwise;
    return whole(key, *value, least, most);
  }
  int64_t whole(const std::string& key, const Json& value, int64_t least, int64_t most) const {
    const std::string range =
        "is no whole number from " + std::to_string(least) + " to " + std::to_string(most);
    if (!value.is_number_integer()) bad(key, range);
    if (value.is_number_unsigned() &&
        value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      bad(key, range);
    const auto out = value.get<int64_t>();
    if (out < least || out > most) bad(key, range);
    return out;
  }
  double number(const char* key, double otherwise, double least, double most) {
    const Json* value = find(key);
    if (!value) return otherwise;
    const double out = value->is_number() ? value->get<double>() : NAN;
    if (!(out >= least && out <= most)) {
      bad(key, "is no number from " + Json(least).dump() + " to " + Json(most).dump());
    }
    return out;
  }
  std::string text(const char* key) {
    const Json* value = find(key);
    if (!value) return {};
    if (!value->is_string()) bad(key, "is no text");
    return value->get<std::string>();
  }
  void ignore(std::initializer_list<const char*> keys) {
    for (const char* key : keys) known_.emplace_back(key);
  }
  template <class List>
  void refuse_undone(const List& list) {
    for (const Undone& undone : list) {
      const Json* value = find(undone.key);
      if (value && *value != Json::parse(undone.off))
        bad(undone.key, "cannot be had: " + std::string(undone.why));
    }
  }
  // BadRequest for a key that nobody has asked for.
  void refuse_unknown() const {
    for (const auto& [key, value] : body_.items())
      if (!contains(known_, key)) bad(excerpt(key), "is no key here; " + did_you_mean(key, known_));
  }
  [[noreturn]] void bad(const std::string& key, const std::string& why) const {
    throw BadRequest(prefix_ + key, why);
  }

 private:
  const Json& body_;
  std::string prefix_;
  std::vector<std::string> known_;
};

std::vector<int64_t> token_list(const BodyReader& reader, const std::string& key, const Json& list,
                                const EndpointLimits& limits) {
  std::vector<int64_t> out;
  out.reserve(list.size());
  for (const Json& one : list) out.push_back(reader.whole(key, one, 0, limits.vocabulary - 1));
  return out;
}

// A text, a list of texts, a list of tokens, or a list of lists of tokens.
std::vector<Prompt> prompts_of(BodyReader& reader, const char* key, const EndpointLimits& limits) {
  const Json* value = reader.find(key);
  if (!value) reader.bad(key, "is missing");
  std::vector<Prompt> out;
  const auto add = [&](const Json& one) {
    if (one.is_string())
      out.push_back({{}, one.get<std::string>()});
    else if (one.is_array())
      out.push_back({token_list(reader, key, one, limits), {}});
    else
      reader.bad(key, "has an element that is neither a text nor a list of tokens");
  };
  const bool one =
      value->is_string() || (value->is_array() && !value->empty() && value->front().is_number());
  if (!one && !value->is_array()) reader.bad(key, "is neither a text nor a list");
  if (one)
    add(*value);
  else
    for (const Json& each : *value) {
      if (static_cast<int64_t>(out.size()) == limits.prompts)
        reader.bad(key, "has more than " + std::to_string(limits.prompts) + " prompts");
      add(each);
    }
  if (out.empty()) reader.bad(key, "is empty");
  for (const Prompt& prompt : out)
    if (prompt.text ? prompt.text->empty() : prompt.tokens.empty())
      reader.bad(key, "has an empty prompt");
  return out;
}

void need_model(BodyReader& reader, const EndpointLimits& limits) {
  const std::string model = reader.text("model");
  if (!model.empty() && model != limits.model)
    throw BadRequest(
        "model", "there is no model `" + excerpt(model) + "`; it is `" + limits.model + "`", 404);
}

void read_sampling(BodyReader& reader, CompletionRequest& out, const EndpointLimits& limits) {
  constexpr double kHottest = 100;
  out.sampling.temperature = static_cast<float>(reader.number("temperature", 1, 0, kHottest));
  out.sampling.top_p = static_cast<float>(reader.number("top_p", 1, 0, 1));
  if (out.sampling.top_p <= 0) reader.bad("top_p", "is no number above 0, up to 1");
  out.sampling.min_p = static_cast<float>(reader.number("min_p", 0, 0, 1));
  constexpr double kPenalty = 2, kRepetition = 100;
  out.sampling.frequency_penalty =
      static_cast<float>(reader.number("frequency_penalty", 0, -kPenalty, kPenalty));
  out.sampling.presence_penalty =
      static_cast<float>(reader.number("presence_penalty", 0, -kPenalty, kPenalty));
  out.sampling.repetition_penalty =
      static_cast<float>(reader.number("repetition_penalty", 1, 1 / kRepetition, kRepetition));
  // -1 is "off" as well.
  const auto top_k = reader.integer("top_k", 0, -1, std::numeric_limits<int32_t>::max());
  out.sampling.top_k = static_cast<int32_t>(std::clamp<int64_t>(top_k, 0, limits.vocabulary));
  if (const Json* seed = reader.find("seed"))
    out.seed = static_cast<uint64_t>(reader.whole(
        "seed", *seed, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
  reader.refuse_undone(kUndoneSampling);
}

void read_stops(BodyReader& reader, CompletionRequest& out, const EndpointLimits& limits) {
  constexpr size_t kStopMost = 256;  // bytes
  if (const Json* stop = reader.find("stop")) {
    const Json list = stop->is_array() ? *stop : Json::array({*stop});
    if (static_cast<int64_t>(list.size()) > limits.stops)
      reader.bad("stop", "has more than " + std::to_string(limits.stops) + " texts");
    for (const Json& one : list) {
      if (!one.is_string() || one.get<std::string>().empty() ||
          one.get<std::string>().size() > kStopMost)
        reader.bad("stop", "is no text of 1 to " + std::to_string(kStopMost) + " bytes");
      out.stop.push_back(one.get<std::string>());
    }
  }
  if (const Json* tokens = reader.find("stop_token_ids")) {
    if (!tokens->is_array()) reader.bad("stop_token_ids", "is no list");
    out.stop_tokens = token_list(reader, "stop_token_ids", *tokens, limits);
  }
  out.ignore_eos = reader.boolean("ignore_eos", false);
}

void read_stream(BodyReader& reader, CompletionRequest& out) {
  out.stream = reader.boolean("stream", false);
  if (const Json* options = reader.find("stream_options")) {
    if (!out.stream) reader.bad("stream_options", "is for `stream` only");
    BodyReader inner(*options, "stream_options.");
    out.usage = inner.boolean("include_usage", false);
    inner.ignore({"include_obfuscation"});
    inner.refuse_unknown();
  }
}

// The keys of all requests that write.
void read_common(BodyReader& reader, CompletionRequest& out, const EndpointLimits& limits) {
  need_model(reader, limits);
  out.n = reader.integer("n", 1, 1, limits.answers);
  read_sampling(reader, out, limits);
  read_stops(reader, out, limits);
  read_stream(reader, out);
  out.token_ids = reader.boolean("return_token_ids", false);
  reader.ignore(
      {"user", "metadata", "store", "service_tier", "prompt_cache_key", "safety_identifier"});
}

// Messages with a role and a content: a text, null, or a list of parts that are texts.
void check_messages(const BodyReader& reader, const Json& messages) {
  constexpr size_t kMessagesMost = 4096;
  if (!messages.is_array() || messages.empty() || messages.size() > kMessagesMost)
    reader.bad("messages", "is no list of 1 to " + std::to_string(kMessagesMost) + " messages");
  for (const Json& message : messages) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      reader.bad("messages", "has an element that is no object with a `role`");
    const Json content = message.value("content", Json());
    if (content.is_array()) {
      for (const Json& part : content)
        if (!part.is_object() || part.value("type", Json()) != "text" || !part.contains("text") ||
            !part["text"].is_string())
          reader.bad("messages", "has a content that is no text; this model reads texts only");
    } else if (!content.is_string() && !content.is_null()) {
      reader.bad("messages", "has a content that is no text");
    }
  }
}

// Contents in parts become one text, as most templates need it.
Json with_texts(Json messages) {
  for (Json& message : messages) {
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) continue;
    std::string text;
    for (const Json& part : *content)
      text += (text.empty() ? "" : "\n") + part["text"].get<std::string>();
    *content = text;
  }
  return messages;
}

// Without an effect on answers, or off.
constexpr Undone kUndoneChat[] = {
    {"response_format", "{\"type\":\"text\"}", "answers follow no grammar"},
    {"tool_choice", "\"none\"", "tools are shown to the model, but calls are not read"},
    {"parallel_tool_calls", "true", "calls of tools are not read"},
    {"functions", "[]", "use `tools`"},
    {"function_call", "\"none\"", "calls are not read"},
    {"modalities", "[\"text\"]", "answers are texts"},
    {"audio", "{}", "answers are texts"},
    {"prediction", "{}", "answers are not predicted"},
    {"continue_final_message", "false", "an answer begins a new message"},
};

}  // namespace

Json parse_body(std::string_view body) {
  try {
    return parse_json(body, "body");
  } catch (const Error& error) {
    throw BadRequest("", error.what());
  }
}

CompletionRequest completion_request(const Json& body, const EndpointLimits& limits) {
  BodyReader reader(body);
  CompletionRequest out;
  out.prompts = prompts_of(reader, "prompt", limits);
  read_common(reader, out, limits);
  out.max_tokens_given = reader.find("max_tokens") != nullptr;
  out.max_tokens = reader.integer("max_tokens", out.max_tokens, 1, limits.context);
  if (const Json* logprobs = reader.find("logprobs"))
    out.logprobs = reader.whole("logprobs", *logprobs, 0, limits.logprobs);
  out.echo = reader.boolean("echo", false);
  if (out.echo && out.logprobs) reader.bad("echo", "cannot be had with `logprobs`");
  reader.refuse_unknown();
  return out;
}

ChatRequest chat_request(const Json& body, const EndpointLimits& limits) {
  BodyReader reader(body);
  ChatRequest out;
  CompletionRequest& completion = out.completion;
  completion.chat = true;
  const Json* messages = reader.find("messages");
  if (!messages) reader.bad("messages", "is missing");
  check_messages(reader, *messages);
  out.messages = with_texts(*messages);
  if (const Json* tools = reader.find("tools")) {
    if (!tools->is_array()) reader.bad("tools", "is no list");
    if (!tools->empty()) out.tools = *tools;
  }
  if (const Json* variables = reader.find("chat_template_kwargs")) {
    if (!variables->is_object()) reader.bad("chat_template_kwargs", "is no object");
    out.variables = *variables;
  }
  out.add_generation_prompt = reader.boolean("add_generation_prompt", true);
  read_common(reader, completion, limits);
  for (const char* key : {"max_tokens", "max_completion_tokens"}) {
    const int64_t most = reader.integer(key, 0, 1, limits.context);
    if (most == 0) continue;
    completion.max_tokens_given = true;
    completion.max_tokens = most;
  }
  if (!completion.max_tokens_given) completion.max_tokens = limits.context;
  const bool logprobs = reader.boolean("logprobs", false);
  const int64_t best = reader.integer("top_logprobs", 0, 0, limits.logprobs);
  if (best > 0 && !logprobs) reader.bad("top_logprobs", "is for `logprobs` only");
  if (logprobs) completion.logprobs = best;
  reader.refuse_undone(kUndoneChat);
  reader.refuse_unknown();
  return out;
}

EmbeddingRequest embedding_request(const Json& body, const EndpointLimits& limits) {
  BodyReader reader(body);
  EmbeddingRequest out;
  need_model(reader, limits);
  out.inputs = prompts_of(reader, "input", limits);
  const std::string format = reader.text("encoding_format");
  if (!format.empty() && format != "float" && format != "base64")
    reader.bad("encoding_format", "is neither float nor base64");
  out.base64 = format == "base64";
  if (reader.find("dimensions")) reader.bad("dimensions", "cannot be had: embeddings are whole");
  reader.ignore({"user"});
  reader.refuse_unknown();
  return out;
}

}  // namespace fk
