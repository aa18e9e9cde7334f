// SPDX-License-Identifier: Apache-2.0
// The oracle's data for one rank of an open case: weights, contents with their answers, and right
// answers of the rank. Also the sets of buffers which its worker shares. A case without a
// communicator has one rank. Contents and sets have versions of the weights in turn; a content is
// dealt only to sets of its version. The oracle server decides which contents lie in which set.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/cases/case_frames.hpp"
#include "core/cases/comparison.hpp"

namespace fk {

// The layout of one set. Sets follow each other in memory.
Layout case_layout(const Variant& variant, int set);

// Bytes to map for all sets: at least one page, because a call without rows shares nothing, and a
// mapping cannot be empty.
inline int64_t shared_bytes(const SharedRegion& measured) {
  return std::max<int64_t>(4096, measured.taken());
}

// Number of the candidate's side. Baselines have the numbers after it.
inline constexpr int kCandidateSide = 0;

// Rule of a finding: a call wrote after its process reported the end.
inline constexpr const char* kLateRule = "late";

struct SetFinding {
  int set = -1, content = -1;
  bool ok = true;
  std::string rule;  // the broken rule; empty: values
  std::string text;
  double worst = 0;
  std::string field;     // of wrong values: the output's name
  WrongElements wrong;   // in `field`
  bool stale = false;    // equals another content's answer, or was not written
  bool changed = false;  // right, but its bits differ from an earlier right answer
  // The reason why rounding alone decides these outputs. Then no value of this content is judged,
  // and `ok` is true.
  std::string undecided;
};

class RankBuffers {
 public:
  // `resolved` is the case for this rank.
  RankBuffers(Device& device, ResolvedCase resolved, const Variant& variant);

  const ResolvedCase& resolved() const { return resolved_; }
  size_t contents() const { return contents_.size(); }
  // take_weights() moves the weights out of `values` into a version that has none; lend_weights()
  // moves them back. The oracle needs inputs with weights.
  void take_weights(CaseValues& values, size_t version);
  void lend_weights(CaseValues& values, size_t version) { values.merge(weights_.at(version)); }
  // Keeps the first `count` versions and forgets the rest. Content i has version i % count.
  void keep_versions(size_t count) { weights_.resize(count); }
  void add(CaseValues inputs, CaseValues want);
  const CaseValues& inputs(size_t content) const { return contents_.at(content).inputs; }
  const CaseValues& want(size_t content) const { return contents_.at(content).want; }
  // The oracle needs weights and inputs together. They are large, so they are moved and not copied.
  CaseValues lend(size_t content);
  void take_back(size_t content, CaseValues values);

  // Replaces a content of place() by another one of the same family and version.
  void replace(size_t content, CaseValues inputs, CaseValues want);

  // Maps the measured memory of all sets, and lays out sets and contents. No add() afterwards.
  void place(int sets, const SharedPlaces& measured);
  int read_fd() const { return read_.fd(); }
  int written_fd() const { return written_.fd(); }

  void deal(int set, int content, Poison poison, bool numbers_only);
  // Compares the set after one side's call on a content. `changed` concerns answers of the same
  // side. A baseline's answers are forgotten when another baseline calls on the content.
  // `ordinary`: the content is of that family, which is never excused. `ask`: the reference for
  // other contents of this rank. Without `words` wrong values have no pattern.
  SetFinding look(int set, int content, int side, bool ordinary, const AskReference& ask,
                  bool words = true);
  // At most `bytes` bytes at a random place in the set's outputs; empty when a call writes none.
  std::span<const std::byte> somewhere(int set, size_t bytes, std::random_device& anywhere) const;
  // The first field, shared between ranks, with other bits than in `first`; empty: none.
  std::string differs_from(const RankBuffers& first, int set) const;
  // Checksum of the memory that a call on the set may write.
  uint64_t writable_print(int set) const {
    return sets_.at(static_cast<size_t>(set))->writable_print();
  }
  void memory(int set, std::vector<std::span<const std::byte>>& out) const;
  void buffers(int set, std::vector<const GuardedBuffer*>& out) const;

 private:
  struct Content {
    CaseValues inputs, want;
    std::unique_ptr<CaseFrames> master;  // inputs in the device's memory, for dealing
    // Answers found right, by side: their bytes, and on a device their checksums.
    std::map<int, std::vector<CaseValues>> accepted;
    std::map<int, std::vector<uint64_t>> prints;
  };

  // Makes a master: inputs in the device's memory, without the weights that all contents share.
  std::unique_ptr<CaseFrames> master_of(const CaseValues& inputs) const;

  Device& device_;
  ResolvedCase resolved_;
  Variant variant_;
  size_t version_of(size_t content) const { return content % weights_.size(); }

  std::vector<CaseValues> weights_{1};  // by version
  std::vector<Content> contents_;
  SharedMapping read_, written_;
  std::vector<std::unique_ptr<CaseFrames>> sets_;
};

}  // namespace fk
