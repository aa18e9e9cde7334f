// SPDX-License-Identifier: Apache-2.0
#include "core/cli/check_rows.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "core/base/text.hpp"
#include "core/report/table.hpp"

namespace fk {

namespace {

// One line for each distinct refusal, so that a PASS shows the limits of the plugin.
void print_refusals(const std::vector<CheckRow>& rows) {
  constexpr size_t kLinesMost = 12;
  std::vector<std::pair<std::string, std::string>> order;  // op and reason
  std::map<std::pair<std::string, std::string>, int> cases;
  for (const CheckRow& row : rows)
    if (row.status == CheckStatus::unsupported && ++cases[{row.op, row.text}] == 1)
      order.emplace_back(row.op, row.text);
  std::string out;
  for (size_t i = 0; i < std::min(order.size(), kLinesMost); ++i)
    out += "  " + excerpt(order[i].first) + " refused " + std::to_string(cases[order[i]]) +
           (cases[order[i]] == 1 ? " case: " : " cases: ") + excerpt(order[i].second, 200) + "\n";
  if (order.size() > kLinesMost)
    out += "  and " + std::to_string(order.size() - kLinesMost) + " more refusals (--verbose)\n";
  if (!out.empty()) std::printf("\n%s", out.c_str());
}

}  // namespace

void print_rows(const std::vector<CheckRow>& rows, bool verbose) {
  const bool colour = colour_wanted(stdout);
  std::map<std::string, std::map<CheckStatus, int>> counts;
  std::vector<std::string> order;
  Table bad({{"op"}, {"case"}, {"variant"}, {"status"}, {"rule"}, {"what"}});
  const auto add_bad = [&](const CheckRow& row, Style style) {
    bad.row({row.op, row.case_name, row.variant, Cell(status_name(row.status), style), row.rule,
             excerpt(row.text, 300)});
  };
  bool left_out = false;
  for (const CheckRow& row : rows) {
    if (counts.find(row.op) == counts.end()) order.push_back(row.op);
    ++counts[row.op][row.status];
    const bool fine = row.status == CheckStatus::ok;
    const bool none = row.status == CheckStatus::unsupported || row.status == CheckStatus::left_out;
    left_out |= row.status == CheckStatus::left_out;
    if (verbose || (!fine && !none))
      add_bad(row, fine ? Style::good : none ? Style::weak : Style::bad);
  }
  // For an op that refuses all cases, the author needs the first reason.
  for (const auto& op : order) {
    auto& c = counts[op];
    if (c[CheckStatus::ok] || c[CheckStatus::wrong] || c[CheckStatus::violation] || verbose)
      continue;
    for (const CheckRow& row : rows) {
      if (row.op != op ||
          (row.status != CheckStatus::unsupported && row.status != CheckStatus::left_out))
        continue;
      add_bad(row, Style::bad);
      break;
    }
  }
  std::vector<Table::Column> columns = {{"op"},
                                        {"ok", Align::right},
                                        {"unsupported", Align::right},
                                        {"unjudged", Align::right},
                                        {"untestable", Align::right},
                                        {"wrong", Align::right},
                                        {"violations", Align::right}};
  if (left_out) columns.push_back({"left out", Align::right});
  Table summary(columns);
  const auto number = [](int n, Style style) {
    return n ? Cell(std::to_string(n), style) : Cell("-", Style::weak);
  };
  for (const auto& op : order) {
    auto& c = counts[op];
    std::vector<Cell> cells = {op,
                               number(c[CheckStatus::ok], Style::good),
                               number(c[CheckStatus::unsupported], Style::plain),
                               number(c[CheckStatus::unjudged], Style::bad),
                               number(c[CheckStatus::untestable], Style::bad),
                               number(c[CheckStatus::wrong], Style::bad),
                               number(c[CheckStatus::violation], Style::bad)};
    if (left_out) cells.push_back(number(c[CheckStatus::left_out], Style::plain));
    summary.row(std::move(cells));
  }
  std::printf("%s", summary.text(colour).c_str());
  if (!bad.empty()) std::printf("\n%s", bad.text(colour).c_str());
  if (!verbose) print_refusals(rows);
}

}  // namespace fk
