// SPDX-License-Identifier: Apache-2.0
#include "core/cases/received.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/cases/generator_text.hpp"

namespace fk {

std::vector<int64_t> received_rows(const ResolvedCase& resolved,
                                   const std::function<Tensor(const ResolvedCase&)>& choices) {
  if (!resolved.contract->comm())
    fail(resolved.contract->where, "rows come from ranks, and it has no communicator");
  const int64_t ranks = resolved.axes.at(resolved.contract->comm()->axis);
  const int64_t most = resolved.axes.at("max_tokens_per_rank");
  const int64_t local = (resolved.axes.at("num_experts") + ranks - 1) / ranks;
  std::vector<std::vector<int64_t>> by_expert(static_cast<size_t>(local));
  ResolvedCase there = resolved;
  for (there.rank = 0; there.rank < ranks; ++there.rank) {
    const Tensor chosen = choices(there);
    const int64_t top_k = chosen.shape[1];
    for (int64_t i = 0; i < chosen.numel(); ++i) {
      const int64_t expert = static_cast<int64_t>(chosen.at(i)) - resolved.rank * local;
      if (expert >= 0 && expert < local)
        by_expert[static_cast<size_t>(expert)].push_back(there.rank * most * top_k + i);
    }
  }
  std::vector<int64_t> all;
  for (const auto& rows : by_expert) all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

namespace {

// The field with the experts of tokens, found by its generator.
std::string field_of_choices(const Contract& contract) {
  for (const Slot& slot : contract.section(SectionId::forward)) {
    if (!slot.is_tensor() || slot.values.empty()) continue;
    const std::string generator = GeneratorText::parse(slot.values, contract.where).name;
    if (generator == "unique" || generator == "routed") return slot.name;
  }
  fail(contract.where, "its cost counts tokens, and no field says which experts they choose");
}

// Crossings [from][to] for all ranks: tokens of one rank that choose an expert of another.
std::vector<std::vector<int64_t>> crossings(const ResolvedCase& resolved, int64_t ranks,
                                            const Choices& choices) {
  const std::string field = field_of_choices(*resolved.contract);
  const int64_t local = (resolved.axes.at("num_experts") + ranks - 1) / ranks;
  const auto size = static_cast<size_t>(ranks);
  std::vector<std::vector<int64_t>> out(size, std::vector<int64_t>(size + 1, 0));
  ResolvedCase there = resolved;
  for (there.rank = 0; there.rank < ranks; ++there.rank) {
    const Tensor chosen = choices(there, field);
    auto& row = out[static_cast<size_t>(there.rank)];
    for (int64_t t = 0; t < chosen.shape[0]; ++t) {
      std::vector<bool> at(size, false);
      for (int64_t k = 0; k < chosen.shape[1]; ++k) {
        const auto expert = static_cast<int64_t>(chosen.at(t * chosen.shape[1] + k));
        if (expert >= 0 && expert < local * ranks) at[static_cast<size_t>(expert / local)] = true;
      }
      for (size_t r = 0; r < size; ++r) row[r] += at[r];
      at[static_cast<size_t>(there.rank)] = false;
      row[size] += std::find(at.begin(), at.end(), true) != at.end();  // to any other rank
    }
  }
  return out;
}

}  // namespace

double wire_bytes(const ResolvedCase& resolved, const Choices& choices) {
  const Contract& contract = *resolved.contract;
  if (!contract.wire || !contract.comm()) return 0;
  const auto symbols = contract.wire->symbols();
  if (!symbols.count("tokens_in") && !symbols.count("tokens_out"))
    return static_cast<double>(contract.wire->eval(resolved.axes));
  const int64_t ranks = resolved.axes.at(contract.comm()->axis);
  const auto sent = crossings(resolved, ranks, choices);
  int64_t most = 0;
  for (size_t to = 0; to < sent.size(); ++to) {
    Axes axes = resolved.axes;
    int64_t& in = axes["tokens_in"] = 0;
    for (size_t from = 0; from < sent.size(); ++from) in += from == to ? 0 : sent[from][to];
    axes["tokens_out"] = sent[to].back();
    most = std::max(most, contract.wire->eval(axes));
  }
  return static_cast<double>(most);
}

}  // namespace fk
