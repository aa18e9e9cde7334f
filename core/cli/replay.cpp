// SPDX-License-Identifier: Apache-2.0
// fk-host replay RECEIPT: checks the signature and the files, and judges again with the same seeds.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/cli/judged.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/report/document.hpp"
#include "core/report/table.hpp"
#include "core/report/verdict_documents.hpp"
#include "core/report/verdict_text.hpp"
#include "core/store/replay.hpp"
#include "core/store/store.hpp"

namespace fk {

template <class Visitor>
void fields(Visitor& v, Deviation& d) {
  v("what", d.what, "what differs");
  v("was", d.was, "then");
  v("now", d.now, "now");
  v("matters", d.matters, "false: to be expected, or of no consequence");
}

namespace {

namespace fs = std::filesystem;

struct ReplayArguments {
  std::string receipt, plugin, key, device;
  JsonOutput json;
};

struct Replay {
  Receipt receipt;
  std::string unverified;
  bool own_key = false;
  std::vector<Deviation> key, verdict;
  Verdict now;
  bool reproduced() const {
    return std::none_of(verdict.begin(), verdict.end(), [](const auto& d) { return d.matters; });
  }
};

// From a file, or from the store by the receipt's id.
Receipt load(const ReplayArguments& a, Store& store, std::string& unverified) {
  std::error_code none;
  const bool file = a.receipt.find('/') != std::string::npos || fs::exists(a.receipt, none);
  if (file) return read_receipt(load_json(a.receipt), a.receipt, unverified);
  return read_receipt(store.receipt(a.receipt), "receipt " + a.receipt, unverified);
}

// The judged file: at --plugin's place, at its old place, or beside the receipt.
fs::path candidate_of(const ReplayArguments& a, const Verdict& verdict) {
  std::vector<fs::path> places = {verdict.candidate.path};
  if (!a.plugin.empty())
    places = {a.plugin};
  else
    places.push_back(fs::path(a.receipt).parent_path() /
                     fs::path(verdict.candidate.path).filename());
  std::string seen;
  for (const auto& place : places) {
    std::error_code none;
    if (!fs::is_regular_file(place, none)) {
      seen += (seen.empty() ? "" : "; ") + place.string() + " is not there";
      continue;
    }
    if (sha256_file(place) == verdict.candidate.sha256) return place;
    seen += (seen.empty() ? "" : "; ") + place.string() + " is another file";
  }
  fail("replay", "the plugin with SHA-256 " + verdict.candidate.sha256 + " was not found: " + seen,
       "--plugin says where it is");
}

// "cpu" for "cpu Intel ...", "cuda:0" for "cuda:0 among ...".
std::string device_word(const VerdictKey& key) {
  for (const auto& [name, value] : key.parts)
    if (name == "device") return value.substr(0, value.find(' '));
  return "cpu";
}

struct ReplayDocument {
  static constexpr const char* kSchema = "fk-host.replay/1";
  static constexpr const char* kTitle = "A verdict that `fk-host replay` has repeated";
  std::string receipt, signed_by;
  bool verified = false;
  std::string unverified;
  bool own_key = false, reproduced = false;
  std::vector<Deviation> depends_on, differences;
  InnerVerdict was, now;
};
template <class Visitor>
void fields(Visitor& v, ReplayDocument& d) {
  v("receipt", d.receipt, "the id of the receipt");
  v("signed_by", d.signed_by, "its public key; empty: nobody signed it");
  v("verified", d.verified, "whether the signature was verified");
  v("unverified", d.unverified, "why it was not");
  v("own_key", d.own_key, "whether it is this host's key");
  v("reproduced", d.reproduced, "whether the verdict was reproduced");
  v("depends_on", d.depends_on, "what the verdict depends on and has changed since");
  v("differences", d.differences, "what the verdicts say differently");
  v("was", d.was, "the verdict of the receipt");
  v("now", d.now, "the verdict of today");
}
FK_DOCUMENT(replay, ReplayDocument);

Json replay_json(const Replay& r) {
  return document(ReplayDocument{.receipt = r.receipt.verdict.receipt,
                                 .signed_by = r.receipt.signed_by,
                                 .verified = r.unverified.empty(),
                                 .unverified = r.unverified,
                                 .own_key = r.own_key,
                                 .reproduced = r.reproduced(),
                                 .depends_on = r.key,
                                 .differences = r.verdict,
                                 .was = {r.receipt.verdict},
                                 .now = {r.now}});
}

void print(const Replay& r, bool colour) {
  const Receipt& receipt = r.receipt;
  std::printf("%s\n", verdict_text(r.now, colour).c_str());
  if (!r.unverified.empty())
    print_report(styled("not verified: " + excerpt(r.unverified, 200), Style::bad, colour) + "\n");
  else
    print_report("signed by " + receipt.signed_by +
                 (r.own_key ? ", the key of this host\n"
                            : ", not the key of this host. Its maker may have known its "
                              "seeds before; fk-host bench judges with others\n"));
  Table table({{"what"}, {"was"}, {"now"}, {""}});
  for (const auto& d : r.key)
    table.row({excerpt(d.what, 60), excerpt(d.was, 60), excerpt(d.now, 60), "depends on it"});
  for (const auto& d : r.verdict)
    table.row({excerpt(d.what, 60), excerpt(d.was, 60), excerpt(d.now, 60),
               d.matters ? Cell("differs", Style::bad) : Cell("may differ", Style::weak)});
  if (!table.empty()) std::printf("%s", table.text(colour, 0).c_str());
  const Verdict& was = receipt.verdict;
  const bool other = r.now.status != was.status;
  print_report((r.reproduced() ? styled("REPRODUCED:", Style::good, colour)
                               : styled("NOT REPRODUCED:", Style::bad, colour)) +
               " the verdict of " + excerpt(was.time) + ", " + name_of(was.status) +
               (other ? std::string("; now it is ") + name_of(r.now.status) : "") + "\n");
}

int replay(ReplayArguments& a) {
  a.json.open();
  Store store = Store::open_default();
  Replay r;
  r.receipt = load(a, store, r.unverified);
  const Verdict& was = r.receipt.verdict;
  if (!a.key.empty() && (!r.unverified.empty() || r.receipt.signed_by != a.key))
    fail(a.receipt, "is not signed by " + a.key,
         r.unverified.empty() ? "it is signed by " + r.receipt.signed_by : r.unverified);
  if (was.secret.empty()) fail(a.receipt, "has no secret: nothing was run for this verdict");
  r.own_key = store.signer() && store.signer()->public_key() == r.receipt.signed_by;
  Question question;
  question.candidate = candidate_of(a, was);
  question.candidate_hash = was.candidate.sha256;
  question.policy = was.policy;
  // The maker of a receipt also chose the file. So only receipts of this host may turn off the
  // sandbox, or ask for waits beyond any normal judgement.
  if (!r.own_key || !r.unverified.empty()) {
    constexpr double kPatienceMost = 300, kSecondsMost = 60, kBudgetMost = 3600;
    question.policy.sandbox = true;
    question.policy.patience_s = std::min(kPatienceMost, question.policy.patience_s);
    question.policy.budget_s = question.policy.budget_s > 0
                                   ? std::min(kBudgetMost, question.policy.budget_s)
                                   : kBudgetMost;
    question.policy.seconds = std::min(kSecondsMost, question.policy.seconds);
  }
  question.device = a.device.empty() ? device_word(r.receipt.key) : a.device;
  r.key = key_differences(r.receipt.key, key_of(question, store));
  r.now =
      ask(question, the_judge(Seeds::these), Secret::from_hex(was.secret, a.receipt), FK_VERSION);
  r.verdict = verdict_differences(was, r.now);
  if (a.json.given()) a.json.write(replay_json(r));
  if (a.json.with_report()) print(r, colour_wanted(stdout));
  if (r.now.exit_code() == kExitEnvironment && was.exit_code() != kExitEnvironment)
    return kExitEnvironment;
  return r.reproduced() ? kExitOk : kExitFailed;
}

std::function<int()> add_replay(const Options& app) {
  auto a = std::make_shared<ReplayArguments>();
  app.add_option("RECEIPT", a->receipt, "a file, or an id from `fk-host receipts`").required();
  app.add_option("--plugin", a->plugin, "where the judged file is now");
  app.add_option("--key", a->key, "the public key that must have signed it");
  app.add_option("--device", a->device, "cpu or cuda:0; default: as in the receipt");
  a->json.declare(app);
  return [a] { return replay(*a); };
}

FK_VERB(replay, "reach the verdict of a receipt again, with its seeds", add_replay);

}  // namespace
}  // namespace fk
