// SPDX-License-Identifier: Apache-2.0
// Recorded cases are read back as they were, and nothing that a folder can hold gets further than
// an Error.
#include "core/cases/captured.hpp"
#include "core/base/fields.hpp"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/cases/inputs.hpp"
#include "core/exec/recorder.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"
#include "test/unit/catalog.hpp"

namespace fs = std::filesystem;
using fk::Json;

namespace {

std::string name_of(const fk::Tensor& t) { return fk::content_name(t.dtype, t.shape, t.data()); }

// A folder with one case of moe_align and one of rms_norm.
struct CapturedFolder {
  fs::path path = fs::temp_directory_path() / ("fk-captured-" + std::to_string(::getpid()));
  fk::Tensor ids = fk::Tensor::of(fk::DType::i32, {3, 2}, {1, 0, 3, 2, 1, 3});
  Json index;

  CapturedFolder() {
    fs::create_directories(path);
    fk::write_safetensors(path / "tensors-0.safetensors", {{name_of(ids), ids}});
    fk::RecordedCase align;
    align.op = "moe_align";
    align.revision = 1;
    align.name = "decode.0";
    align.init = {{"num_experts", "4"}};
    align.axes = {{"T", 3}, {"K", 2}};
    align.dtypes = {{"topk_ids", "i32"}};
    align.shapes = {{"topk_ids", {{3, 2}}}, {"row_ids", {{6}}}, {"expert_offsets", {{5}}}};
    align.tensors = {{"topk_ids", {name_of(ids)}}};
    fk::CaptureIndex all;
    all.scenario = "mixtral";
    all.profile = "tiny";
    all.files = {"tensors-0.safetensors"};
    all.cases = {align};
    index = fk::to_document(fk::CaptureIndex::kSchema, all);
    write(index);
  }
  ~CapturedFolder() { fs::remove_all(path); }
  void write(const Json& what) const {
    fk::write_file_atomic(path / fk::kCaptureIndex, what.dump());
  }
  std::string why() const {
    return message_of<fk::Error>([&] { fk::Captured::open(path, catalog()).cases("moe_align"); });
  }
  std::string why(const Json& what) const {
    write(what);
    return why();
  }
};

// Every place in a document, as pointers.
void places(const Json& node, const std::string& at, std::vector<std::string>& out) {
  if (!at.empty()) out.push_back(at);
  if (node.is_object())
    for (const auto& [key, value] : node.items()) places(value, at + "/" + key, out);
  if (node.is_array())
    for (size_t i = 0; i < node.size(); ++i) places(node[i], at + "/" + std::to_string(i), out);
}

}  // namespace

TEST_CASE("captured_numbers_are_within_the_contracts_bounds") {
  CapturedFolder folder;
  folder.ids.set(2, 4);  // of 4 experts
  fk::write_safetensors(folder.path / "tensors-0.safetensors", {{name_of(folder.ids), folder.ids}});
  folder.index["cases"][0]["tensors"]["topk_ids"] = {name_of(folder.ids)};
  CHECK_THAT(folder.why(folder.index), ContainsSubstring("4 is not within 0 and 3"));
}

TEST_CASE("captured_cases_have_the_contents_that_were_seen") {
  const CapturedFolder folder;
  const auto captured = fk::Captured::open(folder.path, catalog());
  CHECK(captured.ops() == std::vector<std::string>{"moe_align"});
  CHECK(captured.random_weights());
  CHECK_THAT(captured.origin(), ContainsSubstring("mixtral (tiny), random weights"));
  CHECK(captured.cases("rms_norm").empty());
  const auto cases = captured.cases("moe_align");
  REQUIRE(cases.size() == 1);
  const auto& contract = catalog().at("moe_align");
  const auto values = fk::make_inputs(fk::resolve(contract, cases[0], {}), 9, 1);
  CHECK(values.at("topk_ids")[0].values() == folder.ids.values());
  // They hold for the sizes that were seen; others are made.
  fk::Variant smaller;
  smaller.axes["T"] = 1;
  const auto made = fk::make_inputs(fk::resolve(contract, cases[0], smaller), 9, 1);
  CHECK(made.at("topk_ids")[0].shape == fk::Shape{1, 2});
}

