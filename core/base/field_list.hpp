// SPDX-License-Identifier: Apache-2.0
// The list of a struct's fields for JSON (core/base/fields.hpp). Where a key needs no meaning, one
// line in the struct is the whole list, and the keys are the names of the members:
//   FK_FIELDS(seat, patience_s)
#pragma once
#include <string>
#include <string_view>

namespace fk::visitors {

// Calls the visitor with each name of "seat, patience_s" and its member.
template <class Visitor, class... Members>
void visit(Visitor& visitor, std::string_view names, Members&... members) {
  [[maybe_unused]] const auto next = [&names] {
    const std::size_t end = names.find(',');
    const std::string name(names.substr(0, end));
    names.remove_prefix(end == names.npos ? names.size() : names.find_first_not_of(", ", end));
    return name;
  };
  (visitor(next().c_str(), members), ...);
}

}  // namespace fk::visitors

#define FK_FIELDS(...)                                                       \
  template <class Visitor>                                                   \
  void visit_fields(Visitor& visitor) {                                      \
    ::fk::visitors::visit(visitor, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__); \
  }
