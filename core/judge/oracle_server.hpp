// SPDX-License-Identifier: Apache-2.0
// The oracle's side of a case run, in a trusted process. It makes contents and their answers, and
// lays several sets of a case's buffers into shared memory. It deals contents to sets, and compares
// what calls wrote there. Answers never leave its own memory, so a candidate's process cannot find
// them. Only the oracle knows which contents lie in which set, and where poison was.
#pragma once
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/cases/recorded_order.hpp"
#include "core/check/check.hpp"
#include "core/judge/memory_probe.hpp"
#include "core/judge/mutation_test.hpp"
#include "core/judge/plan/asked_case.hpp"
#include "core/judge/rank_buffers.hpp"

namespace fk {

// Sizes that both sides need to lay out the same memory.
struct CaseRunShape {
  AskedCase asked;
  int sets = 1;
  int64_t read_bytes = 0, written_bytes = 0;  // of each rank
};

struct CaseRunOptions {
  // Device of each rank's buffers; ranks may share one. The first is also the oracle's device.
  std::vector<Device*> devices;
  std::function<Stopwatch&(Device&)>
      watch_of;                      // a device's stopwatch; it outlives the oracle server
  const Plugins* plugins = nullptr;  // includes the oracle's plugin
  int threads = 2;
  double seconds = 0.5;                 // for answers, about; `contents_least` are made in any case
  double families_s = 8;                // for answers, until each family that fits was tried once
  int64_t memory = int64_t{256} << 20;  // of all sets of all ranks
  std::vector<std::string> families;    // empty: those that fit, chosen by the seed
  // per version of the weights: two that may be seen, and one held back for the race
  int contents_least = 3;
  int contents_max = 64;  // for one rank; more with several ranks, whose calls take no time
  // one call on each set takes about this long, which gives the number of sets; 0: two sets
  double call_s = 0;
  int sets_max = 128;
  double gate_s = 0.25;                 // for mutants, about
  std::function<void()> alive = [] {};  // called between steps that may take seconds
};

class OracleServer {
 public:
  OracleServer(const Contract& contract, AskedCase asked, PosedCase posed, uint64_t seed,
               CaseRunOptions options);

  const CaseRunShape& shape() const { return shape_; }
  // why there are no answers; empty: there are
  const std::string& unjudged() const { return unjudged_; }
  const std::string& oracle() const { return oracle_; }
  int ranks() const { return static_cast<int>(buffers_.size()); }
  // By rank: read descriptor, written descriptor. Owned by the oracle server; callers duplicate
  // them before they pass them on.
  std::vector<int> fds() const;
  size_t contents() const { return families_.size(); }
  const char* family(size_t content) const { return family_name_of(content); }
  // Number of versions of the weights. Content i and set i have version i % versions(); a content
  // is dealt to sets of its version. Several calls of a sample could share one read of equal
  // weights. So where weights matter, a sample has at most versions() calls.
  int versions() const { return versions_; }
  int calls_most() const { return weights_matter_ ? versions_ : std::max(1, shape_.sets - 1); }
  // Families that say nothing in this case, with the reason.
  const std::vector<std::pair<std::string, std::string>>& left_out() const { return left_out_; }
  // Mutants that were tried on this case's comparison. A mutant that passes makes the case
  // untestable. Tried once per case in this process.
  const std::vector<MutantRow>& nulls() const { return nulls_; }
  double bytes() const { return bytes_; }
  // The busiest expert's load over the mean, in the first contents; 0: no routing.
  double skew() const { return skew_; }
  // Fields of a recorded case with generated contents in place of recorded ones.
  std::vector<std::string> generated() const;
  // True when answers of the case can be remembered (recorded_order.hpp).
  bool known() const { return inputs_are_known(resolved()); }
  double flops() const;
  double wire() const { return wire_; }  // bytes over links, of the contents with the fewest
  double roofline_s() const;  // by the data sheet, with all bytes from memory; 0: unknown
  double floor_s() const;     // least time of any kernel on this device; 0: unknown
  // Called before the sets' calls end; `called` returns true when a process says that they have
  // ended, false: no calls were made. Then reads some output bytes at once, so that look() finds
  // later writes. Returns when each rank's device has done a tiny piece of work behind all enqueued
  // work. Devices only.
  void wait_for_turns(const std::vector<int>& sets, const std::function<bool()>& called);
  // Seconds of a copy of bytes() on the first rank's device, as one of `calls` copies
  // (copy_seconds).
  double copy_s(int calls, int threads) const;
  bool has_plan() const;

