// SPDX-License-Identifier: Apache-2.0
// SHA-256 against the vectors of FIPS 180-4, at every length around a block, and of a file.
#include "core/base/sha256.hpp"

#include <filesystem>
#include <fstream>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "test/catch.hpp"

using namespace fk;

TEST_CASE("SHA-256 has the published values") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 in pieces, or in portable code, is SHA-256 in one") {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (size_t length : {0u, 1u, 55u, 56u, 63u, 64u, 65u, 119u, 120u, 128u, 300u}) {
    const std::string whole = sha256(std::string_view(text).substr(0, length));
    for (size_t step : {1u, 3u, 64u, 100u}) {
      Sha256 hash(step == 3);
      for (size_t at = 0; at < length; at += step)
        hash.update(std::string_view(text).substr(at, std::min(step, length - at)));
      INFO(length << " bytes in steps of " << step);
      CHECK(hex_text(hash.finish()) == whole);
    }
  }
}

TEST_CASE("messages are signed as RFC 4231 says") {
  const auto signed_by = [](const std::string& key, const std::string& text) {
    return hex_text(hmac_sha256(key, text));
  };
  CHECK(signed_by("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(signed_by(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(signed_by(std::string(131, '\xaa'),
                  "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("a file's hash is that of its contents") {
  const auto path = std::filesystem::temp_directory_path() / "fk_sha256_test";
  const std::string text(700000, 'x');
  write_file_atomic(path, text);
  CHECK(sha256_file(path) == sha256(text));
  std::filesystem::remove(path);
  CHECK_THROWS_AS(sha256_file(path), Error);
  CHECK_THROWS_AS(sha256_file("/"), Error);
  CHECK_THROWS_AS(sha256_file("/dev/zero"), Error);
  // A file of a terabyte that has no bytes on its disk would be read for an hour.
  std::ofstream(path) << "x";
  std::filesystem::resize_file(path, uint64_t{1} << 40);
  CHECK_THROWS_WITH(sha256_file(path), ContainsSubstring("is larger than 1.0 GiB"));
  std::filesystem::remove(path);
}

TEST_CASE("hex digits go both ways and nothing else passes") {
  const std::string bytes = bytes_of_hex("00ff7a", 3, "x");
  CHECK(bytes == std::string("\0\xff\x7a", 3));
  for (const char* bad : {"00ff", "00ff7", "00ff7a0", "00FF7A", "00fg7a", "zz"})
    CHECK_THROWS_AS(bytes_of_hex(bad, 3, "x"), Error);
}
