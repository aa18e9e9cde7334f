// SPDX-License-Identifier: Apache-2.0
// Whether a candidate has taken memory that it has not asked for, from figures that it cannot
// change. A place is a device, whose memory others may have as well, or on the CPU the process of
// one rank. Of a device the driver may know which process has how much; where it does not tell, it
// shows when the process ends.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace fk {

struct MemoryLook {
  int64_t all = 0;             // in use, whoever has it; 0: not known
  std::optional<int64_t> own;  // of that the candidate's processes; nothing: nobody tells
};
using MemoryLooks = std::vector<MemoryLook>;  // by place

class MemoryAccount {
 public:
  // What is in use from here on is not taken. Nothing is lent any more: it is in use.
  void begin(MemoryLooks looks);
  // By place, what the candidate's instances have asked for and were given since.
  void lend(std::vector<int64_t> bytes);

  enum class Whose { candidate, unknown, somebody_else };
  struct Taken {
    size_t place = 0;
    int64_t bytes = 0;
    Whose whose = Whose::unknown;
  };
  // What was taken beside that, more than code and handles need; of several places that of which is
  // known most that speaks against the candidate. What a process maps of others' memory may count
  // as its own, but nobody has taken it: so the device has to have lost it as well.
  std::optional<Taken> taken(const MemoryLooks& now) const;
  // Of what nobody tells: whether the candidate's processes, which have ended between these looks,
  // have given back more than what was theirs by right.
  bool came_back(const Taken& taken, const MemoryLooks& before, const MemoryLooks& after) const;

 private:
  MemoryLooks begun_;
  std::vector<int64_t> lent_, given_;  // by place: since begin(), and by lend()
};

}  // namespace fk
