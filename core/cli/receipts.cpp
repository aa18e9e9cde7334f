// SPDX-License-Identifier: Apache-2.0
// fk-host receipts [ID]: lists earlier verdicts, the newest first, or prints one again.
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

struct ReceiptsArguments {
  std::string id, json, output;
  int count = 20;
};

// The table's columns are for the search. The printed verdict is the signed one.
struct Listed {
  Store::Row row;
  std::string signed_by;  // "": this host
};

Listed listed(Store& store, Store::Row row) {
  const std::string own = store.signer() ? store.signer()->public_key() : "";
  std::string unverified;
  try {
    const Receipt r = read_receipt(store.receipt(row.id), "receipt " + row.id, unverified);
    row.time = r.verdict.time;
    row.candidate = r.verdict.candidate.name;
    row.status = name_of(r.verdict.status);
    row.device = r.verdict.device;
    const bool others = unverified.empty() && r.signed_by != own;
    return {row, !unverified.empty() ? "nobody" : others ? r.signed_by : ""};
  } catch (const Error& error) {
    row.status = "damaged";
    return {row, error.what()};
  }
}

int list(Store& store, const ReceiptsArguments& a, bool as_json) {
  std::vector<Listed> rows;
  for (auto& row : store.newest(a.count)) rows.push_back(listed(store, std::move(row)));
  const std::string own = store.signer() ? store.signer()->public_key() : "";
  if (as_json) {
    Json all = Json::array();
    for (const auto& [r, other] : rows)
      all.push_back({{"id", r.id},
                     {"time", r.time},
                     {"candidate", r.candidate},
                     {"status", r.status},
                     {"device", r.device},
                     {"key", r.key},
                     {"signed_by", other.empty() ? own : other}});
    print_json({{"schema", "fk-host.receipts/1"}, {"signed_by", own}, {"receipts", all}}, a.json);
    return kExitOk;
  }
  Table table({{"id"}, {"time"}, {"candidate"}, {"status"}, {"device"}, {""}});
  for (const auto& [r, other] : rows) {
    const auto status = status_of(r.status);
    table.row(
        {r.id, excerpt(r.time), excerpt(r.candidate, 80),
         Cell(r.status, !status || is_failure(*status) ? Style::bad : Style::plain),
         excerpt(r.device, 80),
         Cell(other.empty() || !status ? excerpt(other, 120) : "signed by " + other, Style::bad)});
  }
  std::printf("%s", table.text(colour_wanted(stdout), 0).c_str());
  if (!own.empty()) std::printf("signed by %s\n", own.c_str());
  return kExitOk;
}

int receipts(const ReceiptsArguments& a, bool as_json) {
  Store store = Store::open_default();
  if (!store.usable()) fail("store", "cannot be used: " + store.why());
  for (const auto& note : store.notes())
    std::fprintf(stderr, "fk-host: %s\n", excerpt(note, 1000).c_str());
  if (a.id.empty()) return list(store, a, as_json);
  const Json document = store.receipt(a.id);
  std::string unverified;
  const Receipt receipt = read_receipt(document, "receipt " + a.id, unverified);
  if (!unverified.empty())
    std::fprintf(stderr, "fk-host: not verified: %s\n", excerpt(unverified, 200).c_str());
  else if (!store.signer() || receipt.signed_by != store.signer()->public_key())
    std::fprintf(stderr, "fk-host: signed by %s, which is not the key of this host\n",
                 receipt.signed_by.c_str());
  if (!a.output.empty())
    print_json(document, a.output);
  else if (as_json)
    print_json(document, a.json);
  else
    std::printf("%s", verdict_text(receipt.verdict, colour_wanted(stdout)).c_str());
  return kExitOk;
}

std::function<int()> add_receipts(const Options& app) {
  auto a = std::make_shared<ReceiptsArguments>();
  app.add_option("ID", a->id, "of one receipt, or its first digits; default: a list");
  app.add_option("--count", a->count, "of the list (20)").positive();
  app.add_option("--output", a->output,
                 "write the receipt to a file, for fk-host replay elsewhere");
  const auto json =
      app.add_option("--json", a->json, "write JSON, to a file or to the standard output")
          .value_optional();
  return [a, json] { return receipts(*a, json.given()); };
}

FK_VERB(receipts, "earlier verdicts and their signed receipts", add_receipts);

}  // namespace
}  // namespace fk
