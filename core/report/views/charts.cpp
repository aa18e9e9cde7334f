// SPDX-License-Identifier: Apache-2.0
#include "core/report/views/charts.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/text.hpp"

namespace fk {

namespace {

constexpr double kLabel = 17, kBar = 13, kGap = 9, kAxis = 22;  // pixels

std::string fixed(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}
std::string percent(double share) { return fixed(100 * std::clamp(share, 0.0, 1.0)) + "%"; }

class Svg {
 public:
  explicit Svg(const std::string& title) : title_(title) {}

  void line(double x1, double y1, double x2, double y2, const char* kind) {
    body_ += "<line x1=\"" + percent(x1) + "\" y1=\"" + fixed(y1) + "\" x2=\"" + percent(x2) +
             "\" y2=\"" + fixed(y2) + "\" class=\"" + kind + "\"/>";
  }
  void rect(double x1, double x2, double y, double height, const std::string& kind,
            const std::string& title) {
    body_ += "<rect x=\"" + percent(x1) + "\" y=\"" + fixed(y) + "\" width=\"" +
             percent(std::max(x2 - x1, 0.0)) + "\" height=\"" + fixed(height) + "\" class=\"" +
             kind + "\"><title>" + escaped(title) + "</title></rect>";
  }
  void circle(double x, double y, const std::string& kind, const std::string& title) {
    body_ += "<circle cx=\"" + percent(x) + "\" cy=\"" + fixed(y) + "\" r=\"4.5\" class=\"" + kind +
             "\"><title>" + escaped(title) + "</title></circle>";
  }
  // `anchor`: start, middle or end, as in SVG.
  void text(double x, double y, const std::string& words, const char* anchor = "start",
            const char* kind = "label") {
    body_ += "<text x=\"" + percent(x) + "\" y=\"" + fixed(y) + "\" text-anchor=\"" + anchor +
             "\" class=\"" + kind + "\">" + escaped(words) + "</text>";
  }
  // The name on the left, the value on the right, above a row's bars.
  void heading(double y, const std::string& label, const std::string& value) {
    // A label that is too long for a phone is cut where the value begins.
    body_ += "<svg x=\"0\" y=\"" + fixed(y) + "\" width=\"62%\" height=\"" + fixed(kLabel) +
             "\"><text x=\"0\" y=\"12\" class=\"label\">" + escaped(excerpt(label, 64)) +
             "</text></svg>";
    text(1, y + 12, value, "end", "value");
  }
  void raw(const std::string& element) { body_ += element; }

  std::string done(double height) const {
    return "<svg role=\"img\" aria-label=\"" + escaped(title_) + "\" width=\"100%\" height=\"" +
           fixed(height) + "\"><title>" + escaped(title_) + "</title>" + body_ + "</svg>";
  }

