/** Train a model from the page: a recipe, a file of the opened folder, what it would take; then watch, stop, resume. */
import { at, get, post, stream } from "../api.js";
import { h, put } from "../dom.js";
import { t, typeset } from "../i18n.js";
import { href, remember, route } from "../router.js";
import { curve } from "../charts.js";
import { foot, python, shell } from "../same.js";
import { busy, problem, table } from "../widgets.js";

/** @param {Element} place @param {string[]} _ @param {URLSearchParams} query */
export async function show(place, _, query) {
  const [choices, { runs, jobs }] = await Promise.all([get("/training"), get("/runs")]);
  const option = (/** @type {string} */ value, /** @type {string} */ label, /** @type {string | null} */ chosen) => h("option", { value, selected: value === chosen }, label);
  const keep = () => remember({ recipe: recipe.value, model: model.value, file: file.value, minutes: minutes.value });
  const recipe = h("select", { id: "recipe", onchange: () => { keep(); describe(); preview(); } }, Object.keys(choices.recipes).map((/** @type {string} */ one) => option(one, one, query.get("recipe") || "reviews")));
  const model = h("select", { id: "model", onchange: keep }, option("", t("ownModel"), query.get("model") || ""), choices.models.map((/** @type {string} */ one) => option(one, one, query.get("model"))));
  const file = h("select", { id: "file", onchange: () => { keep(); preview(); } }, option("", t("builtin"), ""), choices.files.map((/** @type {string} */ one, /** @type {number} */ n) => option(String(n), one, query.get("file"))));
  const minutes = h("input", { type: "number", id: "minutes", min: 0.1, max: 1440, step: 0.1, value: query.get("minutes") || "1", onchange: keep });
  const about = h("small", { id: "about" }), fitted = () => choices.fitted.includes(recipe.value);
  const describe = () => {
    put(about, typeset((choices.recipes[recipe.value] || "").replace(/ ?\(--data(, --target)?\)/g, "")));
    model.disabled = minutes.disabled = fitted();  // counted or fitted at once: no network, no steps to limit
  };
  const shown = h("div"), needs = h("div", { "aria-live": "polite" }), progress = h("div", { id: "progress", "aria-live": "polite" }, h("p", { class: "hint" }, t("trainingHint")));
  const request = () => ({ recipe: recipe.value, model: (!fitted() && model.value) || null, file: file.value === "" ? null : Number(file.value), minutes: Number(minutes.value) || 1 });
  const estimate = () => busy(needs, async () => h("section", { class: "card" }, h("h2", {}, t("detected")), h("pre", { tabindex: 0, id: "detected" }, (await post("/training/estimate", request())).text.trim())));
  const preview = () => {
    put(needs);
    if (file.value === "") return put(shown);
    estimate();
    return busy(shown, async () => {
      const { columns, rows } = await get(`/training/files/${file.value}`);
      return h("section", { class: "card" }, h("h2", {}, t("firstRows")), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("firstRows") }, table(columns, rows)));
    });
  };
  const start = async () => {
    try {
      const { run, command } = await post("/training/start", request());
      remember({ watch: run });
      watch(progress, run, command.join(" "));
    } catch (error) { put(progress, problem(error)); }
  };
  const field = (/** @type {string} */ key, /** @type {any} */ input) => h("div", { class: "field" }, h("label", { for: input.id }, t(key)), input);
  const right = h("div", {}, progress, shown, needs);
  put(place, h("h1", {}, t("startTraining")), h("p", { class: "muted" }, t("trainingLead")),
    h("div", { class: "grid side" }, h("section", { class: "card" }, h("div", { class: "field" }, h("label", { for: "recipe" }, t("recipe")), recipe, about), field("model", model), field("file", file), choices.files.length ? null : h("p", {}, h("small", {}, t("noFiles"))), field("minutes", minutes),
      h("div", { class: "row" }, h("button", { class: "primary", type: "button", id: "start", onclick: start }, t("start")), h("button", { type: "button", onclick: estimate }, t("estimate")))),
      right), foot(() => code(request(), choices.files, fitted()), right, "training"));
  describe();
  if (file.value !== "") preview();
  const watched = query.get("watch") || Object.keys(jobs).find((id) => jobs[id]) || runs.find((/** @type {any} */ run) => run.state === "running")?.id;
  if (watched) watch(progress, watched, "");
}

/** What starts the same. @param {{recipe: string, model: string | null, file: number | null, minutes: number}} asked @param {string[]} files @param {boolean} fitted */
function code(asked, files, fitted) {
  const file = asked.file === null ? null : files[asked.file];
  const words = [asked.recipe, file && `--data ${shell(file)}`, ...(fitted ? [] : [asked.model && `model.base=${asked.model}`, `train.minutes=${asked.minutes}`, "train.follow=true"])].filter(Boolean);
  const options = fitted ? {} : { ...(asked.model ? { model: { base: asked.model } } : {}), train: { minutes: asked.minutes, follow: true } };
  const given = [...[asked.recipe, ...(file ? [file] : [])].map(python), ...Object.entries(options).map(([key, value]) => `${key}=${python(value)}`)];
  return { command: `attentif train ${words.join(" ")}`, python: `import attentif\n\nrun = attentif.train(${given.join(", ")})` };
}

/** @type {AbortController | null} */ let watching = null;

/** Follow a run wherever it is: another tab, or none, may have started it. @param {Element} place @param {string} id @param {string} command */
async function watch(place, id, command) {
  watching?.abort();
  watching = new AbortController();
  const signal = watching.signal;
  /** @type {any[]} */ const rows = [];
  const state = h("span", { class: "pill", id: "state" }), figure = h("div"), said = h("p", { class: "muted mono" });
  const act = (/** @type {string} */ name, /** @type {boolean} */ again) => h("button", { type: "button", id: name, onclick: async () => {
    try { await post(`${at(id)}/${name}`, {}); if (again) setTimeout(() => watch(place, id, ""), 300); } catch (error) { said.textContent = error instanceof Error ? error.message : ""; }
  } }, t(name));
  const stop = act("stop", false), resume = act("resume", true);
  put(place, h("section", { class: "card" }, h("div", { class: "row end" }, h("h2", {}, `${t("watch")} · ${id}`), state), command ? h("pre", { tabindex: 0 }, command) : null, command ? h("p", { class: "muted" }, t("started")) : null, figure, said, h("div", { class: "row" }, stop, resume, h("a", { class: "button", href: href(["run", id, "training"]) }, t("openRun")))));
  try {
    await stream(`${at(id)}/events`, null, (event) => {
      if (!place.isConnected && route().parts[0] !== "training") return watching?.abort();
      rows.push(...event.rows);
      state.textContent = t(event.state);
      state.className = `pill ${event.state}`;
      said.textContent = event.said;
      stop.disabled = event.state !== "running" && event.state !== "starting";
      resume.disabled = event.state !== "stopped";
      if (rows.length) put(figure, curve(rows, t("curveHelp")));
      return undefined;
    }, signal);
  } catch (error) {
    if (!(error instanceof DOMException)) put(place, problem(error));
  }
}
