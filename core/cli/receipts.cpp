// SPDX-License-Identifier: Apache-2.0
// fk-host receipts [ID]: verdicts that were given, the newest first, or one of them again.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/report/table.hpp"
#include "core/report/verdict_text.hpp"
#include "core/store/store.hpp"

namespace fk {
namespace {

struct Arguments {
  std::string id, json, output;
  int count = 20;
};

int list(Store& store, const Arguments& a, bool as_json) {
  const auto rows = store.newest(a.count);
  if (as_json) {
    Json all = Json::array();
    for (const auto& r : rows)
      all.push_back({{"id", r.id},
                     {"time", r.time},
                     {"candidate", r.candidate},
                     {"status", r.status},
                     {"device", r.device},
                     {"key", r.key}});
    print_json({{"schema", "fk-host.receipts/1"},
                {"signed_by", store.signer() ? store.signer()->public_key() : ""},
                {"receipts", all}},
               a.json);
    return kExitOk;
  }
  Table table({{"id"}, {"time"}, {"candidate"}, {"status"}, {"device"}});
  for (const auto& r : rows) {
    const auto status = status_of(r.status);
    table.row({r.id, r.time, r.candidate,
               Cell(r.status, !status || is_failure(*status) ? Style::bad : Style::plain),
               r.device});
  }
  std::printf("%s", table.text(colour_wanted(stdout), 0).c_str());
  if (store.signer()) std::printf("signed by %s\n", store.signer()->public_key().c_str());
  return kExitOk;
}

int receipts(const Arguments& a, bool as_json) {
  Store store = Store::open_default();
  if (!store.usable()) fail("store", "cannot be used: " + store.why());
  for (const auto& note : store.notes()) std::fprintf(stderr, "fk-host: %s\n", excerpt(note, 1000).c_str());
  if (a.id.empty()) return list(store, a, as_json);
  const Json document = store.receipt(a.id);
  std::string unverified;
  const Receipt receipt = read_receipt(document, "receipt " + a.id, unverified);
  if (!unverified.empty()) std::fprintf(stderr, "fk-host: not verified: %s\n", excerpt(unverified, 200).c_str());
  if (!a.output.empty())
    print_json(document, a.output);
  else if (as_json)
    print_json(document, a.json);
  else
    std::printf("%s", verdict_text(receipt.verdict, colour_wanted(stdout)).c_str());
  return kExitOk;
}

std::function<int()> add(const Options& app) {
  auto a = std::make_shared<Arguments>();
  app.add_option("ID", a->id, "of one receipt, or its first digits; default: a list");
  app.add_option("--count", a->count, "of the list (20)").positive();
  app.add_option("--output", a->output,
                 "write the receipt to a file, for fk-host replay elsewhere");
  const auto json =
      app.add_option("--json", a->json, "write JSON, to a file or to the standard output")
          .value_optional();
  return [a, json] { return receipts(*a, json.given()); };
}

FK_VERB(receipts, "verdicts that were given, and their signed receipts", add);

}  // namespace
}  // namespace fk
