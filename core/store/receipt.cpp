// SPDX-License-Identifier: Apache-2.0
// Writes and checks receipts. The canonical text (key.hpp) of a receipt without its signature is
// signed.
#include "core/store/receipt.hpp"

#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/judge/verdict/secret.hpp"
#include "core/store/signed.hpp"

namespace fk {

namespace {

constexpr size_t kIdDigits = 16;

}  // namespace

std::string receipt_id(const Json& receipt) {
  Json rest = receipt;
  rest.erase("signature");
  if (rest.contains("verdict") && rest["verdict"].is_object()) rest["verdict"].erase("receipt");
  return sha256(canonical_text(rest)).substr(0, kIdDigits);
}

Json make_receipt(const VerdictKey& key, const Verdict& verdict, const Signer* signer,
                  const std::string& unsigned_because) {
  const Receipt receipt{.key = key, .verdict = {verdict}};
  Json out = with_signer(document(receipt), signer, unsigned_because);
  out["verdict"]["receipt"] = receipt_id(out);
  sign(out, signer);
  return out;
}

Receipt read_receipt(const Json& json, const std::string& name, std::string& unverified) {
  if (!json.is_object()) fail(name, "is no JSON object");
  const std::string schema = text_at(json, "schema", name);
  if (schema != Receipt::kSchema)
    fail(name, "is no receipt", std::string("its schema should be ") + Receipt::kSchema);
  // As for a verdict, another version of the host may know a field more or less.
  auto out = from_fields<Receipt>(json, name, {});
  out.document = json;
  const Verdict& verdict = out.verdict;
  if (json.value("key", Json::object()).value("hash", "") != out.key.hash())
    fail(name + ".key", "the hash does not match the parts");
  check_signature(json, name, unverified);
  if (verdict.receipt != receipt_id(json)) fail(name, "the id does not match the content");
  if (const std::string& secret = verdict.secret;
      !secret.empty() &&
      Secret::from_hex(secret, name + ".verdict.secret").commitment() != verdict.commitment)
    fail(name, "the commitment does not match the secret");
  if (const std::string why = contradiction(verdict); !why.empty())
    fail(name + ".verdict", "contradicts itself: " + excerpt(why, 300));
  return out;
}

}  // namespace fk
