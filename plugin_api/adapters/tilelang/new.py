#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A source in TileLang to begin from, for an op without a template: it compiles, and refuses every case until REFUSE is removed.

    new.py --header fk/ops/OP.h --name PLUGIN --out FILE
"""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "triton"))  # contract.py is Triton's
from contract import Problem, write_beginning  # noqa: E402


def text_of(contract, summary, plugin):
    tensors = {name: slot for name, slot in contract.tensors.items() if not slot.is_list and not slot.optional}
    results = [name for name, slot in tensors.items() if slot.role in ("out", "inout")]
    sizes = {part for slot in tensors.values() for part in slot.shape}
    if not results or any(slot.is_list and not slot.optional for slot in contract.tensors.values()) or not sizes <= set(contract.axes):
        raise Problem(f"`{contract.op}` has lists of tensors, sizes that are sums, or no single output: use another language")
    fixed = [axis for axis in contract.axes if axis in sizes and axis in contract.fixed]
    moving = [axis for axis in contract.axes if axis in sizes and axis not in contract.fixed]
    parameters = ",\n             ".join(f'{name}: tl.Tensor(({", ".join(slot.shape)},), dtypes["{name}"])' for name, slot in tensors.items())
    first = tensors[results[0]].shape
    grid = moving[0] if moving else "1"
    comments = "".join(f"#   {name}: {slot.role} [{', '.join(slot.shape)}] {'|'.join(slot.dtypes)}{', optional' if slot.optional else ''}\n"
                       for name, slot in contract.tensors.items())
    chosen = {name: "bf16" if "bf16" in slot.dtypes else slot.dtypes[0] for name, slot in tensors.items() if len(slot.dtypes) > 1}
    dynamic = "".join(f'    {axis} = tl.dynamic("{axis}")\n' for axis in moving)
    edition = f"EDITION = {contract.editions}\n" if contract.editions > 1 else ""
    zero = ", ".join("0" for _ in first)
    return f'''# {contract.op}{": " + summary if summary else ""}
# The contract as a page: fk-host show {contract.op}
{comments}import tilelang  # noqa: F401
import tilelang.language as tl  # an axis may have the name T


# `dtypes` has the name of each tensor's dtype, and None for an absent tensor. Parameters have the contract's names: tensors, axes, scalars.
def {contract.op}({", ".join(["dtypes", *fixed])}):
{dynamic}
    @tl.prim_func
    def main({parameters}):
        with tl.Kernel({grid}, threads=128) as block:
            {results[0]}[{zero}] = 0

    return main


PLUGIN = ("{plugin}", "0.1.0")
{edition}REFUSE = "the kernel is not written yet"  # remove this line when it is
PROGRAM = {contract.op}
# Dtypes of tensors to compile for. An optional tensor without an entry is absent.
DTYPES = [{{{", ".join(f'"{name}": "{dtype}"' for name, dtype in chosen.items())}}}]
# Arguments of PROGRAM. An axis or a scalar of the contract has this value in the calls that the entry takes.
VARIANTS = [{{{", ".join(f'"{axis}": 128' for axis in fixed)}}}]
CLAIMS = {{"deterministic": True, "batch_invariant": False}}
'''


if __name__ == "__main__":
    sys.exit(write_beginning(__doc__, text_of))
