// SPDX-License-Identifier: Apache-2.0
#include "core/cases/numerics/unread.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/paths.hpp"
#include "core/cases/numerics/families.hpp"
#include "core/tensor/compare.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

// For each element 0 if it is as in the ordinary contents, else its new form.
enum { kKept = 0, kNumber = 1, kNone = 2 };

struct Spoiled {
  ResolvedCase resolved;
  CaseValues before, after;

  Spoiled(const Catalog& catalog, const std::string& op, const std::string& name, uint64_t seed) {
    const Contract& contract = catalog.at(op);
    const auto source = std::ranges::find_if(
        contract.cases, [&](const Case& c) { return c.size == "smoke" && c.name == name; });
    REQUIRE(source != contract.cases.end());
    resolved = resolve(contract, *source, {});
    before = make_inputs(resolved, seed, 1);
    after = make_inputs(resolved, seed, 1, Family::unread);
  }

  // The new form of all elements of a slot of `field`, which has `slots` of them.
  int64_t of(const std::string& field, int64_t slots, int64_t slot) const {
    const Tensor &a = before.at(field)[0], &b = after.at(field)[0];
    const int64_t width = a.numel() / slots;
    std::set<int64_t> all;
    for (int64_t i = slot * width; i < (slot + 1) * width; ++i)
      all.insert(a.at(i) == b.at(i) ? kKept : std::isfinite(b.at(i)) ? kNumber : kNone);
    CHECK(all.size() == 1);
    return *all.begin();
  }
  int64_t whole(const std::string& field, int64_t i) const {
    return static_cast<int64_t>(after.at(field)[0].at(i));
  }
};

}  // namespace

TEST_CASE("of a cache what no request reads is spoiled, with numbers in pages that one has") {
  const Catalog catalog(paths::registry_dirs());
  std::set<int64_t> seen;
  for (uint64_t seed = 1; seed < 9; ++seed) {
    for (const auto& [op, field] :
         {std::pair("paged_attention", "v_cache"), std::pair("decoder_layer", "k_cache"),
          std::pair("mla_attention", "kv_cache")}) {
      const Spoiled made(catalog, op, "smoke0", seed);
      const Tensor &cache = made.after.at(field)[0], &table = made.after.at("block_tables")[0],
                   &lengths = made.after.at("seq_lens")[0];
      const int64_t page = cache.shape[1], slots = cache.shape[0] * page;
      std::vector<int64_t> want(static_cast<size_t>(slots), kNone);
      for (const int64_t what : {int64_t{kNumber}, int64_t{kKept}})
        for (int64_t b = 0; b < table.shape[0]; ++b)
          for (int64_t at = 0; at < table.shape[1] * page; ++at)
            if (what == kNumber || static_cast<double>(at) < lengths.at(b))
              want[static_cast<size_t>(
                  made.whole("block_tables", b * table.shape[1] + at / page) * page + at % page)] =
                  what;
      for (int64_t slot = 0; slot < slots; ++slot) {
        INFO(op << ", seed " << seed << ", slot " << slot);
        CHECK(made.of(field, slots, slot) == want[static_cast<size_t>(slot)]);
        seen.insert(want[static_cast<size_t>(slot)]);
      }
    }
  }
  CHECK(seen.size() == 3);
}

TEST_CASE("a state is spoiled where no request has it, and where one begins without it") {
  const Catalog catalog(paths::registry_dirs());
  std::set<int64_t> seen;
  int fresh = 0, idle = 0;
  for (uint64_t seed = 1; seed < 30; ++seed) {
    for (const auto& [op, field] :
         {std::pair("ssd_chunk_scan", "ssm_state"), std::pair("mamba_mixer2", "conv_state")}) {
      const Spoiled made(catalog, op, "idle", seed);
      const int64_t slots = made.after.at(field)[0].shape[0];
      std::vector<int64_t> want(static_cast<size_t>(slots), kNone);
      for (int64_t b = 0; b < made.after.at("state_slots")[0].numel(); ++b) {
        const bool tokens = made.whole("cu_seqlens", b) < made.whole("cu_seqlens", b + 1);
        const bool begins = made.whole("has_initial_state", b) == 0;
        fresh += tokens && begins, idle += !tokens && begins;
        if (!tokens || !begins) want[static_cast<size_t>(made.whole("state_slots", b))] = kKept;
      }
      for (int64_t slot = 0; slot < slots; ++slot) {
        INFO(op << ", seed " << seed << ", slot " << slot);
        CHECK(made.of(field, slots, slot) == want[static_cast<size_t>(slot)]);
        seen.insert(want[static_cast<size_t>(slot)]);
      }
    }
  }
  CHECK((fresh > 10 && idle > 10));
  CHECK(seen.size() == 2);
  // Without the field all requests go on, as in decode.
  const Spoiled decode(catalog, "mamba_mixer2", "decode", 1);
  for (int64_t b = 0; b < decode.after.at("state_slots")[0].numel(); ++b)
    CHECK(decode.of("ssm_state", decode.after.at("ssm_state")[0].shape[0],
                    decode.whole("state_slots", b)) == kKept);
}

TEST_CASE("what is spoiled differs by seed, is within its dtype, and is of caches alone") {
  const Catalog catalog(paths::registry_dirs());
  const Contract& contract = catalog.at("paged_attention");
  Variant half;
  half.dtypes = {{"q", DType::f16}, {"k_cache", DType::f16}};
  const ResolvedCase resolved = resolve(contract, contract.cases[0], half);
  CHECK(family_unfit(resolved, Family::unread).empty());
  const CaseValues before = make_inputs(resolved, 3, 1),
                   after = make_inputs(resolved, 3, 1, Family::unread);
  CHECK(fk::compare(before.at("q")[0], after.at("q")[0], 0).identical());
  std::set<int> kinds;
  for (int64_t i = 0; i < after.at("v_cache")[0].numel(); ++i) {
    const double v = after.at("v_cache")[0].at(i);
    kinds.insert(std::isnan(v) ? 0 : std::isinf(v) ? (v > 0 ? 1 : 2) : std::abs(v) > 1e4 ? 3 : 4);
  }
  CHECK(kinds.size() == 5);
  const Contract& other = catalog.at("rms_norm");
  CHECK_FALSE(family_unfit(resolve(other, other.cases[0], {}), Family::unread).empty());
  // That of a state which is written back says nothing of an overflow.
  CHECK(family_meaningless(resolved, Family::unread, {{"out", {before.at("q")[0]}}}).empty());
}
