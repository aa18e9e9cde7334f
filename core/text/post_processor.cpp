// SPDX-License-Identifier: Apache-2.0

#include "core/text/post_processor.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/text.hpp"

namespace fk::text {
namespace {

int32_t as_id(const Config& config, const std::string& key, int64_t id) {
  if (id < 0 || id > INT32_MAX) config.fail_at(key, "expected an id of 0 to 2147483647");
  return static_cast<int32_t>(id);
}

// The second element of ["[CLS]", 101].
int32_t token_of(const Config& config, const std::string& key) {
  config.has(key);
  const Json& json = config.json();
  if (!json.contains(key) || !json[key].is_array() || json[key].size() != 2 ||
      !json[key][1].is_number_integer()) {
    config.fail_at(key, "expected a token and its id");
  }
  return as_id(config, key, json[key][1].get<int64_t>());
}

// The form for one text has {"SpecialToken": {"id": "<s>"}} or {"Sequence": {"id": "A"}}.
std::vector<int32_t> template_of(const Config& config, int32_t text) {
  for (const char* key : {"pair", "special_tokens", "single"}) config.ignore(key);
  const Config tokens = config.child("special_tokens");
  std::vector<int32_t> items;
  for (const Config& item : config.children("single")) {
    if (item.has("Sequence")) {
      if (item.child("Sequence").text("id") != "A") {
        item.fail_at("Sequence", "one text is the sequence A");
      }
      items.push_back(text);
      continue;
    }
    const std::string name = item.child("SpecialToken").text("id");
    if (!tokens.has(name)) {
      tokens.fail(fmt::format("`{}` of `single` is missing", excerpt(name)),
                  did_you_mean(name, tokens.keys()));
    }
    for (const int64_t id : tokens.child(name).integers("ids")) {
      items.push_back(as_id(tokens, name, id));
    }
  }
  return items;
}

}  // namespace

PostProcessor::PostProcessor(const Config& config) { read(config); }

void PostProcessor::read(const Config& config) {
  const std::string type = config.text("type");
  if (type == "Sequence") {
    for (const Config& step : config.children("processors")) read(step);
  } else if (type == "TemplateProcessing") {
    steps_.push_back(template_of(config, kText));
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    for (const char* key : {"trim_offsets", "add_prefix_space"}) config.ignore(key);
    steps_.push_back({token_of(config, "cls"), kText, token_of(config, "sep")});
  } else if (type == "ByteLevel") {
    for (const char* key : {"trim_offsets", "add_prefix_space", "use_regex"}) config.ignore(key);
  } else {
    config.fail_at("type", fmt::format("the post-processor `{}` is not supported", excerpt(type)),
                   did_you_mean(type, {"BertProcessing", "ByteLevel", "RobertaProcessing",
                                       "Sequence", "TemplateProcessing"}));
  }
}

std::vector<int32_t> PostProcessor::apply(std::vector<int32_t> ids) const {
  for (const std::vector<int32_t>& step : steps_) {
    std::vector<int32_t> out;
    out.reserve(ids.size() + step.size());
    for (const int32_t item : step) {
      if (item == kText) {
        out.insert(out.end(), ids.begin(), ids.end());
      } else {
        out.push_back(item);
      }
    }
    ids = std::move(out);
  }
  return ids;
}

}  // namespace fk::text
