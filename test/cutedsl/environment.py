# SPDX-License-Identifier: Apache-2.0
"""What tests of candidates in CuTe DSL share. Exit code 77 without the package or the toolkit: nothing was tested."""
import atexit, os, pathlib, shutil, subprocess, sys, tempfile

host, source = sys.argv[1], pathlib.Path(sys.argv[2])
python, toolkit = os.environ.get("PYTHON", sys.executable), pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
if subprocess.run([python, "-c", "import cutlass.cute"], capture_output=True).returncode:
    print(f"skipped: {python} has no CuTe DSL; PYTHON names another Python")
    sys.exit(77)
if not (toolkit / "include/cuda_runtime_api.h").is_file():
    print(f"skipped: there is no CUDA toolkit in {toolkit}; CUDA_HOME names another one")
    sys.exit(77)
work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
env = dict(os.environ, PYTHON=python, FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"))
env.pop("FK_CUDA_ARCH", None)


def run(*words, code=0, **more):
    """What a verb says; its exit code has to be `code`."""
    done = subprocess.run([host, *map(str, words)], env=dict(env, **more), capture_output=True, text=True)
    assert done.returncode == code, f"{words}: exit code {done.returncode}, expected {code}\n{done.stdout[-1500:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr
