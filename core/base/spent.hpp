// SPDX-License-Identifier: Apache-2.0
// Adds up the seconds of each activity of a process. The activities are in the order of their first
// begin.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace fk {

class Spent {
 public:
  // Time up to the next call is counted under this name; empty: not counted.
  void enter(const std::string& what);
  // The running activity is not included: enter("") ends it.
  const std::vector<std::pair<std::string, double>>& all() const { return all_; }

 private:
  std::vector<std::pair<std::string, double>> all_;
  std::string what_;
  double since_s_ = 0;
};

}  // namespace fk
