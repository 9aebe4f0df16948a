#!/usr/bin/env python3
"""Pages in a browser: they draw without a complaint, what is clicked and typed does what it should, texts can be read, large ones draw no more than small ones do.

    pages.py DCPCTL [--keep FOLDER]    FOLDER keeps the pages, and a picture of each at both widths, light and dark

Exit code 4: there is no Chromium here.
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import samples
from browser import Browser, chromium

FAULTS = []

# The contrast of each text that is seen with what is painted behind it. Pictures on a canvas choose their ink by the same rule as tiles.
CONTRAST = """(() => {
  const numbers = (c) => (c.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4)).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = numbers(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0.99) return c; } return [255, 255, 255]; };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility() || ["SCRIPT", "OPTION", "STYLE"].includes(e.tagName)) continue;
    const style = getComputedStyle(e), ink = numbers(e instanceof SVGElement ? style.fill : style.color), [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push(`${e.tagName}.${e.className?.baseVal ?? e.className} "${e.textContent.slice(0, 30)}": ${ratio.toFixed(2)}`);
  }
  return found.slice(0, 5);
})()"""


def need(truth, what):
    if not truth:
        FAULTS.append(what)
        print("FAILED:", what)


class Pages:
    def __init__(self, dcpctl, browser, keep, pictures):
        self.dcpctl, self.browser, self.keep, self.pictures = dcpctl, browser, keep, pictures

    def make(self, name, *words, exit=(0,)):
        page = self.keep / f"{name}.html"
        run = subprocess.run([self.dcpctl, *words, "--html", page, "-q"], capture_output=True, text=True)
        need(run.returncode in exit, f"{name}: exit {run.returncode}: {run.stderr}")
        return page

    def open(self, page, **how):
        took = self.browser.open(page, **how)
        need(not self.browser.errors, f"{page.name}: {self.browser.errors}")
        return took

    def look(self, page):
        """At both widths, light and dark: nothing is complained of, nothing hangs over the side, all text can be read."""
        for width in (700, 1400):
            for dark in (False, True):
                self.open(page, width=width, dark=dark)
                how = f"{page.stem}-{width}{'-dark' if dark else ''}"
                need(self.browser.run("document.documentElement.scrollWidth <= innerWidth"), f"{how}: wider than the window")
                need(self.browser.run("[...document.querySelectorAll('.scroll')].every((e) => e.scrollWidth <= e.clientWidth)"), f"{how}: a table wider than its frame")
                low = self.browser.run(CONTRAST)
                need(not low, f"{how}: contrast below 4.5: {low}")
                if self.pictures:
                    self.browser.picture(self.keep / f"{how}.png")
        need(self.browser.run("document.querySelector('h1') && document.querySelectorAll('section').length > 0"), f"{page.name}: nothing is drawn")


def shown(browser, table):
    return browser.run(f"[...document.querySelectorAll('[id^={table}-] > :first-child')].map((e) => e.textContent)")


def checkpoints(pages, folder):
    made = {
        "one tensor": ("one", samples.write(folder / "one", [("weight", (4096, 1024), "torch.float32", samples.rows((4096, 1024), 1))])),
        "20,000 tensors": ("many", samples.write(folder / "many", samples.many(20_000, 4))),
        "256 ranks": ("ranks", samples.write(folder / "ranks", samples.llama(4, 256))),
        "2-D, uneven, whole norms": ("uneven", samples.write(folder / "uneven", samples.uneven())),
        "a file missing": ("damaged", samples.write(folder / "damaged", samples.llama(4, 4), missing=["__2_0.distcp"])),
    }
    for what, (name, checkpoint) in made.items():
        print(what)
        pages.look(pages.make(name, "inspect", checkpoint, exit=(0, 1)))
    size = (pages.keep / "many.html").stat().st_size
    need(size < 3_000_000, f"20,000 tensors on 4 ranks: {size:,} bytes")


def use(pages):
    """Keys and clicks."""
    browser = pages.browser
    pages.open(pages.keep / "damaged.html")
    folded = shown(browser, "keys")
    need("▸model.layers.{0..3}.attention.wq.weight" in folded and len(folded) < 40, f"folded rows: {folded[:4]}")
    browser.press("/")
    browser.type("layers.2. wq")
    found = shown(browser, "keys")
    need(found and all("layers.2." in k and "wq" in k for k in found) and len(found) == 3, f"search finds {found}")
    browser.run("document.querySelector('input[type=search]').value = ''; document.querySelector('input[type=search]').dispatchEvent(new Event('input'))")
    browser.click("[id^=keys-]")
    need(len(shown(browser, "keys")) == len(folded) + 4, "a click unfolds a row")
    browser.run("document.querySelector('.scroll').focus()")
    for key in ("Home", "ArrowLeft", "ArrowDown", "ArrowRight"):
        browser.press(key)
    need(browser.run("document.querySelectorAll('[id^=keys-][aria-expanded=true]').length") == 1, "arrows fold and unfold")
    browser.press("ArrowDown")
    browser.press("Enter")
    text = browser.run("document.querySelector('dialog[open]')?.textContent ?? ''")
    need("__1_0.distcp" in text and "[1024:2048, 0:4096]" in text, f"Enter shows chunks: {text[:200]}")
    browser.press("Escape")
    need(browser.run("document.querySelector('dialog') === null"), "Escape closes them")
    browser.click(".tile.nest", (0.5, 0.02))
    need(browser.run("document.querySelectorAll('.crumbs button').length") > 1, "a click goes into the treemap")
    browser.click(".crumbs button")
    need(browser.run("document.querySelectorAll('.crumbs button').length") == 1, "and the crumbs lead out")
    browser.run("document.querySelector('.tile').focus()")
    browser.press("ArrowRight")
    browser.press("Enter")
    need(browser.run("document.querySelectorAll('.crumbs button').length") > 1, "Enter goes in")
    browser.press("Backspace")
    browser.run("[...document.querySelectorAll('.head button')].find((b) => b.textContent === 'bytes').click()")
    need(browser.run("document.querySelector('[aria-sort=descending]').textContent").startswith("bytes"), "a click on a head sorts, the largest first")
    browser.click("canvas.loads", (0.9, 0.5))
    need(browser.run("document.querySelector('select').value") == "3", "a click on a rank's bar highlights it")
    browser.run("showTip(null, null)")
    files = browser.run("[...document.querySelectorAll('[id^=files-]')].map((e) => e.textContent)")
    need(any("__2_0.distcp" in f and "missing" in f for f in files), f"files: {files}")
    legends = browser.run("[...document.querySelectorAll('.legend')].map((e) => e.textContent)")
    need(any("its file is missing" in text for text in legends), f"the legend says how cells of a missing file look: {legends}")


def keyboard(pages):
    """Who has no mouse stays where they are."""
    browser = pages.browser
    pages.open(pages.keep / "damaged.html")
    at = lambda what: browser.run(f"document.activeElement.closest({json.dumps(what)}) !== null")
    browser.run("[...document.querySelectorAll('.head button')].find((b) => b.textContent === 'bytes').focus()")
    browser.press("Enter")
    need(browser.run("document.activeElement.textContent").startswith("bytes"), "sorting leaves the focus on the head")
    browser.run("document.querySelector('.tile').focus()")
    browser.press(" ", " ")
    need(at(".map") and browser.run("document.querySelectorAll('.crumbs button').length") > 1, "Space goes in, and the focus stays in the map")
    browser.run("document.querySelector('.crumbs button').focus()")
    browser.press("Enter")
    need(at(".map") and browser.run("document.querySelectorAll('.crumbs button').length") == 1, "a crumb leads out, and the focus stays in the map")
    browser.run("document.querySelector('.scroll').focus()")
    for key in ("Home", " ", "ArrowDown", "ArrowDown", "ArrowLeft"):
        browser.press(key)
    rows = browser.run("[...document.querySelectorAll('[id^=keys-]')].map((e) => [e.getAttribute('aria-level'), e.classList.contains('current')])")
    need(["2", False] in rows and rows[0][1], f"Space unfolds a row, an arrow leads back to it: {rows[:6]}")
    need(browser.run("[...document.querySelectorAll('[role=treegrid], [role=grid]')].map((e) => e.getAttribute('role')).join()") == "treegrid,grid", "a table without folds is no tree")


# What is seen of a page on paper, in pixels of its width.
PAPER = """(() => {
  const box = (e) => e.getBoundingClientRect(), map = box(document.querySelector(".map")), rows = [...document.querySelectorAll("#keys-0, [id^=keys-]")];
  return {
    wide: document.documentElement.scrollWidth <= innerWidth,
    tiles: [...document.querySelectorAll(".tile")].every((t) => t.style.left.endsWith("%") && box(t).right <= map.right + 1 && box(t).bottom <= map.bottom + 1),
    legend: getComputedStyle(document.querySelector(".legend i")).printColorAdjust,
    ink: getComputedStyle(document.body).color,
    apart: rows.every((r, n) => !n || box(r).top >= box(rows[n - 1]).bottom - 1), whole: rows.every((r) => getComputedStyle(r).breakInside === "avoid"),
    cards: [...document.querySelectorAll(".card")].every((c) => box(c).right <= innerWidth),
  };
})()"""


def paper(pages):
    """All of it is on paper, in the colours for light, whatever the screen is."""
    browser = pages.browser
    for dark in (False, True):
        pages.open(pages.keep / "damaged.html", dark=dark)
        browser.paper(dark)
        seen = browser.run(PAPER)
        right = {"wide": True, "tiles": True, "legend": "exact", "ink": "rgb(27, 31, 36)", "apart": True, "whole": True, "cards": True}
        need(seen == right, f"on paper{', from a dark screen' if dark else ''}: { {k: v for k, v in seen.items() if v != right[k]} }")
        low = browser.run(CONTRAST)
        need(not low, f"on paper: contrast below 4.5: {low}")
        browser.run("dispatchEvent(new Event('afterprint'))")
        need(browser.run("document.documentElement.className") == "", "what was for paper is gone from the screen")
    pages.open(pages.keep / "many.html")
    browser.run("[...document.querySelectorAll('.choice button')].at(-1).click()")
    browser.paper(False)
    need(browser.run("document.querySelector('.space').textContent").endswith("19,600 more rows"), "on paper: of 20,000 rows, how many more there are")
    browser.run("dispatchEvent(new Event('afterprint'))")


def safetensors(file, tensors):
    """`tensors`: names and their float32 values."""
    header, data = {}, b""
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return file


def values(pages, folder):
    """Numbers that are none, and differences that have no size."""
    browser, nan = pages.browser, float("nan")
    a = {"empty": [], **{f"layers.{n}.w": [0, 0, 1 + n, 2] for n in range(12)}, "only.nan": [nan, nan]}
    b = {**a, "layers.2.w": [0, 0, 3.5, 2], "layers.3.w": [nan, 0, 4.5, 2], "layers.10.w": [0, 0, 12, 2]}
    one, other = safetensors(folder / "a.safetensors", a), safetensors(folder / "b.safetensors", b)
    pages.open(pages.make("values", "inspect", one, "--stats"))
    seen = browser.run("Object.fromEntries([...document.querySelectorAll('[id^=values-]')].map((r) => [r.firstChild.lastChild.textContent, [...r.children].slice(1).map((c) => c.textContent)]))")
    need(seen.get("empty") == [""] * 8 and seen.get("only.nan") == ["", "", "", "", "", "2", "", ""], f"no bounds where there are no numbers: {seen}")
    need(seen.get("layers.*.w  ×12", [])[:6] == ["0", "12", "2.125", "3.2", "50 %", ""], f"a row of layers has the mean and the deviation of all their values: {seen}")
    need(browser.run("document.querySelector('.verdict').className") == "verdict warn" and "NaN in 1 tensor" in browser.run("document.querySelector('.verdict').textContent"), "the verdict speaks of NaN")
    pages.open(pages.make("nan-diff", "diff", one, other, exit=(1,)))
    order = [text[2:] for text in shown(browser, "differences")]
    need(order == ["layers.2.w", "layers.3.w", "layers.10.w", "only.nan"][: len(order)] and len(order) >= 3, f"in natural order: {order}")
    red = browser.run("(() => { const c = [...document.querySelectorAll('[id^=layers-]')].find((r) => r.textContent.startsWith('layers.')).querySelector('canvas'); return [...c.getContext('2d').getImageData(c.width * 3.5 / 12, c.height / 2, 1, 1).data].slice(0, 3).join(); })()")
    need(red == "180,35,24", f"the layer that got a NaN is red: {red}")
    many = "Array.from({ length: 200000 }, (_, n) => "
    pages.open(pages.keep / "values.html")
    browser.run(f"stats({{ percents: [50], keys: {many}({{ key: 'layers.' + n + '.w', dtype: 'float32', shape: [1], values: 1, min: n, max: n, mean: n, std: 0, quantiles: [n], first: 0, counts: [1] }})) }})")
    browser.run(f"diff({{ keys: {many}['layers.' + n + '.w', 0, 0.5, 'x', 1, 1]), equal: [] }})")
    need(len(browser.run("[...document.querySelectorAll('h2')].map((e) => e.textContent)")) >= 6, "200,000 tensors are drawn")


DATA = Path(__file__).resolve().parent.parent / "data"


def others(pages, folder):
    """Pages of the other commands: each is drawn, says its verdict, and holds what is looked for."""
    small, cast, run = DATA / "fsdp2_ws4" / "ckpt", folder / "cast", folder / "run"
    subprocess.run([pages.dcpctl, "cast", small, cast, "--dtype", "bf16", "-q"], check=True)
    for step in (10, 20, 30, 40):
        shutil.copytree(small, run / f"step-{step}")
    (run / "step-30" / ".metadata").unlink()
    broken = folder / "broken"
    shutil.copytree(small, broken)
    data = bytearray((broken / "__1_0.distcp").read_bytes())
    data[len(data) // 2] ^= 1
    (broken / "__1_0.distcp").write_bytes(data)
    made = {
        "diff": (["diff", small, cast, "--compare-as", "float32"], (1,), ["Which layers changed", "Each difference"]),
        "equal": (["diff", small, small], (0,), ["Which layers changed"]),
        "verify": (["verify", broken], (1,), ["Files"]),
        "stats": (["inspect", small, "--stats", "--model-only"], (0,), ["Values", "Tensors"]),
        "list": (["list", run], (0,), ["The run"]),
        "bench": (["bench", "staging", "--device", "cpu", "--sizes", "4KiB..1MiB", "--repeats", "2"], (0,), ["How fast copies are", "All that was measured"]),
        "training": (["bench", "staging", "--device", "cpu", "--model", "tiny", "--save", folder / "saves", "--steps", "5", "--step-time", "1", "--no-sync"], (0,), ["Training with saves", "async"]),
    }
    for name, (words, exit, sections) in made.items():
        print(name)
        page = pages.make(name, *words, exit=exit)
        pages.look(page)
        titles = pages.browser.run("[...document.querySelectorAll('h2')].map((e) => e.textContent)")
        need(set(sections) <= set(titles), f"{name}: sections {titles}, expected {sections}")
        need(pages.browser.run("document.querySelector('.verdict').textContent.length > 3"), f"{name}: no verdict")
    browser = pages.browser
    pages.open(pages.keep / "verify.html")
    marked = browser.run("[...document.querySelectorAll('[id^=files-]')].filter((r) => r.querySelector('.bad')).map((r) => r.firstChild.textContent)")
    need(marked == ["__1_0.distcp"], f"verify: the damaged file is marked: {marked}")
    pages.open(pages.keep / "list.html")
    cards = browser.run("document.querySelector('.cards')?.innerText ?? document.body.innerText")
    need("unfinished" in cards and "interrupted" not in cards, f"list: the cards have the words of the table: {cards[:200]}")
    need(browser.run("[...document.querySelectorAll('option')].map((o) => o.textContent)")[-1].endswith("--keep-latest 2"), "list: what prune would take")
    browser.run("(() => { const s = document.querySelector('select'); s.value = s.options[s.options.length - 1].value; s.dispatchEvent(new Event('change')); })()")
    need("1 step would go" in browser.run("document.body.innerText"), "list: how much that is")
    pages.open(pages.make("run", "inspect", run))
    need(browser.run("document.querySelector('h2').textContent") == "The run", "inspect of a run: its page")
    for step in run.iterdir():
        shutil.rmtree(step)
    pages.open(pages.make("none", "list", run, exit=(1,)))
    verdict = browser.run("document.querySelector('.verdict').textContent")
    need(verdict.startswith("✕no step"), f"a verdict does not repeat the title above it: {verdict}")


# Names that try to end the data, to be markup, to be run, to turn their text round.
HOSTILE = ["</script><script>document.title='bad'</script>", "<img src=x onerror=\"document.title='bad'\">", "javascript:document.title='bad'", "${document.title='bad'}",
           "__proto__", "constructor.prototype.x", "a\u202eb", "'; touch x; '", "\\u003c", "&lt;b&gt;", "-->", "<!--", "]]>"]  # fmt: skip


def hostile(pages, folder):
    header, at = {}, 0
    for name in HOSTILE:
        header[name], at = {"dtype": "F32", "shape": [1], "data_offsets": [at, at + 4]}, at + 4
    text = json.dumps(header).encode()
    file = folder / "hostile.safetensors"
    file.write_bytes(len(text).to_bytes(8, "little") + text + bytes(at))
    page = pages.make("hostile", "inspect", file, "--stats")
    pages.look(page)
    browser = pages.browser
    need(browser.run("document.title") == str(file), "a name has run")
    need(browser.run("document.querySelectorAll('img, iframe, object, embed, link, main script').length") == 0, "a name has become an element")
    browser.run("document.querySelectorAll('.choice button')[2].click()")
    need(len(shown(browser, "keys")) == len(HOSTILE), f"every name is listed: {shown(browser, 'keys')}")
    browser.run("(() => { const s = document.createElement('script'); s.textContent = \"document.title = 'bad'\"; document.body.append(s); })()")
    need(browser.run("document.title") == str(file) and browser.errors, "the policy lets another script run")


LARGE = [("10000x64", 10_000, 64, 3_000_000), ("1000x1000", 1_000, 1_000, 8_000_000)]

# What a reader of a large page does, one event after another: of each the slowest in milliseconds, and the most elements that the page had then.
EVENTS = """(async () => {
  const next = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const input = document.querySelector("input[type=search]"), scroll = document.querySelectorAll(".scroll")[0];
  const type = (text) => { input.value = text; input.dispatchEvent(new Event("input")); };
  const all = {};
  const act = async (name, what) => {
    await next();
    const begin = performance.now();
    what();
    document.body.offsetHeight;
    const { ms, elements } = all[name] ?? { ms: 0, elements: 0 };
    all[name] = { ms: Math.max(ms, Math.round(performance.now() - begin)), elements: Math.max(elements, document.querySelectorAll("*").length) };
  };
  await act("first", () => type("l"));
  for (const text of ["la", "layers.7", "layers.77", "weight 9"]) await act("search", () => type(text));
  type("");
  [...document.querySelectorAll(".choice button")].at(-1).click();
  for (let n = 0; n < 12; ++n) await act("scroll", () => { scroll.scrollTop += 4000; scroll.dispatchEvent(new Event("scroll")); });
  [...document.querySelectorAll(".choice button")][0].click();
  await act("unfold", () => document.querySelector("[id^=keys-]").click());
  return all;
})()"""


def large(pages, folder):
    """10,000 tensors on 64 ranks, and 10^6 chunks: bytes, ms to the first paint and EVENTS of each page."""
    found = {}
    for name, tensors, ranks, _ in LARGE:
        page = pages.make(name, "inspect", samples.write(folder / name, samples.many(tensors, ranks)))
        pages.open(page)
        paint = pages.browser.run("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? performance.now()")
        found[name] = (page.stat().st_size, paint, pages.browser.run(EVENTS))
    return found


def bounds(pages, folder):
    """A page's bytes, and the elements that it draws at once, do not grow with the checkpoint: this is what keeps an event short. `./dev bench pages`
    has the milliseconds, which a busy machine makes what it likes."""
    for (name, _, _, most), (size, _, events) in zip(LARGE, large(pages, folder).values()):
        need(size < most, f"{name}: {size:,} bytes, at most {most:,}")
        for event, seen in events.items():
            need(seen["elements"] < 5000, f"{name}: {seen['elements']} elements after {event}")
    page = pages.make("bricks", "inspect", samples.write(folder / "bricks", samples.bricks(10, 158)))
    need(page.stat().st_size < 8_000_000, f"250,000 chunks in no grid, in 25,000 files: {page.stat().st_size:,} bytes")
    named = pages.make("named", "inspect", safetensors(folder / "named.safetensors", {f"model.layers.{n // 9}.feed_forward.part.{n % 9}.weight": [n / 7 + 0.1, n / 3, 1e-9 * n] for n in range(10_000)}), "--stats")
    need(named.stat().st_size < 3_000_000, f"statistics of 10,000 tensors: {named.stat().st_size:,} bytes")
    script = (Path(__file__).resolve().parents[2] / "cmd/report/page/page.js").read_text().count("\n")
    need(script < 900, f"the script has {script} lines")


def main():
    if not chromium():
        print("no Chromium here: apt-get install chromium")
        sys.exit(4)
    dcpctl = os.path.abspath(sys.argv[1])
    browser = Browser()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            keep = Path(sys.argv[3]).absolute() if len(sys.argv) > 3 else folder / "pages"
            keep.mkdir(parents=True, exist_ok=True)
            pages = Pages(dcpctl, browser, keep, pictures=len(sys.argv) > 3)
            checkpoints(pages, folder)
            use(pages)
            keyboard(pages)
            paper(pages)
            values(pages, folder)
            others(pages, folder)
            hostile(pages, folder)
            bounds(pages, folder)
    finally:
        browser.close()
    print(f"{len(FAULTS)} do not hold")
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
