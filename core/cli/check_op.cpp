// SPDX-License-Identifier: Apache-2.0
// Tasks of `check` for a worker: the cases of an op, and a smoke check before a run.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/cases/captured.hpp"
#include "core/cases/numerics/families.hpp"
#include "core/check/check.hpp"
#include "core/check/handshake.hpp"
#include "core/cli/check_rows.hpp"
#include "core/device/rank_device.hpp"
#include "core/scenario/side.hpp"
#include "core/worker/process_state.hpp"
#include "core/worker/task.hpp"

namespace fk {
namespace {

// Threads for a plugin: two on the CPU. On a GPU all threads, because the host makes large inputs.
int threads_beside(const Device& device) {
  return device.host_memory() ? 2
                              : static_cast<int>(std::max(2u, std::thread::hardware_concurrency()));
}

Nothing check_op(const CheckOp& asked, const TaskServices& services) {
  adopt_orphans();
  CheckOptions options;
  const auto device = open_device(device_of_rank(asked.device, services.local_rank));
  const auto comm = services.communicator(*device);
  options.device = device.get();
  options.threads = threads_beside(*device);
  options.size = asked.size;
  options.only_cases = asked.cases;
  options.seed = asked.seed;
  options.quick = asked.quick;
  for (const auto& family : asked.families) options.families.push_back(family_of(family));
  options.ops = {asked.op};
  options.plugins = &services.plugins;
  options.comm = comm.get();
  options.on_row = [&](const CheckRow& row) { services.progress(to_fields(row)); };
  options.on_step = [&](const CheckRow& row, const std::string& step) {
    services.stage(row.op + ", case " + row.case_name + ", " + row.variant + ": " + step);
  };
  const std::string& plugin = asked.plugin;
  std::vector<Case> cases;
  if (!asked.captured.empty()) {
    services.stage("reading " + asked.captured);
    cases = Captured::open(asked.captured, services.catalog).cases(asked.op);
    options.cases = &cases;
  }
  CheckRow hello;
  hello.op = options.ops[0];
  hello.provider = plugin;
  hello.text = handshake_fault(services.plugins.entry(plugin), [&](const std::string& step) {
    services.stage("the entry, " + step);
  });
  if (!hello.text.empty()) {
    hello.status = CheckStatus::violation;
    hello.rule = "hello";
    services.progress(to_fields(hello));
    return {};
  }
  check_plugin(services.plugins, plugin, options);
  return {};
}
FK_TASK(check_op);

// Before a candidate's whole-model run: checks its smallest cases as written.
std::string smoke_check(const SmokeCheck& asked, const TaskServices& services) {
  CheckOptions options;
  const auto device = open_device(asked.device);
  options.device = device.get();
  options.threads = threads_beside(*device);
  options.quick = true;
  options.plugins = &services.plugins;
  options.on_step = [&](const CheckRow& row, const std::string& step) {
    services.stage(row.op + ", case " + row.case_name + ": " + step);
  };
  for (const auto& row : check_plugin(services.plugins, asked.plugin, options).rows) {
    if (row.status != CheckStatus::wrong && row.status != CheckStatus::violation) continue;
    return row.op + ", case " + row.case_name + ": " + (row.rule.empty() ? "" : row.rule + ": ") +
           row.text;
  }
  return "";
}
FK_TASK(smoke_check);

}  // namespace
}  // namespace fk
