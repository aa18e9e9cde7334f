// SPDX-License-Identifier: Apache-2.0
#include "core/endpoint/model_endpoint.hpp"

#include <charconv>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/text.hpp"

namespace fk {

extern const char* const endpoint_page;  // core/endpoint/page.html

namespace {

const std::vector<std::string> kPosts = {"/v1/completions", "/v1/chat/completions",
                                         "/v1/embeddings"};
const std::vector<std::string> kGets = {"/",        "/health", "/info",
                                        "/metrics", "/mirror", "/v1/models"};

constexpr std::string_view kModel = "/v1/models/";

// `%2F` and its like as the characters that they stand for.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* code = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(code, code + 2, value, 16).ptr == code + 2) {
      out += static_cast<char>(value);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

ApiAnswer wrong_method(const std::string& allowed) {
  ApiAnswer out = openai_error(405, "this path takes " + allowed);
  out.headers.emplace_back("Allow", allowed);
  return out;
}

}  // namespace

ModelEndpoint::ModelEndpoint(Options options, LiveModel& model)
    : options_(std::move(options)),
      model_(model),
      metrics_(options_.limits.model),
      begun_s_(std::time(nullptr)) {}

ApiAnswer ModelEndpoint::fault(unsigned status, const std::string& what,
                               const std::string& hint) const {
  return openai_error(status, "the request: " + what + (hint.empty() ? "" : " (" + hint + ")"));
}

ApiAnswer ModelEndpoint::answer(const ApiRequest& request) {
  try {
    return routed(request);
  } catch (const BadRequest& bad) {
    ApiAnswer out = openai_error(bad.status(), bad.what(), bad.key());
    if (bad.status() == 429 || bad.status() == 503) out.headers.emplace_back("Retry-After", "1");
    return out;
  } catch (const std::exception& error) {
    log_warn(std::string("a request failed: ") + error.what());
    return openai_error(500, "the server failed");
  }
}

ApiAnswer ModelEndpoint::routed(const ApiRequest& request) {
  const std::string path = request.target.substr(0, request.target.find('?'));
  const bool get = request.method == "GET" || request.method == "HEAD";
  if (path == "/health") {
    if (!get) return wrong_method("GET");
    if (draining_) throw BadRequest("", "the server ends", 503);
    if (!model_.state().ready) throw BadRequest("", "the model's process starts again", 503);
    return {200, "{\"status\":\"ok\"}\n"};
  }
  if (path == "/") {  // it has no secret, and asks for a token itself
    if (!get) return wrong_method("GET");
    return {200, endpoint_page, "text/html; charset=utf-8"};
  }
  if (request.client.empty()) {
    ApiAnswer out =
        openai_error(401, "the request has no token of this server: Authorization: Bearer TOKEN");
    out.headers.emplace_back("WWW-Authenticate", "Bearer");
    return out;
  }
  if (path == "/metrics") {
    if (!get) return wrong_method("GET");
    return {200, metrics_.text(model_.state()), "text/plain; version=0.0.4; charset=utf-8"};
  }
  if (path == "/info") return get ? info() : wrong_method("GET");
  if (path == "/mirror") return get ? mirrored() : wrong_method("GET");
  if (path == "/v1/models") return get ? models() : wrong_method("GET");
  if (starts_with(path, kModel)) return get ? model_of(path) : wrong_method("GET");
  if (contains(kPosts, path))
    return request.method == "POST" ? posted(request, path) : wrong_method("POST");
  std::vector<std::string> known = kPosts;
  known.insert(known.end(), kGets.begin(), kGets.end());
  return openai_error(404, "there is no `" + excerpt(path) + "`; " + did_you_mean(path, known));
}

Json ModelEndpoint::model_json() const {
  return {{"id", options_.limits.model},
          {"object", "model"},
          {"created", begun_s_},
          {"owned_by", "fk-host"},
          {"max_model_len", options_.limits.context}};
}

ApiAnswer ModelEndpoint::models() const {
  return {200, Json{{"object", "list"}, {"data", {model_json()}}}.dump() + "\n"};
}

// A name may have slashes; clients write them as %2F.
ApiAnswer ModelEndpoint::model_of(const std::string& path) const {
  const std::string name = unescaped(std::string_view(path).substr(kModel.size()));
  if (name == options_.limits.model) return {200, model_json().dump() + "\n"};
  throw BadRequest(
      "model", "there is no model `" + excerpt(name) + "`; it is `" + options_.limits.model + "`",
      404);
}

ApiAnswer ModelEndpoint::info() const {
  Json out = {{"model", options_.limits.model},
              {"device", options_.device},
              {"context", options_.limits.context},
              {"texts", options_.tokenizer.has_value()},
              {"chat", options_.tokenizer && options_.chat},
              {"candidates", options_.candidates},
              {"ops", Json::array()}};
  for (const OpRow& row : options_.ops)
    out["ops"].push_back(
        {{"phase", row.phase}, {"op", row.op}, {"provider", row.provider}, {"nodes", row.nodes}});
  return {200, out.dump() + "\n"};
}

MirrorReport ModelEndpoint::mirror_report() const {
  MirrorReport report = options_.mirror->report();
  report.model = options_.limits.model;
  report.device = options_.device;
  report.candidates = options_.candidates;
  return report;
}

ApiAnswer ModelEndpoint::mirrored() const {
  if (!options_.mirror) throw BadRequest("", "no candidate runs beside this model (--mirror)", 404);
  return {200, document(mirror_report()).dump() + "\n"};
}

// BadRequest when too many answers are open.
void ModelEndpoint::need_room(size_t more) const {
  const auto state = model_.state();
  if (state.waiting + state.running + static_cast<int64_t>(more) > options_.open_most)
    throw BadRequest("",
                     std::to_string(state.waiting + state.running) +
                         " answers are open, and the server has at most " +
                         std::to_string(options_.open_most),
                     429);
}

ApiAnswer ModelEndpoint::posted(const ApiRequest& request, const std::string& path) {
  if (draining_) throw BadRequest("", "the server ends and takes no more requests", 503);
  const std::string type(trim(request.type.substr(0, request.type.find(';'))));
  if (type != "application/json")
    throw BadRequest("", "a request is JSON (Content-Type: application/json)", 415);
  const bool embeds = path == "/v1/embeddings";
  if (embeds == options_.limits.writes)
    throw BadRequest("",
                     embeds ? "this model writes texts and has no embeddings; POST /v1/completions"
                            : "this model reads texts and writes none; POST /v1/embeddings",
                     404);
  const EndpointParts parts{model_,
                            metrics_,
                            options_.limits,
                            options_.eos,
                            options_.tokenizer ? &*options_.tokenizer : nullptr,
                            options_.mirror,
                            options_.recorder};
  const Json body = parse_body(request.body);
  if (path == "/v1/chat/completions") return chat(parts, body);
  if (!embeds) return write(parts, completion_request(body, options_.limits), "prompt");
  EmbeddingRequest wanted = embedding_request(body, options_.limits);
  tokenize(wanted.inputs, "input", true);
  need_room(wanted.inputs.size());
  return begin_embedding(parts, std::move(wanted));
}

void ModelEndpoint::tokenize(std::vector<Prompt>& prompts, const char* key,
                             bool add_special) const {
  for (Prompt& prompt : prompts) {
    if (!prompt.text) continue;
    if (!options_.tokenizer)
      throw BadRequest(key, "is a text, and this model has no tokenizer; give numbers of tokens");
    for (const int32_t id : options_.tokenizer->encode(*prompt.text, add_special)) {
      if (id >= options_.limits.vocabulary)
        throw BadRequest(key, "has token " + std::to_string(id) +
                                  ", outside the model's vocabulary of " +
                                  std::to_string(options_.limits.vocabulary));
      prompt.tokens.push_back(id);
    }
    if (prompt.tokens.empty()) throw BadRequest(key, "has no token");
  }
}

ApiAnswer ModelEndpoint::write(const EndpointParts& parts, CompletionRequest wanted,
                               const char* key) const {
  tokenize(wanted.prompts, key, !wanted.chat);
  if (!wanted.stop.empty() && !parts.tokenizer)
    throw BadRequest("stop", "needs a tokenizer, which this model has not; `stop_token_ids` works");
  need_room(wanted.prompts.size() * static_cast<size_t>(wanted.n));
  return begin_completion(parts, std::move(wanted));
}

ApiAnswer ModelEndpoint::chat(const EndpointParts& parts, const Json& body) const {
  if (!options_.chat || !options_.tokenizer)
    throw BadRequest("",
                     std::string("this model has no ") +
                         (options_.tokenizer ? "chat template" : "tokenizer") +
                         "; POST /v1/completions",
                     404);
  ChatRequest wanted = chat_request(body, options_.limits);
  Prompt prompt;
  try {
    prompt.text = options_.chat->render(wanted.messages, wanted.tools, wanted.add_generation_prompt,
                                        wanted.variables);
  } catch (const Error& error) {
    throw BadRequest("messages", std::string("the template refuses them: ") + error.what());
  }
  if (prompt.text->empty()) throw BadRequest("messages", "the template makes no text of them");
  wanted.completion.prompts.push_back(std::move(prompt));
  return write(parts, std::move(wanted.completion), "messages");
}

}  // namespace fk
