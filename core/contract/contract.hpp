// SPDX-License-Identifier: Apache-2.0
// A contract: the one file that defines an op. Its YAML is parsed here. The typed header
// (header.hpp), the identity for plugins (identity.hpp), shapes, costs and cases come from it.
// registry/README.md documents the grammar.
#pragma once
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/contract/expr.hpp"
#include "core/contract/law.hpp"
#include "core/tensor/tensor.hpp"
#include "fk/tensor.h"

namespace fk {

enum class SectionId { init, weights, forward, plan };
inline constexpr int kSections = 4;
const char* section_name(SectionId section);

enum class SlotKind { tensor, integer, number, boolean, choice, dtype, ints, comm };
enum class Role { in, out, inout };

// A slot is one field of an op: all facts of the contract about it.
struct Slot {
  SectionId section;
  int index;  // in its section
  std::string name, meaning;
  SlotKind kind = SlotKind::tensor;
  Role role = Role::in;

  // tensors
  std::vector<Expr> shape;
  std::vector<DType> dtypes;  // allowed; empty when dtype_of is set
  std::string dtype_of;       // the field whose dtype it has
  bool optional = false;      // may be absent
  bool strided = false;       // any strides with a dense last axis
  std::string group;          // fields of one group are present together or not at all
  std::string writes;         // inout: footprint, "flat(P,Z)[slot_mapping]"
  std::string count;          // out: an axis is a capacity, this field has the actual length
  bool any_order = false;     // with count: the valid rows may come in any order
  std::string list;           // an axis: a list of as many tensors, or of integers (kind ints)
  std::string values;         // input generator; empty: normal(0,1)
  std::string mirror;         // plan: host copy of this forward field
  bool replicated = false;    // every rank reads or writes the same contents
  std::optional<WeightLaw> checkpoint;  // of weights: where models find it
  std::string state;                    // inout: the state's name below the path of the call

  // scalars
  // init integers: the axis whose value it is. comm: the axis whose value is the number of ranks.
  // ints: one axis per element, "KH,KW"; with `list`, the axis with a value for each entry.
  std::string axis;
  bool capture = false;  // forward scalars: an upper bound that is constant in a captured graph
  std::string expr;      // forward scalars in cases: their value, computed from the axes
  std::vector<std::string> choices;
  bool has_default = false;
  fk_slot default_value{};  // zero without a default
  std::optional<double> min, max;

  int since = 1;     // edition that appended it
  std::string line;  // canonical text; the part before " | " is hashed

