// SPDX-License-Identifier: Apache-2.0
#include "core/archive/mutate.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "core/archive/evolution.hpp"
#include "core/archive/memory.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/json.hpp"
#include "core/base/text.hpp"
#include "core/base/yaml.hpp"

namespace fk {

namespace fs = std::filesystem;

namespace {

constexpr const char* kRecipeFile = "candidate.yaml";
constexpr int64_t kConstantMost = 1 << 16;
constexpr int kDraws = 64;
// Gains to this power are weights: 1.2 times the speed comes twice as often.
constexpr double kMemoryPower = 4, kWeightLeast = 0.1, kWeightMost = 20;

// Flags that candidates may use. Some change values; the judge decides about these.
const std::vector<std::string> kHostMutations = {"-funroll-loops",
                                                 "-fno-trapping-math",
                                                 "-fno-math-errno",
                                                 "-fassociative-math",
                                                 "-fno-signed-zeros",
                                                 "-freciprocal-math",
                                                 "-ffinite-math-only",
                                                 "-fno-semantic-interposition",
                                                 "-mprefer-vector-width=256",
                                                 "-fno-tree-vectorize",
                                                 "-O2",
                                                 "-fipa-pta"};
const std::vector<std::string> kCudaMutations = {"--use_fast_math", "-maxrregcount=64",
                                                 "-maxrregcount=128", "--fmad=false",
                                                 "--extra-device-vectorization"};
const std::vector<std::string> kTargets = {"", "native", "x86-64-v3"};

struct FlagLists {
  std::map<std::string, std::vector<std::string>>
      lists;  // flags, cuda_flags, definitions, libraries
  std::string march, openmp;
};

FlagLists recipe_of(const std::vector<ProgramFile>& files) {
  FlagLists out;
  for (const auto& file : files) {
    if (file.name != kRecipeFile) continue;
    const Yaml root = Yaml::parse(file.text, kRecipeFile);
    if (root.is_null()) continue;
    for (const char* key : {"flags", "cuda_flags", "definitions", "libraries"})
      if (const auto list = root.find(key))
        for (const Yaml& one : list->items()) out.lists[key].push_back(one.text());
    out.march = root.text_or("march", "");
    if (const auto openmp = root.find("openmp")) out.openmp = openmp->text();
  }
  return out;
}

std::vector<ProgramFile> with_recipe(std::vector<ProgramFile> files, const FlagLists& recipe) {
  std::string text;
  for (const auto& [key, list] : recipe.lists) {
    if (list.empty()) continue;
    std::vector<std::string> quoted;
    for (const auto& one : list) quoted.push_back("\"" + one + "\"");
    text += key + ": [" + join(quoted, ", ") + "]\n";
  }
  if (!recipe.march.empty()) text += "march: " + recipe.march + "\n";
  if (!recipe.openmp.empty()) text += "openmp: " + recipe.openmp + "\n";
  std::erase_if(files, [](const ProgramFile& file) { return file.name == kRecipeFile; });
  if (!text.empty()) files.push_back({kRecipeFile, text});
  std::ranges::sort(files, {}, &ProgramFile::name);
  return files;
}

void add_constants(const std::vector<ProgramFile>& files, std::vector<Mutation>& out) {
  static const std::regex cpp(
      R"(constexpr\s+(?:unsigned\s+)?(?:int|long|size_t|std::size_t|u?int(?:32|64)_t)\s+(\w+)\s*=\s*(\d+)\s*;)");
  static const std::regex python(
      R"(\n([A-Z][A-Z0-9_]*)(?:\s*:\s*tl\.constexpr)?\s*=\s*(\d+)(?=\s))");
  for (size_t i = 0; i < files.size(); ++i) {
    const fs::path path = files[i].name;
    if (path.extension() == ".yaml") continue;
    const std::regex& form = path.extension() == ".py" ? python : cpp;
    const std::string& text = files[i].text;
    for (auto it = std::sregex_iterator(text.begin(), text.end(), form);
         it != std::sregex_iterator(); ++it) {
      const std::string digits = (*it)[2];
      if (digits.size() > 6) continue;
      const int64_t value = std::stoll(digits);
      const auto add = [&](int64_t to, const char* how) {
        if (to < 1 || to > kConstantMost || to == value) return;
        Mutation one{"constant " + (*it)[1].str() + how, files};
        one.files[i].text.replace(static_cast<size_t>(it->position(2)), digits.size(),
                                  std::to_string(to));
        out.push_back(std::move(one));
      };
      add(value * 2, " x 2");
      if (value % 2 == 0) add(value / 2, " / 2");
    }
  }
}

void add_flags(const std::vector<ProgramFile>& files, const std::string& language,
               std::vector<Mutation>& out) {
  const FlagLists now = recipe_of(files);
  const bool cuda = language == "cu";
  if (language != "c" && language != "cpp" && !cuda) return;
  const char* const key = cuda ? "cuda_flags" : "flags";
  for (const auto& flag : cuda ? kCudaMutations : kHostMutations) {
    FlagLists to = now;
    std::vector<std::string>& list = to.lists[key];
    const bool there = contains(list, flag);
    // One value of a flag at a time.
    const std::string stem = flag.substr(0, flag.find('=') + 1);
    std::erase_if(list, [&](const std::string& one) {
      return one == flag || (!stem.empty() && starts_with(one, stem));
    });
    if (!there) list.push_back(flag);
    out.push_back({(there ? "no flag " : "flag ") + flag, with_recipe(files, to)});
  }
  if (cuda) return;
  for (const auto& target : kTargets) {
    if (target == now.march) continue;
    FlagLists to = now;
    to.march = target;
    out.push_back({"target " + (target.empty() ? "default" : target), with_recipe(files, to)});
  }
}

}  // namespace

std::vector<Mutation> mutations_of(const std::vector<ProgramFile>& files,
                                   const std::string& language) {
  std::vector<Mutation> out;
  add_constants(files, out);
  add_flags(files, language, out);
  std::ranges::stable_sort(out, {}, &Mutation::strategy);
  return out;
}

std::string mutate(const fs::path& folder, const std::vector<ProgramFile>& parent) {
  const auto task = from_fields<StepTask>(load_json(folder / "task.json"), "task.json", {});
  std::mt19937_64 random(static_cast<uint64_t>(task.seed));
  std::map<std::string, double> gains;
  const Json archive = load_json(folder / "archive.json");
  if (const auto found = archive.find("strategies"); found != archive.end()) {
    std::vector<StrategyEstimate> estimates;
    read_fields(*found, estimates, "archive.json");
    for (const auto& one : estimates) gains[one.strategy] = one.gain;
  }
  const auto weight = [&](const Mutation& m) {
    const auto known = gains.find(strategy_key(m.strategy));
    if (known == gains.end()) return 1.0;
    return std::clamp(std::pow(known->second, kMemoryPower), kWeightLeast, kWeightMost);
  };
  const auto draw = [&](const std::vector<ProgramFile>& files) -> std::optional<Mutation> {
    const std::vector<Mutation> all = mutations_of(files, task.language);
    double sum = 0;
    for (const auto& one : all) sum += weight(one);
    double at = static_cast<double>(random() >> 11) * 0x1p-53 * sum;
    for (const auto& one : all)
      if ((at -= weight(one)) < 0) return one;
    return std::nullopt;
  };
  for (int i = 0; i < kDraws; ++i) {
    std::optional<Mutation> one = draw(parent);
    if (!one) return "its parent has no constant and no recipe to change";
    if (random() % 3 == 0)  // a second change
      if (auto two = draw(one->files))
        one = Mutation{one->strategy + "; " + two->strategy, std::move(two->files)};
    if (contains(task.known, normal_hash(one->files))) continue;
    for (const auto& file : one->files) write_file_atomic(folder / "out" / file.name, file.text);
    ProgramNotes notes;
    notes.author = "mutate";
    notes.strategy = one->strategy;
    notes.stage = "refine";
    if (const auto known = gains.find(strategy_key(one->strategy)); known != gains.end())
      notes.predicted_gain = known->second;
    write_file_atomic(folder / "out" / kNotesFile, to_fields(notes).dump(1) + "\n");
    return {};
  }
  return "it drew no program that the run has not";
}

}  // namespace fk
