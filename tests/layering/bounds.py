#!/usr/bin/env python3
"""Reads the sources and fails where a piece of code has grown past the sizes that src/README.md promises: functions, classes, parameter lists.
A file may be as long as its subject needs.

    bounds.py ROOT         check the tree
    bounds.py --self-test  check the checker on made-up sources
"""
import re
import sys
import tempfile
from pathlib import Path

MAX_FUNCTION = 60
MAX_CLASS = 250
MAX_PARAMETERS = 5

# Kernels take the strides and sizes of both sides; the tables of modules are C, and so is what stands in for one, and what starts a program.
LONG_LISTS = ("src/kernels/", "src/modules/", "cmd/start.cc", "src/staging/cpu_device.cc", "tests/unit/kernels/", "tests/unit/ranks/fake_transport.h",
              "tests/unit/staging/measure_test.cc")

TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|::|->|&&|\|\||[<>=!]=|\S|\n")
NAME = re.compile(r"[A-Za-z_]\w*$")
BLANKED = re.compile(
    r'''R"([^()\\\s]{0,16})\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'|^[ \t]*\#(?:\\\n|[^\n])*''', re.S | re.M)
OPENS, CLOSES = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


def tokens_of(text):
    """(token, line) without comments, texts and directives."""
    text = BLANKED.sub(lambda m: ('""' if m.group(0)[0] in "R\"'" else "") + "\n" * m.group(0).count("\n"), text)
    line, tokens = 1, []
    for token in TOKEN.findall(text):
        if token == "\n":
            line += 1
        else:
            tokens.append((token, line))
    return tokens


def partners(tokens):
    """Where the bracket at each index closes or opens."""
    other, open_at = {}, []
    for at, (token, _) in enumerate(tokens):
        if token in OPENS:
            open_at.append(at)
        elif token in CLOSES and open_at:
            other[at] = open_at.pop()
            other[other[at]] = at
    return other


def count_parameters(tokens, other, at):
    """Of the list that opens at `at`: commas outside brackets and template arguments."""
    end, angle, commas, i = other[at], 0, 0, at + 1
    if end == at + 1 or (end == at + 2 and tokens[at + 1][0] == "void"):
        return 0
    while i < end:
        token = tokens[i][0]
        if token in OPENS:
            i = other[i]
        elif token == "<":
            angle += 1
        elif token == ">":
            angle = max(0, angle - 1)
        elif token == "," and not angle:
            commas += 1
        i += 1
    return commas + 1


class Source:
    """Functions, their parameter lists and lambdas of one file: (name, line, last line or None, parameters). Classes: (name, line, last line)."""

    def __init__(self, text):
        self.tokens = tokens_of(text)
        self.other = partners(self.tokens)
        self.functions, self.classes = [], []
        self.outside(0, len(self.tokens))
        self.lambdas()

    def outside(self, at, end):
        """Namespaces and types: what stands between two ends of statements is a declaration."""
        start = at
        while at < end:
            token, before = self.tokens[at][0], self.tokens[at - 1][0]
            if token in ("(", "["):
                at = self.other[at]
            elif token == ";":
                self.declaration(start, at)
                start = at + 1
            elif token == ":" and before in ("public", "private", "protected"):
                start = at + 1
            elif token == "{":
                close, head = self.other[at], self.list_of(start, at)
                words = {t for t, _ in self.tokens[start:at]}
                if head is None and words & {"namespace", "extern", "struct", "class", "union"} and "=" not in words:
                    self.outside(at + 1, close)
                    if not words & {"namespace", "extern"}:
                        self.classes.append((self.class_name(start, at), self.tokens[start][1], self.tokens[close][1]))
                    start = close + 1 if words & {"namespace", "extern"} else start
                elif head is not None and not self.is_initializer(head, at):
                    self.add(head, start, self.tokens[close][1])
                    start = close + 1
                at = close
            at += 1

    def class_name(self, start, end):
        """The last name before its bases and its body."""
        names = []
        for token, _ in self.tokens[start:end]:
            if token == ":":
                break
            names += [token] if NAME.match(token) and token != "final" else []
        return names[-1]

    def is_initializer(self, head, at):
        """Whether the brace at `at` initializes a member, between a constructor's parameters and its body."""
        begins = self.tokens[self.other[head] + 1][0] == ":" or self.tokens[self.other[head] + 1 : self.other[head] + 3][-1][0] == ":"
        return begins and (self.tokens[at - 1][0] == ">" or bool(NAME.match(self.tokens[at - 1][0])))

    def list_of(self, start, end):
        """The parameter list of the declaration, if it is a function's: the first ( behind a name, outside template arguments."""
        angle, at = 0, start
        while at < end:
            token = self.tokens[at][0]
            if token == "=" and not angle:
                return None
            if token == "operator":
                at += 1
                while self.tokens[at][0] != "(" or self.tokens[at + 1][0] == ")" and self.tokens[at + 2][0] == "(":
                    at += 1
                return at
            if token == "<":
                angle += 1
            elif token == ">":
                angle = max(0, angle - 1)
            elif token == "(" and not angle:
                before = self.tokens[at - 1][0] if at > start else ""
                if NAME.match(before) and before not in ("requires", "decltype", "alignas", "noexcept", "static_assert", "__attribute__"):
                    return at
                at = self.other.get(at, end)
            elif token in OPENS:
                at = self.other.get(at, end)
            at += 1
        return None

    def declaration(self, start, end):
        head = self.list_of(start, end)
        if head is not None and self.tokens[start][0] not in ("using", "typedef", "static_assert", "friend"):
            self.add(head, start, None)

    def add(self, head, start, last):
        name, line = self.tokens[head - 1]
        self.functions.append((name, self.tokens[start][1] if last else line, last, count_parameters(self.tokens, self.other, head)))

    def lambdas(self):
        for at in range(len(self.tokens) - 1):
            if self.tokens[at][0] == "]" and self.tokens[at + 1][0] == "(" and at in self.other:
                begin = self.other[at]
                before = self.tokens[begin - 1][0] if begin else ""
                if re.match(r"\w+$|[\])]$", before) and before != "return":
                    continue  # an element is called
                close = self.other.get(at + 1)
                follows = self.tokens[close + 1][0] if close and close + 1 < len(self.tokens) else ""
                if follows in ("{", "mutable", "->", "noexcept", "const"):
                    self.functions.append(("lambda", self.tokens[at][1], None, count_parameters(self.tokens, self.other, at + 1)))


