// SPDX-License-Identifier: Apache-2.0
// A table of handlers for the messages to a process. A message is a struct with a name, the type of
// its answer, and fields (core/base/fields.hpp):
//   struct Join {
//     static constexpr const char* kName = "join";
//     using Answer = Nothing;
//     RankSeat seat;
//     FK_FIELDS(seat)
//   };
// Its JSON has the name under "do".
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/fields.hpp"

namespace fk {

struct Nothing {
  FK_FIELDS()
};

// Nobody handles a message of this name.
class UnknownMessage : public Error {
 public:
  UnknownMessage(const std::string& name, const std::vector<std::string>& known)
      : Error("a message", "nobody can do `" + excerpt(name) + "`", did_you_mean(name, known)) {}
};

template <class Message>
Json message_json(const Message& message) {
  Json out = to_fields(message);
  out["do"] = Message::kName;
  return out;
}

// The name of a message; empty: it has none.
inline std::string message_name(const Json& message) {
  const auto name = message.is_object() ? message.find("do") : message.end();
  return name != message.end() && name->is_string() ? name->get<std::string>() : "";
}

template <class Host>
class Handlers {
 public:
  // Adds a method. The type of its argument decides the message that it handles.
  template <class Message>
  Handlers& on(typename Message::Answer (Host::*handle)(const Message&)) {
    table_[Message::kName] = [handle](Host& host, const Json& message) {
      return to_fields((host.*handle)(from_fields<Message>(message, Message::kName)));
    };
    return *this;
  }

  // Error when the message is unknown or malformed.
  Json answer(Host& host, const Json& message) const {
    const std::string name = message_name(message);
    const auto found = table_.find(name);
    if (found != table_.end()) return found->second(host, message);
    std::vector<std::string> known;
    for (const auto& [each, handle] : table_) known.push_back(each);
    throw UnknownMessage(name, known);
  }

 private:
  std::map<std::string, std::function<Json(Host&, const Json&)>> table_;
};

}  // namespace fk
