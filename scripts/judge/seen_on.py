# SPDX-License-Identifier: Apache-2.0
"""What a file of results says of itself: which command, where, with what, when."""
import datetime, os, pathlib, shutil, subprocess, sys

root = pathlib.Path(__file__).resolve().parents[2]


def seen_on(device, file=None):
    """Of the script that runs: command (the name of `file`, which it writes, is FILE in it), device as it was told, driver (empty without an
    NVIDIA GPU or on the CPU), commit (FK_COMMIT where there is no .git) and date."""
    said = lambda *words: subprocess.run(words, cwd=root, capture_output=True, text=True).stdout.strip() if shutil.which(words[0]) else ""
    script = os.path.relpath(os.path.abspath(sys.argv[0]), root)
    words = ["FILE" if file and pathlib.Path(word) == pathlib.Path(file) else word for word in sys.argv[1:]]
    driver = "" if device.startswith("cpu") else said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0]
    return {"command": " ".join([script, *words]), "device": device, "driver": driver,
            "commit": os.environ.get("FK_COMMIT") or said("git", "rev-parse", "--short", "HEAD"), "date": str(datetime.date.today())}
