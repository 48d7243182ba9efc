/** Attention by hand: one query of one head, from the stream to the stream; and the three-vector example on numbers one can edit. */
import { decode, rows } from "../api.js";
import { h, put } from "../dom.js";
import { fixed, number, t } from "../i18n.js";
import { formula, inline, math } from "../math.js";
import { bars, strip, table, visible, withTable } from "../widgets.js";

/** @param {any} found a PartView of kind "attention" */
export function attentionSteps(found) {
  const of = (/** @type {string} */ name) => decode(found.values[name]);
  const { query, scale, heads, head, head_width: width } = found.facts;
  const token = visible(found.tokens[query]);
  const [dots, scores, weights, allowed] = [of("dots"), of("scores"), of("weights"), of("allowed")];
  const keys = found.keys.map(visible);
  const shown = keys.map((/** @type {string} */ name, /** @type {number} */ i) => ({ name, i })).filter(({ i }) => keys.length <= 40 || weights[i] > 0.005 || i === query);
  const line = (/** @type {string} */ title, /** @type {string} */ source, /** @type {any[]} */ ...inside) => h("li", {}, h("h3", {}, inline(title)), formula(source), inside);
  const lines = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("stepDots") }, h("table", { class: "tight by-hand" },
    h("thead", {}, h("tr", {}, [t("token"), t("dots"), t("scores"), t("weight")].map((name, i) => h("th", { scope: "col", class: i ? "num" : "" }, name)))),
    h("tbody", {}, shown.map(({ name, i }) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "num", "data-dot": dots[i] }, fixed(dots[i], 3)),
      h("td", { class: "num" }, allowed[i] ? fixed(scores[i], 3) : `−∞ (${t("masked")})`), h("td", { class: `num${weights[i] === Math.max(...weights) ? " here" : ""}`, "data-weight": weights[i] }, fixed(weights[i], 4)))))));
  return h("ol", { class: "steps" },
    line(t("stepNorm"), `n(x)     x ∈ ℝ^${of("before").length}`, strip(of("before"), "x"), strip(of("normed"), "n(x)")),
    line(t("stepQ", { token }), `q = W_Q n(x)     d_k = ${width}, ${t("head")} ${head + 1} / ${heads}`, strip(of("q"), "q")),
    line(t("stepK"), "k_s = W_K n(x_s)", withTable(strip(rows(found.values.k)[query] ?? rows(found.values.k)[0], "k"), () => table([t("token"), ...Array.from({ length: Math.min(8, width) }, (_, i) => `k${i + 1}`)], shown.map(({ name, i }) => [name, ...Array.from(rows(found.values.k)[i]).slice(0, 8)])))),
    line(`${t("stepDots")} → ${t("stepScale")} → softmax`, `score_s = ${number(scale, 4)} · q·k_s     α = softmax(score)     Σ α = ${fixed(weights.reduce((a, b) => a + b, 0), 3)}`, lines),
    line(t("stepSoftmax"), "α_s = exp(score_s) / Σ exp(score)", bars(shown.map(({ name, i }) => ({ name, value: weights[i] })), { most: 1, write: (v) => fixed(v, 4), label: t("weights") })),
    line(t("stepMix"), "z = Σ_s α_s v_s", strip(of("mixed"), "z")),
    line(t("stepJoin"), `W_O [z_1 … z_${heads}]`, strip(of("joined"), "z"), strip(of("out"), "W_O z")),
    line(t("stepResidual"), "x ← x + W_O z", strip(of("after"), "x")));
}

/**
 * softmax(X Xᵀ · scale) X for a few vectors, q = k = v = x as in the course. @param {number[][]} X @param {{scale: boolean, mask: boolean, sharp: number}} how
 */
