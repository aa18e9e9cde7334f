// SPDX-License-Identifier: Apache-2.0
// G1: has the note of its op a hundred times, so that each case is judged a hundred times, and
// counts as often
//
// Stopped by: an op has one note
//
// verdict: load
//
// naive: -
#include "../attack.hpp"

namespace {

struct Notes : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) { honest(args); }
};
FK_OP(silu_and_mul, Notes);

#define TEN(x) x, x, x, x, x, x, x, x, x, x
constexpr fk_note_op more[] FK_NOTE_SECTION = {TEN(TEN(FK_NOTE_silu_and_mul))};

}  // namespace
FK_PLUGIN("g1_notes", "0");
