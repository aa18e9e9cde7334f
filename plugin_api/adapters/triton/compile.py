# SPDX-License-Identifier: Apache-2.0
"""Kernels to cubins, without a GPU, by all processors."""
import dataclasses
import os
import pathlib
import pickle
import re
import traceback

from contract import Problem

TRIED = ("3.6", "3.9")  # Triton's versions that this adapter was tried with
SHARED = {80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99}  # KiB of shared memory in a block
IN_PTX = {"i32": "u32", "i64": "u64", "fp32": "f32", "fp64": "f64"}


@dataclasses.dataclass(frozen=True)
class Job:
    """What one cubin is made from."""
    launch: int
    signature: tuple  # (parameter, Triton's type) in order
    constants: tuple  # (parameter, value)
    aligned: tuple  # parameters
    options: tuple  # (option, value)
    sm: int  # 90
    line: int = dataclasses.field(compare=False, default=0)  # of the variant


@dataclasses.dataclass
class Made:
    cubin: bytes
    name: str
    target: str  # sm_90a
    shared: int
    num_warps: int
    num_ctas: int
    cooperative: bool
    dependent: bool  # may begin before the kernel ahead has ended
    global_scratch: int  # bytes per block


def warning():
    """A sentence where this Triton is older or newer than those that were tried; empty otherwise."""
    import triton
    version = ".".join(triton.__version__.split(".")[:2])
    if version in TRIED:
        return ""
    number = lambda text: [int(part) for part in re.findall(r"\d+", text)]
    kind = "older" if number(version) < number(TRIED[0]) else "newer" if number(version) > number(TRIED[-1]) else "between"
    compared = f"{kind} than" if kind != "between" else "between"
    return f"Triton {triton.__version__} is {compared} the versions that were tried ({' and '.join(TRIED)})"


def jobs_of(source, sms):
    """For each entry of DTYPES, each variant and each launch, one job per compute capability."""
    out = {}
    for c, v in source.pairs():
        dtypes, variant = source.combinations[c], source.variants[v]
        for at, launch in enumerate(source.launches):
            signature = source.signature(launch, dtypes)
            constants = {name: variant.constexprs.get(name, launch.defaults.get(name)) for name in launch.constexprs}
            constants |= {name: None for name, kind in signature.items() if kind == "constexpr" and name not in launch.constexprs}
            aligned = [name for name in source.aligned(launch, variant, dtypes) if signature[name] != "constexpr"]
            for sm in sms:
                out[c, v, at, sm] = Job(at, tuple(signature.items()), tuple(constants.items()), tuple(aligned),
                                        tuple(sorted((variant.options | launch.options).items())), sm, variant.line)
    return out


def compile_all(source, jobs, folder):
    """Made by job. Works in as many processes as there are processors; `folder` takes their results."""
    todo = list(dict.fromkeys(jobs))
    workers = max(1, min(len(os.sched_getaffinity(0)), len(todo)))
    children = []
    for worker in range(workers):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                mine = {at: _attempt(source, todo[at]) for at in range(worker, len(todo), workers)}
                (pathlib.Path(folder) / f"made{worker}").write_bytes(pickle.dumps(mine))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        children.append(child)
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(ended):
        raise Problem(f"a process that ran Triton ended with code {next(code for code in ended if code)}")
    results = {}
    for worker in range(workers):
        results |= pickle.loads((pathlib.Path(folder) / f"made{worker}").read_bytes())
    for at in range(len(todo)):  # the first mistake in the order of the tables
        if isinstance(results[at], tuple):
            text, line, file = results[at]
            raise Problem(text, line, file)
    return {job: results[at] for at, job in enumerate(todo)}


def _attempt(source, job):
    try:
        return _compile(source, job)
    except Problem as problem:
        return str(problem), problem.line, problem.file and str(problem.file)


def _compile(source, job):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, CompilationError
    launch = source.launches[job.launch]
    attrs = {(launch.parameters.index(name),): [["tt.divisibility", 16]] for name in job.aligned}
    made = ASTSource(launch.fn, dict(job.signature), dict(job.constants), attrs)
    where = f"kernel `{launch.fn.__name__}` with {_shown(job)}"
    try:
        compiled = triton.compile(made, target=GPUTarget("cuda", job.sm, 32), options=dict(job.options))
    except CompilationError as error:
        raise _located(error, launch, where) from None
    except Exception as error:  # the assembler's and LLVM's
        text = " ".join(str(error).split())
        raise Problem(f"{where}: {type(error).__name__}: {text[:400]}", job.line) from None
    meta = compiled.metadata
    room = SHARED.get(job.sm)
    if room and meta.shared > room * 1024:
        raise Problem(f"{where} needs {meta.shared / 1024:.0f} KiB of shared memory, and a block of sm_{job.sm} has {room} KiB: "
                      "use smaller blocks or fewer num_stages", job.line)
    if meta.profile_scratch_size:
        raise Problem(f"{where} asks for memory of a profiler; set no profiling of Triton", job.line)
    ptx = compiled.asm["ptx"]
    _check_arguments(ptx, meta.name, job)
    return Made(compiled.asm["cubin"], meta.name, re.search(r"^\.target\s+(\w+)", ptx, re.M).group(1), meta.shared, meta.num_warps,
                meta.num_ctas, bool(getattr(meta, "launch_cooperative_grid", False)), bool(getattr(meta, "launch_pdl", False)),
                -(-meta.global_scratch_size // meta.global_scratch_align) * meta.global_scratch_align)


def _check_arguments(ptx, name, job):
    """The launcher passes the arguments in order without constexprs, then two pointers to scratch."""
    entry = re.search(r"\.entry\s+" + re.escape(name) + r"\s*\((.*?)\)", ptx, re.S)
    found = re.findall(r"\.param\s+\.(\w+)", entry.group(1)) if entry else []
    kinds = [kind for _, kind in job.signature if kind != "constexpr"]
    expected = ["u64" if kind[0] == "*" else IN_PTX[kind] for kind in kinds] + ["u64", "u64"]
    if [kind.replace("b", "u") for kind in found] != expected:
        raise Problem(f"{warning() or 'Triton'}: the kernel's arguments are {found}, and the launcher would pass {expected}")


def _shown(job):
    values = [f"{name}={value}" for name, value in (*job.constants, *job.options)]
    return ", ".join(values + [f"sm_{job.sm}"])


def _located(error, launch, where):
    """The innermost of Triton's errors, with its line in the author's file."""
    from triton.compiler import CompilationError
    while isinstance(error.__cause__, CompilationError) and hasattr(error.__cause__.node, "lineno"):
        error = error.__cause__
    cause = error.__cause__
    text = error.error_message or (f"{type(cause).__name__}: {cause}" if cause else "Triton does not compile this")
    for fn in _functions(launch.fn):
        if fn.src == error.src and hasattr(error.node, "lineno"):
            return Problem(f"{' '.join(text.split())} ({where})", _first_line(fn) + error.node.lineno - 1,
                           pathlib.Path(fn.fn.__code__.co_filename))
    return Problem(f"{' '.join(text.split())} ({where})", launch.line)


def _functions(fn):
    """The kernel, and functions with @triton.jit that its file can see."""
    from triton.runtime.jit import JITFunction
    seen = fn.fn.__globals__.values()
    return [fn] + [other for other in seen if isinstance(other, JITFunction) and other is not fn]


def _first_line(fn):
    """The line of `def`, behind the decorators."""
    first = fn.starting_line_number
    return first + next((at for at, line in enumerate(fn.raw_src) if line.strip().startswith("def ")), 0)
