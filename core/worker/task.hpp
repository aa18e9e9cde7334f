// SPDX-License-Identifier: Apache-2.0
// Work other than whole models that has to happen in a runner, because it runs plugin code: `check`
// and `bench` register theirs beside their verb. Arguments and results are JSON.
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

// What a runner offers a task.
struct TaskServices {
  const Catalog& catalog;
  const Plugins& plugins;  // all that this runner was told to load
  int rank;                // of this process; 0 where there is one
  int local_rank;          // among the ranks of this machine, which have its devices in turn
  // The communicator of the ranks for this device, which outlives it; all ranks ask together. Null:
  // there is one rank.
  std::function<std::shared_ptr<Communicator>(Device& device)> communicator;
  // Tells the broker what is being done: the place that is named when the process crashes now.
  std::function<void(const std::string& stage)> stage;
  // Sends an intermediate result, which also shows that the runner is alive.
  std::function<void(const Json& progress)> progress;
  // Waits for the sign of a broker who has something to wait for itself (Runner::sign), and has it
  // within a microsecond where cores are to spare; false: there is nothing to do any more.
  std::function<bool()> await_sign;
  // Says that all but the answer is there (Runner::says_done), for who looks at it at once.
  std::function<void()> done;
  // Descriptors that came with the request, which are the task's to close, and those that go with
  // the result, which it gives away.
  std::vector<int> fds = {};
  std::vector<int>* answer_fds = nullptr;
};
// Throws Error (or anything) when it cannot be done; the broker gets the text.
using Task = Json (*)(const Json& arguments, const TaskServices& services);

struct TaskRegistration {
  TaskRegistration(const char* name, Task task);
};
Task find_task(const std::string& name);  // null if there is none

// Rows that a task tells of one by one, as the broker may read them: the process that says them may
// be a candidate's.
class ToldRows {
 public:
  // `model`: a row with every key, and values of the kinds that they have; null: a number or null.
  explicit ToldRows(Json model) : model_(std::move(model)) {}
  // Error unless it is such a row, of which keys may be missing, and not beyond all measure.
  void add(const Json& row);
  const std::vector<Json>& rows() const { return rows_; }

 private:
  Json model_;
  std::vector<Json> rows_;
  std::size_t bytes_ = 0;
};

}  // namespace fk

// At file scope in core/cli/<verb>.cpp, which is always linked: FK_TASK(check, run_check).
#define FK_TASK(name, task) static const ::fk::TaskRegistration fk_task_##name(#name, task)
