// SPDX-License-Identifier: Apache-2.0
// Parsing, folding and evaluation of axis expressions.
#include "core/contract/expr.hpp"

#include <algorithm>
#include <cctype>

#include "core/base/error.hpp"

namespace fk {

// op: '#' constant, '$' symbol, + - * /, 'c' cdiv, '<' min, '>' max.
struct Expr::Node {
  char op;
  int64_t value;
  std::string name;
  Expr a, b;
  Node(char op_, int64_t value_) : op(op_), value(value_), a(nullptr), b(nullptr) {}
  Node(char op_, Expr a_, Expr b_) : op(op_), value(0), a(std::move(a_)), b(std::move(b_)) {}
};

namespace {

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

// Returns false on overflow or a zero divisor.
bool apply(char op, int64_t a, int64_t b, int64_t* out) {
  switch (op) {
    case '+':
      return !__builtin_add_overflow(a, b, out);
    case '-':
      return !__builtin_sub_overflow(a, b, out);
    case '*':
      return !__builtin_mul_overflow(a, b, out);
    case '/':
      if (b == 0 || (a == INT64_MIN && b == -1)) return false;
      *out = floor_div(a, b);
      return true;
    case 'c':
      if (b == 0 || a == INT64_MIN) return false;
      *out = -floor_div(-a, b);
      return true;
    case '<':
      *out = std::min(a, b);
      return true;
    case '>':
      *out = std::max(a, b);
      return true;
    default:
      return false;
  }
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& where) : text_(text), where_(where) {}
  Expr run() {
    Expr e = sum();
    if (peek() != 0) bad("unexpected `" + std::string(1, peek()) + "`");
    return e;
  }

 private:
  [[noreturn]] void bad(const std::string& what) {
    fail(where_, "in the expression `" + std::string(text_) + "`: " + what,
         "expressions have numbers, axes, + - * / ( ) cdiv(a,b) min(a,b) max(a,b)");
  }
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : char(0);
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  Expr sum() {
    if (++depth_ > 64) bad("nested too deeply");
    Expr e = product();
    for (;;) {
      if (take('+'))
        e = e + product();
      else if (take('-'))
        e = e - product();
      else
        break;
    }
    --depth_;
    return e;
  }
  Expr product() {
    Expr e = atom();
    for (;;) {
      if (take('*'))
        e = e * atom();
      else if (take('/'))
        e = e / atom();
      else
        break;
    }
    return e;
  }
  Expr atom() {
    const char c = peek();
    if (take('(')) {
      Expr e = sum();
      if (!take(')')) bad("expected `)`");
      return e;
    }
    if (std::isdigit(static_cast<unsigned char>(c))) return number();
    if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') return word();
    bad(c ? "unexpected `" + std::string(1, c) + "`" : "it ends too early");
  }
  Expr number() {
    int64_t v = 0;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, text_[at_] - '0', &v)) {
        bad("the number is too large");
      }
      ++at_;
    }
    return v;
  }
  Expr word() {
    std::string w;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                  text_[at_] == '_' || text_[at_] == '[' || text_[at_] == ']')) {
      w += text_[at_++];
    }
    if (peek() != '(') return Expr::symbol(w);
    take('(');
    Expr a = sum();
    if (!take(',')) bad("expected `,` in " + w);
    Expr b = sum();
    if (!take(')')) bad("expected `)` after " + w);
    if (w == "cdiv") return Expr::cdiv(a, b);
    if (w == "min") return Expr::min(a, b);
    if (w == "max") return Expr::max(a, b);
    bad("unknown function `" + w + "`");
  }
  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Expr::Expr(int64_t value) : node_(std::make_shared<Node>('#', value)) {}
Expr Expr::symbol(std::string name) {
  auto node = std::make_shared<Node>('$', 0);
  node->name = std::move(name);
  return Expr(std::shared_ptr<const Node>(std::move(node)));
}
Expr Expr::parse(std::string_view text, const std::string& where) {
  return Parser(text, where).run();
}

