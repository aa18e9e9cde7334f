// SPDX-License-Identifier: Apache-2.0
// `add` done right in a file whose shape is wrong: BAD_... says what the linter has to find.
#include "fk/ops/add.h"

#if defined BAD_WEAK
extern "C" __attribute__((visibility("default"), weak)) int fk_weak_export() { return 1; }
#elif defined BAD_UNIQUE && defined __x86_64__
// As a template's static member looks where -fno-gnu-unique is forgotten.
asm(".globl fk_unique_export\n.type fk_unique_export, @gnu_unique_object\n.data\nfk_unique_export: "
    ".quad 1\n"
    ".size fk_unique_export, 8\n.text");
#elif defined BAD_STATIC_TLS
static thread_local int slot __attribute__((tls_model("initial-exec")));
#elif defined BAD_NEEDED || defined BAD_NCCL
extern "C" int fk_foreign();
#elif defined BAD_WRITABLE_CODE
asm(".section .selfchange,\"awx\",@progbits\n.byte 0xc3\n.text");
#elif defined BAD_RELOCATED
asm(".text\n.quad fk_is_moved\n.data\nfk_is_moved: .quad 1\n.text");  // code with an address in it
#endif

namespace {
struct Add {
  using op = fk::add;
  static constexpr fk_claims claims = fk::cpu_claims;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (FK_DTYPE(max.a) != FK_F32) throw fk::unsupported{"float32 only"};
  }
  Add(const fk_host&, const op::init&, const op::weights&) {
#if defined BAD_STATIC_TLS
    ++slot;
#elif defined BAD_NEEDED || defined BAD_NCCL
    fk_foreign();
#endif
  }
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    for (int64_t i = fk_numel(args.a) - 1; i >= 0; --i)
      fk::data<float>(args.out)[i] = fk::data<float>(args.a)[i] + fk::data<float>(args.b)[i];
  }
};
FK_OP(add, Add);
}  // namespace
FK_PLUGIN(BAD_NAME, "0");
