#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A source in OpenCL C to begin from, for an op without a template: it compiles, and refuses every case until its line `refuse` is removed.

    new.py --header fk/ops/OP.h --name PLUGIN --out FILE
"""
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "triton")]  # contract.py is Triton's
from contract import Problem, write_beginning  # noqa: E402


def text_of(contract, summary, plugin):
    tensors = {name: slot for name, slot in contract.tensors.items() if not slot.is_list}
    results = [slot for slot in tensors.values() if slot.role in ("out", "inout") and not slot.optional]
    if not results:
        raise Problem(f"`{contract.op}` has no output that a kernel could write: use another language")
    axes = [part for part in results[0].shape if part in contract.axes or part in contract.scalars]
    items = " * ".join(axes) or "1"
    comments = "".join(f"//   {name}: {slot.role} [{', '.join(slot.shape)}] {'|'.join(slot.dtypes)}{', optional' if slot.optional else ''}\n"
                       for name, slot in tensors.items())
    parameters = ", ".join([*(f"TENSOR({name})" for name in tensors), *(f"long {axis}" for axis in dict.fromkeys(axes)), "long items"])
    edition = f"// edition {contract.edition}\n" if contract.editions > 1 else ""
    return f"""// fk-host: {contract.op}, plugin {plugin} 0.1.0
// {summary or contract.op}
// The contract as a page: fk-host show {contract.op}
{comments}{edition}// refuse: the kernel is not written yet
//   (remove the line above when it is)
// The kernel runs with so many work items, in whole groups:
// launch {contract.op}: {items}
// GET(x, i) and PUT(x, i, v) read and write element i of a tensor, in any dtype. HAS(x) is 0 where a call has no such tensor.
__kernel void {contract.op}({parameters}) {{
  const long i = get_global_id(0);
  if (i >= items) return;
  PUT({results[0].name}, i, 0);
}}
"""


if __name__ == "__main__":
    sys.exit(write_beginning(__doc__, text_of))
