# SPDX-License-Identifier: Apache-2.0
"""What tests of candidates in Rust share: FK_HOST and SOURCE_DIR from the command line. Exit code 77 without rustc: nothing was tested."""
import atexit, os, pathlib, shutil, subprocess, sys, tempfile

host, source = sys.argv[1], pathlib.Path(sys.argv[2])
rustc = os.environ.get("RUSTC", "rustc")
if not shutil.which(rustc):
    print(f"skipped: `{rustc}` is not on the PATH; RUSTC names another one")
    sys.exit(77)
work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
env = dict(os.environ, FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"))


def run(*words, code=0, **more):
    """What a verb says; its exit code has to be `code`."""
    done = subprocess.run([host, *map(str, words)], env=dict(env, **more), capture_output=True, text=True)
    assert done.returncode == code, f"{words}: exit code {done.returncode}, expected {code}\n{done.stdout[-1500:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def candidate(name, op, text):
    folder = work / "candidates" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{op}.rs").write_text(text)
    return folder


def header(op):
    file = work / "headers/fk/ops" / f"{op}.h"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(subprocess.run([host, "show", op, "--header"], capture_output=True, text=True, check=True).stdout)
    return file
