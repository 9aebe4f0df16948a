"""The command lines that the program and its pages show: where they stand, and what is said to come out."""
import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass
class Line:
    command: str                                 # as it is pasted
    output: list = field(default_factory=list)   # what is shown below it, if anything


@dataclass
class Block:
    """Lines that stand together, so that one may use what another made, and files that are shown for them."""

    lines: list = field(default_factory=list)
    files: dict = field(default_factory=dict)


def joined(blocks):
    return Block([line for block in blocks for line in block.lines], {name: text for block in blocks for name, text in block.files.items()})


def slug(source):
    return re.sub(r"[ /]", "-", source)


def continued(lines):
    """Each command as one line."""
    return re.sub(r"\s*\\\n\s*", " ", "\n".join(lines)).splitlines()


def blocks_of(text):
    """Indented lines, parted by empty ones."""
    blocks, open_block = [], None
    for line in text.splitlines():
        if not line.startswith(" "):
            open_block = None
            continue
        if open_block is None:
            blocks.append(open_block := [])
        open_block.append(line.strip())
    return blocks


def help_tree(dcpctl):
    return json.loads(subprocess.run([dcpctl, "help", "--json"], check=True, stdout=subprocess.PIPE).stdout)["command"]


def commands_of(command, path=()):
    yield path, command
    for child in command["commands"]:
        yield from commands_of(child, (*path, child["name"]))


def in_help(dcpctl):
    """{"help reshard": [Block]}"""
    found = {}
    for path, command in commands_of(help_tree(dcpctl)):
        blocks = []
        for lines in blocks_of(command["details"]):
            if lines[0].startswith("{"):
                blocks.append(Block([Line("dcpctl reshard step-1000 out --layout layout.json")], {"layout.json": "\n".join(lines)}))
            elif any("dcpctl " in line for line in lines):
                blocks.append(Block([Line(c) for c in continued(lines)]))
        if blocks:
            found[" ".join(["help", *path])] = blocks
    return found


def plain(roff):
    """Text of a manual page as it is read."""
    text = "\n".join(line for line in roff.splitlines() if not line.startswith("."))
    for escape, character in {r"\-": "-", r"\(aq": "'", r"\(ti": "~", r"\(ha": "^", r"\(ga": "`", r"\&": "", r"\e": "\\"}.items():
        text = text.replace(escape, character)
    return text


def in_man(dcpctl):
    """{"help reshard": [commands]} as the manual pages have them."""
    found = {}
    for path, _ in commands_of(help_tree(dcpctl)):
        page = subprocess.run([dcpctl, "man", *path], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
        if examples := re.search(r'^\.SH EXAMPLES\n(.*?)(?=^\.SH )', page, re.DOTALL | re.MULTILINE):
            found[" ".join(["help", *path])] = continued(plain(examples[1]).splitlines())
    return found


def in_manual():
    """Of the manual page that is written by hand: its command lines, and the map that they use."""
    blocks = []
    for example in re.findall(r"^\.EX\n(.*?)^\.EE", (ROOT / "man/dcpctl-maps.7").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        lines = [line[4:] for line in plain(example).splitlines()]
        if lines[0].startswith("# Otter"):
            blocks.append(Block(files={"otter.map": "\n".join(lines) + "\n"}))
        elif any(line.startswith("dcpctl ") for line in lines):
            blocks.append(Block([Line(line) for line in lines]))
    return {"man/dcpctl-maps.7": blocks}


def everything(dcpctl):
    return {**in_help(dcpctl), **in_manual(), **in_pages()}


def pages():
    """Names of the tree's pages; git is not asked, for a tree that was unpacked has none."""
    folders = [ROOT / "docs", ROOT / "src"]
    return [str(p.relative_to(ROOT)) for p in sorted([*ROOT.glob("*.md"), *(p for f in folders for p in f.rglob("*.md"))])]


def in_pages():
    """{"README.md": [Block]}, of every page in the tree that shows a command line."""
    found = {}
    for name in pages():
        if blocks := [b for b in map(shown_block, indented((ROOT / name).read_text(encoding="utf-8"))) if b.lines]:
            found[name] = blocks
    return found


def dead_links():
    """Links and pictures of pages, and paths that CONTRIBUTING.md names, that lead nowhere in the tree."""
    link = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)|src(?:set)?=\"([^\":]+)\"")
    named = [(page, to or picture) for page in pages() for to, picture in link.findall((ROOT / page).read_text(encoding="utf-8"))]
    told = re.findall(r"`((?:src|cmd|tests|cmake|man|docs)/[\w./-]+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    named += [("CONTRIBUTING.md", path) for path in told if not re.search(r"[A-Z]{3}", path)]  # NAME stands for any
    return [f"{page}: no {link}" for page, link in named if not (ROOT / page).parent.joinpath(link).exists()]


def unknown_options(dcpctl):
    """Options that prose names, of the help and of pages, and that neither a command nor ./dev has. Lines that are run are not looked at."""
    option = re.compile(r"(?<![\w-])--[a-z][\w-]*")
    tree = list(commands_of(help_tree(dcpctl)))
    known = {name for _, command in tree for declared in command["options"] for name in declared["names"]}
    known |= set(option.findall(subprocess.run([ROOT / "dev", "help"], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout))
    texts = {}
    for path, command in tree:
        described = [command["about"], command["details"], *(declared["help"] for declared in [*command["options"], *command["positionals"]])]
        texts[" ".join(["help", *path])] = re.sub(r"(?m)^ .*$", "", "\n".join(described))
    for page in pages():
        prose = re.sub(r"(?ms)^```.*?^```|^    [^\n]*$", "", (ROOT / page).read_text(encoding="utf-8"))
        texts[page] = re.sub(r"`(cmake|ctest|pkg-config|python3|sbatch|torchrun) [^`]*`", "", prose)
    return [f"{where}: there is no option {name}" for where, text in texts.items() for name in sorted(set(option.findall(text)) - known)]


def indented(text):
    """Blocks of code: indented by four, with empty lines between."""
    for code in re.findall(r"(?:(?<=\n\n)|^)((?:    .*\n|\n(?=    ))+)", text + "\n"):
        yield [line[4:] for line in code.rstrip("\n").split("\n")]


def shown_block(lines):
    block = Block()
    for line in continued(lines):
        if line.startswith("$ "):
            block.lines.append(Line(line[2:]))
        elif line.startswith(("./dev ", "python3 -m venv ", "pip install ", "dcpctl ", "cmake ")):
            block.lines.append(Line(line))
        elif block.lines:
            block.lines[-1].output.append(line)
    for shown in block.lines:
        while shown.output and not shown.output[-1]:
            shown.output.pop()
    return block
