# SPDX-License-Identifier: Apache-2.0
"""Rust text of the ABI's structs and of an op's frames, read from the C headers. Needs a C preprocessor, and no package.

The headers are the one description of the ABI. So this file knows the syntax of their declarations, and no struct by name.
"""
import os
import pathlib
import re
import subprocess

SCALARS = {"int64_t": "i64", "int32_t": "i32", "uint64_t": "u64", "uint32_t": "u32", "uint16_t": "u16", "uint8_t": "u8",
           "double": "f64", "char": "c_char", "void": "c_void"}
# Fields of an op's frames. The host passes null only for optional fields, so the others are references.
FIELDS = {"int64_t": "i64", "double": "f64", "const fk_in *": "&'a In", "const fk_out *": "&'a mut Out", "const fk_inout *": "&'a mut Out",
          "fk_opt_in": "Option<&'a In>", "fk_opt_out": "Option<&'a mut Out>", "fk_opt_inout": "Option<&'a mut Out>",
          "const fk_in_list *": "&'a InList", "const fk_out_list *": "&'a mut OutList", "const fk_inout_list *": "&'a mut OutList",
          "fk_opt_in_list": "Option<&'a InList>", "fk_opt_out_list": "Option<&'a mut OutList>",
          "fk_opt_inout_list": "Option<&'a mut OutList>", "const fk_ints *": "&'a Ints", "const fk_comm *": "Option<&'a Comm>",
          "const fk_host_in *": "&'a HostIn"}
SECTIONS = ("init", "weights", "forward", "plan")
KEYWORDS = {"as", "box", "fn", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "type", "use", "where", "yield"}


class Problem(Exception):
    """A mistake in one sentence; `line` of the source, 0: the whole file."""

    def __init__(self, what, line=0):
        super().__init__(what)
        self.line = line


def preprocessed(header, edition=None, macros=False):
    """The header's text without comments and macros, or with `macros` the definitions of its macros alone."""
    header, here = pathlib.Path(header).resolve(), pathlib.Path(__file__).resolve()
    folders = [header.parents[2], here.parents[2], here.parents[4] / "include"]  # generated, the tree's, installed
    words = [os.environ.get("CC", "cc"), "-E", *(["-dM"] if macros else ["-P"]), "-x", "c", *(f"-I{folder}" for folder in folders)]
    if edition:
        words.append(f"-DFK_{header.stem.upper()}_EDITION={edition}")
    try:
        done = subprocess.run([*words, str(header)], capture_output=True, text=True)
    except OSError as error:
        raise Problem(f"`{words[0]}` cannot be started ({error}): a C compiler reads the headers") from None
    if done.returncode:
        raise Problem(f"{words[0]} cannot read {header}: {done.stderr.strip()[:300]}")
    return done.stdout


def split(text, separator):
    """Parts of the text at separators outside of parentheses and braces."""
    parts, depth, part = [], 0, ""
    for char in text:
        depth += (char in "({") - (char in ")}")
        if char == separator and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += char
    return [*parts, part.strip()]


def name_of(word):
    return "own" if word == "self" else f"r#{word}" if word in KEYWORDS else word


def pointer(base, stars):
    """`const fk_in` and "*const *" -> *const *const fk_in. Each star points to what stands before it."""
    constant, base = "const" in base.split(), base.replace("const", " ").strip()
    rust = SCALARS.get(base, base)
    for star in re.findall(r"\*\s*(?:const)?", stars):
        rust = f"*{'const' if constant else 'mut'} {rust}"
        constant = star.endswith("const")
    return rust


def typed(text):
    """A type with or without a name behind it -> its Rust text."""
    match = re.fullmatch(r"((?:const )?\w+)\s*((?:\*\s*(?:const\b)?\s*)*)\w*", text.strip())
    return pointer(match.group(1), match.group(2))


def members(body):
    """(name, Rust type) of each member of a C struct."""
    out = []
    for line in filter(None, split(body, ";")):
        line = " ".join(line.split())
        function = re.fullmatch(r"(.+?)\(\*(\w+)\)\((.*)\)", line)
        if function:
            result, name, arguments = function.groups()
            takes = ", ".join(typed(argument) for argument in split(arguments, ","))
            gives = "" if result.strip() == "void" else f" -> {typed(result)}"
            out.append((name, f"Option<unsafe extern \"C\" fn({takes}){gives}>"))
            continue
        base, rest = re.fullmatch(r"((?:const )?\w+)\s*(.*)", line).groups()
        for part in split(rest, ","):
            stars, name, sizes = re.fullmatch(r"((?:\*\s*(?:const\b)?\s*)*)(\w+)((?:\[\d+\])*)", part).groups()
            rust = pointer(base, stars)
            for size in reversed(re.findall(r"\d+", sizes)):
                rust = f"[{rust}; {size}]"
            out.append((name, rust))
    return out


