// SPDX-License-Identifier: Apache-2.0
// The CPU as a device that a test changes in one place.
#pragma once
#include <memory>

#include "core/device/device.hpp"

class OverCpu : public fk::Device {
 public:
  int32_t type() const override { return cpu_->type(); }
  int32_t id() const override { return 0; }
  std::string name() const override { return "over the CPU"; }
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
