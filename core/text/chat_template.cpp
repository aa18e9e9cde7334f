// SPDX-License-Identifier: Apache-2.0
//
// Templates run in minja (external/minja), with the settings and functions of transformers.

#include "core/text/chat_template.hpp"

#include <fmt/format.h>

#include <ctime>
#include <minja.hpp>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"

namespace fk::text {
namespace {

// Templates of known models have at most 30 kB and 20 levels. The parser and the interpreter call
// themselves for each level.
constexpr std::size_t kTemplateMax = 256 * 1024;
constexpr int kLevelsMax = 150;

// An upper bound for the depth of expressions and blocks, by counting.
void check_levels(std::string_view jinja, const std::string& name) {
  int brackets = 0, blocks = 0, deepest = 0, unary = 0;
  for (std::size_t at = 0; at < jinja.size(); ++at) {
    const char c = jinja[at];
    const std::string_view rest = jinja.substr(at);
    if (c == '(' || c == '[' || c == '{') ++brackets;
    if (c == ')' || c == ']' || c == '}') brackets = std::max(0, brackets - 1);
    if (c == '\n' || rest.starts_with("{{") || rest.starts_with("{%")) brackets = unary = 0;
    const std::string_view word = trim(rest.substr(std::min<std::size_t>(rest.size(), 2)));
    if (rest.starts_with("{%")) blocks += starts_with(word, "end") ? -1 : 1;
    unary += c == '-' || c == '+' || rest.starts_with("not ") || rest.starts_with("else ") ||
             c == '*' || c == '|' || c == '.';
    deepest = std::max({deepest, brackets, unary / 4});
    static_cast<void>(blocks);
  }
  if (deepest > kLevelsMax) fail(name, fmt::format("nested deeper than {} levels", kLevelsMax));
}

using Arguments = minja::ArgumentsValue;
using ContextPointer = std::shared_ptr<minja::Context>;

minja::Value strftime_now(const ContextPointer&, Arguments& arguments) {
  arguments.expectArgs("strftime_now", {1, 1}, {0, 0});
  const auto format = arguments.args[0].get<std::string>();
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[256];
  return std::string(text, std::strftime(text, sizeof text, format.c_str(), &local));
}

// Like minja's, but takes the arguments which transformers allows.
minja::Value tojson(const ContextPointer&, Arguments& arguments) {
  if (arguments.args.empty()) throw std::runtime_error("tojson needs a value");
  int64_t indent = -1;
  for (const auto& [name, value] : arguments.kwargs) {
    if (name == "indent" && !value.is_null()) indent = value.get<int64_t>();
    const bool usual = (name == "ensure_ascii" || name == "sort_keys") && !value.to_bool();
    if (name != "indent" && !usual) throw std::runtime_error("tojson: unknown argument " + name);
  }
  if (arguments.args.size() > 1) indent = arguments.args[1].get<int64_t>();
  return arguments.args[0].dump(static_cast<int>(indent), /* to_json= */ true);
}

// Python's `strip` of any value as text.
minja::Value trimmed(const ContextPointer&, Arguments& arguments) {
  if (arguments.args.size() != 1) throw std::runtime_error("trim takes one value");
  const minja::Value& value = arguments.args[0];
  return value.is_null() ? minja::Value("") : minja::Value(std::string(trim(value.to_str())));
}

// The test `defined` of selectattr.
minja::Value defined(const ContextPointer&, Arguments& arguments) {
  return !arguments.args.empty() && !arguments.args[0].is_null();
}

// transformers gives a message's reasoning under two names, whatever name the caller used.
void name_reasoning(Json& messages) {
  for (Json& message : messages) {
    if (!message.is_object()) throw std::runtime_error("a message is no object");
    for (const char* key : {"reasoning_content", "thinking", "reasoning"}) {
      if (!message.contains(key) || message[key].is_null()) continue;
      const Json reasoning = message[key];
      if (!message.contains("thinking")) message["thinking"] = reasoning;
      message["reasoning_content"] = reasoning;
      break;
    }
  }
}

// bos_token and others: a text, or an object with `content`.
Json special_tokens(const Json& config) {
  Json tokens = Json::object();
  for (const auto& [key, value] : config.items()) {
    if (!ends_with(key, "_token")) continue;
    if (value.is_string()) tokens[key] = value;
    if (value.is_object() && value.contains("content")) tokens[key] = value["content"];
  }
  return tokens;
}

// `chat_template` is a text, or a list of named ones; `default` is for conversations.
std::optional<std::string> template_in(const Json& config, const std::string& name) {
  if (!config.contains("chat_template") || config["chat_template"].is_null()) return std::nullopt;
  const Json& value = config["chat_template"];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    for (const Json& item : value) {
      if (item.is_object() && item.value("name", "") == "default") {
        return item.value("template", "");
      }
    }
  }
  fail(name, "`chat_template`: expected text, or a list with the name `default`");
}

}  // namespace

