// SPDX-License-Identifier: Apache-2.0
//
// From a conversation to the text which a model reads, by the Jinja template of the model.

#pragma once

#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/json.hpp"

namespace fk::text {

/// A template with the special tokens of its model. Cheap to copy. Several threads may use one.
class ChatTemplate {
 public:
  /// Parses a template; `name` stands for its file in messages. `variables` is an object with
  /// values for every conversation, such as `bos_token`. Error for a template which is not valid,
  /// or is nested or long beyond the limits.
  static ChatTemplate read(std::string_view jinja, const std::string& name, const Json& variables);

  /// The template of a checkpoint's folder: `chat_template.jinja`, else `chat_template` of
  /// tokenizer_config.json, with its special tokens. Nothing if the folder has no template.
  static std::optional<ChatTemplate> load(const std::filesystem::path& folder);

  /// The text of a conversation. `messages` is a list of objects with `role` and `content`. `tools`
  /// is a list or null. `variables` is an object or null, with more values, such as
  /// `enable_thinking`. Error with the template's words if the template refuses the conversation.
  std::string render(const Json& messages, const Json& tools, bool add_generation_prompt,
                     const Json& variables) const;

 private:
  struct Parsed;
  explicit ChatTemplate(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}

  std::shared_ptr<const Parsed> parsed_;
};

/// The clock behind strftime_now() of templates, in seconds since 1970. Tests of recorded texts
/// stop it, before any thread renders.
extern std::time_t (*template_clock)();

/// One conversation by a template which is used once.
std::string render(std::string_view jinja, const Json& messages, const Json& tools,
                   bool add_generation_prompt, const Json& variables);

}  // namespace fk::text
