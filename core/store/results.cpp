// SPDX-License-Identifier: Apache-2.0
#include "core/store/results.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"
#include "core/store/signed.hpp"

namespace fk {

namespace fs = std::filesystem;

namespace {

constexpr const char* kResults = "results";

}  // namespace

ResultFolder::ResultFolder(const fs::path& folder, const Signer* signer,
                           std::string unsigned_because, Hold hold)
    : folder_(fs::absolute(folder).lexically_normal()),
      signer_(signer),
      unsigned_because_(std::move(unsigned_because)) {
  std::error_code code;
  fs::create_directories(folder_ / kResults, code);
  if (code) fail_host(folder_.string(), "cannot be created: " + code.message());
  const fs::path lock = folder_ / "lock";
  lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) fail_host(lock.string(), "cannot be written: " + errno_text());
  if (::flock(lock_, (hold == Hold::shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) return;
  const int why = errno;
  ::close(lock_);
  if (why == EWOULDBLOCK)
    fail_host(folder_.string(), "another evaluation works in this folder",
              "wait for its end, or name another folder with --folder");
  fail_host(lock.string(), "cannot be locked: " + errno_text());
}

ResultFolder::~ResultFolder() { ::close(lock_); }

std::optional<Json> ResultFolder::read(const fs::path& file) {
  std::error_code none;
  if (!fs::exists(file, none)) return std::nullopt;
  try {
    Json result = load_json(file);
    std::string unverified;
    const std::string by = check_signature(result, file.string(), unverified);
    // Without its key this host cannot tell its own results; without OpenSSL no host can.
    if (by != (signer_ ? signer_->public_key() : std::string()) ||
        (!signer_ && no_signatures().empty()))
      fail(file.string(), "was not signed by this host");
    return result;
  } catch (const Error& error) {
    notes_.push_back("a stored result is not used: " + std::string(error.what()));
    return std::nullopt;
  }
}

std::optional<Json> ResultFolder::find(const VerdictKey& key) {
  const fs::path file = folder_ / kResults / (key.hash() + ".json");
  auto result = read(file);
  if (!result) return std::nullopt;
  if (result->contains("key") && (*result)["key"] == Json(key.parts_json())) return result;
  notes_.push_back("a stored result is not used: " + file.string() + " answers another question");
  return std::nullopt;
}

void ResultFolder::put(const VerdictKey& key, Json result) {
  result["key"] = key.parts_json();
  Json document = with_signer(std::move(result), signer_, unsigned_because_);
  sign(document, signer_);
  try {
    write_file_atomic(folder_ / kResults / (key.hash() + ".json"), document.dump() + "\n");
  } catch (const Error& error) {
    fail_host(folder_.string(), "a result cannot be kept: " + error.what_text(),
              "earlier results are kept; the same command continues behind them");
  }
}

std::vector<Json> ResultFolder::all() {
  std::vector<Json> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder_ / kResults, none)) {
    if (entry.path().extension() != ".json") continue;
    if (auto result = read(entry.path())) out.push_back(std::move(*result));
  }
  return out;
}

}  // namespace fk
