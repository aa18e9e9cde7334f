#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A source in Rust to begin from, for an op without a template: it compiles, and refuses every case until forward() is written.

    new.py --header fk/ops/OP.h --name PLUGIN --out FILE
"""
import argparse
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from bindings import FIELDS, SECTIONS, name_of  # noqa: E402

TEXT = """// {op}: {summary}
// The contract as a page: fk-host show {op}
use fk::{op}::{{Forward, Init, Kernel, Weights}};
use fk::{{Ctx, Done, Fault, Host, Need}};

struct {kernel}<'a> {{
    init: &'a Init{init_life},
    weights: &'a Weights{weights_life},
}}

impl<'a> Kernel<'a> for {kernel}<'a> {{
    // Refuse what forward() does not take, with a sentence; ask for memory in Need. Sizes are at
    // their maxima, and tensors have no data.
    fn supports(_init: &Init, _weights: &Weights, _max: &Forward) -> Result<Need, Fault> {{
        Err(Fault::refuse("forward is not written yet")) // when it is: Ok(Need::default())
    }}

    fn create(_: &'a Host, init: &'a Init{init_life}, weights: &'a Weights{weights_life}) -> Result<Self, Fault> {{
        Ok({kernel} {{ init, weights }})
    }}

    fn forward(&mut self, args: &mut Forward, ctx: &mut Ctx) -> Done {{
        let (init, weights) = (self.init, self.weights);
{body}        Ok(())
    }}
}}
fk::op!({op}, {kernel}{edition});
fk::plugin!("{plugin}", "0.1.0");
"""


def fields_of(header, op, section):
    """(name, C type, comment) of each field of a section."""
    body = re.search(rf"^typedef struct fk_{op}_{section} \{{\n(.*?)^\}} fk_", header, re.M | re.S)
    lines = re.findall(r"^  (.*?)(\w+);(?: +/\* (.*?) \*/)?$", body.group(1), re.M) if body else []
    return [(name, kind.strip(), about) for kind, name, about in lines]


def text_of(header, plugin):
    op = re.search(r"^typedef struct fk_(\w+)_init\b", header, re.M).group(1)
    summary = re.search(r"^/\* \w+, revision \d+, level \d+: (.*?)(?: \*/)?$", header, re.M)
    newest = max([int(number) for number in re.findall(r'^    "\w+\.[^"]*\bsince=(\d+)', header, re.M)], default=1)
    body, names, lives = "", ["ctx"], {}
    for section in SECTIONS[:3]:
        fields = fields_of(header, op, section)
        lives[section] = "<'a>" if any("'a" in FIELDS[kind] for _, kind, _ in fields) else ""
        for name, kind, about in fields:
            frame = "args" if section == "forward" else section
            borrow = "&mut " if "&'a mut" in FIELDS[kind] else "&" if "Option" in FIELDS[kind] else ""
            line = f"        let {name_of(name)} = {borrow}{frame}.{name_of(name)};"
            body += line + (f" // {about}" if about else "") + "\n"
            names.append(name_of(name))
    used = [name for name in ("init", "weights", "args") if not re.search(rf"\b{name}\.", body)]
    body += f"        let _ = ({', '.join([*names, *used])});\n"
    kernel = "".join(part.capitalize() for part in op.split("_"))
    return TEXT.format(op=op, summary=summary.group(1) if summary else "", kernel=kernel, plugin=plugin, body=body, init_life=lives["init"],
                       weights_life=lives["weights"], edition=f", edition = {newest}" if newest > 1 else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--header", "--name", "--out"):
        parser.add_argument(name, required=True)
    a = parser.parse_args()
    pathlib.Path(a.out).write_text(text_of(pathlib.Path(a.header).read_text(), a.name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
