// SPDX-License-Identifier: Apache-2.0
//
// Templates run in minja (external/minja), with the settings and functions of transformers.

#include "core/text/chat_template.hpp"

#include <fmt/format.h>

#include <cctype>
#include <ctime>
#include <minja.hpp>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"

namespace fk::text {

std::time_t (*template_clock)() = [] { return std::time(nullptr); };

namespace {

// Limits of a template. The parser and the interpreter call themselves for each level, and the
// parser's expressions for each character of a run. Known templates stay far below: they have at
// most 30 kB, 10 blocks and 3 brackets inside each other, and 27 operators in a tag.
constexpr std::size_t kTemplateMax = 256 * 1024;
constexpr std::size_t kCommentMax = 4096, kRunMax = 1024;
constexpr int kBlocksMax = 50, kBracketsMax = 40, kOperatorsMax = 500;

class Limits {
 public:
  Limits(std::string_view jinja, const std::string& name) : jinja_(jinja), name_(name) {}

  void check() {
    need(jinja_.size(), kTemplateMax, "bytes");
    std::size_t spaces = 0, letters = 0;
    for (const char c : jinja_) {
      const bool space = c == ' ' || (c >= 9 && c <= 13);
      spaces = space ? spaces + 1 : 0;
      letters = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ? letters + 1 : 0;
      need(spaces, kRunMax, "spaces in a row");
      need(letters, kRunMax, "letters in a word");
    }
    while (at_ < jinja_.size()) {
      if (begins("{#")) {
        const std::size_t end = std::min(jinja_.find("#}", at_), jinja_.size());
        need(end - at_, kCommentMax, "bytes in a comment");
        at_ = end;
      } else if (begins("{%") || begins("{{")) {
        tag();
      } else {
        ++at_;
      }
    }
  }

 private:
  bool begins(std::string_view text) const { return jinja_.substr(at_).starts_with(text); }

  template <class Count>
  void need(Count count, Count most, const char* what) const {
    if (count > most) fail(name_, fmt::format("the template has more than {} {}", most, what));
  }

  void tag() {
    const std::string_view close = begins("{%") ? "%}" : "}}";
    std::string_view words = jinja_.substr(at_ + 2);
    while (!words.empty() && (words[0] == '-' || words[0] == '~' || words[0] == ' ')) {
      words.remove_prefix(1);
    }
    if (close == "%}") blocks_ += words.starts_with("end") ? -1 : opens_block(words);
    need(blocks_, kBlocksMax, "blocks inside each other");
    int brackets = 0, operators = 0;
    for (at_ += 2; at_ < jinja_.size() && !(brackets == 0 && begins(close)); ++at_) {
      const char c = jinja_[at_];
      if (c == '"' || c == '\'') {
        skip_quoted(c);
      } else if (c == '(' || c == '[' || c == '{') {
        need(++brackets, kBracketsMax, "brackets inside each other");
      } else if (c == ')' || c == ']' || c == '}') {
        brackets = std::max(0, brackets - 1);
      }
      const bool word = begins("not") || begins("and") || begins("or") || begins("if");
      operators += word || std::string_view("-+*/~|.%=<>,:([{").find(c) != std::string::npos;
      need(operators, kOperatorsMax, "operators in a tag");
    }
  }

  static int opens_block(std::string_view words) {
    for (const char* word : {"if", "for", "macro", "call", "filter", "generation", "block"}) {
      if (words.starts_with(word)) return 1;
    }
    // `set` with a value is no block.
    const std::string_view head = words.substr(0, words.find("%}"));
    return words.starts_with("set") && head.find('=') == std::string_view::npos ? 1 : 0;
  }

  void skip_quoted(char quote) {
    for (++at_; at_ < jinja_.size() && jinja_[at_] != quote; ++at_) at_ += jinja_[at_] == '\\';
  }

  std::string_view jinja_;
  const std::string& name_;
  std::size_t at_ = 0;
  int blocks_ = 0;
};

using Arguments = minja::ArgumentsValue;
using ContextPointer = std::shared_ptr<minja::Context>;

minja::Value strftime_now(const ContextPointer&, Arguments& arguments) {
  arguments.expectArgs("strftime_now", {1, 1}, {0, 0});
  const auto format = arguments.args[0].get<std::string>();
  const std::time_t now = template_clock();
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
  Limits(jinja, name).check();
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
