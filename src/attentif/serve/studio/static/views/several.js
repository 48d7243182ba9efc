/** Several runs side by side: scores with their intervals, costs, curves. */
import { at, get } from "../api.js";
import { COLOURS, plot } from "../charts.js";
import { h, put, s, unitsAcross } from "../dom.js";
import { compact, duration, lang, score, t, taskName } from "../i18n.js";
import { href } from "../router.js";
import { foot, shell } from "../same.js";
import { table, withTable } from "../widgets.js";

/** @param {Element} place @param {string[]} _ @param {URLSearchParams} query */
export async function show(place, _, query) {
  const ids = (query.get("ids") || "").split(",").filter(Boolean).map(decodeURIComponent).slice(0, 8);
  const infos = await Promise.all(ids.map((id) => get(at(id))));
  const metrics = [...new Set(infos.flatMap((info) => info.scores.map((/** @type {any} */ one) => one.metric)))];
  const tasks = [...new Set(infos.filter((info) => info.curve.length).map((info) => info.task))];
  const points = (/** @type {any} */ info, /** @type {boolean} */ valid) => info.curve.filter((/** @type {any} */ row) => (row.split === "valid") === valid && Number.isFinite(row.loss)).map((/** @type {any} */ row) => [row.step, row.loss]);
  const curves = (/** @type {string} */ task) => infos.filter((info) => info.task === task).flatMap((info, i) => [false, true].map((valid) => ({ name: `${info.id} · ${t(valid ? "valid" : "train")}`, points: points(info, valid), dashed: valid, dots: valid, colour: COLOURS[i % COLOURS.length] }))).filter((one) => one.points.length);
  const body = h("div", {},
    metrics.map((metric) => forest(metric, infos)),
    tasks.map((task) => h("section", { class: "card" }, h("h2", {}, tasks.length > 1 ? `${t("loss")} · ${taskName(task)}` : t("loss")), plot(curves(task), { label: t("curveHelp"), x: t("step"), y: t("loss"), low: 0 }))),
    h("section", { class: "card" }, h("h2", {}, t("cost")), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("cost") }, h("table", {}, h("thead", {}, h("tr", {}, [t("name"), t("task"), t("model"), t("parameters"), t("cost"), t("step")].map((name, i) => h("th", { scope: "col", class: i > 2 ? "num" : "" }, name)))),
      h("tbody", {}, infos.map((info) => h("tr", {}, h("td", {}, h("a", { href: href(["run", info.id]) }, info.id)), h("td", {}, taskName(info.task)), h("td", {}, info.model), h("td", { class: "num" }, info.parameters ? compact(info.parameters) : ""), h("td", { class: "num" }, info.seconds ? duration(info.seconds) : ""), h("td", { class: "num" }, info.curve.length ? info.curve[info.curve.length - 1].step : ""))))))));
  put(place, h("h1", {}, t("several")), h("p", { class: "muted" }, t("severalLead")), body,
    foot(() => ({ command: infos.map((info) => `attentif evaluate ${shell(info.path)}`).join("\n"), python: `import attentif\n\nfor folder in (${infos.map((info) => `${JSON.stringify(info.path)},`).join(" ")}):\n    print(attentif.load(folder).results["scores"])` }), body, "runs"));
}

/** Scores of one metric with their intervals, on one axis. @param {string} metric @param {any[]} infos */
function forest(metric, infos) {
  const lines = infos.flatMap((info) => info.scores.filter((/** @type {any} */ one) => one.metric === metric && one.value !== null).map((/** @type {any} */ one) => ({ id: info.id, one })));
  const ends = lines.flatMap(({ one }) => one.interval || [one.value]);
  const low = Math.min(...ends), high = Math.max(...ends), room = (high - low) * 0.08 || Math.abs(high) * 0.05 || 1;
  const wide = unitsAcross(780), left = wide < 500 ? 112 : 200, axis = wide < 500 ? 130 : 380, end = left + axis;
  const x = (/** @type {number} */ v) => left + (axis * (v - low + room)) / (high - low + 2 * room);
  const [{ one: first }] = lines;
  return h("section", { class: "card" }, h("h2", {}, first.name[lang()]), withTable(h("div", { class: "scroll" }, s("svg", { class: "forest", viewBox: `0 0 ${wide} ${lines.length * 34 + 8}`, width: "100%", role: "img", "aria-label": first.name[lang()] }, lines.map(({ id, one }, i) => {
    const y = 22 + 34 * i;
    return [s("text", { x: left - 10, y: y + 5, "text-anchor": "end", "font-size": 14, fill: "var(--ink)" }, id.slice(0, left / 8)), s("line", { x1: left, x2: end, y1: y, y2: y, stroke: "var(--line)" }),
      one.interval ? s("line", { x1: x(one.interval[0]), x2: x(one.interval[1]), y1: y, y2: y, stroke: "var(--accent)", "stroke-width": 3, "stroke-linecap": "round" }) : null,
      s("circle", { cx: x(one.value), cy: y, r: 5.5, fill: "var(--accent)", "data-value": one.value }), s("text", { x: end + 12, y: y + 5, "font-size": 14, fill: "var(--ink)" }, score(one, one.value), one.interval && wide > 500 ? s("tspan", { fill: "var(--muted)", "font-size": 12 }, `  [${one.interval.map((/** @type {number} */ end) => score(one, end)).join(" – ")}]`) : null)];
  }))), () => table([t("name"), t("scoreName"), t("interval")], lines.map(({ id, one }) => [id, { num: score(one, one.value) }, { num: one.interval ? one.interval.map((/** @type {number} */ end) => score(one, end)).join(" – ") : "–" }]))));
}
