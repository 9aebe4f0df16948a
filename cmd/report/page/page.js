"use strict";
// One script for all pages: it draws the sections that the page's data has. Names become text, never markup.
const D = JSON.parse(document.getElementById("data").textContent);

// ---- elements, numbers, colours

// Attributes with the names of properties: class, text, title, on...
function el(tag, props = {}, ...kids) {
  const e = tag instanceof Node ? tag : document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value == null || value === false) continue;
    if (name === "text") e.textContent = value;
    else if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (name === "css") Object.assign(e.style, value);
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...kids.filter((k) => k != null));
  return e;
}
const svg = (tag, props = {}, ...kids) => el(document.createElementNS("http://www.w3.org/2000/svg", tag), props, ...kids);
const grouped = (n) => Number(n).toLocaleString("en-US");
const counted = (n, one) => grouped(n) + " " + one + (n === 1 ? "" : "s");
function human(n) {
  if (n < 1024) return n + " B";
  let unit = -1;
  do (n /= 1024), ++unit;
  while (n >= 1023.95 && unit < 5);
  return n.toFixed(1) + " " + ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][unit];
}
function duration(ns) {
  for (const [unit, of] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]]) if (ns >= of) return Number((ns / of).toPrecision(3)) + " " + unit;
  return ns + " ns";
}
const rounded = (v) => (v !== 0 && Math.abs(v) < 1e-3 ? Number(v.toPrecision(4)).toExponential() : Number(v.toPrecision(4)).toString());
const short = (v) => (v == null ? "" : Number.isInteger(v) && Math.abs(v) < 1e6 ? grouped(v) : rounded(v));
// Not Math.max(...list): a call takes some 10^5 arguments at most.
const largest = (list, of) => list.reduce((most, v) => Math.max(most, of(v) ?? -Infinity), -Infinity);
const smallest = (list, of) => -largest(list, (v) => (of(v) == null ? null : -of(v)));
const onResize = (element, draw) => new ResizeObserver(() => requestAnimationFrame(draw)).observe(element);  // later: drawing may change sizes
const clamp = (v, low, high) => Math.max(low, Math.min(high, v));
const natural = new Intl.Collator("en", { numeric: true }).compare;

const GROUPS = ["model", "optimizer", "other training state"];
const NAMES = ["model", "optimizer", "other", "bad", "heat", "bg", "fg", "mut", "line", "faint"];
let colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const n of NAMES) colours[n] = style.getPropertyValue("--" + n).trim();
}
const hue = (group) => colours[["model", "optimizer", "other"][group]];
const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const mixed = (hex, share) => "rgb(" + rgb(hex).map((v, i) => Math.round(v * share + rgb(colours.bg)[i] * (1 - share))).join(" ") + ")";
// Black or white, whichever reads better: one of them has a contrast of at least 4.58.
function ink(hex) {
  const [r, g, b] = rgb(hex).map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

// What draws again when the window, the scheme or what is highlighted changes.
const redraws = [];
const redraw = () => redraws.forEach((f) => f());
let printing = false;  // on paper, in light colours, tables have more rows than are in view
for (const [name, is] of [["beforeprint", true], ["afterprint", false]])
  addEventListener(name, () => (document.documentElement.classList.toggle("print", (printing = is)), readColours(), redraw()));

// ---- pictures on a canvas, with a tip under the pointer

const tip = el("div", { id: "tip", role: "status" });
function showTip(event, text) {
  tip.textContent = text ?? "";
  tip.hidden = !text;
  if (!text) return;
  tip.style.left = clamp(event.clientX + 14, 4, Math.max(4, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = (event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18) + "px";
}
function withTip(e, textAt) {
  e.addEventListener("pointermove", (event) => showTip(event, textAt(event)));
  e.addEventListener("pointerleave", () => showTip(null, null));
  return e;
}

// draw(context, width, height); told(x, y): the text of what lies there, as shares of the width and height.
function picture(draw, told, label) {
  const canvas = el("canvas", { role: "img", "aria-label": label });
  canvas.paint = () => {
    const { clientWidth: w, clientHeight: h } = canvas, scale = devicePixelRatio || 1;
    if (!w || !h) return;
    canvas.width = Math.round(w * scale), canvas.height = Math.round(h * scale);
    const ctx = canvas.getContext("2d");
    ctx.scale(scale, scale);
    ctx.font = "10px system-ui, sans-serif";
    ctx.textAlign = "center", ctx.textBaseline = "middle";
    draw(ctx, w, h);
  };
  if (told) withTip(canvas, (e) => told(e.offsetX / canvas.clientWidth, e.offsetY / canvas.clientHeight));
  return canvas;
}

function hatch(ctx, x, y, w, h, colour, gap = 5) {
  ctx.save(), ctx.beginPath(), ctx.rect(x, y, w, h), ctx.clip();
  (ctx.strokeStyle = colour), (ctx.lineWidth = 1.2), ctx.beginPath();
  for (let at = x - h - ((x - h) % gap); at < x + w; at += gap) ctx.moveTo(at, y + h), ctx.lineTo(at + h, y);
  ctx.stroke(), ctx.restore();
}

// ---- tables: only the rows in view are in the document

// o: label, columns, rows(), kids(row), text(row) to search in, leaves() that are searched, height of a row, open(row), tools.
// A column: name, show(row), sort(row), number, width, wide (only where there is room), picture(row).
function table(o) {
  const height = o.height ?? 32;
  const opened = new Set();
  let order = null, shown = [], words = [], current = 0;
  const scroller = el("div", { class: "scroll", tabindex: 0, role: o.kids ? "treegrid" : "grid", "aria-label": o.label });
  const head = el("div", { class: "row head", role: "row" }), space = el("div", { class: "space", role: "rowgroup" });
  const count = el("span", { class: "count", role: "status" });
  const search = o.text && el("input", { type: "search", placeholder: "search  /", "aria-label": "search " + o.label, spellcheck: "false", oninput: () => find(search.value) });
  const columns = () => o.columns.filter((c) => !c.wide || scroller.clientWidth >= c.wide);

  function find(text) {
    words = text.toLowerCase().split(/\s+/).filter(Boolean);
    scroller.scrollTop = current = 0;
    update();
  }
  const sorted = (rows) => {
    if (!order) return rows;
    const of = order.column.sort ?? order.column.show, sign = order.up ? 1 : -1;
    return rows.map((r) => [of(r), r]).sort(([a], [b]) => sign * (typeof a === "number" || typeof b === "number" ? (a ?? -Infinity) - (b ?? -Infinity) : natural(a ?? "", b ?? ""))).map(([, r]) => r);
  };
  function unfolded(rows, level, into) {
    for (const row of sorted(rows)) {
      const kids = o.kids?.(row);
      into.push({ row, level, kids });
      if (kids && opened.has(row)) unfolded(kids, level + 1, into);
    }
    return into;
  }
  function update() {
    if (words.length) {
      const found = (o.leaves ?? o.rows)().filter((r) => { const text = o.text(r).toLowerCase(); return words.every((w) => text.includes(w)); });
      shown = sorted(found).map((row) => ({ row, level: 0 }));
    } else shown = unfolded(o.rows(), 0, []);
    count.textContent = words.length ? grouped(shown.length) + " found" : o.counted?.() ?? "";
    draw(true);
  }
  let drawnFrom = -1;
  function draw(anew) {
    const view = printing ? 400 : Math.min(400, Math.ceil((scroller.clientHeight || 600) / height) + 8);
    const from = printing ? 0 : clamp(Math.floor(scroller.scrollTop / height) - 4, 0, Math.max(0, shown.length - 1));
    if (!anew && from === drawnFrom) return;
    drawnFrom = from;
    const cut = columns();
    scroller.style.setProperty("--columns", cut.map((c) => c.width).join(" "));
    scroller.setAttribute("aria-rowcount", shown.length + 1);
    const focused = [...head.children].findIndex((h) => h.contains(document.activeElement));
    if (anew) head.replaceChildren(...cut.map(heading));
    if (anew && focused >= 0) head.children[focused]?.firstChild.focus({ preventScroll: true });
    space.style.height = shown.length * height + "px";
    const rows = shown.slice(from, from + view).map((s, i) => line(s, from + i, cut));
    if (printing && shown.length > view) rows.push(el("div", { class: "row", text: grouped(shown.length - view) + " more rows", css: { transform: `translateY(${view * height}px)`, height: height + "px" } }));
    if (printing) space.style.height = rows.length * height + "px";
    if (!shown.length) rows.push(el("p", { class: "none", text: words.length ? "nothing matches" : "nothing here" }));
    space.replaceChildren(...rows);
    for (const c of space.querySelectorAll("canvas")) c.paint();
  }
  function heading(column) {
    const is = order?.column === column;
    const sort = () => {
      order = !is ? { column, up: !column.number } : order.up === !column.number ? { column, up: !!column.number } : null;
      update();
    };
    return el("div", { role: "columnheader", class: column.number ? "n" : "", "aria-sort": is ? (order.up ? "ascending" : "descending") : "none" },
      column.sort || column.show ? el("button", { text: column.name + (is ? (order.up ? " ▲" : " ▼") : ""), onclick: sort }) : el("span", { text: column.name }));
  }
  function line({ row, level, kids }, at, cut) {
    const act = () => { current = at; kids ? toggle(row) : o.open?.(row); };
    const cells = cut.map((c, n) => {
      const cell = el("div", { role: "gridcell", class: c.number ? "n" : c.picture ? "pic" : n ? "" : "first" });
      if (n === 0 && o.kids) cell.style.paddingLeft = level * 16 + 16 + "px", cell.append(el("span", { class: "fold", "aria-hidden": "true", css: { left: level * 16 + 8 + "px" }, text: kids ? (opened.has(row) ? "▾" : "▸") : "" }));
      if (c.picture) cell.append(...[c.picture(row)].filter(Boolean));
      else {
        const text = String(c.show(row) ?? "");
        cell.append(text);
        if (n === 0 || c.title) cell.title = text;
      }
      const tone = c.tone?.(row);
      if (tone) cell.classList.add(tone);
      return cell;
    });
    return el("div", { class: "row" + (at === current ? " current" : "") + (kids || o.open ? " acts" : ""), role: "row", id: o.id + "-" + at, "aria-rowindex": at + 2, "aria-level": o.kids ? level + 1 : null,
      "aria-expanded": kids ? String(opened.has(row)) : null, css: { transform: `translateY(${at * height}px)`, height: height + "px" }, onclick: act }, ...cells);
  }
  function toggle(row) {
    opened.has(row) ? opened.delete(row) : opened.add(row);
    update();
  }
  scroller.addEventListener("scroll", () => draw(false), { passive: true });
  scroller.addEventListener("keydown", (e) => {
    if (e.target !== scroller) return;
    const at = shown[current], page = Math.max(1, Math.floor(scroller.clientHeight / height) - 2);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 };
    if (e.key in moves) current = clamp(current + moves[e.key], 0, shown.length - 1);
    else if ((e.key === "Enter" || e.key === " ") && at) at.kids ? toggle(at.row) : o.open?.(at.row);
    else if (e.key === "ArrowRight" && at?.kids && !opened.has(at.row)) toggle(at.row);
    else if (e.key === "ArrowLeft" && at?.kids && opened.has(at.row)) toggle(at.row);
    else if (e.key === "ArrowLeft" && at?.level) while (shown[--current].level >= at.level);
    else return;
    e.preventDefault();
    const top = current * height, head = 32;
    scroller.scrollTop = clamp(scroller.scrollTop, top + height + head - scroller.clientHeight, top);
    scroller.setAttribute("aria-activedescendant", o.id + "-" + current);
    draw(true);
  });
  let size = "";
  onResize(scroller, () => { if (size !== (size = scroller.clientWidth + " " + scroller.clientHeight)) draw(true); });
  redraws.push(() => draw(true));
  scroller.append(head, space);
  update();
  const bar = search || o.tools ? el("div", { class: "tools" }, search, ...(o.tools ?? []), count) : null;
  return Object.assign(el("div", { class: "table" }, bar, scroller), { update, find, search });
}

// One of several views.
function choice(label, names, chosen, act) {
  const buttons = names.map((text, n) => el("button", { text, "aria-pressed": String(n === chosen), onclick: () => { buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(i === n))); act(n); } }));
  return el("div", { class: "choice", role: "group", "aria-label": label }, ...buttons);
}