Expr Expr::make(char op, const Expr& a, const Expr& b) {
  int64_t v = 0;
  if (a.is_constant() && b.is_constant() && apply(op, a.value(), b.value(), &v)) return v;
  const bool b0 = b.is_constant() && b.value() == 0, b1 = b.is_constant() && b.value() == 1;
  const bool a0 = a.is_constant() && a.value() == 0, a1 = a.is_constant() && a.value() == 1;
  if ((op == '+' || op == '-') && b0) return a;
  if (op == '+' && a0) return b;
  // (x + 6) - 6 is x: the size of a window subtracts the padding that was added.
  if ((op == '+' || op == '-') && b.is_constant() && (a.node_->op == '+' || a.node_->op == '-') &&
      a.node_->b.is_constant()) {
    const bool same = a.node_->op == op;
    if (apply(same ? '+' : '-', a.node_->b.value(), b.value(), &v)) {
      if (v >= 0) return make(a.node_->op, a.node_->a, v);
      if (v != INT64_MIN) return make(a.node_->op == '+' ? '-' : '+', a.node_->a, -v);
    }
  }
  if ((op == '*' || op == '/' || op == 'c') && b1) return a;
  if (op == '*' && a1) return b;
  if (op == '*' && (a0 || b0)) return 0;
  return Expr(std::make_shared<const Node>(op, a, b));
}
Expr operator+(const Expr& a, const Expr& b) { return Expr::make('+', a, b); }
Expr operator-(const Expr& a, const Expr& b) { return Expr::make('-', a, b); }
Expr operator*(const Expr& a, const Expr& b) { return Expr::make('*', a, b); }
Expr operator/(const Expr& a, const Expr& b) { return Expr::make('/', a, b); }
Expr Expr::cdiv(const Expr& a, const Expr& b) { return make('c', a, b); }
Expr Expr::min(const Expr& a, const Expr& b) { return make('<', a, b); }
Expr Expr::max(const Expr& a, const Expr& b) { return make('>', a, b); }

bool Expr::is_constant() const { return node_->op == '#'; }
bool Expr::is_symbol() const { return node_->op == '$'; }
int64_t Expr::value() const {
  FK_CHECK(is_constant(), "value() of a symbolic expression");
  return node_->value;
}

std::string Expr::text() const {
  switch (node_->op) {
    case '#':
      return std::to_string(node_->value);
    case '$':
      return node_->name;
    case 'c':
      return "cdiv(" + node_->a.text() + "," + node_->b.text() + ")";
    case '<':
      return "min(" + node_->a.text() + "," + node_->b.text() + ")";
    case '>':
      return "max(" + node_->a.text() + "," + node_->b.text() + ")";
    default: {
      const auto side = [&](const Expr& e, bool right) {
        const char o = e.node_->op, p = node_->op;
        const bool low = o == '+' || o == '-', mul = o == '*' || o == '/';
        const bool wrap =
            ((p == '*' || p == '/') && (low || (right && mul))) || (p == '-' && right && low);
        return wrap ? "(" + e.text() + ")" : e.text();
      };
      return side(node_->a, false) + node_->op + side(node_->b, true);
    }
  }
}

std::set<std::string> Expr::symbols() const {
  if (is_constant()) return {};
  if (is_symbol()) return {node_->name};
  auto s = node_->a.symbols();
  s.merge(node_->b.symbols());
  return s;
}

Expr Expr::substitute(const std::map<std::string, Expr>& by) const {
  if (is_constant()) return *this;
  if (is_symbol()) {
    const auto it = by.find(node_->name);
    return it == by.end() ? *this : it->second;
  }
  return make(node_->op, node_->a.substitute(by), node_->b.substitute(by));
}

int64_t Expr::eval(const Axes& axes) const {
  if (is_constant()) return node_->value;
  if (is_symbol()) {
    const auto it = axes.find(node_->name);
    if (it == axes.end()) fail("expression", "the axis `" + node_->name + "` has no value");
    return it->second;
  }
  int64_t v = 0;
  if (!apply(node_->op, node_->a.eval(axes), node_->b.eval(axes), &v)) {
    fail("expression", "`" + text() + "` divides by zero or leaves 64 bits");
  }
  return v;
}

int ExprProgram::add(const Expr& expr) {
  const auto [it, fresh] = known_.try_emplace(expr.text(), static_cast<int>(starts_.size()));
  if (fresh) {
    starts_.push_back(steps_.size());
    emit(expr);
  }
  return it->second;
}

void ExprProgram::emit(const Expr& expr) {
  const auto& node = *expr.node_;
  if (node.op == '$') {
    const auto it = std::find(symbols_.begin(), symbols_.end(), node.name);
    if (it == symbols_.end())
      fail("graph", "the axis `" + node.name + "` is not one of the phase's");
    steps_.push_back({'$', it - symbols_.begin()});
  } else if (node.op == '#') {
    steps_.push_back({'#', node.value});
  } else {
    emit(node.a);
    emit(node.b);
    steps_.push_back({node.op, 0});
  }
}

void ExprProgram::run(const int64_t* symbol_values, int64_t* values) const {
  int64_t stack[64];
  for (size_t e = 0; e < starts_.size(); ++e) {
    const size_t end = e + 1 < starts_.size() ? starts_[e + 1] : steps_.size();
    int top = 0;
    for (size_t i = starts_[e]; i < end; ++i) {
      const Step& s = steps_[i];
      if (s.op == '#')
        stack[top++] = s.value;
      else if (s.op == '$')
        stack[top++] = symbol_values[s.value];
      else {
        --top;
        if (!apply(s.op, stack[top - 1], stack[top], &stack[top - 1])) stack[top - 1] = 0;
      }
    }
    values[e] = stack[0];
  }
}

}  // namespace fk
