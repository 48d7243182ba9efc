/** Words of the page in French and English. */
import { FR, EN } from "./words.js";

/** @returns {"fr" | "en"} */
export const lang = () => (document.documentElement.lang === "fr" ? "fr" : "en");

/** French typography: thin spaces before high punctuation, spaces inside guillemets, curved apostrophes. @param {string} text */
export const typeset = (text) => (lang() === "fr" ? text.replace(/ ([;!?])/g, "\u202f$1").replace(/ ([:»%])/g, "\u00a0$1").replace(/« /g, "«\u00a0").replace(/(\p{L})'/gu, "$1’") : text);

/** A sentence, its {names} filled in. @param {string} key @param {Record<string, any>} [values] */
export function t(key, values = {}) {
  const text = typeset(/** @type {any} */ (lang() === "fr" ? FR : EN)[key] ?? key);
  return text.replace(/\{(\w+)\}/g, (/** @type {string} */ _, /** @type {string} */ name) => String(values[name] ?? ""));
}

/** What a run does, in words. @param {string} kind */
export const taskName = (kind) => (`task_${kind}` in EN ? t(`task_${kind}`) : kind);

/** A part of a model: "encoder.blocks.0.attn" is "encoder 1 · attn". @param {string} path */
export const partName = (path) => path.replace(/^(encoder|decoder|target|head|frontend|bridge)\b/, (/** @type {string} */ name) => t({ head: "partHead", frontend: "partFrontend" }[name] || name)).replace(/^embedding$/, t("partFrontend")).replace(/\.blocks\.(\d+)\./, (/** @type {string} */ _, /** @type {string} */ n) => ` ${Number(n) + 1} · `).replace(/\.norm$/, ` · ${t("lastNorm")}`);

/** @type {Map<string, Intl.NumberFormat>} */ const formats = new Map();

/** A formatter of the page's language, made once: making one costs more than writing a number. @param {Intl.NumberFormatOptions} options */
function format(options) {
  const key = lang() + JSON.stringify(options);
  const known = formats.get(key) || new Intl.NumberFormat(lang(), options);
  formats.set(key, known);
  return known;
}

/** A number as the language writes it. @param {number} value @param {number} [digits] significant ones */
export function number(value, digits = 3) {
  if (!Number.isFinite(value)) return "–";
  return format({ maximumSignificantDigits: digits }).format(value).replace("-", "−");
}

/** With a fixed number of decimals and a true minus. @param {number} value @param {number} [places] */
export function fixed(value, places = 3) {
  if (value === -Infinity) return "−∞";
  return format({ minimumFractionDigits: places, maximumFractionDigits: places }).format(value).replace("-", "−");
}

/** @param {number} value @param {number} [places] */
export function percent(value, places = 1) {
  return format({ style: "percent", minimumFractionDigits: places, maximumFractionDigits: places }).format(value).replace("-", "−");
}

/** 0.4 M, 12 k. @param {number} value */
export const compact = (value) => format({ notation: "compact", maximumSignificantDigits: 3 }).format(value);

/** @param {number} seconds */
export function duration(seconds) {
  if (seconds < 90) return `${number(seconds, 2)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")}`;
}

/** Day and time; the year where it is not this one. @param {number} stamp seconds since 1970 */
export function date(stamp) {
  const when = new Date(stamp * 1000);
  const year = when.getFullYear() === new Date().getFullYear() ? {} : /** @type {const} */ ({ year: "numeric" });
  return new Intl.DateTimeFormat(lang() === "fr" ? "fr" : "en-GB", { day: "numeric", month: "short", ...year, hour: "2-digit", minute: "2-digit" }).format(when);
}

/** A score as people write it. @param {{share: boolean}} of @param {number} value */
export const score = (of, value) => (of.share ? percent(value) : number(value));