function section(title, ...kids) {
  const e = el("section", { "aria-label": title }, el("h2", { text: title }), ...kids);
  document.querySelector("main").append(e);
  return e;
}
const legend = (...kids) => el("p", { class: "legend" }, ...kids.flat().filter(Boolean));
const key = (kind, text) => el("span", {}, el("i", { class: kind, "aria-hidden": "true" }), text);
const groupKeys = (entries) => GROUPS.map((text, n) => (entries.some((e) => e.group === n) ? key("g" + n, text) : null));

// What is clicked, in full.
function dialog(title, ...kids) {
  const close = el("button", { class: "close", text: "close", onclick: () => d.close() });
  const d = el("dialog", { "aria-label": title, onclose: () => d.remove(), onclick: (e) => e.target === d && d.close() }, el("header", {}, el("h3", { text: title }), close), ...kids);
  document.body.append(d);
  d.showModal();
  d.append(tip);
  d.addEventListener("close", () => document.body.append(tip));
  for (const c of d.querySelectorAll("canvas")) c.paint?.();
}
const facts = (pairs) => el("dl", {}, ...pairs.filter(([, v]) => v != null && v !== "").flatMap(([k, v]) => [el("dt", { text: k }), v instanceof Node ? el("dd", {}, v) : el("dd", { text: v })]));

// ---- a checkpoint: its bytes by prefix, which rank holds what, its files

