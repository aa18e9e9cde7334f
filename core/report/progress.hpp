// SPDX-License-Identifier: Apache-2.0
// Progress of long work on stderr: one rewritten line on a terminal, else a line every ten seconds.
// Quick work prints nothing. A text with "(3 of 12)" in it says that the third of twelve parts
// runs; a terminal shows these numbers as a bar.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace fk {

// The numbers of the last "(N of M)" in a text.
std::optional<std::pair<int64_t, int64_t>> part_of(std::string_view text);
// Ten columns: "[##        ]" for the third of twelve parts, because two are done.
std::string progress_bar(int64_t part, int64_t parts);

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  void say(const std::string& text);
  void clear();  // before other output

 private:
  bool terminal_;
  bool shown_ = false;
  double last_s_;
};

}  // namespace fk
