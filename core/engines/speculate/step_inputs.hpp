// SPDX-License-Identifier: Apache-2.0
// Collects the inputs of one step over a paged cache, request by request and token by token, and
// writes them to a program at once. For engines with other tokens than the next ones.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/engines/scheduler.hpp"
#include "core/exec/session.hpp"

namespace fk {

class StepInputs {
 public:
  StepInputs(Program& program, int64_t page_size) : program_(program), page_size_(page_size) {}

  void clear();
  // Begins a sequence's tokens. Its context has `context` positions in the cache; the last `tree`
  // positions are a tree.
  void begin(const Sequence& sequence, int64_t context, int64_t tree = 0);
  // Adds a token. Its key and value go to position `place` of the sequence's cache.
  void token(int64_t id, int64_t position, int64_t place);
  // For each node of the tree in order: true when the last token sees it.
  void sees(bool node) { mask_.push_back(node ? 1 : 0); }
  // Adds a value to an input whose only axis counts such values ("rows", "aux_rows").
  void add(const char* input, int32_t value) { more_[input].push_back(value); }
  // Adds a logits row. It chooses token `index` of the answer; -1: none.
  void row(const Sequence& sequence, int64_t index);

  int64_t tokens() const { return static_cast<int64_t>(ids_.size()); }
  int64_t requests() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t rows() const { return static_cast<int64_t>(temperature_.size()); }
  // Binds an axis, if the phase has it.
  void bind(const char* axis, int64_t value);
  // Writes all inputs, binds T, B, W and TW, and runs. The caller binds other axes before.
  void run();
  Program& program() { return program_; }

 private:
  template <class T>
  void copy(const char* input, const std::vector<T>& values);
  int64_t width() const;

  Program& program_;
  int64_t page_size_;
  std::vector<int64_t> ids_, positions_, slots_;
  std::vector<int32_t> starts_, lengths_, trees_, mask_, top_k_;
  std::vector<float> temperature_, top_p_, uniform_;
  std::vector<const Sequence*> sequences_;
  std::vector<size_t> token_request_;  // by token
  std::map<std::string, std::vector<int32_t>> more_;
};

}  // namespace fk
