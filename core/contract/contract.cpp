// SPDX-License-Identifier: Apache-2.0
// Reads a contract from YAML. Every error in a file is reported with file, line and the nearest
// right word.
#include "core/contract/contract.hpp"

#include <algorithm>
#include <set>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/base/yaml.hpp"
#include "core/contract/identity.hpp"

namespace fk {

const char* section_name(SectionId section) {
  static constexpr const char* kNames[] = {"init", "weights", "forward", "plan"};
  return kNames[static_cast<int>(section)];
}

namespace {

std::vector<std::string> texts(const Yaml& node) {
  std::vector<std::string> out;
  if (node.is_list()) {
    for (const auto& item : node.items()) out.push_back(item.text());
  } else {
    out.push_back(node.text());
  }
  return out;
}

template <class T>
T pick(const Yaml& node, const std::vector<std::pair<std::string, T>>& known) {
  const std::string word = node.text();
  std::vector<std::string> names;
  for (const auto& [name, value] : known) {
    if (name == word) return value;
    names.push_back(name);
  }
  node.fail("unknown value `" + word + "`", did_you_mean(word, names));
}

const std::vector<std::pair<std::string, SlotKind>> kKinds = {
    {"tensor", SlotKind::tensor}, {"int", SlotKind::integer}, {"float", SlotKind::number},
    {"bool", SlotKind::boolean},  {"enum", SlotKind::choice}, {"dtype", SlotKind::dtype},
    {"ints", SlotKind::ints},     {"comm", SlotKind::comm}};

DType read_dtype_name(const Yaml& node) {
  try {
    return dtype_from_name(node.text());
  } catch (const Error& e) {
    node.fail(e.what_text(), e.hint());
  }
}

void read_dtype(Slot& slot, const Yaml& node) {
  if (node.is_list()) {
    for (const auto& item : node.items()) slot.dtypes.push_back(read_dtype_name(item));
  } else if (node.text() == "float") {
    slot.dtypes = {DType::f32, DType::bf16, DType::f16};
  } else {
    slot.dtype_of = node.text();
  }
}

void read_tensor(Slot& slot, const Yaml& node) {
  for (const auto& dim : node.at("shape").items())
    slot.shape.push_back(Expr::parse(dim.text(), dim.where()));
  read_dtype(slot, node.at("dtype"));
  if (auto role = node.find("role")) {
    slot.role = pick<Role>(*role, {{"in", Role::in}, {"out", Role::out}, {"inout", Role::inout}});
    if (slot.section != SectionId::forward && slot.role != Role::in)
      role->fail("only forward fields are written");
  } else if (slot.section == SectionId::forward) {
    node.fail("the forward tensor `" + slot.name + "` has no role", "role: in, out or inout");
  }
  if (auto layout = node.find("layout"))
    slot.strided = pick<bool>(*layout, {{"strided", true}, {"dense", false}});
  if (auto optional = node.find("optional")) slot.optional = optional->boolean();
  const auto text = [&](const char* key, std::string& into) {
    if (auto found = node.find(key)) into = found->text();
  };
  text("writes", slot.writes);
  text("count", slot.count);
  if (auto order = node.find("order"))
    slot.any_order = pick<bool>(*order, {{"any", true}, {"given", false}});
  text("list", slot.list);
  text("mirror", slot.mirror);
  text("values", slot.values);
  if (auto replicated = node.find("replicated")) slot.replicated = replicated->boolean();
  text("state", slot.state);
  if (!slot.state.empty() && slot.role != Role::inout)
    node.fail("`" + slot.name + "` is a state, but not inout");
  if (auto checkpoint = node.find("checkpoint")) {
    if (slot.section != SectionId::weights) checkpoint->fail("only weights are in checkpoints");
    slot.checkpoint = read_weight_law(*checkpoint);
  }
}

void read_default(Slot& slot, const Yaml& node) {
  slot.has_default = true;
  switch (slot.kind) {
    case SlotKind::number:
      slot.default_value.f = node.number();
      break;
    case SlotKind::boolean:
      slot.default_value.i = node.boolean() ? 1 : 0;
      break;
    case SlotKind::choice: {
      const auto it = std::find(slot.choices.begin(), slot.choices.end(), node.text());
      if (it == slot.choices.end())
        node.fail("the default is not one of the values", did_you_mean(node.text(), slot.choices));
      slot.default_value.i = it - slot.choices.begin();
      break;
    }
    case SlotKind::integer:
      slot.default_value.i = node.integer();
      break;
    default:
      node.fail("a slot of this type has no default");
  }
}

void read_scalar(Slot& slot, const Yaml& node) {
  if (auto axis = node.find("axis")) {
    if (axis->is_list() && slot.kind != SlotKind::ints)
      axis->fail("only the elements of ints are several axes");
    slot.axis = join(texts(*axis), ",");
  }
  if (auto expr = node.find("expr")) slot.expr = expr->text();
  if (auto capture = node.find("capture")) slot.capture = capture->boolean();
  if (auto list = node.find("list")) slot.list = list->text();
  if (slot.kind == SlotKind::choice) slot.choices = texts(node.at("choices"));
  if (auto value = node.find("default")) read_default(slot, *value);
  if (auto value = node.find("min")) slot.min = value->number();
  if (auto value = node.find("max")) slot.max = value->number();
  if (slot.kind == SlotKind::comm) slot.optional = true;
  if (slot.section == SectionId::forward && !slot.capture) {
    node.fail(
        "the forward scalar `" + slot.name + "` changes per call",
        "a forward scalar is `capture: true`, an upper bound; a value that changes is a tensor");
  }
}

Slot read_slot(const Yaml& node, SectionId section, int index) {
  node.only({"name",    "type",    "role",       "shape",   "dtype",     "layout", "optional",
             "group",   "writes",  "count",      "order",   "list",      "values", "mirror",
             "axis",    "capture", "expr",       "choices", "default",   "min",    "max",
             "meaning", "since",   "replicated", "state",   "checkpoint"});
  Slot slot{};
  slot.section = section;
  slot.index = index;
  slot.name = node.at("name").text();
  for (char c : slot.name) {
    if (!(std::isalnum(static_cast<unsigned char>(c)) || c == '_')) {
      node.at("name").fail("`" + slot.name + "` is not an identifier of C");
    }
  }
  if (auto type = node.find("type")) slot.kind = pick(*type, kKinds);
  if (auto meaning = node.find("meaning")) slot.meaning = meaning->text();
  if (auto group = node.find("group")) slot.group = group->text();
  if (auto since = node.find("since")) slot.since = static_cast<int>(since->integer());
  if (slot.is_tensor()) {
    if (section == SectionId::init)
      node.fail("init takes no tensors", "constants that are tensors are weights");
    read_tensor(slot, node);
  } else {
    if (section == SectionId::weights || section == SectionId::plan)
      node.fail("this section has tensors only");
    read_scalar(slot, node);
  }
  if (slot.since > 1 && slot.required())
    node.fail("the appended slot `" + slot.name + "` is required",
              "only optional slots and those with a default can be appended");
  slot.line = slot_line(slot);
  return slot;
}

void read_mirrors(Contract& c, const Yaml& node) {
  for (const auto& item : node.items()) {
    item.only({"name", "arguments"});
    Mirror m;
    m.name = item.at("name").text();
    if (auto arguments = item.find("arguments")) {
      for (const auto& [argument, target] : arguments->entries()) {
        const std::string to = target.text();
        if (!to.starts_with("dropped: ") && !c.find(to)) {
          target.fail("`" + to + "` is not a slot of " + c.op, did_you_mean(to, c.field_names()));
        }
        m.arguments[argument] = to;
      }
    }
    c.mirrors.push_back(std::move(m));
  }
}

std::string flat_text(const Yaml& node) {
  if (!node.is_list()) return node.text();
  return join(texts(node), ",");
}

// [q, k], or {q: 6144} if the rows are cut from a wider tensor: 6144 elements from row to row.
std::map<std::string, int64_t> read_strided(const Yaml& value) {
  std::map<std::string, int64_t> out;
  if (!value.is_map())
    for (const auto& field : texts(value)) out[field] = 0;
  else
    for (const auto& [field, step] : value.entries())
      if ((out[field] = step.integer()) < 1)
        step.fail("elements from one row of " + field +
                  " to the next: at least as many as a row has");
  return out;
}

Case read_case(const Contract& c, const Yaml& node, const std::string& size, size_t number) {
  Case out;
  out.size = size;
  out.where = node.where();
  out.name = size + std::to_string(number);
  for (const auto& [key, value] : node.entries()) {
    const bool letter = std::any_of(c.axes.begin(), c.axes.end(),
                                    [&, k = key](const auto& a) { return a.first == k; });
    if (key == "name")
      out.name = value.text();
    else if (key == "from")
      out.from = value.text();
    else if (key == "with")
      out.with = texts(value);
    else if (key == "strided")
      out.strided = read_strided(value);
    else if (key == "values")
      for (const auto& [field, gen] : value.entries()) out.values[c.at(field).name] = gen.text();
    else if (key == "dtype")
      for (const auto& [field, type] : value.entries())
        out.dtypes[c.at(field).name] = read_dtype_name(type);
    else if (letter && value.is_list())
      for (const auto& item : value.items()) out.listed[key].push_back(item.integer());
    else if (letter)
      out.axes[key] = value.integer();
    else if (c.find(SectionId::init, key))
      out.init[key] = flat_text(value);
    else if (const Slot* slot = c.find(SectionId::forward, key);
             slot && slot->kind == SlotKind::integer) {
      out.scalars[key] = value.integer();
      if (out.scalars[key] < 0) value.fail("`" + key + "` is a bound, which is not below 0");
    } else {
      std::vector<std::string> known = {"name", "from", "with", "strided", "values", "dtype"};
      for (const auto& [a, meaning] : c.axes) known.push_back(a);
      for (const auto& s : c.section(SectionId::init)) known.push_back(s.name);
      for (const auto& s : c.section(SectionId::forward))
        if (s.kind == SlotKind::integer) known.push_back(s.name);
      value.fail("unknown key `" + key + "` in a case of " + c.op, did_you_mean(key, known));
    }
  }
  for (const auto& w : out.with) {
    bool group = false;
    for (const auto& s : c.sections)
      for (const auto& slot : s) group |= slot.group == w;
    if (!group && !c.find(w))
      node.fail("`" + w + "` is not a field or group of " + c.op, did_you_mean(w, c.field_names()));
  }
  for (const auto& s : c.section(SectionId::init)) {
    if (s.required() && !out.init.count(s.name))
      node.fail("the case has no value for `" + s.name + "`");
  }
  return out;
}

// Checks an output of unknown size. The same call writes its count field: whole numbers, one for
// all rows or one for each group of rows.
void check_count(const Contract& c, const Slot& slot, const Yaml& root) {
  const std::string where = "count of " + slot.name + ": ";
  if (slot.count.empty()) {
    if (slot.any_order)
      root.fail("order of " + slot.name + ": only an output with `count` may have an order");
    return;
  }
  const Slot* field = c.find(SectionId::forward, slot.count);
  if (!field)
    root.fail(where + "`" + slot.count + "` is not a forward field",
              did_you_mean(slot.count, c.field_names()));
  if (slot.role != Role::out || field->role != Role::out || field->optional != slot.optional)
    root.fail(where + "both are outputs of the same calls");
  const auto whole = [](const Slot& s) {
    return s.dtype_of.empty() && !s.dtypes.empty() &&
           std::none_of(s.dtypes.begin(), s.dtypes.end(), [](DType t) { return is_float(t); });
  };
  if (!whole(*field)) root.fail(where + "`" + slot.count + "` holds whole numbers");
  if (slot.any_order && !whole(slot))
    root.fail("order of " + slot.name + ": rows of floats cannot be compared as a set");
  const size_t leading = c.count_axes(slot);
  if (leading >= slot.shape.size()) root.fail(where + "no axis is left to be the capacity");
  for (size_t d = 0; d < leading; ++d) {
    if (!(field->shape[d] == slot.shape[d]))
      root.fail(where + "`" + slot.count + "` has one number, or the leading axes of `" +
                slot.name + "`");
  }
}

void check_names(const Contract& c, const Yaml& root) {
  std::set<std::string> seen, letters;
  for (const auto& [letter, meaning] : c.axes) letters.insert(letter);
  for (const auto& s : c.section(SectionId::init)) letters.insert(s.name);
  for (int i = 0; i < kSections; ++i) {
    std::set<std::string> here;
    for (const auto& slot : c.sections[static_cast<size_t>(i)]) {
      // Plan fields may have the names of the forward fields that they mirror.
      const bool fresh = i == 3 ? here.insert(slot.name).second : seen.insert(slot.name).second;
      if (!fresh) root.fail("the slot `" + slot.name + "` is there twice");
      if (!slot.list.empty()) {
        for (const auto& s : Expr::parse(slot.list, c.where).symbols())
          if (!letters.count(s))
            root.fail("the list axis `" + s + "` of " + slot.name + " is not listed under axes",
                      did_you_mean(s, {letters.begin(), letters.end()}));
      }
      for (const auto& axis : slot.axis_names())
        if (!letters.count(axis))
          root.fail("the axis `" + axis + "` of " + slot.name + " is not listed under axes");
      for (const auto& dim : slot.shape) {
        for (const auto& s : dim.symbols()) {
          if (!letters.count(s))
            root.fail(
                "the axis `" + s + "` in the shape of " + slot.name + " is not listed under axes",
                did_you_mean(s, {letters.begin(), letters.end()}));
        }
      }
      if (!slot.dtype_of.empty() && !c.find(slot.dtype_of))
        root.fail("dtype of " + slot.name + ": `" + slot.dtype_of + "` is not a field",
                  did_you_mean(slot.dtype_of, c.field_names()));
      if (!slot.mirror.empty() && !c.find(slot.mirror))
        root.fail("mirror of " + slot.name + ": `" + slot.mirror + "` is not a field");
      check_count(c, slot, root);
    }
  }
}

std::vector<std::string> axes_and_fields(const Contract& c) {
  std::vector<std::string> known = c.field_names();
  for (const auto& [letter, meaning] : c.axes) known.push_back(letter);
  return known;
}

// `limits: {NR: {bits: 8, why: every rank is a process}}`
void read_limits(Contract& c, const Yaml& node) {
  const std::vector<std::string> known = axes_and_fields(c);
  for (const auto& [name, limit] : node.entries()) {
    limit.only({"bits", "why"});
    if (!contains(known, name))
      limit.fail("`" + name + "` is neither an axis nor a slot of " + c.op,
                 did_you_mean(name, known));
    RangeLimit& out = c.limits[name];
    out.bits = pick<int>(limit.at("bits"), {{"8", 8}, {"16", 16}});
    out.why = limit.at("why").text();
  }
}

// `codes: {out: {scale: scale_out, rows: NB, columns: KB}}`
void read_codes(Contract& c, const Yaml& node) {
  const auto written = [&](const std::string& name) {
    const Slot* slot = c.find(SectionId::forward, name);
    return slot && slot->is_tensor() && slot->role == Role::out;
  };
  for (const auto& [name, code] : node.entries()) {
    code.only({"scale", "rows", "columns"});
    if (!written(name))
      code.fail("`" + name + "` is no output", did_you_mean(name, c.field_names()));
    CodeField& out = c.tolerance.codes[name];
    if (auto scale = code.find("scale")) {
      out.scale = scale->text();
      if (!written(out.scale))
        scale->fail("`" + out.scale + "` is no output", did_you_mean(out.scale, c.field_names()));
    }
    if (auto rows = code.find("rows")) out.rows = Expr::parse(rows->text(), rows->where());
    if (auto columns = code.find("columns"))
      out.columns = Expr::parse(columns->text(), columns->where());
  }
}

void read_tolerance(Contract& c, const Yaml& tolerance) {
  tolerance.only({"numerics", "length", "coarse_if", "outer", "rounded", "codes"});
  if (auto codes = tolerance.find("codes")) read_codes(c, *codes);
  const Yaml numerics = tolerance.at("numerics");
  c.tolerance.numerics = pick<std::string>(numerics, {{"exact", "exact"},
                                                      {"elementwise", "elementwise"},
                                                      {"activation", "activation"},
                                                      {"reduction", "reduction"},
                                                      {"softmax", "softmax"},
                                                      {"logarithm", "logarithm"},
                                                      {"selection", "selection"}});
  if (auto length = tolerance.find("length"))
    c.tolerance.length = Expr::parse(length->text(), length->where());
  if (auto coarse = tolerance.find("coarse_if")) {
    c.tolerance.coarse_if = coarse->text();
    const Slot* slot = c.find(SectionId::init, c.tolerance.coarse_if);
    if (!slot || slot->kind != SlotKind::boolean)
      coarse->fail("`" + c.tolerance.coarse_if + "` is no boolean of init",
                   did_you_mean(c.tolerance.coarse_if, c.field_names()));
  }
  if (auto rounded = tolerance.find("rounded")) {
    c.tolerance.rounded = rounded->text();
    const Slot* slot = c.find(SectionId::weights, c.tolerance.rounded);
    if (!slot || !slot->is_tensor())
      rounded->fail("`" + c.tolerance.rounded + "` is no weight",
                    did_you_mean(c.tolerance.rounded, c.field_names()));
  }
  if (auto outer = tolerance.find("outer")) {
    c.tolerance.outer = outer->text();
    const Slot* slot = c.find(SectionId::forward, c.tolerance.outer);
    if (!slot || slot->role == Role::in || slot->shape.size() < 2)
      outer->fail("`" + c.tolerance.outer + "` is no output of two axes and more",
                  did_you_mean(c.tolerance.outer, c.field_names()));
  }
}

Contract read(const Yaml& root, const std::string& stem, int level, const std::string& family) {
  root.only({"op", "revision", "summary", "aliases", "mirrors", "axes", "init", "weights",
             "forward", "plan", "cost", "cases", "limits", "tolerance", "shard"});
  Contract c;
  c.where = root.where();
  c.op = root.at("op").text();
  if (c.op != stem)
    root.at("op").fail("the op is `" + c.op + "` but the file is `" + stem + ".yaml`",
                       "one name, one spelling");
  c.level = level;
  c.family = family;
  c.revision = static_cast<uint32_t>(root.at("revision").integer());
  c.summary = root.at("summary").text();
  if (auto aliases = root.find("aliases")) c.aliases = texts(*aliases);
  for (const auto& [letter, meaning] : root.at("axes").entries())
    c.axes.emplace_back(letter, meaning.text());
  for (int i = 0; i < kSections; ++i) {
    const auto id = static_cast<SectionId>(i);
    auto section = root.find(section_name(id));
    if (!section || section->is_null()) continue;
    for (const auto& item : section->items()) {
      auto& slots = c.sections[static_cast<size_t>(i)];
      slots.push_back(read_slot(item, id, static_cast<int>(slots.size())));
      const Slot& slot = slots.back();
      if (slot.since < c.editions && slots.size() > 1 && slots[slots.size() - 2].since > slot.since)
        item.fail("slots are appended at the end: `" + slot.name +
                  "` is older than the one before it");
      c.editions = std::max(c.editions, slot.since);
    }
  }
  check_names(c, root);
  if (auto mirrors = root.find("mirrors")) read_mirrors(c, *mirrors);
  if (auto cost = root.find("cost")) {
    cost->only({"flops", "bytes", "wire"});
    if (auto flops = cost->find("flops")) c.flops = Expr::parse(flops->text(), flops->where());
    if (auto bytes = cost->find("bytes")) c.bytes = Expr::parse(bytes->text(), bytes->where());
    if (auto wire = cost->find("wire")) c.wire = Expr::parse(wire->text(), wire->where());
    if (c.wire && !c.comm()) cost->fail("wire: there is no communicator, so no rank gets anything");
  }
  if (auto tolerance = root.find("tolerance")) read_tolerance(c, *tolerance);
  if (auto cases = root.find("cases")) {
    cases->only({"smoke", "ci", "full", kRangeSize});
    for (const auto& [size, list] : cases->entries()) {
      size_t number = 0;
      for (const auto& item : list.items()) c.cases.push_back(read_case(c, item, size, number++));
    }
  }
  if (auto limits = root.find("limits")) read_limits(c, *limits);
  if (auto shard = root.find("shard")) c.shard = read_shard_laws(*shard, axes_and_fields(c));
  seal(c);
  return c;
}

}  // namespace

Contract Contract::load(const std::filesystem::path& file) { return load(file, read_file(file)); }
Contract Contract::load(const std::filesystem::path& file, const std::string& text) {
  const std::string level = file.parent_path().parent_path().filename();
  if (level.size() != 2 || level[0] != 'l' || level[1] < '1' || level[1] > '4')
    fail(file.string(), "a contract lies in ops/l1..l4/<family>/<op>.yaml");
  return parse(text, file.string(), level[1] - '0', file.parent_path().filename());
}
Contract Contract::parse(const std::string& text, const std::string& name, int level,
                         const std::string& family) {
  Contract out = read(Yaml::parse(text, name), std::filesystem::path(name).stem(), level, family);
  out.text_hash = sha256(text);
  return out;
}

}  // namespace fk
