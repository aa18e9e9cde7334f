// SPDX-License-Identifier: Apache-2.0
#include "core/store/signed.hpp"

#include "core/base/error.hpp"
#include "core/store/key.hpp"

namespace fk {

namespace {

std::string signed_text(const Json& document) {
  Json rest = document;
  rest.erase("signature");
  return canonical_text(rest);
}

}  // namespace

std::string text_at(const Json& json, const char* field, const std::string& where) {
  const auto found = json.find(field);
  if (found == json.end() || !found->is_string())
    fail(where, std::string("has no text `") + field + "`");
  return found->get<std::string>();
}

Json with_signer(Json content, const Signer* signer, const std::string& unsigned_because) {
  content["signed_by"] = signer ? signer->public_key() : "";
  content["unsigned"] = signer ? "" : unsigned_because;
  // A plugin's text may be invalid UTF-8: the signature is over the text that can be read back.
  return Json::parse(content.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void sign(Json& document, const Signer* signer) {
  document["signature"] = signer ? signer->sign(signed_text(document)) : "";
}

std::string check_signature(const Json& document, const std::string& name,
                            std::string& unverified) {
  const std::string signed_by = text_at(document, "signed_by", name);
  const std::string signature = text_at(document, "signature", name);
  const std::string because = text_at(document, "unsigned", name);
  if (signed_by.empty() != signature.empty())
    fail(name, "has a signature without a key, or a key without a signature");
  std::string why;
  if (signature.empty())
    unverified = because;
  else if (unverified = no_signatures(); unverified.empty())
    if (!verify_signature(signed_by, signed_text(document), signature, why)) fail(name, why);
  return signed_by;
}

}  // namespace fk
