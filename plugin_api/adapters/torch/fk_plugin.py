# SPDX-License-Identifier: Apache-2.0
"""Calls the ops of a plugin through ctypes: nothing but Python, and no file of the op is needed, because a plugin
carries the text of its slots. Memory is described by View and belongs to the caller. fk_torch.py puts a
torch.nn.Module on top.

    op = Plugin("mine.so")["rms_norm"]
    with op.create({"hidden_size": 64}, {}, {"x": x, "out": out}) as norm:   # views at their largest
        norm.forward({"x": x, "out": out})
"""
import ctypes as c
import struct
import warnings

DTYPES = {"f64": (2, 64), "f32": (2, 32), "f16": (2, 16), "bf16": (4, 16), "f8e4m3": (10, 8), "f8e5m2": (12, 8),
          "i64": (0, 64), "i32": (0, 32), "i8": (0, 8), "u8": (1, 8), "bool": (6, 8)}
CPU, CUDA = 1, 2
MAJOR, OLDEST_MAJOR = 1, 0  # of the ABI: the present one, and the oldest that is still called
OK, UNSUPPORTED, INVALID, FAILED = range(4)


class Refused(Exception):
    """The plugin does not take this case; the text is its reason."""


class Failed(Exception):
    """An op returned an error; the text is the plugin's."""


def fields(name, *members):
    return type(name, (c.Structure,), {"_fields_": list(members)})


P, I, L = c.c_void_p, c.c_int32, c.c_int64
Error = fields("Error", ("struct_size", c.c_uint32), ("code", I), ("native", I), ("line", I), ("text", c.c_char * 240))
Hello = fields("Hello", ("struct_size", c.c_uint32), ("minor", c.c_uint32), ("name", c.c_char_p),
               ("version", c.c_char_p), ("error", c.POINTER(Error)))
Section = fields("Section", ("slots", c.c_uint32), ("required", c.c_uint32), ("prefix", P),
                 ("lines", c.POINTER(c.c_char_p)))
Contract = fields("Contract", ("struct_size", c.c_uint32), ("revision", c.c_uint32), ("op", c.c_char_p),
                  ("init", Section), ("weights", Section), ("forward", Section), ("plan", Section))
Claims = fields("Claims", ("struct_size", c.c_uint32), ("device_type", I), ("graph", I), ("deterministic", I),
                ("batch_invariant", I), ("accumulate", I), ("side_streams", I), ("sm_count", I), ("sm", c.POINTER(I)))
Need = fields("Need", ("struct_size", c.c_uint32), ("reserved", c.c_uint32), ("scratch", L), ("packed", L),
              ("persistent", L), ("plan", L))
Memory = fields("Memory", ("struct_size", c.c_uint32), ("packed_ready", I), ("packed", P), ("packed_bytes", L),
                ("persistent", P), ("persistent_bytes", L), ("stream", P))
Context = fields("Context", ("struct_size", c.c_uint32), ("device_id", I), ("stream", P), ("scratch", P),
                 ("scratch_bytes", L), ("plan", P), ("plan_bytes", L), ("error", c.POINTER(Error)))
ERROR = c.POINTER(Error)
LOG = c.CFUNCTYPE(None, P, I, c.c_char_p)
CHILD = c.CFUNCTYPE(I, P, P, P, P, P, P, ERROR)
Host = fields("Host", ("struct_size", c.c_uint32), ("minor", c.c_uint32), ("self", P), ("device_type", I),
              ("device_id", I), ("cpu_threads", I), ("reserved", I), ("log", LOG), ("child", CHILD),
              ("child_plan", P), ("child_forward", P))
Table = fields(
    "Table", ("struct_size", c.c_uint32), ("reserved", c.c_uint32), ("contract", c.POINTER(Contract)),
    ("claims", c.POINTER(Claims)), ("supports", c.CFUNCTYPE(I, P, P, P, c.POINTER(Need), ERROR)),
    ("create", c.CFUNCTYPE(I, c.POINTER(Host), P, P, c.POINTER(P), ERROR)),
    ("prepare", c.CFUNCTYPE(I, P, P, c.POINTER(Memory), ERROR)), ("plan", c.CFUNCTYPE(I, P, P, P, c.POINTER(L), ERROR)),
    ("forward", c.CFUNCTYPE(I, P, P, c.POINTER(Context))), ("destroy", c.CFUNCTYPE(None, P)), ("reset", P))
PluginTable = fields("PluginTable", ("struct_size", c.c_uint32), ("minor", c.c_uint32), ("name", c.c_char_p),
                     ("version", c.c_char_p), ("ops", c.POINTER(c.POINTER(Table))), ("end", P))
