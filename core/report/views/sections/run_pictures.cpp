// SPDX-License-Identifier: Apache-2.0
// Results to look at: those of the reference, of each side, and the differences.
#include <algorithm>
#include <string_view>

#include "core/report/document_values.hpp"
#include "core/report/views/drawing.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

// A document may be a stranger's. Only PNG and WAV files in base64 get into a page.
constexpr std::string_view kPng = "iVBORw0KGgo", kWav = "UklGR";
bool is_base64(std::string_view text, std::string_view begin) {
  return text.starts_with(begin) && std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '+' || c == '/' || c == '=';
         });
}

// Drawings have no columns of pixels.
std::optional<double> columns_at(const Json& picture, std::string_view key) {
  const auto count = number_at(picture, key);
  return count && *count > 0 ? count : std::nullopt;
}

std::string note_of(double worst, std::optional<double> mean, const std::string& unit) {
  const std::string most = shown({worst}, Unit::number);
  if (unit.empty())
    return "White is the largest difference, " + most + " of the range from black to white.";
  return "Largest " + most + ", mean " + shown({mean}, Unit::number) + ": " + unit + ".";
}

void add_run_pictures(const Json& run, View& view) {
  ViewSection section{.title = "Pictures"};
  ViewTable table{.name = "images",
                  .title = "Differences from the reference",
                  .columns = {{"result", "result"},
                              {"side", "side"},
                              {"largest", "worst", Unit::number},
                              {"mean", "mean", Unit::number},
                              {"unit", "unit"},
                              {"shown columns", "width", Unit::number},
                              {"shown rows", "height", Unit::number}}};
  for (const Json& picture : list_at(run, "pictures")) {
    const std::string result = text_at(picture, "result"), side = text_at(picture, "side"),
                      png = text_at(picture, "png");
    const bool difference = flag_at(picture, "difference");
    const auto worst = number_at(picture, "worst");
    const std::string unit = text_at(picture, "unit");
    if (difference)
      table.rows.push_back({result, side, worst, number_at(picture, "mean"),
                            unit.empty() ? "share of the range" : unit,
                            columns_at(picture, "width"), columns_at(picture, "height")});
    ViewChart chart{.title = result + ", " + side + (difference ? " less reference" : ""),
                    .svg = {}};
    draw_into(chart, at_key(picture, "drawing"));
    if (chart.svg.empty() && !is_base64(png, kPng)) continue;
    if (chart.svg.empty()) chart.png = png, chart.picture = true;
    const std::string wav = text_at(picture, "wav");
    if (is_base64(wav, kWav)) chart.wav = wav;
    if (difference && worst) chart.note = note_of(*worst, number_at(picture, "mean"), unit);
    section.charts.push_back(std::move(chart));
  }
  section.note = "Answers to the first request.";
  if (flag_at(run, "random_weights"))
    section.note +=
        " The weights are random, so all of them are noise: images and videos show noise and no "
        "motif, sounds are noise, and structures, boxes, masks and classes have no meaning.";
  section.tables.push_back(std::move(table));
  view.sections.push_back(std::move(section));
}
FK_VIEW(run_pictures, "fk-host.run", 45, add_run_pictures);

}  // namespace
}  // namespace fk
