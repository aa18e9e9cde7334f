// SPDX-License-Identifier: Apache-2.0
// The service's port: HTTP/1.1 by Boost.Beast, with TLS by OpenSSL, on one thread.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace fk {

class HttpApp;

// Names of clients by the SHA-256 of their tokens.
using Tokens = std::map<std::string, std::string>;
// Reads lines `NAME TOKEN`; empty lines and lines that begin with # are ignored. Error for a file
// that other users can read, for a short token, and for a name or token that comes twice.
Tokens load_tokens(const std::filesystem::path& file);

struct HttpOptions {
  std::string address;                     // "127.0.0.1:8080", "[::1]:8080"; port 0: any free one
  Tokens tokens;                           // empty: clients have the names of their addresses
  std::filesystem::path certificate, key;  // PEM; empty: no TLS
  int connections_most = 512;              // a further one is closed
};

class HttpServer {
 public:
  // Listens. Error for a bad address, and for one that other machines reach without tokens and TLS.
  HttpServer(const HttpOptions& options, HttpApp& app);
  ~HttpServer();
  // "http://127.0.0.1:8080".
  std::string url() const;
  // Answers until SIGINT, SIGTERM or SIGHUP comes, then drains (HttpApp::drain).
  void run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fk
