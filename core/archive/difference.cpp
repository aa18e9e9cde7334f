// SPDX-License-Identifier: Apache-2.0
#include "core/archive/difference.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/text.hpp"

namespace fk {

namespace {

constexpr size_t kContext = 3;
// Longer texts are replaced whole: the table below has lines x lines entries.
constexpr size_t kTableMost = size_t{16} << 20;

struct DiffLine {
  char kind;  // ' ', '-' or '+'
  std::string text;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out = split(text, '\n');
  if (out.back().empty()) out.pop_back();
  return out;
}

// The longest common subsequence by a table of its lengths.
std::vector<DiffLine> edits(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<DiffLine> out;
  const size_t shorter = std::min(a.size(), b.size());
  size_t head = 0, tail = 0;
  while (head < shorter && a[head] == b[head]) ++head;
  while (tail < shorter - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
  const size_t rows = a.size() - head - tail, columns = b.size() - head - tail;
  for (size_t i = 0; i < head; ++i) out.push_back({' ', a[i]});
  if ((rows + 1) * (columns + 1) > kTableMost) {
    for (size_t i = 0; i < rows; ++i) out.push_back({'-', a[head + i]});
    for (size_t i = 0; i < columns; ++i) out.push_back({'+', b[head + i]});
  } else {
    std::vector<uint32_t> common((rows + 1) * (columns + 1));
    const auto at = [&](size_t i, size_t j) -> uint32_t& { return common[i * (columns + 1) + j]; };
    for (size_t i = rows; i-- > 0;)
      for (size_t j = columns; j-- > 0;)
        at(i, j) = a[head + i] == b[head + j] ? at(i + 1, j + 1) + 1
                                              : std::max(at(i + 1, j), at(i, j + 1));
    size_t i = 0, j = 0;
    while (i < rows || j < columns) {
      if (i < rows && j < columns && a[head + i] == b[head + j])
        out.push_back({' ', a[head + i]}), ++i, ++j;
      else if (i < rows && (j == columns || at(i + 1, j) >= at(i, j + 1)))
        out.push_back({'-', a[head + i++]});
      else
        out.push_back({'+', b[head + j++]});
    }
  }
  for (size_t i = a.size() - tail; i < a.size(); ++i) out.push_back({' ', a[i]});
  return out;
}

}  // namespace

std::string unified_diff(const std::string& from, const std::string& to,
                         const std::string& from_name, const std::string& to_name) {
  if (from == to) return {};
  const std::vector<DiffLine> all = edits(lines_of(from), lines_of(to));
  std::string out = "--- " + from_name + "\n+++ " + to_name + "\n";
  size_t old_line = 1, new_line = 1, done = 0;
  const auto pass = [&](size_t end) {
    for (; done < end; ++done) old_line += all[done].kind != '+', new_line += all[done].kind != '-';
  };
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].kind == ' ') continue;
    pass(std::max(done, i > kContext ? i - kContext : 0));
    size_t end = i, last = i;
    for (; end < all.size() && end <= last + 2 * kContext; ++end)
      if (all[end].kind != ' ') last = end;
    end = std::min(last + kContext + 1, all.size());
    size_t olds = 0, news = 0;
    std::string body;
    for (size_t k = done; k < end; ++k) {
      olds += all[k].kind != '+', news += all[k].kind != '-';
      body += all[k].kind + all[k].text + "\n";
    }
    out += "@@ -" + std::to_string(olds ? old_line : old_line - 1) + "," + std::to_string(olds) +
           " +" + std::to_string(news ? new_line : new_line - 1) + "," + std::to_string(news) +
           " @@\n" + body;
    pass(end);
    i = end - 1;
  }
  return out;
}

std::string program_diff(const std::vector<ProgramFile>& from, const std::vector<ProgramFile>& to) {
  std::map<std::string, std::pair<std::string, std::string>> texts;
  std::set<std::string> before, after;
  for (const auto& file : from) texts[file.name].first = file.text, before.insert(file.name);
  for (const auto& file : to) texts[file.name].second = file.text, after.insert(file.name);
  std::string out;
  for (const auto& [name, both] : texts)
    out += unified_diff(both.first, both.second, before.contains(name) ? "a/" + name : "/dev/null",
                        after.contains(name) ? "b/" + name : "/dev/null");
  return out;
}

}  // namespace fk
