// SPDX-License-Identifier: Apache-2.0
// Tasks of a judged bench that the controller (core/judge/judge.cpp) gives to its processes: the
// oracle's tasks and a worker's. Cases stay open between tasks.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/float_modes.hpp"
#include "core/check/check.hpp"
#include "core/check/rank_oracle.hpp"
#include "core/device/rank_device.hpp"
#include "core/judge/candidate_server.hpp"
#include "core/measure/background_work.hpp"
#include "core/measure/race_clock.hpp"
#include "core/worker/process_state.hpp"
#include "core/worker/task.hpp"

namespace fk {
namespace {

// Open devices, by name.
std::map<std::string, Device*>& known_devices() {
  static auto* known = new std::map<std::string, Device*>;  // ended with the process
  return *known;
}

// The device of a rank; the request names the first rank's. A worker asks for one rank, the oracle
// for all.
Device& shared_device(const Json& arguments, int local_rank) {
  auto& known = known_devices();
  const std::string name = device_of_rank(arguments.at("device").get<std::string>(), local_rank);
  Device*& device = known[name];
  if (device) return *device;
  auto opened = open_device(name);
  for (const auto& [other, its] : known)  // "cuda" is "cuda:0"
    if (its && its->name() == opened->name()) device = its;
  if (!device) device = opened.release();
  return *device;
}

// One stopwatch for all cases of a device: its memory for the flush is larger than theirs.
Stopwatch& shared_stopwatch(Device& device) {
  static auto* all = new std::map<Device*, std::unique_ptr<Stopwatch>>;  // ended with the process
  auto& watch = (*all)[&device];
  if (!watch) watch = device.stopwatch();
  return *watch;
}

bool any_device_lost() {
  const auto& known = known_devices();
  return std::any_of(known.begin(), known.end(),
                     [](const auto& one) { return one.second && one.second->lost(); });
}

// The ranks' communicator, which all ranks make together; null: one rank.
Communicator* shared_comm(const Json& arguments, const TaskServices& services) {
  static auto* comm = new std::shared_ptr<Communicator>(
      services.communicator(shared_device(arguments, services.local_rank)));
  return comm->get();
}

template <class Side>
struct Open {
  std::map<int, std::unique_ptr<Side>> cases;
  Side& at(const Json& arguments) {
    const auto it = cases.find(arguments.at("case_run").get<int>());
    if (it == cases.end()) fail("case_run", "a case that is not open");
    return *it->second;
  }
};
// Ended with the process.
Open<OracleServer>& oracle_servers() {
  static auto* open = new Open<OracleServer>;
  return *open;
}
Open<CandidateServer>& candidate_servers() {
  static auto* open = new Open<CandidateServer>;
  return *open;
}

// All ranks call this together, after any failure. Symmetric buffers are invalid afterwards.
void begin_anew(Communicator& comm) {
  candidate_servers().cases.clear();
  comm.settle();
}

// ---- the oracle ----

// At most one message per second: small cases have thousands of steps.
std::function<void()> signs_of_life(const TaskServices& services, const std::string& stage) {
  return [&services, stage, last = now_seconds()]() mutable {
    if (now_seconds() - last < 1) return;
    services.progress(stage);
    last = now_seconds();
  };
}

Json case_open(const Json& a, const TaskServices& services) {
  AskedCase asked = asked_case_from(a.at("asked"));
  const Contract& contract = services.catalog.at(asked.op);
  CaseRunOptions options;
  const bool range = asked.size == kRangeSize;
  PosedCase posed = pose(asked, contract, &services.catalog);
  const int ranks = ranks_of_case(resolve(contract, posed.source, posed.variant));
  for (int r = 0; r < ranks; ++r) options.devices.push_back(&shared_device(a, r));
  options.watch_of = shared_stopwatch;
  const Device& device = *options.devices[0];
  options.plugins = &services.plugins;
  options.threads = a.at("threads").get<int>();
  // The CPU's work for a GPU's cases is not timed.
  if (!device.host_memory())
    options.threads =
        std::max(options.threads, static_cast<int>(std::thread::hardware_concurrency()));
  // A range case tests the size only.
  options.seconds = range ? 0 : a.at("seconds").get<double>();
  options.families = a.at("families").get<std::vector<std::string>>();
  options.call_s = range ? 0 : a.at("call_s").get<double>();
  // A case without times needs no held-back contents. One content tests a size. Ranks need a second
  // one, which shows data left for each other.
  if (options.call_s == 0) options.contents_least = range && ranks == 1 ? 1 : 2;
  if (!a.at("every_family").get<bool>()) options.families_s = options.seconds;
  const std::string stage = contract.op + ": contents and answers";
  services.stage(stage);
  options.alive = signs_of_life(services, stage);
  auto case_run = std::make_unique<OracleServer>(contract, std::move(asked), std::move(posed),
                                                 a.at("seed").get<uint64_t>(), options);
  Json families = Json::array(), left_out = Json::array();
  for (size_t i = 0; i < case_run->contents(); ++i) families.push_back(case_run->family(i));
  for (const auto& [family, why] : case_run->left_out())
    left_out.push_back({{"family", family}, {"why", why}});
  Json nulls = Json::array();
  for (const TriedMutant& mutant : case_run->nulls())
    nulls.push_back({{"name", mutant.name},
                     {"rejected", mutant.rejected},
                     {"worst", mutant.worst},
                     {"why", mutant.why}});
  const CaseRunShape& shape = case_run->shape();
  Json answer = {{"unjudged", case_run->unjudged()},
                 {"oracle", case_run->oracle()},
                 {"sets", shape.sets},
                 {"read_bytes", shape.read_bytes},
                 {"written_bytes", shape.written_bytes},
                 {"families", families},
                 {"versions", case_run->versions()},
                 {"calls_most", case_run->calls_most()},
                 {"left_out", left_out},
                 {"nulls", nulls},
                 {"skew", case_run->skew()},
                 {"generated", case_run->generated()},
                 {"known", case_run->known()},
                 {"bytes", case_run->bytes()},
                 {"flops", case_run->flops()},
                 {"wire", case_run->wire()},
                 {"own_devices", !ranks_share_devices(device.name(), ranks)},
                 {"roofline_s", case_run->roofline_s()},
                 {"floor_s", case_run->floor_s()},
                 {"plan", case_run->has_plan()}};
  if (case_run->unjudged().empty()) *services.answer_fds = case_run->fds();
  oracle_servers().cases[a.at("case_run").get<int>()] = std::move(case_run);
  return answer;
}
FK_TASK(case_open, case_open);

Json case_deal(const Json& a, const TaskServices&) {
  OracleServer& case_run = oracle_servers().at(a);
  const auto sets = a.at("sets").get<std::vector<int>>();
  const Poison poison = a.at("poison").get<bool>() ? Poison::random : Poison::ones;
  case_run.deal(sets, a.at("contents").get<std::vector<int>>(), poison,
                a.at("numbers_only").get<bool>(), a.value("beside", -1),
                a.value("beside_content", 0));
  if (a.at("flush").get<bool>()) case_run.flush(sets);
  if (a.value("flush_all", false)) case_run.flush_all();
  return Json::object();
}
FK_TASK(case_deal, case_deal);

Json case_renew(const Json& a, const TaskServices& services) {
  OracleServer& case_run = oracle_servers().at(a);
  const std::string stage = "contents and answers again";
  services.stage(stage);
  case_run.renew(a.at("from").get<size_t>(), a.at("seed").get<uint64_t>(),
                 signs_of_life(services, stage));
  return Json::object();
}
FK_TASK(case_renew, case_renew);

Json case_mutants(const Json& a, const TaskServices&) {
  return {{"text", oracle_servers().at(a).damage()}};
}
FK_TASK(case_mutants, case_mutants);

// A copy of as many bytes as a call moves, on the idle device of the first rank.
Json case_copy(const Json& a, const TaskServices&) {
  OracleServer& case_run = oracle_servers().at(a);
  try {
    return {{"seconds", case_run.copy_s(a.at("calls").get<int>(), a.at("threads").get<int>())}};
  } catch (const Error&) {  // without memory for the copy, there is no comparison
    return {{"seconds", 0}};
  }
}
FK_TASK(case_copy, case_copy);

// Waits for the sign of an answer, then for a turn on the device.
Json case_turn(const Json& a, const TaskServices& services) {
  oracle_servers().at(a).wait_for_turns(a.at("sets").get<std::vector<int>>(), services.await_sign);
  return Json::object();
}
FK_TASK(case_turn, case_turn);

// Findings by the set's place in the list; only sets with a finding.
Json case_look(const Json& a, const TaskServices& services) {
  Json out = Json::array();
  const auto all =
      oracle_servers().at(a).look(a.at("sets").get<std::vector<int>>(), a.at("side").get<int>(),
                                  signs_of_life(services, "the oracle looks at answers"));
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& f = all[i];
    if (f.ok && !f.changed && f.worst == 0 && f.undecided.empty()) continue;
    out.push_back({{"at", i},
                   {"ok", f.ok},
                   {"rule", f.rule},
                   {"text", f.text},
                   {"worst", f.worst},
                   {"field", f.field},
                   {"limit", f.wrong.limit},
                   {"wrong", f.wrong.count},
                   {"compared", f.wrong.compared},
                   {"first", f.wrong.first},
                   {"got", f.wrong.got},
                   {"want", f.wrong.want},
                   {"pattern", f.wrong.pattern},
                   {"next", f.wrong.next},
                   {"undecided", f.undecided},
                   {"stale", f.stale},
                   {"changed", f.changed}});
  }
  return out;
}
FK_TASK(case_look, case_look);

// Seconds that the device takes for a tiny piece of work while other processes use it. A process
// keeps the device for a while, so there is a pause between two measurements.
double idle_wait_s(Device& device) {
  constexpr int64_t kLittle = int64_t{1} << 16;
  constexpr auto kMeanwhile = std::chrono::milliseconds(1);
  const DeviceMemory little(device, kLittle, "a look at the device");
  std::vector<double> all;
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(kMeanwhile);
    const double start = now_seconds();
    // by a kernel, which needs a turn on the device
    device.fill_bits(little.data(), kLittle, true);
    device.synchronize();
    all.push_back(now_seconds() - start);
  }
  return quantile(std::move(all), 0.5);
}

