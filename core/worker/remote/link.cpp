// SPDX-License-Identifier: Apache-2.0
// TCP connections with a mutual proof of the job's key. The connecting side sends a random number
// and its purpose. The listener answers with its own random number and an HMAC of both, and gets
// another HMAC. Each side's HMAC begins with its own word, so recorded proofs are useless.
#include "core/worker/remote/link.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/worker/channel.hpp"

namespace fk {

namespace {

constexpr double kProofS = 5;        // for each step of the proof
constexpr size_t kCallersMost = 64;  // unproved connections at once; beyond it one is dropped
constexpr std::array<char, 8> kLinkMagic = {'f', 'k', '-', 'l', 'i', 'n', 'k', '1'};

using Nonce = std::array<char, 16>;
// First message of the connecting side; `id` is the purpose.
struct LinkCall {
  std::array<char, 8> magic;
  Nonce nonce;
  uint64_t id;
};
// Answer of the listener.
struct LinkAnswer {
  Nonce nonce;
  Sha256::Digest proof;
};
static_assert(sizeof(LinkCall) == 32 && sizeof(LinkAnswer) == 48);

Nonce random_nonce() {
  Nonce out;
  if (::getentropy(out.data(), out.size()) != 0) fail("launcher", "there is no randomness");
  return out;
}

// `who`: "first" for the listener's proof, "other" for the proof of the connecting side.
Sha256::Digest proof_of(const std::string& key, const char* who, const LinkCall& call,
                        const Nonce& answer) {
  std::string text = std::string(who) + '\0';
  text.append(reinterpret_cast<const char*>(&call), sizeof call);
  text.append(answer.data(), answer.size());
  return hmac_sha256(key, text);
}

// Compares in constant time.
bool same_proof(const Sha256::Digest& a, const Sha256::Digest& b) {
  unsigned differ = 0;
  for (size_t i = 0; i < a.size(); ++i) differ |= static_cast<unsigned>(a[i] ^ b[i]);
  return differ == 0;
}

// Transfers all bytes within the time, and no byte more: later bytes belong to another reader.
bool transfer(int fd, void* data, size_t bytes, bool send, double patience_s) {
  const double end = now_seconds() + patience_s;
  for (auto* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t done = send ? ::send(fd, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
                              : ::recv(fd, at, bytes, MSG_DONTWAIT);
    if (done > 0) {
      at += done;
      bytes -= static_cast<size_t>(done);
    } else if (done == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) ||
               !wait_for(fd, send ? POLLOUT : POLLIN, end - now_seconds())) {
      return false;
    }
  }
  return true;
}
template <class T>
bool send_all(int fd, T value) {
  return transfer(fd, &value, sizeof value, true, kProofS);
}

// Messages are sent at once, and a silently lost machine is noticed within seconds.
void set_options_of(int fd) {
  const auto set = [&](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

int listening(int family, int port) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int yes = 1, no = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<uint16_t>(port));
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = six.sin6_port;
  const bool is_six = family == AF_INET6;
  if (is_six) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  const auto* address =
      is_six ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
  if (::bind(fd, address, is_six ? sizeof six : sizeof four) == 0 && ::listen(fd, 128) == 0)
    return fd;
  const int code = errno;
  ::close(fd);
  errno = code;
  return -1;
}

// True if a connection is connected to itself, which can happen before the listener exists.
bool is_loop(int fd) {
  sockaddr_storage here{}, there{};
  socklen_t size = sizeof here, other = sizeof there;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &size) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &other) == 0 && size == other &&
         std::memcmp(&here, &there, size) == 0;
}

// A connection to one of the host's addresses, or -1.
int connected(const std::string& host, int port, double end) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) return -1;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
  for (const addrinfo* at = found; at; at = at->ai_next) {
    const int fd = ::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    int code = 0;
    socklen_t size = sizeof code;
    if ((::connect(fd, at->ai_addr, at->ai_addrlen) == 0 || errno == EINPROGRESS) &&
        wait_for(fd, POLLOUT, std::min(end - now_seconds(), kProofS)) &&
        ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) == 0 && code == 0 && !is_loop(fd)) {
      ::fcntl(fd, F_SETFL, 0);  // callers set their own non-blocking modes
      return fd;
    }
    ::close(fd);
  }
  return -1;
}

}  // namespace

std::string take_from_environment(const char* name) {
  char* value = std::getenv(name);
  if (!value) return "";
  std::string out = value;
  std::fill_n(value, out.size(), '\0');
  ::unsetenv(name);
  return out;
}

// A connection that has not proved the key yet: the bytes read so far, and its time limit.
struct LinkListener::Caller {
  int fd = -1;
  double end = now_seconds() + kProofS;
  LinkCall call{};
  LinkAnswer answer{};
  Sha256::Digest proof{};
  size_t got = 0;  // bytes of `call` and then of `proof`