TEST_CASE("captured_mistakes_are_told_with_case_and_field") {
  const CapturedFolder folder;
  const auto changed = [&](const std::string& pointer, const Json& value) {
    Json index = folder.index;
    index[Json::json_pointer(pointer)] = value;
    return folder.why(index);
  };
  CHECK_THAT(changed("/schema", "fk-host.capture/2"),
             ContainsSubstring("capture.json") && ContainsSubstring("this host reads"));
  CHECK_THAT(changed("/cases/0/op", "moe_aling"), ContainsSubstring("did you mean `moe_align`"));
  CHECK_THAT(changed("/cases/0/revision", 7), ContainsSubstring("this host has revision 1"));
  CHECK_THAT(changed("/cases/0/axes/T", 4), ContainsSubstring("cases[0]") &&
                                                ContainsSubstring("topk_ids") &&
                                                ContainsSubstring("[3, 2]"));
  CHECK_THAT(changed("/cases/0/axes/X", 4), ContainsSubstring("is no axis of moe_align"));
  CHECK_THAT(changed("/cases/0/axes/T", -1), ContainsSubstring("is no size"));
  CHECK_THAT(changed("/cases/0/init/num_experts", "0"), ContainsSubstring("range"));
  CHECK_THAT(changed("/cases/0/tensors", Json::object()),
             ContainsSubstring("topk_ids") && ContainsSubstring("whole numbers are not made up"));
  CHECK_THAT(changed("/cases/0/tensors/topk_ids/0", "00"), ContainsSubstring("in none of the"));
  CHECK_THAT(changed("/cases/0/tensors/row_ids", Json::array()), ContainsSubstring("an output"));
  CHECK_THAT(changed("/files/0", "../tensors-0.safetensors"), ContainsSubstring("folder in it"));
  CHECK_THAT(changed("/files/0", "tensors-1.safetensors"), ContainsSubstring("tensors-1"));
  Json twice = folder.index;
  twice["cases"].push_back(twice["cases"][0]);
  CHECK_THAT(folder.why(twice), ContainsSubstring("is there twice for moe_align"));
  folder.write(folder.index);
  fk::Tensor other = folder.ids;
  other.set(0, 2);
  fk::write_safetensors(folder.path / "tensors-0.safetensors", {{name_of(folder.ids), other}});
  CHECK_THAT(folder.why(), ContainsSubstring("has other contents than its name says"));
  fs::remove(folder.path / fk::kCaptureIndex);
  CHECK_THAT(folder.why(), ContainsSubstring("there is no capture.json"));
}

// Nothing but an Error, whatever stands in the index or the file of tensors.
TEST_CASE("captured_folders_of_strangers_never_do_harm") {
  const CapturedFolder folder;
  const auto survives = [&] {
    try {
      for (const auto& c : fk::Captured::open(folder.path, catalog()).cases("moe_align"))
        fk::make_inputs(fk::resolve(catalog().at("moe_align"), c, {}), 1, 1);
      return true;
    } catch (const fk::Error&) {
      return false;
    }
  };
  REQUIRE(survives());
  std::vector<std::string> all;
  places(folder.index, "", all);
  REQUIRE(all.size() > 30);
  const std::vector<Json> odd = {nullptr,
                                 -1,
                                 0,
                                 int64_t{1} << 62,
                                 1.5,
                                 "nonsense",
                                 true,
                                 Json::array(),
                                 Json::object(),
                                 Json::array({1}),
                                 Json::array({Json::array({-5})})};
  int refused = 0, tried = 0;
  for (const auto& place : all) {
    for (const auto& value : odd) {
      Json index = folder.index;
      index[Json::json_pointer(place)] = value;
      folder.write(index);
      refused += !survives();
      ++tried;
    }
  }
  CHECK(refused > tried / 2);
  for (const char* file : {fk::kCaptureIndex, "tensors-0.safetensors"}) {
    folder.write(folder.index);
    const std::string good = fk::read_file(folder.path / file);
    fk::Random random(11);
    for (int i = 0; i < 300; ++i) {
      std::string bad = good.substr(
          0, i % 3 ? good.size()
                   : static_cast<size_t>(random.integer(0, static_cast<int64_t>(good.size()))));
      if (!bad.empty())
        bad[static_cast<size_t>(random.integer(0, static_cast<int64_t>(bad.size())))] =
            static_cast<char>(random.integer(0, 256));
      fk::write_file_atomic(folder.path / file, bad);
      survives();
    }
    fk::write_file_atomic(folder.path / file, good);
  }
  CHECK(survives());
}

TEST_CASE("captured_numbers_of_one_rank_are_known_as_such") {
  const auto with = [](const std::string& op, const std::string& field) {
    fk::Case source;
    auto contents = std::make_shared<std::map<std::string, std::vector<fk::Tensor>>>();
    (*contents)[field].emplace_back(fk::DType::i32, fk::Shape{2});
    source.contents = contents;
    return fk::Captured::of_one_rank(catalog().at(op), source);
  };
  CHECK(with("moe_dispatch", "topk_ids") == "topk_ids");
  CHECK(with("all_gather", "x") == "x");
  CHECK(with("vocab_parallel_embedding", "ids").empty());  // all have the same
  CHECK(with("embedding", "ids").empty());                 // there is one
  CHECK(fk::Captured::of_one_rank(catalog().at("moe_dispatch"), {}).empty());
}
