// SPDX-License-Identifier: Apache-2.0
// Ops of ranks on several machines, where providers carry by collectives what lies in symmetric
// buffers else, or refuse. If this fails, ranks of another machine get something else.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "core/cases/inputs.hpp"
#include "core/check/check.hpp"
#include "core/check/rank_oracle.hpp"
#include "test/catch.hpp"
#include "test/unit/comm/machines.hpp"

namespace {

using namespace fk;
using namespace fk::test;

// Rank 0 and every second one on the first machine, the others each on one of its own.
Machines::Places places(int size) {
  Machines::Places out(1);
  for (int r = 0; r < size; ++r) {
    if (r % 2 == 1) out.emplace_back();
    out[r % 2 == 1 ? out.size() - 1 : 0].push_back(r);
  }
  return out;
}

bool same_bits(const CaseValues& a, const CaseValues& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](auto& x, auto& y) {
           return x.first == y.first &&
                  std::equal(x.second.begin(), x.second.end(), y.second.begin(), y.second.end(),
                             [](const Tensor& t, const Tensor& u) {
                               return t.bytes() == u.bytes() &&
                                      std::memcmp(t.data(), u.data(),
                                                  static_cast<size_t>(t.bytes())) == 0;
                             });
         });
}

}  // namespace

TEST_CASE("providers have the same answers between machines as on one, or refuse") {
  const Catalog catalog{{REGISTRY}};
  Plugins plugins{catalog};
  plugins.load(REFERENCE, Trust::baseline);
  plugins.load(EMULATED, Trust::baseline);
  // The ops of the emulated kernels; the reference takes all.
  const std::set<std::string> taken = {"all_gather",  "all_gather_columns",
                                       "all_to_all",  "moe_dispatch",
                                       "moe_combine", "vocab_parallel_embedding"};
  CheckOptions options;
  options.plugins = &plugins;
  std::map<std::string, int> cases;
  for (const auto& op : catalog.ops()) {
    const Contract& contract = catalog.at(op);
    if (!contract.comm()) continue;
    for (const Case& source : contract.cases) {
      if (source.size == "full" || source.size == kRangeSize) continue;
      for (const Provider* provider : plugins.of(op)) {
        const bool kernels = provider->plugin != "reference";
        if (kernels && source.size != "smoke") continue;
        INFO(op << " " << source.size << " of " << provider->plugin << ", case "
                << cases[provider->plugin]++);
        const Variant variant;
        const ResolvedCase resolved = resolve(contract, source, variant);
        const auto contents = contents_of_ranks(resolved, 1, 1);
        std::string why;
        const auto want =
            references_of_ranks(*provider, resolved, source, variant, contents, options, why);
        REQUIRE(why == "");
        std::vector<CaseValues> got(contents.size());
        const Machines machines(places(static_cast<int>(contents.size())));
        const auto results = machines.run(30, [&](SharedCommunicator& comm) {
          const auto rank = static_cast<size_t>(comm.rank());
          Variant own = variant;
          own.comm = comm.table();
          std::string wrong;
          got[rank] =
              reference_outputs(*provider, resolved, source, own, contents[rank], options, wrong);
          return wrong;
        });
        for (size_t r = 0; r < results.size(); ++r) {
          INFO("rank " << r);
          if (kernels && taken.count(op) == 0) {
            CHECK_THAT(results[r].text, ContainsSubstring("ranks on one machine only"));
          } else {
            CHECK(results[r].text == "");
            CHECK(same_bits(got[r], want[r]));
          }
        }
      }
    }
  }
  CHECK(cases["reference"] > 30);
  CHECK(cases.size() == 2);
}
