// SPDX-License-Identifier: Apache-2.0
#include "core/report/views/page.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/base/base64.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/report/views/charts.hpp"

namespace fk {

// page.css and page.js, compiled in.
extern const char* const page_css;
extern const char* const page_js;

namespace {

constexpr size_t kOpenRows = 60;  // longer tables are closed until a reader opens them
// Bytes of texts that stand on one line, and of texts that need a column of middle width.
constexpr size_t kShortText = 28, kMiddleText = 70;

std::string script_hash() {
  Sha256 hash;
  const std::string_view script = page_js;
  hash.update({reinterpret_cast<const std::byte*>(script.data()), script.size()});
  const auto digest = hash.finish();
  return base64_of({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

const char* tone_class(Tone tone) {
  switch (tone) {
    case Tone::good:
      return "good";
    case Tone::bad:
      return "bad";
    case Tone::weak:
      return "weak";
    default:
      return "";
  }
}

// The colour of a share of what is allowed: 1 is the limit.
const char* heat_class(double value) {
  return value <= 0.5 ? "h1" : value <= 1 ? "h2" : value <= 3 ? "h3" : value <= 30 ? "h4" : "h5";
}

class Page {
 public:
  explicit Page(const View& view) : view_(view) {}

  std::string done() {
    out_ +=
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "style-src 'unsafe-inline'; img-src data:; media-src data:; script-src 'sha256-";
    out_ += script_hash() + "'\"><title>" + escaped(view_.title) + ", fk-host</title>\n<style>" +
            page_css + "</style></head>\n<body><header><p class=\"kind\">" + escaped(view_.kind) +
            "</p><h1>" + escaped(view_.title) + "</h1>";
    head(view_);
    out_ += "</header>\n";
    if (view_.inner.size() > 1) contents();
    out_ += "<main>";
    sections(view_, "h2");
    for (const View& inner : view_.inner) inner_view(inner);
    out_ += "</main>\n<footer>Made by fk-host " FK_VERSION " from a document of the form <code>";
    out_ += escaped(view_.kind) + "</code>, which <code>--json</code> writes.</footer>\n<script>";
    out_ += std::string(page_js) + "</script></body></html>\n";
    return std::move(out_);
  }

 private:
  void head(const View& view) {
    if (!view.lead.empty())
      out_ += std::string("<p class=\"lead ") + tone_class(view.tone) + "\">" + escaped(view.lead) +
              "</p>";
    std::string facts;
    for (const auto& [name, value] : view.facts)
      if (!value.empty())
        facts += "<div><dt>" + escaped(name) + "</dt><dd>" + escaped(value) + "</dd></div>";
    if (!facts.empty()) out_ += "<dl>" + facts + "</dl>";
  }

  void contents() {
    out_ += "<nav aria-label=\"parts of this page\"><ul>";
    for (size_t i = 0; i < view_.inner.size(); ++i)
      out_ += "<li><a href=\"#v" + std::to_string(i) + "\">" + escaped(view_.inner[i].title) +
              "</a></li>";
    out_ += "</ul></nav>\n";
  }

  void inner_view(const View& view) {
    out_ += "<section class=\"view\" id=\"v" + std::to_string(views_++) + "\"><h2>" +
            escaped(view.title) + "</h2>";
    head(view);
    sections(view, "h3");
    for (const View& inner : view.inner) inner_view(inner);
    out_ += "</section>\n";
  }

  void sections(const View& view, const std::string& heading) {
    for (const ViewSection& section : view.sections) {
      std::string charts, kind = "charts";
      for (const ViewChart& chart : section.charts) {
        if (chart.svg.empty() && chart.png.empty()) continue;
        if (chart.picture) kind = "charts pictures";
        const bool strip = chart.strip || is_strip(chart.png);
        charts += strip ? "<figure class=\"strip\">" : "<figure>";
        charts += "<figcaption>" + escaped(chart.title);
        if (!chart.note.empty())
          charts += "<span class=\"note\">" + escaped(chart.note) + "</span>";
        charts += "</figcaption>" + chart.svg + image_of(chart) + keys_of(chart) + "</figure>";
      }
      bool any = !charts.empty();
      for (const ViewTable& table : section.tables) any |= !table.rows.empty();
      if (!any) continue;
      out_ += "<section><" + heading + ">" + escaped(section.title) + "</" + heading + ">";
      if (!section.note.empty()) out_ += "<p class=\"note\">" + escaped(section.note) + "</p>";
      if (!charts.empty()) out_ += "<div class=\"" + kind + "\">" + charts + "</div>";
      for (const ViewTable& table : section.tables)
        if (!table.rows.empty()) whole_table(table);
      out_ += "</section>\n";
    }
  }

  // The frames of a video side by side: a PNG file, in base64, at least three times as wide as
  // high. It has both numbers from byte 16 on, which character 20 begins one byte before.
  static bool is_strip(std::string_view png) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (png.size() < 32) return false;
    std::array<uint64_t, 9> bytes = {};
    for (size_t i = 0; i < 12; ++i) {
      const size_t digit = kDigits.find(png[20 + i]);
      if (digit == std::string_view::npos) return false;
      const uint64_t shifted = digit << (6 * (3 - i % 4));  // of a group of three bytes
      for (size_t b = 0; b < 3; ++b) bytes[i / 4 * 3 + b] |= shifted >> (8 * (2 - b)) & 255;
    }
    const auto number = [&](size_t at) {
      return bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
    };
    return number(1) >= 3 * number(5);
  }

  static std::string image_of(const ViewChart& chart) {
    if (chart.png.empty()) return {};
    const std::string player = chart.wav.empty()
                                   ? ""
                                   : "<audio controls aria-label=\"" + escaped(chart.title) +
                                         "\" src=\"data:audio/wav;base64," + escaped(chart.wav) +
                                         "\"></audio>";
    return player + "<img alt=\"" + escaped(chart.title) + "\" src=\"data:image/png;base64," +
           escaped(chart.png) + "\">";
  }

  static std::string keys_of(const ViewChart& chart) {
    std::string keys;
    for (const auto& [colour, words] : chart.keys)
      keys +=
          "<li class=\"c" + std::to_string(colour) + "\"><span>" + escaped(words) + "</span></li>";
    return keys.empty() ? "" : "<ul class=\"keys\">" + keys + "</ul>";
  }

  void whole_table(const ViewTable& table) {
    const bool closed = table.rows.size() > kOpenRows;
    if (closed)
      out_ += "<details><summary>" + escaped(table.title) + ": " +
              std::to_string(table.rows.size()) + " rows</summary>";
    // A table that is wider than the page scrolls, also by keys.
    out_ += "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"" +
            escaped(table.title) + "\"><table><caption>" + escaped(table.title) +
            "</caption><thead><tr>";
    // Columns without any content are left out.
    std::vector<size_t> longest(table.columns.size());
    std::vector<bool> any(table.columns.size());
    for (const auto& row : table.rows)
      for (size_t i = 0; i < row.size() && i < any.size(); ++i) {
        longest[i] = std::max(longest[i], row[i].text.size());
        if (row[i].value || !row[i].text.empty()) any[i] = true;
      }
    for (size_t i = 0; i < any.size(); ++i) {
      const auto& [heading, key, unit] = table.columns[i];
      std::string kind = unit == Unit::text ? "" : "n";
      if (heading.size() > kShortText) kind += " w";
      if (any[i]) out_ += "<th scope=\"col\" class=\"" + kind + "\">" + escaped(heading) + "</th>";
    }
    out_ += "</tr></thead><tbody>\n";
    // The end tags of rows and cells may be left out.
    for (const auto& row : table.rows) {
      out_ += "<tr>";
      for (size_t i = 0; i < table.columns.size(); ++i)
        if (any[i]) cell(i < row.size() ? row[i] : ViewCell(), table.columns[i].unit, longest[i]);
      out_ += "\n";
    }
    out_ += "</tbody></table></div>";
    if (closed) out_ += "</details>";
  }

  void cell(const ViewCell& cell, Unit unit, size_t longest) {
    std::string kind;
    const auto add = [&](const char* name) {
      if (*name) kind += (kind.empty() ? "" : " ") + std::string(name);
    };
    if (unit != Unit::text) add("n");
    if (longest > kShortText) add(longest > kMiddleText ? "l" : "m");
    add(tone_class(cell.tone));
    if (unit == Unit::error && cell.value) add(heat_class(*cell.value));
    out_ += "<td";
    if (!kind.empty())
      out_ += kind.find(' ') == std::string::npos ? " class=" + kind : " class=\"" + kind + "\"";
    if (cell.value && (unit == Unit::seconds || unit == Unit::bytes)) {
      char text[40];
      std::snprintf(text, sizeof text, " data-v=%.6g", *cell.value);
      out_ += text;
    }
    out_ += ">" + escaped(shown(cell, unit));
  }

  const View& view_;
  std::string out_;
  size_t views_ = 0;
};

}  // namespace

std::string page_of(const View& view) { return Page(view).done(); }

}  // namespace fk
