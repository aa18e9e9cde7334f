// SPDX-License-Identifier: Apache-2.0
// Results for people to look at: the reference's, a side's, and their difference. Each kind of
// picture is a file of core/engines/pictures, which registers itself and knows its results by their
// names and shapes.
#pragma once
#include <string>
#include <vector>

#include "core/exec/metric.hpp"

namespace fk {

// Lines, dots and boxes in one of the page's eight colours; 7 is grey. `at` has x and y in turn, in
// a frame whose y grows downwards.
struct Mark {
  std::string kind;  // "line" through its places, "dots", or "boxes" (two corners each)
  int64_t colour = 0;
  double width = 1;  // pixels of a line, or of a dot
  std::vector<int64_t> at = {};
};

struct Drawing {
  struct Key {
    int64_t colour = 0;
    std::string text = {};
  };
  int64_t width = 0, height = 0;  // of the frame; 0: there is no drawing
  std::vector<Mark> marks = {};   // later ones cover earlier ones
  std::vector<Key> keys = {};     // meanings of colours
};

struct Picture {
  std::string result;  // its name: "image"
  std::string side;    // the reference, the baseline, or a candidate
  // From the reference, as an absolute value. In a PNG file of an image, white is `worst`.
  bool difference = false;
  double worst = 0, mean = 0;  // of a difference
  std::string unit = {};       // of both; empty: a share of the way from black to white
  int64_t width = 0, height = 0;
  std::string png = {};  // in base64; empty: a drawing, or a build without libpng
  std::string wav = {};  // of a sound, in base64: its first 20 seconds
  Drawing drawing = {};
};

inline constexpr const char* kReferenceSide = "reference";

// The answers to one request of which a kind makes pictures.
struct PictureTask {
  const Metric& metric;
  std::string side;
  const RequestResult& want;  // the reference's
  const RequestResult* got;   // null: the side has no answer
  bool first;                 // also makes the reference's pictures
};

// Adds a side's pictures of the first request, each with its difference from the reference's. The
// first side's come behind the reference's.
void add_pictures(const Metric& metric, const std::string& side, const Answers& got,
                  const Answers& want, std::vector<Picture>& all);

using AddPictures = void (*)(const PictureTask& task, std::vector<Picture>& all);
// At file scope in core/engines/pictures/<name>.cpp: FK_PICTURES(boxes, add_boxes);
struct PicturesRegistration {
  PicturesRegistration(const char* name, AddPictures add);
};
#define FK_PICTURES(name, add) \
  static const ::fk::PicturesRegistration fk_pictures_##name(#name, add)

// Null: the result is missing, or has another number of axes or of values.
const NamedTensor* result_of_axes(const std::vector<NamedTensor>& tensors, const std::string& name,
                                  size_t axes);

}  // namespace fk
