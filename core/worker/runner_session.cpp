// SPDX-License-Identifier: Apache-2.0
// Requests about a worker's session, or about the weights that it keeps for others.
#include <unistd.h>

#include "core/base/error.hpp"
#include "core/worker/runner.hpp"

namespace fk {

std::optional<WeightsHandle> Runner::keep(const SessionSpec& spec, uint64_t seed,
                                          const std::string& checkpoint, int local_rank,
                                          const OnProgress& progress) {
  const auto answer = send(messages::Keep{spec, seed, checkpoint, local_rank}, {},
                           options_.open_patience_s, progress);
  if (!answer) return std::nullopt;
  const auto fds = channel_->take_fds();
  if (fds.size() != 1) {
    for (const int fd : fds) ::close(fd);
    bury("protocol", "a malformed answer to keeping");
    return std::nullopt;
  }
  WeightsHandle kept;
  kept.fd = fds[0];
  kept.bytes = answer->bytes;
  kept.on_device = answer->on_device;
  return kept;
}

std::optional<uint64_t> Runner::checksum() {
  return send(messages::Checksum{}, {}, options_.patience_s);
}

std::optional<SessionInfo> Runner::open(const SessionSpec& spec, const WeightsHandle& weights,
                                        const StatesHandle* states) {
  std::vector<int> fds{weights.fd};
  if (states) fds.push_back(states->fd);
  auto answer = send(messages::Open{.name = options_.name,
                                    .spec = spec,
                                    .weights_bytes = weights.bytes,
                                    .weights_on_device = weights.on_device,
                                    .states_bytes = states ? states->bytes : 0},
                     fds, options_.open_patience_s);
  if (!answer) return std::nullopt;
  if (spec.shares_states && !take_states(answer->states_bytes)) return std::nullopt;
  info_ = std::move(answer->session);
  return info_;
}

bool Runner::take_states(int64_t bytes) {
  const auto fds = channel_->take_fds();
  if (states_.fd >= 0) ::close(states_.fd);
  states_ = {};
  if (fds.size() == 1) {
    states_.fd = fds[0];
    states_.bytes = bytes;
    return true;
  }
  for (const int fd : fds) ::close(fd);
  if (fds.empty() && bytes == 0) return true;  // it has no states
  bury("protocol", "a malformed answer to opening");
  return false;
}

bool Runner::join(const RankSeat& seat, int block_fd, const std::vector<int>& sockets,
                  double patience_s) {
  std::vector<int> fds = {block_fd};
  for (const int fd : sockets)
    if (fd >= 0) fds.push_back(fd);
  return send(messages::Join{seat, patience_s}, fds, options_.open_patience_s).has_value();
}

bool Runner::clear() { return send(messages::Clear{}, {}, options_.patience_s).has_value(); }

bool Runner::close_session() {
  return send(messages::CloseSession{}, {}, options_.patience_s).has_value();
}

bool Runner::record(const RecordOptions& options, int file, const std::string& workload) {
  std::vector<int> fds;
  if (!recording_) fds.push_back(file);
  recording_ = true;
  return send(messages::Record{options, workload}, fds, options_.patience_s).has_value();
}

std::optional<Json> Runner::recorded() {
  recording_ = false;
  return send(messages::Recorded{}, {}, options_.patience_s);
}

}  // namespace fk