// Data: who, files, forms, places, entries, folds, offsets, copies; cmd/report/inspect_html.cc says what is in them.
function checkpoint(C) {
  const entries = [];
  let last = "";
  for (const [shared, rest, group, form, place, bytes, value] of C.entries) {
    const name = (last = last.slice(0, shared) + rest);
    const f = form < 0 ? null : C.forms[form];
    entries.push({ name, group, form: f, place: C.places[place], bytes: f ? f.bytes : bytes, value, number: entries.length, lower: null });
  }
  const tensors = entries.filter((e) => e.form);
  const split = C.who.length > 1 && C.forms.some((f) => f.chunks > 1);
  const copied = Object.keys(C.copies).length > 0, missing = C.files.some((f) => f.bytes == null);
  let spot = -1;  // the rank whose cells are highlighted

  // A place: files of chunks, a negative number -n for the n that follow the one before it.
  const filesOf = (e) => (e.files ??= e.place ? e.place.flatMap((f, n) => (f < 0 ? Array.from({ length: -f }, (_, i) => e.place[n - 1] + 1 + i) : [f])) : null);
  const isGone = (file) => file < C.files.length && C.files[file].bytes == null;
  const whoOf = (file) => C.files[file]?.who ?? -1;
  const called = (who) => (who < 0 ? "no file" : C.ranks ? "rank " + C.who[who].name : C.who[who].name);
  const slice = (box) => "[" + box.map(([at, size]) => at + ":" + (at + size)).join(", ") + "]";

  // Boxes of chunks: a grid's cuts of each dim (0: not cut, n: each n, else sizes), or all of them one by one.
  function cutsOf(f) {
    return (f.sides ??= f.cuts.map((cut, d) => {
      const sides = [], n = f.shape[d];
      if (cut === 0) return [[0, n]];
      for (let at = 0, i = 0; at < n; ++i) sides.push([at, Math.min(cut[i] ?? cut, n - at)]), (at += cut[i] ?? cut);
      return sides;
    }));
  }
  function boxOf(f, chunk) {
    if (f.boxes) return f.shape.map((_, d) => [f.boxes[2 * f.shape.length * chunk + d], f.boxes[2 * f.shape.length * chunk + f.shape.length + d]]);
    if (!f.cuts) return null;
    if (chunk >= f.chunks - (f.empty ?? 0)) return f.shape.map((n, d) => (f.cuts[d] !== 0 ? [n, 0] : [0, n]));
    const box = [];
    for (let d = f.shape.length; d-- > 0; ) {
      const sides = cutsOf(f)[d];
      box[d] = sides[chunk % sides.length];
      chunk = Math.floor(chunk / sides.length);
    }
    return box;
  }
  // Cells in shares of the picture: on the two dims that are cut most, of which the first lies down.
  function cellsOf(f) {
    if (f.cells) return f.cells;
    const rank = f.shape.length, live = f.chunks - (f.empty ?? 0);
    if (f.shape.some((n) => n === 0) || (!f.boxes && !f.cuts)) return (f.cells = []);
    const counts = f.shape.map((_, d) => (f.boxes ? new Set(Array.from({ length: live }, (_, c) => f.boxes[2 * rank * c + d])).size : cutsOf(f)[d].length));
    const most = counts.map((n, d) => [n, d]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, 2).map(([, d]) => d).sort((a, b) => a - b);
    const [down, across] = rank < 2 ? [-1, 0] : counts[most[1]] === 1 && counts[most[0]] > 1 ? [-1, most[0]] : counts[most[0]] === 1 ? [-1, most[1]] : most;
    const step = Math.ceil(live / 4000);
    f.cells = [];
    for (let c = 0; c < live; c += step) {
      const box = boxOf(f, c), side = (d) => (d < 0 || rank === 0 ? [0, 1] : [box[d][0] / f.shape[d], box[d][1] / f.shape[d]]);
      f.cells.push([...side(across), ...side(down), c]);
    }
    return f.cells;
  }
  const cell = (ctx, [x, width, y, height], w, h, colour, at, pale = mixed(colour, 0.72)) => {
    const left = Math.round(x * w * 4) / 4, top = y * h, right = (x + width) * w, bottom = (y + height) * h;
    const gap = right - left >= 4 && bottom - top >= 3 ? 1 : 0;
    ctx.fillStyle = gap || at % 2 ? colour : pale;
    ctx.fillRect(left, top, Math.max(right - left - gap, 1), Math.max(bottom - top - gap, 1));
    return [left, top, Math.max(right - left - gap, 1), Math.max(bottom - top - gap, 1)];
  };
  function label(ctx, [x, y, w, h], text, colour, hatched) {
    if (h < 11 || w < 7 * text.length + 4) return;
    ctx.fillStyle = colour;
    if (hatched) ctx.fillRect(x + w / 2 - 3.5 * text.length - 2, y + h / 2 - 5.5, 7 * text.length + 4, 11);
    ctx.fillStyle = ink(colour);
    ctx.fillText(text, x + w / 2, y + h / 2 + 0.5);
  }
  function drawEntry(ctx, w, h, e) {
    const files = filesOf(e), colour = hue(e.group), f = e.form, pale = mixed(colour, 0.72), dark = ink(colour), whole = split && f?.chunks === 1;
    if (f && !f.boxes && !f.cuts) return hatch(ctx, 0, 0, w, h, colours.mut, 9);
    const cells = f ? cellsOf(f) : [[0, 1, 0, 1, 0]];
    // Of more cells than can be told apart, with nothing to say of any: their colour.
    if (cells.length > w && spot < 0 && !missing && !copied) return (ctx.fillStyle = pale), ctx.fillRect(0, 0, w, h);
    for (const at of cells) {
      const file = files?.[at[4]], who = whoOf(file), lies = file < C.files.length;
      ctx.globalAlpha = spot < 0 || who === spot ? 1 : 0.16;
      const drawn = cell(ctx, at, w, h, lies || !files ? colour : colours.bad, at[4], pale);
      const twice = copied && C.copies[e.number + "," + at[4]], gone = isGone(file);
      if (whole || twice) hatch(ctx, ...drawn, dark + "80", 6);
      if (gone) hatch(ctx, ...drawn, colours.bad, 4);
      if (C.ranks && who >= 0 && !whole && ctx.globalAlpha === 1) label(ctx, drawn, C.who[who].name, colour, twice || gone);
    }
    ctx.globalAlpha = 1;
  }
  function tellEntry(x, y, e) {
    const f = e.form, found = f ? cellsOf(f).find(([l, w, t, h]) => x >= l && x < l + w && y >= t && y < t + h) : [0, 0, 0, 0, 0];
    if (!found) return f && !f.cells?.length && f.chunks ? counted(f.chunks, "chunk") + "; click for the command that lists them" : null;
    return tellChunk(e, found[4]);
  }
  function tellChunk(e, c) {
    const box = e.form && boxOf(e.form, c), file = filesOf(e)?.[c], copies = C.copies[e.number + "," + c];
    const at = C.offsets?.[e.number];
    return (box ? slice(box) + " " : "") + (file == null ? "" : file < C.files.length ? "in " + C.files[file].name + (C.ranks ? " (" + called(whoOf(file)) + ")" : "") : "in no file") +
      (at ? " at " + grouped(at[2 * c]) : "") + (copies ? ", and the same in " + copies.map((n) => C.files[n].name).join(", ") : "");
  }

  // What a row of the table is about: one entry, or several.
  const several = (label, ids, kids) => {
    const all = ids.map((n) => entries[n]), first = all[0], alike = all.every((e) => e.form === first.form);
    const said = (of) => (all.every((e) => e.form && String(of(e.form)) === String(of(first.form))) ? of(first.form) : null);
    const common = alike ? first.form : { dtype: said((f) => f.dtype), shape: said((f) => f.shape), words: said((f) => f.words) };
    return { label, all, first, alike: alike && !!first.form, common, kids, bytes: all.reduce((sum, e) => sum + e.bytes, 0) };
  };
  const folds = C.folds.map(([label, ids]) => (ids.length === 1 ? entries[ids[0]] : several(label, ids, ids.map((n) => entries[n]))));

  const root = { name: "", label: C.path, kids: new Map(), ids: [], bytes: 0 };
  for (const e of entries) {
    let node = root;
    for (const word of e.name.split(".")) {
      node.ids.push(e.number), (node.bytes += e.bytes);
      if (!node.kids.has(word)) node.kids.set(word, { name: node === root ? word : node.name + "." + word, label: word, kids: new Map(), ids: [], bytes: 0, up: node });
      node = node.kids.get(word);
    }
    node.ids.push(e.number), (node.bytes += e.bytes), (node.entry = e);
  }
  // A dict with one thing in it is not a step.
  function inside(node) {
    while (node.kids.size === 1 && node.entry == null) node = [...node.kids.values()][0];
    return node;
  }
  const below = (node) => (node.below ??= [...(node.entry && node.kids.size ? [{ ...node, kids: new Map(), bytes: node.entry.bytes, ids: [node.entry.number] }] : []), ...[...node.kids.values()].map(inside)]);
  const rowOf = (node) => (node.row ??= node.entry && !node.kids.size ? node.entry : several(node.name, node.ids, null));
  const rowsBelow = (node) => below(node).map((n) => { const row = rowOf(n); if (!row.form && row.all) row.node = n; return row; });

  treemap(root);
  loads();
  const main = rows();
  files();

  // --- bytes by prefix
  function treemap(root) {
    const box = el("div", { class: "map", role: "group", "aria-label": "bytes by prefix: arrow keys move, Enter goes in, Backspace out" });
    const path = el("nav", { class: "crumbs", "aria-label": "where in the keys" });
    let at = root;
    const go = (node) => { const had = [box, path].some((e) => e.contains(document.activeElement)); at = node; draw(); if (had) box.querySelector("button")?.focus({ preventScroll: true }); };
    const open = (node) => (node.kids.size ? go(node) : node.entry && show(node.entry));
    function draw() {
      const W = box.clientWidth, H = box.clientHeight, cells = [];
      const trail = [];
      for (let n = at; n; n = n.up) trail.unshift(n);
      path.replaceChildren(...trail.flatMap((n, i) => [i ? " › " : null, el("button", { text: n.label || "(empty)", "aria-current": n === at ? "location" : null, onclick: () => go(n) })]).filter(Boolean), el("span", { text: human(at.bytes) + ", " + counted(at.ids.length, "key") }));
      if (!at.bytes) return box.replaceChildren(el("p", { class: "none", text: "no bytes here" }));
      lay(at, 0, 0, W, H, 0, cells);
      box.replaceChildren(...cells);
      cells[0]?.setAttribute("tabindex", 0);
    }
    function lay(node, x, y, w, h, depth, cells) {
      const kids = few(node, (w * h) / 500).sort((a, b) => b.bytes - a.bytes);
      squarified(kids, x, y, w, h, (kid, kx, ky, kw, kh) => {
        if (kw < 2 || kh < 2 || cells.length > 1200) return;
        const nest = kid.kids.size > 0 && !kid.part && Math.min(kw, kh) > 40 && kw * kh > Math.max(3000, (box.clientWidth * box.clientHeight) / 300) && depth < 5;
        cells.push(tile(kid, within(node, kid), { x: kx, y: ky, w: kw, h: kh }, nest));
        if (nest) lay(kid, kx + 2, ky + 18, kw - 4, kh - 20, depth + 1, cells);
      });
    }
    const within = (node, kid) => (kid.name.startsWith(node.name + ".") ? kid.name.slice(node.name.length + 1) : node.part ? within(node.up, kid) : kid.name);
    // Of more kids than there is room for, neighbours are one: of many, there is room for a name on each.
    function few(node, room) {
      const kids = below(node).filter((k) => k.bytes > 0), size = Math.ceil(kids.length / clamp(kids.length > 60 ? room / 10 : room, 4, 600));
      if (size < 2) return kids;
      return Array.from({ length: Math.ceil(kids.length / size) }, (_, n) => {
        const some = kids.slice(n * size, (n + 1) * size), [first, last] = [some[0], some[some.length - 1]].map((k) => within(node, k).split(".")[0]), label = some.length > 1 ? first + "–" + last : first;
        return { name: (node.name ? node.name + "." : "") + label, label, kids: new Map(some.map((k) => [k.name, k])), ids: some.flatMap((k) => k.ids), bytes: some.reduce((sum, k) => sum + k.bytes, 0), up: node, part: true };
      });
    }
    const across = (x) => (100 * x) / box.clientWidth + "%", down = (y) => (100 * y) / box.clientHeight + "%";  // on paper it is narrower
    function tile(node, own, { x, y, w, h }, nest) {
      const by = [0, 0, 0];
      for (const n of node.ids) by[entries[n].group] += entries[n].bytes;
      const group = by.indexOf(Math.max(...by));
      const text = node.name + ": " + human(node.bytes) + " (" + Number((100 * node.bytes / root.bytes).toPrecision(2)) + " %), " + counted(node.ids.length, "key") + (node.entry?.form && !node.kids.size ? ", " + node.entry.form.dtype + " [" + node.entry.form.shape.join(", ") + "]" : "");
      const fill = nest ? null : hue(group);
      const b = el("button", { class: nest ? "tile nest" : "tile", tabindex: -1, "aria-label": text, onclick: () => open(node), css: { left: across(x), top: down(y), width: across(w - 1), height: down(h - 1), background: fill ?? "", color: fill ? ink(fill) : "" } });
      if (h > 15 && w > 36) b.append(el("b", { text: own || node.label }), h > 34 && !nest || nest && w > 8 * (own || node.label).length + 84 ? el("small", { text: human(node.bytes) }) : "");
      b.node = node;
      return withTip(b, () => text);
    }
    box.addEventListener("keydown", (e) => {
      const all = [...box.querySelectorAll("button")], from = document.activeElement;
      const next = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
      if (next) {
        const to = all[clamp(all.indexOf(from) + next, 0, all.length - 1)];
        all.forEach((b) => b.setAttribute("tabindex", b === to ? 0 : -1));
        to?.focus();
      } else if (e.key === "Backspace" && at.up) go(at.up);
      else return;
      e.preventDefault();
    });
    section("Where the bytes are", legend(...groupKeys(entries)), path, box);
    redraws.push(draw);
    onResize(box, draw);
  }
  // Rows whose boxes are as square as they can be (Bruls, Huizing, van Wijk).
  function squarified(kids, x, y, w, h, place) {
    const total = kids.reduce((sum, k) => sum + k.bytes, 0);
    if (total <= 0 || w <= 0 || h <= 0) return;
    const scale = (w * h) / total;
    for (let from = 0; from < kids.length; ) {
      const side = Math.min(w, h);
      let sum = 0, worst = Infinity, to = from;
      for (; to < kids.length; ++to) {
        const next = sum + kids[to].bytes * scale, least = kids[to].bytes * scale, most = kids[from].bytes * scale;
        const ratio = Math.max((side * side * most) / (next * next), (next * next) / (side * side * least));
        if (ratio > worst) break;
        (sum = next), (worst = ratio);
      }
      const thick = sum / side;
      for (let i = from, at = 0; i < to; ++i) {
        const long = (kids[i].bytes * scale) / thick;
        w >= h ? place(kids[i], x, y + at, thick, long) : place(kids[i], x + at, y, long, thick);
        at += long;
      }
      if (w >= h) (x += thick), (w -= thick);
      else (y += thick), (h -= thick);
      from = to;
    }
  }

  // --- bytes of each rank
  function loads() {
    const sums = C.who.map((w) => w.bytes.reduce((a, b) => a + b, 0)), most = Math.max(1, ...sums), mean = sums.reduce((a, b) => a + b, 0) / Math.max(1, sums.length);
    if (C.who.length < 2) return;
    const at = (x) => clamp(Math.floor(x * C.who.length), 0, C.who.length - 1);
    const tell = (n) => called(n) + ": " + human(sums[n]) + ", " + (sums[n] / mean).toFixed(2) + " times the mean" + C.who[n].bytes.map((b, g) => (b ? "; " + GROUPS[g] + " " + human(b) : "")).join("") + "; " + counted(C.who[n].tensors, "tensor");
    const chart = picture((ctx, w, h) => {
      const wide = w / C.who.length, top = h - 2;
      C.who.forEach((who, n) => {
        let y = h;
        ctx.globalAlpha = spot < 0 || spot === n ? 1 : 0.25;
        who.bytes.forEach((b, g) => { const tall = (b / most) * top; ctx.fillStyle = hue(g); ctx.fillRect(n * wide, y - tall, Math.max(wide - (wide > 3 ? 1 : 0), 0.5), tall); y -= tall; });
      });
      ctx.globalAlpha = 1;
      ctx.strokeStyle = colours.fg;
      ctx.setLineDash([5, 4]);
      ctx.beginPath(), ctx.moveTo(0, h - (mean / most) * top), ctx.lineTo(w, h - (mean / most) * top), ctx.stroke();
    }, (x) => tell(at(x)), "bytes of each " + (C.ranks ? "rank" : "file"));
    chart.classList.add("loads");
    chart.addEventListener("click", (e) => { const n = at(e.offsetX / chart.clientWidth); pick(spot === n ? -1 : n); });
    redraws.push(chart.paint);
    onResize(chart, chart.paint);
    const even = sums.every((s) => s === sums[0]), top = sums.indexOf(most);
    const words = even ? "All hold the same: " + human(most) + "." : called(top) + " holds the most: " + human(most) + ", " + (most / mean).toFixed(2) + " times the mean of " + human(mean | 0 || mean) + ".";
    const more = C.most.map((m) => el("li", { text: m.keys + ": " + human(m.bytes) + (m.alone ? ", nobody else has any of it" : ", " + human(m.beyond) + " more than the mean") }));
    const choose = el("select", { "aria-label": "highlight one", onchange: () => pick(Number(choose.value)) }, el("option", { value: -1, text: "all" }), ...C.who.map((w, n) => el("option", { value: n, text: called(n) })));
    const pick = (n) => { spot = n; choose.value = n; redraw(); };
    section("Bytes of each " + (C.ranks ? "rank" : "file"), el("p", { text: words }), more.length ? el("ul", {}, ...more) : null,
      chart, el("p", { class: "axis" }, el("span", { text: called(0) }), el("span", { text: "mean: dashed; 0 to " + human(most) }), el("span", { text: called(C.who.length - 1) })),
      el("p", { class: "tools" }, el("label", {}, "highlight ", choose), el("span", { class: "count", text: "here and among the tensors" })));
  }

  // --- keys, folded
  function rows() {
    const views = [() => folds, () => rowsBelow(inside(root)), () => entries];
    let view = 0;
    const f = (r) => r.form ?? r.common;
    const t = table({
      id: "keys", label: "tensors and objects", rows: () => views[view](), kids: (r) => r.kids ?? (r.node ? rowsBelow(r.node) : null),
      leaves: () => entries, text: (e) => (e.lower ??= e.name + " " + (e.form ? e.form.dtype + " [" + e.form.shape.join(", ") + "] " + e.form.words : "object " + (e.value ?? ""))),
      counted: () => counted(tensors.length, "tensor") + ", " + counted(entries.length - tensors.length, "object"), open: show,
      tools: [choice("rows", ["folded", "by prefix", "each key"], 0, (n) => { view = n; t.update(); })],
      columns: [
        { name: "key", width: "minmax(150px, 2.2fr)", show: (r) => (r.all ? r.label : r.name + (r.value != null ? " = " + r.value : "")), sort: (r) => r.label ?? r.name },
        { name: "×", number: true, width: "46px", wide: 760, show: (r) => (r.all ? grouped(r.all.length) : ""), sort: (r) => r.all?.length ?? 1 },
        { name: "dtype", width: "70px", title: true, show: (r) => f(r)?.dtype ?? (r.all ? "" : "object") },
        { name: "shape", width: "112px", title: true, show: (r) => (f(r)?.shape ? "[" + f(r).shape.join(", ") + "]" : ""), sort: (r) => f(r)?.shape?.reduce((a, b) => a * b, 1) ?? -1 },
        { name: "bytes", number: true, width: "80px", show: (r) => human(r.bytes), sort: (r) => r.bytes },
        { name: "sharding", width: "150px", wide: 860, title: true, show: (r) => f(r)?.words ?? "" },
        { name: C.ranks ? "which rank holds what" : "which file holds what", width: "minmax(110px, 1.6fr)", picture: held },
      ],
    });
    section("Tensors", legend(...groupKeys(entries), split || copied ? key("hatched", "not split: one copy for all, or the same in several files") : null, missing ? key("unlike", "its file is missing") : null, key("none", "each cell is a chunk, true to scale" + (C.ranks ? ", with the number of its rank" : ""))), t);
    return t;
  }
  function held(r) {
    if (!r.all) return r.place ? picture((ctx, w, h) => drawEntry(ctx, w, h, r), (x, y) => tellEntry(x, y, r), (r.form?.words ?? "object") + " in " + heldBy(r)) : null;
    if (r.alike && r.all.every((e) => e.place === r.first.place)) return held(r.first);
    // Unlike ones: each a cell as wide as its bytes.
    const sum = r.bytes || 1, cells = [];
    let x = 0;
    for (const e of r.all) cells.push([x / sum, e.bytes / sum, 0, 1, e]), (x += e.bytes);
    return picture((ctx, w, h) => {
      const step = Math.ceil(cells.length / (2 * w));
      cells.forEach(([x, width, y, height, e], n) => {
        if (n % step) return;
        const files = filesOf(e), one = files?.length === 1 ? whoOf(files[0]) : -1;
        ctx.globalAlpha = spot < 0 || files?.some((f) => whoOf(f) === spot) ? 1 : 0.16;
        const drawn = cell(ctx, [x, width, y, height], w, h, hue(e.group), n);
        if (split && e.form?.chunks === 1) hatch(ctx, ...drawn, ink(hue(e.group)) + "80", 6);
        if (missing && files?.some(isGone)) hatch(ctx, ...drawn, colours.bad, 4);
        if (C.ranks && one >= 0 && !(split && e.form?.chunks === 1) && ctx.globalAlpha === 1) label(ctx, drawn, C.who[one].name, hue(e.group), missing && isGone(files[0]));
      });
      ctx.globalAlpha = 1;
    }, (x) => { const at = cells.find(([l, w]) => x >= l && x < l + w); return at && at[4].name + ": " + human(at[4].bytes) + ", " + heldBy(at[4]); }, counted(r.all.length, "key"));
  }
  function heldBy(e) {
    const who = [...new Set((filesOf(e) ?? []).map(whoOf))];
    return who.length > 1 ? counted(who.length, C.ranks ? "rank" : "file") : who.length ? called(who[0]) : "no file";
  }
  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'");

  function show(e) {
    const f = e.form, files = filesOf(e), at = C.offsets?.[e.number], chunks = f ? f.chunks : 1;
    const command = e.name.includes("\\") ? null : el("code", { class: "command", text: "dcpctl inspect " + quoted(C.path) + " --chunks --key " + quoted(e.name) });
    const list = table({
      id: "chunks", label: "chunks", height: 24, rows: () => Array.from({ length: chunks }, (_, c) => c), counted: () => counted(chunks, "chunk"), tools: [],
      columns: [
        { name: "chunk", width: "minmax(140px, 1.5fr)", show: (c) => (f ? (boxOf(f, c) ? slice(boxOf(f, c)) : "not held in this page") : "object"), sort: (c) => c },
        { name: C.ranks ? "rank" : "", width: "60px", number: true, show: (c) => (C.ranks && files && whoOf(files[c]) >= 0 ? C.who[whoOf(files[c])].name : "") },
        { name: "file", width: "minmax(120px, 1fr)", title: true, show: (c) => (files ? C.files[files[c]]?.name ?? "none" : "not held in this page") },
        { name: "offset", width: "120px", number: true, show: (c) => grouped(at[2 * c]), sort: (c) => at[2 * c] },
        { name: "bytes in file", width: "110px", number: true, show: (c) => grouped(at[2 * c + 1]), sort: (c) => at[2 * c + 1] },
      ].slice(0, at ? 5 : 3),
    });
    const large = held(e);
    large?.classList.add("large");
    dialog(e.name, facts([["what", f ? f.dtype + " [" + f.shape.join(", ") + "]" : "object"], ["value", e.value], ["bytes", human(e.bytes) + " (" + grouped(e.bytes) + ")"], ["part of", GROUPS[e.group]], ["sharding", f?.words], ["held by", heldBy(e)], [at ? null : "offsets", at ? null : command]].filter(([k]) => k)), large, list);
  }

  // --- files
  function files() {
    const most = Math.max(1, ...C.files.map((f) => f.bytes ?? 0)), extent = (f) => Math.max(most, f.bytes ?? 0);
    const marks = C.files.map(() => []);
    for (const p of D.findings) if (p.file >= 0 && p.tone) marks[p.file].push(p);
    const bar = (f) => picture((ctx, w, h) => {
      const x = (n) => (n / most) * w;
      if (f.bytes == null) return hatch(ctx, 0, 0, w, h, colours.bad, 7);
      ctx.fillStyle = colours.faint;
      ctx.fillRect(0, 0, Math.max(1, x(f.bytes)), h);
      hatch(ctx, 0, 0, Math.max(1, x(f.bytes)), h, colours.mut, 6);
      for (let n = 0, at = 0; n < f.parts.length; n += 3) {
        at += f.parts[n];
        ctx.fillStyle = hue(f.parts[n + 2]);
        ctx.fillRect(x(at), 0, Math.max(x(f.parts[n + 1]), 0.6), h);
        at += f.parts[n + 1];
      }
      ctx.fillStyle = colours.bad;
      for (const p of f.marks) { const l = x(Math.min(p.offset ?? 0, extent(f))); ctx.fillRect(Math.min(l, w - 3), 0, Math.max(3, x(Math.min(p.length ?? 0, f.bytes))), h); }
    }, (share) => told(f, share * most), f.name + ": " + (f.bytes == null ? "missing" : human(f.bytes)));
    function told(f, at) {
      const near = f.marks.find((p) => p.offset != null && at >= p.offset - most / 150 && at <= p.offset + (p.length ?? 0) + most / 150);
      if (near) return near.text;
      for (let n = 0, from = 0; n < f.parts.length; n += 3) {
        from += f.parts[n];
        if (at >= from && at < from + f.parts[n + 1]) return GROUPS[f.parts[n + 2]] + ": bytes " + grouped(from) + " to " + grouped(from + f.parts[n + 1]);
        from += f.parts[n + 1];
      }
      return f.bytes == null ? "missing" : at < f.bytes ? (C.partial ? "not of what is shown" : "in no item") : null;
    }
    C.files.forEach((f, n) => (f.marks = marks[n]));
    const t = table({
      id: "files", label: "files", height: 24, rows: () => C.files, text: (f) => f.name, counted: () => counted(C.files.length, "file"),
      columns: [
        { name: "file", width: "minmax(130px, 1fr)", show: (f) => f.name },
        { name: "bytes", number: true, width: "96px", show: (f) => (f.bytes == null ? "missing" : human(f.bytes)), tone: (f) => (f.bytes == null ? "bad" : ""), sort: (f) => f.bytes ?? -1 },
        { name: "items", number: true, width: "64px", show: (f) => grouped(f.items), sort: (f) => f.items },
        { name: "unreferenced", number: true, width: "104px", show: (f) => (f.bytes == null ? "" : human(f.free)), sort: (f) => f.free },
        { name: "findings", number: true, width: "72px", wide: 760, show: (f) => f.marks.length || "", tone: (f) => (f.marks.length ? "bad" : ""), sort: (f) => f.marks.length },
        { name: "what lies where", width: "minmax(150px, 3fr)", picture: bar },
      ],
    });
    section("Files", legend(...groupKeys(entries), key("free", C.partial ? "not of what is shown" : "in no item"), missing ? key("unlike", "missing") : null, marks.some((m) => m.length) ? key("bad", "a finding") : null), t);
  }
  return main;
}

