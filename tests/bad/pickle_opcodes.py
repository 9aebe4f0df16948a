"""Each opcode of a `.metadata` with too little on the stack, without its mark, with an operand of the wrong kind, and with an argument that is cut.

The cases are the lines of tables, one for each opcode and each way to be wrong.
"""
import pickle
import struct

from recipes import Op, case, dump, glob, op

COMMANDS = ["inspect ckpt", "consolidate ckpt out.pt"]
NONE, MARK, DICT, LIST, SET, TUPLE = pickle.NONE, pickle.MARK, pickle.EMPTY_DICT, pickle.EMPTY_LIST, pickle.EMPTY_SET, pickle.EMPTY_TUPLE


def add(problem, name, opcodes, at, facts):
    """A case: the pickle is `opcodes` and a STOP, and the fault lies `at` bytes behind its PROTO."""

    def function(c):
        c.metadata = dump(Op(opcodes))

    function.__name__ = name
    hint = "\nhint: its own" if problem == "pickle_truncated" else ""
    function.__doc__ = f"dcpctl: ckpt/.metadata @ 0x{2 + at:x}: {problem} ({facts}){hint}"
    globals()[name] = case(problem, *COMMANDS)(function)


def code(name):
    """The opcode and an argument that is well formed."""
    argument = {"BINPUT": b"\0", "LONG_BINPUT": bytes(4)}.get(name, b"")
    return getattr(pickle, name) + argument


# ---- too few values: how many each opcode takes from above the last mark

TAKES = {
    "STOP": 1, "POP": 1, "DUP": 1, "BINPUT": 1, "LONG_BINPUT": 1, "MEMOIZE": 1, "BINPERSID": 1, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "APPEND": 2, "SETITEM": 3,
    "REDUCE": 2, "NEWOBJ": 2, "NEWOBJ_EX": 3, "BUILD": 2, "STACK_GLOBAL": 2,
}
for name, count in TAKES.items():
    for given in range(count):
        facts = f"got {given} value{'' if given == 1 else 's'}, expected {count} for {name}"
        add("pickle_underflow", f"{name}_on_{given}", NONE * given + code(name), given, facts)
        if name != "POP":  # which takes the mark, as in Python
            add("pickle_underflow", f"{name}_on_{given}_above_a_mark", NONE * 3 + MARK + NONE * given + code(name), 4 + given, facts)

# ---- no mark, or nothing below it that takes the values

MARKED = {"POP_MARK": None, "TUPLE": None, "LIST": None, "DICT": None, "FROZENSET": None, "APPENDS": "a list", "SETITEMS": "a dict", "ADDITEMS": "a set"}
for name, target in MARKED.items():
    add("pickle_no_mark", f"{name}_without_a_mark", NONE * 2 + code(name), 2, f"got {name}")
    if target:
        facts = f"got 2 values, expected 3 for {name}"
        add("pickle_underflow", f"{name}_with_nothing_below_its_mark", MARK + NONE * 2 + code(name), 3, facts)

# ---- operands of the wrong kind: what lies on the stack, the opcode, what is said of it

