// SPDX-License-Identifier: Apache-2.0
#include "core/exec/metric.hpp"

#include <map>

namespace fk {

namespace {

std::map<std::string, const Metric*>& metric_table() {
  static auto* metrics = new std::map<std::string, const Metric*>;
  return *metrics;
}

}  // namespace

MetricRegistration::MetricRegistration(const char* name, const Metric& metric) {
  metric_table()[name] = &metric;
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const auto& [name, metric] : metric_table()) names.push_back(name);
  return names;
}

const Metric* find_metric(const std::string& name) {
  const auto it = metric_table().find(name);
  return it == metric_table().end() ? nullptr : it->second;
}

}  // namespace fk
