#!/usr/bin/env python3
"""docs/pages/: pages of the sample checkpoints as a browser shows them.

    pictures.py DCPCTL              the pages are those that the pictures were made from; no browser is needed
    pictures.py --refresh DCPCTL    draw them anew (./dev pictures)
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs" / "pages"
DIGESTS = FOLDER / "digests.json"
MOST = 300_000  # bytes, of all pictures together

# The command, the height of what is shown of its page, and where that begins.
PAGES = {
    "inspect": ("inspect step-1000", 1150, 0),
    "stats": ("inspect step-1000 --stats --model-only", 760, 0),
    "diff": ("diff step-1000 bf16 --compare-as float32 --model-only", 760, 0),
}


def make(dcpctl, folder):
    """The pages, from the same files under the same names wherever they are made."""
    path = {**os.environ, "PATH": f"{Path(dcpctl).parent}:{os.environ['PATH']}"}
    subprocess.run(["sh", ROOT / "tests/data/samples.sh", folder / "samples"], check=True, env=path, stdout=subprocess.DEVNULL)
    run = lambda *words: subprocess.run([dcpctl, *words, "-q"], cwd=folder / "samples", stdout=subprocess.DEVNULL, check=False)
    run("cast", "step-1000", "bf16", "--dtype", "bf16")
    pages = {}
    for name, (words, _, _) in PAGES.items():
        run(*words.split(), "--html", f"{name}.html")
        pages[name] = folder / "samples" / f"{name}.html"
    return pages


def digest(page):
    return hashlib.sha256(page.read_bytes()).hexdigest()


def refresh(pages):
    from browser import Browser

    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    browser = Browser()
    for name, page in pages.items():
        for dark in (False, True):
            browser.open(page, width=1200, height=PAGES[name][1], dark=dark)
            browser.run(f"scrollTo(0, {PAGES[name][2]})")
            browser.settle()
            browser.glimpse(FOLDER / f"{name}-{'dark' if dark else 'light'}.webp")
    browser.close()
    DIGESTS.write_text(json.dumps({name: digest(page) for name, page in pages.items()}, indent=2) + "\n")


def main(arguments):
    anew = arguments[0] == "--refresh"
    with tempfile.TemporaryDirectory() as folder:
        pages = make(os.path.abspath(arguments[-1]), Path(folder))
        if anew:
            refresh(pages)
        drawn = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
        old = sorted(name for name, page in pages.items() if drawn.get(name) != digest(page))
    size = sum(p.stat().st_size for p in FOLDER.glob("*.webp"))
    if old:
        print(f"docs/pages/ shows {', '.join(old)} as it was: run ./dev pictures and commit docs/pages/")
    if size > MOST:
        print(f"docs/pages/ takes {size:,} bytes, at most {MOST:,}")
    return 1 if old or size > MOST else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
