// SPDX-License-Identifier: Apache-2.0
#include "core/judge/judge_pool.hpp"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "core/base/error.hpp"
#include "core/device/device.hpp"
#include "core/device/rank_device.hpp"
#include "core/judge/plan/hidden_cases.hpp"
#include "core/judge/plan/hidden_shapes.hpp"

namespace fk {

namespace {

constexpr double kPatienceSeconds = 60;  // for the host's own processes, between judgements
constexpr size_t kCasePlans = 4;         // kept requests of different callers
constexpr int64_t kAheadBytes = int64_t{4} << 30;    // of cases opened ahead, about
constexpr int64_t kClosingBytes = int64_t{1} << 29;  // of cases that wait for their end, about
constexpr double kSpinSeconds = 1e-3;                // on a machine with free cores
constexpr unsigned kCoresToSpare = 8;

// Key of a case opened ahead: request and secret.
std::string name_of(const CaseRunRequest& request, const Secret& secret) {
  return request.key() + " " + secret.commitment();
}

bool same(const std::vector<CaseRunRequest>& a, const std::vector<CaseRunRequest>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.key() == y.key(); });
}

// Variants of rows and of a width are taken or refused independently.
std::string of_kind(const std::string& op, const std::string& variant) {
  return width_of(variant).empty() ? op : op + ", width";
}

}  // namespace

std::string CaseRunRequest::key() const {
  std::string out = asked.key() + "/" + device + "/" + std::to_string(threads);
  for (const auto& family : families) out += "/" + family;
  return out + (thorough ? "/thorough" : "");
}

OpenCaseRun::~OpenCaseRun() {
  for (const int fd : fds) ::close(fd);
}

// Bytes of all sets of buffers, and, per content, of its answer and twice its inputs.
int64_t OpenCaseRun::bytes() const {
  const int64_t all = answer.read_bytes + answer.written_bytes;
  const int64_t sets = std::max(1, answer.sets);
  return ranks * (all + 2 * all / sets * static_cast<int64_t>(answer.families.size()));
}

JudgePool::JudgePool(const PluginSet& plugin_set, Options options)
    : plugin_set_(plugin_set), device_name_(options.device), options_(std::move(options)) {}

// All processes end at the same time, because the return of a device's memory takes a while.
JudgePool::~JudgePool() {
  if (oracle_) oracle_->dismiss();
  for (const auto& [ranks, group] : baselines_)
    if (group) group->dismiss();
  if (spare_) spare_->dismiss();
  see_off();
}

void JudgePool::take_turn(bool all, const std::function<void()>& waits) {
  close_waiting();
  see_off();
  const int every = static_cast<int>(device_names().size());
  turn_ = std::make_unique<DeviceLock>(devices_of_ranks(device(), all ? every : 1), [&] {
    if (options_of(Seat::candidate, 0).given_up()) fail("the device", "nobody waits for it");
    if (waits) waits();
  });
}

void JudgePool::leave(std::unique_ptr<RankGroup> candidate) {
  candidate->dismiss();
  leaving_.push_back(std::move(candidate));
}

void JudgePool::see_off() {
  leaving_.clear();
  turn_.reset();
}

Runner::Options JudgePool::options_of(Seat seat, double patience_s) const {
  Runner::Options options;
  options.name = seat == Seat::oracle     ? "the oracle"
                 : seat == Seat::baseline ? "the baseline"
                                          : "the candidate";
  options.patience_s = patience_s;
  options.device = device();
  options.sandbox = options_.sandbox;
  options.early_user = seat == Seat::candidate;
  options.sends_fds = seat == Seat::oracle;
  options.given_up = [this, seat] {
    const bool asked_for = seat == Seat::candidate || seat == Seat::trusted_candidate;
    return (options_.closing && options_.closing()) ||
           (asked_for && options_.given_up && options_.given_up());
  };
  if (device() == "cpu" && seat != Seat::oracle) options.private_bytes_max = int64_t{8} << 30;
  if (device() != "cpu" && seat == Seat::candidate)
    options.stopped = [this] { return watch_ ? watch_->stopped() : ""; };
  // Without spinning, the three questions of a sample take half of its time. On a CPU, a spinning
  // process would slow the timed one, and the judged one must be stopped.
  if (device() != "cpu" && std::thread::hardware_concurrency() >= kCoresToSpare) {
    options.spin_s = kSpinSeconds;
    options.its_spin_s = seat == Seat::oracle ? kSpinSeconds : 0;
  }
  return options;
}

