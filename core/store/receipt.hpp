// SPDX-License-Identifier: Apache-2.0
// A receipt: a signed verdict with all its inputs (docs/schema/receipt.json). `signature` is over
// the canonical bytes of the other fields: keys sorted, no blanks, UTF-8, numbers in their shortest
// exact form.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/json.hpp"
#include "core/report/verdict_documents.hpp"
#include "core/store/key.hpp"
#include "core/store/signer.hpp"

namespace fk {

struct Receipt {
  static constexpr const char* kSchema = "fk-host.receipt/1";
  static constexpr const char* kTitle = "A signed verdict with all its inputs";
  VerdictKey key;
  InnerVerdict verdict;
  std::string signed_by = {}, unsigned_because = {}, signature = {};
  Json document = {};  // the document as read
};
template <class Visitor>
void fields(Visitor& v, Receipt& r) {
  v("key", r.key, "the inputs of the verdict");
  v("verdict", r.verdict, "the verdict");
  v("signed_by", r.signed_by, "the public key, in hex; empty: not signed");
  v("unsigned", r.unsigned_because, "why it is not signed; empty: it is");
  v("signature", r.signature, "Ed25519 over all other fields, in hex; empty: not signed");
}

// Signed if `signer` is given, else with the reason. `verdict.receipt` is set to the id.
Json make_receipt(const VerdictKey& key, const Verdict& verdict, const Signer* signer,
                  const std::string& unsigned_because);

// The first 16 digits of the SHA-256 of the signed content, without the field `verdict.receipt`.
std::string receipt_id(const Json& receipt);

// Reads and checks: schema, types, the key's hash, the commitment to the secret, the id and the
// signature, and that statuses follow from the figures. Error with the fault; `name` stands for the
// file. An unsigned receipt passes with an empty `signature`. A signed one passes on a host that
// cannot verify, with the reason in `unverified`.
Receipt read_receipt(const Json& json, const std::string& name, std::string& unverified);

}  // namespace fk
