# SPDX-License-Identifier: Apache-2.0
"""A source in OpenCL C: its head, its launches, and the parameters of its kernels."""
import dataclasses
import re

from contract import Contract, Problem, nearest
from expression import Expression

HEAD = re.compile(r"^// fk-host: (\w+), plugin ([\w.-]+) (\S+)\s*$", re.M)
LAUNCH = re.compile(r"^// launch (\w+): (.+?)(?:, group (\d+))?\s*$", re.M)
KERNEL = re.compile(r"\b__?kernel\s+void\s+(\w+)\s*\(([^{]*)\)\s*\{")


@dataclasses.dataclass
class Launch:
    kernel: str
    items: Expression
    group: int
    parameters: list  # (kind, name): kind is tensor, long, double or float
    line: int


class Source:
    """Reads a source. `header` is the text of fk/ops/OP.h for the op that the head names."""

    def __init__(self, text, op, header):
        self.text = text
        head = HEAD.search(text)
        if not head:
            raise Problem("no line `// fk-host: OP, plugin NAME VERSION`", 1)
        if head.group(1) != op:
            raise Problem(f"the head says op `{head.group(1)}`, the file's name says `{op}`", self._line(head.start()))
        self.plugin, self.version = head.group(2), head.group(3)
        edition = re.search(r"^// edition (\d+)\s*$", text, re.M)
        self.contract = Contract(op, header, int(edition.group(1)) if edition else None)
        self.refusal = re.search(r"^// refuse: (.+?)\s*$", text, re.M)
        self.kernels = {m.group(1): (m.group(2), self._line(m.start())) for m in KERNEL.finditer(text)}
        self.launches = [self._launch(m) for m in LAUNCH.finditer(text)]
        if not self.launches:
            raise Problem("no line `// launch KERNEL: ITEMS`, where ITEMS is the number of work items", 1)
        self.taken = {name for launch in self.launches for kind, name in launch.parameters if kind == "tensor"}

    def _line(self, at):
        return self.text.count("\n", 0, at) + 1

    def _launch(self, match):
        line = self._line(match.start())
        name = match.group(1)
        if name not in self.kernels:
            raise Problem(f"there is no kernel `{name}`{nearest(name, self.kernels)}", line)
        items = Expression(match.group(2), line, "number of work items")
        known = {*self.contract.axes, *self.contract.scalars}
        for read in items.names:
            if read not in known:
                raise Problem(f"`{read}` is no axis and no scalar of the op{nearest(read, known)}", line)
        text, at = self.kernels[name]
        parameters = [self._parameter(part.strip(), at) for part in text.split(",") if part.strip()]
        return Launch(name, items, int(match.group(3) or 64), parameters, line)

    def _parameter(self, text, line):
        if tensor := re.fullmatch(r"TENSOR\((\w+)\)", text):
            name, known = tensor.group(1), [n for n, slot in self.contract.tensors.items() if not slot.is_list]
            if name not in known:
                raise Problem(f"`{name}` is no tensor of the op{nearest(name, known)}", line)
            return "tensor", name
        if number := re.fullmatch(r"(?:const\s+)?(long|double|float)\s+(\w+)", text):
            kind, name = number.groups()
            known = {"items", *self.contract.axes, *self.contract.scalars, *self.contract.strides()}
            if name not in known:
                raise Problem(f"`{name}` is no axis, scalar or stride of the op{nearest(name, known)}", line)
            return kind, name
        raise Problem(f"the parameter `{text}` is neither `TENSOR(name)` nor a long, double or float", line)