export function byHand(X, how) {
  const d = X[0].length, factor = how.sharp / (how.scale ? Math.sqrt(d) : 1);
  const dot = (/** @type {number[]} */ a, /** @type {number[]} */ b) => a.reduce((sum, v, i) => sum + v * b[i], 0);
  const scores = X.map((q) => X.map((k) => dot(q, k) * factor));
  const weights = scores.map((line, r) => {
    const open = line.map((v, c) => (how.mask && c > r ? -Infinity : v));
    const top = Math.max(...open);
    const e = open.map((v) => Math.exp(v - top));
    const total = e.reduce((a, b) => a + b, 0);
    return e.map((v) => v / total);
  });
  return { scores, weights, out: weights.map((line) => X[0].map((_, j) => line.reduce((sum, w, s) => sum + w * X[s][j], 0))) };
}

/** The example of the course: vectors to edit, and below them scores, weights and output as they follow from one another. */
export function threeVectors() {
  const names = t("threeWords").split(" ");
  const X = [[1, 0, 1], [0, 2, 0], [1, 1, 1]];
  const how = { scale: true, mask: false, sharp: 1 };
  const found = h("div", { id: "by-hand", class: "flow", "aria-live": "polite" });
  const grid = (/** @type {string} */ caption, /** @type {string} */ how_, /** @type {string[]} */ heads, /** @type {(r: number, c: number) => any} */ cell) => h("table", { class: "tight" }, h("caption", {}, h("b", {}, caption), " ", math(how_)),
    h("thead", {}, h("tr", {}, h("td", {}), heads.map((name) => h("th", { scope: "col", class: "num" }, name)))),
    h("tbody", {}, names.map((name, r) => h("tr", {}, h("th", { scope: "row" }, name), heads.map((_, c) => cell(r, c))))));
  const number_ = (/** @type {number} */ v, /** @type {Record<string, any>} */ more = {}) => h("td", { class: "num", ...more }, fixed(v, 2));
  const fill = () => {
    const { scores, weights, out } = byHand(X, how);
    const shaded = (/** @type {number} */ v) => ({ "data-weight": v, style: { backgroundColor: `rgb(var(--heat-rgb) / ${(0.6 * v).toFixed(3)})` } });
    put(found,
      grid(t("scoresOf"), how.scale ? "X Xᵀ / √d" : "X Xᵀ", names, (r, c) => (how.mask && c > r ? h("td", { class: "num muted" }, "−∞") : number_(scores[r][c]))), h("span", { class: "arrow", "aria-hidden": "true" }, "→"),
      grid(t("weights"), "α = softmax", names, (r, c) => number_(weights[r][c], shaded(weights[r][c]))), h("span", { class: "arrow", "aria-hidden": "true" }, "→"),
      grid(t("output"), "α X", ["1", "2", "3"], (r, c) => number_(out[r][c])));
  };
  const box = (/** @type {"scale" | "mask"} */ key, /** @type {string} */ label) => h("label", { class: "check" }, h("input", { type: "checkbox", checked: how[key], onchange: (/** @type {any} */ e) => { how[key] = e.target.checked; fill(); } }), h("span", {}, inline(t(label))));
  const says = h("output", { class: "num" });
  const sharp = h("input", { type: "range", id: "sharpness", min: 0.1, max: 8, step: 0.1, oninput: () => { how.sharp = Number(sharp.value); says.textContent = `× ${fixed(how.sharp, 1)}`; fill(); } });
  sharp.value = "1";
  says.textContent = `× ${fixed(1, 1)}`;
  const vectors = h("table", { class: "tight vectors" }, h("caption", {}, h("b", {}, t("threeInput")), " ", math("X")), h("tbody", {}, names.map((name, r) => h("tr", {}, h("th", { scope: "row" }, name), X[r].map((v, j) => h("td", {}, h("input", { type: "number", step: 0.1, value: v, "aria-label": `${name} ${j + 1}`, oninput: (/** @type {any} */ e) => { const value = Number(e.target.value); if (Number.isFinite(value)) { X[r][j] = value; fill(); } } })))))));
  fill();
  return h("section", { class: "card" }, h("h2", {}, t("threeVectors")), h("p", { class: "muted" }, t("threeHelp")),
    h("div", { class: "flow" }, vectors, h("div", { class: "settings" }, h("div", { class: "field" }, h("label", { for: "sharpness" }, h("span", {}, t("sharpness")), says), sharp), box("scale", "scale"), box("mask", "maskFuture"))), found);
}
