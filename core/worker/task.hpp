// SPDX-License-Identifier: Apache-2.0
// Work other than whole models that has to run in a worker, because it runs plugin code. `check`
// and `bench` register their tasks beside their verbs. Arguments and results are JSON.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/comm/communicator.hpp"
#include "core/device/device.hpp"
#include "core/plugin/library.hpp"

namespace fk {

// The worker's services for a task.
struct TaskServices {
  const Catalog& catalog;
  const Plugins& plugins;  // all plugins of this worker
  int rank;                // of this process; 0 with one rank
  int local_rank;          // among the ranks of this machine, which use its devices in turn
  // The ranks' communicator for this device, which must outlive it; all ranks ask together. Null:
  // there is one rank.
  std::function<std::shared_ptr<Communicator>(Device& device)> communicator;
  // Reports the current activity to the controller, for the message after a crash.
  std::function<void(const std::string& stage)> stage;
  // Sends an intermediate result, which also shows that the runner is alive.
  std::function<void(const Json& progress)> progress;
  // Waits for the sign of a controller that has other waits of its own (Runner::sign). With idle
  // cores it sees the sign within a microsecond. False: the task is cancelled.
  std::function<bool()> await_sign;
  // Reports that only the answer is missing (Runner::says_done), to a controller that polls.
  std::function<void()> done;
  // Descriptors received with the request, which the task closes; and descriptors for the result,
  // which the task gives away.
  std::vector<int> fds = {};
  std::vector<int>* answer_fds = nullptr;
};
// Throws Error (or any exception) when it fails; the controller gets the text.
using Task = Json (*)(const Json& arguments, const TaskServices& services);

struct TaskRegistration {
  TaskRegistration(const char* name, Task task);
};
Task find_task(const std::string& name);  // null if there is none

// Rows that a task reports one by one, for the controller. They are untrusted: the reporting
// process may run a candidate.
class ToldRows {
 public:
  // `model`: a row with every key and a value of each key's kind; null stands for a number or null.
  explicit ToldRows(Json model) : model_(std::move(model)) {}
  // Error for a row of another form (keys may be missing), or for too many or too large rows.
  void add(const Json& row);
  const std::vector<Json>& rows() const { return rows_; }

 private:
  Json model_;
  std::vector<Json> rows_;
  std::size_t bytes_ = 0;
};

}  // namespace fk

// At file scope in core/cli, which is always linked: FK_TASK(check, run_check).
#define FK_TASK(name, task) static const ::fk::TaskRegistration fk_task_##name(#name, task)
