// SPDX-License-Identifier: Apache-2.0
// The worker's end of its two rings (ring.hpp): it reads requests and writes results. Where a ring
// is empty or full, it sleeps until the controller moves, or ends with it.
#include "core/worker/exchange.hpp"

#include <poll.h>

#include <algorithm>
#include <array>

#include "core/worker/crash.hpp"

namespace fk {

RingExchange::RingExchange(Board& board, void* shared, RingEvents requests, RingEvents results,
                           int control_fd)
    : board_(board),
      requests_(RingReader(board.requests, request_data(shared), kRequestRingBytes, requests),
                UINT64_MAX),  // no limit: the controller is trusted
      results_(board.results, result_data(shared), kResultRingBytes, results),
      request_events_(requests),
      result_events_(results),
      control_fd_(control_fd) {}

void RingExchange::begin() { closed_ = false; }

void RingExchange::end() {
  Request dropped;
  while (next(dropped, true)) {
  }
}

// Waits for the ring's event. Ends the process if the controller has closed its socket.
void RingExchange::sleep(int event) {
  std::array<pollfd, 2> entries{pollfd{event, POLLIN, 0}, pollfd{control_fd_, POLLRDHUP, 0}};
  ::poll(entries.data(), entries.size(), -1);
  if (entries[1].revents != 0) leave(0);
  if (entries[0].revents != 0) drain_event(event);
}

bool RingExchange::next(Request& request, bool wait) {
  Record record;
  while (!closed_) {
    if (requests_.next(record)) {
      if (record.kind() == RecordKind::request) {
        request = decode_request(record);
        return true;
      }
      closed_ = true;
    } else if (!wait) {
      return false;
    } else if (requests_.sleep()) {
      sleep(request_events_.data);
    }
  }
  return false;
}

void RingExchange::write(const void* bytes, size_t count) {
  const auto* at = static_cast<const std::byte*>(bytes);
  while (count > 0) {
    const size_t written = results_.write_some(at, count);
    at += written;
    count -= written;
    if (count > 0 && results_.sleep()) sleep(result_events_.space);
  }
}

void RingExchange::token(uint64_t id, int64_t index, int64_t token, bool last) {
  RecordHeader header;
  header.kind = static_cast<uint32_t>(RecordKind::token);
  header.flags = last ? 1 : 0;
  header.id = id;
  header.index = index;
  header.value = token;
  write(&header, sizeof header);
}

void RingExchange::shared(uint64_t id, int64_t tokens) {
  RecordHeader header;
  header.kind = static_cast<uint32_t>(RecordKind::shared);
  header.id = id;
  header.value = tokens;
  write(&header, sizeof header);
}

void RingExchange::logits(uint64_t id, int64_t position, const float* values, int64_t count) {
  RecordHeader header;
  header.kind = static_cast<uint32_t>(RecordKind::logits);
  header.id = id;
  header.index = position;
  header.payload_bytes = static_cast<uint64_t>(count) * sizeof(float);
  write(&header, sizeof header);
  write(values, static_cast<size_t>(header.payload_bytes));
}

void RingExchange::tensor(uint64_t id, const std::string& name, const std::vector<int64_t>& shape,
                          const float* values) {
  const auto head = encode_tensor_head(name, shape);
  const auto bytes = static_cast<size_t>(numel(shape)) * sizeof(float);
  RecordHeader header;
  header.kind = static_cast<uint32_t>(RecordKind::tensor);
  header.id = id;
  header.payload_bytes = head.size() + bytes;
  write(&header, sizeof header);
  write(head.data(), head.size());
  write(values, bytes);
}

void RingExchange::failed(uint64_t id, const std::string& why) {
  RecordHeader header;
  header.kind = static_cast<uint32_t>(RecordKind::failed);
  header.id = id;
  header.payload_bytes = why.size();
  write(&header, sizeof header);
  write(why.data(), why.size());
}

void RingExchange::progress(const std::string& what) {
  std::fill(board_.nodes, board_.nodes + kPhasesMax, -1);  // the step is over
  RecordHeader header;
  header.kind = static_cast<uint32_t>(RecordKind::progress);
  header.payload_bytes = what.size();
  write(&header, sizeof header);
  write(what.data(), what.size());
}

}  // namespace fk
