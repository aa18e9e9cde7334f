// SPDX-License-Identifier: Apache-2.0
#include "core/report/views/drawing.hpp"

#include <algorithm>
#include <cmath>

#include "core/report/document_values.hpp"
#include "core/report/views/charts.hpp"

namespace fk {

namespace {

constexpr int kGreyColour = 7;
constexpr int64_t kFrameMost = 10000;

int64_t whole_at(const Json& json, std::string_view key, int64_t low, int64_t high) {
  return std::llround(std::clamp(number_at(json, key).value_or(0), static_cast<double>(low),
                                 static_cast<double>(high)));
}

std::vector<int64_t> places_at(const Json& mark) {
  std::vector<int64_t> all;
  for (const Json& number : list_at(mark, "at"))
    all.push_back(number.is_number() ? std::llround(std::clamp(number.get<double>(),
                                                               -1.0 * kFrameMost, 2.0 * kFrameMost))
                                     : 0);
  return all;
}

// The data of one path. Dots are lines of no length with round ends.
std::string path_of(const std::string& kind, const std::vector<int64_t>& at) {
  std::string path;
  const auto number = [&](size_t i) { return std::to_string(at[i]); };
  if (kind == "boxes") {
    for (size_t i = 0; i + 3 < at.size(); i += 4)
      path += "M" + number(i) + " " + number(i + 1) + "H" + number(i + 2) + "V" + number(i + 3) +
              "H" + number(i) + "Z";
  } else if (kind == "dots" || kind == "line") {
    for (size_t i = 0; i + 1 < at.size(); i += 2) {
      path += (kind == "dots" || i == 0 ? "M" : "L") + number(i) + " " + number(i + 1);
      if (kind == "dots") path += "h0";
    }
  }
  return path;
}

}  // namespace

void draw_into(ViewChart& chart, const Json& drawing) {
  const int64_t width = whole_at(drawing, "width", 0, kFrameMost),
                height = whole_at(drawing, "height", 0, 2 * width);
  if (width == 0 || height == 0) return;
  const std::string title = escaped(chart.title);
  std::string body;
  for (const Json& mark : list_at(drawing, "marks")) {
    const std::string path = path_of(text_at(mark, "kind"), places_at(mark));
    if (path.empty()) continue;
    char pixels[16];
    std::snprintf(pixels, sizeof pixels, "%.3g",
                  std::clamp(number_at(mark, "width").value_or(1), 0.5, 20.0));
    body += "<path class=\"mark c" + std::to_string(whole_at(mark, "colour", 0, kGreyColour)) +
            "\" stroke-width=\"" + pixels + "\" d=\"" + path + "\"/>";
  }
  chart.svg = "<svg role=\"img\" aria-label=\"" + title + "\" width=\"100%\" viewBox=\"0 0 " +
              std::to_string(width) + " " + std::to_string(height) + "\"><title>" + title +
              "</title>" + body + "</svg>";
  for (const Json& key : list_at(drawing, "keys"))
    chart.keys.emplace_back(static_cast<int>(whole_at(key, "colour", 0, kGreyColour)),
                            text_at(key, "text"));
  chart.picture = true;
  chart.strip = width >= 3 * height;
}

}  // namespace fk
