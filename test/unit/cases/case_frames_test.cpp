// SPDX-License-Identifier: Apache-2.0
// Guarded frames: what is written where it must not be is seen and named.
#include "core/cases/case_frames.hpp"

#include <cstring>

#include "test/catch.hpp"

namespace {

const char* kAppend = R"yaml(op: append
revision: 1
summary: rows into pages
axes: {T: tokens, P: pages, Z: slots, G: heads, D: width}
init:
  - {name: num, type: int, axis: G}
  - {name: width, type: int, axis: D}
forward:
  - {name: k, role: in, shape: [T, G, D], dtype: float, layout: strided}
  - {name: k_cache, role: inout, shape: [P, Z, G, D], dtype: k, layout: strided, writes: "flat(P,Z)[slots]"}
  - {name: v_cache, role: inout, shape: [P, Z, G, D], dtype: k, layout: strided, writes: "flat(P,Z)[slots]"}
  - {name: slots, role: in, shape: [T], dtype: [i64], values: "perm(P*Z)"
}
  - {name: out, role: out, shape: [T], dtype: [f32]}
tolerance: {numerics: exact}
cases:
  smoke:
    - {T: 3, P: 4, Z: 2, num: 2, width: 4}
)yaml";

struct Bound {
  explicit Bound(fk::Layout layout = {}, fk::Variant variant = {})
      : contract(fk::Contract::parse(kAppend, "append.yaml", 1, "test")),
        resolved(fk::resolve(contract, contract.cases[0], variant)),
        frames(*device, resolved, fk::make_inputs(resolved, 1, 1), layout) {}
  const fk_out& view(size_t slot) const {
    return *static_cast<const fk_out*>(frames.real().forward[slot].p);
  }
  float* data(size_t slot) const { return static_cast<float*>(view(slot).data); }
  std::string rule() const {
    const auto broken = frames.broken();
    return broken.empty() ? "" : broken[0].rule + ": " + broken[0].text;
  }
  std::unique_ptr<fk::Device> device = fk::open_device("cpu");
  fk::Contract contract;
  fk::ResolvedCase resolved;
  fk::CaseFrames frames;
};

}  // namespace

TEST_CASE("frames_are_clean_until_something_is_written") {
  const Bound b;
  CHECK(b.rule().empty());
  CHECK(b.frames.meta().forward[0].p != nullptr);
  CHECK(static_cast<const fk_in*>(b.frames.meta().forward[0].p)->data == nullptr);
  CHECK(reinterpret_cast<uintptr_t>(b.data(0)) % 256 == 0);
}

TEST_CASE("frames begin where the promise of alignment just holds, where a layout says so") {
  const auto behind = [](const Bound& b, size_t slot) {
    return reinterpret_cast<uintptr_t>(b.data(slot)) % 256;
  };
  for (const bool at_end : {false, true}) {
    Bound b({.at_end = at_end, .least_aligned = true});
    for (const size_t slot : {0, 1, 2}) CHECK(behind(b, slot) == 16);  // rows of 16 bytes
    CHECK(behind(b, 3) == 8);
    CHECK(behind(b, 4) == 4);
    CHECK(b.rule().empty());
    b.frames.restore(fk::Poison::random);
    CHECK(b.rule().empty());
    reinterpret_cast<std::byte*>(b.data(4))[-1] ^= std::byte{1};
    CHECK_THAT(b.rule(), ContainsSubstring("guard: out: 1 byte written 1 bytes before its start"));
  }
}

TEST_CASE("frames_name_what_was_written") {
  {
    const Bound b;
    b.data(0)[0] += 1;
    CHECK_THAT(b.rule(), ContainsSubstring("input: k was written"));
  }
  {
    const Bound b;
    b.data(4)[3] = 0;  // T is 3
    CHECK_THAT(b.rule(), ContainsSubstring("guard: out: 4 bytes written 0 bytes past its end"));
  }
  {
    const Bound b;
    reinterpret_cast<std::byte*>(b.data(4))[-1] ^= std::byte{1};
    CHECK_THAT(b.rule(), ContainsSubstring("guard: out: 1 byte written 1 bytes before its start"));
  }
  {
    const Bound b;
    const_cast<fk_out&>(b.view(4)).ndim = 2;
    CHECK_THAT(b.rule(), ContainsSubstring("frame: "));
  }
}

