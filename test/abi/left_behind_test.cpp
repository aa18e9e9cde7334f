// SPDX-License-Identifier: Apache-2.0
// What a plugin leaves behind on a device's thread is told of the function after which it is there,
// and what the host left before is not the plugin's. The device is the CPU with made-up words.
#include <memory>

#include "core/cases/execute.hpp"
#include "test/catch.hpp"

namespace {

class Words final : public fk::Device {
 public:
  int at = 0, asked = 0;  // the question that has words for an answer, from 1 on
  std::string left_behind() override { return ++asked == at ? "something" : ""; }

  int32_t type() const override { return cpu_->type(); }
  int32_t id() const override { return 0; }
  std::string name() const override { return "words"; }
  void* allocate(int64_t bytes, const std::string& purpose) override {
    return cpu_->allocate(bytes, purpose);
  }
  void release(void* memory) override { cpu_->release(memory); }
  void upload(void* to, const void* from, int64_t n) override { cpu_->upload(to, from, n); }
  void download(void* to, const void* from, int64_t n) override { cpu_->download(to, from, n); }
  void* allocate_host(int64_t bytes) override { return cpu_->allocate_host(bytes); }
  void release_host(void* memory) override { cpu_->release_host(memory); }
  void upload_later(void* to, const void* from, int64_t n) override { cpu_->upload(to, from, n); }
  void fill_zero(void* to, int64_t n) override { cpu_->fill_zero(to, n); }
  void copy(void* to, const void* from, int64_t n) override { cpu_->copy(to, from, n); }
  void synchronize() override {}
  void* stream() override { return nullptr; }
  int32_t cpu_threads() const override { return 1; }
  std::unique_ptr<fk::Stopwatch> stopwatch() override { return cpu_->stopwatch(); }
  Shared allocate_shared(int64_t, const std::string&, Sharing) override { return {}; }
  void* open_shared(int, int64_t, Sharing) override { return nullptr; }
  void close_shared(void*, int64_t) override {}

 private:
  std::unique_ptr<Device> cpu_ = fk::open_device("cpu");
};

}  // namespace

TEST_CASE("what a plugin leaves behind is told of the function that it came after") {
#ifndef __x86_64__
  SUCCEED("the frozen binary is for x86-64");
  return;
#endif
  const fk::Catalog catalog({std::filesystem::path(FK_SOURCE_DIR) / "registry"});
  fk::Plugins plugins(catalog);
  plugins.load(std::filesystem::path(FK_ABI_DIR) / "frozen/silu_and_mul.v0.so",
               fk::Trust::candidate);
  const fk::Provider& provider = *plugins.of("silu_and_mul").at(0);
  const fk::ResolvedCase resolved =
      fk::resolve(*provider.contract, provider.contract->cases.at(0), {});
  const fk::CaseValues values = fk::make_inputs(resolved, 1, 1);
  // Asked before and after create() and prepare(), before a run, after its plan() and its
  // forward().
  const char* const wanted[] = {"",
                                "",
                                "after create() and prepare() something",
                                "",
                                "after plan() something",
                                "after forward() something"};
  for (int at = 0; at < 6; ++at) {
    CAPTURE(at);
    Words device;
    const fk::CaseFrames frames(device, resolved, values, {});
    device.at = at;
    fk::GuardDevice guarded(device, 0, 1);
    fk::PackedCache packed;
    const fk::Support support = fk::Instance::supports(provider, frames.meta());
    REQUIRE(support.ok);
    fk::Execution execution(provider, frames, support.need, guarded, packed, nullptr);
    const auto first = execution.run(frames, fk::Poison::ones);
    CHECK(first.failure.empty());
    REQUIRE(first.broken.size() == (*wanted[at] ? 1 : 0));
    if (*wanted[at]) {
      CHECK(first.broken[0].rule == "state");
      CHECK(first.broken[0].text == wanted[at]);
    }
    // Told once.
    CHECK(execution.run(frames, fk::Poison::ones).broken.empty());
  }
}
