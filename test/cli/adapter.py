#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""adapter.py FK_HOST SOURCE_DIR: the ctypes half of the torch adapter on plain memory: a plugin that was scaffolded and
built by the program is called, refuses, and is called again with fewer tokens."""
import array, ctypes, math, os, pathlib, random, subprocess, sys, tempfile

host, source = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(source / "plugin_api/adapters/torch"))
import fk_plugin
from fk_plugin import Plugin, Refused, Failed, View

work = tempfile.TemporaryDirectory()
env = dict(os.environ, FK_CANDIDATES=work.name, FK_CACHE=work.name + "/cache")


def plugin_of(op):
    for words in (["new", op, "--name", "made_" + op], ["build", "made_" + op]):
        subprocess.run([host, *words], env=env, check=True, stdout=subprocess.DEVNULL)
    return Plugin(f"{work.name}/made_{op}/made_{op}.so")


def tensor(values, *shape):
    memory = array.array("f", values)
    return View(memory.buffer_info()[0], shape, "f32", keep=memory)


def raises(kind, text, call):
    try:
        call()
    except kind as e:
        assert text in str(e), str(e)
        return
    raise AssertionError(f"{kind.__name__} expected")


random.seed(1)
T, C = 5, 33
plugin = plugin_of("rms_norm")
op = plugin["rms_norm"]
assert (plugin.name, op.name, op.claims.device_type) == ("made_rms_norm", "rms_norm", fk_plugin.CPU)
assert [s.name for s in op.init] == ["hidden_size", "eps"] and op.forward[1].optional
data = [random.gauss(0, 1) for _ in range(T * C)]
gain = [random.gauss(1, 0.1) for _ in range(C)]
x, weight, out = tensor(data, T, C), tensor(gain, C), tensor([math.nan] * (T * C), T, C)


def expected(rows):
    return [v / math.sqrt(sum(w * w for w in rows[i:i + C]) / C + 1e-6) * g
            for i in range(0, len(rows), C) for v, g in zip(rows[i:i + C], gain)]


with op.create({"hidden_size": C}, {"weight": weight}, {"x": x, "out": out}) as norm:
    norm.forward({"x": x, "out": out})
    worst = max(abs(a - b) for a, b in zip(out.keep, expected(data)))
    assert worst < 1e-5, worst
    few, small = tensor(data[:2 * C], 2, C), tensor([0] * (2 * C), 2, C)
    norm.forward({"x": few, "out": small})
    assert max(abs(a - b) for a, b in zip(small.keep, expected(data[:2 * C]))) < 1e-5
    raises(Failed, "no such field: y", lambda: norm.forward({"x": x, "out": out, "y": x}))
    raises(Failed, "out: it is required", lambda: norm.forward({"x": x}))
integers = View(0, (T, C), "i32")
raises(Refused, "f32, bf16 and f16 only", lambda: op.create({"hidden_size": C}, {}, {"x": integers, "out": integers}))
raises(Failed, "has no op", lambda: plugin["linear"])

# An op that asks the host for children is refused with a sentence.
mlp = plugin_of("gated_mlp")["gated_mlp"]
wide, down = tensor([0.1] * (2 * 4 * 3), 8, 3), tensor([0.1] * 12, 3, 4)
x, out = tensor([1] * 6, 2, 3), tensor([0] * 6, 2, 3)
raises(Failed, "lends no children", lambda: mlp.create({"hidden_size": 3, "intermediate_size": 4},
                                                      {"gate_up": wide, "down": down}, {"x": x, "out": out}))
# What plan() is given lives for the whole call: a plugin that reads it late finds the values.
scheduling = plugin_of("paged_attention")["paged_attention"]
assert [s.name for s in scheduling.plan] == ["cu_seqlens", "seq_lens"]
seen, more = [], []


def plan(self, frame, blob, size, error):
    more.extend(fk_plugin.CView() for _ in range(4096))  # takes what has been given back
    for slot in ctypes.cast(frame, ctypes.POINTER(ctypes.c_void_p))[0:2]:
        view = ctypes.cast(slot, ctypes.POINTER(fk_plugin.CView)).contents
        seen.append((view.ndim, list(view.shape[0:view.ndim]) if view.ndim == 1 else None))
    return fk_plugin.OK


numbers = array.array("i", [0, 1, 2])
views = {"cu_seqlens": View(numbers.buffer_info()[0], (3,), "i32"), "seq_lens": View(numbers.buffer_info()[0], (2,), "i32")}
instance = object.__new__(fk_plugin.Instance)
instance.op, instance.self, instance.error = scheduling, None, fk_plugin.Error()
instance.need, instance.memory = fk_plugin.Need(), {}
instance.table = type("Table", (), {"plan": staticmethod(lambda me, frame, blob, size, error: plan(me, frame, blob, size, error))})
raises(Failed, "plan() comes before forward()", lambda: (setattr(instance, "planned", None), instance.forward({})))
instance.plan(views)
assert seen == [(1, [3]), (1, [2])], seen
print("the adapter: all passed")
