// SPDX-License-Identifier: Apache-2.0
// A verdict as JSON, both ways, and the JSON Schema of it, from fields.hpp.
#include "core/judge/verdict/fields.hpp"

#include "core/base/schema.hpp"
#include "core/base/text.hpp"

namespace fk {

Json to_json(const Verdict& verdict) { return to_document(kVerdictSchema, verdict); }

Verdict verdict_from(const Json& json, const std::string& name) {
  if (!json.is_object()) fail(name, "is no JSON object");
  const std::string schema = json.contains("schema") && json["schema"].is_string()
                                 ? json["schema"].get<std::string>()
                                 : "";
  if (schema != kVerdictSchema)
    fail(name, "has the schema `" + excerpt(schema) + "`",
         std::string("this host knows ") + kVerdictSchema);
  // Another version of the host may know a field more or less; what is there must be sound.
  return from_fields<Verdict>(json, name, {});
}

Json verdict_schema() {
  return document_schema<Verdict>(kVerdictSchema, "What fk-host says about a candidate");
}

}  // namespace fk
