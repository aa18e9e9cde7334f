// SPDX-License-Identifier: Apache-2.0
//
// A bounded JSON reader on nlohmann-json's event parser, and Config.

#include "core/base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"

namespace fk {
namespace {

// Line and column, one-based, of a byte offset.
std::string position(const std::string& name, std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t start = before.rfind('\n');
  const std::size_t column =
      before.size() - (start == std::string_view::npos ? 0 : start + 1) + (before.empty() ? 1 : 0);
  return fmt::format("{}:{}:{}", name, line, std::max<std::size_t>(column, 1));
}

// Builds the tree without nlohmann's linear look-up for each inserted key: an object of 100,000
// keys takes linear time.
class TextReader {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  TextReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  bool null() { return leaf(nullptr); }
  bool boolean(bool value) { return leaf(value); }
  bool number_integer(number_integer_t value) { return leaf(value); }
  bool number_unsigned(number_unsigned_t value) { return leaf(value); }
  bool number_float(number_float_t value, const string_t&) { return leaf(value); }
  bool string(string_t& value) { return leaf(std::move(value)); }
  bool binary(binary_t&) { return false; }

  bool start_object(std::size_t) { return open(Json::object()); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_array() { return close(); }

  bool key(string_t& value) {
    Level& level = levels_.back();
    if (!level.keys.insert(value).second) {
      fail(name_, fmt::format("the key `{}` is there twice", excerpt(path() + value, 200)));
    }
    level.key = std::move(value);
    return true;
  }

  bool parse_error(std::size_t offset, const std::string&,
                   const nlohmann::detail::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ..."
    std::string what = error.what();
    const std::size_t begin = what.find(": ");
    if (begin != std::string::npos) what = what.substr(begin + 2);
    fail(position(name_, text_, offset), "not valid JSON: " + excerpt(what, 300));
  }

  Json take() { return std::move(root_); }

 private:
  struct Level {
    Json* value;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  std::string path() const {
    std::string result;
    for (std::size_t i = 0; i + 1 < levels_.size(); ++i) {
      result += levels_[i].value->is_object() ? levels_[i].key + "." : "[].";
    }
    return result;
  }

  Json* put(Json value) {
    if (++count_ > kJsonValuesMax) fail(name_, fmt::format("more than {} values", kJsonValuesMax));
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.value->is_array()) {
      auto& array = level.value->get_ref<Json::array_t&>();
      array.push_back(std::move(value));
      return &array.back();
    }
    // ordered_map is a vector of pairs; the keys are already known to be unique.
    using Pairs = std::vector<std::pair<const std::string, Json>>;
    Pairs& pairs = level.value->get_ref<Json::object_t&>();
    pairs.emplace_back(level.key, std::move(value));
    return &pairs.back().second;
  }

  template <class T>
  bool leaf(T&& value) {
    put(Json(std::forward<T>(value)));
    return true;
  }

  bool open(Json value) {
    if (levels_.size() >= static_cast<std::size_t>(kJsonDepthMax)) {
      fail(name_, fmt::format("nested deeper than {} levels", kJsonDepthMax));
    }
    Json* place = put(std::move(value));
    levels_.push_back({place, {}, {}});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& name_;
  Json root_;
  std::vector<Level> levels_;
  std::size_t count_ = 0;
};

// The kind and value of a JSON node, for messages; long values are cut.
std::string found(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return "`" + excerpt(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 60) +
         "`";
}

// Older versions of transformers write a bare Infinity, which is no JSON. The result has the
// spelling of newer versions.
std::string name_infinities(std::string_view text) {
  constexpr std::string_view kBare = "Infinity";
  std::string out;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!quoted && text.substr(i).starts_with(kBare)) {
      const bool negative = !out.empty() && out.back() == '-';
      if (negative) out.pop_back();
      out += fmt::format(R"({{"__float__": "{}Infinity"}})", negative ? "-" : "");
      i += kBare.size() - 1;
      continue;
    }
    out += text[i];
    if (quoted && text[i] == '\\' && i + 1 < text.size())
      out += text[++i];
    else if (text[i] == '"')
      quoted = !quoted;
  }
  return out;
}

// The spelling of transformers 5 for numbers that JSON lacks.
bool is_named_number(const Json& value) {
  return value.is_object() && value.size() == 1 && value.contains("__float__");
}

std::string key_at(std::string_view key, std::size_t index) {
  return fmt::format("{}[{}]", key, index);
}

}  // namespace

Json load_json(const std::filesystem::path& path) {
  return parse_json(read_file(path), path.string());
}

Json parse_json(std::string_view text, const std::string& name) {
  TextReader builder(text, name);
  try {
    // A return of false comes with parse_error, which throws.
    Json::sax_parse(text.begin(), text.end(), &builder);
  } catch (const Json::exception& error) {
    fail(name, std::string("not valid JSON: ") + excerpt(error.what(), 300));
  }
  return builder.take();
}

Config Config::load(const std::filesystem::path& path) {
  return Config(parse_json(name_infinities(read_file(path)), path.string()), path.string());
}

Config::Config(Json json, std::string where)
    : Config(std::make_shared<const Json>(std::move(json)), std::move(where)) {}

Config::Config(std::shared_ptr<const Json> json, std::string where)
    : json_(std::move(json)), where_(std::move(where)) {
  if (!json_->is_object()) fk::fail(where_, "expected an object, found " + found(*json_));
}

const Json& Config::json() const { return *json_; }

void Config::fail(std::string what, std::string hint) const {
  fk::fail(where_, std::move(what), std::move(hint));
}
void Config::fail_at(std::string_view key, std::string what, std::string hint) const {
  fk::fail(where_, fmt::format("`{}`: {}", key, what), std::move(hint));
}

// Paths of the keys that were asked for, "rope_parameters.factor".
struct Config::Record {
  std::set<std::string> read, ignored;

