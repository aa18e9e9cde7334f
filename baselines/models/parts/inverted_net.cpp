// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk::parts {
namespace {

// A multiple of 8 near v, and at least nine tenths of v.
int64_t whole_eights(double v) {
  const int64_t near = std::max<int64_t>(8, static_cast<int64_t>(v + 4) / 8 * 8);
  return static_cast<double>(near) < 0.9 * v ? near + 8 : near;
}

struct Word {
  std::string kind;
  std::map<std::string, double> values;
  bool skip = false;
  double value(const std::string& letter, double otherwise) const {
    const auto it = values.find(letter);
    return it == values.end() ? otherwise : it->second;
  }
  int64_t whole(const std::string& letter, int64_t otherwise) const {
    return static_cast<int64_t>(value(letter, static_cast<double>(otherwise)));
  }
};

Word read_word(const Config& config, const std::string& word,
               const std::vector<std::string>& kinds) {
  static const std::vector<std::string> kLetters = {"r", "a", "k", "s", "e", "c", "se"};
  const auto parts = split(word, '_');
  Word w;
  w.kind = parts[0];
  if (std::ranges::find(kinds, w.kind) == kinds.end())
    config.fail_at("arch_def", "`" + excerpt(word) + "` is no block of this model",
                   did_you_mean(w.kind, kinds));
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i] == "skip") {
      w.skip = true;
      continue;
    }
    const size_t digits = parts[i].find_first_of("0123456789");
    const std::string letter = parts[i].substr(0, digits);
    if (digits == std::string::npos || std::ranges::find(kLetters, letter) == kLetters.end())
      config.fail_at("arch_def",
                     "`" + excerpt(word) + "` has the unknown part `" + excerpt(parts[i]) + "`",
                     did_you_mean(letter, kLetters));
    double number = 0;
    const char *begin = parts[i].data() + digits, *end = parts[i].data() + parts[i].size();
    const auto read = std::from_chars(begin, end, number);
    if (read.ec != std::errc{} || read.ptr != end || !(number >= 0 && number <= kSizeMax))
      config.fail_at("arch_def",
                     "`" + excerpt(word) + "` has no number in `" + excerpt(parts[i]) + "`");
    w.values[letter] = number;
  }
  for (const char* needed : {"r", "s", "c"})
    if (w.whole(needed, 0) < 1)
      config.fail_at("arch_def",
                     "`" + excerpt(word) + "` needs a number from 1 on behind " + needed);
  for (const char* kernel : {"a", "k"})
    if (w.whole(kernel, 0) > 0 && w.whole(kernel, 0) % 2 == 0)
      config.fail_at("arch_def", "`" + excerpt(word) + "` has a kernel of even size");
  return w;
}

}  // namespace

InvertedNet read_inverted_net(const Config& config, const std::vector<std::string>& kinds) {
  InvertedNet net{};
  net.colours = bounded(config, "in_chans", config.integer("in_chans", 3), kCountMax);
  net.image_size = read_count(config, "img_size");
  net.classes = read_size(config, "num_classes");
  net.features = read_size(config, "num_features");
  net.stem = read_size(config, "stem_size");
  net.activation = config.text("act_layer");
  if (net.activation != "relu" && net.activation != "silu" && net.activation != "gelu")
    config.fail_at("act_layer", "`" + excerpt(net.activation) + "` is not supported",
                   did_you_mean(net.activation, {"relu", "silu", "gelu"}));
  net.eps = config.number("bn_eps", 1e-5);
  int64_t channels = net.stem, size = net.image_size, stage = 0;
  for (const auto& words : config.texts("arch_def")) {
    int64_t number = 0;
    for (const auto& text : split(words, ' ')) {
      const Word w = read_word(config, text, kinds);
      bounded(config, "arch_def", w.whole("r", 1), kCountMax);
      for (int64_t repeat = 0; repeat < w.whole("r", 1); ++repeat) {
        InvertedBlock b{};
        b.kind = w.kind;
        b.path = fmt::format("blocks.{}.{}", stage, number++);
        b.in = channels;
        b.out = w.whole("c", 0);
        b.middle = whole_eights(static_cast<double>(b.in) * w.value("e", 1));
        b.start = w.whole("a", 0);
        b.kernel = w.whole("k", 0);
        b.stride = repeat == 0 ? w.whole("s", 1) : 1;
        b.squeezed = static_cast<int64_t>(
            std::nearbyint(static_cast<double>(b.middle) * w.value("se", 0) / w.value("e", 1)));
        b.residual = (w.kind != "cn" || w.skip) && b.in == b.out && b.stride == 1;
        if (b.kind != "uir" && b.kernel == 0)
          config.fail_at("arch_def", "`" + excerpt(text) + "` needs a kernel");
        size = (size - 1) / b.stride + 1;
        channels = b.out;
        net.blocks.push_back(b);
      }
    }
    ++stage;
  }
  if (net.blocks.empty()) config.fail_at("arch_def", "it has no block");
  net.stages = stage;
  return net;
}

Value inverted_net(Net& n, const InvertedNet& net) {
  n.rename({{"stem.conv", "conv_stem"}, {"stem.bn", "bn1"}});
  n.common({{"activation", net.activation}, {"eps", net.eps}});
  Value x = conv_norm(n, "stem", pixels(n, net.colours, net.image_size, net.image_size),
                      {.channels = net.stem,
                       .kernel = 3,
                       .stride = 2,
                       .activation = net.activation,
                       .eps = net.eps});
  int64_t stage = 0;
  for (const InvertedBlock& b : net.blocks) {
    const std::string first = fmt::format("blocks.{}.0", stage);
    if (b.path == first) n.tap(fmt::format("hidden.{}", stage++), {x});
    Args args = {{"out_channels", b.out},
                 {"middle_channels", b.middle},
                 {"stride", b.stride},
                 {"residual", b.residual},
                 {"x", x}};
    if (b.kind == "uir") {
      std::vector<std::string> with;
      if (b.start > 0) with.emplace_back("start");
      if (b.kernel > 0) with.emplace_back("middle");
      args.emplace_back("start_kernel_size", std::max<int64_t>(b.start, 1));
      args.emplace_back("middle_kernel_size", std::max<int64_t>(b.kernel, 1));
      x = n("universal_inverted_bottleneck", b.path, args, with);
    } else if (b.kind == "er") {
      args.emplace_back("kernel_size", b.kernel);
      x = n("edge_residual", b.path, args);
    } else if (b.kind == "ir") {
      args.emplace_back("kernel_size", b.kernel);
      args.emplace_back("squeezed_channels", std::max<int64_t>(b.squeezed, 1));
      std::vector<std::string> with;
      if (b.squeezed > 0) with.emplace_back("squeeze");
      x = n("inverted_residual", b.path, args, with);
    } else {
      n.rename({{b.path + ".bn", b.path + ".bn1"}});
      const Value y = conv_norm(n, b.path, x,
                                {.channels = b.out,
                                 .kernel = b.kernel,
                                 .stride = b.stride,
                                 .activation = net.activation,
                                 .eps = net.eps});
      x = b.residual ? sum_images(n, b.path + ".skip", x, y) : y;
    }
  }
  n.tap(fmt::format("hidden.{}", stage), {x});
  return x;
}

}  // namespace fk::parts
