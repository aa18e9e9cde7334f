// SPDX-License-Identifier: Apache-2.0
#include "core/cli/serve/server.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/fields.hpp"
#include "core/base/machine.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/device/identity.hpp"
#include "core/worker/channel.hpp"

namespace fk {

namespace fs = std::filesystem;

namespace {

constexpr double kSendSeconds = 10, kLookSeconds = 3600;

// A connected descriptor, or -1.
int connect_to(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      peer_of(fd))
    return fd;
  ::close(fd);
  return -1;
}

// A question is sent as a verdict without a result.
Json message_of(const Question& question, const Secret* secret) {
  InnerVerdict asked;
  asked.candidate.path = fs::absolute(question.candidate).string();
  const std::string& known = question.candidate_hash;
  asked.candidate.sha256 = known.empty() ? sha256_file(question.candidate) : known;
  asked.policy = question.policy;
  asked.device = question.device;
  return to_fields(
      ServerQuestion{std::move(asked), secret ? secret->hex() : "", surroundings(question.device)});
}

// True for a progress message, which goes to `progress`; false for an answer.
bool tell(const ServerMessage& message, const JudgeProgress& progress) {
  if (message.step && progress.step) progress.step(*message.step);
  if (message.ended && progress.ended) progress.ended(*message.ended);
  return message.step || message.ended;
}

// Conditions of a verdict beside the question.
struct Surroundings {
  std::string build, device, driver;
  std::vector<std::string> registry, plugins;
  FK_FIELDS(build, device, driver, registry, plugins)
};

}  // namespace

fs::path socket_path(const std::string& device, bool checks) {
  std::string name = device;
  for (char& c : name)
    if (c == ':' || c == '/') c = '-';
  const fs::path path =
      fs::absolute(paths::data_dir()) / ("serve-" + name + (checks ? "-checks" : "") + ".socket");
  if (path.string().size() >= sizeof sockaddr_un{}.sun_path)
    fail(path.string(), "the path is too long for a socket", "set FK_DATA to a shorter one");
  return path;
}

Json surroundings(const std::string& device) {
  const DeviceIdentity identity = identity_of_device(device);
  Surroundings out{own_build_id(), identity.device, identity.driver, {}, {}};
  std::error_code none;
  for (const auto& dir : paths::registry_dirs())
    out.registry.push_back(fs::canonical(dir, none).string());
  for (const auto& dir : paths::plugin_dirs())
    out.plugins.push_back(fs::canonical(dir, none).string());
  return to_fields(out);
}

Asked asked_from(const Json& message) {
  auto [asked, hex, others] = from_fields<ServerQuestion>(message, "a message");
  Asked out;
  out.question.candidate = asked.candidate.path;
  out.question.candidate_hash = asked.candidate.sha256;
  out.question.policy = asked.policy;
  out.question.device = asked.device;
  if (!hex.empty()) out.secret = Secret::from_hex(hex, "a message.secret");
  out.surroundings = std::move(others);
  return out;
}

std::optional<Verdict> ask_server(const Question& question, const Secret* secret,
                                  const JudgeProgress& progress) {
  if (!question.policy.sandbox || !question.also.empty()) return std::nullopt;
  int fd = -1;
  try {
    if (question.policy.seconds == 0) fd = connect_to(socket_path(question.device, true));
    if (fd < 0) fd = connect_to(socket_path(question.device, false));
  } catch (const Error&) {  // no server has such a path
  }
  if (fd < 0) return std::nullopt;
  Channel channel(fd, false);
  if (!channel.send(message_of(question, secret), {}, kSendSeconds)) return std::nullopt;
  for (;;) {
    if (const auto received = channel.receive()) {
      const auto message = from_fields<ServerMessage>(*received, "the server's message", {});
      if (const auto& e = message.error) fail(e->where, e->what, e->hint);
      if (tell(message, progress)) continue;
      return message.verdict;
    }
    if (channel.closed()) return std::nullopt;
    wait_readable(fd, kLookSeconds);
  }
}

}  // namespace fk
