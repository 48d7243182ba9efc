/** Live figures of the course that need no run: each is worked out in the page. */
import { h, put, s } from "../dom.js";
import { compact, fixed, number, t } from "../i18n.js";
import { remember, route } from "../router.js";
import { plot } from "../charts.js";
import { grid, matrix, table, withTable } from "../widgets.js";

/**
 * A slider whose value is part of the address. @param {string} id @param {string} label @param {{min: number, max: number, step: number}} range @param {number} first
 * @param {(value: number) => string} say @param {() => void} moved
 */
function slider(id, label, range, first, say, moved) {
  const shown = h("output", { class: "num", for: id });
  const input = h("input", { type: "range", id, ...range, oninput: () => { shown.textContent = say(Number(input.value)); remember({ [id]: input.value }); moved(); } });
  input.value = route().query.get(id) ?? String(first);
  shown.textContent = say(Number(input.value));
  return { field: h("div", { class: "field" }, h("label", { for: id }, h("span", {}, label), shown), input), value: () => Number(input.value) };
}

/** @param {string} title @param {any[]} inside */
const card = (title, ...inside) => h("section", { class: "card" }, h("h3", { class: "first" }, title), inside);

// ------------------------------------------------------------------------------------------------------------------- BPE

/**
 * Byte-pair encoding on the letters of a text: words, each a list of symbols, after so many merges.
 * @param {string} text @param {number} merges @returns {{words: string[][], rules: {pair: [string, string], count: number}[]}}
 */
export function bytePairs(text, merges) {
  const words = text.trim().split(/\s+/).map((word) => Array.from(word));
  /** @type {{pair: [string, string], count: number}[]} */ const rules = [];
  while (rules.length < merges) {
    /** @type {Map<string, number>} */ const counts = new Map();
    for (const word of words) for (let i = 0; i + 1 < word.length; i++) counts.set(`${word[i]}\u0000${word[i + 1]}`, (counts.get(`${word[i]}\u0000${word[i + 1]}`) || 0) + 1);
    const [best, count] = [...counts].reduce((a, one) => (one[1] > a[1] ? one : a), ["", 1]);
    if (count < 2) break;
    const [left, right] = best.split("\u0000");
    rules.push({ pair: [left, right], count });
    for (const word of words)
      for (let i = 0; i + 1 < word.length; i++) if (word[i] === left && word[i + 1] === right) word.splice(i, 2, left + right);
  }
  return { words, rules };
}

function bpe() {
  const box = h("textarea", { id: "bpe-text", rows: 2, spellcheck: "false", "aria-label": t("read"), value: route().query.get("bpe-text") || t("bpeText"), oninput: () => { remember({ "bpe-text": box.value }); fill(); } });
  const found = h("div", { "aria-live": "polite" });
  const merges = slider("merges", t("merges"), { min: 0, max: 40, step: 1 }, 4, String, () => fill());
  const fill = () => {
    const { words, rules } = bytePairs(box.value, merges.value());
    const symbols = new Set(words.flat());
    const last = rules[rules.length - 1];
    put(found, h("p", { class: "tokens", "data-symbols": words.flat().length }, words.map((word) => h("span", { class: "word" }, word.map((one) => h("code", { class: `pill${last && one === last.pair.join("") ? " running" : ""}` }, one))))),
      h("p", { class: "muted" }, t("bpeSays", { tokens: words.flat().length, symbols: symbols.size }), " ", last ? t("bpeLast", { left: last.pair[0], right: last.pair[1], count: last.count }) : ""),
      withTable(h("span"), () => table(["#", t("merge"), t("times")], rules.map((one, i) => [{ num: String(i + 1) }, `${one.pair[0]} + ${one.pair[1]}`, { num: String(one.count) }]))));
  };
  fill();
  return card(t("bpeTitle"), box, merges.field, found);
}

// -------------------------------------------------------------------------------------------------------------- gradients

function gradient() {
  const found = h("div");
  const factor = slider("factor", t("factor"), { min: 0.7, max: 1.3, step: 0.01 }, 0.9, (v) => fixed(v, 2), () => fill());
  const fill = () => {
    const w = factor.value();
    const points = Array.from({ length: 51 }, (_, step) => [step, step * Math.log10(w)]);
    put(found, h("p", { class: "answer num-line" }, t("gradientSays", { value: (w ** 50).toExponential(1).replace("-", "−"), w: fixed(w, 2) })),
      plot([{ name: t("gradientName"), points }], { label: t("gradientLabel"), x: t("distance"), y: "log₁₀", low: -8, high: 6 }));
  };
  fill();
  return card(t("gradientTitle"), factor.field, found);
}

