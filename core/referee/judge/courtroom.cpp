// SPDX-License-Identifier: Apache-2.0
#include "core/referee/judge/courtroom.hpp"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/error.hpp"

namespace fk {

namespace {

constexpr double kAnswerSeconds = 0.4;  // that the oracle has for the answers of a case, about

}  // namespace

std::string ExamRequest::key() const {
  std::string out =
      op + "/" + size + "/" + case_name + "/" + device + "/" + std::to_string(threads);
  for (const auto& family : families) out += "/" + family;
  return out;
}

OpenExam::~OpenExam() {
  for (const int fd : fds) ::close(fd);
}

Courtroom::Courtroom(const Roster& roster, std::string device, double patience_s, bool sandbox)
    : roster_(roster),
      device_(std::move(device)),
      patience_s_(patience_s),
      sandbox_(sandbox),
      secret_(Secret::draw()) {}

Courtroom::~Courtroom() = default;

std::unique_ptr<Runner> Courtroom::start(Seat seat) const {
  Runner::Options options;
  options.name = seat == Seat::oracle     ? "the oracle"
                 : seat == Seat::baseline ? "the baseline"
                                          : "the candidate";
  options.patience_s = patience_s_;
  options.device = device_;
  options.sandbox = sandbox_;
  options.early_user = seat == Seat::candidate;
  options.sends_fds = seat == Seat::oracle;
  if (device_ == "cpu" && seat != Seat::oracle) options.private_bytes_max = int64_t{8} << 30;
  return std::make_unique<Runner>(options);
}

// With the device open, which takes longest where it is a GPU.
bool Courtroom::load(Runner& runner, const std::vector<PluginFile>& files) const {
  return !runner.failed() && runner.task("exam_enter", {{"device", device_}}, {}) &&
         runner.load(files);
}

Courtroom::Present Courtroom::enter(const std::string& without, bool children) {
  std::vector<std::pair<Runner*, std::vector<PluginFile>>> wanted;
  if (!oracle_ || oracle_->failed()) {
    ahead_.clear();
    oracle_ = start(Seat::oracle);
    wanted.emplace_back(oracle_.get(), roster_.oracle_files());
  }
  if (!baseline_ || baseline_->failed()) {
    baseline_ = start(Seat::baseline);
    wanted.emplace_back(baseline_.get(), roster_.baseline_files());
  }
  Present out;
  // What is not there cannot be called in the candidate's place.
  std::vector<PluginFile> others;
  for (const auto& b : roster_.baselines)
    if (children && plugin_name(b) != without) others.push_back({b.path, b.trust});
  out.candidate = std::move(spare_);
  if (!out.candidate || out.candidate->failed()) out.candidate = start(Seat::candidate);
  wanted.emplace_back(out.candidate.get(), others);
  std::vector<std::thread> starts;
  for (auto& [runner, files] : wanted)
    starts.emplace_back([this, runner = runner, &files = files] { load(*runner, files); });
  for (auto& one : starts) one.join();
  if (oracle_->failed()) fail("the oracle", oracle_->failure().sentence());
  if (baseline_->failed()) fail("the baseline", baseline_->failure().sentence());
  return out;
}

Json Courtroom::ask(const char* task, const Json& arguments) {
  auto answer = oracle_->task(task, arguments, {});
  if (!answer) fail("the oracle", oracle_->failure().sentence());
  return std::move(*answer);
}

std::unique_ptr<OpenExam> Courtroom::open_now(const ExamRequest& request, const Secret& secret) {
  auto exam = std::make_unique<OpenExam>();
  exam->id = next_id_++;
  exam->answer =
      ask("exam_open",
          {{"exam", exam->id},
           {"op", request.op},
           {"case", request.case_name},
           {"size", request.size},
           {"device", request.device},
           {"threads", request.threads},
           {"families", request.families},
           {"seed", secret.seed(request.op + "/" + request.size + "/" + request.case_name)},
           {"seconds", kAnswerSeconds},
           {"call_s", kBatchSeconds}});
  exam->fds = oracle_->take_fds();
  return exam;
}

std::unique_ptr<OpenExam> Courtroom::open(const ExamRequest& request, const Secret& secret) {
  const auto it = ahead_.find(request.key() + " " + secret.commitment());
  if (it == ahead_.end()) return open_now(request, secret);
  auto exam = std::move(it->second);
  ahead_.erase(it);
  return exam;
}

void Courtroom::close(const OpenExam& exam) {
  for (Runner* runner : {oracle_.get(), baseline_.get()})
    if (runner && !runner->failed()) {
      runner->thaw();
      (void)runner->task("exam_close", {{"exam", exam.id}}, {});
    }
}

Secret Courtroom::next_secret() {
  Secret out = secret_;
  secret_ = Secret::draw();
  return out;
}

void Courtroom::drop_ahead() {
  const std::string mine = secret_.commitment();
  for (auto it = ahead_.begin(); it != ahead_.end();) {
    const bool stale = it->first.substr(it->first.rfind(' ') + 1) != mine;
    if (stale) close(*it->second);
    it = stale ? ahead_.erase(it) : std::next(it);
  }
}

bool Courtroom::prepare(const std::vector<ExamRequest>& asked) {
  drop_ahead();
  if (!spare_ || spare_->failed()) {
    spare_ = start(Seat::candidate);
    load(*spare_, {});
    return true;
  }
  if (!oracle_ || oracle_->failed()) return false;
  for (const ExamRequest& request : asked) {
    const std::string key = request.key() + " " + secret_.commitment();
    if (ahead_.count(key)) continue;
    ahead_[key] = open_now(request, secret_);
    return true;
  }
  return false;
}

}  // namespace fk
