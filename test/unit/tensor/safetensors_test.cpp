// SPDX-License-Identifier: Apache-2.0
//
// If these fail, a damaged or hostile checkpoint is read, or a good one is not.

#include "core/tensor/safetensors.hpp"

#include <unistd.h>

#include <cstring>

#include "core/base/error.hpp"
#include "test/catch.hpp"
#include "test/folder.hpp"

using namespace fk;

namespace {

namespace fs = std::filesystem;

std::string image_of(const std::string& header, std::size_t data_bytes) {
  std::string image(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(image.data(), &length, 8);
  return image + header + std::string(data_bytes, 'x');
}

std::string refusal_of_file(const std::string& image) {
  return message_of<Error>([&] { SafeTensors::parse(std::as_bytes(std::span(image)), "f"); });
}
std::string refusal_of_file(const std::string& header, std::size_t data_bytes) {
  return refusal_of_file(image_of(header, data_bytes));
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
         "],\"data_offsets\":[" + offsets + "]}";
}

}  // namespace

TEST_CASE("safetensors_written_is_read_back", "[tensor]") {
  const Folder folder;
  const fs::path file = folder.path / "model.safetensors";
  std::map<std::string, Tensor> tensors;
  std::map<std::string, TensorView> views;
  for (const DType dtype : all_dtypes()) {
    const std::string key = "w." + std::string(name(dtype));
    tensors[key] = Tensor::of(dtype, {3}, {1, 0, 1});
    views[key] = tensors[key];
  }
  tensors["scalar"] = Tensor::of(DType::f32, {}, {4});
  tensors["empty"] = Tensor(DType::f32, {0, 2});
  views["scalar"] = tensors["scalar"];
  views["empty"] = tensors["empty"];
  const Tensor matrix = Tensor::of(DType::f32, {2, 2}, {1, 2, 3, 4});
  views["turned"] = TensorView(matrix.data(), DType::f32, {2, 2}, {1, 2});
  write_safetensors(file, views, {{"format", "pt"}});
  const Checkpoint checkpoint = Checkpoint::open(folder.path);
  CHECK(checkpoint.names().size() == views.size());
  for (const auto& [key, tensor] : tensors) {
    CHECK(checkpoint.at(key).load().values() == tensor.values());
  }
  CHECK(checkpoint.at("turned").load().values() == std::vector<double>{1, 3, 2, 4});
  CHECK(SafeTensors::open(file).metadata().at("format") == "pt");
  CHECK_THAT(message_of<Error>([&] { checkpoint.at("w.f33"); }),
             ContainsSubstring("has no tensor `w.f33` (did you mean `w.f32`?)"));
  CHECK_THROWS_AS(SafeTensors::open(file).at("nothing"), Error);
}

TEST_CASE("safetensors_unaligned_data_is_read", "[tensor]") {
  const std::string image =
      image_of("{" + entry("a", "U8", "1", "0,1") + "," + entry("b", "F32", "1", "1,5") + "}", 5);
  const SafeTensors file = SafeTensors::parse(std::as_bytes(std::span(image)), "f");
  CHECK(file.at("b").load().at(0) != 0);
  CHECK(file.at("b").view().to(DType::f64).numel() == 1);
}

TEST_CASE("safetensors_damaged_is_refused", "[tensor]") {
  CHECK_THAT(refusal_of_file(std::string("abc")), ContainsSubstring("header length alone takes 8"));
  CHECK_THAT(refusal_of_file(std::string(16, '\xFF')), ContainsSubstring("its header would take"));
  CHECK_THAT(refusal_of_file(image_of("{}", 0).substr(0, 9)), ContainsSubstring("is truncated"));
  CHECK_THAT(refusal_of_file("[]", 0), ContainsSubstring("no JSON object"));
  CHECK_THAT(refusal_of_file("{\"a\":", 0), ContainsSubstring("f (header):1:"));
  CHECK_THAT(refusal_of_file("{\"a\":1}", 0), ContainsSubstring("must be an object"));
  CHECK_THAT(refusal_of_file("{}", 3),
             ContainsSubstring("3 bytes of data that belong to no tensor"));
  CHECK_THAT(refusal_of_file("{\"a\":" + std::string(1000, '['), 0),
             ContainsSubstring("deeper than"));
  CHECK_THAT(refusal_of_file("{\"__metadata__\":{\"a\":1}}", 0), ContainsSubstring("must be text"));
  CHECK_THAT(refusal_of_file(
                 "{" + entry("a", "U8", "1", "0,1") + "," + entry("a", "U8", "1", "0,1") + "}", 1),
             ContainsSubstring("the key `a` is there twice"));
  CHECK_THAT(
      refusal_of_file("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}", 1),
      ContainsSubstring("unknown key `x`"));
  CHECK_THAT(refusal_of_file("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1),
             ContainsSubstring("has no `data_offsets`"));
}

TEST_CASE("safetensors_wrong_ranges_are_refused", "[tensor]") {
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
    return refusal_of_file("{" + entry("a", dtype, shape, offsets) + "}", 4);
  };
  CHECK_THAT(one("F32", "1", "0,8"), ContainsSubstring("ends at byte 8 of 4 bytes"));
  CHECK_THAT(one("F32", "1", "4,0"), ContainsSubstring("before it begins"));
  CHECK_THAT(one("F32", "2", "0,4"), ContainsSubstring("4 bytes where f32 [2] needs 8"));
  CHECK_THAT(one("F32", "1", "0"), ContainsSubstring("list of two"));
  CHECK_THAT(one("F32", "-1", "0,4"), ContainsSubstring("at least 0"));
  CHECK_THAT(one("F32", "1.0", "0,4"), ContainsSubstring("whole numbers"));
  CHECK_THAT(one("F32", "1", "0,18446744073709551615"), ContainsSubstring("at least 0"));
  CHECK_THAT(one("F32", "4294967296,4294967296", "0,4"), ContainsSubstring("too many elements"));
  CHECK_THAT(one("F64", "4611686018427387904", "0,4"), ContainsSubstring("too large"));
  CHECK_THAT(one("F99", "1", "0,4"), ContainsSubstring("unknown element type `F99`"));
  CHECK_THAT(one("U8", "3", "1,4"), ContainsSubstring("leaves 1 bytes before it unused"));
  CHECK_THAT(one("U8", "3", "0,3"), ContainsSubstring("1 bytes of data that belong to no tensor"));
  CHECK_THAT(refusal_of_file(
                 "{" + entry("a", "U8", "3", "0,3") + "," + entry("b", "U8", "2", "2,4") + "}", 4),
             ContainsSubstring("tensor `b`: overlaps another tensor"));
}

TEST_CASE("checkpoint_index_is_checked", "[tensor]") {
  const Folder folder;
  const auto message = [&] { return message_of<Error>([&] { Checkpoint::open(folder.path); }); };
  const auto index = [&](const std::string& map) {
    write_file_atomic(folder.path / "model.safetensors.index.json",
                      "{\"weight_map\":{" + map + "}}");
  };
  CHECK_THAT(message(), ContainsSubstring("holds no *.safetensors"));
  const Tensor one = Tensor::of(DType::bf16, {2}, {1, 2});
  write_safetensors(folder.path / "s-1.safetensors", {{"a", one}});
  CHECK(Checkpoint::open(folder.path).has("a"));
  write_safetensors(folder.path / "s-2.safetensors", {{"b", one}});
  CHECK_THAT(message(), ContainsSubstring("holds 2 *.safetensors but no"));
  index("\"a\":\"s-1.safetensors\",\"b\":\"s-2.safetensors\"");
  CHECK(Checkpoint::open(folder.path).names() == std::vector<std::string>{"a", "b"});
  CHECK(Checkpoint::open(folder.path).bytes() == 8);
  index("\"a\":\"s-3.safetensors\"");
  CHECK_THAT(message(),
             ContainsSubstring("the shard `s-3.safetensors` is missing (needed for `a`)"));
  index("\"c\":\"s-1.safetensors\"");
  CHECK_THAT(message(), ContainsSubstring("lacks the tensor `c` that weight_map puts there"));
  index("\"a\":\"../s-1.safetensors\"");
  CHECK_THAT(message(), ContainsSubstring("must be a plain file name"));
  index("\"a\":1");
  CHECK_THAT(message(), ContainsSubstring("the shard must be text"));
  CHECK_THROWS_AS(Checkpoint::open(folder.path / "none"), Error);
}