// ---- layers side by side: rows are keys with their first number left out, cells are its values

function byLayer(keys, nameOf) {
  const rows = new Map();
  for (const k of keys) {
    const words = nameOf(k).split("."), at = words.findIndex((w) => /^\d+$/.test(w));
    const layer = at < 0 ? null : Number(words[at]);
    if (at >= 0) words[at] = "*";
    const label = words.join(".");
    if (!rows.has(label)) rows.set(label, { label, of: new Map(), all: [] });
    rows.get(label).of.set(layer, k);
    rows.get(label).all.push(k);
  }
  for (const r of rows.values()) if (r.all.length === 1) (r.of = new Map([[null, r.all[0]]])), (r.label = nameOf(r.all[0]));
  const layers = [...new Set([...rows.values()].flatMap((r) => [...r.of.keys()]))].filter((l) => l != null).sort((a, b) => a - b);
  return { rows: [...rows.values()].sort((a, b) => natural(a.label, b.label)), layers };
}
// paint(context, x, y, width, height, key) of each cell; a row without layers is one cell.
function layerStrip(row, layers, paint, tell) {
  const cells = row.of.has(null) ? [null] : layers;
  return picture((ctx, w, h) => {
    const wide = w / cells.length, gap = wide > 4 ? 1 : 0;
    cells.forEach((layer, n) => row.of.has(layer) && paint(ctx, n * wide, 0, Math.max(wide - gap, 0.7), h, row.of.get(layer)));
  }, (x) => { const k = row.of.get(cells[clamp(Math.floor(x * cells.length), 0, cells.length - 1)]); return k && tell(k); }, row.label);
}