 private:
  std::string title_, body_;
};

// Positions of a logarithmic axis.
struct LogAxis {
  double low, high;
  double at(double value) const {
    return std::clamp((std::log(value) - std::log(low)) / (std::log(high) - std::log(low)), 0.0,
                      1.0);
  }
};

// Numbers to write at an axis of ratios: few, round, and 1 among them.
std::vector<double> ratio_ticks(const LogAxis& axis) {
  const double span = axis.high / axis.low;
  const std::vector<double> all =
      span > 300   ? std::vector<double>{0.0001, 0.01, 1, 100, 1e4, 1e6}
      : span > 12  ? std::vector<double>{0.001, 0.01, 0.1, 0.3, 1, 3, 10, 30, 100, 1000}
      : span > 2.2 ? std::vector<double>{0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10}
                   : std::vector<double>{0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 1.75, 2};
  std::vector<double> out;
  for (const double tick : all)
    if (tick >= axis.low && tick <= axis.high) out.push_back(tick);
  return out;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

const char* class_of(Tone tone) {
  switch (tone) {
    case Tone::good:
      return "good";
    case Tone::bad:
      return "bad";
    case Tone::weak:
      return "weak";
    default:
      return "plain";
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

ViewChart interval_chart(const std::string& title, std::vector<IntervalRow> rows, size_t rows_max) {
  std::erase_if(rows, [](const IntervalRow& row) { return !(row.value > 0); });
  ViewChart out{.title = title, .svg = {}, .note = "Right of 1 is faster. A line is the interval."};
  if (rows.empty()) return out;
  if (rows.size() > rows_max) {
    const size_t all = rows.size();
    std::vector<double> far;
    for (const auto& row : rows) far.push_back(std::abs(std::log(row.value)));
    std::ranges::sort(far, std::greater());
    const double least = far[rows_max - 1];
    std::erase_if(rows, [&](const auto& row) { return std::abs(std::log(row.value)) < least; });
    rows.resize(std::min(rows.size(), rows_max));
    out.note += " The " + std::to_string(rows.size()) + " of " + std::to_string(all) +
                " that are farthest from 1; the table has all.";
  }
  LogAxis axis{0.9, 1.1};
  for (const auto& row : rows) {
    const double low = row.low.value_or(row.value), high = row.high.value_or(row.value);
    if (low > 0) axis.low = std::min(axis.low, low / 1.05);
    axis.low = std::min(axis.low, row.value / 1.05);
    axis.high = std::max({axis.high, high * 1.05, row.value * 1.05});
  }
  Svg svg(title);
  const double row_height = kLabel + kBar + kGap;
  const double bottom = row_height * static_cast<double>(rows.size());
  for (const double tick : ratio_ticks(axis)) {
    svg.line(axis.at(tick), 0, axis.at(tick), bottom, tick == 1 ? "one" : "grid");
    const double at = axis.at(tick);
    svg.text(at, bottom + 15, short_number(tick),
             at < 0.03   ? "start"
             : at > 0.97 ? "end"
                         : "middle",
             "tick");
  }
  double y = 0;
  for (const auto& row : rows) {
    const std::string value = shown({row.value, row.low, row.high}, Unit::ratio);
    const double middle = y + kLabel + kBar / 2;
    svg.heading(y, row.label, value);
    if (row.low && row.high && *row.low > 0)
      svg.rect(axis.at(*row.low), axis.at(*row.high), middle - 2, 4, class_of(row.tone),
               row.label + ": " + value);
    svg.circle(axis.at(row.value), middle, class_of(row.tone), row.label + ": " + value);
    y += row_height;
  }
  out.svg = svg.done(bottom + kAxis);
  return out;
}

ViewChart bar_chart(const std::string& title, const std::vector<BarRow>& rows, Unit unit,
                    const std::string& before, const std::string& after) {
  double most = 0;
  bool two = false;
  for (const auto& row : rows) {
    for (const auto& value : {row.before, row.after, row.before_high, row.after_high})
      most = std::max(most, value.value_or(0));
    two |= row.after.has_value();
  }
  ViewChart out{.title = title, .svg = {}, .note = {}};
  if (!(most > 0)) return out;
  Svg svg(title);
  double y = 0;
  if (two) {
    svg.rect(0, 0.02, 3, 10, "before", before);
    svg.text(0.03, 12, excerpt(before, 24));
    svg.rect(0.5, 0.52, 3, 10, "after", after);
    svg.text(0.53, 12, excerpt(after, 24));
    y = 22;
  }
  for (const auto& row : rows) {
    const auto words = [&](const std::optional<double>& value) {
      return value ? shown({value}, unit) : std::string("none");
    };
    svg.heading(y, row.label,
                two ? words(row.before) + ", " + words(row.after) : words(row.before));
    y += kLabel;
    const auto bar = [&](const std::optional<double>& value, const std::optional<double>& low,
                         const std::optional<double>& high, const char* kind,
                         const std::string& name) {
      if (value)
        svg.rect(0, *value / most, y, kBar - 2, kind,
                 row.label + ", " + name + ": " + words(value));
      if (value && low && high) {
        const double middle = y + kBar / 2 - 1;
        svg.line(*low / most, middle, *high / most, middle, "whisker");
      }
      y += kBar;
    };
    bar(row.before, row.before_low, row.before_high, "before", before);
    if (two) bar(row.after, row.after_low, row.after_high, "after", after);
    y += kGap;
  }
  out.svg = svg.done(y);
  return out;
}

ViewChart stacked_chart(const std::string& title, const std::vector<StackRow>& rows, Unit unit) {
  constexpr size_t kColours = 7;  // classes part0 to part6 of page.css; others: part7
  std::map<std::string, double> sums;
  double most = 0;
  for (const auto& row : rows) {
    double sum = 0;
    for (const auto& part : row.parts) sum += part.value, sums[part.name] += part.value;
    most = std::max(most, sum);
  }
  ViewChart out{.title = title, .svg = {}, .note = {}};
  if (!(most > 0)) return out;
  std::vector<std::pair<double, std::string>> names;
  for (const auto& [name, sum] : sums) names.emplace_back(-sum, name);
  std::ranges::sort(names);
  const bool others = names.size() > kColours;
  if (others) names.resize(kColours - 1);
  Svg svg(title);
  double y = 0;
  for (const auto& row : rows) {
    double sum = 0, x = 0;
    for (const auto& part : row.parts) sum += part.value;
    svg.heading(y, row.label, shown({sum}, unit));
    y += kLabel;
    double rest = sum;
    const auto add = [&](const std::string& name, double value, size_t colour) {
      if (!(value > 0)) return;
      svg.rect(x, x + value / most, y, kBar + 4, "part" + std::to_string(colour),
               row.label + ", " + name + ": " + shown({value}, unit) + ", " +
                   shown({value / sum}, Unit::share));
      x += value / most;
    };
    for (size_t i = 0; i < names.size(); ++i) {
      double value = 0;
      for (const auto& part : row.parts)
        if (part.name == names[i].second) value += part.value;
      add(names[i].second, value, i);
      rest -= value;
    }
    if (others && rest > 1e-9 * sum) add("others", rest, kColours);
    y += kBar + 4 + kGap;
  }
  size_t at = 0;
  const auto legend = [&](const std::string& name, size_t colour) {
    const double x = at % 2 ? 0.5 : 0;
    svg.rect(x, x + 0.02, y + 3, 10, "part" + std::to_string(colour), name);
    svg.text(x + 0.03, y + 12, excerpt(name, 24));
    if (at++ % 2) y += 18;
  };
  for (size_t i = 0; i < names.size(); ++i) legend(names[i].second, i);
  if (others) legend("others", kColours);
  out.svg = svg.done(y + 20);
  return out;
}

ViewChart roofline_chart(const std::string& title, const std::vector<RooflinePoint>& points) {
  struct Placed {
    double x, y, roof;
    const RooflinePoint* of;
  };
  std::vector<Placed> placed;
  for (const auto& p : points)
    if (p.flops > 0 && p.bytes > 0 && p.seconds > 0 && p.roof > 0)
      placed.push_back({p.flops / p.bytes, p.flops / p.seconds, p.flops / p.seconds / p.roof, &p});
  ViewChart out{.title = title,
                .svg = {},
                .note =
                    "Across: operations a byte. Up: operations a second. The line is the "
                    "device's limit; hollow points are baselines."};
  if (placed.empty()) return out;
  std::ranges::sort(placed, {}, &Placed::x);
  LogAxis across{placed.front().x / 2, placed.back().x * 2}, up{1e300, 0};
  for (const auto& p : placed) {
    up.low = std::min(up.low, p.y / 2);
    up.high = std::max(up.high, std::max(p.roof, p.y) * 1.6);
  }
  constexpr double kHeight = 260;
  const auto y_of = [&](double value) { return kHeight * (1 - up.at(value)); };
  Svg svg(title);
  const auto ticks = [](const LogAxis& axis) {
    std::vector<double> all;
    const double decades = std::log10(axis.high / axis.low);
    const int step = std::max(1, static_cast<int>(decades / 6));
    for (int e = static_cast<int>(std::ceil(std::log10(axis.low)));
         e <= static_cast<int>(std::floor(std::log10(axis.high))); e += step)
      all.push_back(std::pow(10, e));
    return all;
  };
  for (const double tick : ticks(across)) {
    svg.line(across.at(tick), 0, across.at(tick), kHeight, "grid");
    svg.text(across.at(tick), kHeight + 15, short_number(tick), "middle", "tick");
  }
  for (const double tick : ticks(up)) {
    svg.line(0, y_of(tick), 1, y_of(tick), "grid");
    svg.text(0, y_of(tick) - 3, human_count(static_cast<int64_t>(tick)) + "/s", "start", "tick");
  }
  std::string roof;
  for (const auto& p : placed)
    roof += fixed(1000 * across.at(p.x)) + "," + fixed(y_of(p.roof)) + " ";
  svg.raw("<svg viewBox=\"0 0 1000 " + fixed(kHeight) + "\" width=\"100%\" height=\"" +
          fixed(kHeight) + "\" preserveAspectRatio=\"none\"><polyline points=\"" + roof +
          "\" class=\"roof\"/></svg>");
  for (const auto& p : placed)
    svg.circle(across.at(p.x), y_of(p.y), p.of->baseline ? "dot-before" : "dot-after",
               p.of->label + ": " + shown({p.of->roof}, Unit::share) + " of the limit");
  out.svg = svg.done(kHeight + kAxis);
  return out;
}

}  // namespace fk
