// SPDX-License-Identifier: Apache-2.0
#include "core/engines/generate/encoder_phase.hpp"

#include <algorithm>

#include "core/base/error.hpp"

namespace fk {

int64_t GenerateSetup::source_rows() const {
  return encoders.empty() ? 0 : encoders.back().first + encoders.back().options.length;
}

Sources::Sources(const GenerateEncoder& encoder) : length_(encoder.length) {
  if (const RequestTensor* ragged = ragged_of(encoder.tensors)) ragged_ = *ragged;
  for (const RequestTensor& tensor : encoder.tensors)
    if (tensor.chunk > 0) sounds_ = tensor;
}

int64_t Sources::left_by(const Request& request) const {
  if (!ragged_) return length_;
  if (!sounds_) return ragged_rows(*ragged_, request) / ragged_->multiple;
  int64_t left = 0;
  for (const int64_t frames : sounds_of(*sounds_, request)) left += rows_of_sound(frames);
  return left;
}

namespace {

std::vector<std::string> names_of_others(const GenerateSetup& setup, size_t number) {
  std::vector<std::string> names;
  for (size_t i = 0; i < setup.encoders.size(); ++i)
    if (i != number)
      for (const RequestTensor& tensor : setup.encoders[i].options.tensors)
        names.push_back(tensor.name);
  return names;
}

}  // namespace

EncoderPhase::EncoderPhase(const GenerateSetup& setup, size_t number)
    : program_(*setup.encoders[number].program),
      options_(setup.encoders[number].options),
      tensors_(program_, options_.tensors, names_of_others(setup, number)),
      sources_(options_),
      images_(program_, options_, setup.max_context),
      sounds_(program_, options_),
      batch_(images_.used() || sounds_.used() ? -1 : program_.axis("B")),
      state_length_(setup.source_rows()),
      first_(setup.encoders[number].first) {
  slots_ = static_cast<int32_t*>(program_.input("state_slots"));
  state_rows_ = static_cast<int32_t*>(program_.input("state_rows"));
  if (!sounds_.used()) positions_ = static_cast<int64_t*>(program_.input("positions"));
  starts_ = static_cast<int32_t*>(program_.input("cu_seqlens"));
  if (!sources_.ragged() && (batch_ < 0 || slots_ == nullptr))
    fail("generate", "the encoder has no axis `B` with an input `state_slots`");
  if (!sources_.ragged()) return;
  if ((program_.axis("S") < 0 && program_.axis("R") < 0) || state_rows_ == nullptr)
    fail("generate", "the encoder of ragged tensors has no axis `S` or `R`, or no `state_rows`");
  rows_most_ = program_.axis("S") >= 0 ? program_.limit("S")
                                       : program_.limit("R") * sources_.ragged()->multiple;
}

std::string EncoderPhase::refusal(const Request& request) const {
  if (auto why = tensors_.refusal(request); !why.empty()) return why;
  const int64_t left = sources_.left_by(request);
  if (left > options_.length)
    return "its tensors leave " + std::to_string(left) + " rows, more than " +
           std::to_string(options_.length);
  const auto places = std::ranges::count(request.tokens, options_.placeholder);
  if (options_.placeholder >= 0 && places < left)
    return "its prompt has " + std::to_string(places) + " placeholders for " +
           std::to_string(left) + " rows of its tensors";
  return images_.refusal(request);
}

void EncoderPhase::run(const std::vector<Work>& work) {
  for (const Work& w : work) {
    if (w.sequence->encoded) continue;
    if (sources_.ragged()) {
      const int64_t rows = ragged_rows(*sources_.ragged(), w.sequence->request);
      images_.place_tokens(*w.sequence);
      if (rows == 0) continue;
      if (full(w.sequence->request, rows)) flush();
      write_rows(*w.sequence, rows);
    }
    tensors_.write(count_, w.sequence->request, rows_before_);
    if (slots_) slots_[count_] = w.sequence->slot;
    ++count_;
    if (batch_ >= 0 && count_ == program_.limit("B")) flush();
  }
  flush();
}

bool EncoderPhase::full(const Request& request, int64_t rows) const {
  return rows_ + rows > rows_most_ || !sounds_.fit(request);
}

void EncoderPhase::write_rows(const Sequence& s, int64_t rows) {
  if (starts_) starts_[count_] = static_cast<int32_t>(rows_);
  for (int64_t i = 0; positions_ && i < rows; ++i) positions_[rows_ + i] = i;
  images_.add(s.request, rows_);
  sounds_.add(s.request, rows_, left_);
  const int64_t left = sources_.left_by(s.request);
  for (int64_t i = 0; i < left; ++i)
    state_rows_[left_ + i] =
        static_cast<int32_t>(s.slot * state_length_ + first_ + images_.left_row(i));
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
    const int64_t length = options_.length;
    for (int64_t i = 0; positions_ && i < count_ * length; ++i) positions_[i] = i % length;
    for (int64_t b = 0; starts_ && b <= count_; ++b) starts_[b] = static_cast<int32_t>(b * length);
  }
  if (batch_ >= 0) program_.bind(batch_, count_);
  images_.bind();
  sounds_.bind();
  program_.run();
  count_ = rows_ = rows_before_ = left_ = 0;
}

}  // namespace fk
