// SPDX-License-Identifier: Apache-2.0
// Integer expressions over axis letters ("(H+2*G)*D", "cdiv(T,Z)"), for shapes and costs of
// contracts and for symbolic dimensions of graphs.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

using Axes = std::map<std::string, int64_t, std::less<>>;

// An immutable expression; cheap to copy. Constants fold when they are built.
class Expr {
 public:
  Expr(int64_t value = 0);  // NOLINT: implicit on purpose, dimensions are mostly numbers
  static Expr symbol(std::string name);
  // Reads numbers, symbols, + - * / (floor division) ( ) cdiv(a,b) min(a,b) max(a,b). Any other
  // text is an Error at `where`.
  static Expr parse(std::string_view text, const std::string& where);

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  friend Expr operator/(const Expr& a, const Expr& b);
  static Expr cdiv(const Expr& a, const Expr& b);
  static Expr min(const Expr& a, const Expr& b);
  static Expr max(const Expr& a, const Expr& b);

  bool is_constant() const;
  int64_t value() const;  // of a constant; FK_CHECK otherwise
  bool is_symbol() const;
  std::string text() const;  // equal expressions built the same way have equal text
  std::set<std::string> symbols() const;
  Expr substitute(const std::map<std::string, Expr>& by) const;
  // Throws Error if a symbol is unbound, a divisor is 0 or the value leaves int64.
  int64_t eval(const Axes& axes) const;
  bool operator==(const Expr& other) const { return text() == other.text(); }

 private:
  friend class ExprProgram;
  struct Node;
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  static Expr make(char op, const Expr& a, const Expr& b);
  std::shared_ptr<const Node> node_;
};

// Several expressions compiled for fast evaluation against an array of axis values. A graph
// evaluates them once per step. Equal expressions share one slot.
class ExprProgram {
 public:
  explicit ExprProgram(std::vector<std::string> symbols) : symbols_(std::move(symbols)) {}
  int add(const Expr& expr);  // index of its value
  // values[i] = value of expression i. Symbol values have the order of the constructor's symbols.
  void run(const int64_t* symbol_values, int64_t* values) const;
  size_t size() const { return starts_.size(); }

 private:
  struct Step {
    char op;
    int64_t value;
  };
  void emit(const Expr& expr);
  std::vector<std::string> symbols_;
  std::vector<Step> steps_;
  std::vector<size_t> starts_;
  std::map<std::string, int> known_;
};

}  // namespace fk
