// SPDX-License-Identifier: Apache-2.0
// Progress of long work on stderr: one rewritten line on a terminal, else a line every few seconds.
// Quick work prints nothing.
#pragma once
#include <string>

namespace fk {

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
