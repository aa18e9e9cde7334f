// SPDX-License-Identifier: Apache-2.0
// Codes requests and results as records (record.hpp). A record's payload has fixed structs and
// counted arrays in the machine's byte order, because both ends are on one machine.
#include "core/worker/record.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

constexpr size_t kTextBytesMax = 4096;
constexpr size_t kNameBytesMax = 256;
constexpr size_t kRankMax = 8;  // dimensions of a tensor

template <class T>
void put(std::vector<std::byte>& out, const T* values, size_t count) {
  if (count == 0) return;
  const size_t at = out.size();
  out.resize(at + count * sizeof(T));
  std::memcpy(out.data() + at, values, count * sizeof(T));
}

// Reads a payload from the front; every read is bounded by the remaining bytes.
class Cursor {
 public:
  explicit Cursor(const Record& record) : bytes_(record.payload) {}
  template <class T>
  std::vector<T> take(uint64_t count) {
    if (count > (bytes_.size() - at_) / sizeof(T)) fail("worker", "a record is too short");
    std::vector<T> values(static_cast<size_t>(count));
    if (count) std::memcpy(values.data(), bytes_.data() + at_, values.size() * sizeof(T));
    at_ += values.size() * sizeof(T);
    return values;
  }
  template <class T>
  T one() {
    return take<T>(1)[0];
  }
  size_t left() const { return bytes_.size() - at_; }

 private:
  const std::vector<std::byte>& bytes_;
  size_t at_ = 0;
};

NamedTensor take_tensor(Cursor& cursor) {
  const auto name_bytes = cursor.one<uint32_t>();
  const auto rank = cursor.one<uint32_t>();
  if (name_bytes > kNameBytesMax || rank > kRankMax) fail("worker", "a malformed tensor record");
  NamedTensor tensor;
  tensor.shape = cursor.take<int64_t>(rank);
  const auto name = cursor.take<char>(name_bytes);
  tensor.name = printable({name.begin(), name.end()});
  const int64_t count = numel(tensor.shape, "a tensor record");
  if (count < 0 || static_cast<uint64_t>(count) > cursor.left() / sizeof(float))
    fail("worker", "a tensor record whose shape is not that of its values");
  tensor.values = cursor.take<float>(static_cast<uint64_t>(count));
  return tensor;
}

// The fixed part of a request's payload; the last four fields count the entries that follow.
struct RequestHead {
  int64_t new_tokens, first_logits;
  float temperature, top_p;
  float min_p, frequency_penalty, presence_penalty, repetition_penalty;
  int32_t top_k;
  uint32_t flags;  // 1 logits, 2 prompt_logits, 4 ignore_eos, 8 cancels, 16 shares_prefix
  uint64_t seed, tokens, forced, order, tensors;
};

}  // namespace

bool RecordReader::next(Record& record) {
  auto* head = reinterpret_cast<std::byte*>(&partial_.header);
  if (header_bytes_ < sizeof(RecordHeader)) {
    header_bytes_ += ring_.read_some(head + header_bytes_, sizeof(RecordHeader) - header_bytes_);
    if (header_bytes_ < sizeof(RecordHeader)) return false;
    const auto& h = partial_.header;
    if (h.kind < static_cast<uint32_t>(RecordKind::request) ||
        h.kind > static_cast<uint32_t>(RecordKind::shared)) {
      fail("worker", "a record of unknown kind " + std::to_string(h.kind));
    }
    if (h.payload_bytes > payload_bytes_max_) {
      fail("worker", "a record of " + std::to_string(h.payload_bytes) +
                         " bytes, where the model's outputs have at most " +
                         std::to_string(payload_bytes_max_));
    }
    partial_.payload.resize(static_cast<size_t>(h.payload_bytes));
  }
  auto& payload = partial_.payload;
  if (payload_bytes_ < payload.size()) {
    payload_bytes_ +=
        ring_.read_some(payload.data() + payload_bytes_, payload.size() - payload_bytes_);
    if (payload_bytes_ < payload.size()) return false;
  }
  record = std::move(partial_);
  partial_ = {};
  header_bytes_ = payload_bytes_ = 0;
  return true;
}

