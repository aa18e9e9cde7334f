#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""machine_code.py OUT [--build BUILD] [--before BEFORE] [FILE...] | machine_code.py --compare BEFORE AFTER: did a change of CUDA sources
change their machine code?

The first form compiles .cu files (without FILE: all of the providers below) to OUT/<path>.ptx and OUT/<path>.cubin, with the flags of
the build. It compiles one file at a time and needs nvcc and the headers of BUILD/gen, but no GPU. With --before, the cubin of a file whose
PTX did not change is copied. The second form compares two such folders. A kernel is equal if these are equal: its instructions, relocations, constants, registers, shared memory and launch attributes.
Names do not count: a kernel with another name is equal to a kernel before with the same content. Kernels which are not equal may still have
the same size, the same registers and as many instructions of each opcode, in another order or with other operands. Exit code 1: some kernel
is not equal."""
import argparse, collections, hashlib, os, pathlib, re, shutil, struct, subprocess, sys, time
from typing import NamedTuple

root = pathlib.Path(__file__).resolve().parents[2]
providers = ("baselines/cuda", "baselines/cuda_reference", "baselines/nccl")
nobits = 8  # the type of a section without content
registers = 0x2f  # the attribute of their number
constant_bank = 0x0a  # the attribute of parameters, which begins with a symbol


class Kernel(NamedTuple):
    hash: str  # of all its content
    name: str
    bytes: int  # of instructions
    opcodes: collections.Counter
    registers: int


def options(provider):
    """What provider.cmake gives nvcc beyond the flags of every plugin."""
    found = re.search(r"COMPILE_LANGUAGE:CUDA>:(--[^>]*)>", (root / provider / "provider.cmake").read_text())
    return found[1].split(";") if found else []


def compile_one(nvcc, source, to, build, before):
    """The PTX and the cubin of a file. Where the PTX is that of `before`, its cubin serves as well: ptxas takes most of the time."""
    to.parent.mkdir(parents=True, exist_ok=True)
    provider, ptx = "/".join(source.relative_to(root).parts[:2]), to.with_suffix(".ptx")
    subprocess.run([nvcc, "-ptx", "-arch=sm_90a", "-std=c++17", "-O3", "-DNDEBUG", "-diag-suppress=177,20050", *options(provider),
                    f"-I{root / 'plugin_api'}", f"-I{build / 'gen'}", "-DFK_BUILD_SM=\"90a\"", "-o", ptx, source], check=True)
    other = before and counterpart(to, to.parents[len(source.relative_to(root).parts) - 1], before)
    if other and functions_of(ptx) == functions_of(other.with_suffix(".ptx")):
        shutil.copyfile(other, to)
        return "the same PTX"
    subprocess.run([pathlib.Path(nvcc).with_name("ptxas"), "-arch", "sm_90a", "-m64", ptx, "-o", to], check=True)
    return "compiled"


def functions_of(ptx):
    """The functions of a PTX file, sorted, with numbers in place of names and labels."""
    known, found = {}, []
    for part in re.split(r"^(?=\.(?:visible|weak|func|entry|global|shared)\b)", ptx.read_text(), flags=re.M):
        part = re.sub(r"^\s*//.*\n", "", part, flags=re.M).strip()
        known.clear()
        found.append(re.sub(r"\b_Z\w+|\$L__BB\w+|__nv_static_\w+|_ZZ?\w+", lambda m: known.setdefault(m[0], f"name{len(known)}"), part))
    return sorted(found)


def sections(cubin):
    """Name, type, info, size and content of each section of an ELF file of 64 bits."""
    data = cubin.read_bytes()
    at, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, at + i * size) for i in range(count)]
    content = [data[h[4]:h[4] + h[5]] if h[1] != nobits else b"" for h in heads]
    for head, body in zip(heads, content):
        name = content[names][head[0]:].split(b"\0", 1)[0].decode()
        yield name, head[1], head[7], head[5], body


def attributes(parts):
    """Of each function what .nv.info says of it, by number of the attribute: registers, frame and stack among others."""
    symbols, text, info = (next((body for name, *_, body in parts if name == wanted), b"") for wanted in (".symtab", ".strtab", ".nv.info"))
    names = [text[struct.unpack_from("<I", symbols, i)[0]:].split(b"\0", 1)[0].decode() for i in range(0, len(symbols), 24)]
    found, at = collections.defaultdict(dict), 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form != 4:  # the value is in the head
            continue
        if size == 8:
            symbol, value = struct.unpack_from("<II", info, at)
            found[names[symbol]][attribute] = value
        at += size
    return found


def launch_attributes(info):
    """A section .nv.info of a function without the index of a symbol, which other names may change."""
    parts, at = [], 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        value = info[at + 4:at + 4 + size] if form == 4 else b""
        parts.append((form, attribute, size, value[4:] if attribute == constant_bank else value))
        at += 4 + len(value)
    return repr(parts).encode()


def kernels(cubin):
    """For each function a hash of all its sections and attributes, its bytes of instructions, and its registers."""
    everything = list(sections(cubin))
    parts, code, known = collections.defaultdict(list), {}, attributes(everything)
    for name, kind, info, size, body in everything:
        found = re.match(r"(\.text|\.rela?\.text|\.nv\.constant\d|\.nv\.shared|\.nv\.info|\.nv\.local)\.(\w+)$", name)
        if not found:
            continue
        part, function = found[1], found[2]
        if "rel" in part:  # offset and type of each; an index of a symbol may change with its name
            step = 24 if part.startswith(".rela") else 16
            body = b"".join(body[i:i + 8] + body[i + 8:i + 12] + body[i + 16:i + step] for i in range(0, len(body), step))
        elif part == ".nv.info":
            body = launch_attributes(body)
        parts[function].append((part, size, hashlib.sha256(body).hexdigest()))
        if part == ".text":
            # An instruction has 16 bytes, and its opcode in the lowest 12 bits.
            code[function] = size, collections.Counter(int.from_bytes(body[i:i + 2], "little") & 0xfff for i in range(0, len(body), 16))
    return {name: Kernel(hashlib.sha256(repr((sorted(parts[name]), sorted(known[name].items()))).encode()).hexdigest(), plain(name), *code[name],
                         known[name].get(registers, 0)) for name in code}


def plain(name):
    """Without the hashes of a file's path, which unnamed namespaces have in their names."""
    return re.sub(r"_GLOBAL__N__[0-9a-f]+_\d+_\w+?_cu_[0-9a-f]+(_\d+)?", "_GLOBAL__N_", name)


