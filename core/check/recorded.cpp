// SPDX-License-Identifier: Apache-2.0
#include "core/check/recorded.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/fields.hpp"

namespace fk {

namespace {

// A case without the place and number of its occurrences.
std::string identity(const RecordedCase& recorded) {
  RecordedCase bare = recorded;
  for (auto* text : {&bare.name, &bare.path, &bare.provider, &bare.workload}) text->clear();
  bare.step = bare.count = 0;
  bare.outputs.clear();
  return to_fields(bare).dump();
}

// The row of this op and phase, and of this reason for calls that were left out.
template <class Row>
Row& row_like(std::vector<Row>& rows, const Row& like) {
  const auto same = [&](const Row& row) {
    if constexpr (requires { row.why; })
      if (row.why != like.why) return false;
    return row.op == like.op && row.phase == like.phase;
  };
  if (const auto it = std::ranges::find_if(rows, same); it != rows.end()) return *it;
  Row& fresh = rows.emplace_back();
  fresh.op = like.op, fresh.phase = like.phase;
  if constexpr (requires { fresh.why; }) fresh.why = like.why;
  return fresh;
}

}  // namespace

Recording merge_recorded(const std::vector<Recording>& by_rank) {
  Recording out;
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < by_rank.size(); ++i) {
    const Recording& recorded = by_rank[i];
    const auto rank = static_cast<int64_t>(i);
    for (const RecordedOp& row : recorded.ops) {
      RecordedOp& sum = row_like(out.ops, row);
      sum.calls += row.calls;
      sum.shapes = std::max(sum.shapes, row.shapes);
    }
    for (const LeftOutCalls& row : recorded.left_out)
      row_like(out.left_out, row).calls += row.calls;
    for (const RecordedCase& one : recorded.cases) {
      const auto [it, fresh] = known.try_emplace(identity(one), out.cases.size());
      if (!fresh) {
        out.cases[it->second].count += one.count;
        continue;
      }
      RecordedCase& kept = out.cases.emplace_back(one);
      ++row_like(out.ops, RecordedOp{one.op, one.phase, 0, 0, 0}).cases;
      kept.rank = rank;
      if (rank > 0) kept.name += ".rank" + std::to_string(rank);
    }
    for (const auto& [name, tensor] : recorded.tensors) {
      const auto [it, fresh] = out.tensors.try_emplace(name, tensor);
      if (!fresh) continue;
      it->second.rank = rank;
      out.bytes += shape_bytes(tensor.shape, dtype_from_name(tensor.dtype, name), name);
    }
  }
  return out;
}

}  // namespace fk
