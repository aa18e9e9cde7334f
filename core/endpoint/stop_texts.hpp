// SPDX-License-Identifier: Apache-2.0
// Texts that end an answer. The end of a text may begin one of them, so it is held back until more
// is known.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace fk {

class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  // Adds a text, and returns the text that is certain. After a stop text nothing more comes.
  std::string push(std::string_view text);
  // The text that was held back, at the end of an answer.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace fk
