// SPDX-License-Identifier: Apache-2.0
#include "core/check/recorded.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/tensor/tensor.hpp"

namespace fk {

namespace {

// A case without the place and number of its occurrences.
std::string identity(Json text) {
  for (const char* field : {"name", "path", "provider", "workload", "step", "count", "outputs"})
    text.erase(field);
  return text.dump();
}

// Table rows by key. The numbers of equal keys are added.
class Rows {
 public:
  explicit Rows(std::vector<std::string> key) : key_(std::move(key)) {}
  Json& row(const Json& like) {
    std::string text;
    for (const auto& field : key_) text += like.at(field).dump() + "\n";
    const auto [it, fresh] = index_.try_emplace(text, rows_.size());
    if (fresh) {
      rows_.push_back(like);
      for (auto& [name, value] : rows_.back().items())
        if (value.is_number()) value = 0;
    }
    return rows_[it->second];
  }
  static void add(Json& row, const char* name, int64_t value) {
    row[name] = row.at(name).get<int64_t>() + value;
  }
  Json take() { return std::move(rows_); }

 private:
  std::vector<std::string> key_;
  Json rows_ = Json::array();
  std::map<std::string, size_t> index_;
};

int64_t integer_at(const Json& row, const char* name) { return row.at(name).get<int64_t>(); }

}  // namespace

Json merge_recorded(const std::vector<Json>& by_rank) {
  Json cases = Json::array(), tensors = Json::object();
  std::map<std::string, size_t> known;
  Rows ops({"op", "phase"}), left_out({"op", "phase", "why"});
  int64_t bytes = 0;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Json& recorded = by_rank[rank];
    for (const auto& row : recorded.at("ops")) {
      Json& sum = ops.row(row);
      Rows::add(sum, "calls", integer_at(row, "calls"));
      sum["shapes"] = std::max(integer_at(sum, "shapes"), integer_at(row, "shapes"));
    }
    for (const auto& row : recorded.at("left_out"))
      Rows::add(left_out.row(row), "calls", integer_at(row, "calls"));
    for (const auto& text : recorded.at("cases")) {
      const auto [it, fresh] = known.try_emplace(identity(text), cases.size());
      if (!fresh) {
        Rows::add(cases[it->second], "count", integer_at(text, "count"));
        continue;
      }
      cases.push_back(text);
      Rows::add(ops.row(text), "cases", 1);
      if (rank == 0) continue;
      cases.back()["name"] = text.at("name").get<std::string>() + ".rank" + std::to_string(rank);
      cases.back()["rank"] = rank;
    }
    for (const auto& [name, tensor] : recorded.at("tensors").items()) {
      if (tensors.contains(name)) continue;
      tensors[name] = tensor;
      tensors[name]["rank"] = rank;
      bytes += shape_bytes(tensor.at("shape").get<Shape>(),
                           dtype_from_name(tensor.at("dtype").get<std::string>(), name), name);
    }
  }
  return {{"ops", ops.take()},
          {"cases", std::move(cases)},
          {"left_out", left_out.take()},
          {"tensors", std::move(tensors)},
          {"bytes", bytes}};
}

}  // namespace fk
