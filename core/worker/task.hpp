// SPDX-License-Identifier: Apache-2.0
// Work other than whole models that has to run in a worker, because it runs plugin code. `check`
// and `bench` register their tasks beside their verbs. A task is a function of its question, a
// message (core/base/handlers.hpp).
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/handlers.hpp"
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
  // Sends an intermediate result, which also shows that the worker is alive.
  std::function<void(const Json& progress)> progress;
  // Waits for the sign of a controller that has other waits of its own (`Runner::sign`). With idle
  // cores it sees the sign within a microsecond. False: the task is cancelled.
  std::function<bool()> await_sign;
  // Reports that only the answer is missing (`Runner::says_done`), to a controller that polls.
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
// Makes a Task of a function with a typed question and answer.
template <auto kFunction>
struct TypedTask;
template <class Question, class Answer, Answer (*kFunction)(const Question&, const TaskServices&)>
struct TypedTask<kFunction> {
  static_assert(std::is_same_v<Answer, typename Question::Answer>);
  static constexpr const char* kName = Question::kName;
  static Json run(const Json& arguments, const TaskServices& services) {
    return to_fields(kFunction(from_fields<Question>(arguments, kName), services));
  }
};
bool has_task(const std::string& name);
const Task& need_task(const std::string& name);  // UnknownMessage if there is none

// Rows that a task reports one by one, for the controller. They are untrusted: the reporting
// process may run a candidate.
template <class Row>
class ToldRows {
 public:
  // Error unless it is such a row, and not beyond all measure.
  void add(const Json& news) {
    constexpr std::size_t kRowsMost = 100'000;
    if (rows_.size() == kRowsMost) fail("worker", "it tells of more rows than there can be");
    rows_.push_back(from_fields<Row>(news, "a malformed row", kForeignText));
  }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::vector<Row> rows_;
};

}  // namespace fk

// At file scope in core/cli/<verb>.cpp, which is always linked: FK_TASK(run_check). The task has
// the name of its question.
#define FK_TASK(function)                                                                  \
  static const ::fk::TaskRegistration fk_task_##function(::fk::TypedTask<function>::kName, \
                                                         ::fk::TypedTask<function>::run)
