// SPDX-License-Identifier: Apache-2.0
// The requests of a workload as an engine reads them from a file of scenarios/workloads, and the
// table of engines. A workload's kind says how the requests arrive (workload.hpp).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/base/yaml.hpp"
#include "core/exec/engine.hpp"

namespace fk {

// The keys of one workload; the numbers of its `tiny` replace its own.
class WorkloadKeys {
 public:
  WorkloadKeys(Yaml yaml, bool tiny);
  const Yaml& yaml() const { return layers_.back(); }
  bool has(std::string_view key) const;
  // Error when the key is absent, or its number is below `least` or above `most`.
  int64_t get(std::string_view key, int64_t least, int64_t most) const;
  int64_t get(std::string_view key, int64_t least, int64_t most, int64_t fallback) const;

 private:
  std::vector<Yaml> layers_;
};

// The number of requests that a workload wants.
struct LoadSize {
  int64_t requests = 0;
  int64_t context = 0;    // most tokens of one request
  bool replaces = false;  // requests that do not fit are replaced by the next ones
};

// The requests of one round.
class Load {
 public:
  virtual ~Load() = default;
  virtual int64_t requests() const = 0;
  // Request `index` from 0 on. It depends on the seed alone.
  virtual Request request(const RequestForm& form, int64_t index, uint64_t seed) const = 0;
  // True for real traffic: requests and their answers are known before a run.
  virtual bool is_recorded() const { return false; }
  virtual double arrives_s(int64_t) const { return 0; }  // seconds after the first request
  // The recorded answer that equal sampling gives again. Null: none.
  virtual const std::vector<int64_t>* answer(int64_t) const { return nullptr; }
  virtual int64_t left_out() const { return 0; }  // requests that do not fit the context
  virtual int64_t prompt_tokens() const { return 0; }
  virtual int64_t output_tokens() const { return 0; }
  virtual int64_t longest() const { return 0; }  // tokens of the longest request
};

// A kind of engine: the keys of a workload that say what its requests are, and their reader. At
// file scope in core/engines/<name>/: FK_ENGINE(mine, {{"sizes"}, {"size"}, read_mine});
struct EngineKind {
  std::vector<std::string> keys;     // of a workload, but not of its `tiny`
  std::vector<std::string> numbers;  // of both
  std::shared_ptr<const Load> (*read)(const WorkloadKeys& keys, const LoadSize& size) = nullptr;
};
struct EngineRegistration {
  EngineRegistration(const char* name, EngineKind kind);
};
#define FK_ENGINE(name, ...) \
  static const ::fk::EngineRegistration fk_engine_##name(#name, __VA_ARGS__)

std::vector<std::string> engine_names();
// FK_CHECK: an engine of this name is registered.
const EngineKind& engine_kind(const std::string& name);

}  // namespace fk
