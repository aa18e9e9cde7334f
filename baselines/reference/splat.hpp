// SPDX-License-Identifier: Apache-2.0
// Gaussians in space as a camera sees them, in double, for the ops of splats.
#pragma once
#include <array>

#include "op.hpp"

namespace fk::reference {

inline constexpr double kLeastAlpha = 1.0 / 255;  // less is left out
inline constexpr double kMostAlpha = 0.999;
inline constexpr double kLeastLight = 1e-4;  // a pixel with less is done

// A pinhole camera. `rotation` is row by row, from the world to the camera.
struct Camera {
  std::array<double, 9> rotation;
  std::array<double, 3> translation;
  double fx, fy, cx, cy;

  Camera(const fk_in* viewmats, const fk_in* intrinsics, int64_t image) {
    const float* view = data<float>(viewmats) + image * 16;
    for (size_t row = 0; row < 3; ++row) {
      for (size_t c = 0; c < 3; ++c) rotation[row * 3 + c] = value(view[row * 4 + c]);
      translation[row] = value(view[row * 4 + 3]);
    }
    if (!intrinsics) return;
    const float* k = data<float>(intrinsics) + image * 9;
    fx = value(k[0]), fy = value(k[4]), cx = value(k[2]), cy = value(k[5]);
  }
};

struct Flat {
  double x = 0, y = 0, width = 0, height = 0, depth = 0;  // width, height: half of the box
  double xx = 0, xy = 0, yy = 0;                          // inverse of the covariance
};

struct Lens {
  double width, height, eps2d, near_plane, far_plane;

  // A Gaussian of `mean`, `quat` and `scale`. `opacity` 1 or more: extents of 3.33 deviations.
  Flat operator()(const Camera& camera, const float* mean, const float* quat, const float* scale,
                  double opacity) const {
    std::array<double, 3> p = camera.translation;
    for (size_t row = 0; row < 3; ++row)
      for (size_t c = 0; c < 3; ++c) p[row] += camera.rotation[row * 3 + c] * value(mean[c]);
    const double z = p[2];
    if (!(z > near_plane && z < far_plane) || opacity < kLeastAlpha) return {};
    const std::array<double, 9> turned = turn(camera, quat, scale);
    // Rows of the derivative of the projection. Far outside of the image it stays that of the edge.
    const double tan_x = 0.5 * width / camera.fx, tan_y = 0.5 * height / camera.fy;
    const double u = std::clamp(p[0] / z, -(camera.cx / camera.fx + 0.3 * tan_x),
                                (width - camera.cx) / camera.fx + 0.3 * tan_x);
    const double v = std::clamp(p[1] / z, -(camera.cy / camera.fy + 0.3 * tan_y),
                                (height - camera.cy) / camera.fy + 0.3 * tan_y);
    double a = eps2d, b = 0, c = eps2d;  // covariance in pixels
    for (size_t k = 0; k < 3; ++k) {
      const double x = camera.fx / z * (turned[k] - u * turned[6 + k]);
      const double y = camera.fy / z * (turned[3 + k] - v * turned[6 + k]);
      a += x * x, b += x * y, c += y * y;
    }
    const double det = std::max(a * c - b * b, 1e-10);
    const double deviations =
        opacity >= 1 ? 3.33 : std::min(3.33, std::sqrt(2 * std::log(opacity / kLeastAlpha)));
    return {camera.fx * p[0] / z + camera.cx,
            camera.fy * p[1] / z + camera.cy,
            deviations * std::sqrt(a),
            deviations * std::sqrt(c),
            z,
            c / det,
            -b / det,
            a / det};
  }

