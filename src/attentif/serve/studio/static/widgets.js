/** Figures. Each one has the numbers it shows as a table beside it, and as `data-value` on its marks. */
import { colour, h, put, s, unitsAcross } from "./dom.js";
import { fixed, number, percent, t } from "./i18n.js";
import { math } from "./math.js";

/** A picture with its table, closed. @param {Element} picture @param {() => Element} table */
export function withTable(picture, table) {
  const details = h("details", {}, h("summary", {}, t("table"))), place = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("table") });
  const fill = () => { if (details.open) details.append(put(place, table())); };
  details.addEventListener("toggle", () => { if (!place.isConnected) fill(); });
  const figure = h("div", { class: "figure" }, picture, details);
  tables.set(figure, fill);
  return figure;
}

/** @type {WeakMap<Element, () => void>} */ const tables = new WeakMap();

/** Write the table of a figure again, where it is open: its numbers changed. @param {Element} figure made by `withTable` */
export const refreshTable = (figure) => tables.get(figure)?.();

/** @param {string[]} heads @param {any[][]} lines @param {boolean} [tight] */
export function table(heads, lines, tight = true) {
  const isNumber = (/** @type {any} */ cell) => typeof cell === "number" || (cell && cell.num);
  const shown = (/** @type {any} */ cell) => (typeof cell === "number" ? fixed(cell, 4) : cell && cell.num ? cell.num : cell);
  const first = lines[0] || [];
  return h("table", { class: tight ? "tight" : "" },
    h("thead", {}, h("tr", {}, heads.map((head, i) => h("th", { scope: "col", class: isNumber(first[i]) ? "num" : "" }, head)))),
    h("tbody", {}, lines.map((line) => h("tr", {}, line.map((cell) => h("td", { class: isNumber(cell) ? "num" : "" }, shown(cell)))))));
}

/** @typedef {{name: string, value: number, off?: boolean}} Bar */
/** @typedef {{most?: number, click?: (place: number) => void, other?: boolean, write?: (value: number) => string, label?: string}} BarOptions */

/** Horizontal bars of probabilities. @param {Bar[]} items @param {BarOptions} [options] */
export function bars(items, options = {}) {
  const list = h("div", { class: "bars", role: "list", "aria-label": options.label || t("probability") }, items.map((item, place) => {
    const name = visible(item.name);
    const label = options.click
      ? h("button", { class: "name", type: "button", title: item.name, onclick: () => options.click?.(place) }, name)
      : h("span", { class: "name", title: item.name }, name);
    const fill = h("div", { class: `fill${options.other ? " other" : ""}` });
    return h("div", { role: "listitem", style: { display: "contents" } }, label, h("div", { class: "track" }, fill), h("span", { class: "num" }));
  }));
  redrawBars(list, items, options);
  return list;
}

/** Give bars other values in place: nothing is made anew, so that it can be done in every frame. @param {Element} list made by `bars` @param {Bar[]} items @param {BarOptions} [options] */
export function redrawBars(list, items, options = {}) {
  const most = options.most ?? Math.max(...items.map((item) => Math.abs(item.value)), 1e-9);
  const write = options.write || ((value) => percent(value, value < 0.001 ? 3 : 1));
  items.forEach((item, place) => {
    const parts = /** @type {any[]} */ ([...list.children[place].children]);
    const [, track, value] = parts;
    for (const part of parts) part.classList.toggle("off", Boolean(item.off));
    track.firstElementChild.style.width = `${Math.min(100, (100 * Math.abs(item.value)) / most)}%`;
    value.dataset.value = item.value;
    value.textContent = item.off ? t("off") : write(item.value);
  });
}

/** Spaces and line ends that would not be seen. @param {string} text */
export const visible = (text) => text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ | $/g, "␣") || "∅";

/** Words coloured by what each did. @param {{word: string, before: string, effect: number | null}[]} words */
export function effects(words) {
  const most = Math.max(...words.map((word) => Math.abs(word.effect ?? 0)), 1e-6);
  const line = h("p", { class: "words" }, words.map((word) => {
    const share = word.effect === null ? 0 : word.effect / most;
    const rgb = share >= 0 ? "var(--heat-rgb)" : "var(--other-rgb)";
    const title = word.effect === null ? "" : `${word.effect > 0 ? "+" : ""}${percent(word.effect, 2)}`;
    const style = { backgroundColor: `rgb(${rgb} / ${0.28 * Math.abs(share)})`, borderBottomColor: `rgb(${rgb} / ${Math.abs(share)})` };
    return [word.before, h("span", { class: "w", style, title, "data-value": word.effect ?? "" }, word.word)];
  }));
  return withTable(line, () => table([t("word"), t("effect")], words.map((word) => [word.word, word.effect ?? ""])));
}

