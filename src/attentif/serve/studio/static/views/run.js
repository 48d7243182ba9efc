/** One run: its name, its tabs, and the weights (last, or of a kept checkpoint) that all its views look at. */
import { at, get } from "../api.js";
import { h, put } from "../dom.js";
import { compact, duration, lang, number, partName, score, t, taskName, typeset } from "../i18n.js";
import { href, remember, route } from "../router.js";
import { curve } from "../charts.js";
import { foot, opening, shell } from "../same.js";

const TABS = { try: "tryIt", inside: "inside", change: "change", training: "curves", report: "report" };

/** What views share of a run. @typedef {{id: string, info: any, step: () => number | null, inCourse?: boolean}} Opened */

/** @param {Element} place @param {string[]} parts @param {URLSearchParams} query */
export async function show(place, parts, query) {
  const [id, tab = "try"] = parts;
  const known = tab === "try" ? "try" : tab === "change" ? "change" : "inside";
  const [info, view] = await Promise.all([get(at(id)), import(`./${known}.js`)]);
  const tabs = Object.entries(TABS).filter(([name]) => info.network || name === "try" || (name === "inside" && info.kind === "ngram") || (name === "training" && info.curve.length)).filter(([name]) => name !== "report" || info.report).filter(([name]) => name !== "change" || changes(info));
  const [best] = info.scores;
  const facts = [taskName(info.task), info.model, info.parameters && `${compact(info.parameters)} ${t("parameters").toLowerCase()}`, best && `${best.name[lang()]} ${score(best, best.value)}`, info.seconds && duration(info.seconds)].filter(Boolean).join(" · ");
  const text = query.get("text");
  const body = h("div");
  const opened = { id, info, step: () => { const step = route().query.get("step"); return step === null ? null : Number(step); } };
  put(place, h("h1", {}, id), h("p", { class: "muted facts" }, facts, info.note ? [h("br"), h("span", { class: "note" }, typeset(sentence(info.note)))] : null),
    h("div", { class: "under" }, h("nav", { class: "tabs", "aria-label": id }, tabs.map(([name, key]) => h("a", { href: href(["run", id, name], { text, step: query.get("step") }), "data-bold": t(key), "aria-current": name === tab ? "page" : null }, t(key)))),
      tab !== "training" && tab !== "report" && info.steps.length > 1 && info.network ? checkpoints(opened, () => fill()) : null),
    body);
  const fill = async () => {
    if (tab === "training") return put(body, training(opened));
    if (tab === "report") return put(body, h("iframe", { class: "report", title: `${t("report")} · ${id}`, src: `/studio/pages/runs/${encodeURIComponent(id)}?lang=${lang()}`, sandbox: "allow-scripts" }));
    return view.show(body, opened);
  };
  await fill();
}

/** A slider over the kept checkpoints. @param {Opened} opened @param {() => void} moved */
function checkpoints(opened, moved) {
  const steps = [...opened.info.steps.map(String), ""];
  const now = steps.indexOf(String(opened.step() ?? ""));
  const shown = h("output", { class: "num" });
  const say = () => { shown.textContent = steps[Number(slider.value)] === "" ? t("lastWeights") : number(Number(steps[Number(slider.value)]), 8); };
  const slider = h("input", { type: "range", id: "step", min: 0, max: steps.length - 1, step: 1, oninput: () => { say(); remember({ step: steps[Number(slider.value)] }); moved(); } });
  slider.value = String(now < 0 ? steps.length - 1 : now);
  say();
  return h("div", { class: "follow", title: t("followHelp") }, h("label", { for: "step" }, t("checkpoint")), slider, shown);
}

/** @param {string} text */
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

/** Whether a change can be measured: by the probability of a label, of a token, of a text. @param {any} info */
const changes = (info) => ["classify", "describe", "generate", "fill", "translate"].some((name) => info.capabilities.includes(name)) && !["audio", "signal", "series"].includes(info.reads);

/** @param {Opened} opened */
function training(opened) {
  const { info } = opened;
  const sizes = Object.entries(info.sizes).map(([part, count]) => h("tr", {}, h("td", {}, partName(part)), h("td", { class: "num" }, number(/** @type {number} */ (count), 12))));
  const baselines = (info.results.baselines || []).map((/** @type {any} */ one) => h("tr", {}, h("td", {}, one.name[lang()] || one.name), h("td", { class: "num" }, one.scores[info.results.metric] !== undefined ? score(info.scores[0], one.scores[info.results.metric]) : "")));
  const body = h("div", { class: "grid wide" },
    h("section", { class: "card" }, h("h2", {}, t("curves")), curve(info.curve, t("curveHelp"))),
    h("div", {},
      baselines.length ? h("section", { class: "card" }, h("h2", {}, t("scoreName")), h("table", {}, h("tbody", {}, info.scores.map((/** @type {any} */ one) => h("tr", {}, h("td", {}, h("b", {}, info.id)), h("td", { class: "num" }, h("b", {}, score(one, one.value))))), baselines))) : null,
      h("section", { class: "card" }, h("h2", {}, t("parameters")), h("table", {}, h("tbody", {}, sizes)))));
  return [body, foot(() => ({ command: `attentif evaluate ${shell(info.path)}`, python: `${opening(info, null)}\nrun.results["scores"]` }), body, info.id)];
}
