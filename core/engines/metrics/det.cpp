// SPDX-License-Identifier: Apache-2.0
// Detections: the results "logits" [queries, classes] and "pred_boxes" [queries, 4] (centre, width
// and height). The order of queries has no meaning, and close scores change it. So the values are
// those of the oracle's best detections, each beside the nearest detection of the same class.
// `map_loss` is 1 - mAP@[.5:.95] with the oracle's detections as ground truth. It is relative to
// the oracle's own mAP. A query has several classes, and only the best class is a truth.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "core/engines/metrics/values.hpp"

namespace fk {

namespace {

// Guesses are the best pairs of a query and a class in an image. Truths are the oracle's best
// guesses, one for each query. They are among fewer pairs, whose last ones may change places with
// others.
constexpr size_t kTruths = 100, kTruePairs = 2 * kTruths, kGuesses = 3 * kTruths;
constexpr int kThresholds = 10;  // overlaps 0.50, 0.55 ... 0.95
constexpr int64_t kBoxNumbers = 4;

struct Detection {
  uint64_t image = 0;
  int64_t query = 0, label = 0;
  double score = 0;  // a logit, whose order is that of probabilities
  std::array<double, kBoxNumbers> box{};
};

const NamedTensor* result_of(const RequestResult& r, const char* name) {
  const auto it = std::ranges::find(r.tensors, name, &NamedTensor::name);
  return it == r.tensors.end() || it->shape.size() != 2 ? nullptr : &*it;
}

// The best detections of an image, best first. False: it has no such results.
bool detections_of(uint64_t image, const RequestResult& r, bool truths,
                   std::vector<Detection>& out) {
  const NamedTensor *logits = result_of(r, "logits"), *boxes = result_of(r, "pred_boxes");
  if (!logits || !boxes || boxes->shape[1] != kBoxNumbers || logits->shape[0] != boxes->shape[0])
    return false;
  std::vector<Detection> all;
  for (int64_t query = 0; query < logits->shape[0]; ++query) {
    for (int64_t label = 0; label < logits->shape[1]; ++label) {
      Detection d{image, query, label, 0, {}};
      d.score = static_cast<double>(
          logits->values[static_cast<size_t>(query * logits->shape[1] + label)]);
      if (std::isnan(d.score)) d.score = -HUGE_VAL;
      for (int64_t i = 0; i < kBoxNumbers; ++i)
        d.box[static_cast<size_t>(i)] =
            static_cast<double>(boxes->values[static_cast<size_t>(query * kBoxNumbers + i)]);
      all.push_back(d);
    }
  }
  std::ranges::stable_sort(all, std::greater<>(), &Detection::score);
  all.resize(std::min(all.size(), truths ? kTruePairs : kGuesses));
  if (truths) {
    std::set<int64_t> seen;
    std::erase_if(all, [&](const Detection& d) { return !seen.insert(d.query).second; });
    all.resize(std::min(all.size(), kTruths));
  }
  out.insert(out.end(), all.begin(), all.end());
  return true;
}

// Intersection over union; 0 for a box with NaN.
double overlap(const Detection& a, const Detection& b) {
  double both = 1, one = 1, other = 1;
  for (size_t i = 0; i < 2; ++i) {
    const double wide = std::max(a.box[i + 2], 0.0), wide_b = std::max(b.box[i + 2], 0.0);
    const double low = std::max(a.box[i] - wide / 2, b.box[i] - wide_b / 2);
    const double high = std::min(a.box[i] + wide / 2, b.box[i] + wide_b / 2);
    both *= std::max(high - low, 0.0);
    one *= wide, other *= wide_b;
  }
  const double all = one + other - both;
  return all > 0 && both > 0 ? both / all : 0;
}

// Average precision of one class at one threshold, as COCO computes it. It is the mean over 101
// recalls of the best precision from that recall on. Both lists have the best detections first.
double average_precision(const std::vector<Detection>& guesses,
                         const std::vector<Detection>& truths, double threshold) {
  std::vector<bool> taken(truths.size());
  std::vector<double> precision, recall;
  double right = 0;
  for (size_t i = 0; i < guesses.size(); ++i) {
    size_t best = truths.size();
    double most = threshold;
    for (size_t t = 0; t < truths.size(); ++t) {
      if (taken[t] || truths[t].image != guesses[i].image) continue;
      const double share = overlap(guesses[i], truths[t]);
      if (share < most || (share == most && best < truths.size())) continue;
      most = share;
      best = t;
    }
    if (best < truths.size()) taken[best] = true, ++right;
    precision.push_back(right / static_cast<double>(i + 1));
    recall.push_back(right / static_cast<double>(truths.size()));
  }
  for (size_t i = precision.size(); i-- > 1;)
    precision[i - 1] = std::max(precision[i - 1], precision[i]);
  double sum = 0;
  for (int step = 0; step <= 100; ++step) {
    const auto at = std::ranges::lower_bound(recall, step / 100.0 - 1e-9);
    if (at != recall.end()) sum += precision[static_cast<size_t>(at - recall.begin())];
  }
  return sum / 101;
}

std::map<int64_t, std::vector<Detection>> by_class(std::vector<Detection> all) {
  std::ranges::stable_sort(all, std::greater<>(), &Detection::score);
  std::map<int64_t, std::vector<Detection>> out;
  for (const Detection& d : all) out[d.label].push_back(d);
  return out;
}

double mean_precision(const std::vector<Detection>& guesses, const std::vector<Detection>& truths) {
  const auto got = by_class(guesses), want = by_class(truths);
  double sum = 0;
  for (const auto& [label, wanted] : want) {
    const auto it = got.find(label);
    if (it == got.end()) continue;
    for (int i = 0; i < kThresholds; ++i)
      sum += average_precision(it->second, wanted, 0.5 + 0.05 * i);
  }
  return want.empty() ? 0 : sum / kThresholds / static_cast<double>(want.size());
}

class DetectionMetric final : public ValueMetric {
 public:
  ErrorNumbers compare(const Answers& got, const Answers& want, bool routed) const override {
    ErrorNumbers errors = ValueMetric::compare(got, want, routed);
    if (!errors.wrong.empty()) return errors;
    std::vector<Detection> guesses, truths, own;
    for (const auto& [id, r] : want) {
      for (const auto& tensor : got.at(id).tensors)
        if (std::ranges::any_of(tensor.values, [](float v) { return std::isnan(v); }))
          errors.wrong = "the result " + tensor.name + " has NaN";
      detections_of(id, r, true, truths);
      detections_of(id, r, false, own);
      detections_of(id, got.at(id), false, guesses);
    }
    // Other guesses may happen to suit the truths better than the oracle's own.
    const double best = mean_precision(own, truths);
    const double share = best > 0 ? mean_precision(guesses, truths) / best : 0;
    errors.more = {{"map_loss", "1 - mAP@[.5:.95]", std::max(0.0, 1 - share)}};
    return errors;
  }