def check(root):
    complaints = []
    for path in sorted([*root.glob("src/**/*"), *root.glob("include/**/*"), *root.glob("examples/*"), *root.glob("cmd/**/*"), *root.glob("tests/**/*")]):
        name = path.relative_to(root).as_posix()
        if path.suffix not in (".h", ".cc"):
            continue
        source = Source(path.read_text(encoding="utf-8"))
        for function, line, last, parameters in source.functions:
            if last and last - line + 1 > MAX_FUNCTION and function not in ("TEST_CASE",):
                complaints.append(f"{name}:{line}: {function} has {last - line + 1} lines, at most {MAX_FUNCTION}")
            if parameters > MAX_PARAMETERS and not name.startswith(LONG_LISTS) and not function.isupper():  # a macro
                complaints.append(f"{name}:{line}: {function} takes {parameters} parameters, at most {MAX_PARAMETERS}")
        for what, line, last in source.classes:
            if last - line + 1 > MAX_CLASS:
                complaints.append(f"{name}:{line}: {what} has {last - line + 1} lines, at most {MAX_CLASS}")
    return complaints


def self_test():
    body = lambda lines: "{\n" + "  x();\n" * lines + "}\n"
    good = {
        "src/plan/a.h": "struct A : B<int, 2> {\n  A(int a, std::map<int, int> b = {}, void (*c)(int, int) = f) : b_{g(1, 2, 3, 4, 5, 6)}, a_(a) {}\n"
        "  bool operator()(int a) const;\n  int x = f(1, 2, 3, 4, 5, 6);\n  int a_, b_;\n};\nDCP_MEMBERS(A, a, b, c, d, e);\n",
        "src/plan/a.cc": "namespace dcp {\nnamespace {\n/* void f(int, int, int, int, int, int); */\nvoid f(int a, int b, int c, int d, int e) "
        + body(58) + "}\nint y[] = {f(1, 2, 3, 4, 5, 6)};\n}\n",
        "src/kernels/a.cc": "void f(int a, int b, int c, int d, int e, int g) {}\n",
        "tests/unit/a.cc": 'TEST_CASE("a, b, c, d, e, f") ' + body(3),
        "src/plan/b.h": "class A final : B<struct C> {\n" + "  int x;\n" * 248 + "};\n",
        "src/plan/b.cc": "\n" * 2000 + "struct A { int x; } a;\n",
    }
    bad = [
        ({"src/plan/a.h": "\ntemplate <class T>\nclass A final : public B {\n" + "  int x;\n" * 248 + "};\n"}, "src/plan/a.h:2: A has 251 lines, at most 250"),
        ({"cmd/a.cc": "namespace {\nstruct A {\n struct B {\n" + "  int x;\n" * 249 + " };\n};\n}\n"}, ["cmd/a.cc:3: B has 251", "cmd/a.cc:2: A has 253"]),
        ({"src/plan/a.cc": "namespace dcp {\nvoid A::f(int a) const " + body(59) + "}\n"}, "src/plan/a.cc:2: f has 61 lines"),
        ({"src/plan/a.cc": "A::A(int a)\n    : b_{a}, c_(a) " + body(58) + "\n"}, "src/plan/a.cc:1: A has 61 lines"),
        ({"src/plan/a.h": "struct A {\n public:\n  template <class T>\n  std::vector<T> f(int a, int b, int c,\n    int d, int e, T g) const;\n};\n"},
         "src/plan/a.h:4: f takes 6 parameters"),
        ({"src/plan/a.h": "struct A {\n  virtual int f(int, int, int, int, int, int) = 0;\n};\n"}, "src/plan/a.h:2: f takes 6 parameters"),
        ({"src/plan/a.cc": "void f() {\n  const auto g = [&](int a, int b, int c, int d, int e, int h) { return a; };\n}\n"},
         "src/plan/a.cc:2: lambda takes 6 parameters"),
    ]
    failures = 0
    for files, expected in [(good, []), *bad]:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            got = check(Path(folder))
        wanted = [expected] if isinstance(expected, str) else expected
        if len(got) != len(wanted) or not all(g.startswith(w) for g, w in zip(got, wanted)):
            failures += 1
            print(f"{files}: got {got}, expected {expected}")
    return failures


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(1 if self_test() else 0)
    found = check(Path(sys.argv[1]))
    print("\n".join(found))
    sys.exit(1 if found else 0)
