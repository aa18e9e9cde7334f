#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A source in CuTe DSL to begin from, for an op without a template: it compiles, and refuses every case until REFUSE is removed.

    new.py --header fk/ops/OP.h --name PLUGIN --out FILE

The function has a parameter for each tensor and scalar, and its kernel does nothing yet.
"""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "triton"))  # contract.py is Triton's
from contract import Problem, write_beginning  # noqa: E402


def text_of(contract, summary, plugin):
    tensors = {name: slot for name, slot in contract.tensors.items() if not slot.is_list}
    results = [slot for slot in tensors.values() if slot.role in ("out", "inout") and not slot.optional]
    if not results or any(slot.is_list and not slot.optional for slot in contract.tensors.values()):
        raise Problem(f"`{contract.op}` has lists of tensors, or no single output: use another language")
    scalars = {name: "Float32" if slot.kind == "float" else "Int32" for name, slot in contract.scalars.items() if not slot.axis and not slot.capture}
    typed = [*(f"{name}: cute.Tensor" for name in tensors), *(f"{name}: {kind}" for name, kind in scalars.items())]
    comments = "".join(f"#   {name}: {slot.role} [{', '.join(slot.shape)}] {'|'.join(slot.dtypes)}{', optional' if slot.optional else ''}\n"
                       for name, slot in tensors.items())
    chosen = {name: "bf16" if "bf16" in slot.dtypes else slot.dtypes[0] for name, slot in tensors.items() if len(slot.dtypes) > 1 and not slot.optional}
    imports = "".join(f"from cutlass import {', '.join(sorted(set(scalars.values())))}\n" if scalars else "")
    edition = f"EDITION = {contract.editions}\n" if contract.editions > 1 else ""
    join = ",\n    ".join
    return f'''# {contract.op}{": " + summary if summary else ""}
# The contract as a page: fk-host show {contract.op}
{comments}import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
{imports}

# A tensor that is absent is None: `if cutlass.const_expr(NAME is not None):`
@cute.kernel
def kernel(
    {join(typed)},
):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()


@cute.jit
def {contract.op}(
    {join(typed)},
    stream: CUstream,
):
    kernel({", ".join([*tensors, *scalars])}).launch(grid=[1, 1, 1], block=[128, 1, 1], stream=stream)


PLUGIN = ("{plugin}", "0.1.0")
{edition}REFUSE = "the kernel is not written yet"  # remove this line when it is
LAUNCH = {contract.op}
# Dtypes of tensors to compile for. An optional tensor without an entry is absent.
DTYPES = [{{{", ".join(f'"{name}": "{dtype}"' for name, dtype in chosen.items())}}}]
CLAIMS = {{"deterministic": True, "batch_invariant": False}}
'''


if __name__ == "__main__":
    sys.exit(write_beginning(__doc__, text_of))
