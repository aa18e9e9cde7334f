// SPDX-License-Identifier: Apache-2.0
// Records one rank's part of a model, by the laws of contracts (ShardLaw). After a divided block
// each rank has a share of the output: the value is the sum over all ranks. The next norm adds the
// shares up. There the ranks exchange data, and there a provider fuses both
// (all_reduce_add_rms_norm). With `overlap` the shares of a long step are added up while they are
// computed (linear_all_reduce).
#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/graph/net.hpp"

namespace fk {

namespace {

int64_t ceil_part(int64_t whole, int64_t parts) { return (whole + parts - 1) / parts; }

void set_arg(Args& args, const std::string& name, Value value) {
  for (Arg& arg : args)
    if (arg.name == name) arg.value = value;
}

Value tensor_of(const Args& args, const std::string& name) {
  const Arg* arg = find_arg(args, name);
  return arg ? std::get<Value>(arg->value) : Value{};
}

// The cuts of a weight; another value has none.
std::vector<WeightCut> cuts_of(const Graph& graph, Value v) {
  const int weight = graph.buffers[static_cast<size_t>(graph.info(v).buffer)].weight;
  if (weight < 0) return {};
  return graph.weights->all()[static_cast<size_t>(weight)].cuts;
}

}  // namespace

int64_t Net::part_of(ShardLaw law, int64_t whole) const {
  const Parallel& p = parallel();
  switch (law) {
    case ShardLaw::heads:
      return whole / p.tp;
    case ShardLaw::kv_heads:
      return std::max<int64_t>(1, whole / p.tp);
    case ShardLaw::columns:
      return ceil_part(whole, p.tp);
    case ShardLaw::expert_columns:
      return p.ep > 1 ? whole : ceil_part(whole, p.tp);
    case ShardLaw::experts:
    case ShardLaw::whole:
    case ShardLaw::first:
    case ShardLaw::sum:
      break;
  }
  return whole;
}

Net::Bound Net::parts_of(const Laws& laws, Bound sizes) const {
  for (const auto& [letter, law] : laws) {
    const auto it = sizes.find(letter);
    if (it != sizes.end() && it->second.is_constant())
      it->second = part_of(law, it->second.value());
  }
  return sizes;
}

void Net::cut(WeightSpec& spec, const Slot& slot, const Bound& sizes, const Laws& laws) const {
  const Parallel& p = parallel();
  if (!divided()) return;
  if (of_experts(slot, laws)) {
    const int64_t local = ceil_part(spec.shape[0], p.ep);
    spec.cuts = {{0, {{p.rank * local, local, spec.shape[0]}}}};
    return;
  }
  if (const auto own = laws.find(slot.name); own != laws.end()) {
    const bool added = own->second == ShardLaw::first && p.tp > 1 && p.rank > 0;
    // Zeros alone, because only the first rank adds this weight.
    if (added) spec.cuts = {{0, {{0, spec.shape[0], 0}}}};
    return;
  }
  const Bound parts = parts_of(laws, sizes);
  for (size_t d = 0; d < slot.shape.size(); ++d) {
    const auto size = spec.shape[d];
    if (slot.shape[d].substitute(parts) == Expr(size)) continue;  // not divided, or one part
    const auto& names = slot.checkpoint->parts;
    const bool stacked = !names.empty() && names[0].find('*') != std::string::npos;
    const bool in_parts = d == (stacked ? 1 : 0) && !slot.checkpoint->rows.empty();
    const std::vector<Expr> pieces =
        in_parts ? slot.checkpoint->rows : std::vector<Expr>{slot.shape[d]};
    WeightCut made{static_cast<int>(d), {}};
    int64_t first = 0;
    for (const Expr& piece : pieces) {
      const int64_t whole = piece.substitute(sizes).value();
      const int64_t local = piece.substitute(parts).value();
      int64_t start = p.rank * local;
      for (const auto& letter : piece.symbols()) {
        const auto found = laws.find(letter);
        if (found == laws.end() || found->second != ShardLaw::kv_heads) continue;
        const int64_t heads = sizes.at(letter).value();
        start = p.rank * heads / p.tp * (whole / heads);
      }
      made.pieces.push_back({first + start, local, first + whole});
      first += whole;
    }
    spec.cuts.push_back(std::move(made));
  }
}

// True when ranks divide the experts, and the field has an entry for each.
bool Net::of_experts(const Slot& slot, const Laws& laws) const {
  if (parallel().ep == 1 || slot.shape.empty()) return false;
  const auto axis = laws.find(slot.shape[0].text()), own = laws.find(slot.name);
  return axis != laws.end() && axis->second == ShardLaw::experts &&
         (own == laws.end() || own->second != ShardLaw::whole);
}

// Blocks are recorded with the weights of all experts, so that their sizes agree. This rank's part
// takes their place where its experts compute.
Value Net::spread(const WeightSpec& spec) {
  Dims whole;
  for (const int64_t size : spec.shape) whole.emplace_back(size);
  const Value all = empty(spec.dtype, std::move(whole));
  experts_[graph().info(all).buffer] = weight(spec);
  return all;
}

// True if the call's output is a share: its law says `sum`, and it has a part of a weight. Without
// a law, a product over a part of the weight's columns.
bool Net::gives_share(const Contract& contract, const Args& args) const {
  if (contract.op == "linear") {
    const Arg* weight = find_arg(args, "weight");
    const auto* value = weight ? std::get_if<Value>(&weight->value) : nullptr;
    return value && *value && std::ranges::any_of(cuts_of(graph(), *value), [](const WeightCut& c) {
             return c.axis == 1;
           });
  }
  if (std::none_of(contract.shard.begin(), contract.shard.end(),
                   [](const auto& law) { return law.second == ShardLaw::sum; }))
    return false;
  return std::any_of(args.begin(), args.end(), [&](const Arg& arg) {
    const auto* value = std::get_if<Value>(&arg.value);
    return value && *value && !contract.shard.count(arg.name) && !cuts_of(graph(), *value).empty();
  });
}

Outputs Net::sum_and_norm(const std::string& path, Args args) {
  const Value x = tensor_of(args, "x"), residual = tensor_of(args, "residual");
  args.emplace_back("comm", parallel().ranks());
  const Outputs out = Builder::call("all_reduce_add_rms_norm", path, args);
  // After the norm the residual is the sum on every rank.
  for (const Tap& tap : std::exchange(later_, {})) {
    if (tap.values == std::vector<Value>{x, residual})
      Builder::tap(tap.name, {residual});
    else
      later_.push_back(tap);
  }
  return out;
}

Value Net::summed(const std::string& path, Value share) {
  return Builder::call("all_reduce", path + ".all_reduce",
                       {{"comm", parallel().ranks()}, {"x", share}});
}

// Records a block as its parts. The last part, the product that gives its output, is one call with
// the sum. Records nothing if the last part is no such product.
std::optional<Outputs> Net::sum_while_computed(const std::string& op, const std::string& path,
                                               const Args& args) {
  const Expansion expansion = find_expansion(op);
  if (!expansion) return std::nullopt;
  const Outputs out = Builder::call(op, path, args);
  const Call block = take_last();
  const size_t before = graph().calls.size();
  expansion(*this, region(block));
  const Call product = take_last();
  const Region r = region(product);
  if (product.contract->op != "linear" || r.has("bias") || r["out"] != out.fields[0].second) {
    while (graph().calls.size() > before) take_last();
    return std::nullopt;
  }
  shares_.erase(graph().info(r["out"]).buffer);
  Builder::call(
      "linear_all_reduce", product.path,
      {{"comm", parallel().ranks()}, {"weight", r["weight"]}, {"x", r["x"]}, {"out", r["out"]}});
  return out;
}

// True for fields of fused_moe_ep. Error for another field that the model needs.
bool Net::spread_has(const Arg& arg, const std::string& path) const {
  if (catalog().at("fused_moe_ep").find(arg.name)) return true;
  const Slot& slot = catalog().at("fused_moe").at(arg.name);
  const auto* value = std::get_if<Value>(&arg.value);
  const auto* word = std::get_if<std::string>(&arg.value);
  const auto* integer = std::get_if<int64_t>(&arg.value);
  const bool used = (value && *value) || (integer && *integer != slot.default_value.i) ||
                    (word && *word != slot.choices[static_cast<size_t>(slot.default_value.i)]);
  if (used) fail(path, "experts with `" + arg.name + "` cannot be divided between ranks");
  return false;
}

bool Net::takes_experts(const Args& args) const {
  return std::any_of(args.begin(), args.end(), [&](const Arg& arg) {
    const auto* value = std::get_if<Value>(&arg.value);
    return value && *value && experts_.count(graph().info(*value).buffer) != 0;
  });
}

// A block whose experts are spread over the ranks. Each rank has its part of the tokens. They go to
// the ranks of their experts and come back.
Outputs Net::spread_experts(const std::string& op, const std::string& path, Args args) {
  const Parallel& p = parallel();
  if (op == "fused_moe") {
    for (Arg& arg : args)
      if (auto* value = std::get_if<Value>(&arg.value); value && *value)
        if (const auto it = experts_.find(graph().info(*value).buffer); it != experts_.end())
          *value = it->second;
    std::erase_if(args, [&](const Arg& arg) { return !spread_has(arg, path); });
    args.emplace_back("comm", p.ranks());
    args.push_back(*find_arg(common_, "max_tokens_per_rank"));
    return Builder::call("fused_moe_ep", path, args);
  }
  const Value x = tensor_of(args, "x"), out = tensor_of(args, "out");
  const Expr all = shape(x)[0], part = Expr::cdiv(all, p.ep);
  const Expr first = Expr::min(part * p.rank, all), rows = Expr::min(part, all - first);
  const Value room = empty(dtype(x), {part, shape(x)[1]});
  set_arg(args, "x", slice(x, 0, first, rows));
  if (out)
    set_arg(args, "out", slice(room, 0, 0, rows));
  else
    args.emplace_back("out", slice(room, 0, 0, rows));
  Builder::call(op, path, args);
  const Call block = take_last();
  find_expansion(op)(*this, region(block));
  const Value gathered =
      Builder::call("all_gather", path + ".all_gather", {{"comm", p.ranks()}, {"x", room}});
  const Value result = slice(gathered, 0, 0, all);
  if (out) instead_[graph().info(out).buffer] = result;
  return {{{"out", result}}};
}

Outputs Net::call(const std::string& op, const std::string& path, const Args& given) {
  if (!divided()) return Builder::call(op, path, given);
  const Contract& contract = catalog().at(op);
  Args args = given;
  const bool share = gives_share(contract, given);
  for (Arg& arg : args) {
    auto* value = std::get_if<Value>(&arg.value);
    if (!value || !*value) continue;
    const int buffer = graph().info(*value).buffer;
    const Slot* slot = contract.find(arg.name);
    if (slot && slot->role == Role::out) {
      instead_.erase(buffer);
      shares_.erase(buffer);
      continue;
    }
    *value = standing_for(*value);
    const bool sums =
        op == "all_reduce" || (op == "rms_norm" && tensor_of(args, "residual") && arg.name == "x");
    if (is_share(*value) && !sums) *value = summed(path, *value);
  }
  if (takes_experts(args)) return spread_experts(op, path, std::move(args));
  if (op == "rms_norm" && is_share(tensor_of(args, "x"))) return sum_and_norm(path, args);
  if (!share) return Builder::call(op, path, args);
  Outputs out;
  if (op == "embedding") {
    std::erase_if(args, [](const Arg& arg) { return arg.name == "num_embeddings"; });
    args.emplace_back("comm", parallel().ranks());
    out = Builder::call("vocab_parallel_embedding", path, args);
  } else {
    // A step of decode has few rows: there the sum with the norm behind it is the quickest.
    if (parallel().overlap && graph().phase != "decode")
      if (const auto summed_up = sum_while_computed(op, path, args)) return *summed_up;
    out = Builder::call(op, path, args);
  }
  for (const auto& [name, value] : out.fields) shares_.insert(graph().info(value).buffer);
  return out;
}

Value Net::standing_for(Value v) const {
  const auto it = instead_.find(graph().info(v).buffer);
  return it == instead_.end() ? v : it->second;
}

void Net::tap(const std::string& name, std::vector<Value> values) {
  for (Value& value : values) value = standing_for(value);
  const bool shares =
      std::any_of(values.begin(), values.end(), [&](Value v) { return is_share(v); });
  if (shares)
    later_.push_back({name, std::move(values), /*before=*/0});
  else
    Builder::tap(name, std::move(values));
}

Value Net::columns(const std::string& path, Value x, int64_t out_features, DType dtype,
                   const std::vector<std::string>& with) {
  const std::string type(name(dtype));
  if (parallel().tp == 1)
    return (*this)("linear", path, {{"x", x}, {"out_features", out_features}, {"out", type}}, with);
  const Contract& linear = catalog().at("linear");
  const Bound sizes{{"K", shape(x)[1]}, {"N", out_features}};
  const Laws laws{{"N", ShardLaw::columns}};
  const Expr columns = parts_of(laws, sizes).at("N");
  Args args{{"x", x}, {"out", empty(dtype, {shape(x)[0], columns})}};
  for (const auto& slot : linear.section(SectionId::weights))
    if (slot.required() || contains(with, slot.name))
      args.emplace_back(slot.name, weight(weight_of(linear, slot, path, sizes, laws)));
  const Value part = Builder::call("linear", path, args);
  return Builder::call("all_gather_columns", path + ".all_gather",
                       {{"comm", parallel().ranks()}, {"out_features", out_features}, {"x", part}});
}

}  // namespace fk
