// SPDX-License-Identifier: Apache-2.0
// A folder of recorded cases must not make kernels read or write where nothing is.
#include "core/cases/recorded_bounds.hpp"

#include "core/base/error.hpp"
#include "test/catch.hpp"
#include "test/unit/catalog.hpp"

namespace {

using fk::DType;
using fk::Shape;

// A smoke case of an op as if what its generators make had been recorded, but for one number.
std::string why(const std::string& op, size_t number, const std::string& field = "", int64_t at = 0,
                double value = 0) {
  const fk::Contract& contract = catalog().at(op);
  const fk::Case& source = contract.cases.at(number);
  auto resolved = fk::resolve(contract, source, {});
  auto values = fk::make_forward_inputs(resolved, 3, 1, fk::Family::ordinary);
  if (!field.empty()) values.at(field).at(0).set(at, value);
  resolved.contents = std::make_shared<std::map<std::string, std::vector<fk::Tensor>>>(values);
  // As recorded cases have it: generators that this case has in place of the contract's do not
  // hold.
  for (auto& f : resolved.fields) f.values = f.slot->values;
  try {
    fk::check_bounds(resolved, "here");
  } catch (const fk::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what the generators of any op make is within the bounds of what may be recorded") {
  for (const auto& op : catalog().ops()) {
    const fk::Contract& contract = catalog().at(op);
    for (size_t i = 0; i < contract.cases.size(); ++i) {
      if (contract.cases[i].size != "smoke" || contract.comm()) continue;
      const std::string found = why(op, i);
      if (found.find("nothing tells which numbers") != found.npos) continue;
      CAPTURE(op, contract.cases[i].name);
      CHECK(found.empty());
    }
  }
}

TEST_CASE("recorded numbers that would lead a kernel elsewhere are refused") {
  const struct {
    const char *op, *field;
    int64_t at;
    double value;
    const char* what;
  } all[] = {
      {"moe_align", "topk_ids", 1, 1 << 20, "is not within 0 and"},
      {"ms_deform_attn", "spatial_shapes", 0, 1 << 20, "is not within 0 and"},
      {"ms_deform_attn", "spatial_shapes", 0, -1, "is not within 0 and"},
      {"ms_deform_attn", "level_start_index", 1, 1 << 20, "is not within 0 and"},
      {"ms_deform_attn", "level_start_index", 0, 83, "a level ends behind all values"},
      {"moe_align", "topk_ids", 1, -1, "is not within 0 and"},
      {"embedding", "ids", 0, 1 << 30, "is not within 0 and"},
      {"embedding", "ids", 0, -1, "is not within 0 and"},
      {"kv_cache_append", "slot_mapping", 0, -2, "is not within -1 and"},
      {"kv_cache_append", "slot_mapping", 0, 1 << 30, "is not within -1 and"},
      {"paged_attention", "block_tables", 0, -1, "is not within 0 and"},
      {"paged_attention", "cu_seqlens", 0, 1, "do not rise from 0"},
      {"paged_attention", "cu_seqlens", 1, 1 << 20, "is not within 0 and"},
      {"paged_attention", "seq_lens", 0, 1 << 20, "is not within 0 and"},
      {"paged_attention", "seq_lens", 0, 0, "shorter than its query"},
      {"moe_grouped_gemm", "row_ids", 0, 1 << 20, "is not within 0 and"},
      {"moe_grouped_gemm", "expert_offsets", 0, 1, "do not rise from 0"},
      {"moe_grouped_gemm", "expert_offsets", 1, 1 << 20, "is not within 0 and"},
      {"rotary_embedding", "positions", 0, 1 << 20, "is not within 0 and"},
      {"self_attention", "positions", 0, 1 << 20, "is not within 0 and"},
      {"self_attention", "slot_mapping", 0, 1 << 20, "is not within -1 and"},
  };
  for (const auto& one : all) {
    CAPTURE(one.op, one.field, one.value);
    const std::string found = why(one.op, 0, one.field, one.at, one.value);
    CHECK_THAT(found, ContainsSubstring(one.what));
    CHECK_THAT(found, ContainsSubstring("here"));
    CHECK_THAT(found, ContainsSubstring(one.field));
  }
}
