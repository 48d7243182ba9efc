/** Curves: lines, bands and dots on two axes, with their numbers as a table. */
import { h, s, unitsAcross } from "./dom.js";
import { number, t } from "./i18n.js";
import { table, withTable } from "./widgets.js";

/** @typedef {{name: string, points: number[][], dashed?: boolean, dots?: boolean, band?: number[][], colour?: string}} Series points are [x, y], a band is [x, low, high] */

export const COLOURS = ["var(--accent)", "var(--other)", "var(--good)", "var(--violet)", "var(--muted)", "var(--ink)"];
const HEIGHT = 300, LEFT = 58, RIGHT = 12, BOTTOM = 42, TOP = 26;

/** Round numbers between two values. @param {number} low @param {number} high @param {number} [count] */
export function ticks(low, high, count = 5) {
  const rough = (high - low) / count || 1, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * size).find((one) => one >= rough) || size;
  const first = Math.ceil(low / step - 1e-9) * step;
  return Array.from({ length: Math.floor((high - first) / step + 1e-9) + 1 }, (_, i) => Number((first + i * step).toPrecision(12)));
}

/**
 * @param {Series[]} series
 * @param {{label: string, x: string, y: string, low?: number, high?: number, writeX?: (value: number) => string, wide?: number}} options
 */
export function plot(series, options) {
  const WIDTH = unitsAcross(options.wide || 720);
  const all = series.flatMap((one) => [...one.points, ...(one.band || []).flatMap(([x, low, high]) => [[x, low], [x, high]])]).filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  if (!all.length) return h("p", { class: "hint" }, "–");
  const extent = (/** @type {number} */ axis) => all.reduce(([low, high], point) => [Math.min(low, point[axis]), Math.max(high, point[axis])], [Infinity, -Infinity]);
  const [x0, x1] = extent(0), [y0, y1] = extent(1);
  const low = options.low ?? y0, high = options.high ?? (y1 > y0 ? y1 : y0 + 1);
  const x = (/** @type {number} */ v) => LEFT + ((WIDTH - LEFT - RIGHT) * (v - x0)) / (x1 - x0 || 1);
  const y = (/** @type {number} */ v) => TOP + ((HEIGHT - BOTTOM - TOP) * (high - Math.min(high, Math.max(low, v)))) / (high - low || 1);
  const path = (/** @type {number[][]} */ points) => points.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
  const write = options.writeX || ((value) => number(value, 6));
  const drawing = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: "100%", role: "img", "aria-label": options.label, class: "curve" },
    ticks(low, high).map((v) => [s("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(v), y2: y(v), stroke: "var(--line)" }), s("text", { x: LEFT - 8, y: y(v) + 4, "text-anchor": "end", "font-size": 12, fill: "var(--muted)" }, number(v, 4))]),
    ticks(x0, x1, WIDTH < 500 ? 3 : 6).map((v) => s("text", { x: x(v), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle", "font-size": 12, fill: "var(--muted)" }, write(v))),
    s("text", { x: WIDTH - RIGHT, y: HEIGHT - 6, "text-anchor": "end", "font-size": 12, fill: "var(--muted)" }, options.x),
    s("text", { x: LEFT, y: 12, "text-anchor": "start", "font-size": 12, fill: "var(--muted)" }, options.y),
    series.map((one, i) => {
      const colour = one.colour || COLOURS[i % COLOURS.length];
      const band = one.band?.length ? s("path", { d: `${path(one.band.map(([a, b]) => [a, b]))}${path(one.band.map(([a, , b]) => [a, b]).reverse()).replace("M", "L")}Z`, fill: colour, opacity: 0.2, "data-band": one.band.map((row) => row.join(" ")).join(";") }) : null;
      return [band, s("path", { d: path(one.points), fill: "none", stroke: colour, "stroke-width": 2, "stroke-linejoin": "round", "stroke-dasharray": one.dashed ? "6 4" : null, "data-values": one.points.length <= 400 ? one.points.map((point) => point[1]).join(" ") : null }),
        one.dots ? one.points.map(([a, b]) => s("circle", { cx: x(a), cy: y(b), r: 3.5, fill: colour })) : null];
    }));
  const key = h("p", { class: "key" }, series.map((one, i) => h("span", {}, h("i", { class: one.dashed ? "dashed" : "", style: { borderColor: one.colour || COLOURS[i % COLOURS.length] } }), one.name)));
  return withTable(h("div", {}, key, drawing), () => table([options.x, "", options.y], series.flatMap((one) => one.points.map(([a, b]) => [{ num: write(a) }, one.name, b]))));
}

/** Loss against steps, of training and of validation. @param {any[]} rows of metrics.jsonl @param {string} label */
export function curve(rows, label) {
  const of = (/** @type {boolean} */ valid) => rows.filter((row) => (row.split === "valid") === valid && Number.isFinite(row.loss) && Number.isFinite(row.step)).map((row) => [row.step, row.loss]);
  const [train, valid] = [of(false), of(true)];
  return plot([{ name: t("train"), points: train }, ...(valid.length ? [{ name: t("valid"), points: valid, dashed: true, dots: true }] : [])], { label, x: t("step"), y: t("loss"), low: 0 });
}
