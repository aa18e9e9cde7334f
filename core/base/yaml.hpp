// SPDX-License-Identifier: Apache-2.0
//
// A strict reader of YAML. People and agents write contracts, scenarios and model descriptions, so
// every error names the file, line, column and the nearest known key. The document is a flat tree
// of our own, built from the parser's events; yaml-cpp stays inside yaml.cpp. Anchors, aliases,
// tags, merge keys, non-scalar keys, duplicate keys and further documents are refused. Depth, size
// and number of nodes are bounded, so hostile files are safe.

#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fk {

namespace detail {
struct YamlDocument;
struct YamlNode;
}  // namespace detail

/// A node of a parsed document. Cheap to copy; keeps its document alive; immutable, so several
/// threads can read it. Every exception is an Error with the location where().
class Yaml {
 public:
  static constexpr std::size_t kBytesMax = std::size_t{16} << 20;
  static constexpr std::size_t kNodesMax = 1'000'000;
  static constexpr int kDepthMax = 64;

  /// Reads and parses a file; the path is the name in locations.
  static Yaml load(const std::filesystem::path& path);
  /// Parses `text`; `name` stands for the file in locations. An empty text is a null node.
  static Yaml parse(std::string text, std::string name);

  bool is_map() const;
  bool is_list() const;
  bool is_scalar() const;  ///< a scalar that is not null
  bool is_null() const;    ///< plain ~, null, Null, NULL or an empty value
  bool quoted() const;     ///< a scalar in quotes or a block scalar: "1" is text, 1 a number

  /// Maps: true if the key is present, even with a null value. False for other kinds.
  bool has(std::string_view key) const;
  /// Maps: the value of a key. Error if the key is absent, with the nearest present key.
  Yaml at(std::string_view key) const;
  /// Maps: the value, or nothing if the key is absent. Error if this is neither a map nor null.
  std::optional<Yaml> find(std::string_view key) const;

  /// The scalar as written. Error for null, lists and maps.
  const std::string& text() const;
  /// A whole number within int64, decimal or with 0x. Error for all else: quotes, `_`, a fraction.
  int64_t integer() const;
  /// An integer, a decimal, .inf, -.inf or .nan. Error for all else, also in quotes.
  double number() const;
  /// true or false. Error for all else, also in quotes.
  bool boolean() const;

  // The same, with a value for an absent key. Error if the key is present with null.
  std::string text_or(std::string_view key, std::string fallback) const;
  int64_t integer_or(std::string_view key, int64_t fallback) const;
  double number_or(std::string_view key, double fallback) const;
  bool boolean_or(std::string_view key, bool fallback) const;

  /// Elements of a list in order; empty for null; Error otherwise.
  std::vector<Yaml> items() const;
  /// Pairs of a map in file order; empty for null; Error otherwise.
  std::vector<std::pair<std::string, Yaml>> entries() const;
  /// Keys of a map in file order; empty for other kinds.
  std::vector<std::string> keys() const;
  /// Number of items or entries; 0 for scalars and null.
  std::size_t size() const;

  /// Refuses every unknown key of this map, at the key's own position, with the nearest known one.
  void only(std::initializer_list<std::string_view> known) const;
  void only(const std::vector<std::string>& known) const;

  /// "file:line:column", one-based.
  std::string where() const;
  int line() const;
  const std::string& file() const;  ///< the name given to load or parse
  /// Throws Error at this node.
  [[noreturn]] void fail(std::string what, std::string hint = "") const;

 private:
  Yaml(std::shared_ptr<const detail::YamlDocument> document, int32_t index)
      : document_(std::move(document)), index_(index) {}
  const detail::YamlNode& node() const;
  [[noreturn]] void expected(std::string_view kind) const;
  const std::string& plain(std::string_view kind) const;
  void only_known(const std::vector<std::string>& known) const;

  std::shared_ptr<const detail::YamlDocument> document_;
  int32_t index_ = 0;
};

}  // namespace fk