/** Buttons of tokens, one of which is chosen. @param {string[]} names @param {number} chosen @param {(place: number) => void} choose @param {string} label */
export function tokenList(names, chosen, choose, label) {
  const shown = names.slice(0, 400);
  return h("div", { class: "tokens", role: "group", "aria-label": label },
    shown.map((name, place) => h("button", { type: "button", "aria-pressed": String(place === chosen), onclick: () => choose(place) }, visible(name))),
    names.length > shown.length ? h("span", { class: "muted" }, `… ${names.length}`) : null);
}

/** The colour of a weight. @param {number} share between −1 and 1 */
const shade = (share) => `rgb(${colour(share < 0 ? "--other-rgb" : "--heat-rgb")} / ${Math.min(1, Math.abs(share)).toFixed(3)})`;

/**
 * A matrix on a canvas: rows look at columns. @param {(row: number, column: number) => number} value @param {string[]} rows @param {string[]} columns
 * @param {{size?: number, tall?: number, labels?: boolean, most?: number, label: string, chosen?: number, click?: (row: number) => void}} options
 */
export function matrix(value, rows, columns, options) {
  const labels = options.labels ?? true;
  const cell = options.tall ? Math.max(1, 620 / columns.length) : Math.max(1, Math.min(options.size ? options.size / Math.max(rows.length, columns.length) : 26, 640 / Math.max(rows.length, columns.length)));
  const named = labels && (options.tall ?? cell) >= 11;
  const across = cell >= 11;
  const tall = options.tall ?? cell;
  const cut = (/** @type {string} */ name) => (name.length > 11 ? `${name.slice(0, 10)}…` : name);
  const size = Math.min(12.5, tall * 0.8), letter = 0.61 * size;
  const longest = (/** @type {string[]} */ names) => letter * Math.max(1, ...names.map((name) => cut(visible(name)).length));
  const left = named ? Math.ceil(longest(rows)) + 8 : 0;
  const top = named && across ? Math.ceil(0.87 * longest(columns)) + 16 : 0;
  const width = left + cell * columns.length + (named && across ? Math.ceil(longest(columns) / 2) : 0);
  const height = top + tall * rows.length;
  const canvas = h("canvas", { role: "img", "aria-label": options.label, class: "matrix" });
  const said = h("p", { class: "muted pointed", "aria-live": "off" }, "\u00a0");
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = Math.ceil(width * ratio);
  canvas.height = Math.ceil(height * ratio);
  Object.assign(canvas.style, { width: `${width}px`, aspectRatio: `${width} / ${height}` });
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  let most = options.most ?? 0;
  if (!most) for (let r = 0; r < rows.length; r++) for (let c = 0; c < columns.length; c++) most = Math.max(most, Math.abs(value(r, c)));
  most = most || 1;
  const faint = labels && !options.tall && cell < 8;  // weights of many tokens are small: their square roots can be seen
  pen.scale(ratio, ratio);
  pen.fillStyle = colour("--sunken");
  pen.fillRect(left, top, cell * columns.length, height - top);
  for (let r = 0; r < rows.length; r++)
    for (let c = 0; c < columns.length; c++) {
      const v = value(r, c);
      if (!v) continue;
      pen.fillStyle = shade(faint ? Math.sign(v) * Math.sqrt(Math.abs(v) / most) : v / most);
      pen.fillRect(left + c * cell, top + r * tall, cell - (cell > 6 ? 1 : 0), tall - (tall > 6 ? 1 : 0));
    }
  if (named) {
    pen.fillStyle = colour("--ink");
    pen.font = `${size}px ${colour("--mono")}`;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    rows.forEach((name, r) => pen.fillText(cut(visible(name)), left - 6, top + (r + 0.5) * tall));
    pen.textAlign = "left";
    if (across) columns.forEach((name, c) => {
      pen.save();
      pen.translate(left + (c + 0.5) * cell, top - 6);
      pen.rotate(-Math.PI / 3);
      pen.fillText(cut(visible(name)), 0, 0);
      pen.restore();
    });
  }
  if (options.chosen !== undefined && options.chosen < rows.length && cell > 3) {
    pen.strokeStyle = colour("--other");
    pen.lineWidth = 2;
    pen.strokeRect(left + 1, top + options.chosen * tall, cell * columns.length - 2, tall);
  }
  const place = (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    const scale = width / box.width;
    return [Math.floor(((event.clientY - box.top) * scale - top) / tall), Math.floor(((event.clientX - box.left) * scale - left) / cell)];
  };
  const inside = (/** @type {number[]} */ [r, c]) => r >= 0 && r < rows.length && c >= 0 && c < columns.length;
  canvas.addEventListener("mousemove", (event) => {
    const [r, c] = place(event);
    said.textContent = inside([r, c]) ? `${visible(rows[r])} → ${visible(columns[c])}: ${fixed(value(r, c), 4)}` : "\u00a0";
  });
  if (options.click)
    canvas.addEventListener("click", (event) => {
      const found = place(event);
      if (inside(found)) options.click?.(found[0]);
    });
  return labels ? h("div", {}, h("div", { class: "scroll" }, canvas), said) : canvas;
}

