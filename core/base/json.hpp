// SPDX-License-Identifier: Apache-2.0
//
// Reads JSON from outside (configurations, safetensors headers, messages of a worker), with bounded
// depth and size; duplicate keys are refused. Config is the view of a HuggingFace config.json for
// models. Only forward declarations of nlohmann-json are included here: a file that touches Json
// itself includes <nlohmann/json.hpp>.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

/// Keeps the order of keys. Look-up in an object is linear.
using Json = nlohmann::ordered_json;

inline constexpr int kJsonDepthMax = 64;
inline constexpr std::size_t kJsonValuesMax = 8'000'000;

/// Reads and parses a file. Error names file, line and column.
Json load_json(const std::filesystem::path& path);

/// Parses `text`; `name` stands for the file in messages. A duplicate key is refused with its path
/// inside the document, as are NaN, trailing text, depth beyond kJsonDepthMax and more values than
/// kJsonValuesMax.
Json parse_json(std::string_view text, const std::string& name);

/// A read-only view of a JSON object. Cheap to copy. A null value counts as an absent key. Errors
/// name the file, the path of the key and the nearest present key. A watched config records the
/// keys that its reader asks for, so that unread keys can be refused.
class Config {
 public:
  /// Accepts a bare Infinity in place of a number, as Python writes it.
  static Config load(const std::filesystem::path& path);
  /// `where` is the name in messages. Error unless `json` is an object.
  Config(Json json, std::string where);

  bool has(std::string_view key) const;

  int64_t integer(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t fallback) const;
  double number(std::string_view key) const;
  double number(std::string_view key, double fallback) const;
  std::string text(std::string_view key) const;
  std::string text(std::string_view key, std::string fallback) const;
  bool boolean(std::string_view key) const;
  bool boolean(std::string_view key, bool fallback) const;

  /// The object under a key, with the path in its messages. Error when it is absent.
  Config child(std::string_view key) const;
  /// The objects of a list. Error when absent or when an element is no object.
  std::vector<Config> children(std::string_view key) const;

  /// Lists. The one-argument forms refuse an absent key. A number is not accepted as a list of one.
  std::vector<int64_t> integers(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key, std::vector<int64_t> fallback) const;
  std::vector<double> numbers(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key, std::vector<std::string> fallback) const;

  bool is_list(std::string_view key) const;
  bool is_object(std::string_view key) const;
  bool is_number(std::string_view key) const;

  /// Present keys (null ones left out) in file order.
  std::vector<std::string> keys() const;

  /// A copy with the overrides merged in: objects recursively, all else replaced; null removes.
  /// A key absent from this config is accepted: its absence may mean a default.
  Config with(const Json& overrides) const;

  /// A copy in which absent keys have their values from `defaults`. A null replaces a default.
  /// Nested objects are not merged.
  Config or_else(const Json& defaults) const;

  /// A copy that records the keys asked for by its reader. All configs made from it share the
  /// record.
  Config watched() const;
  /// Records everything below a key as asked for: the reader knows that the key has no effect.
  void ignore(std::string_view key) const;
  /// Error at the first key of this object, nested keys included, that no reader of `watched` asked
  /// for; it names the nearest key asked for. `harmless` keys are accepted at any depth, with
  /// everything below them.
  void refuse_unread(const Config& watched, const std::vector<std::string>& harmless) const;

  const Json& json() const;
  const std::string& where() const { return where_; }
  /// Throws Error at this object, or at one of its keys.
  [[noreturn]] void fail(std::string what, std::string hint = "") const;
  [[noreturn]] void fail_at(std::string_view key, std::string what, std::string hint = "") const;

 private:
  struct Record;

  Config(std::shared_ptr<const Json> json, std::string where);
  Config below(const Json& json, std::string_view key) const;
  Config holding(Json json) const;
  void note(std::string_view key) const;
  const Json* find(std::string_view key) const;
  const Json& need(std::string_view key) const;

  std::shared_ptr<const Json> json_;
  std::string where_;
  std::shared_ptr<Record> record_;  // null: not watched
  std::string path_;                // of this object in the watched document, "rope_parameters."
};

}  // namespace fk
