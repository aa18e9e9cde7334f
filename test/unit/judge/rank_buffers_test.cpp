// SPDX-License-Identifier: Apache-2.0
// The oracle remembers the sides of right answers.
#include "core/judge/rank_buffers.hpp"

#include <cmath>
#include <cstring>

#include "core/judge/memory_probe.hpp"
#include "test/catch.hpp"

namespace {

constexpr int kFirst = fk::kCandidateSide + 1, kSecond = fk::kCandidateSide + 2;

fk::Contract copies() {
  return fk::Contract::parse(
      "op: copies\nrevision: 1\nsummary: out is x\naxes: {T: rows, C: width}\n"
      "forward:\n  - {name: x, role: in, shape: [T, C], dtype: float}\n"
      "  - {name: out, role: out, shape: [T, C], dtype: x}\n"
      "tolerance: {numerics: reduction, length: C}\ncases:\n  smoke:\n    - {T: 6, C: 64}\n",
      "copies.yaml", 1, "test");
}

// A set of buffers with one content, on which sides give answers that differ in their last bits.
struct BoundDesk {
  fk::Contract contract = copies();
  std::unique_ptr<fk::Device> device = fk::open_device("cpu");
  fk::ResolvedCase resolved = fk::resolve(contract, contract.cases[0], {});
  fk::RankBuffers buffers{*device, resolved, {}};
  fk::Tensor x;

  BoundDesk() {
    auto inputs = fk::make_inputs(resolved, 1, 1);
    x = inputs.at("x")[0];
    fk::CaseValues want;
    want["out"].push_back(x.to(fk::DType::f32));
    buffers.add(std::move(inputs), std::move(want));
    fk::SharedPlaces room;
    fk::CaseFrames::measure(*device, resolved, fk::case_layout({}, 0), room);
    buffers.place(1, room);
  }

  // A call of a side that adds `bits` to the last bits of the first element.
  fk::SetFinding call(int side, int bits) {
    buffers.deal(0, 0, fk::Poison::ones, false);
    std::vector<std::span<const std::byte>> memory;
    buffers.memory(0, memory);
    REQUIRE(memory.size() == 2);
    REQUIRE(memory[1].size() == static_cast<size_t>(x.bytes()));
    auto* const out = reinterpret_cast<float*>(const_cast<std::byte*>(memory[1].data()));
    std::memcpy(out, x.data(), memory[1].size());
    for (int i = 0; i < bits; ++i) out[0] = std::nextafter(out[0], HUGE_VALF);
    const auto ask = [](const fk::CaseValues&) { return fk::CaseValues(); };
    fk::SetFinding found = buffers.look(0, 0, side, true, ask);
    INFO(found.text);
    REQUIRE(found.ok);
    return found;
  }
};

}  // namespace

TEST_CASE("exam_desk_tells_a_side_from_itself_alone") {
  BoundDesk b;
  CHECK_FALSE(b.call(fk::kCandidateSide, 0).changed);
  CHECK(b.call(fk::kCandidateSide, 1).changed);
  CHECK_FALSE(b.call(kFirst, 2).changed);
  CHECK(b.call(kFirst, 3).changed);
  // Another baseline's first answer, which is not the one before's.
  CHECK_FALSE(b.call(kSecond, 4).changed);
  CHECK(b.call(kSecond, 3).changed);
  // Whose baseline calls does not make the candidate's known answers unknown.
  CHECK_FALSE(b.call(fk::kCandidateSide, 0).changed);
  CHECK(b.call(fk::kCandidateSide, 1).changed);
}

// A compared answer has an error. A known right answer is not compared again.
TEST_CASE("exam_desk_has_room_for_each_baseline") {
  BoundDesk b;
  for (int bits = 1; bits <= 3; ++bits) CHECK(b.call(kFirst, bits).worst > 0);
  CHECK(b.call(kFirst, 1).worst == 0);
  CHECK(b.call(kSecond, 4).worst > 0);
  CHECK(b.call(kSecond, 4).worst == 0);
}

// Outputs may be large, and one baseline sits at a time.
TEST_CASE("exam_desk_forgets_a_baseline_that_another_one_follows") {
  BoundDesk b;
  CHECK(b.call(fk::kCandidateSide, 1).worst > 0);
  CHECK(b.call(kFirst, 1).worst > 0);
  CHECK(b.call(kFirst, 1).worst == 0);
  CHECK(b.call(kSecond, 2).worst > 0);
  CHECK(b.call(kFirst, 1).worst > 0);
  CHECK(b.call(fk::kCandidateSide, 1).worst == 0);
}

TEST_CASE("peeks_see_what_is_written_behind_them") {
  BoundDesk b;
  b.buffers.deal(0, 0, fk::Poison::ones, false);
  std::random_device anywhere;
  const auto at = b.buffers.somewhere(0, fk::MemoryProbes::kBytes, anywhere);
  REQUIRE(at.size() == fk::MemoryProbes::kBytes);
  // Somewhere in what a call writes, and nowhere else.
  std::vector<std::span<const std::byte>> memory;
  b.buffers.memory(0, memory);
  CHECK(at.data() >= memory[1].data());
  CHECK(at.data() + at.size() <= memory[1].data() + memory[1].size());
  fk::MemoryProbes probes;
  CHECK_FALSE(probes.changed());  // of nothing
  probes.reserve(*b.device);
  probes.add(*b.device, memory[0].first(fk::MemoryProbes::kBytes));
  probes.add(*b.device, at);
  CHECK_FALSE(probes.changed());
  std::memcpy(const_cast<std::byte*>(memory[1].data()), b.x.data(), memory[1].size());
  CHECK(probes.changed());
  probes.clear();
  CHECK_FALSE(probes.changed());
}
