// SPDX-License-Identifier: Apache-2.0
#include "core/judge/plan/asked_case.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/cases/captured.hpp"
#include "core/cases/routing.hpp"
#include "core/check/check.hpp"
#include "core/judge/plan/hidden_cases.hpp"

namespace fk {

namespace {

Case recorded_from(const std::string& text) {
  const Json json = Json::parse(text);
  Case out;
  json.at("axes").get_to(out.axes);
  json.at("listed").get_to(out.listed);
  json.at("init").get_to(out.init);
  json.at("scalars").get_to(out.scalars);
  json.at("with").get_to(out.with);
  json.at("strided").get_to(out.strided);
  for (const auto& [field, dtype] : json.at("dtypes").items())
    out.dtypes[field] = dtype_from_name(dtype.get<std::string>(), "a recorded case");
  return out;
}

// Keeps the last folder and op, because cases of one op follow each other.
const std::vector<Case>& recorded_cases(const std::string& folder, const std::string& op,
                                        const Catalog& catalog) {
  static std::string known;
  static std::vector<Case> cases;
  const std::string key = folder + "\n" + op;
  if (known != key) cases = Captured::open(folder, catalog).cases(op);
  known = key;
  return cases;
}

const Case& named(const std::vector<Case>& cases, const std::string& op, const std::string& size,
                  const std::string& name) {
  std::vector<std::string> known;
  for (const Case& c : cases) {
    if (c.size != size) continue;
    if (c.name == name) return c;
    known.push_back(c.name);
  }
  fail(op, "there is no " + size + " case `" + name + "`", did_you_mean(name, known));
}

// Names are unique: a `full` case has other dtypes on request alone.
std::vector<Variant> askable(const Contract& contract, const Case& source) {
  std::vector<Variant> out = variants_of(contract, source, false);
  if (source.size == "full")
    for (Variant& v : dtype_variants(contract, source)) out.push_back(std::move(v));
  return out;
}

}  // namespace

std::string AskedCase::key() const {
  return op + "/" + size + "/" + name + "/" + variant + "/" + captured + "/" +
         std::to_string(skew) + (draw ? "/" + std::to_string(draw) : "");
}

std::string recorded_text(const Case& source) {
  Json dtypes = Json::object();
  for (const auto& [field, dtype] : source.dtypes) dtypes[field] = name(dtype);
  return Json{{"axes", source.axes},       {"listed", source.listed}, {"init", source.init},
              {"scalars", source.scalars}, {"with", source.with},     {"strided", source.strided},
              {"dtypes", dtypes}}
      .dump();
}

PosedCase pose(const AskedCase& asked, const Contract& contract, const Catalog* contents) {
  if (asked.captured.empty())
    return pose(asked, contract, named(contract.cases, contract.op, asked.size, asked.name));
  if (contents)
    return pose(asked, contract,
                named(recorded_cases(asked.captured, contract.op, *contents), contract.op,
                      asked.size, asked.name));
  Case source = recorded_from(asked.recorded);
  source.name = asked.name;
  source.size = asked.size;
  return pose(asked, contract, std::move(source));
}

PosedCase pose(const AskedCase& asked, const Contract& contract, Case source) {
  PosedCase out;
  out.source = std::move(source);
  if (asked.skew > 0) out.source = with_skew(contract, out.source, asked.skew);
  if (asked.variant.empty()) return out;
  if (is_hidden(asked.variant)) return pose_hidden(asked, contract, std::move(out.source));
  std::vector<std::string> known;
  for (Variant& variant : askable(contract, out.source)) {
    known.push_back(variant.name);
    if (variant.name != asked.variant) continue;
    out.variant = std::move(variant);
    return out;
  }
  fail(contract.op + ", case " + asked.name, "there is no variant `" + asked.variant + "`",
       did_you_mean(asked.variant, known));
}

std::string case_hash(const Contract& contract, const PosedCase& posed) {
  const Case& source = posed.source;
  const Variant& variant = posed.variant;
  Json dtypes = Json::object(), contents = Json::object();
  for (const auto& [field, dtype] : variant.dtypes) dtypes[field] = name(dtype);
  // A new routing drops the recorded routing's contents.
  for (const auto& [field, names] : source.content_names)
    if (source.contents && source.contents->count(field)) contents[field] = names;
  const Json all = {{"op", contract.op},
                    {"case", Json::parse(recorded_text(source))},
                    {"values", source.values},
                    {"contents", contents},
                    {"variant",
                     {{"dtypes", dtypes},
                      {"with", variant.with ? Json(*variant.with) : Json()},
                      {"axes", variant.axes},
                      {"listed", variant.listed},
                      {"layout", static_cast<int>(variant.layout)}}}};
  return sha256(all.dump());
}

std::vector<std::string> variants_wanted(const Contract& contract, const Case& source,
                                         const std::vector<std::string>& variants,
                                         const std::vector<std::string>& dtypes) {
  const auto in = [](const std::vector<std::string>& list, const std::string& name) {
    return std::any_of(list.begin(), list.end(),
                       [&](const auto& one) { return one == name || one == "all"; });
  };
  std::vector<std::string> out;
  for (const Variant& v : askable(contract, source)) {
    const bool full = source.size == "full" && !v.dtypes.empty();
    if (v.name == Variant().name) continue;
    if ((!full && in(variants, v.name)) || std::ranges::count(variants, v.name) ||
        (!v.dtypes.empty() && in(dtypes, v.name)))
      out.push_back(v.name);
  }
  return out;
}

}  // namespace fk
