// SPDX-License-Identifier: Apache-2.0
// What stays between judgements, so that the next one starts at once: the oracle's process with
// cases that are open ahead, the baseline's process, and a process that waits for a candidate.
// Processes of candidates are used once.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/referee/roster.hpp"
#include "core/referee/verdict/secret.hpp"
#include "core/worker/runner.hpp"

namespace fk {

constexpr double kBatchSeconds = 0.5e-3;  // of the calls in one sample, where sets suffice

// A case as it is asked for; equal requests under one secret have equal contents.
struct ExamRequest {
  std::string op, case_name, size, device;
  int threads = 2;
  std::vector<std::string> families;
  std::string key() const;
};

// A case that the oracle has open. Its descriptors are closed with it.
struct OpenExam {
  int id = -1;
  Json answer;
  std::vector<int> fds;
  OpenExam() = default;
  OpenExam(const OpenExam&) = delete;
  ~OpenExam();
};

class Courtroom {
 public:
  // `roster` outlives it. Processes start when they are needed.
  Courtroom(const Roster& roster, std::string device, double patience_s, bool sandbox = true);
  ~Courtroom();
  const std::string& device() const { return device_; }

  // Starts what is missing, all at once; `without` is a baseline that a candidate replaces. The
  // baselines are in the candidate's process only where they may be its children.
  // Error when the oracle or the baseline cannot be had.
  struct Present {
    std::unique_ptr<Runner> candidate;  // may have failed
  };
  Present enter(const std::string& without, bool children);
  Runner& baseline() { return *baseline_; }

  // To the oracle; Error when its process fails.
  Json ask(const char* task, const Json& arguments);
  // From what was opened ahead under this secret, or opened now.
  std::unique_ptr<OpenExam> open(const ExamRequest& request, const Secret& secret);
  void close(const OpenExam& exam);  // of the oracle and the baseline; never throws

  // The secret of the next judgement, drawn ahead.
  Secret next_secret();
  // Does one piece of what the next judgement will want if it is like the last one; false when
  // nothing is left to do. `asked` are its cases.
  bool prepare(const std::vector<ExamRequest>& asked);

 private:
  enum class Seat { oracle, baseline, candidate };
  std::unique_ptr<Runner> start(Seat seat) const;
  bool load(Runner& runner, const std::vector<PluginFile>& files) const;
  std::unique_ptr<OpenExam> open_now(const ExamRequest& request, const Secret& secret);
  void drop_ahead();

  const Roster& roster_;
  std::string device_;
  double patience_s_;
  bool sandbox_;
  std::unique_ptr<Runner> oracle_, baseline_, spare_;
  Secret secret_;
  std::map<std::string, std::unique_ptr<OpenExam>> ahead_;  // under secret_
  int next_id_ = 0;
};

}  // namespace fk
