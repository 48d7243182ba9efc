/** Numbers of each token and unit as colours, with their table. */
import { rows } from "../api.js";
import { h } from "../dom.js";
import { grid, matrix, withTable } from "../widgets.js";

/** @param {any} numbers @param {string[]} names @param {string} label @param {number} [most] */
export function heat(numbers, names, label, most) {
  const lines_ = rows(numbers);
  const units = numbers.shape[1];
  const value = (/** @type {number} */ place, /** @type {number} */ unit) => lines_[place][unit];
  const labels = Array.from({ length: units }, (_, n) => String(n + 1));
  return h("div", {}, withTable(matrix(value, names, labels, { label, tall: Math.max(3, Math.min(20, 620 / names.length)), most }), () => grid(value, names, labels)));
}
