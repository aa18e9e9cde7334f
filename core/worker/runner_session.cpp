// SPDX-License-Identifier: Apache-2.0
// Requests about a worker's session, or about the weights that it keeps for others.
#include <unistd.h>

#include "core/base/error.hpp"
#include "core/worker/runner.hpp"

namespace fk {

std::optional<WeightsHandle> Runner::keep(const SessionSpec& spec, uint64_t seed,
                                          const std::string& checkpoint, int local_rank,
                                          const OnProgress& progress) {
  const auto reply = ask({{"do", "keep"},
                          {"spec", to_json(spec)},
                          {"seed", seed},
                          {"checkpoint", checkpoint},
                          {"local_rank", local_rank}},
                         {}, "kept", options_.open_patience_s, progress);
  if (!reply) return std::nullopt;
  const auto fds = channel_->take_fds();
  if (fds.size() != 1 || !reply->at("kept").is_number_integer()) {
    for (const int fd : fds) ::close(fd);
    bury("protocol", "a malformed answer to keeping");
    return std::nullopt;
  }
  WeightsHandle kept;
  kept.fd = fds[0];
  kept.bytes = reply->at("kept").get<int64_t>();
  kept.on_device = reply->value("on_device", true);
  return kept;
}

std::optional<uint64_t> Runner::checksum() {
  const auto reply = ask({{"do", "checksum"}}, {}, "checksum", options_.patience_s, {});
  if (!reply || !reply->at("checksum").is_number_unsigned()) return std::nullopt;
  return reply->at("checksum").get<uint64_t>();
}

std::optional<SessionInfo> Runner::open(const SessionSpec& spec, const WeightsHandle& weights,
                                        const StatesHandle* states) {
  std::vector<int> fds{weights.fd};
  if (states) fds.push_back(states->fd);
  const auto reply = ask({{"do", "open"},
                          {"name", options_.name},
                          {"spec", to_json(spec)},
                          {"weights_bytes", weights.bytes},
                          {"weights_on_device", weights.on_device},
                          {"states_bytes", states ? states->bytes : 0}},
                         fds, "session", options_.open_patience_s, {});
  if (!reply) return std::nullopt;
  if (spec.shares_states && !take_states(*reply)) return std::nullopt;
  try {
    info_ = session_info_from(reply->at("session"));
  } catch (const Error& e) {
    bury("protocol", e.what());
    return std::nullopt;
  }
  return info_;
}

bool Runner::take_states(const Json& reply) {
  const auto fds = channel_->take_fds();
  if (states_.fd >= 0) ::close(states_.fd);
  states_ = {};
  const auto bytes = reply.find("states_bytes");
  if (fds.size() == 1 && bytes != reply.end() && bytes->is_number_integer()) {
    states_.fd = fds[0];
    states_.bytes = bytes->get<int64_t>();
    return true;
  }
  for (const int fd : fds) ::close(fd);
  if (fds.empty() && bytes != reply.end() && *bytes == 0) return true;  // the session has no states
  bury("protocol", "a malformed answer to opening");
  return false;
}

bool Runner::join(const RankSeat& seat, int block_fd, const std::vector<int>& sockets,
                  double patience_s) {
  std::vector<int> fds = {block_fd};
  for (const int fd : sockets)
    if (fd >= 0) fds.push_back(fd);
  return ask({{"do", "join"}, {"seat", to_json(seat)}, {"patience_s", patience_s}}, fds, "joined",
             options_.open_patience_s, {})
      .has_value();
}

bool Runner::clear() {
  return ask({{"do", "clear"}}, {}, "cleared", options_.patience_s, {}).has_value();
}

bool Runner::close_session() {
  return ask({{"do", "close_session"}}, {}, "closed", options_.patience_s, {}).has_value();
}

bool Runner::record(const RecordOptions& options, int file, const std::string& workload) {
  std::vector<int> fds;
  if (!recording_) fds.push_back(file);
  recording_ = true;
  return ask({{"do", "record"}, {"options", to_json(options)}, {"workload", workload}}, fds,
             "recording", options_.patience_s, {})
      .has_value();
}

std::optional<Json> Runner::recorded() {
  recording_ = false;
  auto reply = ask({{"do", "recorded"}}, {}, "recorded", options_.patience_s, {});
  if (!reply) return std::nullopt;
  return reply->at("recorded");
}

}  // namespace fk
