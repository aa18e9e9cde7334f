# SPDX-License-Identifier: Apache-2.0
"""The results in docs/results, which scripts draw tables and plots from."""
import pathlib

root = pathlib.Path(__file__).resolve().parents[2]
GPUS = "h[12]00"  # in names of files, behind the date


def of_each_gpu(what):
    """The newest docs/results/<date>-<gpu>-<what>.json of every GPU."""
    return sorted({p.name[10:]: p for p in sorted((root / "docs/results").glob(f"*-{GPUS}-{what}.json"))}.values())
