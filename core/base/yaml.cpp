// SPDX-License-Identifier: Apache-2.0
//
// Builds a flat tree from yaml-cpp's events. YAML::Node is not used: it resolves aliases, keeps
// duplicates, looks keys up linearly with conversions and recurses when it is destroyed.

#include "core/base/yaml.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <unordered_map>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"

namespace fk {
namespace detail {

enum class YamlKind : uint8_t { null, scalar, list, map };

struct YamlNode {
  YamlKind kind = YamlKind::null;
  bool quoted = false;
  int line = 1, column = 1;
  std::string text;
  // Lists: the items. Maps: key, value, key, value; keys are scalar nodes.
  std::vector<int32_t> children;
  std::unordered_map<std::string_view, int32_t> values;  // views into the key nodes' text
};

struct YamlDocument {
  std::string name;
  std::vector<YamlNode> nodes;
};

}  // namespace detail

namespace {

using detail::YamlDocument;
using detail::YamlKind;
using detail::YamlNode;

std::string position(const std::string& name, int line, int column) {
  return fmt::format("{}:{}:{}", name, line, column);
}

// Exceptions pass through the parser unchanged; yaml-cpp does not catch.
class EventReader : public YAML::EventHandler {
 public:
  explicit EventReader(YamlDocument& document) : document_(document) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    add(mark, YamlKind::null);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases are not supported", "write the value out");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    const bool quoted = tag == "!";
    const bool null = !quoted && (value.empty() || value == "~" || value == "null" ||
                                  value == "Null" || value == "NULL");
    YamlNode& node = add(mark, null ? YamlKind::null : YamlKind::scalar);
    node.quoted = quoted;
    node.text = value;
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlKind::list);
  }
  void OnSequenceEnd() override { open_.pop_back(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlKind::map);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  [[noreturn]] void refuse(const YAML::Mark& mark, std::string what, std::string hint = "") {
    fk::fail(position(document_.name, mark.line + 1, mark.column + 1), std::move(what),
             std::move(hint));
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) refuse(mark, "anchors are not supported", "write the value out");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    refuse(mark, fmt::format("the tag `{}` is not supported", excerpt(tag)));
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlKind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (open_.size() >= static_cast<std::size_t>(Yaml::kDepthMax)) {
      refuse(mark, fmt::format("nested deeper than {} levels", Yaml::kDepthMax));
    }
    add(mark, kind);
    open_.push_back(static_cast<int32_t>(document_.nodes.size()) - 1);
  }

  YamlNode& add(const YAML::Mark& mark, YamlKind kind) {
    std::vector<YamlNode>& nodes = document_.nodes;
    if (nodes.size() >= Yaml::kNodesMax) {
      refuse(mark, fmt::format("more than {} nodes", Yaml::kNodesMax));
    }
    if (!open_.empty()) {
      YamlNode& parent = nodes[static_cast<std::size_t>(open_.back())];
      const bool is_key = parent.kind == YamlKind::map && parent.children.size() % 2 == 0;
      if (is_key && (kind == YamlKind::list || kind == YamlKind::map)) {
        refuse(mark, "a key must be a plain word");
      }
      parent.children.push_back(static_cast<int32_t>(nodes.size()));
    }
    nodes.emplace_back();
    YamlNode& node = nodes.back();
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  YamlDocument& document_;
  std::vector<int32_t> open_;
};

// Runs after the parse, when the vector of nodes no longer moves the keys' text.
void index_keys(YamlDocument& document) {
  for (YamlNode& map : document.nodes) {
    if (map.kind != YamlKind::map) continue;
    for (std::size_t i = 0; i + 1 < map.children.size(); i += 2) {
      const YamlNode& key = document.nodes[static_cast<std::size_t>(map.children[i])];
      if (key.kind != YamlKind::scalar) {
        fk::fail(position(document.name, key.line, key.column), "a key must be a plain word");
      }
      if (key.text == "<<" && !key.quoted) {
        fk::fail(position(document.name, key.line, key.column), "merge keys are not supported");
      }
      const auto [first, inserted] = map.values.emplace(key.text, map.children[i + 1]);
      if (inserted) continue;
      const auto value = static_cast<std::size_t>(first->second);
      fk::fail(position(document.name, key.line, key.column),
               fmt::format("the key `{}` is there twice", excerpt(key.text)),
               fmt::format("the first value is in line {}", document.nodes[value].line));
    }
  }
}

void parse_events(const std::string& text, YamlDocument& document) {
  std::istringstream stream(text);
  try {
    YAML::Parser parser(stream);
    EventReader builder(document);
    parser.HandleNextDocument(builder);
    const std::size_t count = document.nodes.size();
    if (count > 0 && parser.HandleNextDocument(builder) && document.nodes.size() > count) {
      const YamlNode& second = document.nodes[count];
      fk::fail(position(document.name, second.line, second.column), "a second document begins",
               "one document per file");
    }
  } catch (const YAML::Exception& error) {
    const YAML::Mark mark = error.mark;
    fk::fail(
        mark.is_null() ? document.name : position(document.name, mark.line + 1, mark.column + 1),
        "not valid YAML: " + excerpt(error.msg, 200));
  }
  if (document.nodes.empty()) document.nodes.emplace_back();
}

template <class T>
bool whole(std::string_view text, T& value, int base) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return code == std::errc{} && end == text.data() + text.size();
}

