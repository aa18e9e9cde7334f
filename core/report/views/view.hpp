// SPDX-License-Identifier: Apache-2.0
// A document as people look at it: charts and tables, from the JSON that --json writes and from
// nothing else. A page (page.hpp), CSV and Markdown (exports.hpp) show the same view. The parts of
// a view register themselves: one file of sections/ for each subject, and no list to edit.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.hpp"

namespace fk {

enum class Tone : uint8_t { plain, good, bad, weak };
// How a value reads, and in which form CSV has it: times in seconds, sizes in bytes, shares from 0
// to 1. A ratio has an interval, so it becomes three columns. An error is a multiple of what is
// allowed, and coloured: a table with several such columns is a heat map.
enum class Unit : uint8_t { text, number, ratio, seconds, share, bytes, error };

struct ViewCell {
  std::string text = {};  // for Unit::text; for others, words in place of a missing value
  std::optional<double> value = {}, low = {}, high = {};
  Tone tone = Tone::plain;

  ViewCell() = default;
  ViewCell(std::string words, Tone t = Tone::plain) : text(std::move(words)), tone(t) {}  // NOLINT
  ViewCell(const char* words) : text(words) {}                                            // NOLINT
  ViewCell(std::optional<double> v, Tone t = Tone::plain) : value(v), tone(t) {}          // NOLINT
  ViewCell(std::optional<double> v, std::optional<double> l, std::optional<double> h)
      : value(v), low(l), high(h) {}
};
// The tone of a status, of a verdict, or of an answer about speed.
Tone tone_of_word(const std::string& word);
inline ViewCell status_cell(const std::string& word) { return {word, tone_of_word(word)}; }
// The cell as a page and Markdown show it.
std::string shown(const ViewCell& cell, Unit unit);

struct ViewTable {
  struct Column {
    std::string heading;
    std::string key;  // in CSV
    Unit unit = Unit::text;
  };
  std::string name;  // of its CSV file
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<ViewCell>> rows = {};
};

struct ViewChart {
  std::string title;
  std::string svg;                                     // made by charts.hpp
  std::string note = {};                               // how to read it
  std::string png = {};                                // in place of svg: a PNG file in base64
  std::string wav = {};                                // beside png: a WAV file in base64
  bool picture = false;                                // stands beside others of its size
  bool strip = false;                                  // a picture as wide as the page
  std::vector<std::pair<int, std::string>> keys = {};  // colours of the page, and their meanings
};

struct ViewSection {
  std::string title;
  std::string note = {};
  std::vector<ViewChart> charts = {};
  std::vector<ViewTable> tables = {};  // empty ones are not shown
};

// One document. A document with others inside (several scenarios, submissions or candidates) has a
// view for each of them.
struct View {
  std::string kind;       // "fk-host.run"
  std::string title;      // the subject's name
  std::string name = {};  // of its CSV files; empty: the title
  std::string lead;       // the answer, in a few words
  Tone tone = Tone::plain;
  std::vector<std::pair<std::string, std::string>> facts = {};  // empty ones are not shown
  std::vector<ViewSection> sections = {};
  std::vector<View> inner = {};
};

// Texts with unsafe characters, and bytes that are not UTF-8, are made printable first.
View view_of(const Json& document);
// Kinds of documents with a view, in order.
std::vector<std::string> viewed_kinds();

using AddToView = void (*)(const Json& document, View& view);
struct ViewRegistration {
  // `order`: parts with smaller numbers come first.
  ViewRegistration(const char* kind, int order, AddToView add);
};

}  // namespace fk

// At file scope: FK_VIEW(run_speed, "fk-host.run", 20, add_run_speed).
#define FK_VIEW(name, kind, order, add) \
  static const ::fk::ViewRegistration fk_view_##name(kind, order, add)
