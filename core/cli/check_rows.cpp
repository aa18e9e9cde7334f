// SPDX-License-Identifier: Apache-2.0
#include "core/cli/check_rows.hpp"

#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/text.hpp"
#include "core/report/table.hpp"

namespace fk {

Json row_json(const CheckRow& r) {
  return {{"op", r.op},
          {"provider", r.provider},
          {"case", r.case_name},
          {"variant", r.variant},
          {"status", status_name(r.status)},
          {"rule", r.rule},
          {"text", r.text},
          {"worst", std::isfinite(r.worst) ? Json(r.worst) : Json(nullptr)},
          {"echo", r.echo}};
}

std::string text_of(const Json& row, const char* key) {
  return row.is_object() ? row.value(key, std::string()) : "";
}

void print_rows(const std::vector<Json>& rows, bool verbose) {
  const bool colour = colour_wanted(stdout);
  std::map<std::string, std::map<std::string, int>> counts;
  std::vector<std::string> order;
  Table bad({{"op"}, {"case"}, {"variant"}, {"status"}, {"rule"}, {"what"}});
  for (const auto& row : rows) {
    const std::string op = text_of(row, "op"), status = text_of(row, "status");
    if (counts.find(op) == counts.end()) order.push_back(op);
    ++counts[op][status];
    if (verbose || status == "wrong" || status == "violation" || status == "unjudged" ||
        status == "untestable") {
      const Style style = status == "ok"            ? Style::good
                          : status == "unsupported" ? Style::weak
                                                    : Style::bad;
      bad.row({op, text_of(row, "case"), text_of(row, "variant"), Cell(status, style),
               text_of(row, "rule"), excerpt(text_of(row, "text"), 300)});
    }
  }
  // For an op that refuses all cases, the author needs the first reason.
  for (const auto& op : order) {
    if (counts[op]["ok"] || counts[op]["wrong"] || counts[op]["violation"] || verbose) continue;
    for (const auto& row : rows) {
      if (text_of(row, "op") != op || text_of(row, "status") != "unsupported") continue;
      bad.row({op, text_of(row, "case"), text_of(row, "variant"), Cell("unsupported", Style::bad),
               "", excerpt(text_of(row, "text"), 300)});
      break;
    }
  }
  Table summary({{"op"},
                 {"ok", Align::right},
                 {"unsupported", Align::right},
                 {"unjudged", Align::right},
                 {"untestable", Align::right},
                 {"wrong", Align::right},
                 {"violations", Align::right}});
  const auto number = [](int n, Style style) {
    return n ? Cell(std::to_string(n), style) : Cell("-", Style::weak);
  };
  for (const auto& op : order) {
    auto& c = counts[op];
    summary.row({op, number(c["ok"], Style::good), number(c["unsupported"], Style::plain),
                 number(c["unjudged"], Style::bad), number(c["untestable"], Style::bad),
                 number(c["wrong"], Style::bad), number(c["violation"], Style::bad)});
  }
  std::printf("%s", summary.text(colour).c_str());
  if (!bad.empty()) std::printf("\n%s", bad.text(colour).c_str());
}

}  // namespace fk
