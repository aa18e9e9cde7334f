// SPDX-License-Identifier: Apache-2.0
// TCP connections between the machines of a run. At the beginning both ends prove that they know
// the key of the job. Later data are neither encrypted nor signed: the network is trusted.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fk {

// the environment variable with the job's key
inline constexpr const char* kLaunchKey = "FK_LAUNCH_KEY";

// The value of an environment variable, which is then wiped, so that neither children nor readers
// of /proc find it. Empty: unset.
std::string take_from_environment(const char* name);

class LinkListener {
 public:
  // Listens on all addresses of this machine. Error when the port is not available.
  explicit LinkListener(int port);
  LinkListener(const LinkListener&) = delete;
  ~LinkListener();

  struct Link {
    int fd = -1;      // the caller owns it
    uint64_t id = 0;  // the purpose: kControlLink, or the number of an opened thing (machines.hpp)
  };
  // Returns the next connection whose other end knows the key; nothing at the end of the time. It
  // reads from many connections at once, so a silent one delays no other.
  std::optional<Link> accept(const std::string& key, double patience_s);
  // Number of connections that did not prove the key.
  int strangers() const { return strangers_; }

 private:
  struct Caller;
  // welcome() takes a new connection; turn_away() closes a connection without the key.
  void welcome();
  void turn_away(size_t caller);

  int fd_ = -1, strangers_ = 0;
  std::vector<Caller> callers_;  // connections that have not yet proved the key
};

// Connects to such a listener, with retries until the end of the time; the caller owns the
// descriptor. `id` tells the listener the purpose. Error when there is no listener, or it does not
// know the key.
int connect_link(const std::string& host, int port, const std::string& key, uint64_t id,
                 double patience_s);

}  // namespace fk
