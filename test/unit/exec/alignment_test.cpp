// SPDX-License-Identifier: Apache-2.0
// If these fail, a model hands out views that break the ABI's promise of alignment.
#include "core/base/error.hpp"
#include "core/exec/program.hpp"
#include "core/graph/builder.hpp"
#include "test/catch.hpp"
#include "test/unit/catalog.hpp"

namespace {

// A phase of [T, 8] floats that looks at columns from `start` on.
struct Sliced {
  explicit Sliced(const fk::Expr& start) : program(lowered(start), {{"T", 3}, {"S", 8}}, *device) {
    program.set_memory({});
  }
  std::unique_ptr<fk::Lowered> lowered(const fk::Expr& start) {
    fk::Builder b(catalog(), "classify", std::make_shared<fk::WeightTable>());
    const fk::Expr rows = b.axis("T");
    b.axis("S");
    const fk::Value x = b.input("x", fk::DType::f32, {rows, 8});
    const fk::Value part = b.slice(x, 1, start, 2);
    fk::Graph graph = b.finish();
    graph.outputs["part"] = part;  // Builder::output refuses its gaps
    return fk::lower(catalog(), std::move(graph), plugins, {}, FK_CPU, 0, {{"T", 3}, {"S", 8}},
                     nullptr);
  }
  std::unique_ptr<fk::Device> device = fk::open_device("cpu");
  fk::Plugins plugins{catalog()};
  fk::PhaseProgram program;
};

}  // namespace

TEST_CASE("a slice begins at a multiple of 16 bytes where rows do") {
  CHECK_NOTHROW(Sliced(0));
  CHECK_NOTHROW(Sliced(4));
  CHECK_THROWS_WITH(Sliced(2),
                    ContainsSubstring("a view of `x` begins 8 bytes behind a multiple of 16"));
}

TEST_CASE("a slice whose start a step decides is looked at in the step") {
  Sliced sliced{fk::Expr::symbol("S")};
  const auto run = [&](int64_t start) {
    sliced.program.bind(sliced.program.axis("S"), start);
    sliced.program.run();
  };
  CHECK_NOTHROW(run(4));
  CHECK_THROWS_WITH(run(3), ContainsSubstring("begins 12 bytes behind a multiple of 16"));
}
