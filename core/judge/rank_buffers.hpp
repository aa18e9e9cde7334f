// SPDX-License-Identifier: Apache-2.0
// What the oracle keeps of one rank of a case that is open: its weights, the contents and their
// answers, the sets of buffers that its runner shares, and what was found right in them. A case
// without a communicator has one rank. There may be several versions of the weights: contents and
// sets have them in turns, and a content is at home in the sets that have its own. Which contents
// lie in which set is the oracle server's business.
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

// The layout of one set; sets lie behind one another.
Layout case_layout(const Variant& variant, int set);

// Bytes to map for all sets. A mapping cannot be empty, and a call without rows shares nothing:
// hence the least of one page.
inline int64_t shared_bytes(const SharedRegion& measured) {
  return std::max<int64_t>(4096, measured.taken());
}

// Who has called: the candidate, or one of the baselines, which have the numbers after it.
inline constexpr int kCandidateSide = 0;

// Of a finding: a call wrote when it was said to be done.
inline constexpr const char* kLateRule = "late";

struct SetFinding {
  int set = -1, content = -1;
  bool ok = true;
  std::string rule;  // of a violation; empty: values
  std::string text;
  double worst = 0;
  std::string field;     // of wrong values: the output
  WrongElements wrong;   // in it
  bool stale = false;    // holds what another content's answer is, or was not written at all
  bool changed = false;  // right, but other bits than an earlier right answer
  // Why rounding itself decides these outputs, so that no value of this content is judged; the
  // finding is ok then.
  std::string undecided;
};

class RankBuffers {
 public:
  // `resolved` has the rank.
  RankBuffers(Device& device, ResolvedCase resolved, const Variant& variant);

  const ResolvedCase& resolved() const { return resolved_; }
  size_t contents() const { return contents_.size(); }
  // Inputs with weights, which are those of a version that has none yet; the oracle wants both.
  void take_weights(CaseValues& values, size_t version);
  void lend_weights(CaseValues& values, size_t version) { values.merge(weights_.at(version)); }
  // Content i has version i of as many as are kept; those that come after them are forgotten.
  void keep_versions(size_t count) { weights_.resize(count); }
  void add(CaseValues inputs, CaseValues want);
  const CaseValues& inputs(size_t content) const { return contents_.at(content).inputs; }
  const CaseValues& want(size_t content) const { return contents_.at(content).want; }
  // An oracle wants weights and inputs together. They are large, so they are lent and taken back.
  CaseValues lend(size_t content);
  void take_back(size_t content, CaseValues values);

  // Another content in the place of one that is placed, of the same family and version.
  void replace(size_t content, CaseValues inputs, CaseValues want);

  // Shares as much as was measured for all sets and lays them and all contents out; nothing is
  // added afterwards.
  void place(int sets, const SharedPlaces& measured);
  int read_fd() const { return read_.fd(); }
  int written_fd() const { return written_.fd(); }

  void deal(int set, int content, Poison poison, bool numbers_only);
  // What the set holds after a call of one side on a content. `changed` is about answers of the
  // same side; those of a baseline are forgotten when another one has called on the content.
  // `ordinary`: it is of that family, which is never excused. `ask`: the reference for other
  // contents of this rank.
  SetFinding look(int set, int content, int side, bool ordinary, const AskReference& ask);
  // At most so many bytes of what a call on the set writes, somewhere; empty where it writes none.
  std::span<const std::byte> somewhere(int set, size_t bytes, std::random_device& anywhere) const;
  // Of what ranks hold in common, the first field with other bits than `first` has; empty: none.
  std::string differs_from(const RankBuffers& first, int set) const;
  // Tells apart what lies in the memory that a call on the set may write to.
  uint64_t writable_print(int set) const {
    return sets_.at(static_cast<size_t>(set))->writable_print();
  }
  void memory(int set, std::vector<std::span<const std::byte>>& out) const;
  void buffers(int set, std::vector<const GuardedBuffer*>& out) const;

 private:
  struct Content {
    CaseValues inputs, want;
    std::unique_ptr<CaseFrames> master;  // the inputs where they are dealt from
    // What was found right, by side: bytes, and on a device what tells them apart there.
    std::map<int, std::vector<CaseValues>> accepted;
    std::map<int, std::vector<uint64_t>> prints;
  };

  // Where a content is dealt from: in the device's memory, without weights, which all have in
  // common.
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
