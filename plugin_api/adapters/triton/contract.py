# SPDX-License-Identifier: Apache-2.0
"""The contract of an op, read from its header fk/ops/OP.h. Needs the standard library alone."""
import argparse
import dataclasses
import difflib
import pathlib
import re
import sys


class Problem(Exception):
    """A mistake of an author: one sentence. `file` and `line` say where it is; line 0: the whole file."""

    def __init__(self, what, line=0, file=None):
        super().__init__(what)
        self.line, self.file = line, file


def nearest(name, known):
    """The end of a sentence about an unknown name: the nearest known one, or all of them."""
    close = difflib.get_close_matches(name, known, 1, 0.5)
    return f"; did you mean `{close[0]}`?" if close else f"; known: {', '.join(sorted(known)) or 'none'}"


@dataclasses.dataclass
class Slot:
    section: str  # init, weights or forward
    name: str
    kind: str  # tensor, int, float, bool, enum, dtype, ints or comm
    role: str = ""
    shape: tuple = ()
    axis: str = ""
    optional: bool = False
    is_list: bool = False
    strided: bool = False
    capture: bool = False  # an upper bound for a captured graph
    default: str = ""
    dtypes: tuple = ()  # of a tensor: names of dtypes, or the one tensor that has the same dtype
    since: int = 1

    @property
    def code(self):
        """The C++ expression of the field, in functions with arguments init, weights and forward."""
        return f"{self.section}.{self.name}"


class Contract:
    """Slots by name, and for each axis the C++ expression of its value."""

    def __init__(self, op, text, edition=None):
        self.op = op
        found = re.search(r"^typedef struct fk_(\w+)_init\b", text, re.M)
        if not found or found.group(1) != op:
            raise Problem(f"the header is not that of op `{op}`")
        lines = re.findall(r'^    "((?:init|weights|forward)\.[^"]*)"', text, re.M)
        slots = [self._slot(line) for line in lines]
        self.editions = max([slot.since for slot in slots], default=1)
        self.edition = edition or self.editions
        self.slots = {slot.name: slot for slot in slots if slot.since <= self.edition}
        self.tensors = {name: slot for name, slot in self.slots.items() if slot.kind == "tensor"}
        self.scalars = {name: slot for name, slot in self.slots.items() if slot.kind in ("int", "float", "bool", "enum")}
        self.axes = {}  # name -> expression
        self.fixed = set()  # axes and scalars that are the same in every call of an instance
        self._find_axes()
        self.fixed |= {name for name, slot in self.scalars.items() if slot.section == "init"}

    @staticmethod
    def _slot(line):
        before, after = line.split("|", 1)
        words = before.split()
        section, name = words[0].split(".")
        values = dict(word.split("=", 1) for word in words[2:] + after.split() if "=" in word)
        return Slot(section, name, words[1], role=next((w for w in words[2:] if w in ("in", "out", "inout")), ""),
                    shape=tuple(s for s in values.get("shape", "[]")[1:-1].split(",") if s), axis=values.get("axis", ""),
                    optional="opt" in words[2:], is_list="list" in values, capture="capture" in words[2:], strided="strided" in words[2:],
                    default=values.get("default", ""),
                    dtypes=tuple(s for s in values.get("dtype", "").split(",") if s), since=int(values.get("since", 1)))

    def _find_axes(self):
        for slot in self.scalars.values():
            if slot.axis:
                self.axes[slot.axis] = f"init.{slot.name}"
                self.fixed.add(slot.axis)
        # Required tensors show the other axes: `T`, or `B+1` with one number added.
        for section in ("weights", "forward"):
            for slot in self.tensors.values():
                if slot.section != section or slot.optional or slot.is_list:
                    continue
                for at, size in enumerate(slot.shape):
                    plain = re.fullmatch(r"([A-Za-z]\w*)(?:\+(\d+))?", size)
                    if not plain or plain.group(1) in self.axes or plain.group(1) in self.scalars:
                        continue
                    self.axes[plain.group(1)] = f"{slot.code}->shape[{at}]" + (f" - {plain.group(2)}" if plain.group(2) else "")
                    if section == "weights":
                        self.fixed.add(plain.group(1))

    def strides(self):
        """Every name SLOT_stride_K -> (slot, K)."""
        return {f"{slot.name}_stride_{at}": (slot, at) for slot in self.tensors.values() if not slot.is_list
                for at in range(len(slot.shape))}


def write_beginning(doc, text_of):
    """The command of new.py: writes text_of(contract, summary, plugin) to a file. Returns the exit code."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--header", "--name", "--out"):
        parser.add_argument(name, required=True)
    a = parser.parse_args()
    header = pathlib.Path(a.header).read_text()
    op = re.search(r"^typedef struct fk_(\w+)_init\b", header, re.M).group(1)
    summary = re.search(r"^/\* \w+, revision \d+, level \d+: (.*?)(?: \*/)?$", header, re.M)
    try:
        pathlib.Path(a.out).write_text(text_of(Contract(op, header), summary.group(1) if summary else "", a.name))
    except Problem as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0
