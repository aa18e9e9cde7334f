// SPDX-License-Identifier: Apache-2.0
// Which reference answers to a case of which size.
#include "core/cases/guarded.hpp"
#include "core/check/check.hpp"

#include "test/catch.hpp"

namespace {

const char* kProduct = R"yaml(op: product
revision: 1
summary: x times weight
axes: {M: rows, K: in, N: out}
init:
  - {name: in, type: int, axis: K}
  - {name: out, type: int, axis: N}
weights:
  - {name: weight, shape: [N, K], dtype: float}
forward:
  - {name: x, role: in, shape: [M, K], dtype: float}
  - {name: y, role: out, shape: [M, N], dtype: float}
cost: {flops: "2*M*N*K"}
tolerance: {numerics: reduction, length: K}
cases:
  smoke:
    - {M: 4, in: 64, out: 64}
  full:
    - {name: large, M: 64, in: 4096, out: 4096}
    - {name: huge, M: 8192, in: 4096, out: 4096}
)yaml";

struct Named {
  explicit Named(int32_t device) {
    claims.device_type = device;
    op.claims = &claims;
    provider.op = &op;
  }
  fk_claims claims{};
  fk_op op{};
  fk::Provider provider;
};

}  // namespace

TEST_CASE("oracle_is_the_reference_where_the_cpu_is_fast_enough") {
  const auto contract = fk::Contract::parse(kProduct, "product.yaml", 1, "test");
  const auto at = [&](size_t i) { return fk::resolve(contract, contract.cases[i], {}); };
  const Named cpu(FK_CPU), gpu(FK_CUDA), mine(FK_CUDA), other(FK_CPU);
  const fk::Oracles both{&cpu.provider, &gpu.provider};
  std::string why;
  CHECK(fk::oracle_of(both, mine.provider, at(0), why) == &cpu.provider);
  CHECK(fk::oracle_of(both, mine.provider, at(1), why) == &gpu.provider);
  CHECK(fk::oracle_of(both, mine.provider, at(2), why) == &gpu.provider);
  CHECK(fk::oracle_of({nullptr, &gpu.provider}, mine.provider, at(0), why) == &gpu.provider);
  // The oracle of the device is not its own judge.
  CHECK(fk::oracle_of(both, gpu.provider, at(1), why) == &cpu.provider);
  // A provider on the CPU has no use for one that wants a GPU.
  CHECK(fk::oracle_of(both, other.provider, at(2), why) == &cpu.provider);
  CHECK(why.empty());
  CHECK(fk::oracle_of(both, gpu.provider, at(2), why) == nullptr);
  CHECK(why.find("too large") != std::string::npos);
  CHECK(fk::oracle_of({}, mine.provider, at(0), why) == nullptr);
  CHECK(why.find("no reference") != std::string::npos);
}

TEST_CASE("oracle_leaves_out_on_the_cpu_what_is_for_gpus") {
  const auto contract = fk::Contract::parse(kProduct, "product.yaml", 1, "test");
  CHECK(fk::too_large_for_cpu(fk::resolve(contract, contract.cases[0], {})).empty());
  CHECK(!fk::too_large_for_cpu(fk::resolve(contract, contract.cases[2], {})).empty());
}

TEST_CASE("fingerprint_sees_every_byte") {
  std::vector<std::byte> memory(101, std::byte{7});
  const uint64_t before = fk::fingerprint(memory);
  for (size_t i = 0; i < memory.size(); ++i) {
    memory[i] ^= std::byte{1};
    CHECK(fk::fingerprint(memory) != before);
    memory[i] ^= std::byte{1};
  }
  CHECK(fk::fingerprint(memory) == before);
  memory.pop_back();
  CHECK(fk::fingerprint(memory) != before);
  // Blocks that change places.
  std::vector<std::byte> blocks(64, std::byte{1}), swapped(64, std::byte{1});
  blocks[0] = swapped[32] = std::byte{2};
  CHECK(fk::fingerprint(blocks) != fk::fingerprint(swapped));
}
