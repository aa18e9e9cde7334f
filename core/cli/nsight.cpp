// SPDX-License-Identifier: Apache-2.0
// Names of metrics and columns are those of Nsight Compute 2025.3, seen on an H200.
#include "core/cli/nsight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <regex>

#include "core/base/text.hpp"
#include "core/report/kernel_text.hpp"

namespace fk {

namespace {

using CsvRow = std::vector<std::string>;

constexpr const char* kStall = "smsp__average_warps_issue_stalled_";
constexpr const char* kStallEnd = "_per_issue_active.ratio";
constexpr std::size_t kStallsShown = 5, kLinesShown = 8;
constexpr std::size_t kCodeBytes = 120;

// Rows of CSV; every field is quoted, and none has a line break. Lines of the program (`==PROF==`)
// have no quote at their start.
std::vector<CsvRow> csv_rows(std::string_view text) {
  std::vector<CsvRow> rows;
  for (const std::string& line : split(std::string(text), '\n')) {
    if (line.empty() || line.front() != '"') continue;
    CsvRow row;
    bool inside = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (c == '"' && inside && i + 1 < line.size() && line[i + 1] == '"') {
        row.back() += line[++i];
      } else if (c == '"') {
        inside = !inside;
        if (inside) row.emplace_back();
      } else if (inside) {
        row.back() += c;
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// 0 for anything but a number. Thousands have commas.
double number_of(std::string text) {
  std::erase(text, ',');
  return std::strtod(text.c_str(), nullptr);
}

// A row with the names of its columns.
class NamedRow {
 public:
  NamedRow(const CsvRow& names, const CsvRow& row) : names_(names), row_(row) {}
  std::string text(const std::string& name) const {
    const auto at = std::find(names_.begin(), names_.end(), name);
    const auto place = static_cast<std::size_t>(at - names_.begin());
    return place < row_.size() ? row_[place] : "";
  }
  double number(const std::string& name) const { return number_of(text(name)); }
  double share(const std::string& name) const { return number(name) / 100; }
  const CsvRow& names() const { return names_; }

 private:
  const CsvRow &names_, &row_;
};

std::string limit_of(const NamedRow& row) {
  static const std::pair<const char*, const char*> kLimits[] = {{"registers", "registers"},
                                                                {"shared_mem", "shared memory"},
                                                                {"warps", "warps"},
                                                                {"blocks", "blocks"},
                                                                {"barriers", "barriers"}};
  std::string limit;
  double least = 0;
  for (const auto& [metric, name] : kLimits) {
    const double blocks = row.number(std::string("launch__occupancy_limit_") + metric);
    if (blocks > 0 && (limit.empty() || blocks < least)) limit = name, least = blocks;
  }
  return limit;
}

std::vector<KernelStall> stalls_of(const NamedRow& row) {
  std::vector<KernelStall> all;
  double sum = 0;
  for (const auto& name : row.names()) {
    if (!starts_with(name, kStall) || !ends_with(name, kStallEnd)) continue;
    const double cycles = row.number(name);
    sum += cycles;
    const std::string reason =
        name.substr(std::string(kStall).size(),
                    name.size() - std::string(kStall).size() - std::string(kStallEnd).size());
    if (reason != "selected") all.push_back({reason, cycles});  // an instruction was issued
  }
  if (!(sum > 0)) return {};
  for (auto& stall : all) stall.share /= sum;
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  all.resize(std::min(all.size(), kStallsShown));
  std::erase_if(all, [](const auto& stall) { return stall.share < 0.01; });
  return all;
}

// The page of sources writes casts in template arguments, the raw page does not.
std::string plain_name(const std::string& kernel) {
  static const std::regex cast(R"(\((unsigned )?(int|long|bool|char|short)\))");
  return std::regex_replace(kernel, cast, "");
}

struct InstructionFigures {
  std::vector<KernelLine> lines;
  double bank_conflicts = 0, excess_sectors = 0;
};

// One kernel's instructions: rows below a header.
class KernelInstructions {
 public:
  void add(const NamedRow& row) {
    const uint64_t address = std::strtoull(row.text("Address").c_str(), nullptr, 16);
    if (address > 0) start_ = start_ > 0 ? std::min(start_, address) : address;
    const double samples =
        std::max(row.number("# Samples"), row.number("Warp Stall Sampling (All Samples)"));
    samples_ += samples;
    shared_ += row.number("L1 Wavefronts Shared");
    shared_least_ += row.number("L1 Wavefronts Shared Ideal");
    global_ += row.number("L2 Theoretical Sectors Global");
    global_least_ += row.number("L2 Theoretical Sectors Global Ideal");
    if (!(samples > 0)) return;
    KernelLine line;
    line.place = row.text("Address");
    line.code = excerpt(std::string(trim(row.text("Source"))), kCodeBytes);
    line.share = samples;
    double most = 0;
    for (const auto& name : row.names())
      if (starts_with(name, "stall_") && name.find(' ') == name.npos && name != "stall_selected" &&
          row.number(name) > most)
        most = row.number(name), line.stall = name.substr(6);
    lines_.push_back(std::move(line));
  }

  InstructionFigures done() {
    std::stable_sort(lines_.begin(), lines_.end(),
                     [](const auto& a, const auto& b) { return a.share > b.share; });
    lines_.resize(std::min(lines_.size(), kLinesShown));
    for (auto& line : lines_) {
      line.share /= samples_;
      const uint64_t address = std::strtoull(line.place.c_str(), nullptr, 16);
      if (address >= start_) line.place = fmt::format("+0x{:04x}", address - start_);
    }
    const auto excess = [](double all, double least) { return all > least ? 1 - least / all : 0; };
    return {std::move(lines_), excess(shared_, shared_least_), excess(global_, global_least_)};
  }

 private:
  std::vector<KernelLine> lines_;  // places are addresses until done()
  uint64_t start_ = 0;             // of the kernel
  double samples_ = 0, shared_ = 0, shared_least_ = 0, global_ = 0, global_least_ = 0;
};

// By the kernel's plain name. A kernel that was launched twice has two tables; the first counts.
std::map<std::string, InstructionFigures> figures_of_sources(std::string_view text) {
  std::map<std::string, InstructionFigures> all;
  std::string kernel;
  CsvRow names;
  KernelInstructions instructions;
  const auto end = [&] {
    if (!kernel.empty()) all.emplace(kernel, instructions.done());
    instructions = {};
  };
  for (CsvRow& row : csv_rows(text)) {
    if (row.empty()) continue;
    if (row[0] == "Kernel Name" && row.size() > 1) {
      end();
      kernel = plain_name(row[1]);
      names.clear();
    } else if (std::find(row.begin(), row.end(), "Source") != row.end()) {
      names = std::move(row);
    } else if (!names.empty()) {
      instructions.add(NamedRow(names, row));
    }
  }
  end();
  return all;
}

// A cure for a reason to wait, from NVIDIA's descriptions of the reasons.
const std::map<std::string, std::string>& cures() {
  static const std::map<std::string, std::string> all = {
      {"long_scoreboard",
       "warps wait for global memory: start loads earlier, with more of them in flight "
       "(16 bytes a thread, several tiles ahead by cp.async or TMA)"},
      {"short_scoreboard",
       "warps wait for shared memory or special functions: fewer and wider accesses, values in "
       "registers, fewer exponentials"},
      {"barrier",
       "warps wait at barriers: give warps equal work, or smaller blocks, or fewer barriers"},
      {"mio_throttle",
       "the queue of shared memory and special functions is full: wider and fewer accesses"},
      {"lg_throttle",
       "the queue of global accesses is full: use accesses of 16 bytes in place of many small "
       "ones"},
      {"math_pipe_throttle",
       "an arithmetic unit is busy: use tensor cores, or fewer operations for each value"},
      {"wait",
       "each instruction waits for the one before: give a thread independent work (unroll, several "
       "accumulators)"},
      {"membar", "warps wait for a memory fence: fewer fences, or a narrower scope"},
      {"drain", "warps wait for their last stores: store 16 bytes a thread, in whole lines"},
      {"no_instruction", "warps wait for instructions: less unrolled code, fewer jumps"},
      {"branch_resolving", "warps wait for branches: fewer branches in the inner loop"},
      {"imc_miss", "constants miss their cache: keep indices into constant memory equal in a warp"},
      {"tex_throttle", "the queue of textures is full: fewer texture reads"},
      {"sleeping", "warps sleep: shorter or no nanosleep"},
      {"gmma", "warps wait for warpgroup products: more stages of tiles in flight"}};
  return all;
}

}  // namespace

std::vector<std::string> nsight_collects() {
  static const char* const kMetrics[] = {
      "gpu__time_duration.sum",
      "sm__throughput.avg.pct_of_peak_sustained_elapsed",
      "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
      "dram__throughput.avg.pct_of_peak_sustained_elapsed",
      "lts__throughput.avg.pct_of_peak_sustained_elapsed",
      "l1tex__throughput.avg.pct_of_peak_sustained_active",
      "sm__warps_active.avg.pct_of_peak_sustained_active",
      "sm__maximum_warps_per_active_cycle_pct",
      "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
      "launch__waves_per_multiprocessor"};
  std::vector<std::string> words = {"--set",          "basic",     "--section",
                                    "WarpStateStats", "--section", "SourceCounters"};
  std::string metrics;
  for (const char* metric : kMetrics) metrics += (metrics.empty() ? "" : ",") + std::string(metric);
  words.insert(words.end(), {"--metrics", metrics, "--import-source", "on"});
  return words;
}

std::vector<KernelProfile> read_nsight(std::string_view raw, std::string_view source) {
  const std::vector<CsvRow> rows = csv_rows(raw);
  std::vector<KernelProfile> kernels;
  if (rows.size() < 3) return kernels;  // names, units, and a row for each launch
  auto sources = figures_of_sources(source);
  for (std::size_t i = 2; i < rows.size(); ++i) {
    const NamedRow row(rows[0], rows[i]);
    KernelProfile k;
    k.kernel = row.text("Kernel Name");
    k.seconds = row.number("gpu__time_duration.sum") * 1e-9;
    k.compute = row.share("sm__throughput.avg.pct_of_peak_sustained_elapsed");
    k.memory = row.share("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed");
    k.dram = row.share("dram__throughput.avg.pct_of_peak_sustained_elapsed");
    k.l2 = row.share("lts__throughput.avg.pct_of_peak_sustained_elapsed");
    k.l1 = row.share("l1tex__throughput.avg.pct_of_peak_sustained_active");
    k.tensor = row.share("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed");
    k.occupancy = row.share("sm__warps_active.avg.pct_of_peak_sustained_active");
    k.occupancy_possible = row.share("sm__maximum_warps_per_active_cycle_pct");
    k.occupancy_limit = limit_of(row);
    k.registers = static_cast<int64_t>(row.number("launch__registers_per_thread"));
    k.shared_bytes = static_cast<int64_t>(row.number("launch__shared_mem_per_block"));
    k.waves = row.number("launch__waves_per_multiprocessor");
    k.stalls = stalls_of(row);
    if (const auto found = sources.find(plain_name(k.kernel)); found != sources.end()) {
      k.lines = found->second.lines;
      k.bank_conflicts = found->second.bank_conflicts;
      k.excess_sectors = found->second.excess_sectors;
    }
    k.hints = profile_hints(k);
    kernels.push_back(std::move(k));
  }
  return kernels;
}

std::vector<std::string> profile_hints(const KernelProfile& k) {
  constexpr double kFull = 0.8, kMany = 0.1, kMostStalls = 0.2;
  std::vector<std::string> hints;
  if (k.dram >= kFull)
    hints.push_back("memory of the device is at " + percent_text(k.dram) +
                    " of its peak: only fewer bytes help, by fusion or narrower types");
  else if (k.compute >= kFull)
    hints.push_back("the multiprocessors are at " + percent_text(k.compute) +
                    " of their peak: only fewer or cheaper operations help");
  if (k.waves > 0 && k.waves < 1)
    hints.push_back("the grid fills " + percent_text(k.waves) +
                    " of the device: cut the work into more blocks");
  if (k.excess_sectors >= kMany)
    hints.push_back(percent_text(k.excess_sectors) +
                    " of the sectors from global memory are read in vain: neighbouring threads "
                    "should read neighbouring addresses");
  if (k.bank_conflicts >= kMany)
    hints.push_back(percent_text(k.bank_conflicts) +
                    " of the accesses to shared memory come from bank conflicts: pad or swizzle "
                    "its rows");
  for (const auto& stall : k.stalls) {
    const auto cure = cures().find(stall.reason);
    if (stall.share >= kMostStalls && cure != cures().end())
      hints.push_back(percent_text(stall.share) + " " + stall.reason + ": " + cure->second);
  }
  // Few warps hide little latency, unless the device is busy anyway.
  if (k.occupancy_possible > 0 && k.occupancy_possible < 0.5 && k.dram < kFull && k.compute < kFull)
    hints.push_back("at most " + percent_text(k.occupancy_possible) + " of the warps fit, by " +
                    k.occupancy_limit + " (" + std::to_string(k.registers) +
                    " registers a thread, " + human_bytes(k.shared_bytes) + " a block)");
  return hints;
}

}  // namespace fk
