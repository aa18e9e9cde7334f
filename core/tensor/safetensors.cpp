// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes one file; folders of shards are in checkpoint.cpp.

#include "core/tensor/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/json.hpp"
#include "core/base/text.hpp"

namespace fk {
namespace {

constexpr std::size_t kRankMax = 32;

uint64_t little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | static_cast<uint64_t>(bytes[i]);
  return value;
}

// A whole number >= 0 of the header.
int64_t count_of(const Json& value, const std::string& where, const char* what) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{INT64_MAX}) {
    fail(where, fmt::format(
                    "{} must be whole numbers of at least 0, found {}", what,
                    excerpt(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))));
  }
  return value.get<int64_t>();
}

// One entry of the header; `begin` receives the position of its data.
StoredTensor read_entry(const Json& entry, const std::string& where,
                        std::span<const std::byte> data, std::size_t& begin) {
  if (!entry.is_object()) fail(where, "must be an object with dtype, shape and data_offsets");
  for (const auto& [key, value] : entry.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      fail(where, "has the unknown key `" + excerpt(key) + "`",
           did_you_mean(key, {"dtype", "shape", "data_offsets"}));
    }
  }
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!entry.contains(key)) fail(where, fmt::format("has no `{}`", key));
  }
  const Json& dtype = entry["dtype"];
  const Json& shape = entry["shape"];
  const Json& offsets = entry["data_offsets"];
  if (!dtype.is_string()) fail(where, "`dtype` must be text");
  if (!shape.is_array()) fail(where, "`shape` must be a list");
  if (!offsets.is_array() || offsets.size() != 2) {
    fail(where, "`data_offsets` must be a list of two");
  }
  if (shape.size() > kRankMax) fail(where, fmt::format("has more than {} axes", kRankMax));

  StoredTensor tensor;
  tensor.where = where;
  tensor.dtype = dtype_from_name(dtype.get_ref<const std::string&>(), where);
  for (const Json& extent : shape) tensor.shape.push_back(count_of(extent, where, "extents"));
  const int64_t first = count_of(offsets[0], where, "offsets");
  const int64_t last = count_of(offsets[1], where, "offsets");
  if (first > last) fail(where, fmt::format("ends ({}) before it begins ({})", last, first));
  if (static_cast<uint64_t>(last) > data.size()) {
    fail(where, fmt::format("ends at byte {} of {} bytes of data", last, data.size()),
         "is the file truncated?");
  }
  const int64_t needed = shape_bytes(tensor.shape, tensor.dtype, where);
  if (last - first != needed) {
    fail(where, fmt::format("has {} bytes where {} {} needs {}", last - first, name(tensor.dtype),
                            shape_text(tensor.shape), needed));
  }
  begin = static_cast<std::size_t>(first);
  tensor.bytes = data.subspan(begin, static_cast<std::size_t>(needed));
  return tensor;
}

void read_metadata(const Json& entry, const std::string& where,
                   std::map<std::string, std::string>& metadata) {
  if (!entry.is_object()) fail(where, "`__metadata__` must be an object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) fail(where, "`__metadata__`: `" + excerpt(key) + "` must be text");
    metadata[key] = value.get<std::string>();
  }
}

}  // namespace

SafeTensors SafeTensors::open(const std::filesystem::path& path) {
  SafeTensors result;
  result.file_ = path.string();
  result.mapping_ = Mapping(path);
  result.read(result.mapping_.bytes());
  return result;
}

SafeTensors SafeTensors::parse(std::span<const std::byte> image, std::string name) {
  SafeTensors result;
  result.file_ = std::move(name);
  result.read(image);
  return result;
}

void SafeTensors::read(std::span<const std::byte> image) {
  if (image.size() < 8) {
    fail(file_, fmt::format("is no safetensors file: {} bytes, the header length alone takes 8",
                            image.size()));
  }
  const uint64_t length = little_endian(image);
  if (length > kHeaderBytesMax) {
    fail(file_, fmt::format("is no safetensors file: its header would take {} bytes", length));
  }
  if (length > image.size() - 8) {
    fail(file_, fmt::format("is truncated: the header takes {} bytes, {} are there", length,
                            image.size() - 8));
  }
  const auto* text = reinterpret_cast<const char*>(image.data() + 8);
  const std::string_view header(text, static_cast<std::size_t>(length));
  if (!header.starts_with('{')) fail(file_, "is no safetensors file: its header is no JSON object");
  const Json json = parse_json(header, file_ + " (header)");
  const std::span<const std::byte> data = image.subspan(8 + static_cast<std::size_t>(length));

  // (begin, end) of each tensor, to check that they cover the data without holes or overlap.
  std::vector<std::pair<std::size_t, const StoredTensor*>> order;
  for (const auto& [key, entry] : json.items()) {
    if (key == "__metadata__") {
      read_metadata(entry, file_, metadata_);
      continue;
    }
    std::size_t begin = 0;
    StoredTensor tensor =
        read_entry(entry, file_ + ": tensor `" + excerpt(key, 200) + "`", data, begin);
    const auto [place, inserted] = tensors_.emplace(key, std::move(tensor));
    order.emplace_back(begin, &place->second);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second->bytes.size() < b.second->bytes.size();
  });
  std::size_t covered = 0;
  for (const auto& [begin, tensor] : order) {
    if (begin < covered) fail(tensor->where, "overlaps another tensor");
    if (begin > covered) {
      fail(tensor->where, fmt::format("leaves {} bytes before it unused", begin - covered));
    }
    covered += tensor->bytes.size();
  }
  if (covered != data.size()) {
    fail(file_,
         fmt::format("has {} bytes of data that belong to no tensor", data.size() - covered));
  }
}

std::vector<std::string> SafeTensors::names() const {
  std::vector<std::string> result;
  for (const auto& [key, tensor] : tensors_) result.push_back(key);
  return result;
}

const StoredTensor* SafeTensors::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const StoredTensor& SafeTensors::at(std::string_view name) const {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr) {
    fail(file_, "has no tensor `" + excerpt(name, 200) + "`", did_you_mean(name, names()));
  }
  return *tensor;
}

void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  // Widest elements first keeps every tensor aligned to its own element.
  std::vector<const std::pair<const std::string, TensorView>*> order;
  for (const auto& item : tensors) order.push_back(&item);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return bytes(a->second.dtype) > bytes(b->second.dtype);
  });
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const auto* item : order) {
    const TensorView& view = item->second;
    if (item->first == "__metadata__") fail(path.string(), "no tensor can be named __metadata__");
    const int64_t end = offset + shape_bytes(view.shape, view.dtype, item->first);
    Json entry = Json::object();
    entry["dtype"] = std::string(safetensors_name(view.dtype));
    entry["shape"] = view.shape;
    entry["data_offsets"] = {offset, end};
    header[item->first] = std::move(entry);
    offset = end;
  }
  std::string image;
  try {
    image = header.dump();
  } catch (const Json::exception&) {
    fail(path.string(), "a name of a tensor is not UTF-8");
  }
  image.resize((image.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    length[i] = static_cast<char>(static_cast<uint64_t>(image.size()) >> (8 * i) & 0xFF);
  }
  image.insert(0, length);
  image.reserve(image.size() + static_cast<std::size_t>(offset));
  for (const auto* item : order) {
    const Tensor packed = item->second.copy();
    if (packed.numel() == 0) continue;
    image.append(static_cast<const char*>(packed.data()), static_cast<std::size_t>(packed.bytes()));
  }
  write_file_atomic(path, image);
}

}  // namespace fk
