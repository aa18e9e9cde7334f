// SPDX-License-Identifier: Apache-2.0
// Runs of models which make images or sounds: those of the reference, of each side, and the
// differences.
#include <algorithm>
#include <string_view>

#include "core/report/document_values.hpp"
#include "core/report/views/view.hpp"
#include "core/scenario/pictures.hpp"

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

void add_run_pictures(const Json& run, View& view) {
  ViewSection section{.title = "Images"};
  ViewTable table{.name = "images",
                  .title = "Differences of images from the reference",
                  .columns = {{"result", "result"},
                              {"side", "side"},
                              {"largest, share of the range", "worst", Unit::number},
                              {"mean, share of the range", "mean", Unit::number},
                              {"shown columns", "width", Unit::number},
                              {"shown rows", "height", Unit::number}}};
  for (const Json& picture : list_at(run, "pictures")) {
    const std::string result = text_at(picture, "result"), side = text_at(picture, "side"),
                      png = text_at(picture, "png");
    const bool difference = flag_at(picture, "difference");
    const auto worst = number_at(picture, "worst");
    if (difference)
      table.rows.push_back({result, side, worst, number_at(picture, "mean"),
                            number_at(picture, "width"), number_at(picture, "height")});
    if (!is_base64(png, kPng)) continue;
    ViewChart chart{.title = result + ", " + side + (difference ? " less reference" : ""),
                    .svg = {},
                    .png = png};
    const std::string wav = text_at(picture, "wav");
    if (is_base64(wav, kWav)) chart.wav = wav;
    if (difference && worst)
      chart.note = "White is the largest difference, " + shown({worst}, Unit::number) +
                   " of the range from black to white.";
    section.charts.push_back(std::move(chart));
  }
  section.note = "Answers to the first request.";
  if (flag_at(run, "random_weights"))
    section.note +=
        " The weights are random, so images and videos show noise and no motif, and sounds are "
        "noise.";
  section.tables.push_back(std::move(table));
  view.sections.push_back(std::move(section));
}
FK_VIEW(run_pictures, "fk-host.run", 45, add_run_pictures);

}  // namespace
}  // namespace fk
