# SPDX-License-Identifier: Apache-2.0
"""Names of kernels as people read them, for scripts that say where time goes."""
import re


def plain(name):
    """Of a mangled name the function's own; else as it is."""
    if not name.startswith("_ZN"):
        return name
    at, parts = 3, []
    while at < len(name) and name[at].isdigit():
        length = int(re.match(r"\d+", name[at:])[0])
        at += len(str(length))
        parts.append(name[at:at + length])
        at += length
    return parts[-1]
