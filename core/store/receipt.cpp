// SPDX-License-Identifier: Apache-2.0
// Writes and checks receipts. The canonical text (key.hpp) of a receipt without its signature is
// signed.
#include "core/store/receipt.hpp"

#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/judge/verdict/secret.hpp"

namespace fk {

namespace {

constexpr size_t kIdDigits = 16;

std::string text_at(const Json& json, const char* field, const std::string& where) {
  const auto found = json.find(field);
  if (found == json.end() || !found->is_string())
    fail(where, std::string("has no text `") + field + "`");
  return found->get<std::string>();
}

std::string signed_text(const Json& receipt) {
  Json rest = receipt;
  rest.erase("signature");
  return canonical_text(rest);
}

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
              {"verdict", to_json(verdict)},
              {"signed_by", signer ? signer->public_key() : ""},
              {"unsigned", signer ? "" : unsigned_because}};
  // A plugin's text may be invalid UTF-8: the signature is over the text that can be read back.
  out = Json::parse(out.dump(-1, ' ', false, Json::error_handler_t::replace));
  out["verdict"]["receipt"] = receipt_id(out);
  out["signature"] = signer ? signer->sign(signed_text(out)) : "";
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
  out.signed_by = text_at(json, "signed_by", name);
  out.signature = text_at(json, "signature", name);
  out.unsigned_because = text_at(json, "unsigned", name);
  if (out.signed_by.empty() != out.signature.empty())
    fail(name, "has a signature without a key, or a key without a signature");
  std::string why;
  if (out.signature.empty())
    unverified = out.unsigned_because;
  else if (unverified = no_signatures(); unverified.empty())
    if (!verify_signature(out.signed_by, signed_text(json), out.signature, why)) fail(name, why);
  if (out.verdict.receipt != receipt_id(json)) fail(name, "the id does not match the content");
  const std::string& secret = out.verdict.secret;
  if (!secret.empty() &&
      Secret::from_hex(secret, name + ".verdict.secret").commitment() != out.verdict.commitment)
    fail(name, "the commitment does not match the secret");
  if (why = contradiction(out.verdict); !why.empty())
    fail(name + ".verdict", "contradicts itself: " + excerpt(why, 300));
  return out;
}

}  // namespace fk
