// SPDX-License-Identifier: Apache-2.0
#include "core/judge/verdict/budget.hpp"

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/machine.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {
constexpr int64_t kKeptShare = 16;  // one part of this number of free memory stays free
}

Budget::Budget(double seconds, std::optional<int64_t> memory)
    : seconds_(seconds),
      end_s_(now_seconds() + seconds),
      memory_(memory.value_or(free_memory().value_or(0) / kKeptShare)) {}

void Budget::need() const {
  if (seconds_ > 0 && now_seconds() > end_s_)
    fail("the verdict's budget", human_duration(seconds_) + " are spent",
         "--budget gives it more, --op and --case ask for less");
  const auto free = free_memory();
  if (memory_ > 0 && free && *free < memory_)
    fail("the verdict's budget", "of memory no more than " + human_bytes(*free) + " is free",
         "--op and --case ask for less");
}

void name_unreached(std::vector<CaseVerdict>& cases, const std::string& why) {
  for (CaseVerdict& row : cases)
    if (row.status == Status::environment && row.why.empty() && !row.beside)
      row.why = "not reached: " + why;
}

}  // namespace fk