void JudgePool::start_missing(std::unique_ptr<RankGroup>& ready,
                              const std::vector<PluginFile>& others, double patience_s, int ranks,
                              Seat seat) {
  // With the device open, which takes longest where it is a GPU.
  const CaseEnter enter{device()};
  std::vector<std::function<void()>> works;
  if (!oracle_ || oracle_->failed()) {
    ahead_.clear();
    closing_.clear();
    oracle_ = std::make_unique<Runner>(options_of(Seat::oracle, kPatienceSeconds));
    works.emplace_back([&] {
      const auto entered = oracle_->ask(enter);
      if (entered) device_name_ = *entered;
      if (entered) oracle_->load(plugin_set_.oracle_files());
    });
  }
  const auto load = [&](RankGroup& group, std::vector<PluginFile> files) {
    works.emplace_back([this, &group, files = std::move(files)] { settle_in(group, files); });
  };
  auto& baseline = baselines_[ranks];
  if (!baseline || baseline->failed()) {
    baseline = std::make_unique<RankGroup>(options_of(Seat::baseline, kPatienceSeconds), ranks);
    load(*baseline, plugin_set_.baseline_files());
  }
  const bool fresh = !ready || ready->failed();
  if (fresh) {
    Runner::Options own = options_of(seat, patience_s);
    // Telemetry covers one device only.
    if (ranks > 1) own.stopped = nullptr;
    ready = std::make_unique<RankGroup>(own, ranks);
  }
  if (fresh || !others.empty()) load(*ready, others);
  std::vector<std::thread> starts;
  for (auto& work : works) starts.emplace_back(std::move(work));
  for (auto& one : starts) one.join();
  if (oracle_->failed()) fail_host("the oracle", oracle_->failure().sentence());
  if (baseline->failed()) fail_host("the baseline", baseline->failure().sentence());
}

void JudgePool::settle_in(RankGroup& group, const std::vector<PluginFile>& files) const {
  // With the device open, which takes longest where it is a GPU.
  if (group.task_on_all(CaseEnter{device()}, {})) group.load(files);
}

void JudgePool::renew_baseline(int ranks) {
  auto& baseline = baselines_.at(ranks);
  baseline = std::make_unique<RankGroup>(options_of(Seat::baseline, kPatienceSeconds), ranks);
  settle_in(*baseline, plugin_set_.baseline_files());
  if (baseline->failed()) fail("the baseline", baseline->failure().sentence());
  baseline->set_patience(patience_s_);
}

std::unique_ptr<RankGroup> JudgePool::enter(const FoundPlugin& found, bool children,
                                            double patience_s, int ranks) {
  // Only processes with `children` get the baselines: others could be called in the candidate's
  // place.
  std::vector<PluginFile> others;
  for (const auto& b : plugin_set_.baselines)
    if (children && plugin_name(b) != plugin_name(found)) others.push_back({b.path, b.trust});
  std::unique_ptr<RankGroup> candidate;
  if (ranks == 1) candidate = std::move(spare_);
  start_missing(candidate, others, patience_s, ranks,
                found.trust == Trust::baseline ? Seat::trusted_candidate : Seat::candidate);
  patience_s_ = patience_s;
  oracle_->set_patience(patience_s);
  for (RankGroup* group : {baselines_[ranks].get(), candidate.get()})
    group->set_patience(patience_s);
  candidate->set_open_patience(patience_s);  // static constructors can hang too
  return candidate;
}

JudgePool::Standby::Standby(JudgePool& room, const CaseTurn& turn) : room_(room) {
  if (!room_.oracle_->tell(CaseTurn::kName, to_fields(turn), {}))
    fail("the oracle", room_.oracle_->failure().sentence());
}

JudgePool::Standby::~Standby() {
  if (heard_) return;
  sign(false);
  (void)room_.oracle_->answer();
}

void JudgePool::Standby::sign(bool go_on) {
  if (!std::exchange(signed_, true)) room_.oracle_->sign(go_on);
}

void JudgePool::Standby::go() { sign(true); }

void JudgePool::Standby::wait() {
  go();
  heard_ = true;
  if (!room_.oracle_->answer()) fail("the oracle", room_.oracle_->failure().sentence());
}

std::unique_ptr<OpenCaseRun> JudgePool::open_now(const CaseRunRequest& request,
                                                 const Secret& secret) {
  auto case_run = std::make_unique<OpenCaseRun>();
  case_run->id = next_id_++;
  case_run->ranks = request.ranks;
  // Cases without times need few contents and sets.
  const double seconds = request.after      ? 0
                         : request.thorough ? kAnswerSeconds
                                            : kDefaultAnswerSeconds;
  case_run->answer = ask(CaseOpen{.case_run = case_run->id,
                                  .asked = hidden_by(request.asked, secret),
                                  .device = request.device,
                                  .threads = request.threads,
                                  .families = request.families,
                                  .seed = secret.seed(request.asked.key()),
                                  .seconds = seconds,
                                  .every_family = request.thorough,
                                  .call_s = request.after ? 0 : kBatchSeconds});
  case_run->fds = oracle_->take_fds();
  return case_run;
}

