// SPDX-License-Identifier: Apache-2.0
#include "core/engines/generate/encoder_phase.hpp"

#include <algorithm>

#include "core/base/error.hpp"

namespace fk {

Sources::Sources(const GenerateSetup& setup) : length_(setup.encoder_length) {
  if (const RequestTensor* ragged = ragged_of(setup.tensors)) ragged_ = *ragged;
}

int64_t Sources::left_by(const Request& request) const {
  return ragged_ ? ragged_rows(*ragged_, request) / ragged_->multiple : length_;
}

EncoderPhase::EncoderPhase(Program& program, const GenerateSetup& setup)
    : program_(program),
      tensors_(program, setup.tensors),
      sources_(setup),
      images_(program, setup),
      batch_(images_.used() ? -1 : program.axis("B")),
      length_(setup.encoder_length),
      placeholder_(setup.placeholder) {
  slots_ = static_cast<int32_t*>(program.input("state_slots"));
  positions_ = static_cast<int64_t*>(program.input("positions"));
  starts_ = static_cast<int32_t*>(program.input("cu_seqlens"));
  state_rows_ = static_cast<int32_t*>(program.input("state_rows"));
  if (!sources_.ragged() && (batch_ < 0 || slots_ == nullptr))
    fail("generate", "the encoder has no axis `B` with an input `state_slots`");
  if (!sources_.ragged()) return;
  if ((program.axis("S") < 0 && program.axis("R") < 0) || state_rows_ == nullptr)
    fail("generate", "the encoder of ragged tensors has no axis `S` or `R`, or no `state_rows`");
  rows_most_ = program.axis("S") >= 0 ? program.limit("S")
                                      : program.limit("R") * sources_.ragged()->multiple;
}

std::string EncoderPhase::refusal(const Request& request) const {
  if (auto why = tensors_.refusal(request); !why.empty()) return why;
  const int64_t left = sources_.left_by(request);
  if (left > length_)
    return "its tensors leave " + std::to_string(left) + " rows, more than " +
           std::to_string(length_);
  const auto places = std::ranges::count(request.tokens, placeholder_);
  if (placeholder_ >= 0 && places < left)
    return "its prompt has " + std::to_string(places) + " placeholders for " +
           std::to_string(left) + " rows of its tensors";
  return images_.refusal(request);
}

void EncoderPhase::run(const std::vector<Work>& work) {
  for (const Work& w : work) {
    if (w.sequence->encoded) continue;
    w.sequence->encoded = true;
    if (sources_.ragged()) {
      const int64_t rows = ragged_rows(*sources_.ragged(), w.sequence->request);
      images_.place_tokens(*w.sequence);
      if (rows == 0) continue;
      if (rows_ + rows > rows_most_) flush();
      write_rows(*w.sequence, rows);
    }
    tensors_.write(count_, w.sequence->request, rows_before_);
    if (slots_) slots_[count_] = w.sequence->slot;
    ++count_;
    if (batch_ >= 0 && count_ == program_.limit("B")) flush();
  }
  flush();
}

void EncoderPhase::write_rows(const Sequence& s, int64_t rows) {
  if (starts_) starts_[count_] = static_cast<int32_t>(rows_);
  for (int64_t i = 0; positions_ && i < rows; ++i) positions_[rows_ + i] = i;
  images_.add(s.request, rows_);
  const int64_t left = sources_.left_by(s.request);
  for (int64_t i = 0; i < left; ++i)
    state_rows_[left_ + i] = static_cast<int32_t>(s.slot * length_ + i);
  rows_before_ = rows_;
  rows_ += rows;
  left_ += left;
}

void EncoderPhase::flush() {
  if (count_ == 0) return;
  if (sources_.ragged()) {
    if (starts_) starts_[count_] = static_cast<int32_t>(rows_);
    if (program_.axis("S") >= 0) program_.bind(program_.axis("S"), rows_);
    if (program_.axis("R") >= 0) program_.bind(program_.axis("R"), left_);
  } else {
    for (int64_t i = 0; positions_ && i < count_ * length_; ++i) positions_[i] = i % length_;
    for (int64_t b = 0; starts_ && b <= count_; ++b) starts_[b] = static_cast<int32_t>(b * length_);
  }
  if (batch_ >= 0) program_.bind(batch_, count_);
  images_.bind();
  program_.run();
  count_ = rows_ = rows_before_ = left_ = 0;
}

}  // namespace fk