WRONG = {
    "APPEND_to_a_dict": (DICT + NONE, "APPEND", "a dict for APPEND", "a list"),
    "APPENDS_to_a_tuple": (TUPLE + MARK + NONE, "APPENDS", "a tuple of 0 for APPENDS", "a list"),
    "APPENDS_to_a_set": (SET + MARK + NONE, "APPENDS", "a set for APPENDS", "a list"),
    "SETITEM_of_a_list": (LIST + NONE + NONE, "SETITEM", "a list for SETITEM", "a dict"),
    "SETITEMS_of_None": (NONE + MARK + NONE + NONE, "SETITEMS", "None for SETITEMS", "a dict"),
    "SETITEMS_with_a_key_alone": (DICT + MARK + NONE, "SETITEMS", "an odd number of values for SETITEMS", "keys and values"),
    "DICT_of_a_key_alone": (MARK + NONE, "DICT", "an odd number of values for DICT", "keys and values"),
    "ADDITEMS_to_a_list": (LIST + MARK + NONE, "ADDITEMS", "a list for ADDITEMS", "a set"),
    "ADDITEMS_to_a_frozenset": (MARK + pickle.FROZENSET + MARK + NONE, "ADDITEMS", "a set for ADDITEMS", "a set"),
    "REDUCE_of_a_number": (pickle.BININT1 + b"\7" + TUPLE, "REDUCE", "7 for REDUCE", "a class or function"),
    "REDUCE_of_a_list_of_arguments": (glob("torch.Size") + LIST, "REDUCE", "a list for REDUCE", "a tuple of arguments"),
    "NEWOBJ_of_a_text": (op("os") + TUPLE, "NEWOBJ", "text 'os' for NEWOBJ", "a class or function"),
    "NEWOBJ_with_None_for_arguments": (glob("torch.Size") + NONE, "NEWOBJ", "None for NEWOBJ", "a tuple of arguments"),
    "NEWOBJ_EX_with_a_list_of_keywords": (glob("torch.Size") + TUPLE + LIST, "NEWOBJ_EX", "a list for NEWOBJ_EX", "a dict of keywords"),
    "BUILD_of_a_tuple": (TUPLE + DICT, "BUILD", "a tuple of 0 for BUILD", "an object to give a state"),
    "BUILD_of_a_set": (SET + DICT, "BUILD", "a set for BUILD", "an object to give a state"),
    "STACK_GLOBAL_of_a_module_that_is_None": (NONE + op("system"), "STACK_GLOBAL", "None for STACK_GLOBAL", "a module's name"),
    "STACK_GLOBAL_of_bytes": (op("os") + pickle.SHORT_BINBYTES + b"\6system", "STACK_GLOBAL", "bytes for STACK_GLOBAL", "a global's name"),
}
for name, (stack, last, got, expected) in WRONG.items():
    add("pickle_operand", name, stack + code(last), len(stack), f"got {got}, expected {expected}")

# ---- memo slots that nothing was put into

for name, argument in {"BINGET": b"\xff", "LONG_BINGET": struct.pack("<I", 200)}.items():
    add("pickle_memo_unset", f"{name}_of_an_empty_slot", code(name) + argument, 0, f"got slot {argument[0]}")
for name in ("LONG_BINGET", "LONG_BINPUT"):
    facts = "got memo slot 4294967295, expected below 256"
    add("over_limit", f"{name}_of_the_last_slot_there_is", NONE + getattr(pickle, name) + b"\xff" * 4, 1, facts)

# ---- arguments that reach past the end, by one byte and by all that their length can say

FIXED = {"BINPUT": 1, "LONG_BINPUT": 4, "BINGET": 1, "LONG_BINGET": 4, "BININT": 4, "BININT1": 1, "BININT2": 2, "BINFLOAT": 8, "PROTO": 1, "FRAME": 8}
LENGTHS = {
    "SHORT_BINSTRING": "<B", "SHORT_BINUNICODE": "<B", "SHORT_BINBYTES": "<B", "LONG1": "<B", "BINSTRING": "<i", "LONG4": "<i", "BINUNICODE": "<I", "BINBYTES": "<I",
    "BINUNICODE8": "<Q", "BINBYTES8": "<Q", "BYTEARRAY8": "<Q",
}


def cut(name, argument, left, expected, what):
    facts = f"got {left} byte{'s'} left, expected {expected} for {name}"
    add("pickle_truncated", f"{name}_{what}", getattr(pickle, name) + argument, 0, facts)


for name, size in FIXED.items():
    if size > 1:  # the STOP behind it is read as one of them; the opcode itself counts
        cut(name, bytes(size - 2), size, 1 + size, "without_its_last_byte")
for name, form in LENGTHS.items():
    most = (1 << 8 * struct.calcsize(form)) - 1 >> form.endswith("i")
    cut(name, struct.pack(form, 9) + bytes(7), 8, 9, "past_the_end_by_one_byte")
    cut(name, struct.pack(form, most) + bytes(7), 8, most, "as_long_as_it_can_say")
for name in ("BINSTRING", "LONG4"):
    add("pickle_negative_length", f"{name}_of_negative_length", getattr(pickle, name) + struct.pack("<i", -(1 << 31)), 0, "got -2147483648")
add("pickle_truncated", "GLOBAL_without_its_second_line", pickle.GLOBAL + b"torch\nfloat32", 0, "got no line end, expected two lines for GLOBAL")

# ---- opcodes that a pickle of torch's never has: text forms of protocol 0, classes by number, buffers out of band

REFUSED = ("FLOAT", "INT", "LONG", "PERSID", "STRING", "UNICODE", "GET", "PUT", "INST", "OBJ", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER")
for name in REFUSED:
    add("pickle_refused_opcode", f"{name}_is_never_read", getattr(pickle, name) + b"1\n", 0, f"got {name}")