std::unique_ptr<OpenCaseRun> JudgePool::open(const CaseRunRequest& request, const Secret& secret) {
  if (bytes_to_close() > kClosingBytes) close_waiting();
  auto ready = ahead_.extract(name_of(request, secret));
  return ready ? std::move(ready.mapped()) : open_now(request, secret);
}

int64_t JudgePool::bytes_to_close() const {
  int64_t bytes = 0;
  for (const auto& case_run : closing_) bytes += case_run->bytes();
  return bytes;
}

void JudgePool::close(std::unique_ptr<OpenCaseRun> case_run) {
  closing_.push_back(std::move(case_run));
}

void JudgePool::close_waiting() {
  for (const auto& case_run : closing_) close_now(*case_run);
  closing_.clear();
}

void JudgePool::close_now(const OpenCaseRun& case_run) {
  const CaseClose about{case_run.id};
  if (oracle_ && !oracle_->failed()) (void)oracle_->ask(about);
  const auto baseline = baselines_.find(case_run.ranks);
  if (baseline == baselines_.end() || baseline->second->failed()) return;
  baseline->second->thaw();
  (void)baseline->second->ask_all(about);
}

Secret JudgePool::secret_for(const std::vector<CaseRunRequest>& cases) {
  const auto known =
      std::find_if(case_plans_.begin(), case_plans_.end(),
                   [&](const auto& case_plan) { return same(case_plan.cases, cases); });
  Secret out = known != case_plans_.end() ? known->secret : Secret::draw();
  if (known != case_plans_.end()) case_plans_.erase(known);
  case_plans_.push_front({cases, Secret::draw()});
  if (case_plans_.size() > kCasePlans) case_plans_.pop_back();
  return out;
}

// Closes cases whose secret is published, and cases of plans that were dropped.
void JudgePool::drop_stale() {
  std::set<std::string> wanted;
  for (const CasePlan& case_plan : case_plans_)
    for (const auto& request : case_plan.cases) wanted.insert(name_of(request, case_plan.secret));
  for (auto it = ahead_.begin(); it != ahead_.end();) {
    if (wanted.count(it->first)) {
      ++it;
      continue;
    }
    close_now(*it->second);
    it = ahead_.erase(it);
  }
}

void JudgePool::remember_taken(const CaseVerdict& row) {
  if (!is_hidden(row.variant) || row.status == Status::refused) return;
  taken_[of_kind(row.op, row.variant)] = row.variant;
}

// True when a case is worth opening ahead. Few hidden variants are judged: those of the first cases
// that the last candidate took. The first width differs each time.
bool JudgePool::is_awaited(const CasePlan& case_plan, const CaseRunRequest& request) const {
  const auto& asked = request.asked;
  if (!is_hidden(asked.variant)) return true;
  const std::string kind = of_kind(asked.op, asked.variant);
  const bool width = !width_of(asked.variant).empty();
  const auto taken = taken_.find(kind);
  if (taken == taken_.end() || (!width && taken->second != asked.variant)) return false;
  const auto turn_of = [&](const AskedCase& one) {
    return hidden_order(case_plan.secret, one.op, one.name, one.variant);
  };
  const auto earlier = std::ranges::count_if(case_plan.cases, [&](const CaseRunRequest& other) {
    const bool rival = width ? of_kind(other.asked.op, other.asked.variant) == kind
                             : other.asked.op == asked.op && other.asked.variant == asked.variant;
    return rival && turn_of(other.asked) < turn_of(asked);
  });
  return earlier < (width ? 1 : request.hidden_cases);
}

bool JudgePool::prepare() {
  if (!leaving_.empty() || !closing_.empty() || turn_) {
    close_waiting();
    see_off();
    return true;
  }
  // Another process that holds the device may be measuring.
  const auto turn = DeviceLock::if_free({device()});
  busy_ = !turn;
  if (busy_) return false;
  const auto baseline = baselines_.find(1);
  if (!oracle_ || oracle_->failed() || baseline == baselines_.end() || baseline->second->failed() ||
      !spare_ || spare_->failed()) {
    start_missing(spare_, {}, kPatienceSeconds, 1, Seat::candidate);
    return true;
  }
  drop_stale();
  oracle_->set_patience(kPatienceSeconds);
  int64_t bytes = 0;
  for (const CasePlan& case_plan : case_plans_) {
    for (const CaseRunRequest& request : case_plan.cases) {
      if (!is_awaited(case_plan, request)) continue;
      const std::string name = name_of(request, case_plan.secret);
      const auto it = ahead_.find(name);
      const bool room = bytes < kAheadBytes;
      if (it == ahead_.end() && room) {
        ahead_[name] = open_now(request, case_plan.secret);
        return true;
      }
      if (it == ahead_.end()) continue;
      bytes += it->second->bytes();
      if (room) continue;
      close_now(*it->second);  // in favour of the latest request
      ahead_.erase(it);
    }
  }
  return false;
}

}  // namespace fk