  // Copies contents into sets and poisons outputs. With `numbers_only`, the numbers that plan() may
  // read are right and floats are garbage. The set `beside` (-1: none) gets content `its` and is
  // not called. A write to it shows work ahead, or a wrong address; look() reports it at its first
  // set as a violation of the rule `guard`.
  void deal(const std::vector<int>& sets, const std::vector<int>& contents, Poison poison,
            bool numbers_only, int beside = -1, int its = 0);

  // Replaces the contents from `from` on by new ones of the same families, never dealt before.
  // Error when they have no answer.
  void renew(size_t from, uint64_t seed, const std::function<void()>& alive);

  // Compares the sets after one side has called each of them (rank_buffers.hpp). The text names
  // the first wrong rank; worst is the largest error of all ranks. The result ends with the first
  // wrong set. `alive` is called between sets.
  // Without `words` wrong values have no pattern.
  std::vector<SetFinding> look(const std::vector<int>& sets, int side, bool words,
                               const std::function<void()>& alive);
  // Empty, or the writes that were found around tensors of any set, called or not.
  std::string damage() const;
  // Afterwards the caches hold nothing of these sets, nor of shared weights.
  void flush(const std::vector<int>& sets);
  // Empties the caches of all data of all processes. Slow: for a few samples.
  void flush_all() {
    for (const auto& [device, watch] : watches_) watch->flush_all();
  }

 private:
  struct Content {
    Family family;
    std::vector<CaseValues> inputs, want;  // by rank; without weights
    uint64_t seed;
  };
  using Pools = std::vector<std::vector<Content>>;  // by version
  void make_contents(uint64_t seed);
  bool make_content(uint64_t seed, Family family, size_t version, std::vector<Content>& pool);
  bool make_row(Pools& made, std::vector<Family>& others, uint64_t seed, int& number);
  static bool has(const Pools& made, Family family);
  int64_t content_bytes() const;
  int64_t contents_room() const;
  void make_even(Pools& made) const;
  void keep(Pools made);
  void measure();
  int calls_wanted() const;
  int versions_wanted() const;
  void count_wire();
  void try_nulls();
  CheckOptions oracle_options() const;
  void place();
  Device& device() const { return *options_.devices.at(0); }
  void synchronize() const;
  // Reads the guards of these sets' buffers, with one request per device.
  using Glances = std::vector<std::unique_ptr<GuardedBuffer::Glance>>;
  Glances glance(const std::vector<int>& sets) const;
  int sets_room() const;
  SetFinding look_at(int set, int side, bool words);
  bool touched_beside() const;
  const char* family_name_of(size_t content) const;
  const ResolvedCase& resolved() const { return buffers_[0]->resolved(); }
  // Empty when unjudged() has a reason.
  std::vector<CaseValues> answers_to(const std::vector<CaseValues>& contents);
  // The reference for other contents of one rank, while the other ranks keep this content.
  AskReference asker(int rank, size_t content);

  const Contract& contract_;
  const PosedCase posed_;
  CaseRunOptions options_;
  Oracles oracles_;
  const Provider* provider_ = nullptr;
  CaseRunShape shape_;
  std::string unjudged_, oracle_;
  std::vector<std::pair<std::string, std::string>> left_out_;
  std::vector<std::unique_ptr<RankBuffers>> buffers_;  // by rank
  std::vector<Family> families_;                       // of the contents
  std::vector<MutantRow> nulls_;
  std::vector<int> dealt_;               // contents by set
  int beside_ = -1;                      // the set that is dealt and not called; -1: none
  std::vector<uint64_t> beside_prints_;  // checksums of its memory, by rank
  std::vector<std::pair<Device*, Stopwatch*>> watches_;  // one per device
  std::vector<DeviceMemory> littles_;                    // for wait_for_turns()
  MemoryProbes probes_;
  std::random_device anywhere_;
  double bytes_ = 0, skew_ = 0, wire_ = 0;
  int64_t set_bytes_ = 0;        // of one rank
  bool weights_matter_ = false;  // weights are a notable share of a call's bytes
  int versions_ = 1;
};

}  // namespace fk
