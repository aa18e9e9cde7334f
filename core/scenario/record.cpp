// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/record.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/fields.hpp"
#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "core/cases/captured.hpp"
#include "core/check/recorded.hpp"
#include "core/device/device.hpp"
#include "core/device/rank_device.hpp"
#include "core/exec/ranking.hpp"
#include "core/scenario/drive_round.hpp"
#include "core/scenario/memory_budget.hpp"
#include "core/scenario/run.hpp"
#include "core/scenario/run_memory_budget.hpp"
#include "core/worker/weight_block.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

constexpr double kPatience = 300;                   // seconds
constexpr int64_t kFileBytes = int64_t{256} << 20;  // of tensors in one file, about

// The file to which a rank's worker appends tensors. Deleted with this object.
class Spool {
 public:
  Spool(const fs::path& folder, int64_t rank)
      : path_(folder / (".tensors." + std::to_string(rank) + ".part")) {
    fs::remove(path_);
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    if (fd_ < 0) fail(path_.string(), "cannot be made: " + errno_text());
  }
  Spool(const Spool&) = delete;
  ~Spool() {
    ::close(fd_);
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  int fd() const { return fd_; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  int fd_ = -1;
};

class RecordingRun {
 public:
  RecordingRun(const Scenario& scenario, const RecordingOptions& options, const Catalog& catalog,
               const PluginSet& plugin_set)
      : scenario_(scenario),
        options_(options),
        catalog_(catalog),
        plugin_set_(plugin_set),
        model_(scenario.make()),
        wanted_(wanted_workloads(scenario, options.workloads)),
        limits_(scenario.limits) {}

  CaptureIndex run() {
    std::error_code error;
    fs::create_directories(options_.folder, error);
    if (error) fail(options_.folder.string(), "cannot be made: " + error.message());
    fs::remove(options_.folder / kCaptureIndex);
    std::deque<Spool> spools;
    for (int64_t rank = 0; rank < ranks(); ++rank) spools.emplace_back(options_.folder, rank);
    Recording recorded = record(spools);
    CaptureIndex index = head();
    index.ops = std::move(recorded.ops);
    index.files = write_tensors(spools, recorded.tensors);
    index.bytes = recorded.bytes;
    index.left_out = std::move(recorded.left_out);
    index.cases = std::move(recorded.cases);
    write_file_atomic(options_.folder / kCaptureIndex,
                      to_document(CaptureIndex::kSchema, index).dump(1));
    // A recording must be readable.
    Captured::open(options_.folder, catalog_);
    return index;
  }

 private:
  void say(const std::string& text) const {
    if (options_.progress) options_.progress(scenario_.name + ": " + text);
  }

  SessionSpec spec() const {
    SessionSpec spec{scenario_.arch, scenario_.config, limits_, {}, options_.device};
    spec.graphs = false;
    if (options_.device != "cpu") spec.decode_sizes = kDecodeSizes;
    spec.policy.pins = scenario_.providers;
    spec.policy.baselines = plugin_set_.ranked();
    spec.policy.ranking = ranking_of(open_device(options_.device)->name());
    return spec;
  }

  int64_t ranks() const { return scenario_.limits.parallel.ranks(); }

  // One block per rank.
  std::vector<WeightBlock> weights() const {
    const auto progress = [&](int64_t done, int64_t total) {
      say("making the weights, " + human_bytes(done) + " of " + human_bytes(total));
    };
    return make_weight_blocks(*model_, catalog_, spec(), scenario_.weights.string(), scenario_.seed,
                              progress);
  }

  // Chooses the number of pages as `run` does.
  void choose_pages() {
    const auto devices = devices_of_ranks(options_.device, ranks_here(ranks()));
    const auto room = room_of(devices.front());
    if (!room) return;
    const RunMemoryBudget::Pages found =
        RunMemoryBudget(*model_, catalog_, limits_, longest_request({}, wanted_),
                        std::ranges::count(devices, devices.front()))
            .pages(*room, 1);
    if (!found.why.empty()) fail(scenario_.name, found.why);
    if (!found.note.empty()) log_warn(scenario_.name + ": " + found.note);
    limits_.pages = found.pages;
  }

  Recording record(const std::deque<Spool>& spools) {
    say("making the weights");
    const std::vector<WeightBlock> blocks = weights();
    choose_pages();
    Runner::Options runner_options;
    runner_options.name = "baseline";
    runner_options.device = options_.device;
    runner_options.patience_s = kPatience;
    runner_options.payload_bytes_max += result_bytes(*model_, catalog_, limits_);
    RankGroup runner(runner_options, static_cast<int>(ranks()));
    const auto need = [&](bool ok) {
      if (!ok) fail("the baseline", runner.failure().sentence());
    };
    need(!runner.failed());
    const auto loaded = runner.load(plugin_set_.baseline_files());
    need(loaded.has_value());
    for (const auto& [path, why] : unusable_of(plugin_set_.baseline_files(), loaded->errors))
      log_warn("not usable: " + path + ": " + why);
    const auto info = runner.open(spec(), handles_of(blocks));
    need(info.has_value());
    device_ = info->device;
    check_ops(*info);
    for (const Workload* workload : wanted_) drive(runner, *workload, spools);
    const auto recorded = runner.recorded();
    need(recorded.has_value());
    return merge_recorded(*recorded);
  }

  void drive(RankGroup& runner, const Workload& workload, const std::deque<Spool>& spools) {
    auto requests = make_requests(workload, scenario_.engine->form(), scenario_.seed,
                                  workload.load->is_recorded() ? 0 : workload.warmup);
    if (options_.requests > 0 && static_cast<int64_t>(requests.size()) > options_.requests)
      requests.resize(static_cast<size_t>(options_.requests));
    workloads_.push_back({workload.name, static_cast<int64_t>(requests.size())});
    Round round;
    RoundOptions round_options;
    round_options.vocab_size = scenario_.engine->form().vocabulary;
    round_options.progress = [&](const std::string& text) { say(workload.name + ", " + text); };
    std::vector<int> files;
    for (const auto& spool : spools) files.push_back(spool.fd());
    RecordOptions record = options_.record;  // the limit is for all ranks
    record.bytes_max /= ranks();
    if (!runner.record(record, files, workload.name) || !runner.clear() ||
        !drive_round(runner, requests, round_options, round))
      fail("the baseline in " + workload.name, runner.failure().sentence());
    for (const auto& [id, request] : round.requests)
      if (!request.failed.empty()) fail("the baseline in " + workload.name, request.failed);
  }

  // Error for ops that are expanded: they are never called.
  void check_ops(const SessionInfo& info) const {
    std::vector<std::string> nodes;
    for (const auto& phase : info.phases)
      for (const auto& node : phase.nodes)
        if (std::find(nodes.begin(), nodes.end(), node.op) == nodes.end()) nodes.push_back(node.op);
    for (const auto& op : options_.record.ops) {
      if (std::find(nodes.begin(), nodes.end(), op) != nodes.end()) continue;
      fail("--op", "no node of this run is a call of " + catalog_.at(op).op,
           catalog_.at(op).level > 1 ? "--provider " + op + "=reference runs it whole"
                                     : did_you_mean(op, nodes));
    }
  }

  CaptureIndex head() const {
    CaptureIndex index;
    index.scenario = scenario_.name;
    index.arch = scenario_.arch;
    index.profile = scenario_.profile;
    index.tp = scenario_.limits.parallel.tp;
    index.ep = scenario_.limits.parallel.ep;
    index.overlap = scenario_.limits.parallel.overlap;
    index.dtype = name(scenario_.limits.dtype);
    index.device = device_;
    index.seed = scenario_.seed;
    index.weights = {scenario_.weights.empty(), scenario_.weights.filename().string()};
    index.values = options_.record.values;
    index.workloads = workloads_;
    return index;
  }

  // Copies tensors from the spools, in order of arrival, to the final files. A worker's claims
  // about its file are checked by content.
  std::vector<std::string> write_tensors(
      const std::deque<Spool>& spools, const std::map<std::string, RecordedTensor>& tensors) const {
    std::vector<Mapping> mappings;
    for (const auto& spool : spools) mappings.emplace_back(spool.path());
    std::vector<std::string> files;
    std::map<std::string, TensorView> batch;
    int64_t size = 0;
    const auto flush = [&] {
      if (batch.empty()) return;
      const std::string file = "tensors-" + std::to_string(files.size()) + ".safetensors";
      write_safetensors(options_.folder / file, batch);
      files.push_back(file);
      batch.clear();
      size = 0;
    };
    for (const auto& [name, tensor] : tensors) {
      const DType dtype = dtype_from_name(tensor.dtype, name);
      const Shape& shape = tensor.shape;
      const int64_t begin = tensor.begin, length = shape_bytes(shape, dtype, name);
      const auto bytes = mappings[static_cast<size_t>(tensor.rank)].bytes();
      const auto whole = static_cast<int64_t>(bytes.size());
      if (begin < 0 || begin > whole || length > whole - begin)
        fail("the baseline", "it names a tensor outside of what it wrote");
      const std::byte* data = bytes.data() + begin;
      if (content_name(dtype, shape, data) != name)
        fail("the baseline", "it wrote another tensor than it names");
      batch[name] = TensorView(data, dtype, shape);
      size += length;
      if (size >= kFileBytes) flush();
    }
    flush();
    return files;
  }

  const Scenario& scenario_;
  const RecordingOptions& options_;
  const Catalog& catalog_;
  const PluginSet& plugin_set_;
  std::unique_ptr<Model> model_;
  std::vector<const Workload*> wanted_;
  Limits limits_;  // the scenario's, with pages that fit
  std::string device_;
  std::vector<CaptureIndex::Load> workloads_;
};

}  // namespace

CaptureIndex record_scenario(const Scenario& scenario, const RecordingOptions& options,
                             const Catalog& catalog, const PluginSet& plugin_set) {
  std::vector<std::string> known;
  for (const auto& w : scenario.workloads) known.push_back(w.name);
  need_known(options.workloads, known, "--workload", "workload");
  for (const auto& op : options.record.ops) catalog.at(op);
  const Parallel& parallel = scenario.limits.parallel;
  if (const std::string why = scenario.make()->refusal(parallel); !why.empty())
    fail(scenario.arch, why);
  need_communicator(parallel.ranks(), options.device);
  try {
    return RecordingRun(scenario, options, catalog, plugin_set).run();
  } catch (const fs::filesystem_error& error) {
    fail(options.folder.string(), error.code().message());
  }
}

}  // namespace fk
