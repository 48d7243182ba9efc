/** The course: chapters with live views of a run that fits, which the page trains where there is none; experiments to run; checked questions. */
import { at, get, post, stream } from "../api.js";
import { h, put } from "../dom.js";
import { lang, t, typeset } from "../i18n.js";
import { href, remember, route } from "../router.js";
import { formula, inline } from "../math.js";
import { problem } from "../widgets.js";
import { TITLES, chapter as load } from "../course/index.js";
import { FIGURES } from "../course/figures.js";
import { threeVectors } from "./steps.js";

/** @param {import("../course/index.js").Both} both */
const say = (both) => typeset(both[lang()]);
/** The same with its subscripts. @param {import("../course/index.js").Both} both */
const tell = (both) => inline(say(both));

/** @param {Element} place @param {string[]} parts @param {URLSearchParams} query */
export async function show(place, parts, query) {
  const number = Number(parts[0] || 0);
  if (!TITLES[number - 1]) return overview(place);
  const [chapter, { runs }, { measured }] = await Promise.all([load(number), get("/runs"), get("/training")]);
  const link = (/** @type {number} */ n, /** @type {string} */ key) => (TITLES[n - 1] ? h("a", { class: "button", href: href(["course", String(n)]) }, `${t(key)} · ${say(TITLES[n - 1].title)}`) : h("span"));
  /** @type {[Element, import("../course/index.js").Widget][]} */ const widgets = [];
  const body = chapter.parts.map((part) => {
    const widget = part.widget ? h("div", { class: "widget" }) : null;
    if (widget && part.widget) widgets.push([widget, part.widget]);
    return [part.title ? h("h2", {}, tell(part.title)) : null, (part.text || []).map((one) => h("p", {}, tell(one))), part.formula ? formula(typeof part.formula === "string" ? part.formula : say(part.formula), { class: "formula display", tabindex: 0 }) : null, widget];
  });
  put(place, h("article", { class: "lesson" },
    h("p", { class: "muted crumbs" }, h("a", { href: href(["course"]) }, t("course")), " · ", t("chapter", { n: number })),
    h("h1", {}, say(TITLES[number - 1].title)), h("p", { class: "lead" }, say(TITLES[number - 1].lead)), body,
    h("h2", {}, t("experiment")), h("p", { class: "muted" }, t("experimentHelp")), chapter.lab.map((one) => experiment(one, measured.includes(one.name))),
    h("h2", {}, t("questions")), chapter.questions.map(question),
    h("nav", { class: "row end turn", "aria-label": t("course") }, link(number - 1, "previous"), link(number + 1, "next"))));
  /** @type {Chosen[]} */ const views = [];  // of runs, in the order of the page
  await Promise.all(widgets.map(([widget, one]) => fill(widget, one, number, runs, views)));
  const asked = Number(query.get("figure") || 1);
  if (views.length) await open(views, Math.min(Math.max(asked, 1), views.length) - 1, false);
}

const NO_MAPS = /rnn|lstm|gru|mamba|rwkv|s4|griffin|gated|linear|performer|ngram|window-mlp|cnn/;  // presets without a softmax over tokens

/** @param {Element} place */
const overview = (place) => put(place, h("h1", {}, t("course")), h("p", { class: "muted" }, t("courseLead")),
  h("ol", { class: "chapters" }, TITLES.map((one, n) => h("li", {}, h("a", { href: href(["course", String(n + 1)]) }, h("i", { "aria-hidden": "true" }, String(n + 1)), h("b", {}, say(one.title)), h("span", {}, say(one.lead)))))));

/** @param {Element} place @param {import("../course/index.js").Widget} widget @param {number} number of the chapter @param {any[]} runs @param {Chosen[]} views */
async function fill(place, widget, number, runs, views) {
  if (widget.view === "three") return put(place, threeVectors());
  if (FIGURES[widget.view]) return put(place, FIGURES[widget.view]());
  const base = widget.train?.model;
  const fits = (/** @type {any} */ run) => (widget.attends && NO_MAPS.test(run.model) ? false : run.state === "finished" || run.state === "fitted" ? !widget.kinds || widget.kinds.some((kind) => run.task === kind || run.model.includes(kind)) : false);
  const run = runs.find((/** @type {any} */ one) => fits(one) && base && one.model === base) || runs.find(fits);
  if (!run) return offer(place, widget, number, views);
  views.push({ place, widget, id: run.id });
  return undefined;
}

/** @typedef {{place: Element, widget: import("../course/index.js").Widget, id: string}} Chosen a view of a run */
const OWN = ["lang", "figure", "merges", "bpe-text", "factor", "place", "length", "delta"];  // parameters that are not a view's

