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

VerdictKey read_key(const Json& json, const std::string& where) {
  if (!json.contains("key") || !json["key"].is_object() || !json["key"].contains("parts") ||
      !json["key"]["parts"].is_object())
    fail(where, "has no `key` with `parts`");
  VerdictKey key;
  for (const auto& [name, value] : json["key"]["parts"].items()) {
    if (!value.is_string()) fail(where + ".key.parts." + name, "is no text");
    key.add(name, value.get<std::string>());
  }
  if (text_at(json["key"], "hash", where + ".key") != key.hash())
    fail(where + ".key", "the hash does not match the parts");
  return key;
}

}  // namespace

std::string receipt_id(const Json& receipt) {
  Json rest = receipt;
  rest.erase("signature");
  if (rest.contains("verdict") && rest["verdict"].is_object()) rest["verdict"].erase("receipt");
  return sha256(canonical_text(rest)).substr(0, kIdDigits);
}

Json make_receipt(const VerdictKey& key, const Verdict& verdict, const Signer* signer,
                  const std::string& unsigned_because) {
  Json out = {{"schema", kReceiptSchema},
              {"key", {{"hash", key.hash()}, {"parts", key.parts_json()}}},
              {"verdict", to_json(verdict)}};
  out = with_signer(std::move(out), signer, unsigned_because);
  out["verdict"]["receipt"] = receipt_id(out);
  sign(out, signer);
  return out;
}

Receipt read_receipt(const Json& json, const std::string& name, std::string& unverified) {
  if (!json.is_object()) fail(name, "is no JSON object");
  const std::string schema = text_at(json, "schema", name);
  if (schema != kReceiptSchema)
    fail(name, "is no receipt", std::string("its schema should be ") + kReceiptSchema);
  Receipt out;
  out.document = json;
  out.key = read_key(json, name);
  if (!json.contains("verdict")) fail(name, "has no `verdict`");
  out.verdict = verdict_from(json["verdict"], name + ".verdict");
  out.signed_by = check_signature(json, name, unverified);
  out.signature = text_at(json, "signature", name);
  out.unsigned_because = text_at(json, "unsigned", name);
  if (out.verdict.receipt != receipt_id(json)) fail(name, "the id does not match the content");
  const std::string& secret = out.verdict.secret;
  if (!secret.empty() &&
      Secret::from_hex(secret, name + ".verdict.secret").commitment() != out.verdict.commitment)
    fail(name, "the commitment does not match the secret");
  if (const std::string why = contradiction(out.verdict); !why.empty())
    fail(name + ".verdict", "contradicts itself: " + excerpt(why, 300));
  return out;
}

}  // namespace fk
