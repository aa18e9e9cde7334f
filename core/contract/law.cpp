// SPDX-License-Identifier: Apache-2.0
// Reads the laws of a contract for models (law.hpp).
#include "core/contract/law.hpp"

#include <cstdlib>

#include "core/base/text.hpp"

namespace fk {

namespace {

// A list of names, or "a.{q,k}.b" for "a.q.b" and "a.k.b".
std::vector<std::string> read_parts(const Yaml& node) {
  if (node.is_list()) {
    std::vector<std::string> names;
    for (const auto& item : node.items()) names.push_back(item.text());
    return names;
  }
  const std::string text = node.text();
  const size_t open = text.find('{'), close = text.find('}');
  if (open == std::string::npos) return {text};
  if (close == std::string::npos || close < open) node.fail("`{` without `}`");
  std::vector<std::string> names;
  for (const auto& word : split(text.substr(open + 1, close - open - 1), ','))
    names.push_back(text.substr(0, open) + word + text.substr(close + 1));
  return names;
}

// normal(MEAN,STDDEV) or gain(EXPRESSION).
void read_random(const Yaml& node, WeightLaw& law) {
  const std::string text = node.text();
  const size_t open = text.find('(');
  const std::string kind = text.substr(0, open);
  if (open != std::string::npos && text.back() == ')') {
    const std::string inside = text.substr(open + 1, text.size() - open - 2);
    if (kind == "gain") {
      law.gain = Expr::parse(inside, node.where());
      return;
    }
    const auto numbers = split(inside, ',');
    if (kind == "normal" && numbers.size() == 2) {
      law.mean = std::strtod(numbers[0].c_str(), nullptr);
      law.stddev = std::strtod(numbers[1].c_str(), nullptr);
      return;
    }
  }
  node.fail("`" + text + "` is no law of random values", "normal(0,0.1) or gain(C)");
}

std::vector<Expr> read_exprs(const Yaml& node) {
  std::vector<Expr> all;
  for (const auto& item : node.items()) all.push_back(Expr::parse(item.text(), item.where()));
  return all;
}

ViewLaw read_view(const Yaml& node) {
  node.only({"shape", "axis", "start", "length", "order"});
  ViewLaw view;
  view.shape = read_exprs(node.at("shape"));
  if (auto axis = node.find("axis")) view.axis = static_cast<int>(axis->integer());
  if (auto start = node.find("start")) view.start = Expr::parse(start->text(), start->where());
  if (auto length = node.find("length")) view.length = Expr::parse(length->text(), length->where());
  if (auto order = node.find("order"))
    for (const auto& item : order->items()) view.order.push_back(static_cast<int>(item.integer()));
  return view;
}

}  // namespace

WeightLaw read_weight_law(const Yaml& node) {
  WeightLaw law;
  if (!node.is_map()) {
    law.name = node.text();
    return law;
  }
  node.only({"name", "parts", "rows", "random", "view", "map", "usual"});
  law.name = node.at("name").text();
  if (auto parts = node.find("parts")) law.parts = read_parts(*parts);
  if (auto rows = node.find("rows")) {
    law.rows = read_exprs(*rows);
    if (law.rows.size() != law.parts.size())
      rows->fail("there are " + std::to_string(law.parts.size()) + " parts");
  }
  if (auto random = node.find("random")) read_random(*random, law);
  if (auto view = node.find("view")) law.view = read_view(*view);
  if (auto map = node.find("map")) {
    if (map->text() != "-exp") map->fail("`" + map->text() + "` is no map", "-exp");
    law.negative_exp = true;
  }
  if (auto usual = node.find("usual")) law.usual = usual->boolean();
  return law;
}

std::map<std::string, ShardLaw> read_shard_laws(const Yaml& node,
                                                const std::vector<std::string>& known) {
  static const std::map<std::string, ShardLaw> kLaws = {
      {"heads", ShardLaw::heads},     {"kv_heads", ShardLaw::kv_heads},
      {"columns", ShardLaw::columns}, {"expert_columns", ShardLaw::expert_columns},
      {"experts", ShardLaw::experts}, {"whole", ShardLaw::whole},
      {"first", ShardLaw::first},     {"sum", ShardLaw::sum}};
  std::map<std::string, ShardLaw> laws;
  for (const auto& [name, word] : node.entries()) {
    if (!contains(known, name))
      word.fail("`" + name + "` is neither an axis nor a field", did_you_mean(name, known));
    const auto it = kLaws.find(word.text());
    if (it == kLaws.end()) {
      std::vector<std::string> words;
      for (const auto& [text, law] : kLaws) words.push_back(text);
      word.fail("`" + word.text() + "` is no way to divide", did_you_mean(word.text(), words));
    }
    laws[name] = it->second;
  }
  return laws;
}

}  // namespace fk