// Shades of an error: from 1e-8, which is hardly seen, to 1.
const shade = (error) => (error > 0 ? clamp((Math.log10(error) + 8) / 8, 0, 1) * 0.88 + 0.12 : 0);

function diff(S) {
  const what = ["values", "only in the first", "only in the second", "unlike: dtype, shape or object"];
  const keys = [...S.keys.map(([name, kind, error, text, share, absolute, wild]) => ({ name, kind, error, text, share, absolute, wild })), ...S.equal.map((name) => ({ name, kind: -1, text: "equal" }))];
  const { rows, layers } = byLayer(keys, (k) => k.name);
  for (const r of rows) {
    r.worst = largest(r.all, (k) => (k.kind > 0 || k.wild ? Infinity : k.kind < 0 ? 0 : k.error ?? Number.MAX_VALUE));
    r.largest = r.all.some((k) => k.kind < 0 || k.error != null) ? largest(r.all, (k) => k.error ?? 0) : null;
    r.changed = r.all.filter((k) => k.kind >= 0).length;
  }
  const paint = (ctx, x, y, w, h, k) => {
    ctx.fillStyle = k.kind < 0 ? colours.faint : k.kind > 0 ? colours.bg : k.error == null || k.wild ? colours.bad : mixed(colours.heat, shade(k.error));
    ctx.fillRect(x, y, w, h);
    if (k.kind > 0) hatch(ctx, x, y, w, h, [null, colours.optimizer, colours.model, colours.bad][k.kind], 4);
  };
  const tell = (k) => k.name + ": " + k.text;
  const scale = picture((ctx, w, h) => { for (let n = 0; n < 64; ++n) (ctx.fillStyle = mixed(colours.heat, shade(10 ** (-8 + n / 8)))), ctx.fillRect((n * w) / 64, 0, w / 64 + 1, h); }, null, "from 1e-8 to 1");
  const strip = table({
    id: "layers", label: "layers that changed", rows: () => rows, text: (r) => r.label, counted: () => grouped(rows.filter((r) => r.changed).length) + " of " + counted(rows.length, "kind") + " changed",
    columns: [
      { name: "kind of tensor", width: "minmax(170px, 1fr)", show: (r) => r.label },
      { name: "changed", number: true, width: "96px", show: (r) => grouped(r.changed) + " of " + grouped(r.all.length), sort: (r) => r.changed },
      { name: "relative", number: true, width: "84px", show: (r) => short(r.largest), sort: (r) => r.worst },
      { name: layers.length ? "layers " + layers[0] + " to " + layers[layers.length - 1] : "", width: "minmax(180px, 2.4fr)", picture: (r) => layerStrip(r, layers, paint, tell) },
    ],
  });
  section("Which layers changed", legend(el("span", {}, "relative error ", el("span", { class: "scale" }, "1e-8", scale, "1")), key("equal", "equal"), key("first", "only in the first"), key("second", "only in the second"), key("unlike", "another dtype, shape or object"), key("bad", "NaN or infinite")), strip);
  redraws.push(scale.paint), scale.paint();
  const all = keys.filter((k) => k.kind >= 0);
  const t = table({
    id: "differences", label: "differences", rows: () => all, text: (k) => k.name + " " + k.text, counted: () => counted(all.length, "key"), open: (k) => dialog(k.name, facts([["what", what[k.kind]], ["how", k.text]])),
    columns: [
      { name: "key", width: "minmax(180px, 1.5fr)", show: (k) => ["~ ", "- ", "+ ", "~ "][k.kind] + k.name, sort: (k) => k.name },
      { name: "differ", number: true, width: "72px", show: (k) => (k.share == null ? "" : short(100 * k.share) + " %"), sort: (k) => k.share ?? -1 },
      { name: "largest", number: true, width: "88px", show: (k) => short(k.absolute), sort: (k) => k.absolute ?? -1 },
      { name: "relative", number: true, width: "88px", show: (k) => short(k.error), sort: (k) => k.error ?? -1 },
      { name: "how", width: "minmax(160px, 2fr)", wide: 640, title: true, show: (k) => k.text },
    ],
  });
  section("Each difference", t);
  return t;
}

