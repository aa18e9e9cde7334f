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
#include "core/judge/case_messages.hpp"
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
Device& shared_device(const std::string& asked, int local_rank) {
  auto& known = known_devices();
  const std::string name = device_of_rank(asked, local_rank);
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
Communicator* shared_comm(const std::string& asked, const TaskServices& services) {
  static auto* comm = new std::shared_ptr<Communicator>(
      services.communicator(shared_device(asked, services.local_rank)));
  return comm->get();
}

template <class Side>
struct Open {
  std::map<int, std::unique_ptr<Side>> cases;
  Side& at(int case_run) {
    const auto it = cases.find(case_run);
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

CaseOpened case_open(const CaseOpen& a, const TaskServices& services) {
  AskedCase asked = a.asked;
  const Contract& contract = services.catalog.at(asked.op);
  CaseRunOptions options;
  const bool range = asked.size == kRangeSize;
  PosedCase posed = pose(asked, contract, &services.catalog);
  const int ranks = ranks_of_case(resolve(contract, posed.source, posed.variant));
  for (int r = 0; r < ranks; ++r) options.devices.push_back(&shared_device(a.device, r));
  options.watch_of = shared_stopwatch;
  const Device& device = *options.devices[0];
  options.plugins = &services.plugins;
  options.threads = a.threads;
  // The CPU's work for a GPU's cases is not timed.
  if (!device.host_memory())
    options.threads =
        std::max(options.threads, static_cast<int>(std::thread::hardware_concurrency()));
  // A range case tests the size only.
  options.seconds = range ? 0 : a.seconds;
  options.families = a.families;
  options.call_s = range ? 0 : a.call_s;
  // A case without times needs no held-back contents. One content tests a size. Ranks need a second
  // one, which shows data left for each other.
  if (options.call_s == 0) options.contents_least = range && ranks == 1 ? 1 : 2;
  if (!a.every_family) options.families_s = options.seconds;
  const std::string stage = contract.op + ": contents and answers";
  services.stage(stage);
  options.alive = signs_of_life(services, stage);
  auto case_run =
      std::make_unique<OracleServer>(contract, std::move(asked), std::move(posed), a.seed, options);
  const CaseRunShape& shape = case_run->shape();
  CaseOpened answer{.unjudged = case_run->unjudged(),
                    .oracle = case_run->oracle(),
                    .sets = shape.sets,
                    .read_bytes = shape.read_bytes,
                    .written_bytes = shape.written_bytes,
                    .versions = case_run->versions(),
                    .calls_most = case_run->calls_most(),
                    .nulls = case_run->nulls(),
                    .skew = case_run->skew(),
                    .generated = case_run->generated(),
                    .known = case_run->known(),
                    .bytes = case_run->bytes(),
                    .flops = case_run->flops(),
                    .wire = case_run->wire(),
                    .own_devices = !ranks_share_devices(device.name(), ranks),
                    .roofline_s = case_run->roofline_s(),
                    .floor_s = case_run->floor_s(),
                    .plan = case_run->has_plan()};
  for (size_t i = 0; i < case_run->contents(); ++i)
    answer.families.emplace_back(case_run->family(i));
  for (const auto& [family, why] : case_run->left_out()) answer.left_out.push_back({family, why});
  if (case_run->unjudged().empty()) *services.answer_fds = case_run->fds();
  oracle_servers().cases[a.case_run] = std::move(case_run);
  return answer;
}
FK_TASK(case_open);

Nothing case_deal(const CaseDeal& a, const TaskServices&) {
  OracleServer& case_run = oracle_servers().at(a.case_run);
  case_run.deal(a.sets, a.contents, a.poison ? Poison::random : Poison::ones, a.numbers_only,
                a.beside, a.beside_content);
  if (a.flush) case_run.flush(a.sets);
  if (a.flush_all) case_run.flush_all();
  return {};
}
FK_TASK(case_deal);

Nothing case_renew(const CaseRenew& a, const TaskServices& services) {
  OracleServer& case_run = oracle_servers().at(a.case_run);
  const std::string stage = "contents and answers again";
  services.stage(stage);
  case_run.renew(static_cast<size_t>(a.from), a.seed, signs_of_life(services, stage));
  return {};
}
FK_TASK(case_renew);

std::string case_damage(const CaseDamage& a, const TaskServices&) {
  return oracle_servers().at(a.case_run).damage();
}
FK_TASK(case_damage);

double case_copy(const CaseCopy& a, const TaskServices&) {
  OracleServer& case_run = oracle_servers().at(a.case_run);
  try {
    return case_run.copy_s(a.calls, a.threads);
  } catch (const Error&) {  // without memory for the copy, there is no comparison
    return 0;
  }
}
FK_TASK(case_copy);

// Waits for the sign of an answer, then for a turn on the device.
Nothing case_turn(const CaseTurn& a, const TaskServices& services) {
  oracle_servers().at(a.case_run).wait_for_turns(a.sets, services.await_sign);
  return {};
}
FK_TASK(case_turn);

std::vector<CaseFinding> case_look(const CaseLook& a, const TaskServices& services) {
  std::vector<CaseFinding> out;
  auto all = oracle_servers()
                 .at(a.case_run)
                 .look(a.sets, a.side, signs_of_life(services, "the oracle looks at answers"));
  for (size_t i = 0; i < all.size(); ++i) {
    const SetFinding& f = all[i];
    if (f.ok && !f.changed && f.worst == 0 && f.undecided.empty()) continue;
    out.push_back({i, std::move(all[i])});
  }
  return out;
}
FK_TASK(case_look);

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
double case_idle(const IdleWait& a, const TaskServices& services) {
  double most = a.ranks ? 0 : idle_wait_s(shared_device(a.device, services.local_rank));
  for (int r = 0; r < a.ranks; ++r) most = std::max(most, idle_wait_s(shared_device(a.device, r)));
  return most;
}
FK_TASK(case_idle);

Nothing case_close(const CaseClose& a, const TaskServices& services) {
  services.stage("destroy");
  oracle_servers().cases.erase(a.case_run);
  candidate_servers().cases.erase(a.case_run);
  return {};
}
FK_TASK(case_close);

std::string case_enter(const CaseEnter& a, const TaskServices& services) {
  shared_comm(a.device, services);
  Device& device = shared_device(a.device, services.local_rank);
  shared_stopwatch(device);
  return device.name();
}
FK_TASK(case_enter);

// ---- the candidate and the baseline ----

// Turns a plugin's error into an answer, so that the process lives on. Other ranks need not wait
// for a rank that has failed; a rank that failed only because of another one says so. The answer
// also says when this process has lost the device, because all later requests would fail. With
// several ranks such a process ends: stopped until its next request, it would keep other ranks'
// kernels from a shared device.
template <class Body>
auto answered(Communicator* comm, const Body& body) -> Attempt<decltype(body())> {
  const KeptModes modes;  // compared outside of the clock that a body may have
  try {
    auto answer = body();
    if (const std::string changed = modes.changed(); !changed.empty())
      fail("", "state: " + changed);
    return {{}, std::move(answer)};
  } catch (const Error& error) {
    if (comm && any_device_lost()) throw;
    const std::string why = error.what_text().empty() ? error.what() : error.what_text();
    const bool echo = comm && !comm->meeting().failure().empty();
    if (comm) comm->meeting().give_up(why);
    return {NotDone{why, echo, any_device_lost()}, {}};
  }
}
// The communicator of an open case; its device is known.
Communicator* comm_of_ranks(const TaskServices& services) { return shared_comm("", services); }

const Provider& provider_of(const std::string& plugin, const AskedCase& asked, const Device& device,
                            const TaskServices& services) {
  for (const Provider* p : services.plugins.of(asked.op))
    if (p->plugin == plugin && p->op->claims->device_type == device.type()) return *p;
  fail(plugin, "refused: it has no " + asked.op + " for " + device.name());
}

CaseTakes::Answer case_takes(const CaseTakes& a, const TaskServices& services) {
  services.stage("supports");
  Communicator* const comm = shared_comm(a.device, services);
  return answered(comm, [&] {
    Device& device = shared_device(a.device, services.local_rank);
    need_support(provider_of(a.plugin, a.asked, device, services), device, a.asked, comm);
    return Nothing{};
  });
}
FK_TASK(case_takes);

CaseBegin::Answer case_begin(const CaseBegin& a, const TaskServices& services) {
  std::vector<int> fds = services.fds;
  Communicator* const comm = shared_comm(a.device, services);
  if (comm) begin_anew(*comm);
  const auto answer = answered(comm, [&] {
    if (fds.size() != 2) fail("case_run", "two descriptors are needed");
    const CaseRunShape shape{a.asked, a.sets, a.read_bytes, a.written_bytes};
    Device& device = shared_device(a.device, services.local_rank);
    const Provider& provider = provider_of(a.plugin, a.asked, device, services);
    services.stage("supports, create or prepare");
    // A refusal comes before memory is mapped, which takes longer.
    if (provider.trust != Trust::candidate) need_support(provider, device, a.asked, comm);
    const auto given = std::exchange(fds, {});
    auto case_run = std::make_unique<CandidateServer>(provider, services.plugins, device,
                                                      shared_stopwatch(device), shape, given[0],
                                                      given[1], a.threads, comm);
    const CaseBegun begun{case_run->deterministic(), case_run->keeps(), case_run->given()};
    candidate_servers().cases[a.case_run] = std::move(case_run);
    return begun;
  });
  for (const int fd : fds) ::close(fd);
  return answer;
}
FK_TASK(case_begin);

CaseArm::Answer case_arm(const CaseArm& a, const TaskServices& services) {
  services.stage("plan or a capture");
  return answered(comm_of_ranks(services), [&] {
    CandidateServer& case_run = candidate_servers().at(a.case_run);
    const double plan_s = a.plan ? case_run.plan(a.sets) : 0;
    case_run.ready(a.first, a.count, a.all);
    if (a.once) case_run.call_once(a.first);
    return plan_s;
  });
}
FK_TASK(case_arm);

CaseCalls::Answer case_calls(const CaseCalls& a, const TaskServices& services) {
  services.stage("forward");
  return answered(comm_of_ranks(services), [&] {
    CandidateServer& case_run = candidate_servers().at(a.case_run);
    CallClaim claim;
    claim.call_s = a.warm ? case_run.run_warm(a.first)
                          : case_run.run(a.first, a.count, a.core, a.eager, services.done);
    claim.captured = case_run.captured();
    claim.late = case_run.late();
    if (const auto& span = case_run.span()) claim.span = {span->first, span->second};
    claim.facts = case_run.facts();
    return claim;
  });
}
FK_TASK(case_calls);

// Tests the rules of `check` beyond values on one small case, in memory of this process.
CaseConformance::Answer case_conformance(const CaseConformance& a, const TaskServices& services) {
  adopt_orphans();
  Communicator* const comm = shared_comm(a.device, services);
  const int ranks = comm ? comm->size() : 1;
  CheckOptions options;
  options.device = &shared_device(a.device, services.local_rank);
  options.threads = a.threads;
  options.seed = a.seed;
  options.plugins = &services.plugins;
  options.comm = comm;
  // Off on a GPU. The rules test free memory, which oracle and baseline use too, and a held stream,
  // which takes longer than other parts of a verdict. `check` has the device for itself.
  options.conformance = options.device->host_memory();
  if (comm) begin_anew(*comm);
  options.on_step = [&](const CheckRow& row, const std::string& step) {
    services.stage(a.op + ", case " + row.case_name + " by itself: " + step);
  };
  for (const Provider* p : services.plugins.of(a.op)) {
    if (p->plugin != a.plugin || p->op->claims->device_type != options.device->type()) continue;
    for (const Case& source : p->contract->cases) {
      if (source.size != "smoke" || ranks_of_case(resolve(*p->contract, source, {})) != ranks)
        continue;
      CaseAnswers none;
      const CheckRow row = check_case(*p, {}, source, options, none);
      if (row.status == CheckStatus::unsupported || row.status == CheckStatus::left_out) continue;
      return {{}, CaseConformed{source.name, row.rule, row.text, row.echo}};
    }
  }
  return {{}, CaseConformed{}};
}
FK_TASK(case_conformance);

}  // namespace
}  // namespace fk
