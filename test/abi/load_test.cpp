// SPDX-License-Identifier: Apache-2.0
// A binary of an earlier day in the host of today, and the host's refusals.
#include <cmath>

#include "core/base/error.hpp"
#include "core/plugin/instance.hpp"
#include "test/catch.hpp"

extern "C" int fk_layout_is_pinned(void);

namespace {

const std::filesystem::path kFrozen =
    std::filesystem::path(FK_ABI_DIR) / "frozen/silu_and_mul.v0.so";  // of the oldest major

struct View {
  View(std::vector<int64_t> shape, float* data) : dims(std::move(shape)), strides(dims.size(), 1) {
    for (size_t i = dims.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * dims[i + 1];
    view.data = data;
    view.device_type = FK_CPU;
    view.ndim = static_cast<int32_t>(dims.size());
    view.dtype = {2, 32, 1};
    view.shape = dims.data();
    view.strides = strides.data();
    view.nbytes = dims[0] * strides[0] * 4;
  }
  std::vector<int64_t> dims, strides;
  fk_out view{};
};
fk_slot pointer(const void* p) {
  fk_slot s{};
  s.p = p;
  return s;
}

}  // namespace

TEST_CASE("abi_frozen_plugin_loads_and_computes") {
#ifndef __x86_64__
  SUCCEED("the frozen binary is for x86-64");
  return;
#endif
  CHECK(fk_layout_is_pinned() == 1);
  const fk::PluginNote note = fk::read_notes(kFrozen);
  CHECK(note.abi_major == 0);
  REQUIRE(note.ops.size() == 1);
  const fk::Catalog catalog({std::filesystem::path(FK_SOURCE_DIR) / "registry"});
  CHECK(fk::note_mismatch(note.ops[0], catalog).empty());
  fk::Plugins plugins(catalog);
  plugins.load(kFrozen, fk::Trust::candidate);
  REQUIRE(plugins.of("silu_and_mul").size() == 1);
  const fk::Provider& provider = *plugins.of("silu_and_mul")[0];
  std::vector<float> x = {0, 1, -2, 3, 2, 2, 2, 2}, out(4, -1);
  View in({1, 8}, x.data()), to({1, 4}, out.data());
  fk::Frames frames;
  fk_slot size{};
  size.i = 4;
  frames.init = {size};
  View meta_in({1, 8}, nullptr), meta_to({1, 4}, nullptr);
  frames.forward = {pointer(&meta_in.view), pointer(&meta_to.view)};
  const fk::Support support = fk::Instance::supports(provider, frames);
  INFO(support.why);
  REQUIRE(support.ok);
  const auto device = fk::open_device("cpu");
  fk::PackedCache packed;
  fk::Instance instance(provider, frames, support.need,
                        {*device, packed, nullptr, [](int, const std::string&) {}});
  const auto frame =
      instance.fitted(fk::SectionId::forward, {pointer(&in.view), pointer(&to.view)});
  fk_ctx ctx{};
  ctx.struct_size = FK_END(fk_ctx, error);
  REQUIRE(instance.forward(frame.data(), ctx) == FK_OK);
  for (size_t i = 0; i < 4; ++i) CHECK(out[i] == Approx(x[i] / (1 + std::exp(-x[i])) * 2));
}

TEST_CASE("abi_host_refuses_what_is_no_plugin") {
  const fk::Catalog catalog({std::filesystem::path(FK_SOURCE_DIR) / "registry"});
  fk::Plugins plugins(catalog);
  CHECK_THROWS_AS(plugins.load("/nowhere/x.so", fk::Trust::candidate), fk::Error);
  CHECK_THROWS_AS(
      plugins.load(std::filesystem::path(FK_ABI_DIR) / "layout.c", fk::Trust::candidate),
      fk::Error);
  CHECK_THROWS_AS(fk::read_notes(std::filesystem::path(FK_ABI_DIR) / "layout.c"), fk::Error);
}
