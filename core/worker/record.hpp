// SPDX-License-Identifier: Apache-2.0
// Records of the rings: a fixed header and a payload. Decoding checks every length, because a
// worker's records are untrusted.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/exec/model.hpp"
#include "core/worker/ring.hpp"

namespace fk {

enum class RecordKind : uint32_t {
  request = 1,  // controller to worker
  close,        // no more requests
  token,        // worker to controller; index, value = token, flags: 1 for the last token
  logits,       // index = position, payload = floats
  tensor,       // payload = name, shape, floats
  failed,       // payload = text
  progress,     // payload = text
  shared,       // value = leading tokens of the prompt that were in the cache
};

struct RecordHeader {
  uint32_t kind = 0, flags = 0;
  uint64_t id = 0;
  int64_t index = 0, value = 0;
  uint64_t payload_bytes = 0;
};
static_assert(sizeof(RecordHeader) == 40);

struct Record {
  RecordHeader header;
  std::vector<std::byte> payload;
  RecordKind kind() const { return static_cast<RecordKind>(header.kind); }
};

// Assembles records from the content of a ring.
class RecordReader {
 public:
  // Larger payloads are refused with an Error before any allocation.
  RecordReader(RingReader ring, uint64_t payload_bytes_max)
      : ring_(ring), payload_bytes_max_(payload_bytes_max) {}
  // True with a complete record; false when bytes are missing. Error for a broken stream.
  bool next(Record& record);
  bool sleep() { return ring_.sleep(); }

 private:
  RingReader ring_;
  const uint64_t payload_bytes_max_;
  Record partial_;
  size_t header_bytes_ = 0, payload_bytes_ = 0;
};

std::vector<std::byte> encode_request(const Request& request);
Request decode_request(const Record& record);  // Error when malformed

// The head of a tensor's payload; the floats follow.
std::vector<std::byte> encode_tensor_head(const std::string& name,
                                          const std::vector<int64_t>& shape);
NamedTensor decode_tensor(const Record& record);  // Error when sizes contradict each other
std::vector<float> decode_floats(const Record& record);
// Control characters become `?`, at most 4 KiB.
std::string decode_text(const Record& record);

}  // namespace fk
