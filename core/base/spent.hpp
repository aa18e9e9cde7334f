// SPDX-License-Identifier: Apache-2.0
// What time went to: seconds by what was done, in the order in which it was first begun.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace fk {

class Spent {
 public:
  // What follows, up to the next one, is counted under this name; empty: nothing.
  void enter(const std::string& what);
  // Without what goes on: enter("") ends it.
  const std::vector<std::pair<std::string, double>>& all() const { return all_; }

 private:
  std::vector<std::pair<std::string, double>> all_;
  std::string what_;
  double since_s_ = 0;
};

}  // namespace fk
