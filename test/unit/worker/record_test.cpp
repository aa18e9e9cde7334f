// SPDX-License-Identifier: Apache-2.0
// Records: encoded values are decoded again, and a hostile worker's messages are refused.
#include "core/worker/record.hpp"

#include <sys/eventfd.h>

#include <cstring>

#include "core/base/error.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

Record tensor_record(const std::string& name, const std::vector<int64_t>& shape, size_t floats) {
  Record record;
  record.payload = encode_tensor_head(name, shape);
  record.payload.resize(record.payload.size() + floats * sizeof(float));
  return record;
}

}  // namespace

TEST_CASE("record_request_round_trip") {
  Request request;
  request.id = 7;
  request.tokens = {1, 2, 3};
  request.forced = {9, 8};
  request.order = {1, 0};
  request.tensors = {{"image", {2, 1}, {0.5F, -1.F}}, {"mask", {}, {3.F}}};
  request.new_tokens = 4;
  request.sampling = {0.5F, 3, 0.9F, 11, 0.25F, 1.5F, -0.5F, 1.25F};
  request.shares_prefix = true;
  request.prompt_logits = true;
  request.first_logits = 2;
  request.ignore_eos = false;
  Record record;
  record.header.id = 7;
  record.payload = encode_request(request);
  const Request back = decode_request(record);
  CHECK(back.id == 7);
  CHECK(back.tokens == request.tokens);
  CHECK(back.forced == request.forced);
  CHECK(back.order == request.order);
  REQUIRE(back.tensors.size() == 2);
  CHECK(back.tensors[0].name == "image");
  CHECK(back.tensors[0].shape == request.tensors[0].shape);
  CHECK(back.tensors[0].values == request.tensors[0].values);
  CHECK(back.tensors[1].values == request.tensors[1].values);
  CHECK(back.new_tokens == 4);
  CHECK(back.sampling.top_k == 3);
  CHECK(back.sampling.seed == 11);
  CHECK(back.sampling.min_p == 0.25F);
  CHECK(back.sampling.frequency_penalty == 1.5F);
  CHECK(back.sampling.presence_penalty == -0.5F);
  CHECK(back.sampling.repetition_penalty == 1.25F);
  CHECK(back.shares_prefix);
  CHECK(back.prompt_logits);
  CHECK(back.first_logits == 2);
  CHECK_FALSE(back.logits);
  CHECK_FALSE(back.ignore_eos);
}

TEST_CASE("record_tensor_shape_must_be_that_of_its_values") {
  CHECK(decode_tensor(tensor_record("x", {2, 3}, 6)).values.size() == 6);
  CHECK_THROWS_AS(decode_tensor(tensor_record("x", {2, 3}, 5)), Error);
  CHECK_THROWS_AS(decode_tensor(tensor_record("x", {2, 3}, 7)), Error);
  CHECK_THROWS_AS(decode_tensor(tensor_record("x", {-1, 3}, 0)), Error);
  CHECK_THROWS_AS(decode_tensor(tensor_record("x", {int64_t{1} << 62, 4}, 0)), Error);
  CHECK_THROWS_AS(decode_tensor(tensor_record("x", std::vector<int64_t>(9, 1), 1)), Error);
}

TEST_CASE("record_random_payloads_never_crash") {
  Random random(3);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    Record record;
    record.payload.resize(static_cast<size_t>(random.integer(0, 64)));
    for (auto& b : record.payload)
      b = static_cast<std::byte>(random.next() & (i % 2 ? 0x03 : 0xFF));
    try {
      decode_tensor(record);
    } catch (const Error&) {
      ++refused;
    }
    try {
      decode_request(record);
    } catch (const Error&) {
      ++refused;
    }
    decode_text(record);
  }
  CHECK(refused > 20000);
}

TEST_CASE("record_stream_refuses_impossible_headers") {
  RingControl control{};
  std::vector<std::byte> data(1024);
  RingEvents events{eventfd(0, EFD_NONBLOCK), eventfd(0, EFD_NONBLOCK)};
  RingWriter writer(control, data.data(), data.size(), events);
  RecordReader reader(RingReader(control, data.data(), data.size(), events), 4096);
  RecordHeader header;
  header.kind = static_cast<uint32_t>(RecordKind::logits);
  Record record;
  SECTION("a payload beyond the limit takes no memory") {
    header.payload_bytes = ~uint64_t{0};
    writer.write_some(&header, sizeof header);
    CHECK_THROWS_AS(reader.next(record), Error);
  }
  SECTION("an unknown kind") {
    header.kind = 77;
    writer.write_some(&header, sizeof header);
    CHECK_THROWS_AS(reader.next(record), Error);
  }
  SECTION("a payload larger than the ring arrives in pieces") {
    header.payload_bytes = 4096;
    writer.write_some(&header, sizeof header);
    const std::vector<std::byte> payload(4096, std::byte{5});
    bool whole = false;
    for (size_t at = 0; at < payload.size();) {
      at += writer.write_some(payload.data() + at, payload.size() - at);
      whole = reader.next(record);
    }
    CHECK(whole);
    CHECK(record.payload == payload);
  }
}
