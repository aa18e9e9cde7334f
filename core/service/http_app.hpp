// SPDX-License-Identifier: Apache-2.0
// The side that answers the requests of an HttpServer: requests and answers without the network.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fk {

struct ApiRequest {
  std::string method, target;  // "GET", "/v1/jobs?limit=5"
  std::string client;          // a token's name or an address; empty: the token is missing or wrong
  std::string type;            // Content-Type
  std::string body;
};

// The body of an answer that comes later. Destroyed when the client has all of it or has gone.
class LaterBody {
 public:
  LaterBody() = default;
  virtual ~LaterBody() = default;
  LaterBody(const LaterBody&) = delete;
  struct Part {
    std::string text;       // empty: there is nothing new
    bool over = false;      // no further part comes
    unsigned status = 200;  // of the last part of a body that does not stream
  };
  // The next part; never waits.
  virtual Part take() = 0;
  // take() has something new soon after each call of `wake`. [any thread] Null: it must not be
  // called any more. Without an effect where the server's own rhythm is enough.
  virtual void when_news(std::function<void()> wake) { (void)wake; }
};

struct ApiAnswer {
  unsigned status = 200;
  std::string body;
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::shared_ptr<LaterBody> later = {};  // in place of `body`
  bool streams = false;                   // each part of `later` is sent at once
};

class HttpApp {
 public:
  virtual ~HttpApp() = default;
  // Never throws, never waits. [any thread]
  virtual ApiAnswer answer(const ApiRequest& request) = 0;
  // The answer to a fault of the transport.
  virtual ApiAnswer fault(unsigned status, const std::string& what, const std::string& hint) const;
  // Counts an answer. [any thread]
  virtual void count(unsigned status) = 0;
  virtual size_t body_most() const = 0;  // bytes of a request
  // The server will end: requests from now on are refused. It waits for answers that are later
  // until the returned number of seconds is over.
  virtual double drain() { return 0; }
};

// The answer to a fault, in the form of each other error of this program.
ApiAnswer api_error(unsigned status, const std::string& where, const std::string& what,
                    const std::string& hint = "");

}  // namespace fk