 private:
  // A row is a detection of the oracle: box and score.
  std::string collect(const Answers& got, const Answers& want, ComparedRows& rows) const override {
    rows.width = kBoxNumbers + 1;
    for (const auto& [id, wanted] : want) {
      const auto it = got.find(id);
      if (it == got.end()) return "a request is missing";
      if (!it->second.failed.empty()) return "a request failed: " + it->second.failed;
      std::vector<Detection> truths, guesses;
      if (!detections_of(id, wanted, true, truths) ||
          !detections_of(id, it->second, false, guesses))
        return "the results logits [queries, classes] and pred_boxes [queries, 4] are missing";
      std::vector<bool> taken(guesses.size());
      for (const Detection& truth : truths) add_row(truth, guesses, taken, rows);
    }
    return rows.values.empty() ? "there are no results" : "";
  }

  // The nearest detection of the class. Without one the row is zeros, so its errors are the values
  // themselves.
  static void add_row(const Detection& truth, const std::vector<Detection>& guesses,
                      std::vector<bool>& taken, ComparedRows& rows) {
    size_t best = guesses.size();
    double nearest = HUGE_VAL;
    for (size_t i = 0; i < guesses.size(); ++i) {
      if (taken[i] || guesses[i].label != truth.label) continue;
      double square = std::pow(guesses[i].score - truth.score, 2);
      for (size_t k = 0; k < truth.box.size(); ++k)
        square += std::pow(guesses[i].box[k] - truth.box[k], 2);
      if (!(square < nearest)) continue;
      nearest = square;
      best = i;
    }
    const bool found = best < guesses.size();
    if (found) taken[best] = true;
    for (const double number : found ? guesses[best].box : decltype(truth.box){})
      rows.values.push_back(static_cast<float>(number));
    rows.values.push_back(found ? static_cast<float>(guesses[best].score) : 0.0F);
  }

  // Close scores at the end of the oracle's list may change places, which costs about 0.01. Scores
  // of random weights are close everywhere: rtdetrv2 of full size loses 3.6 times `worst1` in bf16.
  std::vector<double> limits(const ErrorNumbers&, const ErrorNumbers* rival,
                             double worst1) const override {
    const double floor = std::min(0.5, 0.01 + 4 * worst1);
    return {rival ? std::max(kOfBaseline * rival->more[0].value, floor) : floor};
  }
};

FK_METRIC(det, DetectionMetric);

}  // namespace

}  // namespace fk
