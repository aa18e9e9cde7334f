# SPDX-License-Identifier: Apache-2.0
"""What tests of candidates in Triton share: FK_HOST and SOURCE_DIR from the command line, and a toolkit whose CUDA runtime notes calls.

Exit code 77 where the Python that PYTHON names has no Triton: nothing was tested.
"""
import atexit, os, pathlib, shutil, subprocess, sys, tempfile

host, source = sys.argv[1], pathlib.Path(sys.argv[2])
python = os.environ.get("PYTHON", sys.executable)
if subprocess.run([python, "-c", "import triton"], capture_output=True).returncode:
    print(f"skipped: {python} has no Triton; PYTHON names another Python")
    sys.exit(77)
work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
toolkit = work / "cuda"
shutil.copytree(source / "test/triton/toolkit/include", toolkit / "include")
(toolkit / "lib64").mkdir()
runtime = toolkit / "lib64/libcudart.so"
subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-I", toolkit / "include", source / "test/triton/toolkit/cudart.c",
                "-o", runtime, "-Wl,-soname,libcudart.so.13"], check=True)
env = dict(os.environ, PYTHON=python, CUDA_HOME=str(toolkit), FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"))
env.pop("FK_CUDA_ARCH", None)


def run(*words, code=0, **more):
    """What a verb says; its exit code has to be `code`."""
    done = subprocess.run([host, *map(str, words)], env=dict(env, **more), capture_output=True, text=True)
    assert done.returncode == code, f"{words}: exit code {done.returncode}, expected {code}\n{done.stdout[-1500:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def candidate(name, op, text):
    folder = work / "candidates" / name
    folder.mkdir(parents=True)
    (folder / f"{op}.py").write_text(text)
    return folder