TEST_CASE("frames_know_the_footprint_of_a_cache") {
  const Bound b;
  const auto* slots = static_cast<const int64_t*>(b.view(3).data);
  for (int64_t t = 0; t < 3; ++t)
    for (int64_t i = 0; i < 8; ++i) b.data(1)[slots[t] * 8 + i] = 42;
  CHECK(b.rule().empty());
  std::vector<bool> mine(8, false);
  for (int64_t t = 0; t < 3; ++t) mine[static_cast<size_t>(slots[t])] = true;
  size_t other = 0;
  while (mine[other]) ++other;
  b.data(1)[other * 8] = 42;
  CHECK_THAT(b.rule(), ContainsSubstring("footprint: k_cache: 1 elements"));
}

TEST_CASE("frames_look_at_all_of_a_long_cache") {
  fk::Variant variant;
  variant.axes["P"] = 150;
  const Bound b({}, variant);  // 2400 elements: blocks, and a part of one
  const auto* slots = static_cast<const int64_t*>(b.view(3).data);
  std::vector<bool> mine(300, false);
  for (int64_t t = 0; t < 3; ++t) mine[static_cast<size_t>(slots[t])] = true;
  int64_t wrong = 0;
  for (const size_t slot : {299u, 298u, 297u, 296u, 150u, 77u}) {
    if (mine[slot]) continue;
    b.data(1)[slot * 8 + 7] = 42;
    ++wrong;
    CHECK_THAT(b.rule(), ContainsSubstring("k_cache: " + std::to_string(wrong) + " elements"));
    CHECK_THAT(b.rule(), ContainsSubstring("at element " + std::to_string(slot * 8 + 7) + " of"));
  }
  CHECK(wrong >= 3);
}

TEST_CASE("frames_know_the_footprint_of_slots") {
  std::string text = kAppend;
  for (const char* name : {"k_cache", "v_cache"}) {
    const auto at = text.find("flat(P,Z)", text.find(std::string("name: ") + name));
    text.replace(at, 9, "flat(P)");
  }
  text.replace(text.find("perm(P*Z)"), 9, "constant(2)");
  const auto contract = fk::Contract::parse(text, "append.yaml", 1, "test");
  const auto resolved = fk::resolve(contract, contract.cases[0], {});
  const auto device = fk::open_device("cpu");
  const fk::CaseFrames frames(*device, resolved, fk::make_inputs(resolved, 1, 1), {});
  const auto mask = frames.footprint(*resolved.find("k_cache"), 0);  // [4, 2, 2, 4]
  for (size_t i = 0; i < mask.size(); ++i) CHECK(mask[i] == (i / 16 == 2));
}

TEST_CASE("frames_interleave_caches_in_one_memory_and_see_gaps") {
  fk::Variant variant;
  variant.layout = fk::Variant::Layout::interleaved;
  fk::Layout layout;
  layout.interleaved = true;
  const Bound b(layout, variant);
  CHECK(b.view(1).strides[0] == 2 * 2 * 2 * 4);
  CHECK(b.data(2) == b.data(1) + 16);
  CHECK(b.rule().empty());
  const fk::Tensor k = b.frames.contents("k_cache"), dense = Bound().frames.contents("k_cache");
  CHECK(std::memcmp(k.data(), dense.data(), static_cast<size_t>(k.bytes())) == 0);
  const Bound padded({}, [] {
    fk::Variant v;
    v.layout = fk::Variant::Layout::padded;
    return v;
  }());
  REQUIRE(padded.view(1).strides[0] > 16);
  padded.data(1)[16] = 0;
  CHECK_THAT(padded.rule(), ContainsSubstring("footprint: k_cache: 1 elements"));
}

