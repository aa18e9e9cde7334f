// SPDX-License-Identifier: Apache-2.0
// A connection to Redis, by hiredis.
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace fk {

// An answer of Redis: a text, a number, or a list of answers.
struct RedisAnswer {
  std::string text;
  int64_t number = 0;
  std::vector<RedisAnswer> parts;
  bool none = false;
  // Error when the list is shorter.
  const RedisAnswer& at(size_t place) const;
};

// There is no connection, or it was lost. The command may or may not have had its effect.
struct RedisAway : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Redis refused a command. The text begins with its word for the reason, such as NOGROUP.
struct RedisRefusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], without TLS. Where it has no password, the
// variable REDISCLI_AUTH has it, as for redis-cli.
struct RedisPlace {
  std::string host, user, password;
  int port = 6379, database = 0;
  std::string text() const;  // without the password
};
// Error for another form. HostError when this build has no hiredis.
RedisPlace redis_place(const std::string& url);

// One thread at a time uses it.
class Redis {
 public:
  explicit Redis(RedisPlace place);
  ~Redis();
  Redis(const Redis&) = delete;
  // The answer to one command. Connects first where there is no connection. RedisAway,
  // RedisRefusal.
  RedisAnswer ask(const std::vector<std::string>& words);
  const RedisPlace& place() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fk