CView = fields("CView", ("data", P), ("device_type", I), ("device_id", I), ("ndim", I), ("code", c.c_uint8),
               ("bits", c.c_uint8), ("lanes", c.c_uint16), ("shape", c.POINTER(L)), ("strides", c.POINTER(L)),
               ("byte_offset", c.c_uint64), ("nbytes", L), ("flags", c.c_uint64))
CList = fields("CList", ("n", L), ("at", P))  # of views, and of integers


class View:
    """A tensor: address (0 for none), shape, strides in elements (None: dense), a dtype of DTYPES, where it lies."""

    def __init__(self, data, shape, dtype, strides=None, device_type=CPU, device_id=0, keep=None):
        self.data, self.shape, self.dtype, self.keep = data, tuple(shape), dtype, keep
        if strides is None:
            strides, step = [], 1
            for extent in reversed(self.shape):
                strides.insert(0, step)
                step *= extent
        self.strides, self.device_type, self.device_id = tuple(strides), device_type, device_id

    def meta(self):
        """The same without memory, as supports() and prepare() see it."""
        return View(0, self.shape, self.dtype, self.strides, self.device_type, self.device_id)

    def struct(self):
        code, bits = DTYPES[self.dtype]
        n = len(self.shape)
        reach = 0 if 0 in self.shape else 1 + sum((e - 1) * s for e, s in zip(self.shape, self.strides))
        return CView(self.data or None, self.device_type, self.device_id, n, code, bits, 1, (L * n)(*self.shape),
                     (L * n)(*self.strides), 0, reach * bits // 8, 0)


class Slot:
    """One field, from its line: "forward.x tensor in shape=[T,C] opt | dtype=f32,bf16"."""

    def __init__(self, line):
        words = line.split()
        self.name, self.kind = words[0].split(".", 1)[1], words[1]
        self.role = words[2] if self.kind == "tensor" else ""
        pairs = dict(word.split("=", 1) for word in words if "=" in word)
        self.optional, self.list = "opt" in words, "list" in pairs
        self.axis, self.dtype = pairs.get("axis"), pairs.get("dtype", "").split(",")
        self.shape = split_shape(pairs.get("shape", "[]")[1:-1])
        self.choices, self.default = pairs.get("enum", "").split(","), pairs.get("default", "0")


def split_shape(text):
    """Splits at the commas that are outside parentheses: "B,cdiv(T,Z)"."""
    parts, depth = [""], 0
    for ch in text:
        depth += (ch == "(") - (ch == ")")
        if ch == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += ch
    return [p for p in parts if p]


class Frame:
    """The slots of one section, and what they point to."""

    def __init__(self, slots, values):
        unknown = set(values) - {s.name for s in slots}
        if unknown:
            raise Failed(f"no such field: {', '.join(sorted(unknown))}; there are {', '.join(s.name for s in slots)}")
        self.keep = [values]  # and with the views what they keep
        raw = b"".join(self.slot(s, values.get(s.name)) for s in slots)
        self.array = (c.c_uint64 * max(1, len(slots))).from_buffer_copy(raw or bytes(8))
        self.pointer = c.cast(self.array, P)

    def hold(self, thing):
        self.keep.append(thing)
        return c.addressof(thing)

    def slot(self, s, value):
        if s.kind == "comm":
            raise Failed(f"{s.name}: communicators are not lent here")
        if value is None and not s.optional:
            raise Failed(f"{s.name}: it is required")
        if s.kind == "float":
            return struct.pack("d", float(s.default if value is None else value))
        if s.kind in ("int", "bool", "enum", "dtype"):
            if isinstance(value, str):
                value = s.choices.index(value)
            return struct.pack("q", int(float(s.default)) if value is None else int(value))
        if s.list or s.kind == "ints":
            items = value or []
            items = items if s.kind == "ints" else [self.hold(v.struct()) for v in items]
            at = ((L if s.kind == "ints" else P) * len(items))(*items)
            return struct.pack("Q", self.hold(CList(len(items), self.hold(at))))
        return struct.pack("Q", 0 if value is None else self.hold(value.struct()))


def meta(values):
    """The same fields without memory."""
    bare = lambda x: x.meta() if isinstance(x, View) else [bare(v) for v in x] if isinstance(x, list) else x
    return {name: bare(value) for name, value in values.items()}


def allocate(nbytes):
    """Host memory at a multiple of 256: its address and what keeps it alive."""
    memory = c.create_string_buffer(nbytes + 256)
    return -(-c.addressof(memory) // 256) * 256, memory


def copy(memory, content):
    c.memmove(memory[0], content, len(content))


class Instance:
    """create and prepare done. `allocate` makes zeroed memory on the op's device, `copy` puts bytes into it. prepare
    enqueues on `stream`, and its caller waits for it."""

    def __init__(self, op, init, weights, largest, threads=1, allocate=allocate, copy=copy, device_id=0, stream=None):
        self.op, self.table, self.self = op, op.table, P()
        self.error = Error(struct_size=Error.text.offset + 240)
        self.init, self.weights = Frame(op.init, init), Frame(op.weights, weights)
        top, bare = Frame(op.forward, meta(largest)), Frame(op.weights, meta(weights))
        self.need = Need(struct_size=c.sizeof(Need))
        status = self.table.supports(self.init.pointer, bare.pointer, top.pointer, self.need, self.error)
        if status != OK:
            raise Refused(self.error.text.decode(errors="replace"))
        refuse = lambda *a: self.fail(a[-1].contents, b"this host lends no children")
        self.callbacks = LOG(lambda host, severity, text: None), CHILD(refuse)
        self.host = Host(c.sizeof(Host), 0, None, op.claims.device_type, device_id, threads, 0, *self.callbacks)
        self.memory = {n: allocate(getattr(self.need, n)) if getattr(self.need, n) else (None, None)
                       for n in ("scratch", "packed", "persistent", "plan")}
        self.check(self.table.create(self.host, self.init.pointer, self.weights.pointer, self.self, self.error))
        lent = Memory(c.sizeof(Memory), 0, self.memory["packed"][0], self.need.packed, self.memory["persistent"][0],
                      self.need.persistent, stream)
        self.copy, self.device_id, self.planned = copy, device_id, None
        self.check(self.table.prepare(self.self, top.pointer, lent, self.error))

    @staticmethod
    def fail(error, text):
        error.text, error.code = text, UNSUPPORTED
        return UNSUPPORTED

    def check(self, status):
        if status != OK:
            raise Failed(self.error.text.decode(errors="replace") or f"status {status}")

    def plan(self, values):
        """Schedules the next calls of forward(). `values` has the plan section's views, in host memory. The result
        stays at one address, so a captured forward() finds the newest one."""
        if not self.table.plan:
            return
        blob, size = allocate(max(1, self.need.plan)), L(self.need.plan)  # its address, and what keeps it
        frame = Frame(self.op.plan, values)  # by name: the pointer alone does not keep what the views are in
        self.check(self.table.plan(self.self, frame.pointer, blob[0], size, self.error))
        if size.value:
            self.copy(self.memory["plan"], c.string_at(blob[0], size.value))
        self.planned = size.value

    def forward(self, values, stream=None):
        """Enqueues the op."""
        if self.table.plan and self.planned is None:
            raise Failed(f"{self.op.name}: plan() comes before forward()")
        context = Context(c.sizeof(Context), self.device_id, stream, self.memory["scratch"][0], self.need.scratch,
                          self.memory["plan"][0] if self.planned else None, self.planned or 0, c.pointer(self.error))
        frame = Frame(self.op.forward, values)
        self.check(self.table.forward(self.self, frame.pointer, context))

    def close(self):
        if self.self:
            self.table.destroy(self.self)
            self.self = P()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Op:
    """One op of a plugin: its slots by section, its claims."""

    def __init__(self, table):
        self.table, contract = table, table.contract.contents
        self.name, self.revision, self.claims = contract.op.decode(), contract.revision, table.claims.contents
        for section in ("init", "weights", "forward", "plan"):
            s = getattr(contract, section)
            setattr(self, section, [Slot(s.lines[i].decode()) for i in range(s.slots)])

    def create(self, init, weights, largest, **options):
        return Instance(self, init, weights, largest, **options)


class Plugin:
    """A loaded plugin, for as long as the process lives."""

    def __init__(self, path):
        library = c.CDLL(str(path))
        majors = [m for m in range(MAJOR, OLDEST_MAJOR - 1, -1) if hasattr(library, f"fk_plugin_v{m}")]
        if not majors:
            raise Failed(f"{path} exports no fk_plugin_v{MAJOR}: it is no plugin of this ABI")
        if majors[0] < MAJOR:
            warnings.warn(f"{path} was built for ABI v{majors[0]}, which only this version still loads; build it again "
                          "with this version's headers", stacklevel=2)
        entry = library[f"fk_plugin_v{majors[0]}"]
        entry.restype = c.POINTER(PluginTable)
        error = Error(struct_size=Error.text.offset + 240)
        table = entry(c.byref(Hello(c.sizeof(Hello), 0, b"fk_plugin.py", b"0", c.pointer(error))))
        if not table:
            raise Failed(error.text.decode(errors="replace"))
        t = table.contents
        self.name, self.version = t.name.decode(), t.version.decode()
        count = (t.end - c.cast(t.ops, P).value) // c.sizeof(P)
        self.ops = {op.name: op for op in (Op(t.ops[i].contents) for i in range(count))}

    def __getitem__(self, op):
        if op not in self.ops:
            raise Failed(f"{self.name} has no op {op}; it has {', '.join(self.ops)}")
        return self.ops[op]
