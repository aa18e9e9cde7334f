// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <utility>  // Boost 1.74 needs it before its coroutines

#include "core/service/client.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#if defined(FK_TLS)
#include <openssl/ssl.h>

#include <boost/asio/ssl.hpp>
#include <boost/beast/ssl.hpp>
#endif
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

using ClientRequest = boost::beast::http::request<boost::beast::http::string_body>;
using ClientResponse = boost::beast::http::response<boost::beast::http::string_body>;

constexpr auto kAnswerPatience = std::chrono::seconds(60);
constexpr uint64_t kAnswerMost = uint64_t{256} << 20;  // bytes
constexpr auto kLookAgain = std::chrono::milliseconds(200);

template <class Stream>
boost::asio::awaitable<ClientResponse> exchanged_on(Stream& stream, const ClientRequest& request) {
  namespace web = boost::beast::http;
  co_await web::async_write(stream, request, boost::asio::use_awaitable);
  boost::beast::flat_buffer buffer;
  web::response_parser<web::string_body> parser;
  parser.body_limit(kAnswerMost);
  co_await web::async_read(stream, buffer, parser, boost::asio::use_awaitable);
  co_return parser.release();
}

// One request on a connection of its own.
boost::asio::awaitable<void> exchange(boost::asio::io_context& context, const std::string& host,
                                      const std::string& port, bool tls,
                                      const ClientRequest& request, ClientResponse& out) {
  boost::asio::ip::tcp::resolver resolver(context);
  const auto places = co_await resolver.async_resolve(host, port, boost::asio::use_awaitable);
  boost::beast::tcp_stream tcp(context);
  tcp.expires_after(kAnswerPatience);
  co_await tcp.async_connect(places, boost::asio::use_awaitable);
#if defined(FK_TLS)
  if (tls) {
    namespace ssl = boost::asio::ssl;
    ssl::context trust(ssl::context::tls_client);
    trust.set_default_verify_paths();
    boost::beast::ssl_stream<boost::beast::tcp_stream> stream(std::move(tcp), trust);
    stream.set_verify_mode(ssl::verify_peer);
    stream.set_verify_callback(ssl::host_name_verification(host));
    SSL_set_tlsext_host_name(stream.native_handle(), host.c_str());
    co_await stream.async_handshake(ssl::stream_base::client, boost::asio::use_awaitable);
    out = co_await exchanged_on(stream, request);
    co_return;
  }
#else
  if (tls) fail("--remote", "this build has no OpenSSL", "install libssl-dev and build again");
#endif
  out = co_await exchanged_on(tcp, request);
}

std::string key_of(const Json& error, const char* key) {
  const auto found = error.find(key);
  return found != error.end() && found->is_string() ? printable(found->get<std::string>()) : "";
}

}  // namespace

ServiceClient::ServiceClient(const std::string& url, std::string token)
    : url_(url), token_(std::move(token)) {
  tls_ = starts_with(url, "https://");
  const size_t begin = url.find("://"), colon = url.rfind(':');
  if ((!tls_ && !starts_with(url, "http://")) || colon <= begin)
    fail("--remote", "`" + excerpt(url) + "` is no address of a server",
         "for example http://127.0.0.1:8080");
  host_ = url.substr(begin + 3, colon - begin - 3);
  port_ = url.substr(colon + 1);
  while (ends_with(port_, "/")) port_.pop_back();
  if (starts_with(host_, "[") && ends_with(host_, "]")) host_ = host_.substr(1, host_.size() - 2);
  if (host_.empty() || port_.empty() || port_.find_first_not_of("0123456789") != std::string::npos)
    fail("--remote", "`" + excerpt(url) + "` has no host or no port",
         "for example http://127.0.0.1:8080");
}

Json ServiceClient::ask(const std::string& method, const std::string& path,
                        const std::string& body) const {
  namespace web = boost::beast::http;
  ClientRequest request;
  request.version(11);
  request.method_string(method);
  request.target(path);
  request.set(web::field::host,
              (host_.find(':') == host_.npos ? host_ : "[" + host_ + "]") + ":" + port_);
  request.set(web::field::connection, "close");
  if (!token_.empty()) request.set(web::field::authorization, "Bearer " + token_);
  if (!body.empty()) request.set(web::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();
  ClientResponse answer;
  std::exception_ptr failure;
  boost::asio::io_context context;
  boost::asio::co_spawn(context, exchange(context, host_, port_, tls_, request, answer),
                        [&failure](std::exception_ptr e) { failure = e; });
  context.run();
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const boost::system::system_error& error) {
    fail_host(url_, "cannot be asked: " + error.code().message());
  }
  Json out;
  try {
    out = parse_json(answer.body(), url_);
  } catch (const Error& error) {
    fail_host(url_, "answers no JSON: " + error.what_text(), "is it `fk-host serve --http`?");
  }
  const unsigned code = answer.result_int();
  if (code < 400) return out;
  const Json error = out.is_object() ? out.value("error", Json::object()) : Json::object();
  const std::string what = std::to_string(code) + ": " + key_of(error, "what");
  if (code == 429 || code >= 500) fail_host(url_, what, key_of(error, "hint"));
  fail(url_ + ": " + key_of(error, "where"), what, key_of(error, "hint"));
}

Json ServiceClient::judged(const JobRequest& request,
                           const std::function<void(const Json& job)>& tell) const {
  Json job = ask("POST", "/v1/jobs", text_of(request));
  const std::string path = "/v1/jobs/" + job.value("id", "");
  Json last;
  for (double heard = now_seconds();;) {
    if (job != last) tell(job);
    last = job;
    const std::string state = job.value("state", "");
    const bool done = state == "done";
    if (!done && state != "queued" && state != "running")
      fail(url_, "the job is " + printable(state) + ", and has no verdict",
           printable(job.value("why", "")));
    try {
      if (done) return ask("GET", path + "/result");
      std::this_thread::sleep_for(kLookAgain);
      job = ask("GET", path);
      heard = now_seconds();
    } catch (const HostError&) {
      if (now_seconds() - heard > kAwaySeconds) throw;
      std::this_thread::sleep_for(kLookAgain);
    }
  }
}

}  // namespace fk
