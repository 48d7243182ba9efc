/** All runs: what was trained, how good it is, what it cost. */
import { get } from "../api.js";
import { h, put } from "../dom.js";
import { compact, date, duration, lang, score, t, taskName } from "../i18n.js";
import { href, remember } from "../router.js";
import { foot, python, shell } from "../same.js";

/** @param {Element} place @param {string[]} _ @param {URLSearchParams} query */
export async function show(place, _, query) {
  const { runs, folder } = await get("/runs");
  const heading = [h("h1", {}, t("runs")), h("p", { class: "muted" }, t("runsLead", { folder }))];
  if (!runs.length) return put(place, heading, h("p", { class: "hint" }, t("noRuns", { command: "attentif train reviews" })));
  const body = h("tbody");
  const filter = h("input", { type: "search", "aria-label": t("search"), placeholder: t("search"), value: query.get("q") || "", oninput: () => { remember({ q: filter.value }); fill(); } });
  /** @type {Set<string>} */ const picked = new Set();
  const together = h("a", { class: "button", id: "several", hidden: true }, ""), hint = h("span", { class: "muted" }, t("pickHint"));
  const pick = (/** @type {string} */ id, /** @type {boolean} */ on) => {
    if (on) picked.add(id); else picked.delete(id);
    together.hidden = picked.size < 2;
    hint.hidden = !together.hidden;
    together.textContent = t("compareThese", { n: picked.size });
    together.setAttribute("href", href(["several"], { ids: [...picked].map(encodeURIComponent).join(",") }));
  };
  let [by, down] = order(query.get("sort"));
  const heads = Object.keys(COLUMNS).map((key) => h("th", { scope: "col", class: NUMERIC.includes(key) ? "num" : "", "data-sort": key }, h("button", { type: "button", class: "sort", onclick: () => {
    down = by === key ? !down : NUMERIC.includes(key) || key === "changed";
    by = key;
    remember({ sort: `${down ? "-" : ""}${by}` });
    fill();
  } }, t(key))));
  const fill = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = runs.filter((/** @type {any} */ run) => words.every((/** @type {string} */ word) => `${run.id} ${run.task} ${taskName(run.task)} ${run.model} ${run.recipe}`.toLowerCase().includes(word)));
    chosen.sort((/** @type {any} */ a, /** @type {any} */ b) => compare(COLUMNS[by](a), COLUMNS[by](b), down));
    for (const head of heads) {
      if (head.dataset.sort === by) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    put(body, chosen.length ? chosen.map((/** @type {any} */ run) => line(run, picked, pick)) : h("tr", {}, h("td", { colspan: 10, class: "muted" }, t("noMatch"))));
  };
  fill();
  const whole = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("runs") }, h("table", { class: "runs" },
    h("thead", {}, h("tr", {}, h("th", {}, h("span", { class: "sr" }, t("choose"))), heads)), body));
  put(place, heading, h("div", { class: "row over" }, runs.length > 6 ? h("div", { style: { width: "min(100%, 22rem)" } }, filter) : null, runs.length > 1 ? [together, hint] : null),
    whole, foot(() => ({ command: `attentif list runs --folder ${shell(folder)}`, python: `import json\nfrom pathlib import Path\n\nfor path in sorted(Path(${python(folder)}).glob("*/results.json")):\n    print(path.parent.name, json.loads(path.read_text())["scores"])` }), whole, "runs"));
}

/** What each column is sorted by. @type {Record<string, (run: any) => string | number | null | undefined>} */
const COLUMNS = {
  name: (run) => run.id, task: (run) => taskName(run.task), model: (run) => run.model, scoreName: (run) => run.scores[0]?.value, interval: (run) => run.scores[0]?.interval?.[0],
  cost: (run) => run.seconds, parameters: (run) => run.parameters, state: (run) => t(run.state), changed: (run) => run.modified,
};
const NUMERIC = ["scoreName", "interval", "cost", "parameters"];

/** The column and the direction of an address; the newest first where it has none. @param {string | null} asked @returns {[string, boolean]} */
function order(asked) {
  const by = (asked || "").replace(/^-/, "");
  return by in COLUMNS ? [by, Boolean(asked?.startsWith("-"))] : ["changed", true];
}

/** What is not known comes last, whichever way. @param {any} a @param {any} b @param {boolean} down */
function compare(a, b, down) {
  const missing = [a, b].map((one) => one === null || one === undefined || one === "");
  if (missing[0] || missing[1]) return Number(missing[0]) - Number(missing[1]);
  return (down ? -1 : 1) * (typeof a === "number" ? a - b : String(a).localeCompare(String(b), lang()));
}

/** A line of the table. @param {any} run @param {Set<string>} picked @param {(id: string, on: boolean) => void} pick */
function line(run, picked, pick) {
  const [best] = run.scores;
  const cell = (/** @type {string} */ key, /** @type {any} */ value, numeric = false) => h("td", { "data-label": value ? t(key) : null, class: numeric ? "num" : "" }, value);
  const interval = best?.interval ? `${score(best, best.interval[0])} – ${score(best, best.interval[1])}` : "";
  return h("tr", { "data-run": run.id },
    h("td", { class: "pick" }, run.state === "damaged" ? null : h("input", { type: "checkbox", "aria-label": `${t("choose")} ${run.id}`, checked: picked.has(run.id), onchange: (/** @type {any} */ event) => pick(run.id, event.target.checked) })),
    h("td", { class: "run" }, run.state === "damaged" ? h("b", {}, run.id) : h("a", { href: href(["run", run.id]) }, run.id), run.error ? h("div", { class: "muted" }, run.error) : null),
    cell("task", taskName(run.task)), cell("model", run.model),
    cell("scoreName", best ? [h("span", { "data-value": best.value }, score(best, best.value)), h("small", { class: "metric" }, best.name[lang()])] : "", true),
    cell("interval", interval, true), cell("cost", run.seconds ? duration(run.seconds) : "", true), cell("parameters", run.parameters ? compact(run.parameters) : "", true),
    cell("state", h("span", { class: `pill ${run.state}` }, t(run.state))), h("td", { class: "when", "data-label": t("changed") }, date(run.modified)));
}