  // Names that were asked for in the object at `path`.
  std::vector<std::string> known(const std::string& path) const {
    std::vector<std::string> names;
    for (const std::string& name : read)
      if (starts_with(name, path) && name.find('.', path.size()) == std::string::npos)
        names.push_back(name.substr(path.size()));
    return names;
  }
};

Config Config::watched() const {
  Config copy = *this;
  copy.record_ = std::make_shared<Record>();
  copy.path_.clear();
  return copy;
}

void Config::note(std::string_view key) const {
  if (record_) record_->read.insert(path_ + std::string(key));
}

void Config::ignore(std::string_view key) const {
  note(key);
  if (record_) record_->ignored.insert(path_ + std::string(key));
}

void Config::refuse_unread(const Config& watched, const std::vector<std::string>& harmless) const {
  const Record& record = *watched.record_;
  for (const auto& [key, value] : json_->items()) {
    const std::string path = path_ + key;
    if (contains(harmless, key) || record.ignored.count(path) > 0) continue;
    if (record.read.count(path) == 0) {
      auto known = record.known(path_);
      known.insert(known.end(), harmless.begin(), harmless.end());
      const std::string near = nearest(key, known);
      fail_at(key, "no reader of this configuration knows this key",
              near.empty() ? "remove it if it changes no answer, or name it under `ignore` of the "
                             "model's description"
                           : "did you mean `" + near + "`?");
    }
    if (value.is_object() && !is_named_number(value))
      below(value, key).refuse_unread(watched, harmless);
    if (!value.is_array()) continue;
    for (size_t i = 0; i < value.size(); ++i)
      if (value[i].is_object() && !is_named_number(value[i]))
        below(value[i], key_at(key, i)).refuse_unread(watched, harmless);
  }
}

const Json* Config::find(std::string_view key) const {
  note(key);
  const auto place = json_->find(std::string(key));
  return place == json_->end() || place->is_null() ? nullptr : &*place;
}

const Json& Config::need(std::string_view key) const {
  const Json* value = find(key);
  if (value != nullptr) return *value;
  if (json_->contains(std::string(key))) fail_at(key, "it is null, which has no meaning here");
  fail(fmt::format("`{}` is missing", key), did_you_mean(key, keys()));
}

bool Config::has(std::string_view key) const { return find(key) != nullptr; }

namespace {

// One reader per type; `key` is for the message.
int64_t as_integer(const Config& config, std::string_view key, const Json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t{INT64_MAX}) {
    return value.get<int64_t>();
  }
  if (value.is_number_integer() && !value.is_number_unsigned()) return value.get<int64_t>();
  // Python writes 1e6 and 10000.0 where an integer is meant.
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number > -9e15 && number < 9e15 &&
        static_cast<double>(static_cast<int64_t>(number)) == number) {
      return static_cast<int64_t>(number);
    }
  }
  config.fail_at(key, "expected an integer, found " + found(value));
}

double as_number(const Config& config, std::string_view key, const Json& value) {
  if (is_named_number(value)) {
    const Json& name = value["__float__"];
    if (name == "Infinity") return std::numeric_limits<double>::infinity();
    if (name == "-Infinity") return -std::numeric_limits<double>::infinity();
  }
  if (!value.is_number()) config.fail_at(key, "expected a number, found " + found(value));
  return value.get<double>();
}

