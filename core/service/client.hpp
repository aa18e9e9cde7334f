// SPDX-License-Identifier: Apache-2.0
// A client of `fk-host serve --http`.
#pragma once
#include <functional>
#include <string>

#include "core/base/json.hpp"
#include "core/service/request.hpp"

namespace fk {

class ServiceClient {
 public:
  // `url`: "http://HOST:PORT" or "https://HOST:PORT". Error for another form. `token` may be empty.
  // OpenSSL's certificates count, and those of the variable SSL_CERT_FILE.
  ServiceClient(const std::string& url, std::string token);
  // The JSON of an answer. Error with the server's words for a fault of the request. HostError when
  // no server answers, when it refuses for the present, or when it answers no JSON.
  Json ask(const std::string& method, const std::string& path, const std::string& body = "") const;
  // Submits a job, waits for its end and returns its verdict's document. `tell` gets each new
  // state. A server that is away for a while is asked again, up to kAwaySeconds.
  Json judged(const JobRequest& request, const std::function<void(const Json& job)>& tell) const;
  static constexpr double kAwaySeconds = 60;

 private:
  std::string url_, host_, port_, token_;
  bool tls_ = false;
};

}  // namespace fk
