/** A forecast: the last values read, what comes, and its interval; of the test split, or of a table that the user chooses. */
import { at, get, post } from "../api.js";
import { plot } from "../charts.js";
import { h, put } from "../dom.js";
import { lang, number, t } from "../i18n.js";
import { remember, route } from "../router.js";
import { foot, opening, shell } from "../same.js";
import { busy, table, withTable } from "../widgets.js";
import { another } from "./try.js";

const READ = 400;  // values shown before the forecast

/** @param {Element} place @param {import("./run.js").Opened} opened */
export async function show(place, opened) {
  const found = h("div", { "aria-live": "polite" });
  let named = "series.csv", example = Number(route().query.get("example") || 0);
  const ask = (/** @type {any} */ body, /** @type {Before} */ before) => busy(found, async () => {
    const answer = await post(`${at(opened.id)}/answer`, { ...body, step: opened.step() });
    return answer.outcome.details.table ? drawn(answer.outcome, before) : h("p", { class: "answer", id: "answer" }, answer.outcome.text || answer.outcome.names[0]);
  });
  const test = (/** @type {Record<string, string>} */ row, /** @type {number} */ number) => { example = number; remember({ example: number }); return ask({ example: number }, fromExample(row)); };
  const chosen = h("input", { type: "file", id: "file", accept: ".csv,.tsv,text/csv", onchange: async () => {
    const file = chosen.files?.[0];
    if (!file) return;
    named = file.name;
    const text = await file.text();
    const bytes = new Uint8Array(await file.arrayBuffer());
    let binary = "";
    for (let i = 0; i < bytes.length; i += 0x8000) binary += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
    await ask({ file: `data:${file.name.endsWith(".tsv") ? "text/tab-separated-values" : "text/csv"};base64,${btoa(binary)}` }, fromTable(text));
  } });
  put(place, h("section", { class: "card" }, h("div", { class: "field" }, h("label", { for: "file" }, t("seriesFile")), chosen), h("small", {}, t("seriesHelp")), another(opened, test)), found,
    foot(() => ({ command: `attentif predict ${shell(opened.info.path)} --file ${shell(named)}`, python: `${opening(opened.info, opened.step())}\nrun.predict([${JSON.stringify(named)}])` }), found, opened.id));
  const { rows } = await get(`${at(opened.id)}/examples`);
  if (rows.length) await test(rows[example % rows.length], example % rows.length);
}

/** @typedef {{columns: string[], dates: string[], values: number[][]}} Before what was read, a line a date */

/** @param {Record<string, string>} row an example of the test split @returns {Before} */
function fromExample(row) {
  if (!row.values) return { columns: [], dates: [], values: [] };
  return { columns: [], dates: JSON.parse(row.dates), values: JSON.parse(row.values) };
}

/** The numbers of a table, as far as the page can tell. @param {string} text @returns {Before} */
function fromTable(text) {
  const lines = text.trim().split(/\r?\n/);
  const mark = [";", "\t", ","].find((one) => lines[0].includes(one)) || ",";
  const columns = lines[0].split(mark).map((name) => name.replace(/^"|"$/g, ""));
  const cells = lines.slice(1).map((line) => line.split(mark));
  return { columns: columns.slice(1), dates: cells.map((one) => one[0]), values: cells.map((one) => one.slice(1).map((value) => Number(value.replace(",", ".")))) };
}

/** A date as an axis has room for. @param {string} text */
function moment(text) {
  const when = new Date(/^\d{4}-\d{2}-\d{2}/.test(text) ? text.replace(" ", "T") : NaN);
  if (Number.isNaN(when.getTime())) return text.slice(0, 16);
  const hours = /[T ]\d{2}:/.test(text) ? /** @type {const} */ ({ hour: "2-digit", minute: "2-digit" }) : /** @type {const} */ ({ year: "numeric" });
  return new Intl.DateTimeFormat(lang() === "fr" ? "fr" : "en-GB", { day: "numeric", month: "short", ...hours }).format(when);
}

/** @param {any} outcome @param {Before} before */
function drawn(outcome, before) {
  const rows = outcome.details.table;
  const names = Object.keys(rows[0]).filter((name) => name !== "date" && name !== "series");
  const columns = names.filter((name) => !/ q0?\.\d+$/.test(name));
  const figures = columns.slice(0, 6).map((column, c) => {
    const own = before.columns.length ? before.columns.indexOf(column) : c;
    const read = before.values.slice(-READ).map((line) => line[own]).filter(Number.isFinite);
    const quantiles = names.filter((name) => name.startsWith(`${column} q`));
    const at_ = (/** @type {number} */ i) => read.length + i;
    const future = rows.map((/** @type {any} */ row, /** @type {number} */ i) => [at_(i), row[column]]);
    const band = quantiles.length > 1 ? rows.map((/** @type {any} */ row, /** @type {number} */ i) => [at_(i), row[quantiles[0]], row[quantiles[quantiles.length - 1]]]) : [];
    const when = [...before.dates.slice(-read.length), ...rows.map((/** @type {any} */ row) => row.date)];
    return h("section", { class: "card", "data-column": column }, h("h2", {}, column),
      plot([{ name: t("readValues"), points: read.map((v, i) => [i, v]), colour: "var(--muted)" }, { name: t("forecast"), points: future, band }],
        { label: `${t("forecast")} ${column}`, x: t("date"), y: "", wide: columns.length > 1 ? 560 : 720, writeX: (i) => moment(String(when[Math.round(i)] ?? "")) }),
      quantiles.length > 1 ? h("p", { class: "muted" }, t("bandHelp", { low: number(Number(quantiles[0].split(" q").pop())), high: number(Number(quantiles[quantiles.length - 1].split(" q").pop())) })) : null);
  });
  return [h("p", { class: "answer", id: "answer" }, outcome.text), h("div", { class: figures.length > 1 ? "grid two" : "grid" }, figures), withTable(h("span"), () => table(["date", ...names], rows.map((/** @type {any} */ row) => [row.date, ...names.map((name) => row[name])])))];
}
