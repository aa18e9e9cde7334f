// SPDX-License-Identifier: Apache-2.0
// fk-host receipts [ID]: lists or exports earlier verdicts, the newest first, or prints one again.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/contract/contract.hpp"
#include "core/report/document.hpp"
#include "core/report/export.hpp"
#include "core/report/table.hpp"
#include "core/report/verdict_text.hpp"
#include "core/store/store.hpp"

namespace fk {
namespace {

constexpr int kListed = 20;
const char* const kDamaged = "damaged";

struct ReceiptsArguments {
  std::string id, output, op, since, format = "text";
  JsonOutput json;
  Store::Search search;
  int count = 0;  // 0: the default of the format
};

struct ReceiptRow {
  Store::Row row;
  std::vector<std::string> ops;
  Ratio ratio;  // value 0: it was not timed
  std::vector<std::string> baselines;
  std::string signed_by;
};
template <class Visitor>
void fields(Visitor& v, ReceiptRow& r) {
  const bool timed = r.ratio.value > 0;
  v("id", r.row.id, "the id");
  v("time", r.row.time, "begin of the judgement, UTC");
  v("candidate", r.row.candidate, "the candidate's name");
  v("ops", r.ops, "the judged ops");
  v("status", r.row.status, "the status of the verdict, or `damaged`");
  v.optional("speedup", r.ratio.value, timed, "the baseline's time over the candidate's");
  v.optional("speedup_low", r.ratio.low, timed, "lower end of its 99 % interval");
  v.optional("speedup_high", r.ratio.high, timed, "upper end");
  v("baselines", r.baselines, "the baselines of the race; empty: there was none");
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
FK_DOCUMENT(receipt, Receipt);

// The table's columns are for the search. The printed verdict is the signed one.
ReceiptRow read_row(Store::Row row, const std::string& text) {
  std::string unverified;
  try {
    const std::string name = "receipt " + row.id;
    const Receipt r = read_receipt(parse_json(text, name), name, unverified);
    row.time = r.verdict.time;
    row.candidate = r.verdict.candidate.name;
    row.status = name_of(r.verdict.status);
    row.device = r.verdict.device;
    ReceiptRow out{std::move(row), ops_of(r.verdict), r.verdict.aggregate.ratio, {}, r.signed_by};
    for (const auto& baseline : r.verdict.baselines) out.baselines.push_back(baseline.name);
    if (!unverified.empty()) out.signed_by = "nobody";
    return out;
  } catch (const Error& error) {
    row.status = kDamaged;
    return {std::move(row), {}, {}, {}, error.what()};
  }
}

std::vector<ReceiptRow> found(Store& store, const ReceiptsArguments& a) {
  const bool all = a.count == 0 && a.format != "text";
  const size_t most = a.count ? static_cast<size_t>(a.count) : kListed;
  Store::Search search = a.search;
  if (search.status == kDamaged) search.status.clear();  // the store's column has another status
  std::vector<ReceiptRow> out;
  store.each(search, [&](const Store::Row& row, const std::string& text) {
    ReceiptRow one = read_row(row, text);
    const bool wanted = (a.op.empty() || contains(one.ops, a.op)) &&
                        (a.search.status.empty() || one.row.status == a.search.status);
    if (wanted) out.push_back(std::move(one));
    return all || out.size() < most;
  });
  return out;
}

std::string decimal(double value) { return value > 0 ? fmt::format("{:.6g}", value) : ""; }

// For other programs: all columns, in full.
std::string exported(const std::vector<ReceiptRow>& rows, const std::string& format) {
  std::string lines;
  if (format == "jsonl") {
    for (const auto& row : rows)
      lines += to_fields(row).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    return lines;
  }
  const TextRow headings = {"id",        "time",    "candidate",   "ops",
                            "status",    "speedup", "speedup_low", "speedup_high",
                            "baselines", "device",  "key",         "signed_by"};
  std::vector<TextRow> cells;
  for (const auto& r : rows)
    cells.push_back({r.row.id, r.row.time, r.row.candidate, join(r.ops, " "), r.row.status,
                     decimal(r.ratio.value), decimal(r.ratio.low), decimal(r.ratio.high),
                     join(r.baselines, " "), r.row.device, r.row.key, r.signed_by});
  return format == "csv" ? csv_text(headings, cells) : markdown_text(headings, cells);
}

void print_receipts(const std::vector<ReceiptRow>& rows, const std::string& own) {
  Table table({{"id"},
               {"time"},
               {"op"},
               {"candidate"},
               {"status"},
               {"x baseline (99 %)", Align::right},
               {"device"},
               {""}});
  for (const auto& r : rows) {
    const auto status = status_of(r.row.status);
    const bool other = r.signed_by != own;
    table.row({r.row.id, excerpt(r.row.time), excerpt(join(r.ops, ", "), 40),
               excerpt(r.row.candidate, 80),
               Cell(r.row.status, !status || is_failure(*status) ? Style::bad : Style::plain),
               ratio_text(r.ratio), excerpt(r.row.device, 80),
               Cell(!status ? excerpt(r.signed_by, 120)
                    : other ? "signed by " + r.signed_by
                            : "",
                    Style::bad)});
  }
  std::printf("%s", table.text(colour_wanted(stdout), 0).c_str());
  if (!own.empty()) print_report("signed by " + own + "\n");
}

int list_receipts(Store& store, const ReceiptsArguments& a) {
  const std::vector<ReceiptRow> rows = found(store, a);
  const std::string own = store.signer() ? store.signer()->public_key() : "";
  if (a.json.given()) a.json.write(document(ReceiptsDocument{own, rows}));
  if (!a.output.empty())
    write_file_atomic(a.output, exported(rows, a.format));
  else if (a.json.with_report() && a.format == "text")
    print_receipts(rows, own);
  else if (a.json.with_report())
    std::fputs(exported(rows, a.format).c_str(), stdout);
  return kExitOk;
}

// "2026-11-27", the text of a verdict, or a time before now: 90m, 12h, 7d.
std::string time_of(const std::string& text) {
  static const std::map<char, double> units = {{'m', 60}, {'h', 3600}, {'d', 86400}};
  const bool starts = !text.empty() && std::isdigit(static_cast<unsigned char>(text[0]));
  char* end = nullptr;
  const double number = starts ? std::strtod(text.c_str(), &end) : 0;
  if (starts && end + 1 == text.c_str() + text.size() && units.contains(*end))
    return fmt::format(
        "{:%Y-%m-%dT%H:%M:%SZ}",
        fmt::gmtime(std::time(nullptr) - static_cast<std::time_t>(number * units.at(*end))));
  const auto digit = [&](size_t at) { return std::isdigit(static_cast<unsigned char>(text[at])); };
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:ddZ";
  bool good = text.size() == 10 || text.size() == 16 || text.size() == 19 || text.size() == 20;
  for (size_t i = 0; good && i < text.size(); ++i)
    good = kForm[i] == 'd' ? digit(i) : text[i] == kForm[i] || (kForm[i] == 'T' && text[i] == ' ');
  if (!good)
    fail("--since", "`" + excerpt(text) + "` is no time",
         "2026-11-27, 2026-11-27T14:05 (UTC), or before now: 90m, 12h, 7d");
  std::string out = text;
  if (out.size() > 10) out[10] = 'T';
  return out;
}

void check_list(ReceiptsArguments& a) {
  static const std::vector<std::string> formats = {"text", "csv", "jsonl", "markdown"};
  need_known({a.format}, formats, "--format", "format");
  std::vector<std::string> known = {kDamaged};
  for (const auto& status : statuses()) known.emplace_back(status.name);
  if (!a.search.status.empty()) need_known({a.search.status}, known, "--status", "status");
  if (!a.op.empty()) a.op = Catalog(paths::registry_dirs()).at(a.op).op;
  if (!a.since.empty()) a.search.since = time_of(a.since);
  if (!a.output.empty() && a.format == "text")
    fail("--output", "a list has no text for a file", "--format csv, jsonl or markdown");
}

void check_one(const ReceiptsArguments& a) {
  if (!a.op.empty() || !a.since.empty() || !a.search.status.empty() ||
      !a.search.candidate.empty() || a.format != "text")
    fail("receipts", "--op, --status, --candidate, --since and --format are for the list",
         "leave out the ID");
}

int receipts(ReceiptsArguments& a) {
  a.json.open();
  if (!a.output.empty()) need_writable(a.output);
  if (a.id.empty())
    check_list(a);
  else
    check_one(a);
  Store store = Store::open_default();
  if (!store.usable()) fail("store", "cannot be used: " + store.why());
  for (const auto& note : store.notes())
    std::fprintf(stderr, "fk-host: %s\n", excerpt(note, 1000).c_str());
  if (a.id.empty()) return list_receipts(store, a);
  const Json document = store.receipt(a.id);
  std::string unverified;
  const Receipt receipt = read_receipt(document, "receipt " + a.id, unverified);
  if (!unverified.empty())
    std::fprintf(stderr, "fk-host: not verified: %s\n", excerpt(unverified, 200).c_str());
  else if (!store.signer() || receipt.signed_by != store.signer()->public_key())
    std::fprintf(stderr, "fk-host: signed by %s, which is not the key of this host\n",
                 receipt.signed_by.c_str());
  if (a.json.given()) a.json.write(document);
  if (!a.output.empty())
    print_json(document, a.output);
  else if (a.json.with_report())
    std::printf("%s", verdict_text(receipt.verdict, colour_wanted(stdout)).c_str());
  return kExitOk;
}

std::function<int()> add_receipts(const Options& app) {
  auto a = std::make_shared<ReceiptsArguments>();
  app.add_option("ID", a->id, "of one receipt, or its first digits; default: a list");
  app.add_option("--count", a->count, "of the list; default: 20, of an export all").positive();
  app.add_option("--op", a->op, "of the list, only verdicts on this op");
  app.add_option("--status", a->search.status, "of the list, only this status, or damaged");
  app.add_option("--candidate", a->search.candidate, "of the list, only candidates of this name");
  app.add_option("--since", a->since,
                 "of the list, only later verdicts: 2026-11-27, 2026-11-27T14:05 (UTC), 12h, 7d");
  app.add_option("--format", a->format, "of the list: text, csv, jsonl (JSON lines) or markdown");
  app.add_option("--output", a->output,
                 "write a receipt to a file, for fk-host replay elsewhere; or a list");
  a->json.declare(app);
  return [a] { return receipts(*a); };
}

FK_VERB(receipts, "earlier verdicts and their signed receipts", add_receipts);

}  // namespace
}  // namespace fk
