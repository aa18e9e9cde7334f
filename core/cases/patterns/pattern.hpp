// SPDX-License-Identifier: Apache-2.0
// Explains a wrong output: by a cause, or else by the place and kind of the wrong elements. A file
// of this folder registers one pattern or a small family; there is no central list. The surest
// explanation of an answer wins. docs/verdict.md has a table of all patterns.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/cases/numerics/judgement.hpp"
#include "core/cases/selection.hpp"

namespace fk {

// Surety of explanations, from 0 to 1.
namespace surety {
inline constexpr double kPlace = 0.2;   // names where the wrong elements are
inline constexpr double kKind = 0.4;    // names what they have in common
inline constexpr double kFigure = 0.6;  // one figure or index explains nearly all of them
inline constexpr double kShape = 0.8;   // the place has no other simple explanation
inline constexpr double kExact = 0.9;   // the wrong values are known values
inline constexpr double kAsked = 0.95;  // the reference answers alike after one change
}  // namespace surety

struct PatternKind {
  const char* name;     // as in the JSON
  double surety;        // of explanations of this kind
  const char* example;  // a sentence of a verdict
};

struct Explanation {
  std::string name;  // of a PatternKind
  double surety = 0;
  std::string text, next;  // text: without a full stop; next: whole sentences
  std::map<std::string, double> figures = {};
};

// A wrong output of one call. The references outlive it.
struct WrongAnswer {
  const ResolvedCase& resolved;
  const CaseField& field;
  const CaseValues& inputs;  // weights included
  const ErrorModel& model;
  // Compared elements, in row-major order. `before`: of inout fields; else empty.
  const Tensor &got, &want, &before;
  std::vector<double> got_values, want_values, before_values;
  std::vector<uint8_t> wrong;  // 1 for each element beyond its bound
  int64_t count = 0;           // of wrong elements; 0: only all together are wrong
  bool whole = true;           // false: rows were sampled, so positions mean nothing
  std::string place;           // name of the pattern that compare() found

  // True if the answer is right for a changed call. False also when the time for such questions is
  // spent, or the reference refuses.
  std::function<bool(const CallChange& change, const CaseValues& values)> right_if;

  int64_t size() const { return static_cast<int64_t>(wrong.size()); }
  // An element of an inout field that the call rightly keeps.
  bool kept(size_t i) const { return !before_values.empty() && want_values[i] == before_values[i]; }
  bool all_finite() const;
  // Letter, or expression, of each axis of the output; empty if rows were sampled.
  std::vector<std::string> letters() const;
};

// Meaning of an axis in the contract; empty: it has none.
std::string meaning_of_axis(const Contract& contract, const std::string& letter);

// Indices of each axis with a wrong element; empty if positions mean nothing.
std::vector<WrongAxis> wrong_axes(const WrongAnswer& answer);
std::vector<std::vector<int64_t>> wrong_indices(const WrongAnswer& answer);
// "1 and 2", "4 to 7", "from 16 on", "every 4th from 1"; empty: no short description.
std::string indices_text(const std::vector<int64_t>& indices, int64_t size);

// "1e-05"
std::string figure_text(double value);

using PatternLook = std::optional<Explanation> (*)(const WrongAnswer& answer);

// All kinds of all files, ordered by name.
std::vector<PatternKind> pattern_kinds();

// The surest explanation by all registered patterns. Nothing if none knows better than `found`, the
// pattern that compare() has found.
std::optional<Explanation> explain(const WrongAnswer& answer, const std::string& found);

// `look` may be null: other code finds these kinds. `asks`: it calls right_if(), so it comes after
// the others.
struct PatternRegistration {
  PatternRegistration(std::span<const PatternKind> kinds, PatternLook look, bool asks = false);
};

}  // namespace fk

// At file scope: FK_PATTERN(strided, kStridedKinds, look_for_strides);
#define FK_PATTERN(name, ...) static const ::fk::PatternRegistration fk_pattern_##name(__VA_ARGS__)
