// SPDX-License-Identifier: Apache-2.0
// A receipt: a signed verdict with all its inputs. `fk-host.receipt/1` is
//   {schema, key: {hash, parts}, verdict, signed_by, signature, unsigned}
// `signature` is over the canonical bytes of the other fields: keys sorted, no blanks, UTF-8,
// numbers in their shortest exact form.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/json.hpp"
#include "core/judge/verdict/verdict.hpp"
#include "core/store/key.hpp"
#include "core/store/signer.hpp"

namespace fk {

inline constexpr const char* kReceiptSchema = "fk-host.receipt/1";

struct Receipt {
  VerdictKey key;
  Verdict verdict;
  std::string signed_by, signature;  // hex; empty: not signed
  std::string unsigned_because;
  Json document;  // the document as read
};

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