TEST_CASE("frames_restore_puts_inout_back_and_poisons_outputs") {
  Bound b;
  const fk::Tensor before = b.frames.contents("k_cache");
  std::memset(b.data(1), 0, 16);
  b.frames.restore(fk::Poison::random);
  const fk::Tensor after = b.frames.contents("k_cache");
  CHECK(std::memcmp(before.data(), after.data(), static_cast<size_t>(after.bytes())) == 0);
  CHECK(b.rule().empty());
  const fk::Tensor random = b.frames.contents("out");
  b.frames.restore(fk::Poison::ones);
  const fk::Tensor ones = b.frames.contents("out");
  CHECK(std::memcmp(random.data(), ones.data(), 12) != 0);
  CHECK(ones.at(0) != ones.at(0));  // NaN
}

TEST_CASE("frames_of_nothing_have_null_data") {
  fk::Variant none;
  none.axes["T"] = 0;
  const Bound b({}, none);
  CHECK(b.view(4).data == nullptr);
  CHECK(b.view(4).nbytes == 0);
  CHECK(b.rule().empty());
}

TEST_CASE("frames_copied_in_shared_memory_hold_the_same_and_answer_questions") {
  const Bound of;
  fk::SharedPlaces room;
  for (int set = 0; set < 2; ++set)
    fk::CaseFrames::measure(*of.device, of.resolved, fk::Layout{.shift = set}, room);
  std::vector<std::byte> read(static_cast<size_t>(room.read.taken()) + 4096);
  std::vector<std::byte> written(static_cast<size_t>(room.written.taken()) + 4096);
  fk::SharedPlaces places{{read.data(), room.read.taken()}, {written.data(), room.written.taken()}};
  const fk::CaseFrames first(*of.device, of.resolved, fk::make_inputs(of.resolved, 1, 1), {},
                             &places);
  fk::CaseFrames second(first, fk::Layout{.shift = 1}, &places);
  for (const char* name : {"k", "k_cache", "v_cache", "slots"}) {
    const fk::Tensor a = first.contents(name), b = second.contents(name);
    INFO(name);
    CHECK(std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0);
  }
  const auto at = [&](size_t slot) {
    return static_cast<float*>(static_cast<const fk_out*>(second.real().forward[slot].p)->data);
  };
  CHECK(at(0) != static_cast<const fk_out*>(first.real().forward[0].p)->data);
  CHECK(second.broken().empty());
  std::memset(at(1), 0, 4);
  second.restore(fk::Poison::ones);
  const fk::Tensor a = first.contents("k_cache"), b = second.contents("k_cache");
  CHECK(std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0);
  at(0)[0] += 1;
  REQUIRE(second.broken().size() == 1);
  CHECK(second.broken()[0].rule == "input");
}

TEST_CASE("frames_have_the_rows_as_far_apart_as_a_case_says") {
  const auto with = [](const std::string& strided, const std::string& size = "smoke") {
    std::string text = kAppend;
    const std::string end = "width: 4}", other = "  smoke:\n    - {T";
    text.replace(text.rfind(end), end.size(), "width: 4, strided: " + strided + "}");
    text.replace(text.rfind(other), other.size(), "  " + size + ":\n    - {T");
    return fk::Contract::parse(text, "append.yaml", 1, "test");
  };
  const auto device = fk::open_device("cpu");
  const auto strides = [&](const std::string& strided, const std::string& size = "smoke") {
    const auto c = with(strided, size);
    const auto r = fk::resolve(c, c.cases[0], {});
    const fk::CaseFrames frames(*device, r, fk::make_inputs(r, 1, 1), {});
    const auto* const view = static_cast<const fk_out*>(frames.real().forward[0].p);
    return fk::Shape(view->strides, view->strides + view->ndim);
  };
  CHECK(strides("{k: 20}") == fk::Shape{20, 4, 1});  // as in rows of a wider tensor
  CHECK(strides("[k]")[0] > 8);                      // a row has 8
  CHECK(strides("[k]")[0] != 20);
  CHECK(strides("[k]")[1] > 4);
  // Production's layout: rows begin at multiples of 16 bytes, and are dense.
  const fk::Shape full = strides("[k]", "full");
  CHECK(full[0] > 8);
  CHECK(full[0] % 16 == 0);
  CHECK(full[1] == 4);
  CHECK_THROWS_WITH(strides("{k: 7}"), ContainsSubstring("rows of 8 elements"));
  CHECK_THROWS_WITH(with("{k: 0}"), ContainsSubstring("at least as many as a row has"));
}