/** Lines between two columns of words. @param {(row: number, column: number) => number} value @param {string[]} rows @param {string[]} columns @param {number} chosen @param {string} label */
export function lines(value, rows, columns, chosen, label) {
  const step = 26;
  const height = step * Math.max(rows.length, columns.length) + 16;
  const text = (/** @type {string} */ name) => visible(name).slice(0, 16);
  const drawn = [];
  let most = 1e-9;
  for (let r = 0; r < rows.length; r++) for (let c = 0; c < columns.length; c++) most = Math.max(most, Math.abs(value(r, c)));
  for (let r = 0; r < rows.length; r++)
    for (let c = 0; c < columns.length; c++) {
      const v = Math.abs(value(r, c));
      if (v < 0.02 * most) continue;
      const on = chosen < 0 || chosen === r, share = v / most;
      drawn.push(s("line", { x1: 150, y1: 20 + r * step, x2: 370, y2: 20 + c * step, stroke: on ? "var(--accent)" : "var(--strong-line)", "stroke-width": (on ? 6 : 2) * share, opacity: on ? 0.25 + 0.75 * share : 0.16, "data-value": value(r, c), "stroke-linecap": "round" }));
    }
  const drawing = h("div", { class: "scroll" }, s("svg", { viewBox: `0 0 520 ${height}`, width: 520, height, role: "img", "aria-label": label },
    drawn,
    rows.map((name, r) => s("text", { x: 142, y: 25 + r * step, "text-anchor": "end", "font-size": 14, fill: "var(--ink)", "font-weight": r === chosen ? 700 : 400 }, text(name))),
    columns.map((name, c) => s("text", { x: 378, y: 25 + c * step, "font-size": 14, fill: "var(--ink)" }, text(name)))));
  return withTable(drawing, () => grid(value, rows, columns));
}

/** The numbers of a matrix as a table. @param {(row: number, column: number) => number} value @param {string[]} rows @param {string[]} columns */
export const grid = (value, rows, columns) => table(["", ...columns.map(visible)], rows.map((name, r) => [visible(name), ...columns.map((_, c) => value(r, c))]));

/** A vector as a strip of colours, its first numbers below it. @param {ArrayLike<number>} vector @param {string} label @param {string} [symbol] what stands before the numbers: a formula */
export function strip(vector, label, symbol = label) {
  const values = Array.from(vector).slice(0, 256);
  const most = Math.max(...values.map(Math.abs), 1e-9);
  const width = 640;
  const bar = width / values.length;
  const first = values.slice(0, 6).map((v) => fixed(v, 3)).join("  ");
  return h("div", { class: "vector", "data-first": values[0] },
    s("svg", { viewBox: `0 0 ${width} 26`, width: "100%", height: 26, preserveAspectRatio: "none", role: "img", "aria-label": label },
      s("rect", { width, height: 26, fill: "var(--sunken)" }),
      values.map((v, i) => s("rect", { x: i * bar, width: bar + 0.2, height: 26, fill: v < 0 ? "rgb(var(--other-rgb))" : "rgb(var(--heat-rgb))", opacity: Math.abs(v) / most }))),
    h("small", { class: "numbers" }, symbol ? [math(symbol), " = "] : null, h("span", { class: "mono" }, `[${first}${values.length > 6 ? "  …" : ""}]`), vector.length > 6 ? math(`∈ ℝ^${vector.length}`) : null));
}

