// SPDX-License-Identifier: Apache-2.0
// The exchange for a model's drive() in a worker: requests come from a ring, and results go to
// another.
#pragma once
#include "core/exec/model.hpp"
#include "core/worker/board.hpp"
#include "core/worker/record.hpp"

namespace fk {

class RingExchange final : public Exchange {
 public:
  // `control_fd` is watched while waiting: the process ends with the controller.
  RingExchange(Board& board, void* shared, RingEvents requests, RingEvents results, int control_fd);

  void begin();  // begins a drive: requests are open
  void end();    // ends a drive: unread requests up to the close are dropped

  bool next(Request& request, bool wait) override;
  void token(uint64_t id, int64_t index, int64_t token, bool last) override;
  void shared(uint64_t id, int64_t tokens) override;
  void logits(uint64_t id, int64_t position, const float* values, int64_t count) override;
  void tensor(uint64_t id, const std::string& name, const std::vector<int64_t>& shape,
              const float* values) override;
  void failed(uint64_t id, const std::string& why) override;
  void progress(const std::string& what) override;

 private:
  void write(const void* bytes, size_t count);
  void sleep(int event);
  Board& board_;
  RecordReader requests_;
  RingWriter results_;
  RingEvents request_events_, result_events_;
  int control_fd_;
  bool closed_ = true;
};

}  // namespace fk