// The longest wait over the ranks' devices; for one rank, its own device's.
Json case_idle(const Json& a, const TaskServices& services) {
  const int ranks = a.value("ranks", 0);
  double most = ranks ? 0 : idle_wait_s(shared_device(a, services.local_rank));
  for (int r = 0; r < ranks; ++r) most = std::max(most, idle_wait_s(shared_device(a, r)));
  return {{"seconds", most}};
}
const TaskRegistration register_idle(kIdleTask, case_idle);

Json case_close(const Json& a, const TaskServices& services) {
  services.stage("destroy");
  oracle_servers().cases.erase(a.at("case_run").get<int>());
  candidate_servers().cases.erase(a.at("case_run").get<int>());
  return Json::object();
}
FK_TASK(case_close, case_close);

// For each side, before other tasks.
Json case_enter(const Json& a, const TaskServices& services) {
  shared_comm(a, services);
  Device& device = shared_device(a, services.local_rank);
  shared_stopwatch(device);
  return {{"device", device.name()}};
}
FK_TASK(case_enter, case_enter);

// ---- the candidate and the baseline ----

// Turns a plugin's error into an answer, so that the process lives on. Other ranks need not wait
// for a rank that has failed; a rank that failed only because of another one says so. The answer
// also says when this process has lost the device, because all later requests would fail. With
// several ranks such a process ends: stopped until its next request, it would keep other ranks'
// kernels from a shared device.
template <class Body>
Json answered(const Json& arguments, const TaskServices& services, const Body& body) {
  Communicator* const comm = shared_comm(arguments, services);
  const KeptModes modes;  // compared outside of the clock that a body may have
  try {
    const Json answer = body();
    if (const std::string changed = modes.changed(); !changed.empty())
      fail("", "state: " + changed);
    return answer;
  } catch (const Error& error) {
    if (comm && any_device_lost()) throw;
    const std::string why = error.what_text().empty() ? error.what() : error.what_text();
    const bool echo = comm && !comm->meeting().failure().empty();
    if (comm) comm->meeting().give_up(why);
    return {{"failed", why}, {"echo", echo}, {"lost", any_device_lost()}};
  }
}