bool to_integer(std::string_view text, int64_t& value) {
  if (text.starts_with("+-")) return false;
  if (text.starts_with('+')) text.remove_prefix(1);
  const bool negative = text.starts_with('-');
  std::string_view digits = negative ? text.substr(1) : text;
  if (digits.empty() || digits[0] == '-' || digits[0] == '+') return false;
  if (!digits.starts_with("0x") && !digits.starts_with("0X")) return whole(text, value, 10);
  digits.remove_prefix(2);
  if (digits.empty() || digits[0] == '-' || negative) return false;
  return whole(digits, value, 16);
}

bool to_number(std::string_view text, double& value) {
  int64_t integer = 0;
  if (to_integer(text, integer)) {
    value = static_cast<double>(integer);
    return true;
  }
  if (text == ".nan" || text == ".NaN") value = std::numeric_limits<double>::quiet_NaN();
  if (text == ".inf" || text == "+.inf") value = std::numeric_limits<double>::infinity();
  if (text == "-.inf") value = -std::numeric_limits<double>::infinity();
  if (text == ".nan" || text == ".NaN" || text.ends_with(".inf")) return text.size() <= 5;
  if (text.starts_with("+-")) return false;
  if (text.starts_with('+')) text.remove_prefix(1);
  // from_chars takes "inf" and "nan"; YAML does not.
  if (text.find_first_not_of("0123456789+-.eE") != std::string_view::npos) return false;
  if (text.empty() || text[0] == '+') return false;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc{} && end == text.data() + text.size();
}

}  // namespace

Yaml Yaml::load(const std::filesystem::path& path) {
  return parse(read_file(path, kBytesMax), path.string());
}

Yaml Yaml::parse(std::string text, std::string name) {
  if (text.size() > kBytesMax) {
    fk::fail(name, fmt::format("larger than {}", human_bytes(int64_t{kBytesMax})));
  }
  auto document = std::make_shared<YamlDocument>();
  document->name = std::move(name);
  if (text.find('\0') != std::string::npos) {
    fk::fail(document->name, "not valid YAML: contains a zero byte");
  }
  parse_events(text, *document);
  index_keys(*document);
  return Yaml(std::move(document), 0);
}

const YamlNode& Yaml::node() const { return document_->nodes[static_cast<std::size_t>(index_)]; }

bool Yaml::is_map() const { return node().kind == YamlKind::map; }
bool Yaml::is_list() const { return node().kind == YamlKind::list; }
bool Yaml::is_scalar() const { return node().kind == YamlKind::scalar; }
bool Yaml::is_null() const { return node().kind == YamlKind::null; }
bool Yaml::quoted() const { return node().quoted; }
int Yaml::line() const { return node().line; }
const std::string& Yaml::file() const { return document_->name; }
std::string Yaml::where() const { return position(document_->name, node().line, node().column); }

void Yaml::fail(std::string what, std::string hint) const {
  fk::fail(where(), std::move(what), std::move(hint));
}

