// SPDX-License-Identifier: Apache-2.0
// G1: crashes in a function with a mangled name of three hundred characters. It stands for a name
// of more than a billion, which a demangler would write down
//
// Stopped by: names that refer back to themselves too often stay mangled
//
// verdict: crashed
//
// naive: -
#include "../attack.hpp"

// std::pair of a pair of a pair, thirty times, each with the one before twice.
#define FK_TWICE(s) "S_I" s s "E"
__attribute__((noinline, used)) static void fall(volatile int* nowhere) __asm__(
    "_Z1fSt4pairIiiE" FK_TWICE("S0_") FK_TWICE("S1_") FK_TWICE("S2_") FK_TWICE("S3_")
        FK_TWICE("S4_") FK_TWICE("S5_") FK_TWICE("S6_") FK_TWICE("S7_") FK_TWICE("S8_")
            FK_TWICE("S9_") FK_TWICE("SA_") FK_TWICE("SB_") FK_TWICE("SC_") FK_TWICE("SD_")
                FK_TWICE("SE_") FK_TWICE("SF_") FK_TWICE("SG_") FK_TWICE("SH_") FK_TWICE("SI_")
                    FK_TWICE("SJ_") FK_TWICE("SK_") FK_TWICE("SL_") FK_TWICE("SM_") FK_TWICE("SN_")
                        FK_TWICE("SO_") FK_TWICE("SP_") FK_TWICE("SQ_") FK_TWICE("SR_")
                            FK_TWICE("SS_") FK_TWICE("ST_"));
static void fall(volatile int* nowhere) {
  volatile int before = 1;  // the first byte of a function is taken for the end of the one before
  *nowhere = before;
}

namespace {

struct Names : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    honest(args);
    fall(static_cast<volatile int*>(ctx.stream));  // null on the CPU
  }
};
FK_OP(silu_and_mul, Names);

}  // namespace
FK_PLUGIN("g1_names", "0");
