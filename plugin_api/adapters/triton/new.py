#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A source in Triton to begin from, for an op without a template: it compiles, and refuses every case until REFUSE is removed.

    new.py --header fk/ops/OP.h --name PLUGIN --out FILE

The kernel has a parameter for each tensor, scalar and axis, and copies what looks like its input, element by element.
"""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from contract import Problem, write_beginning  # noqa: E402


def wrapped(names, indent):
    """Names with commas, in lines of at most 100 columns."""
    lines, line = [], ""
    for name in names:
        if len(indent) + len(line) + len(name) + 3 > 100:
            lines.append(line.rstrip())
            line = ""
        line += name + ", "
    return ("\n" + indent).join([*lines, line.rstrip(", ")])


def text_of(contract, summary, plugin):
    tensors = {name: slot for name, slot in contract.tensors.items() if not slot.is_list}
    results = [slot for slot in tensors.values() if slot.role in ("out", "inout") and not slot.optional]
    if not results:
        raise Problem(f"`{contract.op}` has no output that a kernel could write elementwise: use another language")
    result = next((slot for slot in results if slot.role == "out"), results[0])
    size = " * ".join(f"({part})" if "+" in part else part for part in result.shape) or "1"
    size = size.replace("/", "//")
    like = next((slot for slot in tensors.values() if slot.role == "in" and slot.shape == result.shape and not slot.optional), None)
    axes = [axis for axis in contract.axes if any(re.search(rf"\b{axis}\b", part) for s in tensors.values() for part in s.shape)]
    strides = [name for name, (slot, axis) in contract.strides().items() if slot.strided and axis + 1 < len(slot.shape)]
    scalars = [name for name, slot in contract.scalars.items() if not slot.axis and not slot.capture]
    parameters = wrapped([*dict.fromkeys([*tensors, *axes, *strides, *scalars]), "BLOCK: tl.constexpr"], " " * (len(contract.op) + 5))
    load = f"tl.load({like.name} + at, mask=inside, other=0)" if like else "tl.zeros((BLOCK,), tl.float32)"
    missing = [part for part in re.findall(r"[A-Za-z_]\w*", size) if part not in contract.axes and part not in contract.scalars]
    if missing:
        raise Problem(f"`{contract.op}`: no tensor or scalar gives the axis {missing[0]}: use another language")
    chosen = {name: slot.dtypes[0] for name, slot in tensors.items() if len(slot.dtypes) > 1 and not slot.optional}
    chosen = {name: "bf16" if "bf16" in tensors[name].dtypes else dtype for name, dtype in chosen.items()}
    comments = "".join(f"#   {name}: {slot.role} [{', '.join(slot.shape)}] {'|'.join(slot.dtypes)}{', optional' if slot.optional else ''}\n"
                       for name, slot in tensors.items())
    edition = f"EDITION = {contract.editions}\n" if contract.editions > 1 else ""
    optional = "".join(f"\n    # `{name}` is None where a call has no such tensor: write `if {name} is not None:`"
                       for name, slot in tensors.items() if slot.optional)
    return f'''# {contract.op}{": " + summary if summary else ""}
# The contract as a page: fk-host show {contract.op}
{comments}import triton
import triton.language as tl


@triton.jit
def {contract.op}({parameters}):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < {size}{optional}
    value = {load}.to(tl.float32)
    tl.store({result.name} + at, value.to({result.name}.dtype.element_ty), mask=inside)


PLUGIN = ("{plugin}", "0.1.0")
{edition}REFUSE = "the kernel is not written yet"  # remove this line when it is
# Kernels in the order of their launches, each with its grid.
LAUNCH = [({contract.op}, ["cdiv({size}, BLOCK)"])]
# Dtypes of tensors to compile for. An optional tensor without an entry is absent.
DTYPES = [{{{", ".join(f'"{name}": "{dtype}"' for name, dtype in chosen.items())}}}]
# The first entry whose condition holds takes the call, as in {{"when": "T <= 16", "BLOCK": 256}}.
VARIANTS = [{{"BLOCK": 1024, "num_warps": 4}}]
CLAIMS = {{"deterministic": True, "batch_invariant": False}}
'''


if __name__ == "__main__":
    sys.exit(write_beginning(__doc__, text_of))
