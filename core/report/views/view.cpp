// SPDX-License-Identifier: Apache-2.0
#include "core/report/views/view.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/judge/verdict/verdict.hpp"
#include "core/report/document_values.hpp"

namespace fk {

namespace {

struct ViewPart {
  std::string kind;
  int order;
  AddToView add;
};

std::vector<ViewPart>& view_parts() {
  static std::vector<ViewPart> all;
  return all;
}

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string ratio_figure(double value) {
  return formatted(std::abs(value) < 0.1 || std::abs(value) >= 1000 ? "%.3g" : "%.3f", value);
}

// Names and texts may be a candidate's.
Json printable_values(const Json& from) {
  if (from.is_string()) return printable(from.get_ref<const std::string&>(), "\n\t");
  if (!from.is_structured()) return from;
  Json out = from.is_array() ? Json::array() : Json::object();
  for (const auto& [key, value] : from.items()) {
    if (from.is_array())
      out.push_back(printable_values(value));
    else
      out[printable(key)] = printable_values(value);
  }
  return out;
}

View view_of_printable(const Json& document) {
  View view{.kind = kind_of_document(document), .title = {}, .lead = {}};
  for (const ViewPart& part : view_parts())
    if (part.kind == view.kind) part.add(document, view);
  constexpr size_t kTitleBytes = 120, kLeadBytes = 600;  // names may be long
  view.title = excerpt(view.title, kTitleBytes);
  view.lead = excerpt(view.lead, kLeadBytes);
  for (const auto& [key, value] : document.items()) {
    if (!kind_of_document(value).empty()) view.inner.push_back(view_of_printable(value));
    if (!value.is_array()) continue;
    for (const Json& one : value)
      if (!kind_of_document(one).empty()) view.inner.push_back(view_of_printable(one));
  }
  return view;
}

}  // namespace

Tone tone_of_word(const std::string& word) {
  if (word == "faster" || word == "correct" || word == "ok" || word == "better") return Tone::good;
  if (word == "untouched" || word == "unused" || word == "refused" || word == "not judged" ||
      word == "unsupported" || word == "left_out")
    return Tone::weak;
  const auto status = status_of(word);
  const bool bad = word == "failed" || word == "slower" || word == "worse" || word == "error" ||
                   word == "damaged" || (status && is_failure(*status));
  return bad ? Tone::bad : Tone::plain;
}

std::string shown(const ViewCell& cell, Unit unit) {
  if (unit == Unit::text || !cell.value) return cell.text;
  const double value = *cell.value;
  switch (unit) {
    case Unit::seconds:
      return human_duration(value);
    case Unit::share:
      return formatted("%.1f %%", 100 * value);
    case Unit::bytes:
      return human_bytes(static_cast<int64_t>(value));
    case Unit::ratio:
      return ratio_figure(value) + (cell.low && cell.high ? " (" + ratio_figure(*cell.low) + "-" +
                                                                ratio_figure(*cell.high) + ")"
                                                          : "");
    default:
      break;
  }
  const bool whole = value == std::floor(value) || std::abs(value) >= 1000;
  return whole && std::abs(value) < 1e9 ? formatted("%.0f", value) : formatted("%.4g", value);
}

View view_of(const Json& document) {
  const std::string kind = kind_of_document(document);
  const auto kinds = viewed_kinds();
  if (kind.empty()) fail("", "it is no document of fk-host", "fk-host VERB --json FILE writes one");
  if (!contains(kinds, kind))
    fail("", "there is no page for a document " + excerpt(kind), "there are " + join(kinds, ", "));
  return view_of_printable(printable_values(document));
}

std::vector<std::string> viewed_kinds() {
  std::vector<std::string> out;
  for (const ViewPart& part : view_parts())
    if (!contains(out, part.kind)) out.push_back(part.kind);
  std::ranges::sort(out);
  return out;
}

ViewRegistration::ViewRegistration(const char* kind, int order, AddToView add) {
  auto& all = view_parts();
  const auto after =
      std::ranges::upper_bound(all, order, {}, [](const ViewPart& part) { return part.order; });
  all.insert(after, {kind, order, add});
}

}  // namespace fk
