// SPDX-License-Identifier: Apache-2.0
// Segmentations. The result "pred_masks" [masks, rows, columns] has logits of pixels, and a mask is
// where they are positive. Without it, "logits" [points, classes] has classes of points. Beside all
// values, this metric looks at the choices that follow from them.
//   iou_loss  1 - the mean intersection over union with the oracle's masks, or with the oracle's
//             classes, of all requests. A mask or a class that the oracle leaves empty counts for
//             none
#include <algorithm>
#include <cmath>
#include <map>

#include "core/engines/metrics/values.hpp"

namespace fk {

namespace {

struct Overlap {
  double both = 0, either = 0, wanted = 0;
};

// Sum and number of the overlaps over unions.
struct OverlapSum {
  double sum = 0, count = 0;
  void add(const Overlap& o) {
    if (!(o.wanted > 0)) return;
    sum += o.both / o.either;
    ++count;
  }
};

const NamedTensor* tensor_of(const RequestResult& r, const char* name, size_t axes) {
  const auto it = std::ranges::find(r.tensors, name, &NamedTensor::name);
  return it == r.tensors.end() || it->shape.size() != axes ? nullptr : &*it;
}

void add_masks(const NamedTensor& got, const NamedTensor& want, OverlapSum& all) {
  const auto pixels = static_cast<size_t>(want.shape[1] * want.shape[2]);
  if (pixels == 0) return;
  for (size_t first = 0; first + pixels <= want.values.size(); first += pixels) {
    Overlap o;
    for (size_t i = first; i < first + pixels; ++i) {
      const bool a = got.values[i] > 0, b = want.values[i] > 0;
      o.both += a && b, o.either += a || b, o.wanted += b;
    }
    all.add(o);
  }
}

void add_classes(const NamedTensor& got, const NamedTensor& want, OverlapSum& all) {
  const auto classes = static_cast<size_t>(want.shape[1]);
  if (classes == 0) return;
  const auto best = [&](const NamedTensor& t, size_t row) {
    const auto first = t.values.begin() + static_cast<std::ptrdiff_t>(row * classes);
    return std::max_element(first, first + static_cast<std::ptrdiff_t>(classes)) - first;
  };
  std::map<std::ptrdiff_t, Overlap> by_class;
  for (size_t row = 0; (row + 1) * classes <= want.values.size(); ++row) {
    const auto a = best(got, row), b = best(want, row);
    by_class[b].wanted += 1;
    by_class[b].both += a == b;
    by_class[a].either += 1;
    by_class[b].either += a != b;
  }
  for (const auto& [label, o] : by_class) all.add(o);
}

class SegmentationMetric final : public ValueMetric {
 public:
  ErrorNumbers compare(const Answers& got, const Answers& want, bool routed) const override {
    ErrorNumbers errors = ValueMetric::compare(got, want, routed);
    if (!errors.wrong.empty()) return errors;
    OverlapSum all;
    bool found = false;
    for (const auto& [id, wanted] : want) {
      const auto& own = got.at(id);
      if (const auto* masks = tensor_of(wanted, "pred_masks", 3)) {
        add_masks(*tensor_of(own, "pred_masks", 3), *masks, all);
        found = true;
      } else if (const auto* logits = tensor_of(wanted, "logits", 2)) {
        add_classes(*tensor_of(own, "logits", 2), *logits, all);
        found = true;
      }
    }
    if (!found) {
      errors.wrong =
          "the results pred_masks [masks, rows, columns] or logits [points, classes] are missing";
      return errors;
    }
    errors.more = {{"iou_loss", "1 - intersection over union with the oracle's masks",
                    all.count > 0 ? 1 - all.sum / all.count : 0}};
    return errors;
  }

  // Results of the shape [rows, columns, colours], such as the mask of all objects.
  std::vector<ShownImage> images(const RequestResult& result) const override {
    std::vector<ShownImage> all;
    for (const auto& tensor : result.tensors)
      if (tensor.shape.size() == 3 && tensor.name != "pred_masks")
        all.push_back({tensor.name, -kShownLogit, kShownLogit});
    return all;
  }

 private:
  static constexpr double kShownLogit = 4;  // of a white pixel

  // A logit near 0 may have the other sign. Few do, and small masks lose more of themselves.
  std::vector<double> limits(const ErrorNumbers&, const ErrorNumbers* rival,
                             double worst1) const override {
    const double floor = std::min(0.5, 0.01 + 3 * worst1);
    return {rival ? std::max(kOfBaseline * rival->more[0].value, floor) : floor};
  }
};

FK_METRIC(seg, SegmentationMetric);

}  // namespace

}  // namespace fk