std::string as_text(const Config& config, std::string_view key, const Json& value) {
  if (!value.is_string()) config.fail_at(key, "expected text, found " + found(value));
  return value.get<std::string>();
}

bool as_boolean(const Config& config, std::string_view key, const Json& value) {
  if (!value.is_boolean()) config.fail_at(key, "expected true or false, found " + found(value));
  return value.get<bool>();
}

template <class Read>
auto as_list(const Config& config, std::string_view key, const Json& value, const Read& read) {
  if (!value.is_array()) config.fail_at(key, "expected a list, found " + found(value));
  std::vector<decltype(read(config, key, value))> result;
  for (const Json& item : value) result.push_back(read(config, key_at(key, result.size()), item));
  return result;
}

}  // namespace

int64_t Config::integer(std::string_view key) const { return as_integer(*this, key, need(key)); }
int64_t Config::integer(std::string_view key, int64_t fallback) const {
  const Json* value = find(key);
  return value == nullptr ? fallback : as_integer(*this, key, *value);
}
double Config::number(std::string_view key) const { return as_number(*this, key, need(key)); }
double Config::number(std::string_view key, double fallback) const {
  const Json* value = find(key);
  return value == nullptr ? fallback : as_number(*this, key, *value);
}
std::string Config::text(std::string_view key) const { return as_text(*this, key, need(key)); }
std::string Config::text(std::string_view key, std::string fallback) const {
  const Json* value = find(key);
  return value == nullptr ? fallback : as_text(*this, key, *value);
}
bool Config::boolean(std::string_view key) const { return as_boolean(*this, key, need(key)); }
bool Config::boolean(std::string_view key, bool fallback) const {
  const Json* value = find(key);
  return value == nullptr ? fallback : as_boolean(*this, key, *value);
}

Config Config::child(std::string_view key) const {
  const Json& value = need(key);
  if (!value.is_object()) fail_at(key, "expected an object, found " + found(value));
  return below(value, key);
}

// Shares this config's document and record.
Config Config::below(const Json& json, std::string_view key) const {
  Config child(std::shared_ptr<const Json>(json_, &json), fmt::format("{}: {}", where_, key));
  child.record_ = record_;
  child.path_ = path_ + std::string(key) + ".";
  return child;
}

std::vector<Config> Config::children(std::string_view key) const {
  const Json& value = need(key);
  return as_list(*this, key, value,
                 [this](const Config& config, std::string_view item_key, const Json& item) {
                   if (!item.is_object()) {
                     config.fail_at(item_key, "expected an object, found " + found(item));
                   }
                   return below(item, item_key);
                 });
}

std::vector<int64_t> Config::integers(std::string_view key) const {
  return as_list(*this, key, need(key), as_integer);
}
std::vector<int64_t> Config::integers(std::string_view key, std::vector<int64_t> fallback) const {
  return has(key) ? integers(key) : fallback;
}
std::vector<double> Config::numbers(std::string_view key) const {
  return as_list(*this, key, need(key), as_number);
}
std::vector<std::string> Config::texts(std::string_view key) const {
  return as_list(*this, key, need(key), as_text);
}
std::vector<std::string> Config::texts(std::string_view key,
                                       std::vector<std::string> fallback) const {
  return has(key) ? texts(key) : fallback;
}

bool Config::is_list(std::string_view key) const { return has(key) && find(key)->is_array(); }
bool Config::is_object(std::string_view key) const { return has(key) && find(key)->is_object(); }
bool Config::is_number(std::string_view key) const { return has(key) && find(key)->is_number(); }

std::vector<std::string> Config::keys() const {
  std::vector<std::string> result;
  for (const auto& [key, value] : json_->items()) {
    if (!value.is_null()) result.push_back(key);
  }
  return result;
}

Config Config::with(const Json& overrides) const {
  if (!overrides.is_object()) fail("overrides must be an object, found " + found(overrides));
  Json merged = *json_;
  merged.merge_patch(overrides);
  return holding(std::move(merged));
}

Config Config::or_else(const Json& defaults) const {
  Json merged = *json_;
  for (const auto& [key, value] : defaults.items())
    if (!merged.contains(key)) merged[key] = value;
  return holding(std::move(merged));
}

// Another document in the place of this one, with the same record.
Config Config::holding(Json json) const {
  Config copy = *this;
  copy.json_ = std::make_shared<const Json>(std::move(json));
  return copy;
}

}  // namespace fk
