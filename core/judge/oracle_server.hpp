// SPDX-License-Identifier: Apache-2.0
// The oracle's side of a case run. A trusted process makes contents and their answers, lays
// several sets of buffers of one case into shared memory, deals contents to sets, and looks at what
// was written there. Answers never leave its own memory, so a candidate's process has nothing to
// find; which contents lie in which set, and where poison was, only the oracle knows.
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

// What both sides must agree on to lay out the same memory.
struct CaseRunShape {
  AskedCase asked;
  int sets = 1;
  int64_t read_bytes = 0, written_bytes = 0;  // of each rank
};

struct CaseRunOptions {
  // By rank, those of its buffers, which may be the same for several; the first is also the
  // oracle's.
  std::vector<Device*> devices;
  std::function<Stopwatch&(Device&)>
      watch_of;                      // that of a device, which outlives the oracle server
  const Plugins* plugins = nullptr;  // with the oracle's
  int threads = 2;
  double seconds = 0.5;   // for answers, about; `contents_least` are made whatever that takes
  double families_s = 8;  // for them until every family that fits was tried once
  int64_t memory = int64_t{256} << 20;  // of all sets of all ranks
  std::vector<std::string> families;    // empty: those that fit, chosen by the seed
  int contents_least = 3;  // of a version: two that may be seen, and one that is kept for the race
  int contents_max = 64;   // of one rank; with several, whose calls take no time, more
  double call_s = 0;  // sets are so many that one call on each takes about that long; 0: two sets
  int sets_max = 128;
  double gate_s = 0.25;                 // for mutants, about
  std::function<void()> alive = [] {};  // called between steps that may take seconds
};

class OracleServer {
 public:
  OracleServer(const Contract& contract, AskedCase asked, PosedCase posed, uint64_t seed,
               CaseRunOptions options);

  const CaseRunShape& shape() const { return shape_; }
  const std::string& unjudged() const { return unjudged_; }  // why there are no answers, or empty
  const std::string& oracle() const { return oracle_; }
  int ranks() const { return static_cast<int>(buffers_.size()); }
  // By rank, what is read and what is written. The oracle server's own: whoever gives them away
  // duplicates them.
  std::vector<int> fds() const;
  size_t contents() const { return families_.size(); }
  const char* family(size_t content) const { return family_name_of(content); }
  // How many versions of the weights there are. Content i and set i have number i modulo this, and
  // a content is dealt to sets of its version. One read of weights that several calls of a sample
  // have in common would be shared by them, so where weights matter a sample has no more calls than
  // there are versions.
  int versions() const { return versions_; }
  int calls_most() const { return weights_matter_ ? versions_ : std::max(1, shape_.sets - 1); }
  // Families that say nothing here, with the reason.
  const std::vector<std::pair<std::string, std::string>>& left_out() const { return left_out_; }
  // Wrong answers that were tried on the comparison of this case; one that it takes makes the case
  // untestable. Tried once per case in this process.
  const std::vector<TriedMutant>& nulls() const { return nulls_; }
  double bytes() const { return bytes_; }
  // The busiest expert's load over the mean in the first contents; 0 where there is no routing.
  double skew() const { return skew_; }
  // Fields of a recorded case whose contents are not its own but made by the generators.
  std::vector<std::string> generated() const;
  // Of one whose answers can be remembered (recorded_order.hpp).
  bool known() const { return inputs_are_known(resolved()); }
  double flops() const;
  double wire() const { return wire_; }  // bytes over links, of the contents that need fewest
  double roofline_s() const;  // by the data sheet, with all bytes from memory; 0: not known
  double floor_s() const;     // no kernel is faster on this device; 0: not known
  // When `called` returns, the sets have been called, by what is said (false: they have not): reads
  // some bytes that the calls write, which look() finds changed where they were not done. Returns
  // when every device of its ranks has had time for next to nothing: behind what others have
  // enqueued there. Only on devices.
  void wait_for_turns(const std::vector<int>& sets, const std::function<bool()>& called);
  // Of a copy of bytes() on the first rank's device, as one of so many calls (copy_seconds).
  double copy_s(int calls, int threads) const;
  bool has_plan() const;

  // Contents into sets, outputs poisoned. With `numbers_only`, floats are garbage: what plan()
  // may see is there and what forward() computes with is not. The set `beside`, if there is one
  // (-1: none), gets the content `its` and is not going to be called: whoever writes to it works
  // ahead, or does not know where. look() says so, of its first set and by the rule `guard`.
  void deal(const std::vector<int>& sets, const std::vector<int>& contents, Poison poison,
            bool numbers_only, int beside = -1, int its = 0);

  // Others, of the same families, in the place of the contents from this one on: nobody has seen
  // them, whatever was dealt before. Error when they have no answer.
  void renew(size_t from, uint64_t seed, const std::function<void()>& alive);

  // Compares the sets after one side has called each of them (rank_buffers.hpp). The text names
  // the first wrong rank; worst is the largest error of all ranks. The result ends with the first
  // wrong set. `alive` is called between sets.
  std::vector<SetFinding> look(const std::vector<int>& sets, int side,
                               const std::function<void()>& alive);
  // Empty, or what was written around the tensors of any set, whether it was called or not.
  std::string damage() const;
  // Caches hold nothing of the sets afterwards, nor of weights that are the same.
  void flush(const std::vector<int>& sets);
  // Caches hold nothing at all, whoever it belongs to; for a few samples.
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
  // Asks every device once for what the buffers in these sets tell.
  using Glances = std::vector<std::unique_ptr<GuardedBuffer::Glance>>;
  Glances glance(const std::vector<int>& sets) const;
  int sets_room() const;
  SetFinding look_at(int set, int side);
  bool touched_beside() const;
  const char* family_name_of(size_t content) const;
  const ResolvedCase& resolved() const { return buffers_[0]->resolved(); }
  // Empty with unjudged().
  std::vector<CaseValues> answers_to(const std::vector<CaseValues>& contents);
  // The answer to one rank's other contents, where the other ranks keep what this content has.
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
  std::vector<TriedMutant> nulls_;
  std::vector<int> dealt_;               // contents by set
  int beside_ = -1;                      // the set that is not called; -1: there is none
  std::vector<uint64_t> beside_prints_;  // of its memory, by rank
  std::vector<std::pair<Device*, Stopwatch*>> watches_;  // one for each device
  std::vector<DeviceMemory> littles_;                    // for wait_for_turns()
  MemoryProbes probes_;
  std::random_device anywhere_;
  double bytes_ = 0, skew_ = 0, wire_ = 0;
  int64_t set_bytes_ = 0;        // of one rank
  bool weights_matter_ = false;  // to the time of a call
  int versions_ = 1;
};

}  // namespace fk
