// SPDX-License-Identifier: Apache-2.0
// Connections between the machines of a run: TCP, with a proof at the beginning that both ends know
// the key of the job. What follows is neither encrypted nor signed: the network is trusted.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fk {

inline constexpr const char* kLaunchKey = "FK_LAUNCH_KEY";

// What is in the environment under this name, which is wiped there, so that no child and nobody who
// looks at /proc finds it. Empty: nothing.
std::string take_from_environment(const char* name);

class LinkListener {
 public:
  // On all addresses of this machine. Error when the port cannot be had.
  explicit LinkListener(int port);
  LinkListener(const LinkListener&) = delete;
  ~LinkListener();

  struct Link {
    int fd = -1;  // the caller's
    uint64_t id = 0;
  };
  // The next connection whose other end knows the key; nothing when the time is over. Many are
  // listened to at once: who connects and says nothing keeps nobody waiting.
  std::optional<Link> accept(const std::string& key, double patience_s);
  // How many others there were.
  int strangers() const { return strangers_; }

 private:
  struct Caller;
  void welcome();
  void turn_away(size_t caller);

  int fd_ = -1, strangers_ = 0;
  std::vector<Caller> callers_;  // that have not proved yet that they know the key
};

// A connection to such a listener, which tries until the time is over; the caller's. `id` says what
// it is for. Error when nobody is there, or somebody who does not know the key.
int connect_link(const std::string& host, int port, const std::string& key, uint64_t id,
                 double patience_s);

}  // namespace fk
