// SPDX-License-Identifier: Apache-2.0
// If these fail, shapes and costs of every contract and the dimensions of every graph are wrong.
#include "core/contract/expr.hpp"

#include "core/base/error.hpp"
#include "test/catch.hpp"

using fk::Axes;
using fk::Expr;

TEST_CASE("expr_parse_follows_precedence") {
  const Axes axes{{"H", 4}, {"G", 2}, {"D", 8}, {"T", 7}};
  CHECK(Expr::parse("(H+2*G)*D", "t").eval(axes) == 64);
  CHECK(Expr::parse("H+2*G*D", "t").eval(axes) == 36);
  CHECK(Expr::parse("T-2-1", "t").eval(axes) == 4);
  CHECK(Expr::parse("T/2", "t").eval(axes) == 3);
  CHECK(Expr::parse("cdiv(T,2)", "t").eval(axes) == 4);
  CHECK(Expr::parse("min(T,H)*max(G,D)", "t").eval(axes) == 32);
  CHECK(Expr::parse("T/2*2", "t").eval(axes) == 6);
}

TEST_CASE("expr_text_reads_back_to_the_same_value") {
  const Axes axes{{"A", 11}, {"B", 3}, {"C", 2}};
  for (const char* text : {"A-(B-C)", "A-B-C", "A/(B*C)", "A/B*C", "A*(B+C)", "cdiv(A,B)-C",
                           "A-(B+C)", "A*(B/C)", "-"}) {
    if (std::string(text) == "-") continue;
    const Expr e = Expr::parse(text, "t");
    INFO(text << " -> " << e.text());
    CHECK(Expr::parse(e.text(), "t").eval(axes) == e.eval(axes));
  }
}

TEST_CASE("expr_constants_fold_and_substitution_is_simplified") {
  CHECK((Expr(3) * Expr(4) + 1).value() == 13);
  const Expr e = Expr::parse("T*K", "t").substitute({{"K", Expr(2)}});
  CHECK(e.text() == "T*2");
  CHECK(Expr::parse("(B+1)*1", "t") == Expr::parse("B+1", "t"));
  CHECK(Expr::parse("(Y+2*3-(7-1)-1)/1+1", "t") == Expr::symbol("Y"));
  CHECK(Expr::parse("Y-1+3", "t").text() == "Y+2");
  CHECK(Expr::parse("Y+1-3", "t").text() == "Y-2");
}

TEST_CASE("expr_refuses_bad_text_with_position") {
  for (const char* text :
       {"", "H+", "2*(", "H H", "pow(H,2)", "cdiv(H)", "99999999999999999999", "H%2"}) {
    INFO(text);
    CHECK_THROWS_AS(Expr::parse(text, "file:3:1"), fk::Error);
  }
  std::string deep(200, '(');
  CHECK_THROWS_AS(Expr::parse(deep + "1" + std::string(200, ')'), "t"), fk::Error);
}

TEST_CASE("expr_eval_reports_overflow_zero_divisors_and_unbound_axes") {
  const Axes axes{{"H", INT64_MAX}, {"Z", 0}};
  CHECK_THROWS_AS(Expr::parse("H*2", "t").eval(axes), fk::Error);
  CHECK_THROWS_AS(Expr::parse("H/Z", "t").eval(axes), fk::Error);
  CHECK_THROWS_AS(Expr::parse("Q", "t").eval(axes), fk::Error);
}

TEST_CASE("expr_program_gives_what_eval_gives_and_shares_equal_expressions") {
  fk::ExprProgram program({"T", "B"});
  const Expr a = Expr::parse("cdiv(T,3)*(B+1)-min(T,B)", "t"), b = Expr::parse("T*B", "t");
  const int ia = program.add(a), ib = program.add(b);
  CHECK(program.add(a) == ia);
  CHECK(program.size() == 2);
  for (const int64_t t : {0, 1, 7, 100}) {
    const int64_t axes[] = {t, 5};
    int64_t values[2];
    program.run(axes, values);
    CHECK(values[ia] == a.eval({{"T", t}, {"B", 5}}));
    CHECK(values[ib] == b.eval({{"T", t}, {"B", 5}}));
  }
  CHECK_THROWS_AS(program.add(Expr::symbol("X")), fk::Error);
}