def structs(text):
    """(kind, name, body) of each struct and union of the text; an empty body: a name alone."""
    bodies = {name: body for name, body in re.findall(r"^struct (fk_\w+) \{([^}]*)\};", text, re.M)}
    for kind, body, name in re.findall(r"\btypedef (struct|union) fk_\w+\s*(?:\{([^}]*)\})?\s*(fk_\w+);", text):
        yield kind, name, body or bodies.get(name, "")


def constants(text, macros):
    for body in re.findall(r"\benum \{([^}]*)\}", text):
        for name, value in re.findall(r"(FK_\w+) = (\d+)", body):
            yield name, int(value)
    for name, value in re.findall(r"^#define (FK_(?:ABI_M\w+|[A-Z]+\d\w*|BOOL)) (0x[0-9a-f]+|\d+)$", macros, re.M):
        yield name, int(value, 0)


def abi_text(header, edition=None):
    """The module `abi`: structs and constants that all ops share. Constants lose their FK_, structs keep their names."""
    text, op = preprocessed(header, edition), pathlib.Path(header).stem
    out = "// Made from the headers of the ABI; do not edit.\nuse std::os::raw::{c_char, c_void};\n"
    for name, value in constants(text, preprocessed(header, edition, macros=True)):
        if not name.startswith((f"FK_{op.upper()}_", "FK_OPS_")):
            out += f"pub const {name[3:]}: i32 = {value:#x};\n"
    for kind, name, body in structs(text):
        if name.startswith(f"fk_{op}_"):
            continue
        fields = "".join(f"    pub {name_of(field)}: {rust},\n" for field, rust in members(body))
        full = bool(fields)
        out += f"#[repr(C)]\n{'#[derive(Clone, Copy)]' + chr(10) if full else ''}pub {kind} {name} {{\n{fields or '    _private: [u8; 0],' + chr(10)}}}\n"
    for alias, name in re.findall(r"typedef (fk_\w+) (fk_\w+);", text):
        out += f"pub type {name} = {alias};\n"
    return out


