// SPDX-License-Identifier: Apache-2.0
// Coroutines on one thread: a slow client holds a connection and nothing else.
#include <exception>
#include <utility>  // Boost 1.74 needs it before its coroutines

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#if defined(FK_TLS)
#include <boost/asio/ssl.hpp>
#include <boost/beast/ssl.hpp>
#endif
#include <poll.h>

#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/service/http.hpp"
#include "core/service/http_app.hpp"

namespace fk {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = net::ip::tcp;
using Fault = boost::system::error_code;

namespace {

constexpr auto kPatience = std::chrono::seconds(30);  // for a request, and between two of them
constexpr auto kLook = std::chrono::milliseconds(100);
constexpr auto kBeat = std::chrono::seconds(15);
constexpr uint32_t kHeaderMost = 16 << 10;
constexpr auto kLinger = std::chrono::seconds(5);
constexpr size_t kLingerMost = size_t{64} << 20;  // bytes

// The address and port of "127.0.0.1:8080".
Tcp::endpoint endpoint_of(const std::string& text) {
  const char* const kForm = "for example 127.0.0.1:8080 or [::1]:8080";
  const size_t colon = text.rfind(':');
  if (colon == text.npos) fail("--http", "`" + excerpt(text) + "` is no address and port", kForm);
  std::string host = text.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  Fault fault;
  const auto address = net::ip::make_address(host, fault);
  uint16_t port = 0;
  const char *from = text.data() + colon + 1, *end = text.data() + text.size();
  const auto [at, wrong] = std::from_chars(from, end, port);
  if (fault || wrong != std::errc() || at != end || from == end)
    fail("--http", "`" + excerpt(text) + "` is no address and port", kForm);
  return {address, port};
}

std::string text_of(beast::string_view view) { return {view.data(), view.size()}; }

// True for the host of a request to this machine itself. A page of another site that was renamed to
// a loopback address sends its own name.
bool is_loopback_host(std::string host) {
  if (const size_t colon = host.rfind(':'); colon != host.npos && host.back() != ']')
    host.resize(colon);
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

using Response = http::response<http::string_body>;

Response response_of(const ApiAnswer& answer, unsigned version, bool keep) {
  Response out(http::int_to_status(answer.status), version);
  out.set(http::field::content_type, answer.type);
  out.set(http::field::cache_control, "no-store");
  out.set("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : answer.headers) out.set(name, value);
  out.body() = answer.body;
  out.keep_alive(keep);
  out.prepare_payload();
  return out;
}

// True when the client has closed its end.
bool gone(Tcp::socket& socket) {
  pollfd entry{socket.native_handle(), POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) > 0 && entry.revents != 0;
}

auto with(Fault& fault) { return net::redirect_error(net::use_awaitable, fault); }

}  // namespace

struct HttpServer::State {
  State(const HttpOptions& o, HttpApp& a) : options(o), app(a) {}

  HttpOptions options;
  HttpApp& app;
  net::io_context context{1};
  Tcp::acceptor acceptor{context};
  int connections = 0, later = 0;  // clients, and those that wait for answers
  bool draining = false;
#if defined(FK_TLS)
  std::optional<net::ssl::context> tls;
#endif

  struct Counted {
    int& number;
    explicit Counted(int& n) : number(n) { ++number; }
    ~Counted() { --number; }
    Counted(const Counted&) = delete;
  };

  // The name of the client; empty: it has no token.
  std::string client_of(const http::request<http::string_body>& request,
                        const std::string& address) const {
    if (options.tokens.empty())
      return is_loopback_host(text_of(request[http::field::host])) ? address : "";
    const std::string given = text_of(request[http::field::authorization]);
    const std::string scheme = "Bearer ";
    if (!starts_with(given, scheme)) return "";
    const auto found = options.tokens.find(sha256(trim(given.substr(scheme.size()))));
    return found == options.tokens.end() ? "" : found->second;
  }

  template <class Stream>
  net::awaitable<bool> send(Stream& stream, Response response) {
    app.count(response.result_int());
    Fault fault;
    beast::get_lowest_layer(stream).expires_after(kPatience);
    co_await http::async_write(stream, response, with(fault));
    co_return !fault && response.keep_alive();
  }

  // A timer that the news of an answer ends. No news comes after its end.
  struct News {
    News(net::io_context& c, LaterBody& b)
        : timer(std::make_shared<net::steady_timer>(c)), body(b) {
      body.when_news([&c, weak = std::weak_ptr(timer)] {
        net::post(c, [weak] {
          if (const auto it = weak.lock()) it->cancel();
        });
      });
    }
    ~News() { body.when_news(nullptr); }
    std::shared_ptr<net::steady_timer> timer;
    LaterBody& body;
  };

  // Waits for a whole answer. False: the client has gone.
  template <class Stream>
  net::awaitable<bool> await_answer(Stream& stream, ApiAnswer& answer) {
    News news(context, *answer.later);
    for (;;) {
      LaterBody::Part part = answer.later->take();
      answer.body += part.text;
      if (part.over) {
        answer.status = part.status;
        co_return true;
      }
      if (gone(beast::get_lowest_layer(stream).socket())) co_return false;
      Fault ended;
      news.timer->expires_after(kLook);
      co_await news.timer->async_wait(with(ended));
    }
  }

  // Sends the parts of an answer as they come.
  template <class Stream>
  net::awaitable<void> stream_parts(Stream& stream, const ApiAnswer& answer) {
    app.count(answer.status);
    http::response<http::empty_body> head(http::int_to_status(answer.status), 11);
    head.set(http::field::content_type, answer.type);
    head.set(http::field::cache_control, "no-store");
    for (const auto& [name, value] : answer.headers) head.set(name, value);
    head.keep_alive(false);
    http::response_serializer<http::empty_body> serializer(head);
    Fault fault;
    beast::get_lowest_layer(stream).expires_after(kPatience);
    co_await http::async_write_header(stream, serializer, with(fault));
    News news(context, *answer.later);
    auto told = std::chrono::steady_clock::now();
    while (!fault) {
      LaterBody::Part part = answer.later->take();
      const auto now = std::chrono::steady_clock::now();
      if (part.text.empty() && now - told > kBeat) part.text = ": still there\n\n";
      if (!part.text.empty()) {
        told = now;
        beast::get_lowest_layer(stream).expires_after(kPatience);
        co_await net::async_write(stream, net::buffer(part.text), with(fault));
      }
      if (part.over || fault || gone(beast::get_lowest_layer(stream).socket())) break;
      Fault ended;
      news.timer->expires_after(kLook);
      co_await news.timer->async_wait(with(ended));
    }
  }

  // Drops the rest of a request, until its client has the answer and closes. A client that still
  // sends when the connection closes would lose the answer.
  template <class Stream>
  net::awaitable<void> drop_rest(Stream& stream) {
    std::array<char, 16 << 10> bytes{};
    Fault fault;
    beast::get_lowest_layer(stream).expires_after(kLinger);
    for (size_t dropped = 0; !fault && dropped < kLingerMost;)
      dropped += co_await stream.async_read_some(net::buffer(bytes), with(fault));
  }

  template <class Stream>
  net::awaitable<void> refuse(Stream& stream, unsigned status, const std::string& what,
                              const std::string& hint = "") {
    co_await send(stream, response_of(app.fault(status, what, hint), 11, false));
    co_await drop_rest(stream);
  }

  template <class Stream>
  net::awaitable<void> converse(Stream& stream, const std::string& address) {
    beast::flat_buffer buffer;
    for (bool keep = true; keep;) {
      http::request_parser<http::string_body> parser;
      parser.body_limit(app.body_most());
      parser.header_limit(kHeaderMost);
      Fault fault;
      beast::get_lowest_layer(stream).expires_after(kPatience);
      co_await http::async_read_header(stream, buffer, parser, with(fault));
      ApiRequest asked;
      if (!fault) asked.client = client_of(parser.get(), address);
      // The body of a stranger's request would cost memory.
      const bool unread = !fault && asked.client.empty() && !parser.is_done();
      if (!fault && !unread && parser.get()[http::field::expect] == "100-continue") {
        http::response<http::empty_body> go(http::status::continue_, 11);
        co_await http::async_write(stream, go, with(fault));
      }
      if (!fault && !unread) co_await http::async_read(stream, buffer, parser, with(fault));
      if (fault == http::error::body_limit) {
        co_await refuse(stream, 413, "its body is too large",
                        human_bytes(static_cast<int64_t>(app.body_most())));
        co_return;
      }
      if (fault == http::error::header_limit) {
        co_await refuse(stream, 431, "its header is too large");
        co_return;
      }
      if (fault && fault.category() == http::make_error_code(http::error::bad_version).category() &&
          fault != http::error::end_of_stream && fault != http::error::partial_message) {
        co_await refuse(stream, 400, "it is no HTTP");
        co_return;
      }
      if (fault) co_return;
      const auto request = parser.release();
      asked.method = text_of(request.method_string());
      asked.target = text_of(request.target());
      asked.type = text_of(request[http::field::content_type]);
      asked.body = request.body();
      ApiAnswer answer = app.answer(asked);
      std::optional<Counted> counted;
      if (answer.later) counted.emplace(later);
      if (answer.later && answer.streams && asked.method != "HEAD") {
        co_await stream_parts(stream, answer);
        co_return;
      }
      if (answer.later && !answer.streams && !co_await await_answer(stream, answer)) co_return;
      const bool stay = request.keep_alive() && !draining && !unread;
      Response response = response_of(answer, request.version(), stay);
      if (asked.method == "HEAD") response.body().clear();  // with the length of GET's body
      keep = co_await send(stream, std::move(response));
      if (unread) co_await drop_rest(stream);
    }
  }

  net::awaitable<void> attend(Tcp::socket socket) {
    const Counted counted(connections);
    try {
      Fault fault;
      const auto peer = socket.remote_endpoint(fault);
      if (fault) co_return;
      const std::string address = peer.address().to_string();
#if defined(FK_TLS)
      if (tls) {
        beast::ssl_stream<beast::tcp_stream> stream(beast::tcp_stream(std::move(socket)), *tls);
        beast::get_lowest_layer(stream).expires_after(kPatience);
        co_await stream.async_handshake(net::ssl::stream_base::server, with(fault));
        if (fault) co_return;
        co_await converse(stream, address);
        beast::get_lowest_layer(stream).expires_after(kPatience);
        co_await stream.async_shutdown(with(fault));
        co_return;
      }
#endif
      beast::tcp_stream stream(std::move(socket));
      co_await converse(stream, address);
      stream.socket().shutdown(Tcp::socket::shutdown_send, fault);
    } catch (const std::exception& error) {
      log_warn(std::string("a connection ended: ") + error.what());
    }
  }

  // Lets the answers end that clients wait for. A further signal ends the server at once.
  net::awaitable<void> drain(net::signal_set& signals) {
    const auto patience = std::chrono::duration<double>(app.drain());
    const auto begin = std::chrono::steady_clock::now();
    draining = true;
    Fault fault;
    acceptor.close(fault);
    signals.async_wait([this](const Fault& cancelled, int) {
      if (!cancelled) context.stop();
    });
    net::steady_timer timer(context);
    while (later > 0 && std::chrono::steady_clock::now() - begin < patience) {
      timer.expires_after(kLook);
      co_await timer.async_wait(with(fault));
    }
    context.stop();
  }

  net::awaitable<void> listen() {
    for (;;) {
      Fault fault;
      Tcp::socket socket = co_await acceptor.async_accept(with(fault));
      if (fault == net::error::operation_aborted) co_return;
      if (fault) {  // no descriptors are left, for example
        log_warn("a connection cannot be accepted: " + fault.message());
        net::steady_timer timer(context, kLook);
        co_await timer.async_wait(with(fault));
        continue;
      }
      if (connections >= options.connections_most) continue;  // its socket closes
      net::co_spawn(context, attend(std::move(socket)), net::detached);
    }
  }
};

HttpServer::HttpServer(const HttpOptions& options, HttpApp& app)
    : state_(std::make_unique<State>(options, app)) {
  const Tcp::endpoint endpoint = endpoint_of(options.address);
  const bool tls = !options.certificate.empty() || !options.key.empty();
  if (!endpoint.address().is_loopback() && (options.tokens.empty() || !tls))
    fail("--http", "other machines reach " + options.address,
         "add --tokens, --certificate and --key, or listen at 127.0.0.1");
  if (tls) {
#if defined(FK_TLS)
    state_->tls.emplace(net::ssl::context::tls_server);
    state_->tls->set_options(net::ssl::context::default_workarounds | net::ssl::context::no_tlsv1 |
                             net::ssl::context::no_tlsv1_1);
    Fault fault;
    state_->tls->use_certificate_chain_file(options.certificate.string(), fault);
    if (fault) fail(options.certificate.string(), "is no certificate: " + fault.message());
    state_->tls->use_private_key_file(options.key.string(), net::ssl::context::pem, fault);
    if (fault) fail(options.key.string(), "is not the certificate's key: " + fault.message());
#else
    fail("--certificate", "this build has no OpenSSL", "install libssl-dev and build again");
#endif
  }
  Fault fault;
  auto& acceptor = state_->acceptor;
  acceptor.open(endpoint.protocol(), fault);
  if (!fault) acceptor.set_option(net::socket_base::reuse_address(true), fault);
  if (!fault) acceptor.bind(endpoint, fault);
  if (!fault) acceptor.listen(net::socket_base::max_listen_connections, fault);
  if (fault) fail_host(options.address, "cannot listen: " + fault.message());
}

HttpServer::~HttpServer() = default;

std::string HttpServer::url() const {
  const Tcp::endpoint at = state_->acceptor.local_endpoint();
  const std::string host =
      at.address().is_v6() ? "[" + at.address().to_string() + "]" : at.address().to_string();
  const bool tls = !state_->options.certificate.empty();
  return (tls ? "https://" : "http://") + host + ":" + std::to_string(at.port());
}

void HttpServer::run() {
  net::signal_set signals(state_->context, SIGINT, SIGTERM, SIGHUP);
  signals.async_wait([&](const Fault&, int) {
    net::co_spawn(state_->context, state_->drain(signals), net::detached);
  });
  net::co_spawn(state_->context, state_->listen(), net::detached);
  state_->context.run();
}

}  // namespace fk
