// SPDX-License-Identifier: Apache-2.0
// A receipt: a verdict with all that it depends on, signed. `fk-host.receipt/1` is
//   {schema, key: {hash, parts}, verdict, signed_by, signature, unsigned}
// where `signature` is over the canonical bytes of the rest: keys sorted, no blanks, UTF-8, numbers
// in the shortest form that reads back.
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
  std::string signed_by, signature;  // hex; empty: not signed, because
  std::string unsigned_because;
  Json document;  // as it was read
};

// Signed where there is a signer, else with the reason. `verdict.receipt` is set to the id.
Json make_receipt(const VerdictKey& key, const Verdict& verdict, const Signer* signer,
                  const std::string& unsigned_because);

// The first 16 digits of the SHA-256 of what is signed but for the field `verdict.receipt`.
std::string receipt_id(const Json& receipt);

// Reads and checks: the schema, types, the key's hash, the commitment to the secret, the id, the
// signature, and that statuses follow from the figures. Error with what is wrong; `name` stands for
// the file. An unsigned receipt passes with an empty `signature`, and so does a signed one where
// this host cannot verify, with `unverified` set to the reason.
Receipt read_receipt(const Json& json, const std::string& name, std::string& unverified);

}  // namespace fk
