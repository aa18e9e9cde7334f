// SPDX-License-Identifier: Apache-2.0
// Attention of one head over the latents of a request, in pages: mla_attention, and what the layers
// with latent attention are made of.
#pragma once
#include "op.hpp"

namespace fk::reference {

struct LatentRequest {
  const fk_in* cache;
  const int32_t* pages;
  int64_t page_size;

  // out[latent] = attention of q[width], latent part first, at `position` over everything up to it.
  void attend(double scale, const double* q, int64_t latent, int64_t width, int64_t position,
              double* scores, double* out) const {
    const auto at = [&](int64_t j) { return offset(cache, pages[j / page_size], j % page_size); };
    std::fill_n(out, latent, 0.0);
    Attention{scale}(
        0, position + 1, scores, [&](int64_t j) { return dot_view(cache, at(j), q, width); },
        [&](int64_t j, double p) { add_scaled(cache, at(j), latent, p, out); });
  }
};

}  // namespace fk::reference
