// SPDX-License-Identifier: Apache-2.0
//
// Opens folders of safetensors files in the Hub's layout.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/json.hpp"
#include "core/base/text.hpp"
#include "core/tensor/safetensors.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

// Regular files of a folder whose names have this ending, sorted.
std::vector<fs::path> files_with(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> result;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    std::error_code ignored;
    if (entry->path().filename().string().ends_with(ending) && entry->is_regular_file(ignored)) {
      result.push_back(entry->path());
    }
  }
  if (code) fail(folder.string(), "cannot be listed: " + code.message());
  std::sort(result.begin(), result.end());
  return result;
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& path) {
  Checkpoint result;
  result.add_files(path);
  result.read_quantization(nullptr);
  return result;
}

Checkpoint Checkpoint::open(const fs::path& path, const Config& config) {
  Checkpoint result;
  result.add_files(path);
  result.read_quantization(&config);
  return result;
}

void Checkpoint::read_quantization(const Config* config) {
  if (const fs::path own = folder_ / "config.json"; is_file(own))
    quantization_ = Quantization::of(Config::load(own));
  else if (config != nullptr)
    quantization_ = Quantization::of(*config);
}

void Checkpoint::add_files(const fs::path& path) {
  where_ = path.string();
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (!fs::exists(status)) fail(where_, "no such checkpoint");
  if (!fs::is_directory(status)) {
    folder_ = path.parent_path();
    if (path.string().ends_with(".index.json")) {
      add_index(path);
    } else {
      add_file(path);
    }
    return;
  }
  folder_ = path;
  // The index wins, as it does in the Hub's own loader when shards and a whole file lie together.
  const std::vector<fs::path> indices = files_with(path, ".safetensors.index.json");
  const std::vector<fs::path> files = files_with(path, ".safetensors");
  if (is_file(path / "model.safetensors.index.json")) {
    add_index(path / "model.safetensors.index.json");
  } else if (is_file(path / "model.safetensors")) {
    add_file(path / "model.safetensors");
  } else if (indices.size() == 1) {
    add_index(indices[0]);
  } else if (files.size() == 1 && indices.empty()) {
    add_file(files[0]);
  } else if (files.empty()) {
    fail(where_, "holds no *.safetensors");
  } else {
    fail(where_,
         fmt::format("holds {} *.safetensors but no model.safetensors.index.json", files.size()));
  }
}

void Checkpoint::add_file(const fs::path& file) {
  shards_.push_back(std::make_unique<SafeTensors>(SafeTensors::open(file)));
  for (const std::string& key : shards_.back()->names()) tensors_[key] = &shards_.back()->at(key);
}

void Checkpoint::add_index(const fs::path& index) {
  const std::string where = index.string();
  const Config config = Config::load(index);
  const Config map = config.child("weight_map");
  std::map<std::string, const SafeTensors*> shards;
  for (const auto& [key, value] : map.json().items()) {
    if (!value.is_string()) map.fail_at(excerpt(key, 200), "the shard must be text");
    const auto& file = value.get_ref<const std::string&>();
    if (file.empty() || file.find('/') != std::string::npos || file == "." || file == ".." ||
        file.find('\0') != std::string::npos) {
      map.fail_at(excerpt(key, 200),
                  "the shard `" + excerpt(file) + "` must be a plain file name in this folder");
    }
    const SafeTensors*& shard = shards[file];
    if (shard == nullptr) {
      const fs::path path = index.parent_path() / file;
      if (!is_file(path)) {
        fail(where, "the shard `" + excerpt(file, 200) + "` is missing",
             "needed for `" + excerpt(key, 200) + "`");
      }
      shards_.push_back(std::make_unique<SafeTensors>(SafeTensors::open(path)));
      shard = shards_.back().get();
    }
    const StoredTensor* tensor = shard->find(key);
    if (tensor == nullptr) {
      fail(where,
           "the shard `" + excerpt(file, 200) + "` lacks the tensor `" + excerpt(key, 200) +
               "` that weight_map puts there",
           did_you_mean(key, shard->names()));
    }
    tensors_[key] = tensor;
  }
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> result;
  for (const auto& [key, tensor] : tensors_) result.push_back(key);
  return result;
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

const StoredTensor& Checkpoint::at(std::string_view name) const {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr) {
    fail(where_, "has no tensor `" + excerpt(name, 200) + "`", did_you_mean(name, names()));
  }
  return *tensor;
}

int64_t Checkpoint::bytes() const {
  int64_t total = 0;
  for (const auto& [key, tensor] : tensors_) total += static_cast<int64_t>(tensor->bytes.size());
  return total;
}

}  // namespace fk
