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
#include "core/worker/process_state.hpp"
#include "core/worker/task.hpp"

namespace fk {
namespace {

// Threads for a plugin: two on the CPU. On a GPU all threads, because the host makes large inputs.
int threads_beside(const Device& device) {
  return device.host_memory() ? 2
                              : static_cast<int>(std::max(2u, std::thread::hardware_concurrency()));
}

Json check_op(const Json& arguments, const TaskServices& services) {
  adopt_orphans();
  CheckOptions options;
  const auto device =
      open_device(device_of_rank(arguments.at("device").get<std::string>(), services.local_rank));
  const auto comm = services.communicator(*device);
  options.device = device.get();
  options.threads = threads_beside(*device);
  options.size = arguments.at("size").get<std::string>();
  options.only_cases = arguments.at("cases").get<std::vector<std::string>>();
  options.seed = arguments.at("seed").get<uint64_t>();
  options.quick = arguments.at("quick").get<bool>();
  for (const Json& family : arguments.at("families"))
    options.families.push_back(family_of(family.get<std::string>()));
  options.ops = {arguments.at("op").get<std::string>()};
  options.plugins = &services.plugins;
  options.comm = comm.get();
  options.on_row = [&](const CheckRow& row) { services.progress(row_json(row)); };
  options.on_step = [&](const CheckRow& row, const std::string& step) {
    services.stage(row.op + ", case " + row.case_name + ", " + row.variant + ": " + step);
  };
  const auto plugin = arguments.at("plugin").get<std::string>();
  std::vector<Case> cases;
  if (const auto folder = arguments.value("captured", std::string()); !folder.empty()) {
    services.stage("reading " + folder);
    cases = Captured::open(folder, services.catalog).cases(options.ops[0]);
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
    services.progress(row_json(hello));
    return Json::object();
  }
  check_plugin(services.plugins, plugin, options);
  return Json::object();
}
FK_TASK(check_op, check_op);

// Before a candidate's whole-model run: checks its smallest cases as written.
Json smoke_check(const Json& arguments, const TaskServices& services) {
  CheckOptions options;
  const auto device = open_device(arguments.at("device").get<std::string>());
  options.device = device.get();
  options.threads = threads_beside(*device);
  options.quick = true;
  options.plugins = &services.plugins;
  options.on_step = [&](const CheckRow& row, const std::string& step) {
    services.stage(row.op + ", case " + row.case_name + ": " + step);
  };
  for (const auto& row :
       check_plugin(services.plugins, arguments.at("plugin").get<std::string>(), options).rows) {
    if (row.status != CheckStatus::wrong && row.status != CheckStatus::violation) continue;
    return {{"wrong", row.op + ", case " + row.case_name + ": " +
                          (row.rule.empty() ? "" : row.rule + ": ") + row.text}};
  }
  return Json::object();
}
FK_TASK(smoke_check, smoke_check);

}  // namespace
}  // namespace fk
