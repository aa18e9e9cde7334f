// SPDX-License-Identifier: Apache-2.0
// Answers a question from the store, or asks the judge and completes its verdict (answer.hpp).
#include "core/store/answer.hpp"

#include <algorithm>
#include <chrono>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/machine.hpp"
#include "core/base/sha256.hpp"
#include "core/device/identity.hpp"
#include "core/store/store.hpp"

namespace fk {

namespace {

// True for a verdict which another judgement may improve: the host failed, or the times do not
// tell. A busy machine causes both.
bool is_open(const Verdict& verdict) {
  const auto failed = [](const CaseVerdict& c) { return c.status == Status::environment; };
  return verdict.status == Status::environment || verdict.status == Status::cannot_tell ||
         std::ranges::any_of(verdict.cases, failed);
}

// True if the file changed meanwhile, so that another file was judged than the question is about.
bool changed_meanwhile(const Question& question, const Verdict& verdict) {
  if (question.candidate_hash.empty()) return false;
  if (verdict.candidate.sha256 != question.candidate_hash) return true;
  try {
    return sha256_file(question.candidate) != question.candidate_hash;
  } catch (const Error&) {
    return true;
  }
}

void fill(std::string& field, const std::string& value) {
  if (field.empty()) field = value;
}

}  // namespace

Verdict ask(const Question& question, const AskJudge& judge, const Secret& secret,
            const std::string& host_version) {
  const std::string time = now_text(), commitment = secret.commitment();
  const auto start = std::chrono::steady_clock::now();
  Verdict out = judge(question, secret);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (out.seconds <= 0) out.seconds = took.count();
  fill(out.time, time);
  fill(out.secret, secret.hex());
  fill(out.commitment, commitment);
  fill(out.candidate.path, question.candidate.string());
  fill(out.candidate.sha256, question.candidate_hash);
  fill(out.candidate.name, question.candidate.stem().string());
  fill(out.host, processor_name() + ", " + kernel_name());
  fill(out.host_version, host_version);
  fill(out.host_build, own_build_id());
  const DeviceIdentity device = identity_of_device(question.device);
  if (out.device == question.device) out.device.clear();
  fill(out.device, device.device);
  fill(out.driver, device.driver);
  out.policy = question.policy;
  if (changed_meanwhile(question, out)) {
    out.cases.clear();
    out.aggregate = {};
    out.status = Status::environment;
    out.why = "the file was written while it was judged";
    out.evidence.clear();
    out.next = "Ask again when the other process has finished.";
  }
  conclude(out);
  return out;
}

Answer answer(const Question& question, const AskJudge& judge, const AnswerOptions& options) {
  Answer out;
  Store store = Store::open_default(options.store);
  Question hashed = question;
  // Hashed anew, never taken from the store's memory: writes through a mapping may leave a file's
  // times unchanged.
  if (hashed.candidate_hash.empty()) hashed.candidate_hash = sha256_file(question.candidate);
  const VerdictKey key = key_of(hashed, store);
  if (options.store && !options.fresh) {
    if (auto found = store.find(key); found && !is_open(found->verdict)) {
      out.verdict = std::move(found->verdict);
      out.verdict.stored = true;
      out.receipt = std::move(found->document);
      out.notes = store.notes();
      return out;
    }
  }
  out.verdict = ask(hashed, judge, Secret::draw(), options.host_version);
  out.receipt = make_receipt(key, out.verdict, store.signer(), store.unsigned_because());
  out.verdict.receipt = out.receipt["verdict"]["receipt"].get<std::string>();
  if (options.store && store.usable()) store.put(key, out.receipt);
  out.notes = store.notes();
  if (options.store && !store.usable())
    out.notes.push_back("the verdict is not stored: " + store.why());
  if (!store.signer())
    out.notes.push_back("the receipt is not signed: " + store.unsigned_because());
  return out;
}

}  // namespace fk
