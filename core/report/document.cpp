// SPDX-License-Identifier: Apache-2.0
#include "core/report/document.hpp"

namespace fk {

namespace {

std::map<std::string, MakeSchema>& known_documents() {
  static std::map<std::string, MakeSchema> map;
  return map;
}

}  // namespace

const std::map<std::string, MakeSchema>& document_kinds() { return known_documents(); }

DocumentRegistration::DocumentRegistration(const char* name, MakeSchema schema) {
  known_documents()[name] = schema;
}

}  // namespace fk