/** Open one view; the others wait behind a button, for a view's state is the address of the page. @param {Chosen[]} views @param {number} chosen @param {boolean} fresh */
async function open(views, chosen, fresh) {
  if (fresh) remember(Object.fromEntries([...route().query.keys()].map((key) => [key, OWN.includes(key) ? route().query.get(key) : null])));
  if (views.length > 1) remember({ figure: chosen ? chosen + 1 : null });
  views.forEach((one, n) => { if (n !== chosen) put(one.place, closed(one, () => open(views, n, true))); });
  const { place, widget, id } = views[chosen];
  for (const [key, value] of Object.entries(widget.query || {})) if (!route().query.has(key)) remember({ [key]: value });
  const [info, shown] = await Promise.all([get(at(id)), import(`../views/${widget.view}.js`)]);
  const body = h("div");
  put(place, h("p", { class: "muted" }, t("onRun"), " ", h("a", { href: href(["run", id, widget.view], widget.query || {}) }, id)), body);
  return shown.show(body, { id, info, step: () => null, inCourse: true });
}

/** @param {Chosen} one @param {() => void} act */
const closed = ({ widget, id }, act) => h("section", { class: "card row" }, h("span", {}, t(widget.view === "change" ? "openChange" : widget.view === "inside" ? "openInside" : "openTry", { id })), h("button", { type: "button", class: "open-here", onclick: act }, t("openHere")));

/** Train the model that a figure wants, here and now. @param {Element} place @param {import("../course/index.js").Widget} widget @param {number} number of the chapter @param {Chosen[]} views */
function offer(place, widget, number, views) {
  const { recipe, model, minutes } = { minutes: 1, .../** @type {any} */ (widget.train || { recipe: "reviews" }) };
  const words = `attentif train ${recipe}${model ? ` model.base=${model}` : ""} train.minutes=${minutes}`;
  const said = h("p", { class: "muted mono", "aria-live": "polite" });
  const bar = h("progress", { max: 1, value: 0, hidden: true, "aria-label": t("watch") });
  const button = h("button", { class: "primary", type: "button", onclick: async () => {
    button.disabled = true;
    bar.hidden = false;
    try {
      const { run } = await post("/training/start", { recipe, model: model || null, minutes });
      const began = Date.now();
      let state = "starting";
      await stream(`${at(run)}/events`, null, (event) => {
        state = event.state;
        said.textContent = event.said || t(event.state);
        bar.value = Math.min(0.97, (Date.now() - began) / (60_000 * minutes + 8000));
      }, new AbortController().signal);
      if (state !== "finished" && state !== "fitted") throw new Error(said.textContent || t(state));
      if (route().parts[0] === "course" && Number(route().parts[1]) === number) {
        views.push({ place, widget, id: run });
        await open(views, views.length - 1, true);
      }
    } catch (error) {
      put(place, problem(error));
    }
  } }, t("trainHere"));
  return put(place, h("section", { class: "card" }, h("p", {}, t("needsRun")), h("div", { class: "row" }, button, bar), said, h("pre", { tabindex: 0 }, words)));
}

/** An experiment of the laboratory: run it, read its page. @param {{name: string, claim: import("../course/index.js").Both}} one @param {boolean} measured */
function experiment({ name, claim }, measured) {
  const said = h("pre", { tabindex: 0, hidden: true, "aria-live": "polite" }), page = h("div");
  const read = h("button", { type: "button", hidden: !measured, onclick: () => put(page, h("iframe", { class: "report", title: `${name} · ${say(claim)}`, src: `/studio/pages/lab/${name}?lang=${lang()}`, sandbox: "allow-scripts" })) }, t("readPage"));
  const go = h("button", { type: "button", onclick: async () => {
    go.disabled = true;
    said.hidden = false;
    said.textContent = t("loading");
    try {
      await post("/lab/start", { name });
      await stream(`/lab/${name}/events`, null, (event) => {
        if (event.said.length) said.textContent = event.said.slice(-12).join("\n");
        read.hidden = !event.page || event.state === "running";
      }, new AbortController().signal);
    } catch (error) {
      said.textContent = error instanceof Error ? error.message : "";
    }
    go.disabled = false;
  } }, measured ? t("measureAgain") : t("measure"));
  return h("section", { class: "card experiment" }, h("h3", { class: "first" }, `${name} · `, tell(claim)), h("div", { class: "row" }, go, read, h("code", { class: "muted" }, `attentif lab ${name}`)), said, page);
}

let questions = 0;
/** @param {import("../course/index.js").Question} one */
function question(one) {
  const said = h("p", { "aria-live": "polite", class: "verdict" }), name = `question-${++questions}`;
  const check = (/** @type {number} */ n) => put(said, h("span", { class: n === one.right ? "right" : "wrong" }, t(n === one.right ? "rightAnswer" : "wrongAnswer")), n === one.right ? [" ", tell(one.why)] : "");
  return h("section", { class: "question" }, h("fieldset", {}, h("legend", {}, tell(one.ask)), one.answers.map((answer, n) => h("label", { class: "check" }, h("input", { type: "radio", name, value: n, onchange: () => check(n) }), h("span", {}, tell(answer))))), said);
}
