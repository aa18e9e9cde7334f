// SPDX-License-Identifier: Apache-2.0
// An input that is not read, or read wrongly. The answer is right without it, or for its values in
// another order or of fewer bits.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "core/cases/patterns/pattern.hpp"

namespace fk {
namespace {

constexpr PatternKind kInputKinds[] = {
    {"input_ignored", surety::kAsked, "mask is ignored: the values are right without it"},
    {"input_halves", surety::kAsked,
     "the halves of x are exchanged: the values are right for the other order"},
    {"input_transposed", surety::kAsked,
     "weight is read transposed: the values are right for exchanged rows and columns"},
    {"index_16_bits", surety::kAsked,
     "block_table is read as 16 bits: the values are right for indices modulo 65536"}};

constexpr int64_t kSixteenBits = int64_t{1} << 16;

Explanation input_found(const char* name, const std::string& text, std::string next) {
  return {name, surety::kAsked, text, std::move(next)};
}

// Fields of a group are present together, so they are left out together.
std::optional<Explanation> ask_without_inputs(const WrongAnswer& answer) {
  std::set<std::string> asked;
  for (const CaseField& field : answer.resolved.fields) {
    const Slot& slot = *field.slot;
    if (!field.present || !slot.optional || slot.role == Role::out || &field == &answer.field)
      continue;
    const std::string& named = slot.group.empty() ? slot.name : slot.group;
    if (!asked.insert(named).second) continue;
    CallChange change;
    change.without = {slot.name};
    if (!slot.group.empty()) change.without.push_back(slot.group);
    if (answer.right_if(change, answer.inputs))
      return input_found("input_ignored", named + " is ignored: the values are right without it",
                         "Read " + named + " when it is there: its pointer is not null.");
  }
  return std::nullopt;
}

// Integers that the contract limits to flags: a mask, or whether a state is read.
bool is_flag(const ResolvedCase& resolved, const CaseField& field) {
  const auto limit = resolved.contract->limits.find(field.slot->name);
  return field.present && field.slot->role == Role::in && !is_float(field.dtype) &&
         limit != resolved.contract->limits.end() && limit->second.bits == 8 &&
         field.values.starts_with("randint(0,");
}

std::optional<Explanation> ask_for_flags(const WrongAnswer& answer) {
  for (const CaseField& field : answer.resolved.fields) {
    if (!is_flag(answer.resolved, field)) continue;
    const std::string& named = field.slot->name;
    for (const bool set : {true, false}) {
      CaseValues values = answer.inputs;
      for (Tensor& tensor : values.at(named))
        for (int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, set);
      if (answer.right_if({}, values))
        return input_found(
            "input_ignored",
            named + " is ignored: the values are right where each element is " + (set ? "1" : "0"),
            "Read each element of " + named + ", and test it against 0.");
    }
  }
  return std::nullopt;
}

// Where element i of a changed tensor comes from.
using SourceOf = std::function<int64_t(int64_t i)>;

// True if the answer is right where an input has its own values in another order.
bool right_in_order(const WrongAnswer& answer, const CaseField& field, const SourceOf& source) {
  CaseValues values = answer.inputs;
  const Tensor& from = answer.inputs.at(field.slot->name)[0];
  Tensor out(from.dtype, from.shape);
  for (int64_t i = 0; i < from.numel(); ++i) out.set(i, from.at(source(i)));
  values.at(field.slot->name)[0] = std::move(out);
  return answer.right_if({}, values);
}

bool has_rows(const CaseField& field) {
  return field.present && field.slot->is_read() && is_float(field.dtype) &&
         field.shape.size() >= 2 && field.entries == 1 && field.shape.back() > 1;
}

// Also a matrix whose rows and columns have other sizes: its bytes are those of [columns, rows].
std::optional<Explanation> ask_for_transposed(const WrongAnswer& answer) {
  for (const CaseField& field : answer.resolved.fields) {
    if (!has_rows(field)) continue;
    const int64_t columns = field.shape.back(), rows = field.shape[field.shape.size() - 2],
                  size = rows * columns;
    if (rows < 2 || !right_in_order(answer, field, [&](int64_t i) {
          const int64_t at = i % size;
          return i - at + at % columns * rows + at / columns;
        }))
      continue;
    const std::string& name = field.slot->name;
    const auto axis = [&](size_t back) {
      return field.slot->shape[field.slot->shape.size() - back].text();
    };
    const std::string read = rows == columns ? "exchanged rows and columns"
                                             : "its elements as [" + axis(1) + ", " + axis(2) + "]";
    return input_found("input_transposed",
                       name + " is read transposed: the values are right for " + read,
                       "Exchange the indices of " + name +
                           ": the last axis of the contract's shape is contiguous.");
  }
  return std::nullopt;
}

// Rows of two halves, such as gate and up, are twice as wide as the output's.
std::optional<Explanation> ask_for_halves(const WrongAnswer& answer) {
  const int64_t half = answer.field.shape.empty() ? 0 : answer.field.shape.back();
  for (const CaseField& field : answer.resolved.fields) {
    if (half < 2 || !has_rows(field) || field.shape.back() != 2 * half) continue;
    const std::string& name = field.slot->name;
    const int64_t width = 2 * half;
    if (right_in_order(answer, field,
                       [&](int64_t i) { return i % width < half ? i + half : i - half; }))
      return input_found(
          "input_halves",
          "the halves of " + name + " are exchanged: the values are right for the other order",
          "Exchange the halves of each row of " + name +
              ": their order is in the contract (`fk-host show OP`).");
    if (right_in_order(answer, field, [&](int64_t i) {
          const int64_t at = i % width;
          return i - at + (at < half ? 2 * at : 2 * (at - half) + 1);
        }))
      return input_found("input_halves",
                         name +
                             " is read as interleaved: the values are right for pairs of "
                             "neighbours in place of halves",
                         "Element i of a row of " + name + " belongs to element i + " +
                             std::to_string(half) + " (half a row), not to its neighbour.");
  }
  return std::nullopt;
}

std::optional<Explanation> ask_for_short_indices(const WrongAnswer& answer) {
  for (const CaseField& field : answer.resolved.fields) {
    if (!field.present || !field.slot->is_read() || is_float(field.dtype) || bytes(field.dtype) < 4)
      continue;
    CaseValues values = answer.inputs;
    bool larger = false;
    for (Tensor& tensor : values.at(field.slot->name))
      for (int64_t i = 0; i < tensor.numel(); ++i) {
        const auto value = static_cast<int64_t>(tensor.at(i));
        if (value < kSixteenBits) continue;
        larger = true;
        tensor.set(i, static_cast<double>(value % kSixteenBits));
      }
    if (larger && answer.right_if({}, values))
      return input_found(
          "index_16_bits",
          field.slot->name + " is read as 16 bits: the values are right for indices modulo 65536",
          "Hold indices in 32 bits, and products of indices in 64.");
  }
  return std::nullopt;
}

std::optional<Explanation> ask_for_inputs(const WrongAnswer& answer) {
  for (const auto& ask : {ask_without_inputs, ask_for_flags, ask_for_transposed, ask_for_halves,
                          ask_for_short_indices})
    if (auto found = ask(answer)) return found;
  return std::nullopt;
}

}  // namespace

FK_PATTERN(input, kInputKinds, ask_for_inputs, true);

}  // namespace fk
