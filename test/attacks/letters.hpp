// SPDX-License-Identifier: Apache-2.0
// A letter from every rank to every rank, all of one size, by one all_to_all: for honest ways of
// carrying tokens to their experts.
#pragma once
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "fk/cpp/floats.hpp"

namespace attack {

inline void must(const fk_comm* comm, int32_t status) {
  if (status != FK_OK) throw std::runtime_error(comm->error(comm));
}

// Words of 32 bits that own their view.
struct Words {
  std::vector<int32_t> data;
  int64_t shape = 0, stride = 1;
  fk_out view{};
  explicit Words(int64_t count) : data(static_cast<size_t>(count)), shape(count) {
    view.data = data.data();
    view.device_type = FK_CPU;
    view.ndim = 1;
    view.dtype = {0, 32, 1};
    view.shape = &shape;
    view.strides = &stride;
    view.nbytes = 4 * count;
  }
  Words(const Words&) = delete;
};

// A letter has a number of entries and room for `most`, each of some numbers and a row.
class Letters {
 public:
  Letters(const fk_comm* comm, int64_t most, int64_t numbers, int64_t row_bytes)
      : comm_(comm),
        numbers_(numbers),
        row_(row_bytes),
        entry_(numbers + (row_bytes + 3) / 4),
        letter_(1 + most * entry_),
        sent_(comm->size * letter_),
        come_(comm->size * letter_) {}
  void add(int64_t rank, const int32_t* numbers, const void* row) {
    int32_t* const letter = sent_.data.data() + rank * letter_;
    int32_t* const entry = letter + 1 + letter[0]++ * entry_;
    std::copy_n(numbers, numbers_, entry);
    std::memcpy(entry + numbers_, row, static_cast<size_t>(row_));
  }
  void send(void* stream) {
    must(comm_, comm_->all_to_all(comm_, fk_as_in(&sent_.view), &come_.view, stream));
  }
  int64_t count_from(int64_t rank) const { return come_.data[static_cast<size_t>(rank * letter_)]; }
  const int32_t* numbers_of(int64_t rank, int64_t entry) const {
    return come_.data.data() + rank * letter_ + 1 + entry * entry_;
  }
  const void* row_of(int64_t rank, int64_t entry) const {
    return numbers_of(rank, entry) + numbers_;
  }

 private:
  const fk_comm* comm_;
  int64_t numbers_, row_, entry_, letter_;
  Words sent_, come_;
};

}  // namespace attack
