// SPDX-License-Identifier: Apache-2.0
#include "core/cli/verdict_progress.hpp"

#include <chrono>
#include <cstdio>

#include "core/base/clock.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

constexpr double kQuietSeconds = 2;
constexpr auto kTick = std::chrono::milliseconds(500);

}  // namespace

VerdictProgress::VerdictProgress() : start_s_(now_seconds()) {
  clock_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!over_.wait_for(lock, kTick, [this] { return is_over_; })) tell();
  });
}

VerdictProgress::~VerdictProgress() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_all();
  clock_.join();
}

JudgeProgress VerdictProgress::listener() {
  return {[this](const std::string& what) { step(what); },
          [this](const std::string& what) { ended(what); }};
}

void VerdictProgress::step(const std::string& what) {
  const std::lock_guard lock(mutex_);
  step_ = what;
  step_s_ = now_seconds();
  tell();
}

void VerdictProgress::ended(const std::string& what) {
  const std::lock_guard lock(mutex_);
  ended_.push_back(what);
  tell();
}

void VerdictProgress::tell() {
  const double now = now_seconds();
  if (now - start_s_ < kQuietSeconds) return;
  for (const auto& one : ended_) {
    line_.clear();
    std::fprintf(stderr, "%s\n", excerpt(one, 200).c_str());
  }
  ended_.clear();
  if (!step_.empty()) line_.say(step_ + " (" + human_duration(now - step_s_) + ")");
}

}  // namespace fk