  // True for fields that a kernel reads: all but pure outputs.
  bool is_read() const { return section == SectionId::weights || role != Role::out; }
  bool is_tensor() const { return kind == SlotKind::tensor; }
  bool required() const { return !optional && !has_default; }
  std::vector<std::string> axis_names() const;  // of an ints slot; empty: free length
  std::string hashed() const { return line.substr(0, line.find(" | ")); }
};

// The size of cases in which one count or index exceeds 16 bits and all others are small. They are
// judged by values only, and never timed.
inline constexpr const char* kRangeSize = "range";

// The reason why an axis, an integer or an index never exceeds 16 bits.
struct RangeLimit {
  int bits = 8;  // 8: never exceeds 8 bits either; 16: may exceed 8 bits
  std::string why;
};

// One concrete call: constructor values, axes, and the optional fields that are present.
struct Case {
  std::string name, size;                              // size: smoke, ci, full or range
  std::map<std::string, int64_t> axes;                 // free axes (without a value from init)
  std::map<std::string, std::vector<int64_t>> listed;  // axes with a value per entry of a list
  std::map<std::string, std::string> init;             // as written
  std::map<std::string, int64_t> scalars;              // of forward, in place of their `expr`
  std::vector<std::string> with;        // optional fields and groups that are present
  std::map<std::string, DType> dtypes;  // by field; others take the first allowed
  // Fields with gaps between rows: elements from one row to the next; 0: somewhat more than a row
  // has.
  std::map<std::string, int64_t> strided;
  std::map<std::string, std::string> values;  // generators that replace the contract's
  // Recorded contents by field, one tensor per entry of a list, in place of generators. Valid only
  // for the sizes of the case.
  std::shared_ptr<const std::map<std::string, std::vector<Tensor>>> contents;
  // SHA-256 of each recorded tensor, at least for the fields in `contents`.
  std::map<std::string, std::vector<std::string>> content_names;
  std::string from;  // the real configuration of its sizes
  std::string where;
};

struct Mirror {
  std::string name;                              // import path of the production class or function
  std::map<std::string, std::string> arguments;  // production argument -> slot or "dropped: reason"
};

// An output of codes: numbers of few bits, which are values divided by a scale and then rounded.
struct CodeField {
  std::string scale;           // the written field with the scales; empty: codes without a scale
  Expr rows = 1, columns = 1;  // of the elements that share a scale
};

struct Tolerance {
  // exact, elementwise, activation, reduction, softmax, logarithm or selection
  std::string numerics;
  Expr length = 1;        // terms in the sum of one output
  std::string coarse_if;  // the boolean of init that lets a provider round intermediates to f8e4m3
  // The weight that a provider may round to the working dtype, because production stores it so.
  std::string rounded;
  // The output whose last two axes are sums of outer products. An op above L1 rounds the factors of
  // a row first, so a row's error grows with the large values of its plane.
  std::string outer;
  std::map<std::string, CodeField> codes;  // by output (core/cases/numerics/codes.hpp)
};

struct Contract {
  std::string op, family, summary;
  int level = 0;
  uint32_t revision = 1;
  int editions = 1;  // the highest `since`
  std::vector<std::string> aliases;
  std::vector<Mirror> mirrors;
  std::vector<std::pair<std::string, std::string>> axes;  // letter, meaning
  std::array<std::vector<Slot>, kSections> sections;
  std::array<std::vector<uint64_t>, kSections> prefix;  // chained hashes, slots + 1 each
  Expr flops = 0;
  std::optional<Expr> bytes;  // otherwise every tensor once, inout twice
  // Least number of bytes that the busiest rank receives or sends, for any algorithm (wire_bytes()
  // in core/cases/received.hpp); none: it may need no transfer.
  std::optional<Expr> wire;
  std::vector<Case> cases;
  std::map<std::string, RangeLimit> limits;  // by axis or slot
  std::map<std::string, ShardLaw> shard;     // by axis or field
  Tolerance tolerance;
  std::string where;
  std::string text_hash;  // SHA-256 of the parsed text

  // The file's folders give level and family: .../ops/l1/norm/rms_norm.yaml. Throws Error.
  static Contract load(const std::filesystem::path& file);
  static Contract load(const std::filesystem::path& file, const std::string& text);  // its content
  static Contract parse(const std::string& text, const std::string& name, int level,
                        const std::string& family);

  const std::vector<Slot>& section(SectionId id) const { return sections[static_cast<size_t>(id)]; }
  const Slot* find(std::string_view field) const;  // init, weights and forward; null if none
  const Slot& at(std::string_view field) const;    // Error with the nearest name
  const Slot* find(SectionId id, std::string_view field) const;
  std::vector<std::string> field_names() const;
  int required_slots(SectionId id) const;  // up to and including the last required slot
  const Slot* comm() const;                // the communicator in init; null if the op has none
  // Number of leading axes of an output with `count` that its count field has too; the next axis is
  // the capacity. 0: one count for all rows.
  size_t count_axes(const Slot& output) const;
};

// All contracts below the registry folders, found by file name and parsed on first use.
class Catalog {
 public:
  explicit Catalog(const std::vector<std::filesystem::path>& registry_dirs);
  const Contract& at(const std::string& op) const;  // Error with the nearest name
  const Contract* find(const std::string& op) const;
  std::vector<std::string> ops() const;  // sorted
  // Reads the text of every contract now; later calls need no file.
  void read_ahead();

 private:
  std::map<std::string, std::filesystem::path> files_;
  std::map<std::string, std::string> texts_;  // by op, of contracts read ahead
  mutable std::map<std::string, std::unique_ptr<Contract>> loaded_;
};

}  // namespace fk