  // known: it has proved the key; silent: it must send more; strange: it does not know the key.
  enum class Is { known, silent, strange };
  // Reads the received bytes of the proof, and no byte more: later bytes belong to another reader.
  Is listen(const std::string& key) {
    for (;;) {
      const bool first = got < sizeof call;
      char* const at = first ? reinterpret_cast<char*>(&call) + got
                             : reinterpret_cast<char*>(proof.data()) + (got - sizeof call);
      const size_t left = (first ? sizeof call : sizeof call + proof.size()) - got;
      const ssize_t come = ::recv(fd, at, left, MSG_DONTWAIT);
      if (come < 0 && errno == EINTR) continue;
      if (come < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Is::silent;
      if (come <= 0) return Is::strange;
      got += static_cast<size_t>(come);
      if (static_cast<size_t>(come) < left) continue;
      if (!first)
        return same_proof(proof, proof_of(key, "other", call, answer.nonce)) ? Is::known
                                                                             : Is::strange;
      if (call.magic != kLinkMagic) return Is::strange;
      answer.nonce = random_nonce();
      answer.proof = proof_of(key, "first", call, answer.nonce);
      // The answer fits into an empty socket buffer.
      if (!transfer(fd, &answer, sizeof answer, true, 0)) return Is::strange;
      end = now_seconds() + kProofS;
    }
  }
};

LinkListener::LinkListener(int port) : fd_(listening(AF_INET6, port)) {
  if (fd_ < 0 && errno != EADDRINUSE) fd_ = listening(AF_INET, port);
  if (fd_ < 0)
    fail("MASTER_PORT " + std::to_string(port), "cannot be had: " + errno_text(),
         "choose another one");
}

LinkListener::~LinkListener() {
  for (const Caller& caller : callers_) ::close(caller.fd);
  ::close(fd_);
}

void LinkListener::turn_away(size_t caller) {
  ++strangers_;
  ::close(callers_[caller].fd);
  callers_.erase(callers_.begin() + static_cast<ptrdiff_t>(caller));
}

void LinkListener::welcome() {
  const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return;
  set_options_of(fd);
  if (callers_.size() == kCallersMost) {
    // The caller with the fewest bytes is dropped first: one that has an answer is about to prove
    // the key.
    const auto least =
        std::min_element(callers_.begin(), callers_.end(),
                         [](const Caller& a, const Caller& b) { return a.got < b.got; });
    turn_away(static_cast<size_t>(least - callers_.begin()));
  }
  callers_.emplace_back().fd = fd;
}

std::optional<LinkListener::Link> LinkListener::accept(const std::string& key, double patience_s) {
  const double end = now_seconds() + patience_s;
  for (bool last = false; !last;) {
    std::vector<pollfd> entries{{fd_, POLLIN, 0}};
    double until = end;
    for (const Caller& caller : callers_) {
      entries.push_back({caller.fd, POLLIN, 0});
      until = std::min(until, caller.end);
    }
    const double left = std::max(0.0, until - now_seconds());
    if (::poll(entries.data(), entries.size(), static_cast<int>(std::ceil(left * 1e3))) < 0)
      continue;  // interrupted by a signal
    last = now_seconds() >= end;
    for (size_t i = callers_.size(); i-- > 0;) {
      using Is = Caller::Is;
      const Is is = entries[i + 1].revents ? callers_[i].listen(key) : Is::silent;
      if (is == Is::known) {
        const Link out{callers_[i].fd, callers_[i].call.id};
        callers_.erase(callers_.begin() + static_cast<ptrdiff_t>(i));
        return out;
      }
      if (is == Is::strange || now_seconds() >= callers_[i].end) turn_away(i);
    }
    if (entries[0].revents) welcome();
  }
  return std::nullopt;
}

int connect_link(const std::string& host, int port, const std::string& key, uint64_t id,
                 double patience_s) {
  const std::string where = host + ":" + std::to_string(port);
  const std::string same_key = std::string(kLaunchKey) + " has to be the same on all machines";
  const double end = now_seconds() + patience_s;
  // met: a listener accepted the connection at least once.
  for (bool met = false;;) {
    if (const int fd = connected(host, port, end); fd >= 0) {
      met = true;
      set_options_of(fd);
      const LinkCall call{kLinkMagic, random_nonce(), id};
      LinkAnswer answer{};
      const bool told = send_all(fd, call) && transfer(fd, &answer, sizeof answer, false, kProofS);
      const bool known =
          told && same_proof(answer.proof, proof_of(key, "first", call, answer.nonce));
      if (known && send_all(fd, proof_of(key, "other", call, answer.nonce))) return fd;
      ::close(fd);
      if (told && !known) fail(where, "who listens there does not know the key", same_key);
    }
    // A listener with too many callers may have dropped this one.
    if (now_seconds() >= end && met)
      fail(where, "who listens there is no rank of this job", same_key);
    if (now_seconds() >= end)
      fail(where, "rank 0 does not answer there", "MASTER_ADDR and MASTER_PORT say where it is");
    ::usleep(50'000);
  }
}

}  // namespace fk
