/** All runs: what was trained, how good it is, what it cost. */
import { get } from "../api.js";
import { h, put } from "../dom.js";
import { compact, date, duration, lang, score, t, taskName } from "../i18n.js";
import { href, remember } from "../router.js";

/** @param {Element} place @param {string[]} _ @param {URLSearchParams} query */
export async function show(place, _, query) {
  const { runs, folder } = await get("/runs");
  const heading = [h("h1", {}, t("runs")), h("p", { class: "muted" }, t("runsLead", { folder }))];
  if (!runs.length) return put(place, heading, h("p", { class: "hint" }, t("noRuns", { command: "attentif train reviews" })));
  const body = h("tbody");
  const filter = h("input", { type: "search", "aria-label": t("search"), placeholder: t("search"), value: query.get("q") || "", oninput: () => { remember({ q: filter.value }); fill(); } });
  /** @type {Set<string>} */ const picked = new Set();
  const together = h("a", { class: "button", id: "several", hidden: true }, "");
  const pick = (/** @type {string} */ id, /** @type {boolean} */ on) => {
    if (on) picked.add(id); else picked.delete(id);
    together.hidden = picked.size < 2;
    together.textContent = t("compareThese", { n: picked.size });
    together.setAttribute("href", href(["several"], { ids: [...picked].map(encodeURIComponent).join(",") }));
  };
  runs.sort((/** @type {any} */ a, /** @type {any} */ b) => b.modified - a.modified);
  const fill = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = runs.filter((/** @type {any} */ run) => words.every((/** @type {string} */ word) => `${run.id} ${run.task} ${taskName(run.task)} ${run.model} ${run.recipe}`.toLowerCase().includes(word)));
    put(body, chosen.map((/** @type {any} */ run) => line(run, picked, pick)));
  };
  fill();
  put(place, heading, h("div", { class: "row over" }, runs.length > 6 ? h("div", { style: { width: "min(100%, 22rem)" } }, filter) : null, together),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("runs") }, h("table", { class: "runs" },
      h("thead", {}, h("tr", {}, h("th", {}, h("span", { class: "sr" }, t("choose"))), ["name", "task", "model", "scoreName", "interval", "cost", "parameters", "state", "changed"].map((key) =>
        h("th", { scope: "col", class: ["scoreName", "interval", "cost", "parameters"].includes(key) ? "num" : "" }, t(key))))),
      body)));
}

/** @param {any} run @param {Set<string>} picked @param {(id: string, on: boolean) => void} pick */
function line(run, picked, pick) {
  const [best] = run.scores;
  const cell = (/** @type {string} */ key, /** @type {any} */ value, numeric = false) => h("td", { "data-label": value ? t(key) : null, class: numeric ? "num" : "" }, value);
  const interval = best?.interval ? `${score(best, best.interval[0])} – ${score(best, best.interval[1])}` : "";
  return h("tr", { "data-run": run.id },
    h("td", { class: "pick" }, run.state === "damaged" ? null : h("input", { type: "checkbox", "aria-label": `${t("choose")} ${run.id}`, checked: picked.has(run.id), onchange: (/** @type {any} */ event) => pick(run.id, event.target.checked) })),
    h("td", {}, run.state === "damaged" ? h("b", {}, run.id) : h("a", { href: href(["run", run.id]) }, run.id), run.error ? h("div", { class: "muted" }, run.error) : null),
    cell("task", taskName(run.task)), cell("model", run.model),
    cell("scoreName", best ? [h("span", { "data-value": best.value }, score(best, best.value)), " ", h("small", {}, best.name[lang()])] : "", true),
    cell("interval", interval, true), cell("cost", run.seconds ? duration(run.seconds) : "", true), cell("parameters", run.parameters ? compact(run.parameters) : "", true),
    cell("state", h("span", { class: `pill ${run.state}` }, t(run.state))), h("td", { class: "when", "data-label": t("changed") }, date(run.modified)));
}
