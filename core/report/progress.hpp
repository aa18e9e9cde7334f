// SPDX-License-Identifier: Apache-2.0
// What long work says while it goes on, on stderr: one line that is rewritten on a terminal, a line
// every few seconds elsewhere. Nothing at all where everything is done quickly.
#pragma once
#include <string>

namespace fk {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  void say(const std::string& text);
  void clear();  // before something else is printed

 private:
  bool terminal_;
  bool shown_ = false;
  double last_s_;
};

}  // namespace fk