struct ChatTemplate::Parsed {
  std::string name;
  std::shared_ptr<minja::TemplateNode> root;
  Json variables;
};

ChatTemplate ChatTemplate::read(std::string_view jinja, const std::string& name,
                                const Json& variables) {
  if (jinja.size() > kTemplateMax) {
    fail(name, fmt::format("the template has {} bytes, at most {}", jinja.size(), kTemplateMax));
  }
  check_levels(jinja, name);
  auto parsed = std::make_shared<Parsed>();
  parsed->name = name;
  parsed->variables = variables;
  try {
    parsed->root = minja::Parser::parse(
        std::string(jinja),
        {.trim_blocks = true, .lstrip_blocks = true, .keep_trailing_newline = false});
  } catch (const std::exception& error) {
    fail(name, "the chat template is not valid: " + excerpt(error.what(), 400));
  }
  return ChatTemplate(parsed);
}

std::optional<ChatTemplate> ChatTemplate::load(const std::filesystem::path& folder) {
  Json config = Json::object();
  const std::filesystem::path file = folder / "tokenizer_config.json";
  if (std::filesystem::exists(file)) config = load_json(file);
  if (!config.is_object()) fail(file.string(), "expected an object");
  const Json tokens = special_tokens(config);
  const std::filesystem::path jinja = folder / "chat_template.jinja";
  if (std::filesystem::exists(jinja)) return read(read_file(jinja), jinja.string(), tokens);
  const auto text = template_in(config, file.string());
  if (!text) return std::nullopt;
  return read(*text, file.string(), tokens);
}

std::string ChatTemplate::render(const Json& messages, const Json& tools,
                                 bool add_generation_prompt, const Json& variables) const {
  if (!messages.is_array()) fail("messages", "expected a list");
  try {
    Json values = parsed_->variables;
    values["messages"] = messages;
    name_reasoning(values["messages"]);
    values["tools"] = tools;
    values["documents"] = nullptr;
    values["add_generation_prompt"] = add_generation_prompt;
    if (variables.is_object()) values.update(variables);
    const auto context = minja::Context::make(minja::Value(values));
    context->set("strftime_now", minja::Value::callable(strftime_now));
    context->set("tojson", minja::Value::callable(tojson));
    context->set("trim", minja::Value::callable(trimmed));
    context->set("defined", minja::Value::callable(defined));
    return parsed_->root->render(context);
  } catch (const std::exception& error) {
    fail(parsed_->name, "the template refuses the conversation: " + excerpt(error.what(), 400));
  }
}

std::string render(std::string_view jinja, const Json& messages, const Json& tools,
                   bool add_generation_prompt, const Json& variables) {
  return ChatTemplate::read(jinja, "chat_template", Json::object())
      .render(messages, tools, add_generation_prompt, variables);
}

}  // namespace fk::text
