// SPDX-License-Identifier: Apache-2.0
// The oracle's contents in a case run, with the shipped reference.
#include <fcntl.h>

#include <algorithm>

#include "core/judge/candidate_server.hpp"
#include "test/catch.hpp"

namespace {

struct Asked {
  explicit Asked(const char* op, int contents, double seconds = 20) : contract(catalog.at(op)) {
    plugins.load(PLUGINS "/reference.so", fk::Trust::baseline);
    const auto source = std::find_if(contract.cases.begin(), contract.cases.end(),
                                     [](const fk::Case& c) { return c.size == "smoke"; });
    asked.op = op;
    asked.name = source->name;
    asked.size = "smoke";
    options.devices = {device.get()};
    options.watch_of = [&](fk::Device&) -> fk::Stopwatch& { return *watch; };
    options.plugins = &plugins;
    options.contents_max = contents;
    options.call_s = 1e-5;
    options.seconds = options.families_s = seconds;
    case_run.emplace(contract, asked, fk::pose(asked, contract, &catalog), 7, options);
    REQUIRE(case_run->unjudged().empty());
    const int read = ::fcntl(case_run->fds()[0], F_DUPFD_CLOEXEC, 0);
    const int written = ::fcntl(case_run->fds()[1], F_DUPFD_CLOEXEC, 0);
    const int64_t bytes = case_run->shape().read_bytes;
    seen = {device->open_shared(read, bytes, fk::Device::Sharing::read), -1};
    side.emplace(*plugins.of(op).at(0), plugins, *device, *watch, case_run->shape(), read, written,
                 1, nullptr);
  }
  ~Asked() { device->close_shared(seen.data, case_run->shape().read_bytes); }
  // The bytes a call may read when the content lies in a set of its version.
  std::vector<std::byte> dealt(int content) {
    case_run->deal({set_of(content)}, {content}, fk::Poison::ones, false);
    const auto* at = static_cast<const std::byte*>(seen.data);
    return {at, at + case_run->shape().read_bytes};
  }
  int set_of(int content) const { return content % case_run->versions(); }
  fk::SetFinding look(int set) {
    return case_run->look({set}, fk::kCandidateSide, true, [] {}).at(0);
  }

  fk::Catalog catalog{{REGISTRY}};
  const fk::Contract& contract;
  fk::Plugins plugins{catalog};
  std::unique_ptr<fk::Device> device = fk::open_device("cpu");
  std::unique_ptr<fk::Stopwatch> watch = device->stopwatch();
  fk::AskedCase asked;
  fk::CaseRunOptions options;
  std::optional<fk::OracleServer> case_run;
  std::optional<fk::CandidateServer> side;
  fk::Device::Shared seen;
};

}  // namespace

// A candidate that keeps answers must not have those to what it is asked in another race.
TEST_CASE("oracle_server_renews_what_nobody_may_have_seen") {
  for (const char* op : {"silu_and_mul", "linear"}) {
    INFO(op);
    Asked a(op, 40);
    const int all = static_cast<int>(a.case_run->contents()),
              kept = all - 2 * a.case_run->versions();
    std::vector<std::vector<std::byte>> before;
    for (int i = 0; i < all; ++i) before.push_back(a.dealt(i));
    a.case_run->renew(static_cast<size_t>(kept), 8, [] {});
    for (int i = 0; i < all; ++i) {
      INFO(i);
      CHECK((a.dealt(i) == before[static_cast<size_t>(i)]) == (i < kept));
      CHECK_FALSE(a.look(a.set_of(i)).ok);  // nobody has called
      a.dealt(i);
      a.side->run(a.set_of(i), 1);
      const fk::SetFinding found = a.look(a.set_of(i));
      INFO(found.text);
      CHECK(found.ok);
    }
    const auto once = a.dealt(kept);
    a.case_run->renew(static_cast<size_t>(kept), 9, [] {});
    CHECK(a.dealt(kept) != once);
  }
}

// However long answers take, there is one that is called once, and ordinary, as those that count.
TEST_CASE("oracle_server_keeps_a_content_where_there_is_no_time") {
  for (const char* op : {"silu_and_mul", "linear"}) {
    INFO(op);
    const Asked a(op, 40, 0);
    const size_t all = a.case_run->contents(),
                 versions = static_cast<size_t>(a.case_run->versions());
    REQUIRE(all == 3 * versions);
    for (size_t i = 0; i < all; ++i) {
      const bool ordinary = std::string(a.case_run->family(i)) == "ordinary";
      CHECK(ordinary == (i < versions || i >= 2 * versions));
    }
  }
}