std::vector<std::byte> encode_request(const Request& r) {
  RequestHead head{};
  head.new_tokens = r.new_tokens;
  head.first_logits = r.first_logits;
  head.temperature = r.sampling.temperature;
  head.top_p = r.sampling.top_p;
  head.top_k = r.sampling.top_k;
  head.seed = r.sampling.seed;
  head.min_p = r.sampling.min_p;
  head.frequency_penalty = r.sampling.frequency_penalty;
  head.presence_penalty = r.sampling.presence_penalty;
  head.repetition_penalty = r.sampling.repetition_penalty;
  head.flags = (r.logits ? 1U : 0U) | (r.prompt_logits ? 2U : 0U) | (r.ignore_eos ? 4U : 0U) |
               (r.cancels ? 8U : 0U) | (r.shares_prefix ? 16U : 0U);
  head.tokens = r.tokens.size();
  head.forced = r.forced.size();
  head.order = r.order.size();
  head.tensors = r.tensors.size();
  std::vector<std::byte> out;
  put(out, &head, 1);
  put(out, r.tokens.data(), r.tokens.size());
  put(out, r.forced.data(), r.forced.size());
  put(out, r.order.data(), r.order.size());
  for (const auto& tensor : r.tensors) {
    const auto front = encode_tensor_head(tensor.name, tensor.shape);
    put(out, front.data(), front.size());
    put(out, tensor.values.data(), tensor.values.size());
  }
  return out;
}

Request decode_request(const Record& record) {
  Cursor cursor(record);
  const auto head = cursor.one<RequestHead>();
  Request r;
  r.id = record.header.id;
  r.new_tokens = head.new_tokens;
  r.first_logits = head.first_logits;
  r.sampling = {head.temperature,
                head.top_k,
                head.top_p,
                head.seed,
                head.min_p,
                head.frequency_penalty,
                head.presence_penalty,
                head.repetition_penalty};
  r.logits = (head.flags & 1U) != 0;
  r.prompt_logits = (head.flags & 2U) != 0;
  r.ignore_eos = (head.flags & 4U) != 0;
  r.cancels = (head.flags & 8U) != 0;
  r.shares_prefix = (head.flags & 16U) != 0;
  r.tokens = cursor.take<int64_t>(head.tokens);
  r.forced = cursor.take<int64_t>(head.forced);
  r.order = cursor.take<int64_t>(head.order);
  for (uint64_t i = 0; i < head.tensors; ++i) r.tensors.push_back(take_tensor(cursor));
  return r;
}

std::vector<std::byte> encode_tensor_head(const std::string& name,
                                          const std::vector<int64_t>& shape) {
  const std::string kept = name.substr(0, kNameBytesMax);
  const uint32_t sizes[2] = {static_cast<uint32_t>(kept.size()),
                             static_cast<uint32_t>(shape.size())};
  std::vector<std::byte> out;
  put(out, sizes, 2);
  put(out, shape.data(), shape.size());
  put(out, kept.data(), kept.size());
  return out;
}

NamedTensor decode_tensor(const Record& record) {
  Cursor cursor(record);
  NamedTensor tensor = take_tensor(cursor);
  if (cursor.left() != 0) fail("worker", "a tensor record whose shape is not that of its values");
  return tensor;
}

std::vector<float> decode_floats(const Record& record) {
  if (record.payload.size() % sizeof(float) != 0) fail("worker", "a malformed logits record");
  return Cursor(record).take<float>(record.payload.size() / sizeof(float));
}

std::string decode_text(const Record& record) {
  return printable({reinterpret_cast<const char*>(record.payload.data()),
                    std::min(record.payload.size(), kTextBytesMax)});
}

}  // namespace fk
