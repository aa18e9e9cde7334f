// SPDX-License-Identifier: Apache-2.0
// Finds memory that a candidate took without asking, from figures that it cannot change. A place is
// a device, which other processes may use too, or, on the CPU, one rank's process. The driver may
// tell the owners of a device's memory. Otherwise the end of the process shows it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace fk {

struct MemoryLook {
  int64_t all = 0;             // in use by all processes; 0: not known
  std::optional<int64_t> own;  // share of the candidate's processes; nothing: unknown
};
using MemoryLooks = std::vector<MemoryLook>;  // by place

class MemoryAccount {
 public:
  // Memory in use now is not counted as taken. Forgets what was lent, because it is in use.
  void begin(MemoryLooks looks);
  // Bytes by place that instances asked for and got since begin().
  void lend(std::vector<int64_t> bytes);

  enum class Whose { candidate, unknown, somebody_else };
  struct Taken {
    size_t place = 0;
    int64_t bytes = 0;
    Whose whose = Whose::unknown;
  };
  // Memory beyond begin() and lend(), if it is more than code and handles need. If several places
  // qualify, returns the one with the strongest proof against the candidate. A process may map
  // others' memory, which counts as its own. So the device's total must have grown too.
  std::optional<Taken> taken(const MemoryLooks& now) const;
  // For Whose::unknown, after the candidate's processes have ended between the two looks: true when
  // more memory came back than they were entitled to.
  bool came_back(const Taken& taken, const MemoryLooks& before, const MemoryLooks& after) const;

 private:
  MemoryLooks begun_;
  std::vector<int64_t> lent_, given_;  // by place: since begin(), and by lend()
};

}  // namespace fk