const DRAWN = new Set(["svg", "g", "rect", "path", "circle", "line", "text", "tspan", "title", "polygon"]);
const SAID = new Set(["x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "d", "width", "height", "viewBox", "class", "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin", "font-size", "font-weight", "text-anchor", "opacity", "points", "transform", "data-path"]);

/** The picture of an architecture, whose parts are buttons; only drawing elements are taken over. @param {string} source an SVG @param {string} chosen @param {(path: string) => void} click */
export function diagram(source, chosen, click) {
  const read = new DOMParser().parseFromString(source.replace(/ style="[^"]*"/g, ""), "image/svg+xml").documentElement;
  const copy = (/** @type {Element} */ element) => {
    if (!DRAWN.has(element.nodeName)) return null;
    const made = s(element.nodeName, Object.fromEntries([...element.attributes].filter((one) => SAID.has(one.name)).map((one) => [one.name, one.value])));
    for (const child of element.childNodes) {
      const taken = child.nodeType === Node.TEXT_NODE ? document.createTextNode(child.textContent || "") : child instanceof Element ? copy(child) : null;
      if (taken) made.appendChild(taken);
    }
    return made;
  };
  const drawing = copy(read);
  drawing.classList.add("architecture");
  drawing.setAttribute("role", "group");
  for (const part of drawing.querySelectorAll("g[data-path]")) {
    const path = part.getAttribute("data-path");
    const act = () => click(path);
    part.setAttribute("role", "button");
    part.setAttribute("tabindex", "0");
    part.setAttribute("aria-pressed", String(sameKind(path, chosen)));
    part.setAttribute("aria-label", part.querySelector("title")?.textContent || path);
    part.addEventListener("click", act);
    part.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); }
    });
  }
  return drawing;
}

/** Whether two paths name the same part of different layers. @param {string} one @param {string} other */
export const sameKind = (one, other) => one.replace(/\.\d+\./, ".") === other.replace(/\.\d+\./, ".");

/** Errors as a sentence in the page. @param {unknown} error */
export const problem = (error) => h("p", { class: "problem", role: "alert" }, t("error", { message: error instanceof Error ? error.message : String(error) }));

/** Do something that takes a while, the old picture dimmed meanwhile; errors become a sentence. @param {Element} place @param {() => Promise<any>} work */
export async function busy(place, work) {
  if (!place.firstChild) put(place, h("p", { class: "muted waiting" }, t("loading")));
  place.classList.add("busy");
  place.setAttribute("aria-busy", "true");
  try {
    put(place, await work());
  } catch (error) {
    if (!(error instanceof DOMException && error.name === "AbortError")) put(place, problem(error));
  } finally {
    place.classList.remove("busy");
    place.removeAttribute("aria-busy");
  }
}

/** A text with some of its pieces marked. @param {string} text @param {{start: number, end: number, type: string}[]} marks */
export function spans(text, marks) {
  const letters = Array.from(text);
  /** @type {any[]} */ const parts = [];
  let done = 0;
  for (const { start, end, type } of [...marks].sort((a, b) => a.start - b.start)) {
    parts.push(letters.slice(done, start).join(""), h("mark", { "data-type": type }, letters.slice(start, end).join(""), type ? h("small", {}, type) : null));
    done = end;
  }
  return h("p", { class: "words marked" }, parts, letters.slice(done).join(""));
}

/**
 * Words in a plane. The word and its neighbours are named, the others are dots that say their name when pointed at; the wheel and the buttons zoom.
 * @param {{words: string[], points: number[][]}} map @param {string} word @param {string[]} near @param {(name: string) => void} click
 */
