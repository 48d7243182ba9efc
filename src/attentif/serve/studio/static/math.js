/** Formulas as people print them: italic variables, real subscripts and superscripts. Written as `h_{t−1}`, `W_O`, `x ∈ ℝ^64`. */
import { h } from "./dom.js";

const LETTER = "(?:(?!\\p{Lm})\\p{Script=Latin})";
const PIECE = new RegExp(`([_^])(\\{[^}]*\\}|[\\p{Lu}\\p{Ll}\\p{N}]+)|(${LETTER}+)|([α-ω])|(ᵀ)|(.)`, "gu");
const INLINE = /(√?)(?<![\p{L}\p{N}_])([A-Za-zα-ω])_(\{[^}]*\}|[\p{L}\p{N}])(?![\p{L}\p{N}_])/gu;

/** @param {string} source one formula without wide gaps @param {number} [longest] words up to this length are variables @returns {any[]} */
function pieces(source, longest = 1) {
  return [...source.matchAll(PIECE)].map(([whole, mark, raised, word, greek, transposed]) => {
    if (mark) return h(mark === "_" ? "sub" : "sup", {}, pieces(raised.replace(/^\{|\}$/g, ""), 2));
    if (word) return word.length <= longest ? h("var", {}, word) : word;
    if (greek) return h("var", {}, greek);
    return transposed ? h("sup", {}, "⊤") : whole;
  });
}

/** One formula within a text. @param {string} source */
export const math = (source) => h("span", { class: "math" }, pieces(source));

/** A line of formulas; four spaces or more part one from the next. @param {string} source @param {Record<string, any>} [props] */
export const formula = (source, props = {}) => h("p", { class: "formula", ...props }, source.split(/ {4,}/).map((one, i) => [i ? " " : null, h("span", {}, pieces(one))]));

/** A sentence in which `W_O` or `√d_k` may stand. @param {string} text @returns {any[]} */
export function inline(text) {
  /** @type {any[]} */ const parts = [];
  let done = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, root, letter, below] = found;
    parts.push(text.slice(done, found.index), h("span", { class: "math" }, root, h("var", {}, letter), h("sub", {}, pieces(below.replace(/^\{|\}$/g, "")))));
    done = found.index + whole.length;
  }
  return [...parts, text.slice(done)];
}
