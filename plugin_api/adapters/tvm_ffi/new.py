#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A source with a function of tvm-ffi to begin from, for an op without a template: it compiles, and refuses every case.

    new.py --header fk/ops/OP.h --name PLUGIN --out FILE
"""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "triton"))
from contract import Problem, write_beginning  # noqa: E402

KINDS = {"int": "int64_t", "bool": "bool", "enum": "int64_t", "float": "double"}


def text_of(contract, summary, plugin):
    slots = {name: slot for name, slot in contract.slots.items() if not slot.is_list and (slot.kind == "tensor" or slot.kind in KINDS)}
    left = [name for name, slot in contract.slots.items() if name not in slots and not slot.optional]
    if left:
        raise Problem(f"`{contract.op}` has {', '.join(left)}, which a function of tvm-ffi does not get here: use another language")
    comments = "".join(f"//   {name}: {slot.role} [{', '.join(slot.shape)}] {'|'.join(slot.dtypes)}{', optional' if slot.optional else ''}\n"
                       for name, slot in slots.items() if slot.kind == "tensor")
    kind = lambda slot: KINDS.get(slot.kind) or ("Optional<TensorView>" if slot.optional else "TensorView")  # noqa: E731
    parameters = ",\n    ".join(f"{kind(slot)} {name}" for name, slot in slots.items())
    unused = "".join(f"  (void){name};\n" for name in slots)
    edition = f"// edition {contract.edition}\n" if contract.editions > 1 else ""
    return f"""// fk-host: {contract.op}, plugin {plugin} 0.1.0
// arguments: {', '.join(slots)}
// {summary or contract.op}
// The contract as a page: fk-host show {contract.op}
{comments}{edition}// refuse: the function is not written yet
//   (remove the line above when it is)
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::Optional;
using tvm::ffi::TensorView;

void {contract.op}(
    {parameters}) {{
{unused}}}
TVM_FFI_DLL_EXPORT_TYPED_FUNC({contract.op}, {contract.op});
"""


if __name__ == "__main__":
    sys.exit(write_beginning(__doc__, text_of))