 private:
  // The axes of the Gaussian in the camera, as columns whose lengths are the deviations.
  static std::array<double, 9> turn(const Camera& camera, const float* quat, const float* scale) {
    double norm = 0;
    for (int i = 0; i < 4; ++i) norm += value(quat[i]) * value(quat[i]);
    norm = std::max(std::sqrt(norm), 1e-12);
    const double w = value(quat[0]) / norm, x = value(quat[1]) / norm, y = value(quat[2]) / norm,
                 z = value(quat[3]) / norm;
    const std::array<double, 9> own = {
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
        2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
    std::array<double, 9> out{};
    for (size_t row = 0; row < 3; ++row)
      for (size_t k = 0; k < 3; ++k)
        for (size_t c = 0; c < 3; ++c)
          out[row * 3 + k] += camera.rotation[row * 3 + c] * own[c * 3 + k] * value(scale[k]);
    return out;
  }
};

inline constexpr size_t kHarmonics = 16;

// Real spherical harmonics up to degree 3 of the direction from the camera to `mean`.
inline std::array<double, kHarmonics> harmonics(const Camera& camera, const float* mean) {
  std::array<double, 3> d{};
  double norm = 0;
  for (size_t c = 0; c < 3; ++c) {
    d[c] = value(mean[c]);
    for (size_t row = 0; row < 3; ++row)
      d[c] += camera.rotation[row * 3 + c] * camera.translation[row];
    norm += d[c] * d[c];
  }
  norm = std::max(std::sqrt(norm), 1e-12);
  const double x = d[0] / norm, y = d[1] / norm, z = d[2] / norm;
  constexpr double kPi = 3.14159265358979323846;
  const double a = std::sqrt(1 / (4 * kPi)), b = std::sqrt(3 / (4 * kPi)),
               c = std::sqrt(15 / (4 * kPi)), e = std::sqrt(5 / (16 * kPi)),
               f = std::sqrt(35 / (32 * kPi)), g = std::sqrt(105 / (4 * kPi)),
               h = std::sqrt(21 / (32 * kPi)), k = std::sqrt(7 / (16 * kPi));
  return {a,
          -b * y,
          b * z,
          -b * x,
          c * x * y,
          -c * y * z,
          e * (3 * z * z - 1),
          -c * x * z,
          c / 2 * (x * x - y * y),
          -f * y * (3 * x * x - y * y),
          g * x * y * z,
          -h * y * (5 * z * z - 1),
          k * z * (5 * z * z - 3),
          -h * x * (5 * z * z - 1),
          g / 2 * z * (x * x - y * y),
          -f * x * (x * x - 3 * y * y)};
}

// The colour of point i, from its (degree + 1)^2 coefficients.
inline std::array<double, 3> seen_colour(const Camera& camera, const float* mean,
                                         const fk_in* coeffs, int64_t i, double offset) {
  const auto basis = harmonics(camera, mean);
  std::array<double, 3> colour = {offset, offset, offset};
  for (int64_t k = 0; k < coeffs->shape[1]; ++k) {
    double three[3];
    load(coeffs, fk::reference::offset(coeffs, i, k), 3, three);
    for (size_t c = 0; c < 3; ++c) colour[c] += basis[static_cast<size_t>(k)] * three[c];
  }
  for (double& v : colour) v = std::max(v, 0.0);
  return colour;
}

// A pixel which takes Gaussians, front to back.
struct Pixel {
  double x, y;  // of its centre
  double light = 1;
  std::array<double, 3> colour{};

  // False: the pixel is done.
  bool draw(double mean_x, double mean_y, double xx, double xy, double yy, double opacity,
            const double* rgb) {
    const double dx = mean_x - x, dy = mean_y - y;
    const double s = (xx * dx * dx + yy * dy * dy) / 2 + xy * dx * dy;
    const double alpha = std::min(kMostAlpha, opacity * std::exp(-s));
    if (s < 0 || alpha < kLeastAlpha) return true;
    const double next = light * (1 - alpha);
    if (next <= kLeastLight) return false;
    for (size_t c = 0; c < 3; ++c) colour[c] += alpha * light * rgb[c];
    light = next;
    return true;
  }
};

}  // namespace fk::reference