def difference(before, after, key):
    """Kernels of `before` without a partner of the same key in `after`, and the reverse."""
    left = collections.defaultdict(list)
    for one in before:
        left[key(one)].append(one)
    new = [one for one in after if not left[key(one)] or not left[key(one)].pop()]
    return [one for several in left.values() for one in several], new


def counterpart(cubin, after, before):
    """The same file in `before`, where it may have been in another folder of its provider."""
    name = cubin.relative_to(after)
    if (before / name).exists():
        return before / name
    return next((before / name.parts[0] / name.parts[1]).rglob(name.name), None)


def compare(before, after):
    differs, unlike = False, []
    for path in sorted(after.rglob("*.cubin")):
        name = path.relative_to(after)
        other = counterpart(path, after, before)
        sides = kernels(other).values() if other else (), kernels(path).values()
        gone, new = difference(*sides, lambda one: one.hash)
        differs |= bool(gone or new)
        others = difference(gone, new, lambda one: (one.bytes, one.registers, repr(sorted(one.opcodes.items()))))
        unlike.append((name, *others))
        print(f"{name.with_suffix('')}: {len(sides[1])} kernels, {len(sides[1]) - len(new)} equal, {len(new) - len(others[1])} with the same opcodes"
              + (f", {len(others[0])} others of before are gone" if others[0] else ""))
    for name, gone, new in unlike:
        for sign, side in ("-", gone), ("+", new):
            for one in sorted(side, key=lambda one: one.name):
                print(f"  {name.with_suffix('')} {sign} {one.name} ({one.bytes} bytes, {one.registers} registers)")
    print("differs" if differs else "equal")
    return int(differs)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--compare", nargs=2, type=pathlib.Path, metavar=("BEFORE", "AFTER"))
    words.add_argument("--build", type=pathlib.Path, default=root / "build")
    words.add_argument("--before", type=pathlib.Path)
    words.add_argument("out", nargs="?", type=pathlib.Path)
    words.add_argument("files", nargs="*", type=pathlib.Path)
    asked = words.parse_intermixed_args()
    if asked.compare:
        for folder in asked.compare:
            if not any(folder.rglob("*.cubin")):
                sys.exit(f"machine_code.py: no .cubin below {folder}: run `machine_code.py {folder}` first")
        return compare(*asked.compare)
    if not asked.out:
        words.error("OUT is missing: a folder for the compiled files")
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.access(nvcc, os.X_OK):
        sys.exit("machine_code.py: no nvcc in PATH or /usr/local/cuda/bin: install the CUDA toolkit, version 12.8 or newer")
    if not any(asked.build.glob("gen/fk/ops/*.h")):
        sys.exit(f"machine_code.py: no headers in {asked.build}/gen/fk/ops: `ninja -C {asked.build} fk_headers` makes them")
    files = [f.resolve() for f in asked.files] or sorted(f for p in providers for f in (root / p).rglob("*.cu"))
    for file in files:
        name = file.relative_to(root)
        start = time.monotonic()
        done = compile_one(nvcc, file, asked.out / f"{name}.cubin", asked.build.resolve(), asked.before)
        print(f"{name}: {done}, {time.monotonic() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
