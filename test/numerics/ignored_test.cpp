// SPDX-License-Identifier: Apache-2.0
// Kernels that are right but ignore one field. They use a default in place of a value of init, the
// usual number in place of a tensor's, or no optional tensor. For every field of every op one of
// them has to be wrong in some smoke case.
#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/comparison.hpp"
#include "core/cases/generator_text.hpp"
#include "test/catch.hpp"
#include "test/numerics/reference.hpp"

namespace {

// The call which a kernel answers instead of its own.
struct Ignorant {
  fk::Case source;
  fk::CaseValues values;
};
struct Field {
  std::string name;
  // False where the case has nothing to ignore.
  std::function<bool(const fk::ResolvedCase&, Ignorant&)> ignore;
};

bool in_a_shape(const fk::Contract& contract, const fk::Slot& slot) {
  for (const auto id : {fk::SectionId::weights, fk::SectionId::forward})
    for (const fk::Slot& s : contract.section(id))
      for (const fk::Expr& dim : s.shape)
        for (const auto& letter : dim.symbols())
          if (letter == slot.name) return true;
  return false;
}

std::string text_of(const fk::Slot& slot, fk_slot value) {
  if (slot.kind == fk::SlotKind::number) return std::to_string(value.f);
  if (slot.kind == fk::SlotKind::choice) return slot.choices[static_cast<size_t>(value.i)];
  return std::to_string(value.i);
}

// Values which an op may have in place of a value of init: its default, or the other ones if there
// are few. Nothing for a number.
void add_scalar(const fk::Contract& contract, const fk::Slot& slot, std::vector<Field>& out) {
  const auto at = static_cast<size_t>(slot.index);
  const auto put = [&](const std::string& what, const std::string& value) {
    out.push_back({slot.name + what,
                   [name = slot.name, value, at, &slot](const fk::ResolvedCase& r, Ignorant& own) {
                     if (text_of(slot, r.init[at]) == value) return false;
                     own.source.init[name] = value;
                     return true;
                   }});
  };
  if (!slot.axis.empty() || in_a_shape(contract, slot)) return;
  if (slot.kind == fk::SlotKind::number) put(" as 0", "0.000000");
  if (slot.kind == fk::SlotKind::boolean)
    for (const char* value : {"0", "1"}) put(std::string(" as ") + value, value);
  if (slot.kind == fk::SlotKind::choice)
    for (const auto& value : slot.choices) put(" as " + value, value);
  if (slot.has_default && (slot.kind == fk::SlotKind::number || slot.kind == fk::SlotKind::integer))
    put(" at its default", text_of(slot, slot.default_value));
}

// Whole numbers that are allowed only together.
void add_numbers(const fk::Contract& contract, std::vector<Field>& out) {
  std::vector<const fk::Slot*> numbers;
  for (const fk::Slot& slot : contract.section(fk::SectionId::init))
    if (slot.kind == fk::SlotKind::integer && slot.has_default && slot.axis.empty() &&
        !in_a_shape(contract, slot))
      numbers.push_back(&slot);
  if (numbers.size() < 2) return;
  out.push_back(
      {"its whole numbers at their defaults", [numbers](const fk::ResolvedCase& r, Ignorant& own) {
         bool differs = false;
         for (const fk::Slot* slot : numbers) {
           const std::string value = text_of(*slot, slot->default_value);
           differs |= text_of(*slot, r.init[static_cast<size_t>(slot->index)]) != value;
           own.source.init[slot->name] = value;
         }
         return differs;
       }});
}

// Fields whose generators name `field`, and those that name them.
std::set<std::string> made_of(const fk::ResolvedCase& r, const std::string& field) {
  std::set<std::string> out{field};
  for (size_t before = 0; before != out.size();) {
    before = out.size();
    for (const auto& f : r.fields) {
      if (f.values.empty()) continue;
      for (const auto& arg : fk::GeneratorText::parse(f.values, "values").args)
        if (out.count(arg)) out.insert(f.slot->name);
    }
  }
  return out;
}

// Other contents that its generator could have made with all others as they are, but for those that
// are made from it.
bool other_contents(const fk::ResolvedCase& r, const std::string& field, fk::CaseValues& values) {
  const auto mine = values.find(field);
  if (mine == values.end()) return false;
  const auto made = made_of(r, field);
  auto kept = std::make_shared<std::map<std::string, std::vector<fk::Tensor>>>();
  for (const auto& [name, tensors] : values)
    if (!made.count(name)) (*kept)[name] = tensors;
  fk::ResolvedCase again = r;
  again.contents = kept;
  for (uint64_t seed = 2; seed < 10; ++seed) {
    fk::CaseValues other = fk::make_inputs(again, seed, 2);
    const auto same = [](const fk::Tensor& a, const fk::Tensor& b) {
      return a.values() == b.values();
    };
    if (std::equal(mine->second.begin(), mine->second.end(), other.at(field).begin(), same))
      continue;
    values = std::move(other);
    return true;
  }
  return false;
}

std::vector<Field> fields_of(const fk::Contract& contract) {
  std::vector<Field> out;
  for (const fk::Slot& slot : contract.section(fk::SectionId::init))
    add_scalar(contract, slot, out);
  add_numbers(contract, out);
  for (const auto id : {fk::SectionId::weights, fk::SectionId::forward}) {
    for (const fk::Slot& slot : contract.section(id)) {
      if (!slot.is_tensor() || !slot.is_read()) continue;
      out.push_back({slot.name, [&slot](const fk::ResolvedCase& r, Ignorant& own) {
                       return other_contents(r, slot.name, own.values);
                     }});
      if (!slot.optional) continue;
      out.push_back(
          {slot.name + " as if absent", [&slot](const fk::ResolvedCase& r, Ignorant& own) {
             const auto gone = [&](const std::string& name, const std::string& group) {
               return name == slot.name || (!slot.group.empty() && group == slot.group);
             };
             if (!own.values.count(slot.name)) return false;
             std::erase_if(own.source.with, [&](const std::string& w) { return gone(w, w); });
             for (const auto& f : r.fields)
               if (gone(f.slot->name, f.slot->group)) own.values.erase(f.slot->name);
             return true;
           }});
    }
  }
  return out;
}

enum class Seen { not_there, refused, missed, seen };

// Tells if the comparison of this case sees it.
Seen look(const Reference& here, const fk::Provider& oracle, const fk::Case& source,
          const Field& field) {
  const auto resolved = fk::resolve(*oracle.contract, source, {});
  const auto inputs = fk::make_inputs(resolved, 1, 2);
  Ignorant own{source, inputs};
  if (!field.ignore(resolved, own)) return Seen::not_there;
  std::string why;
  const auto ask = [&](const fk::Case& of, const fk::CaseValues& values) {
    return fk::reference_outputs(oracle, fk::resolve(*oracle.contract, of, {}), of, {}, values,
                                 here.options, why);
  };
  fk::CaseValues answer;
  try {
    answer = ask(own.source, own.values);
  } catch (const fk::Error&) {
    return Seen::refused;
  }
  if (!why.empty()) return Seen::refused;
  const auto want = ask(source, inputs);
  for (const auto* f : resolved.written()) {
    const auto& name = f->slot->name;
    const bool kept = f->slot->role == fk::Role::inout;
    // An optional one that is absent is not written.
    if (!answer.count(name)) answer[name] = (kept ? inputs : want).at(name);
    for (size_t k = 0; k < answer.at(name).size(); ++k) {
      fk::Tensor& t = answer.at(name)[k];
      t = t.to(f->dtype);
      // Elements that the call does not write are no part of its answer.
      const fk::Tensor right = want.at(name)[k].to(f->dtype);
      for (int64_t i = 0; kept && i < t.numel(); ++i)
        if (right.at(i) == inputs.at(name)[k].at(i)) t.set(i, right.at(i));
    }
  }
  const fk::Comparer comparer(resolved, inputs, want,
                              [&](const fk::CaseValues& values) { return ask(source, values); });
  return comparer.compare(answer).ok ? Seen::missed : Seen::seen;
}

}  // namespace