// --------------------------------------------------------------------------------------------------------------- positions

/** The vector of a place. @param {number} place @param {number} width */
export const sinusoid = (place, width) => Array.from({ length: width }, (_, i) => {
  const angle = place / 10000 ** ((2 * Math.floor(i / 2)) / width);
  return i % 2 ? Math.cos(angle) : Math.sin(angle);
});

function sinusoids() {
  const width = 64, places = 48;
  const vectors = Array.from({ length: places }, (_, p) => sinusoid(p, width));
  const found = h("div");
  const place = slider("place", t("place"), { min: 0, max: places - 1, step: 1 }, 12, String, () => fill());
  const rows = vectors.map((_, p) => String(p)), columns = vectors[0].map((_, i) => String(i + 1)), value = (/** @type {number} */ r, /** @type {number} */ c) => vectors[r][c];
  const picture = withTable(matrix(value, rows, columns, { label: t("sinusoidsTitle"), tall: 7, most: 1 }), () => grid(value, rows, columns));
  const fill = () => {
    const own = vectors[place.value()];
    const points = vectors.map((one, p) => [p - place.value(), one.reduce((sum, v, i) => sum + v * own[i], 0)]);
    put(found, plot([{ name: t("sinusoidsDot", { p: place.value() }), points }], { label: t("sinusoidsDot", { p: place.value() }), x: t("distance"), y: "PE·PE", low: 0, high: 34 }));
  };
  fill();
  return card(t("sinusoidsTitle"), picture, place.field, found);
}

// ------------------------------------------------------------------------------------------------------------------- costs

function cost() {
  const width = 64;
  const found = h("div");
  const length = slider("length", t("tokensLength"), { min: 7, max: 17, step: 1 }, 12, (v) => number(2 ** v, 8), () => fill());
  const fill = () => {
    const n = 2 ** length.value();
    const exponents = Array.from({ length: length.value() - 6 }, (_, i) => i + 7);
    put(found, h("p", { class: "answer num-line" }, t("costSays", { full: compact(n * n * width), linear: compact(n * width * width), times: compact(n / width), memory: compact(n * n) })),
      plot([{ name: "n²·d", points: exponents.map((e) => [e, Math.log10(4 ** e * width)]) }, { name: "n·d²", points: exponents.map((e) => [e, Math.log10(2 ** e * width * width)]) }],
        { label: t("costTitle"), x: "log₂ n", y: t("costAxis"), low: 4, high: 13 }));
  };
  fill();
  return card(t("costTitle"), length.field, found);
}

// ------------------------------------------------------------------------------------------------------------ state spaces

/** h_t = a h_{t−1} + (1 − a) x_t with a = exp(−Δ): A = −1, B = C = 1, zero-order hold. @param {number[]} x @param {number} delta */
export function hold(x, delta) {
  const a = Math.exp(-delta);
  let state = 0;
  return x.map((v) => (state = a * state + (1 - a) * v));
}

function statespace() {
  const x = Array.from({ length: 60 }, (_, i) => (i >= 10 && i < 25 ? 1 : i === 40 ? 1 : 0));
  const found = h("div");
  const step = slider("delta", t("delta"), { min: -3, max: 1.5, step: 0.1 }, -1.5, (v) => fixed(Math.exp(v), 2), () => fill());
  const fill = () => {
    const delta = Math.exp(step.value());
    put(found, h("p", { class: "answer num-line" }, t("holdSays", { decay: fixed(Math.exp(-delta), 3) })),
      plot([{ name: t("input"), points: x.map((v, i) => [i, v]) }, { name: t("state_"), points: hold(x, delta).map((v, i) => [i, v]) }], { label: t("holdTitle"), x: t("step"), y: "", low: 0, high: 1.05 }));
  };
  fill();
  return card(t("holdTitle"), step.field, found);
}

/** @type {Record<string, () => Element>} */
export const FIGURES = { bpe, gradient, sinusoids, cost, statespace };
