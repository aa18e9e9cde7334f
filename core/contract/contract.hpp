// SPDX-License-Identifier: Apache-2.0
// A contract: the one file that defines an op. Its YAML is parsed here, and from it come the typed
// header (header.hpp), the identity that plugins are matched against (identity.hpp), shapes, costs
// and cases. registry/README.md documents the grammar.
#pragma once
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/contract/expr.hpp"
#include "core/tensor/tensor.hpp"
#include "fk/tensor.h"

namespace fk {

enum class SectionId { init, weights, forward, plan };
inline constexpr int kSections = 4;
const char* section_name(SectionId section);

enum class SlotKind { tensor, integer, number, boolean, choice, dtype, ints, comm };
enum class Role { in, out, inout };

struct Slot {
  SectionId section;
  int index;  // in its section
  std::string name, meaning;
  SlotKind kind = SlotKind::tensor;
  Role role = Role::in;

  // tensors
  std::vector<Expr> shape;
  std::vector<DType> dtypes;  // allowed; empty when dtype_of is set
  std::string dtype_of;       // has the dtype of that field
  bool optional = false;      // may be absent
  bool strided = false;       // any strides with a dense last axis
  std::string group;          // fields of one group are present together or not at all
  std::string writes;         // inout: footprint, "flat(P,Z)[slot_mapping]"
  std::string count;          // out: an axis is a capacity, the actual length is in this field
  bool any_order = false;     // with count: the valid rows may come in any order
  std::string list;           // an axis: a list of that many tensors, or integers of `ints`
  std::string values;         // input generator; empty: normal(0,1)
  std::string mirror;         // plan: host copy of this forward field
  bool replicated = false;    // every rank has the same contents, read or written

  // scalars
  // init integers: the value is this axis. comm: the number of ranks is. ints: one name per
  // element, "KH,KW"; with `list`, the axis that each entry has a value of.
  std::string axis;
  bool capture = false;  // forward scalars: an upper bound that is constant in a captured graph
  std::string expr;      // forward scalars in cases: the value from the axes
  std::vector<std::string> choices;
  bool has_default = false;
  fk_slot default_value{};  // zero where there is none
  std::optional<double> min, max;

  int since = 1;     // edition in which it was appended
  std::string line;  // canonical text; what is before " | " is hashed

  // A kernel reads it: everything but pure outputs.
  bool is_read() const { return section == SectionId::weights || role != Role::out; }
  bool is_tensor() const { return kind == SlotKind::tensor; }
  bool required() const { return !optional && !has_default; }
  std::vector<std::string> axis_names() const;  // of an ints slot; empty when its length is free
  std::string hashed() const { return line.substr(0, line.find(" | ")); }
};

// The size of cases in which one count or index goes beyond 16 bits and all else is small. They are
// judged by their values alone, and never timed.
inline constexpr const char* kRangeSize = "range";

// Why an axis, an integer or an index does not go beyond 16 bits in any case.
struct RangeLimit {
  int bits = 8;  // 8: not beyond 8 bits either; 16: beyond 8 bits
  std::string why;
};

// One concrete call: constructor values, axes, which optional fields are there.
struct Case {
  std::string name, size;                              // size: smoke, ci, full or range
  std::map<std::string, int64_t> axes;                 // free axes (those that no init value gives)
  std::map<std::string, std::vector<int64_t>> listed;  // those that differ by entry of a list
  std::map<std::string, std::string> init;             // as written
  std::map<std::string, int64_t> scalars;              // of forward, in place of their `expr`
  std::vector<std::string> with;        // optional fields and groups that are present
  std::map<std::string, DType> dtypes;  // by field; others take the first allowed
  // Fields with gaps between their rows: elements from one row to the next, 0: some more than it
  // has.
  std::map<std::string, int64_t> strided;
  std::map<std::string, std::string> values;  // generators that replace the contract's
  // Recorded contents by field, one tensor per entry of a list, in place of generators. They hold
  // for the sizes of the case.
  std::shared_ptr<const std::map<std::string, std::vector<Tensor>>> contents;
  // What names them: SHA-256 of each, of these fields at least.
  std::map<std::string, std::vector<std::string>> content_names;
  std::string from;  // which real configuration it was taken from
  std::string where;
};

struct Mirror {
  std::string name;                              // import path of the production class or function
  std::map<std::string, std::string> arguments;  // production argument -> slot or "dropped: reason"
};

struct Tolerance {
  // exact, elementwise, activation, reduction, softmax, logarithm or selection
  std::string numerics;
  Expr length = 1;        // terms that are summed up for one output
  std::string coarse_if;  // the boolean of init under which intermediates are rounded to f8e4m3
  // The weight that a provider may round to the working dtype, as production keeps it so.
  std::string rounded;
  // The output whose last two axes are sums of outer products: its rows have factors that an op
  // above L1 rounds before, so that all of a row is as far off as others of its plane are large.
  std::string outer;
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
  // Bytes that the busiest rank gets from the others, or sends to them, at least, whatever the
  // algorithm (wire_bytes() in core/cases/received.hpp); none: it may do without.
  std::optional<Expr> wire;
  std::vector<Case> cases;
  std::map<std::string, RangeLimit> limits;  // by axis or slot
  Tolerance tolerance;
  std::string where;
  std::string text_hash;  // SHA-256 of the file's text, as it was parsed

  // The file's folders give level and family: .../ops/l1/norm/rms_norm.yaml. Throws Error.
  static Contract load(const std::filesystem::path& file);
  static Contract load(const std::filesystem::path& file, const std::string& text);  // of the file
  static Contract parse(const std::string& text, const std::string& name, int level,
                        const std::string& family);

  const std::vector<Slot>& section(SectionId id) const { return sections[static_cast<size_t>(id)]; }
  const Slot* find(std::string_view field) const;  // init, weights and forward; null if none
  const Slot& at(std::string_view field) const;    // Error with the nearest name
  const Slot* find(SectionId id, std::string_view field) const;
  std::vector<std::string> field_names() const;
  int required_slots(SectionId id) const;  // up to the last required
  const Slot* comm() const;  // the communicator in init; null where ranks do not matter
  // How many leading axes of an output with `count` are those of its count field; the one after
  // them is the capacity. 0 when there is one count for all.
  size_t count_axes(const Slot& output) const;
};

// All contracts below the registry folders, found by file name and parsed when first asked for.
class Catalog {
 public:
  explicit Catalog(const std::vector<std::filesystem::path>& registry_dirs);
  const Contract& at(const std::string& op) const;  // Error with the nearest name
  const Contract* find(const std::string& op) const;
  std::vector<std::string> ops() const;  // sorted
  // Contracts are read when they are first asked for; after this no file is needed.
  void read_ahead();

 private:
  std::map<std::string, std::filesystem::path> files_;
  std::map<std::string, std::string> texts_;  // by op, of those that were read ahead
  mutable std::map<std::string, std::unique_ptr<Contract>> loaded_;
};

}  // namespace fk
