// SPDX-License-Identifier: Apache-2.0
// Signs and verifies with OpenSSL, and keeps the private key in a file (signer.hpp). Without
// OpenSSL every function says so.
#include "core/store/signer.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"

#if defined(FK_OPENSSL)
#include <openssl/crypto.h>
#include <openssl/evp.h>
#endif

namespace fk {

namespace {

namespace fs = std::filesystem;

constexpr size_t kKeyBytes = 32, kSignatureBytes = 64;

#if defined(FK_OPENSSL)
struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

const unsigned char* unsigned_data(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// Skips the library's configuration file, which costs time and could swap the algorithm. Skips
// tables of algorithms and errors too: they take longer than the rest of a stored answer.
void start_library() {
  constexpr uint64_t kBare = OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS |
                             OPENSSL_INIT_NO_ADD_ALL_CIPHERS | OPENSSL_INIT_NO_ADD_ALL_DIGESTS;
  static const bool started = OPENSSL_init_crypto(kBare, nullptr) == 1;
  if (!started) fail("signature", "OpenSSL cannot be started");
}

Key private_key_of(std::string_view bytes) {
  start_library();
  Key key(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, unsigned_data(bytes), bytes.size()));
  if (!key) fail("signature", "OpenSSL does not take the private key");
  return key;
}

std::string public_key_of(std::string_view private_key) {
  const Key key = private_key_of(private_key);
  std::string out(kKeyBytes, '\0');
  size_t length = out.size();
  if (EVP_PKEY_get_raw_public_key(key.get(), reinterpret_cast<unsigned char*>(out.data()),
                                  &length) != 1 ||
      length != kKeyBytes)
    fail("signature", "OpenSSL has no public key for the private one");
  return out;
}
#endif

std::string hex_of(std::string_view bytes) {
  return hex_text({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

// Writes the text to a new file. Returns an empty text, or the reason of the failure.
[[maybe_unused]] std::string write_private(const fs::path& file, const std::string& text) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return errno_text();
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(fd) == 0;
  const std::string why = written ? "" : errno_text();
  ::close(fd);
  return why;
}

// A new key file appears complete or not at all, and never replaces a file. Returns an empty text,
// or the reason of the failure.
[[maybe_unused]] std::string make_key(const fs::path& file) {
  std::string bytes(kKeyBytes, '\0');
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return "the kernel gives no random numbers";
  std::error_code code;
  fs::create_directories(file.parent_path(), code);
  if (code) return file.parent_path().string() + " cannot be made: " + code.message();
  const fs::path fresh =
      file.string() + "." + std::to_string(::getpid()) + "." + hex_of(bytes).substr(0, 8) + ".new";
  std::string why = write_private(fresh, hex_of(bytes) + "\n");
  // EEXIST: another process has made the key first, and its key counts.
  if (why.empty() && ::link(fresh.c_str(), file.c_str()) != 0 && errno != EEXIST)
    why = errno_text();
  ::unlink(fresh.c_str());
  return why.empty() ? why : file.string() + " cannot be written: " + why;
}

}  // namespace

#if defined(FK_OPENSSL)

std::string no_signatures() { return {}; }

std::optional<Signer> Signer::open(const fs::path& file, std::string& why) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) {
    if (why = make_key(file); !why.empty()) return std::nullopt;
    if (::stat(file.c_str(), &info) != 0) {
      why = file.string() + " cannot be read: " + errno_text();
      return std::nullopt;
    }
  }
  if (info.st_uid != ::geteuid()) {
    why = file.string() + " holds a private key of another user";
    return std::nullopt;
  }
  if ((info.st_mode & 077) != 0) {
    why = file.string() + " holds a private key and can be read by others (chmod 600)";
    return std::nullopt;
  }
  try {
    Signer out;
    out.private_key_ = bytes_of_hex(trim(read_file(file, 4096)), kKeyBytes, file.string());
    out.public_key_ = hex_of(public_key_of(out.private_key_));
    return out;
  } catch (const Error& error) {
    why = error.what();
    return std::nullopt;
  }
}

std::string Signer::sign(std::string_view bytes) const {
  const Key key = private_key_of(private_key_);
  const Context context(EVP_MD_CTX_new());
  std::string out(kSignatureBytes, '\0');
  size_t length = out.size();
  if (!context || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(out.data()), &length,
                     unsigned_data(bytes), bytes.size()) != 1 ||
      length != kSignatureBytes)
    fail("signature", "OpenSSL cannot sign");
  return hex_of(out);
}

bool verify_signature(std::string_view public_key, std::string_view bytes,
                      std::string_view signature, std::string& why) {
  try {
    start_library();
    const std::string raw = bytes_of_hex(public_key, kKeyBytes, "the public key"),
                      signed_with = bytes_of_hex(signature, kSignatureBytes, "the signature");
    const Key key(
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, unsigned_data(raw), raw.size()));
    const Context context(EVP_MD_CTX_new());
    if (key && context &&
        EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
        EVP_DigestVerify(context.get(), unsigned_data(signed_with), signed_with.size(),
                         unsigned_data(bytes), bytes.size()) == 1)
      return true;
    why = "the signature does not belong to these contents and this key";
  } catch (const Error& error) {
    why = error.what();
  }
  return false;
}

#else

std::string no_signatures() { return "fk-host was built without OpenSSL (libssl-dev)"; }

std::optional<Signer> Signer::open(const fs::path&, std::string& why) {
  why = no_signatures();
  return std::nullopt;
}

std::string Signer::sign(std::string_view) const { fail("signature", no_signatures()); }

bool verify_signature(std::string_view, std::string_view, std::string_view, std::string& why) {
  why = no_signatures();
  return false;
}

#endif

}  // namespace fk