const Provider& provider_of(const Json& a, const AskedCase& asked, const Device& device,
                            const TaskServices& services) {
  const auto plugin = a.at("plugin").get<std::string>();
  for (const Provider* p : services.plugins.of(asked.op))
    if (p->plugin == plugin && p->op->claims->device_type == device.type()) return *p;
  fail(plugin, "refused: it has no " + asked.op + " for " + device.name());
}

Json case_takes(const Json& a, const TaskServices& services) {
  services.stage("supports");
  return answered(a, services, [&]() -> Json {
    const AskedCase asked = asked_case_from(a.at("asked"));
    Device& device = shared_device(a, services.local_rank);
    need_support(provider_of(a, asked, device, services), device, asked, shared_comm(a, services));
    return Json::object();
  });
}
FK_TASK(case_takes, case_takes);

Json case_begin(const Json& a, const TaskServices& services) {
  std::vector<int> fds = services.fds;
  Communicator* const comm = shared_comm(a, services);
  if (comm) begin_anew(*comm);
  const Json answer = answered(a, services, [&]() -> Json {
    if (fds.size() != 2) fail("case_run", "two descriptors are needed");
    CaseRunShape shape;
    shape.asked = asked_case_from(a.at("asked"));
    const AskedCase& asked = shape.asked;
    shape.sets = a.at("sets").get<int>();
    shape.read_bytes = a.at("read_bytes").get<int64_t>();
    shape.written_bytes = a.at("written_bytes").get<int64_t>();
    Device& device = shared_device(a, services.local_rank);
    const Provider& provider = provider_of(a, asked, device, services);
    services.stage("supports, create or prepare");
    // A refusal comes before memory is mapped, which takes longer.
    if (provider.trust != Trust::candidate) need_support(provider, device, asked, comm);
    const auto given = std::exchange(fds, {});
    auto case_run = std::make_unique<CandidateServer>(provider, services.plugins, device,
                                                      shared_stopwatch(device), shape, given[0],
                                                      given[1], a.at("threads").get<int>(), comm);
    const bool deterministic = case_run->deterministic(), keeps = case_run->keeps();
    const int64_t given_bytes = case_run->given();
    candidate_servers().cases[a.at("case_run").get<int>()] = std::move(case_run);
    return {{"deterministic", deterministic}, {"keeps", keeps}, {"given", given_bytes}};
  });
  for (const int fd : fds) ::close(fd);
  return answer;
}
FK_TASK(case_begin, case_begin);

