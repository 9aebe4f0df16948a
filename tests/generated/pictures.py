"""The pictures of README.md and BENCHMARKS.md, as SVG for a light and a dark page: a terminal on which dcpctl runs, and the chart of a benchmark, whose
numbers are those of the table in BENCHMARKS.md."""
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import tempfile
import termios
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs/pictures"
THEMES = {
    "light": {"page": "#ffffff", "edge": "#d0d7de", "text": "#1f2328", "faint": "#59636e", "blue": "#0969da", "red": "#cf222e", "yellow": "#9a6700", "green": "#1a7f37"},
    "dark": {"page": "#0d1117", "edge": "#3d444d", "text": "#f0f6fc", "faint": "#9198a1", "blue": "#58a6ff", "red": "#ff7b72", "yellow": "#d29922", "green": "#3fb950"},
}
MONOSPACE = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
SANS = "-apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"

COLUMNS = 96
CELL, LINE, SIZE, MARGIN = 7.8, 18, 13, 16
WIDTH = round(COLUMNS * CELL + 2 * MARGIN)

# The lines of the screen: what is typed, and what that stands for where it is run.
SCREEN = ["dcpctl inspect step-1000 --include 'model.*'", "dcpctl verify damaged -q"]
DAMAGE = "__2_0.distcp", 28949  # a byte of a weight

# Rows of the table: how each begins, and what the chart calls it.
ROWS = [
    ("torch 2.15.0: `torch.distributed.checkpoint.format_utils", "torch 2.15 format_utils", "faint"),
    ("bare copy of the same bytes", "a copy of the bytes", "faint"),
    ("`dcpctl consolidate` to `.pt`", "dcpctl, to .pt", "blue"),
    ("`dcpctl consolidate` to `.safetensors`", "dcpctl, to .safetensors", "blue"),
]


def pictures(dcpctl):
    """{path: SVG}"""
    shown, measured = screen(dcpctl), figures((ROOT / "BENCHMARKS.md").read_text(encoding="utf-8"))
    return {FOLDER / f"{name}-{theme}.svg": draw(what, colours) for theme, colours in THEMES.items()
            for name, draw, what in [("inspect", terminal_svg, shown), ("speed", chart_svg, measured)]}  # fmt: skip


def drawing(height, family, colours, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="{family}" font-size="{SIZE}">'
    page = f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="8" fill="{colours["page"]}" stroke="{colours["edge"]}"/>'
    return "\n".join([head, page, *parts, "</svg>", ""])


def text(x, y, colour, words, more=""):
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}"{more}>{escape(words)}</text>'


# ---- the terminal


def screen(dcpctl):
    """What a terminal shows, line by line."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("step-1000", "damaged"):
            shutil.copytree(ROOT / "tests/data/fsdp2_ws4/ckpt", Path(folder, name))
        name, offset = DAMAGE
        with open(Path(folder, "damaged", name), "r+b") as file:
            file.seek(offset)
            file.write(b"x")
        lines = []
        for command in SCREEN:
            lines += [f"\033[34m$\033[0m {command}", *on_terminal(command.replace("dcpctl", f"'{os.path.abspath(dcpctl)}'", 1), folder), ""]
    return lines[:-1]


def on_terminal(command, folder):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment = {**kept, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "DCPCTL_PAGER": "cat"}
    process = subprocess.Popen(["/bin/sh", "-c", command], cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    printed = b""
    try:
        while part := os.read(ours, 65536):
            printed += part
    except OSError:  # how Linux says that nobody has the terminal open any more
        pass
    os.close(ours)
    process.wait()
    return printed.decode().replace("\r\n", "\n").rstrip("\n").split("\n")


def terminal_svg(lines, colours):
    named = {"1": ("text", True), "34": ("blue", False), "1;31": ("red", True), "1;33": ("yellow", True), "1;32": ("green", True)}
    top = 40
    parts = [f'<circle cx="{20 + 18 * n}" cy="19" r="5.5" fill="{colours["edge"]}"/>' for n in range(3)]
    for row, line in enumerate(lines):
        column, style = 0, ("text", False)
        for piece in re.split(r"(\033\[[\d;]*m)", line):
            if piece.startswith("\033"):
                style = named.get(piece[2:-1], ("text", False))
                continue
            if words := piece.strip(" "):
                x = MARGIN + (column + len(piece) - len(piece.lstrip(" "))) * CELL
                more = f' textLength="{len(words) * CELL:g}" xml:space="preserve"' + (' font-weight="bold"' if style[1] else "")
                parts.append(text(round(x, 1), top + LINE * row + 13, colours[style[0]], words, more))
            column += len(piece)
    return drawing(top + LINE * len(lines) + MARGIN, MONOSPACE, colours, parts)


# ---- the chart


def figures(page):
    """[(what, seconds, its wall time and peak memory as the table has them, colour)]"""
    found = []
    for begin, label, colour in ROWS:
        row = next(line for line in page.splitlines() if line.startswith("| " + begin))
        wall, _, memory = (cell.strip() for cell in row.split("|")[2:5])
        found.append((label, float(wall.removesuffix(" s")), wall if memory == "-" else f"{wall}, {memory} of memory", colour))
    return found


def chart_svg(measured, colours):
    left, right, top, step = 200, 190, 58, 34
    scale = (WIDTH - left - right) / max(seconds for _, seconds, _, _ in measured)
    parts = [text(MARGIN, 32, colours["text"], "Seconds to turn a checkpoint of 4 GiB from 4 ranks into one file", ' font-weight="bold"')]
    for row, (label, seconds, said, colour) in enumerate(measured):
        y, width = top + step * row, round(seconds * scale, 1)
        parts.append(text(left - 12, y + 15, colours["text"], label, ' text-anchor="end"'))
        parts.append(f'<rect x="{left}" y="{y}" width="{width:g}" height="20" rx="2" fill="{colours[colour]}"/>')
        parts.append(text(round(left + width + 8, 1), y + 15, colours["text"], said))
    return drawing(top + step * len(measured) + 4, SANS, colours, parts)