void Yaml::expected(std::string_view kind) const {
  const YamlNode& self = node();
  const std::string found = self.kind == YamlKind::null   ? "nothing"
                            : self.kind == YamlKind::list ? "a list"
                            : self.kind == YamlKind::map  ? "a map"
                            : self.quoted ? "the quoted text `" + excerpt(self.text) + "`"
                                          : "`" + excerpt(self.text) + "`";
  fail(fmt::format("expected {}, found {}", kind, found));
}

bool Yaml::has(std::string_view key) const { return node().values.contains(key); }

std::optional<Yaml> Yaml::find(std::string_view key) const {
  if (is_null()) return std::nullopt;
  if (!is_map()) expected("a map");
  const auto found = node().values.find(key);
  if (found == node().values.end()) return std::nullopt;
  return Yaml(document_, found->second);
}

Yaml Yaml::at(std::string_view key) const {
  std::optional<Yaml> found = find(key);
  if (!found) fail(fmt::format("the key `{}` is missing", key), did_you_mean(key, keys()));
  return *found;
}

const std::string& Yaml::text() const {
  if (!is_scalar()) expected("text");
  return node().text;
}

const std::string& Yaml::plain(std::string_view kind) const {
  if (!is_scalar() || quoted()) expected(kind);
  return node().text;
}

int64_t Yaml::integer() const {
  int64_t value = 0;
  if (!to_integer(plain("an integer"), value)) expected("an integer");
  return value;
}

double Yaml::number() const {
  double value = 0;
  if (!to_number(plain("a number"), value)) expected("a number");
  return value;
}

bool Yaml::boolean() const {
  const std::string& value = plain("true or false");
  if (value != "true" && value != "false") expected("true or false");
  return value == "true";
}

std::string Yaml::text_or(std::string_view key, std::string fallback) const {
  const std::optional<Yaml> found = find(key);
  return found ? found->text() : fallback;
}
int64_t Yaml::integer_or(std::string_view key, int64_t fallback) const {
  const std::optional<Yaml> found = find(key);
  return found ? found->integer() : fallback;
}
double Yaml::number_or(std::string_view key, double fallback) const {
  const std::optional<Yaml> found = find(key);
  return found ? found->number() : fallback;
}
bool Yaml::boolean_or(std::string_view key, bool fallback) const {
  const std::optional<Yaml> found = find(key);
  return found ? found->boolean() : fallback;
}

std::vector<Yaml> Yaml::items() const {
  if (!is_list() && !is_null()) expected("a list");
  std::vector<Yaml> result;
  result.reserve(node().children.size());
  for (const int32_t child : node().children) result.push_back(Yaml(document_, child));
  return result;
}

std::vector<std::pair<std::string, Yaml>> Yaml::entries() const {
  if (!is_map() && !is_null()) expected("a map");
  std::vector<std::pair<std::string, Yaml>> result;
  const std::vector<int32_t>& children = node().children;
  for (std::size_t i = 0; i + 1 < children.size(); i += 2) {
    result.emplace_back(document_->nodes[static_cast<std::size_t>(children[i])].text,
                        Yaml(document_, children[i + 1]));
  }
  return result;
}

std::vector<std::string> Yaml::keys() const {
  std::vector<std::string> result;
  if (!is_map()) return result;
  for (std::size_t i = 0; i < node().children.size(); i += 2) {
    result.push_back(document_->nodes[static_cast<std::size_t>(node().children[i])].text);
  }
  return result;
}

std::size_t Yaml::size() const {
  return is_map() ? node().children.size() / 2 : node().children.size();
}

void Yaml::only(std::initializer_list<std::string_view> known) const {
  only_known({known.begin(), known.end()});
}
void Yaml::only(const std::vector<std::string>& known) const { only_known(known); }

void Yaml::only_known(const std::vector<std::string>& known) const {
  if (is_null()) return;
  if (!is_map()) expected("a map");
  for (std::size_t i = 0; i < node().children.size(); i += 2) {
    const Yaml key(document_, node().children[i]);
    const std::string& name = key.node().text;
    bool found = false;
    for (const std::string& other : known) found = found || other == name;
    if (!found) key.fail("unknown key `" + excerpt(name) + "`", did_you_mean(name, known));
  }
}

}  // namespace fk