Json case_arm(const Json& a, const TaskServices& services) {
  services.stage("plan or a capture");
  return answered(a, services, [&]() -> Json {
    CandidateServer& case_run = candidate_servers().at(a);
    const double plan_s =
        a.at("plan").get<bool>() ? case_run.plan(a.at("sets").get<std::vector<int>>()) : 0;
    const int first = a.at("first").get<int>();
    case_run.ready(first, a.at("count").get<int>(), a.at("all").get<bool>());
    if (a.at("once").get<bool>()) case_run.call_once(first);
    return {{"plan_s", plan_s}};
  });
}
FK_TASK(case_arm, case_arm);

Json case_calls(const Json& a, const TaskServices& services) {
  services.stage("forward");
  return answered(a, services, [&]() -> Json {
    CandidateServer& case_run = candidate_servers().at(a);
    const int first = a.at("first").get<int>(), core = a.at("core").get<int>();
    const double seconds = a.at("warm").get<bool>()
                               ? case_run.run_warm(first)
                               : case_run.run(first, a.at("count").get<int>(), core,
                                              a.at("eager").get<bool>(), services.done);
    Json answer = {
        {"call_s", seconds}, {"captured", case_run.captured()}, {"late", case_run.late()}};
    if (const auto& span = case_run.span()) answer["span"] = {span->first, span->second};
    if (const auto& facts = case_run.facts())
      answer["facts"] = {{"launches", facts->launches},         {"kernel", facts->kernel},
                         {"registers", facts->registers},       {"local_bytes", facts->local_bytes},
                         {"shared_bytes", facts->shared_bytes}, {"occupancy", facts->occupancy},
                         {"of_library", facts->of_library}};
    return answer;
  });
}
FK_TASK(case_calls, case_calls);

// Tests the rules of `check` beyond values on one small case, in memory of this process.
Json case_conformance(const Json& a, const TaskServices& services) {
  adopt_orphans();
  const auto op = a.at("op").get<std::string>(), plugin = a.at("plugin").get<std::string>();
  Communicator* const comm = shared_comm(a, services);
  const int ranks = comm ? comm->size() : 1;
  CheckOptions options;
  options.device = &shared_device(a, services.local_rank);
  options.threads = a.at("threads").get<int>();
  options.seed = a.at("seed").get<uint64_t>();
  options.plugins = &services.plugins;
  options.comm = comm;
  // Off on a GPU. The rules test free memory, which oracle and baseline use too, and a held stream,
  // which takes longer than other parts of a verdict. `check` has the device for itself.
  options.conformance = options.device->host_memory();
  if (comm) begin_anew(*comm);
  options.on_step = [&](const CheckRow& row, const std::string& step) {
    services.stage(op + ", case " + row.case_name + " by itself: " + step);
  };
  for (const Provider* p : services.plugins.of(op)) {
    if (p->plugin != plugin || p->op->claims->device_type != options.device->type()) continue;
    for (const Case& source : p->contract->cases) {
      if (source.size != "smoke" || ranks_of_case(resolve(*p->contract, source, {})) != ranks)
        continue;
      CaseAnswers none;
      const CheckRow row = check_case(*p, {}, source, options, none);
      if (row.status == CheckStatus::unsupported) continue;
      return {{"case", source.name}, {"rule", row.rule}, {"text", row.text}, {"echo", row.echo}};
    }
  }
  return Json::object();
}
FK_TASK(case_conformance, case_conformance);

}  // namespace
}  // namespace fk
