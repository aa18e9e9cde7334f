// SPDX-License-Identifier: Apache-2.0
#include "core/report/kernel_text.hpp"

#include <fmt/format.h>

#include "core/base/text.hpp"

namespace fk {

std::string percent_text(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string kernel_text(const std::vector<KernelProfile>& kernels) {
  std::string out;
  for (const auto& k : kernels) {
    out += k.kernel + "\n";
    out += "  " + human_duration(k.seconds) + ", compute " + percent_text(k.compute) + ", memory " +
           percent_text(k.memory) + ", DRAM " + percent_text(k.dram) + ", L2 " +
           percent_text(k.l2) + ", tensor cores " + percent_text(k.tensor) + "\n";
    out += "  occupancy " + percent_text(k.occupancy) + " of " +
           percent_text(k.occupancy_possible) + " by " + k.occupancy_limit + ", " +
           fmt::format("{:.2f}", k.waves) + " waves, " + std::to_string(k.registers) +
           " registers, " + human_bytes(k.shared_bytes) + " shared\n";
    std::vector<std::string> stalls;
    for (const auto& s : k.stalls) stalls.push_back(s.reason + " " + percent_text(s.share));
    if (!stalls.empty()) out += "  waits " + join(stalls, ", ") + "\n";
    for (const auto& line : k.lines)
      out += "  " + percent_text(line.share) + " of samples at " + line.place + ": " + line.code +
             (line.stall.empty() ? "" : " (" + line.stall + ")") + "\n";
    for (const auto& hint : k.hints) out += "  next " + hint + "\n";
  }
  return std::string(trim(out));
}

}  // namespace fk
