// SPDX-License-Identifier: Apache-2.0
// Judges of one device take turns: who shares it with another measures both, and finds its memory
// gone where the other one's candidate takes all of it.
#pragma once
#include <string>

namespace fk {

// Of this user's processes on this machine. Waits for its turn and gives it back when it ends; on
// the CPU, which many processes share anyhow, there are no turns.
class DeviceTurn {
 public:
  // `all`: the turn of every device of this kind, when nobody has one.
  explicit DeviceTurn(const std::string& device, bool all = false);
  ~DeviceTurn();
  DeviceTurn(const DeviceTurn&) = delete;

 private:
  int kind_ = -1, fd_ = -1;
};

}  // namespace fk