export function plane(map, word, near, click) {
  const width = unitsAcross(700), height = 460, named = new Set([word, ...near]);
  const xs = map.points.map((p) => p[0]), ys = map.points.map((p) => p[1]);
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const x = (/** @type {number} */ v) => 56 + ((width - 112) * (v - x0)) / (x1 - x0 || 1), y = (/** @type {number} */ v) => 26 + ((height - 52) * (y1 - v)) / (y1 - y0 || 1);
  /** @type {number[][]} */ const taken = [];
  const free = (/** @type {number[]} */ box) => taken.every(([l, t_, r, b_]) => box[2] < l || box[0] > r || box[3] < t_ || box[1] > b_);
  const order = map.words.map((_, i) => i).sort((a, b) => Number(map.words[b] === word) - Number(map.words[a] === word) || Number(named.has(map.words[b])) - Number(named.has(map.words[a])));
  const labels = order.map((i) => {
    const name = map.words[i], half = 3.8 * name.length + 4;
    for (const [dx, dy] of [[0, -9], [0, 18], [half + 6, 5], [-half - 6, 5]]) {
      const box = [x(xs[i]) + dx - half, y(ys[i]) + dy - 12, x(xs[i]) + dx + half, y(ys[i]) + dy + 3];
      if (box[0] > 0 && box[2] < width && box[1] > 0 && box[3] < height && free(box)) { taken.push(box); return { i, dx, dy }; }
    }
    return { i, dx: 0, dy: NaN };
  });
  const drawing = s("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": t("map"), class: "plane" },
    [...labels].reverse().map(({ i, dx, dy }) => {
      const name = map.words[i], on = named.has(name);
      return s("g", { class: "dot", "data-word": name, onclick: () => click(name) }, s("title", {}, name),
        s("circle", { cx: x(xs[i]), cy: y(ys[i]), r: name === word ? 6 : on ? 4.5 : 3, fill: name === word ? "var(--other)" : on ? "var(--accent)" : "var(--strong-line)" }),
        Number.isNaN(dy) ? null : s("text", { x: x(xs[i]) + dx, y: y(ys[i]) + dy, "font-size": on ? 13.5 : 12, "text-anchor": "middle", fill: on ? "var(--ink)" : "var(--muted)", "font-weight": name === word ? 700 : 400 }, name));
    }));
  let view = [0, 0, width, height];
  const zoom = (/** @type {number} */ factor, px = 0.5, py = 0.5) => {
    const [vx, vy, vw, vh] = view, w = Math.min(width, vw * factor), hh = Math.min(height, vh * factor);
    view = [Math.max(0, Math.min(width - w, vx + px * (vw - w))), Math.max(0, Math.min(height - hh, vy + py * (vh - hh))), w, hh];
    drawing.setAttribute("viewBox", view.join(" "));
  };
  drawing.addEventListener("wheel", (/** @type {WheelEvent} */ event) => { event.preventDefault(); const box = drawing.getBoundingClientRect(); zoom(event.deltaY < 0 ? 0.8 : 1.25, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height); }, { passive: false });
  const buttons = h("div", { class: "row" }, h("button", { type: "button", "aria-label": t("zoomIn"), onclick: () => zoom(0.7) }, "+"), h("button", { type: "button", "aria-label": t("zoomOut"), onclick: () => zoom(1.4) }, "−"));
  return withTable(h("div", {}, drawing, buttons), () => table([t("word"), "x", "y"], map.words.map((name, i) => [name, xs[i], ys[i]])));
}

/**
 * A map too large to draw cell by cell: the largest of its kept weights in each square of pixels. A click opens what lies there.
 * @param {number[][]} points [row, column, weight] @param {number} rows @param {number} columns @param {string} label @param {(row: number, column: number) => void} click
 */
export function overview(points, rows, columns, label, click) {
  const size = 360, bins = new Float32Array(size * size);
  for (const [r, c, v] of points) {
    const at = Math.floor((r * size) / rows) * size + Math.floor((c * size) / columns);
    bins[at] = Math.max(bins[at], Math.abs(v));
  }
  const most = points.reduce((top, point) => Math.max(top, Math.abs(point[2])), 1e-9);
  const canvas = h("canvas", { width: size, height: size, role: "img", "aria-label": label, class: "overview", tabindex: 0, onclick: (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    open([(event.clientY - box.top) / box.height, (event.clientX - box.left) / box.width]);
  }, onkeydown: (/** @type {KeyboardEvent} */ event) => {
    const way = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!way) return;
    event.preventDefault();
    open([Math.max(0, Math.min(0.999, at[0] + way[0] / 16)), Math.max(0, Math.min(0.999, at[1] + way[1] / 16))]);
  } });
  let at = [0.999, 0.999];  // the place last opened, as shares of the height and of the width
  const open = (/** @type {number[]} */ place) => { at = place; click(Math.floor(rows * at[0]), Math.floor(columns * at[1])); };
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.fillStyle = colour("--sunken");
  pen.fillRect(0, 0, size, size);
  bins.forEach((v, at) => { if (v > 0) { pen.fillStyle = shade(Math.max(0.12, Math.sqrt(v / most))); pen.fillRect(at % size, Math.floor(at / size), 1.6, 1.6); } });
  return h("figure", { class: "long" }, canvas, h("figcaption", { class: "muted" }, label));
}