TEST_CASE("gate_no_field_may_be_ignored") {
  const Reference here;
  // The result is the same for all; what the call writes over or what no case has to have.
  const std::set<std::string> may{"mamba2_block: chunk_size at its default",
                                  "mamba_mixer2: chunk_size at its default",
                                  "ssd_chunk_scan: chunk_size at its default",
                                  "kv_cache_append: k_cache",
                                  "kv_cache_append: v_cache",
                                  "mla_cache_append: kv_cache",
                                  "scatter_rows: out",
                                  "decode_step: activations as f32",
                                  "decode_step: activations as weights",
                                  "decode_step: cu_seqlens",          // every request has one token
                                  "ms_deform_attn: spatial_shapes"};  // as large as S allows
  int fields = 0;
  std::set<std::string> ignored;
  for (const auto& op : here.catalog.ops()) {
    const fk::Contract& contract = here.catalog.at(op);
    const fk::Oracles oracles = fk::Oracles::of(here.plugins, op);
    if (!oracles.cpu || contract.comm()) continue;
    for (const Field& field : fields_of(contract)) {
      std::set<Seen> all;
      for (const fk::Case& source : contract.cases)
        if (source.size == "smoke" && !all.count(Seen::seen))
          all.insert(look(here, *oracles.cpu, source, field));
      ++fields;
      if (!all.count(Seen::seen) && (all.count(Seen::missed) || !all.count(Seen::refused)))
        ignored.insert(op + ": " + field.name);
    }
  }
  INFO("of " << fields << " these could be ignored:\n"
             << fk::join({ignored.begin(), ignored.end()}, "\n"));
  CHECK(ignored == may);
  CHECK(fields > 850);
}