// Counts by powers of ten, the lowest first; light is few, on a log scale.
function stats(S) {
  for (const k of S.keys) (k.most = Math.max(1, ...(k.counts ?? []))), (k.bad = (k.nan ?? 0) + (k.inf ?? 0)), (k.zeros = k.zero ? k.zero / k.values : 0);
  const { rows, layers } = byLayer(S.keys, (k) => k.key);
  const used = S.keys.filter((k) => k.counts?.length), low = Math.min(0, smallest(used, (k) => k.first)), high = Math.max(1, largest(used, (k) => k.first + k.counts.length));
  const power = (n) => "1e" + n;
  for (const r of rows) {
    const std = r.all.map((k) => k.std).filter((v) => v > 0).sort((a, b) => a - b), middle = std[std.length >> 1];
    for (const k of r.all) k.off = std.length > 2 && k.std > 0 ? Math.abs(Math.log2(k.std / middle)) : 0;
    const known = r.all.filter((k) => k.min != null), sum = (of, all = known) => all.reduce((s, k) => s + of(k), 0), finite = (k) => k.values - k.bad;
    (r.off = largest(r.all, (k) => k.off)), (r.bad = sum((k) => k.bad, r.all)), (r.zeros = sum((k) => k.zero ?? 0, r.all) / Math.max(1, sum((k) => k.values ?? 0, r.all)));
    if (!known.length) continue;
    (r.min = smallest(known, (k) => k.min)), (r.max = largest(known, (k) => k.max)), (r.mean = sum((k) => finite(k) * k.mean) / sum(finite));
    r.std = known.length === 1 ? known[0].std : Math.sqrt(sum((k) => (finite(k) - 1) * k.std ** 2 + finite(k) * (k.mean - r.mean) ** 2) / (sum(finite) - 1));
  }
  const paint = (ctx, x, y, w, h, k) => {
    ctx.fillStyle = colours.faint, ctx.fillRect(x, y, w, h);
    const tall = h / (high - low);
    k.counts?.forEach((n, d) => { if (n) (ctx.fillStyle = mixed(colours.heat, 0.12 + (0.88 * Math.log(1 + n)) / Math.log(1 + k.most))), ctx.fillRect(x, y + h - (k.first + d - low + 1) * tall, w, tall); });
    if (k.bad) (ctx.fillStyle = colours.bad), ctx.fillRect(x, y, w, 5);
    (ctx.fillStyle = colours.mut), ctx.fillRect(x, y + h - 4, w * k.zeros, 4);
    if (k.off > 1) (ctx.strokeStyle = colours.fg), ctx.strokeRect(x + 0.5, y + 0.5, Math.max(w - 1, 1), h - 1);
  };
  const tell = (k) => k.key + ": " + (k.fault ?? (k.std == null && k.min == null ? "no numbers" : short(k.min) + " to " + short(k.max) + ", mean " + short(k.mean) + ", std " + short(k.std) + (k.zero ? ", " + grouped(k.zero) + " zeros" : "") + (k.nan ? ", " + grouped(k.nan) + " NaN" : "") + (k.inf ? ", " + grouped(k.inf) + " inf" : "")));
  const bars = (k) => picture((ctx, w, h) => {
    const wide = w / (high - low);
    k.counts?.forEach((n, d) => { const tall = n ? Math.max(1, ((h - 5) * Math.log(1 + n)) / Math.log(1 + k.most)) : 0; ctx.fillStyle = colours.heat; ctx.fillRect((k.first + d - low) * wide, h - 5 - tall, Math.max(wide - 1, 1), tall); });
    (ctx.fillStyle = colours.mut), ctx.fillRect(0, h - 4, w * k.zeros, 4);
    if (k.bad) (ctx.fillStyle = colours.bad), ctx.fillRect(0, 0, w, 5);
  }, (x) => { const d = Math.floor(low + x * (high - low)), n = k.counts?.[d - k.first] ?? 0; return power(d) + " to " + power(d + 1) + ": " + grouped(n) + " of " + grouped(k.values); }, tell(k));
  const open = (k) => dialog(k.key, facts([["what", k.dtype + " [" + k.shape.join(", ") + "]"], ["values", grouped(k.values ?? 0)], ["min", short(k.min)], ["max", short(k.max)], ["mean", short(k.mean)], ["std", short(k.std)], ["quantiles", (k.quantiles ?? []).map((v, n) => S.percents[n] + " %: " + short(v)).join(", ")], ["zero", grouped(k.zero ?? 0)], ["NaN", grouped(k.nan ?? 0)], ["inf", grouped(k.inf ?? 0)], ["cannot be read", k.fault]]), el("p", { text: "How many values have which magnitude, from " + power(low) + " to " + power(high) + " (log counts):" }), Object.assign(bars(k), { className: "large" }));
  const one = (r) => (r.all ? (r.all.length === 1 ? r.all[0] : null) : r);
  const t = table({
    id: "values", label: "values of tensors", height: 52, rows: () => rows, kids: (r) => (r.all?.length > 1 ? r.all : null), leaves: () => S.keys, text: (k) => k.key, open: (r) => open(one(r)), counted: () => counted(S.keys.length, "tensor"),
    columns: [
      { name: "tensor", width: "minmax(150px, 1.9fr)", show: (r) => (one(r) ? one(r).key : r.label + "  ×" + r.all.length), sort: (r) => r.label ?? r.key },
      { name: "min", number: true, width: "76px", show: (r) => short(r.min), sort: (r) => r.min ?? null },
      { name: "max", number: true, width: "76px", show: (r) => short(r.max), sort: (r) => r.max ?? null },
      { name: "mean", number: true, width: "84px", wide: 860, show: (r) => short(r.mean), sort: (r) => r.mean ?? null },
      { name: "std", number: true, width: "84px", wide: 760, show: (r) => short(r.std), sort: (r) => r.std ?? null },
      { name: "zeros", number: true, width: "58px", wide: 960, show: (r) => (r.zeros ? short(100 * r.zeros) + " %" : ""), sort: (r) => r.zeros },
      { name: "NaN, inf", number: true, width: "70px", show: (r) => (r.bad ? grouped(r.bad) : ""), tone: (r) => (r.bad ? "bad" : ""), sort: (r) => r.bad },
      { name: "off", number: true, width: "52px", wide: 860, show: (r) => (r.off > 1 ? short(2 ** r.off) + "x" : ""), sort: (r) => r.off },
      { name: "magnitudes " + power(low) + " to " + power(high) + (layers.length ? ", by layer" : ""), width: "minmax(150px, 2.4fr)", picture: (r) => (one(r) ? bars(one(r)) : layerStrip(r, layers, paint, tell)) },
    ],
  });
  section("Values", legend(key("heat", "how many values have this magnitude, log scale; large ones on top" + (layers.length ? ", layers " + layers[0] + " to " + layers[layers.length - 1] + " from left to right" : "")), key("bad", "NaN or infinite"), key("zeros", "zeros, as long as their share"), key("framed", "its std is off the others' by more than a factor of 2")), t);
  return t;
}

