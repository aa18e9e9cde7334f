// SPDX-License-Identifier: Apache-2.0
// The floating-point modes of a thread: rounding, flushing of denormals, traps, and on x86-64 the
// precision of the x87 unit. Exception flags are results, not modes.
#pragma once
#include <cstdint>
#include <string>

namespace fk {

class FloatModes {
 public:
  // The modes of the calling thread.
  static FloatModes now();
  // Empty when `later` is the same, else a sentence with the changes.
  std::string changed_in(const FloatModes& later) const;
  // Gives the calling thread these modes.
  void put_back() const;

 private:
  uint64_t modes_ = 0;  // the control bits of the vector unit
  uint16_t x87_ = 0;    // the control word of x87, which long double uses
  int rounding_ = 0;
};

// Lives while plugin code runs. The destructor restores the thread's modes.
class KeptModes {
 public:
  KeptModes() = default;
  KeptModes(const KeptModes&) = delete;
  ~KeptModes() { before_.put_back(); }
  // A sentence with the changes so far; empty: no change.
  std::string changed() const { return before_.changed_in(FloatModes::now()); }

 private:
  const FloatModes before_ = FloatModes::now();
};

}  // namespace fk