def op_text(header, edition=None):
    """The module of an op: frames, axes, choices, the trait of its kernels."""
    text, op = preprocessed(header, edition), pathlib.Path(header).stem
    bodies = {name: body for _, name, body in structs(text)}
    out = f"//! Frames of `{op}`. Made from fk/ops/{op}.h; do not edit.\n#[allow(unused_imports)]\nuse crate::*;\n"
    for body in re.findall(r"\benum \{([^}]*)\}", text):
        for name, value in re.findall(rf"FK_{op.upper()}_(\w+) = (\d+)", body):
            out += f"pub const {name}: i64 = {value};\n"
    spelled = {}
    for section in SECTIONS:
        fields = []
        for line in filter(None, split(bodies.get(f"fk_{op}_{section}", ""), ";")):
            kind, name = re.fullmatch(r"(.*?)(\w+)", " ".join(line.split())).groups()
            fields.append((name, FIELDS[kind.strip()]))
        borrows = "<'a>" if any("'a" in rust for _, rust in fields) else ""
        spelled[section] = (section.capitalize(), borrows)
        out += f"#[repr(C)]\npub struct {section.capitalize()}{borrows} {{\n"
        out += "".join(f"    pub {name_of(name)}: {rust},\n" for name, rust in fields) + "}\n"
    axes = re.search(rf"fk_{op}_axes axes = \{{(.*?)\}};", text, re.S)
    if axes:
        letters = re.search(r"int64_t (.*?);", bodies[f"fk_{op}_axes"]).group(1).split(", ")
        values = [re.fullmatch(r"args->(\w+)->shape\[(\d+)\]", value).groups() for value in split(axes.group(1), ",")]
        out += "/// Axes that forward's required tensors show.\n#[allow(non_snake_case)]\n#[derive(Clone, Copy, Debug)]\npub struct Axes {\n"
        out += "".join(f"    pub {letter}: usize,\n" for letter in letters) + "}\n"
        life = "<'_>" if spelled["forward"][1] else ""
        out += f"impl Forward{life} {{\n    pub fn axes(&self) -> Axes {{\n        Axes {{ "
        out += ", ".join(f"{letter}: self.{name_of(name)}.size({at})" for letter, (name, at) in zip(letters, values)) + " }\n    }\n}\n"

    def any_life(section):
        name, borrows = spelled[section]
        return name + ("<'_>" if borrows else "")

    def instance_life(section):
        return "".join(spelled[section])

    out += f"""/// A kernel. `'a` lasts from create() to the drop of the kernel.
pub trait Kernel<'a>: Sized {{
    const CLAIMS: Claims = CPU_CLAIMS;
    /// Refuses a case, or says how much memory it needs. Sizes are maxima, and tensors have no data.
    fn supports(init: &{any_life("init")}, weights: &{any_life("weights")}, max: &{any_life("forward")}) -> Result<Need, Fault>;
    fn create(host: &'a Host, init: &'a {instance_life("init")}, weights: &'a {instance_life("weights")}) -> Result<Self, Fault>;
    /// The place to repack weights.
    fn prepare(&mut self, max: &{any_life("forward")}, memory: Memory<'a>) -> Done {{
        let _ = (max, memory);
        Ok(())
    }}
    fn forward(&mut self, args: &mut {any_life("forward")}, ctx: &mut Ctx<'_>) -> Done;
    /// After an aborted run: restores the state of the first call.
    fn reset(&mut self) -> Done {{
        Ok(())
    }}
}}
/// For `fk::op!({op}, KERNEL, plan)`: once a step, before forward(). Returns the number of bytes that it wrote to `blob`.
pub trait Planner {{
    fn plan(&mut self, step: &{any_life("plan")}, blob: &mut [u8]) -> Result<usize, Fault>;
}}
#[doc(hidden)]
pub mod entry {{
    use super::*;
    use std::os::raw::c_void;
    pub unsafe fn supports<'a, K: Kernel<'a>>(init: *const c_void, weights: *const c_void, max: *const c_void, need: *mut abi::fk_need, why: *mut abi::fk_error) -> i32 {{
        guard(why, || {{
            let asked = K::supports(&*(init as *const Init), &*(weights as *const Weights), &*(max as *const Forward))?;
            asked.write(&mut *need);
            Ok(())
        }})
    }}
    pub unsafe fn create<'a, K: Kernel<'a>>(host: *const Host, init: *const c_void, weights: *const c_void, made: *mut *mut c_void, error: *mut abi::fk_error) -> i32 {{
        guard(error, || {{
            *made = Box::into_raw(Box::new(K::create(&*host, &*(init as *const Init), &*(weights as *const Weights))?)) as *mut c_void;
            Ok(())
        }})
    }}
    pub unsafe fn prepare<'a, K: Kernel<'a>>(own: *mut c_void, max: *const c_void, memory: *const abi::fk_memory, error: *mut abi::fk_error) -> i32 {{
        guard(error, || (*(own as *mut K)).prepare(&*(max as *const Forward), Memory::of(&*memory)))
    }}
    pub unsafe fn plan<K: Planner>(own: *mut c_void, step: *const c_void, blob: *mut c_void, bytes: *mut i64, error: *mut abi::fk_error) -> i32 {{
        guard(error, || {{
            *bytes = (*(own as *mut K)).plan(&*(step as *const Plan), bytes_mut(blob, *bytes))? as i64;
            Ok(())
        }})
    }}
    pub unsafe fn forward<'a, K: Kernel<'a>>(own: *mut c_void, args: *const c_void, ctx: *const abi::fk_ctx) -> i32 {{
        guard((*ctx).error, || (*(own as *mut K)).forward(&mut *(args as *mut Forward), &mut Ctx::of(&*ctx)))
    }}
    pub unsafe fn destroy<'a, K: Kernel<'a>>(own: *mut c_void) {{
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(Box::from_raw(own as *mut K))));
    }}
    pub unsafe fn reset<'a, K: Kernel<'a>>(own: *mut c_void, error: *mut abi::fk_error) -> i32 {{
        guard(error, || (*(own as *mut K)).reset())
    }}
}}
"""
    return out


def crate_text(ops):
    """The root of the crate `fk`. `ops`: names of the modules beside it."""
    here = pathlib.Path(__file__).resolve().parent / "fk"
    out = "#![allow(non_camel_case_types, clippy::all)]\npub mod abi;\n"
    for part in ("views", "plugin", "floats"):
        out += f'#[path = "{here / (part + ".rs")}"]\nmod {part};\npub use {part}::*;\n'
    return out + "".join(f"pub mod {op};\n" for op in ops)