// ---- a run

function steps(S) {
  const most = Math.max(1, ...S.steps.map((s) => s.bytes));
  let plan = null;
  const fate = (n) => plan?.fates[n] ?? 0;
  const at = (x) => clamp(Math.floor(x * S.steps.length), 0, S.steps.length - 1);
  const tell = (n) => { const s = S.steps[n]; return s.name + ": " + human(s.bytes) + ", " + [s.content, s.standing, s.date].filter(Boolean).join(", ") + (plan ? "; prune would " + ["keep it", "delete it", "drop its optimizer"][fate(n)] + (plan.why[n] ? ": " + plan.why[n] : "") : "") + (s.fault ? "; " + s.fault : ""); };
  const chart = picture((ctx, w, h) => {
    const wide = w / S.steps.length;
    S.steps.forEach((s, n) => {
      const tall = Math.max(3, (s.bytes / most) * (h - 4)), x = n * wide, width = Math.max(wide - (wide > 3 ? 1.5 : 0), 0.7);
      ctx.fillStyle = s.state === "complete" ? (s.content === "model-only" ? colours.model : colours.other) : s.state === "unfinished" ? colours.optimizer : colours.bad;
      ctx.globalAlpha = fate(n) === 1 ? 0.3 : 1;
      ctx.fillRect(x, h - tall, width, tall);
      ctx.globalAlpha = 1;
      if (fate(n)) hatch(ctx, x, h - tall, width, tall, colours.fg, 5);
    });
  }, (x) => tell(at(x)), counted(S.steps.length, "step") + " and their bytes");
  chart.classList.add("loads");
  redraws.push(chart.paint);
  onResize(chart, chart.paint);
  const said = el("p", { role: "status", class: "count" });
  const choose = el("select", { "aria-label": "what prune would take", onchange: () => { plan = S.plans[Number(choose.value)]; said.textContent = plan ? plan.text : ""; redraw(); t.update(); } },
    el("option", { value: -1, text: "nothing" }), ...S.plans.map((p, n) => el("option", { value: n, text: p.command })));
  const t = table({
    id: "steps", label: "steps", rows: () => S.steps, text: (s) => s.name + " " + s.standing + " " + s.content, counted: () => counted(S.steps.length, "step"), open: (s) => dialog(s.name, facts([["path", s.path], ["bytes", grouped(s.bytes)], ["files", grouped(s.files)], ["holds", s.content], ["state", s.standing], ["changed", s.date], ["what is wrong", s.fault]])),
    columns: [
      { name: "step", number: true, width: "64px", show: (s) => s.number, sort: (s) => s.number },
      { name: "name", width: "minmax(110px, 1fr)", show: (s) => s.name },
      { name: "changed", width: "150px", wide: 760, show: (s) => s.date ?? "" },
      { name: "bytes", number: true, width: "90px", show: (s) => human(s.bytes), sort: (s) => s.bytes },
      { name: "files", number: true, width: "56px", wide: 860, show: (s) => grouped(s.files), sort: (s) => s.files },
      { name: "holds", width: "96px", show: (s) => s.content },
      { name: "state", width: "minmax(130px, 2fr)", title: true, show: (s) => s.standing + (s.fault ? ": " + s.fault : ""), tone: (s) => (s.state === "complete" ? "" : s.state === "unfinished" ? "warn" : "bad") },
      { name: "prune", width: "76px", wide: 640, show: (s) => (plan ? ["keep", "delete", "shrink"][fate(S.steps.indexOf(s))] : "") },
    ],
  });
  section("The run", el("p", { class: "tools" }, el("label", {}, "show what this would take: ", choose)), said,
    legend(key("g2", "complete, with training state"), key("g0", "complete, the model alone"), key("g1", "unfinished"), key("bad", "damaged, or cannot be read"), key("hatched", "prune would take it")), chart,
    el("p", { class: "axis" }, el("span", { text: "step " + S.steps[0].number }), el("span", { text: "bytes, 0 to " + human(most) }), el("span", { text: "step " + S.steps[S.steps.length - 1].number })), t);
  return t;
}

// ---- measurements

