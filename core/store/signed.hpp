// SPDX-License-Identifier: Apache-2.0
// Signed documents: any JSON object with the fields `signed_by`, `unsigned` and `signature`. The
// signature is over the canonical bytes of the other fields (canonical_text() of key.hpp).
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/json.hpp"
#include "core/store/signer.hpp"

namespace fk {

// The content with `signed_by` and `unsigned`, as text that can be read back: invalid UTF-8 is
// replaced.
Json with_signer(Json content, const Signer* signer, const std::string& unsigned_because);
// Sets `signature`; empty without a signer.
void sign(Json& document, const Signer* signer);
// Error when the signature does not match, or a part of it is missing; `name` stands for the file.
// Returns the public key; empty: not signed. `unverified` has the reason where nothing was checked.
std::string check_signature(const Json& document, const std::string& name, std::string& unverified);
// The text of a field. Error when it is missing or no text.
std::string text_at(const Json& json, const char* field, const std::string& where);

}  // namespace fk
