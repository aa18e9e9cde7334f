// SPDX-License-Identifier: Apache-2.0
// Every count, integer and index of every contract exceeds 8 and 16 bits in a case of each
// judgement. Otherwise the contract says why it cannot. The list is made from the contracts.
#include <algorithm>
#include <map>

#include "core/base/paths.hpp"
#include "core/cases/inputs.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

constexpr int64_t kAbove16 = int64_t{1} << 16, kAbove8 = int64_t{1} << 8;

bool is_judged_always(const Case& c) { return c.size == "smoke" || c.size == kRangeSize; }

// Indices that a kernel reads: whole numbers in a dtype that holds more than 8 bits.
bool is_index(const CaseField& f) {
  return f.present && f.slot->role != Role::out && !is_float(f.dtype) && bytes(f.dtype) > 1;
}

using Most = std::map<std::string, int64_t>;  // by axis, integer or index

void raise(Most& most, const std::string& name, int64_t value) {
  const auto [at, fresh] = most.emplace(name, value);
  if (!fresh) at->second = std::max(at->second, value);
}

// Axes, and integers that are no axis.
void raise_sizes(const Contract& contract, const ResolvedCase& resolved, Most& most) {
  for (const auto& [letter, meaning] : contract.axes)
    if (const auto axis = resolved.axes.find(letter); axis != resolved.axes.end())
      raise(most, letter, axis->second);
  for (const Slot& slot : contract.section(SectionId::init)) {
    const fk_slot value = resolved.init[static_cast<size_t>(slot.index)];
    if (!slot.axis.empty()) continue;
    if (slot.kind == SlotKind::integer) raise(most, slot.name, value.i);
    const auto* list = static_cast<const fk_ints*>(value.p);
    if (slot.kind == SlotKind::ints && list)
      for (int64_t i = 0; i < list->n; ++i) raise(most, slot.name, list->at[i]);
  }
  for (const Slot& slot : contract.section(SectionId::forward))
    if (slot.kind == SlotKind::integer)
      raise(most, slot.name, resolved.scalars[static_cast<size_t>(slot.index)].i);
}

void raise_indices(const ResolvedCase& resolved, Most& most) {
  for (const CaseField& field : resolved.fields) {
    if (!is_index(field)) continue;
    const std::string& name = field.slot->name;
    if (const auto now = most.find(name); now != most.end() && now->second > kAbove16) continue;
    for (const Tensor& t : make_field(resolved, name, 1, 1)) {
      double largest = 0;
      for (int64_t i = 0; i < t.numel(); ++i) largest = std::max(largest, t.at(i));
      raise(most, name, static_cast<int64_t>(largest));
    }
  }
}

// The fault of a size with this largest value. Empty: no fault.
std::string complaint(const Contract& contract, const std::string& name, int64_t most) {
  const auto limit = contract.limits.find(name);
  const std::string found = contract.op + ": `" + name + "` reaches " + std::to_string(most);
  if (limit == contract.limits.end())
    return most > kAbove16 ? ""
                           : found +
                                 ", which 16 bits hold: a case of size `range` goes beyond, or "
                                 "`limits` says why none can";
  if (limit->second.bits == 16 && most <= kAbove8) return found + ", which 8 bits hold";
  if (most > kAbove16 || (limit->second.bits == 8 && most > kAbove8))
    return found + ": `limits` says that it cannot";
  return limit->second.why.empty() ? found + ": `limits` has no reason" : "";
}

std::vector<std::string> complaints(const Contract& contract) {
  Most most;
  for (const auto& [letter, meaning] : contract.axes) most[letter] = 0;
  for (const Case& source : contract.cases) {
    if (!is_judged_always(source)) continue;
    const ResolvedCase resolved = resolve(contract, source, {});
    raise_sizes(contract, resolved, most);
    raise_indices(resolved, most);
  }
  std::vector<std::string> out;
  for (const auto& [name, value] : most)
    if (std::string why = complaint(contract, name, value); !why.empty()) out.push_back(why);
  return out;
}

const char* const kOp = R"yaml(
op: op
revision: 1
summary: rows that are taken
axes: {S: rows of x, T: rows, C: channels}
init:
  - {name: size, type: int, axis: C, min: 1}
forward:
  - {name: x, role: in, shape: [S, C], dtype: float}
  - {name: rows, role: in, shape: [T], dtype: [i32], values: "randint(0,S)"}
  - {name: out, role: out, shape: [T, C], dtype: x}
cost: {flops: "0"}
tolerance: {numerics: exact}
)yaml";

std::vector<std::string> complaints_of(const std::string& more) {
  return complaints(Contract::parse(kOp + more, "op.yaml", 1, "tensor"));
}

}  // namespace

TEST_CASE("every count and index of every contract goes beyond 16 bits, or has a reason") {
  const Catalog catalog(paths::registry_dirs());
  for (const auto& op : catalog.ops()) {
    const auto found = complaints(catalog.at(op));
    for (const std::string& why : found) FAIL_CHECK(why);
  }
}

TEST_CASE("a size that 16 bits hold is found, of an axis and of an index") {
  const std::string rest = "limits: {C: {bits: 8, why: channels are few}}\n";
  const auto few = complaints_of(rest + R"yaml(
cases:
  range:
    - {S: 70000, T: 100, size: 2, values: {rows: "randint(0,9)"}}
)yaml");
  REQUIRE(few.size() == 2);
  CHECK(few[0].starts_with("op: `T` reaches 100,"));
  CHECK(few[1].starts_with("op: `rows` reaches "));
  CHECK(complaints_of(rest + R"yaml(
cases:
  range:
    - {S: 200000, T: 70000, size: 2}
)yaml")
            .empty());
}

TEST_CASE("a limit that a case goes beyond is found, and cases of real sizes do not count") {
  const auto found = complaints_of(R"yaml(
limits: {C: {bits: 16, why: channels are few}, S: {bits: 8, why: rows are few}}
cases:
  range:
    - {S: 200000, T: 70000, size: 2}
  full:
    - {S: 200000, T: 70000, size: 300}
)yaml");
  REQUIRE(found.size() == 2);
  CHECK(found[0] == "op: `C` reaches 2, which 8 bits hold");
  CHECK(found[1] == "op: `S` reaches 200000: `limits` says that it cannot");
}