function roundStep(max) {
  const power = 10 ** Math.floor(Math.log10(Math.max(max, 1e-9) / 4));
  return [1, 2, 5, 10].find((s) => s * power * 4 >= max) * power;
}
// A panel for each series, in which the others are faint.
function curves(S) {
  const points = S.series.flatMap((s) => s.points), low = Math.min(...points.map((p) => p[0])), high = Math.max(...points.map((p) => p[0]), low * 2);
  const step = roundStep(Math.max(S.limit, ...points.map((p) => p[1]))), top = step * Math.ceil(Math.max(S.limit, ...points.map((p) => p[1])) / step);
  const W = 320, H = 190, L = 42, B = 26, x = (v) => L + ((W - L - 10) * Math.log2(v / low)) / Math.log2(high / low), y = (v) => H - B - ((H - B - 26) * v) / top;
  const path = (s) => s.points.map((p, n) => (n ? "L" : "M") + x(p[0]).toFixed(1) + " " + y(p[1]).toFixed(1)).join("");
  const panels = S.series.map((s, n) => {
    const g = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": s.name + ": " + s.points.map((p) => human(p[0]) + " " + p[1].toFixed(2) + " GB/s").join(", ") }, svg("text", { x: 2, y: 11, text: "GB/s" }));
    for (let v = 0; v <= top * 1.001; v += step) g.append(svg("line", { x1: L, x2: W - 10, y1: y(v), y2: y(v), class: "grid" }), svg("text", { x: L - 5, y: y(v) + 4, "text-anchor": "end", text: Number(v.toPrecision(3)) }));
    for (let v = low; v <= high * 1.001; v *= 2 ** Math.max(1, Math.ceil(Math.log2(high / low) / 3))) g.append(svg("text", { x: x(v), y: H - 9, "text-anchor": v === low ? "start" : "middle", text: human(v) }));
    if (S.limit) g.append(svg("line", { x1: L, x2: W - 10, y1: y(S.limit), y2: y(S.limit), class: "limit" }), svg("text", { x: W - 10, y: y(S.limit) - 4, "text-anchor": "end", text: S.limitName }));
    for (const other of S.series) if (other !== s) g.append(svg("path", { d: path(other), class: "faint" }));
    g.append(svg("path", { d: path(s), class: "curve c" + (n % 4) }));
    for (const p of s.points) g.append(svg("circle", { cx: x(p[0]), cy: y(p[1]), r: 2.6, class: "dot c" + (n % 4) }, svg("title", { text: human(p[0]) + ": " + p[1].toFixed(2) + " GB/s" })));
    const last = s.points[s.points.length - 1];
    g.append(svg("text", { x: x(last[0]), y: y(last[1]) - 7, "text-anchor": "end", class: "end", text: last[1].toFixed(2) }));
    return el("figure", {}, el("figcaption", { text: s.name }), g);
  });
  section(S.title, el("p", { class: "count", text: "GB/s by size of the copy; the others are faint" }), el("div", { class: "panels" }, ...panels));
}
function bars(S) {
  const sums = S.bars.map((b) => b.parts.reduce((a, c) => a + c, 0)), most = Math.max(1, ...sums);
  const rows = S.bars.map((b, n) => el("div", { class: "bar" }, el("span", { text: b.name }), el("div", {}, ...b.parts.map((p, i) => withTip(el("i", { class: "c" + i, css: { width: (100 * p) / most + "%" } }), () => S.legend[i] + ": " + duration(p)))), el("span", { class: "n", text: duration(sums[n]) })));
  section(S.title, legend(...S.legend.map((text, n) => key("c" + n, text))), ...rows);
}
function lanes(S) {
  const end = Math.max(1, ...S.spans.map((s) => s[3]));
  const lane = (name, n) => el("div", { class: "bar" }, el("span", { text: name }), el("div", { class: "lane" }, ...S.spans.filter((s) => s[0] === n).map(([, kind, from, to, label]) => withTip(el("i", { class: "c" + kind, css: { left: (100 * from) / end + "%", width: Math.max((100 * (to - from)) / end, 0.1) + "%" } }), () => label + ": " + duration(to - from)))));
  section(S.title, legend(...S.kinds.map((text, n) => key("c" + n, text))), ...S.lanes.map(lane), el("p", { class: "bar" }, el("span", {}), el("span", { class: "axis" }, el("span", { text: "0" }), el("span", { text: duration(end) }))));
}
function rows(S) {
  const number = (text) => parseFloat(String(text).replaceAll(",", ""));
  const units = { B: 1, KiB: 1 << 10, MiB: 1 << 20, GiB: 1 << 30, ns: 1, us: 1e3, ms: 1e6, s: 1e9 };
  const value = (text) => { const v = number(text); return Number.isNaN(v) ? null : v * (units[String(text).split(" ")[1]] ?? 1); };
  const t = table({
    id: "rows" + S.title.length, label: S.title, height: 28, rows: () => S.rows, text: (r) => r.join(" "), counted: () => counted(S.rows.length, "row"),
    columns: S.head.map((name, n) => ({ name, title: true, number: n >= S.left, width: n === 0 ? "minmax(70px, 1.4fr)" : "minmax(0, 1fr)", show: (r) => r[n] ?? "", sort: (r) => (n >= S.left ? value(r[n] ?? "") : r[n] ?? "") })),
  });
  section(S.title, t);
  return t;
}

// ---- a map at work: which tensors become which

const part = (n) => `hsl(${(210 + n * 137) % 360} 55% 55%)`;
function moves(S) {
  const draw = (of, many) => of.length === 0 ? null : picture((ctx, w, h) => {
    (ctx.fillStyle = colours.line), ctx.fillRect(0, 0, w, h);
    for (const [n, y, tall, x, wide] of of) {
      ctx.fillStyle = n < 0 ? colours.faint : part(n);
      ctx.fillRect((x * w) / 1000, (y * h) / 1000, Math.max((wide * w) / 1000 - (wide * w > 4000 ? 1 : 0), 0.7), Math.max((tall * h) / 1000 - (tall * h > 3000 ? 1 : 0), 0.7));
    }
  }, null, many);
  const source = (row, n) => ({ ...row.of[n], number: n, isSource: true });
  const all = S.rows.map((r) => ({ ...r, kids: r.of.length > 1 ? r.of.map((_, n) => source(r, n)) : null }));
  const made = (r) => (r.isSource ? r : r.of?.length === 1 ? r.of[0] : null);
  const t = table({
    id: "moves", label: "tensors that the map makes", height: 40, rows: () => all, kids: (r) => r.kids, text: (r) => (r.key ?? "") + " " + (r.of ?? []).map((o) => o.key).join(" ") + " " + (r.note ?? ""), counted: () => counted(all.length, "row"),
    columns: [
      { name: "becomes", width: "minmax(140px, 1.3fr)", show: (r) => (r.isSource ? "" : r.key ?? "nothing"), sort: (r) => r.key ?? "", tone: (r) => (r.tone ?? "") },
      { name: "dtype", width: "76px", wide: 860, show: (r) => (r.isSource ? "" : r.dtype ?? "") },
      { name: "shape", width: "110px", wide: 640, title: true, show: (r) => (r.isSource || !r.shape ? "" : "[" + r.shape.join(", ") + "]") },
      { name: "its parts", width: "90px", picture: (r) => (r.isSource || !r.parts ? null : draw(r.parts, "where its parts lie")) },
      { name: "in the checkpoint", width: "minmax(140px, 1.3fr)", title: true, show: (r) => made(r)?.key ?? r.note ?? (r.more ? counted(r.of.length, "tensor") + " and " + grouped(r.more) + " more" : r.of?.length ? counted(r.of.length, "tensor") : "nothing"), sort: (r) => made(r)?.key ?? "" },
      { name: "shape", width: "110px", wide: 640, title: true, show: (r) => (made(r)?.shape ? "[" + made(r).shape.join(", ") + "]" : "") },
      { name: "what is taken", width: "90px", picture: (r) => (made(r)?.parts ? draw(made(r).parts, "what is taken of it") : null) },
    ],
  });
  section("What becomes what", ...S.notes.map((n) => el("p", { text: n })), legend(key("c0", "a colour is a tensor of the checkpoint: what is taken of it, and where that lies in what is made"), key("rest", "the rest")), t);
  return t;
}

// ---- the top of a page, and its sections

function above() {
  const sign = { good: "✓", warn: "!", bad: "✕" }[D.tone];
  const cards = D.cards.map((c) => el("div", { class: "card " + (c.tone ?? "") }, el("span", { text: c.label }), el("strong", { text: c.value, title: c.value }), c.note ? el("small", { text: c.note, title: c.note }) : null));
  const found = D.findings.map((f) => el("li", { class: f.tone }, el("b", { text: f.word }), " " + f.text, f.hint ? el("small", { text: f.hint }) : null));
  const shown = 20, box = el("div", { class: "cards" }, ...cards);
  // Lines of about as many cards each.
  const fit = () => box.style.setProperty("--across", Math.ceil(cards.length / Math.ceil(cards.length / Math.max(1, Math.floor((box.clientWidth + 8) / 158)))));
  onResize(box, fit);
  redraws.push(fit);
  document.querySelector("main").replaceChildren(...[
    el("header", {}, el("p", { class: "command", text: D.command }), el("h1", { text: D.title }), el("p", { class: "verdict " + D.tone }, el("span", { class: "sign", "aria-hidden": "true", text: sign ?? "" }), el("span", { text: D.verdict }))),
    D.note ? el("p", { text: D.note }) : null,
    D.cards.length ? box : null,
    found.length ? el("ul", { class: "findings" }, ...found.slice(0, shown)) : null,
    found.length > shown ? el("details", {}, el("summary", { text: grouped(found.length - shown) + " more findings" }), el("ul", { class: "findings" }, ...found.slice(shown))) : null,
    D.more ? el("p", { text: D.more }) : null,
    D.facts.length ? el("details", {}, el("summary", { text: "all that the terminal says" }), el("pre", { text: D.facts.join("\n") })) : null,
  ].filter(Boolean));
}

const DRAW = { checkpoint, diff, stats, steps, curves, bars, lanes, rows, moves };

readColours();
document.body.append(tip);
tip.hidden = true;
above();
const searched = D.sections.map((s) => DRAW[s.type](s)).find((t) => t?.search);
addEventListener("keydown", (e) => {
  if (e.key !== "/" || /^(INPUT|SELECT)$/.test(document.activeElement.tagName) || !searched) return;
  e.preventDefault();
  searched.search.focus();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (readColours(), redraw()));
