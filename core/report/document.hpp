// SPDX-License-Identifier: Apache-2.0
// The documents that verbs write with --json. A document is a struct with fields that have meanings
// (core/base/fields.hpp), the name and version of its form, and a title. docs/schema has the JSON
// Schema of each kind. Fields may be added; existing ones keep their meaning.
#pragma once
#include <map>
#include <string>

#include "core/base/schema.hpp"

namespace fk {

template <class Document>
Json document(const Document& of) {
  return to_document(Document::kSchema, of);
}

using MakeSchema = Json (*)();
/// All kinds, by the name of their file in docs/schema.
const std::map<std::string, MakeSchema>& document_kinds();

struct DocumentRegistration {
  DocumentRegistration(const char* name, MakeSchema schema);
};

/// The form of an error that ended a verb.
inline constexpr const char* kErrorSchema = "fk-host.error/1";
inline bool is_error_document(const Json& json) {
  return json.is_object() && json.value("schema", Json()) == kErrorSchema;
}

template <class Document>
Json schema_of_document() {
  return document_schema<Document>(Document::kSchema, Document::kTitle);
}

}  // namespace fk

// At file scope, in a file that is always linked: FK_DOCUMENT(check, CheckDocument).
#define FK_DOCUMENT(name, Document)                                 \
  static const ::fk::DocumentRegistration fk_document_##name(#name, \
                                                             ::fk::schema_of_document<Document>)
