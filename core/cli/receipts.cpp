// SPDX-License-Identifier: Apache-2.0
// fk-host receipts [ID]: lists earlier verdicts, the newest first, or prints one again.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/report/document.hpp"
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

struct ReceiptRow {
  Store::Row row;
  std::string signed_by;
};
template <class Visitor>
void fields(Visitor& v, ReceiptRow& r) {
  v("id", r.row.id, "the id");
  v("time", r.row.time, "begin of the judgement, UTC");
  v("candidate", r.row.candidate, "the candidate's name");
  v("status", r.row.status, "the status of the verdict, or `damaged`");
  v("device", r.row.device, "the device");
  v("key", r.row.key, "SHA-256 of all that the verdict depends on");
  v("signed_by", r.signed_by, "the public key; `nobody`; or what is wrong with the receipt");
}
struct ReceiptsDocument {
  static constexpr const char* kSchema = "fk-host.receipts/1";
  static constexpr const char* kTitle = "The receipts of earlier verdicts";
  std::string signed_by;
  std::vector<ReceiptRow> receipts;
};
template <class Visitor>
void fields(Visitor& v, ReceiptsDocument& d) {
  v("signed_by", d.signed_by, "the public key of this host; empty: it signs nothing");
  v("receipts", d.receipts, "the newest first");
}
FK_DOCUMENT(receipts, ReceiptsDocument);

int list(Store& store, const ReceiptsArguments& a, bool as_json) {
  std::vector<Listed> rows;
  for (auto& row : store.newest(a.count)) rows.push_back(listed(store, std::move(row)));
  const std::string own = store.signer() ? store.signer()->public_key() : "";
  if (as_json) {
    ReceiptsDocument out{own, {}};
    for (const auto& [r, other] : rows) out.receipts.push_back({r, other.empty() ? own : other});
    print_json(document(out), a.json);
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
