/** Inside: the architecture; a click on a part shows what it computes on the user's own input. */
import { at, decode, get, post, rows } from "../api.js";
import { h, later, put } from "../dom.js";
import { fixed, number, partName, percent, t } from "../i18n.js";
import { formula } from "../math.js";
import { remember, route } from "../router.js";
import { foot, opening, python, shell } from "../same.js";
import { bars, busy, diagram, grid, lines, matrix, overview, sameKind, strip, tokenList, visible, withTable } from "../widgets.js";
import { another, firstText, shownRow, textOf } from "./try.js";
import { heat } from "./heat.js";
import { kneserNey, linearSteps, stateSpaceSteps } from "./states.js";
import { attentionSteps } from "./steps.js";

/** @param {Element} place @param {import("./run.js").Opened} opened */
export async function show(place, opened) {
  const { info, id } = opened;
  const reads = ["text", "source", "question"].includes(info.reads);
  if (info.kind === "ngram") return counts(place, opened);
  if (!info.network) return put(place, h("p", { class: "hint" }, t("noInside")));
  const query = route().query;
  const paths = info.architecture.stacks.flatMap((/** @type {any} */ stack) => Array.from({ length: stack.layers }, (_, n) => n).flatMap((n) => {
    const block = stack.blocks.find((/** @type {any} */ one) => one.numbers.includes(n));
    return block.sublayers.map((/** @type {any} */ part) => `${stack.path}.blocks.${n}.${part.name}`);
  }));
  const state = { text: query.get("text") ?? firstText(info), example: reads ? null : Number(query.get("example") || 0), path: query.get("path") || paths[0], head: Number(query.get("head") || 0), query: Number(query.get("query") ?? -1), view: query.get("view") || "steps", channel: Number(query.get("channel") || 0), kind: "" };
  const box = h("textarea", { id: "text", rows: 2, spellcheck: "false", value: state.text });
  const example = h("div"), picture = h("div", { class: "scroll" }), body = h("div", { "aria-live": "polite" });
  /** @type {any} */ let tokens = null;
  const request = () => ({ ...(reads ? { text: state.text, beside: given(info, query) } : { example: state.example }), step: opened.step() });

  const redraw = () => put(picture, diagram(info.diagram, state.path, (path) => {
    const layer = state.path.match(/blocks\.(\d+)\./)?.[1];
    const twin = layer !== undefined ? paths.find((/** @type {string} */ one) => sameKind(one, path) && one.includes(`blocks.${layer}.`)) : null;
    go({ path: twin || path, head: 0, channel: 0 });
  }));
  const go = (/** @type {any} */ changes) => {
    Object.assign(state, changes);
    remember({ text: reads ? state.text : null, example: state.example, path: state.path, head: state.head || null, query: state.query < 0 ? null : state.query, view: state.view, channel: state.channel || null });
    redraw();
    return fill();
  };
  const fill = () => busy(body, async () => {
    tokens = await post(`${at(id)}/tokens`, request());
    return part(opened, state, tokens, paths, go, request);
  });
  box.addEventListener("input", later(() => go({ text: box.value, query: -1 }), 350));
  put(place, h("section", { class: reads ? "card asking" : "card" }, reads ? h("div", { class: "field" }, h("label", { for: "text" }, t("read")), box) : example, another(opened, (row, number) => { if (!reads) put(example, shownRow(row, number)); if (reads) box.value = textOf(row, info.reads); return go(reads ? { text: box.value, query: -1 } : { example: number, query: -1 }); })),
    h("div", { class: info.architecture.stacks.length > 1 ? "grid drawn" : "grid side" }, h("section", { class: "card" }, h("h2", {}, t("architecture")), h("p", { class: "muted" }, t("architectureHelp")), picture), body),
    foot(() => code(opened, state, tokens, reads), body, id));
  redraw();
  if (!reads) get(`${at(id)}/examples`).then(({ rows: all }) => all[state.example] && put(example, shownRow(all[state.example], state.example)));
  await fill();
}

/** What is read beside the text, where the address says it. @param {any} info @param {URLSearchParams} query */
const given = (info, query) => Object.fromEntries(info.beside.filter((/** @type {string} */ role) => query.get(role)).map((/** @type {string} */ role) => [role, query.get(role)]));

/** @param {import("./run.js").Opened} opened @param {any} state @param {any} tokens @param {boolean} reads */
function code(opened, state, tokens, reads) {
  const { info } = opened;
  const language = info.capabilities.includes("generate");
  const ids = language ? `run.task.prompt(run.tokenizers, ${python(state.text)})` : `run.tokenizer.encode(${python(state.text)}).ids`;
  const query = state.query < 0 ? (tokens?.tokens.length || 1) - 1 : state.query;
  const batch = `batch = inspect.make_batch([${ids}])`, where = JSON.stringify(state.path);
  /** @type {Record<string, string>} */
  const calls = {
    attention: `inspect.attention_steps(run.model, batch, ${where}, head=${state.head}, query=${query}).weights`,
    "state-space": `inspect.state_space_steps(run.model, batch, ${where}, channel=${state.channel}, query=${query}).state`,
    linear: `inspect.linear_attention_steps(run.model, batch, ${where}, head=${state.head}, query=${query}).weights`,
    gates: "inspect.gates(run.model, batch)",
    experts: `inspect.routing(run.model, batch)[${where}]`,
    lens: "inspect.logit_lens(run.model, batch)",
  };
  for (const view of ["matrix", "lines", "headsView"]) calls[view] = `with attentif.record(run.model) as tape:\n    run.model.hidden(batch)\ntape.maps(${where}${view === "headsView" ? "" : `, head=${state.head}`})`;
  const known = reads && !tokens?.source && !info.beside.includes("context") && calls[state.kind];
  const lines_ = known ? [batch, known] : reads && !info.beside.includes("context") && tokens?.maps.length ? [`run.maps(${python(state.text)})`] : [`run.model  # ${state.path}`];
  const attends = reads && tokens?.maps.length;
  return { command: attends ? `attentif maps ${shell(info.path)} ${shell(state.text)} --out maps.html` : `attentif show ${shell(info.path)}`, python: `${opening(info, opened.step(), known ? ["from attentif import inspect"] : [])}\n${lines_.join("\n")}` };
}

/** The chosen part. @param {import("./run.js").Opened} opened @param {any} state @param {any} tokens @param {string[]} paths @param {(changes: any) => any} go @param {() => any} request */
async function part(opened, state, tokens, paths, go, request) {
  const options = ["frontend", ...paths, "head"];
  const heads = tokens.heads[state.path] || 0;
  const hasMap = tokens.maps.includes(state.path);
  const views = [...(hasMap && heads ? ["steps", "matrix", "lines", "headsView"] : hasMap ? ["steps", "matrix", "headsView"] : ["steps"]), "lens"];
  const view = views.includes(state.view) ? state.view : "steps";
  const names = state.path.startsWith("encoder") && tokens.source ? tokens.source : tokens.tokens;
  const at_ = state.query < 0 || state.query >= names.length ? (opened.info.capabilities.includes("generate") ? names.length - 1 : Math.min(2, names.length - 1)) : state.query;
  const controls = h("div", { class: "row" },
    h("label", { class: "plain" }, `${t("part")} `, h("select", { "aria-label": t("part"), onchange: (/** @type {any} */ e) => go({ path: e.target.value, head: 0, channel: 0 }) }, options.map((one) => h("option", { value: one, selected: one === state.path }, title(one))))),
    heads ? h("label", { class: "plain" }, `${t("head")} `, h("select", { "aria-label": t("head"), onchange: (/** @type {any} */ e) => go({ head: Number(e.target.value) }) }, Array.from({ length: heads }, (_, n) => h("option", { value: n, selected: n === state.head }, String(n + 1))))) : null,
    h("div", { class: "segmented", role: "group", "aria-label": t("views") }, views.map((one) => h("button", { type: "button", "aria-pressed": String(one === view), onclick: () => go({ view: one }) }, t(one)))));
  const chooser = h("div", { class: "field" }, h("span", {}, t("query")), tokenList(names, at_, (place) => go({ query: place }), t("query")));
  const card = (/** @type {any[]} */ ...inside) => h("section", { class: "card" }, h("h2", {}, title(state.path)), controls, inside);
  state.kind = view;
  if (view === "lens") return card(...(await lens(opened, request)));
  if (view === "matrix" || view === "lines" || view === "headsView") return card(chooser, ...(await maps(opened, state, request, view, at_, go)));
  const found = await post(`${at(opened.id)}/part`, { ...request(), path: state.path, head: state.head, query: at_, channel: state.channel });
  state.kind = found.kind;
  return card(...(PARTS[found.kind] || stream)(found, { chooser, at: at_, state, go }));
}

/** @param {string} path */
const title = (path) => (path === "target" ? t("partTarget") : partName(path));

/** @param {import("./run.js").Opened} opened @param {any} state @param {() => any} request @param {string} view @param {number} chosen @param {(changes: any) => any} go */
async function maps(opened, state, request, view, chosen, go) {
  const found = await post(`${at(opened.id)}/maps`, { ...request(), path: state.path });
  const [heads, queries, width] = found.weights.shape;
  const flat = decode(found.weights);
  const long = found.keys ? decode(found.keys) : null;
  const value = (/** @type {number} */ head) => {
    if (!long) return (/** @type {number} */ r, /** @type {number} */ c) => flat[(head * queries + r) * width + c];
    const sparse = new Map();
    for (let r = 0; r < queries; r++) for (let k = 0; k < width; k++) sparse.set(r * 1e5 + long[(head * queries + r) * width + k], flat[(head * queries + r) * width + k]);
    return (/** @type {number} */ r, /** @type {number} */ c) => sparse.get(r * 1e5 + c) || 0;
  };
  const label = `${title(state.path)} · ${t("head")} ${state.head + 1}`;
  const own = value(Math.min(state.head, heads - 1));
  const note = h("p", { class: "hint" }, t("attentionNote"));
  if (long) return [...(await longMap(opened, state, request, found, own, chosen, go)), note];
  if (view === "lines") return [lines(own, found.rows, found.columns, chosen, label), note];
  if (view === "headsView") return [h("div", { class: "heads" }, Array.from({ length: heads }, (_, n) => h("figure", {}, h("figcaption", {}, `${t("head")} ${n + 1}`), h("button", { type: "button", "aria-label": `${t("head")} ${n + 1}`, onclick: () => go({ head: n, view: "matrix" }) }, matrix(value(n), found.rows, found.columns, { size: 150, labels: false, label: `${t("head")} ${n + 1}` })), numbers(value(n), found.rows, found.columns)))), note];
  const drawn = matrix(own, found.rows, found.columns, { label, chosen, click: (row) => go({ query: row }) });
  drawn.setAttribute("data-row", Array.from(found.columns, (_, c) => own(Math.min(chosen, queries - 1), c)).join(" "));
  return [withTable(drawn, () => grid(own, found.rows, found.columns)), note];
}

/** The table of a small picture. @param {(row: number, column: number) => number} value @param {string[]} rows @param {string[]} columns */
const numbers = (value, rows, columns) => withTable(h("span"), () => grid(value, rows, columns));

/**
 * Thousands of tokens: an overview of each query's largest weights, a square of it in full, and the largest weights of one query.
 * @param {import("./run.js").Opened} opened @param {any} state @param {() => any} request @param {any} found @param {(row: number, column: number) => number} own @param {number} chosen @param {(changes: any) => any} go
 */
async function longMap(opened, state, request, found, own, chosen, go) {
  const [heads, queries, width] = found.weights.shape;
  const head = Math.min(state.head, heads - 1), flat = decode(found.weights), long = decode(found.keys);
  const items = Array.from({ length: width }, (_, k) => ({ at: long[(head * queries + chosen) * width + k], value: flat[(head * queries + chosen) * width + k] })).map((one) => ({ name: `${found.columns[one.at]} · ${one.at + 1}`, value: one.value }));
  const square = h("div");
  const open = (/** @type {number} */ r, /** @type {number} */ c) => busy(square, async () => {
    const tile = await post(`${at(opened.id)}/maps`, { ...request(), path: state.path, head, tile: [Math.max(0, r), Math.max(0, c)] });
    const lines_ = rows(tile.weights);
    const [top, left] = tile.tile;
    return [h("p", { class: "muted" }, t("tileSays", { r0: top + 1, r1: top + tile.rows.length, c0: left + 1, c1: left + tile.columns.length })), withTable(matrix((y, x) => lines_[y][x], tile.rows, tile.columns, { label: t("matrix"), size: 560, click: (y) => go({ query: top + y }) }), () => grid((y, x) => lines_[y][x], tile.rows, tile.columns))];
  });
  const points = Array.from({ length: queries * width }, (_, i) => [Math.floor(i / width), long[head * queries * width + i], flat[head * queries * width + i]]);
  open(chosen - 48, chosen - 48);
  return [h("p", { class: "muted" }, t("longMap", { n: queries, k: width })), overview(points, queries, found.columns.length, t("overview"), (r, c) => open(r - 48, c - 48)), square, h("h3", {}, t("largestOf", { token: visible(found.rows[chosen]) })), bars(items, { write: (v) => fixed(v, 4) })];
}

/** @param {import("./run.js").Opened} opened @param {() => any} request */
async function lens(opened, request) {
  const found = await post(`${at(opened.id)}/lens`, request());
  const places = found.tokens.length > 14 ? found.tokens.slice(-14) : found.tokens;
  const from = found.tokens.length - places.length;
  const lines_ = found.paths.map((/** @type {string} */ path, /** @type {number} */ l) => ({ path, l })).reverse();
  return [h("p", { class: "muted" }, t("lensHelp")), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("lens") }, h("table", { class: "tight lens" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("layer")), places.map((/** @type {string} */ name) => h("th", { scope: "col" }, visible(name))))),
    h("tbody", {}, lines_.map(({ path, l }) => h("tr", {}, h("th", { scope: "row" }, title(path)), places.map((/** @type {any} */ _, /** @type {number} */ p) => {
      const share = found.probabilities[l][from + p][0];
      const others = found.names[l][from + p].map((/** @type {string} */ name, /** @type {number} */ i) => `${visible(name)} ${percent(found.probabilities[l][from + p][i])}`).join("\n");
      return h("td", { title: others, "data-value": share, style: { backgroundColor: `rgb(var(--heat-rgb) / ${(0.5 * Math.sqrt(share)).toFixed(3)})` } }, visible(found.names[l][from + p][0]), " ", h("small", {}, percent(share, 0)));
    })))))) ];
}

/** @typedef {{chooser: any, at: number, state: any, go: (changes: any) => any}} Around */
/** One function for each kind of part. @type {Record<string, (found: any, around: Around) => any[]>} */
const PARTS = {
  attention: (found, around) => [around.chooser, attentionSteps(found)],
  frontend: (found, around) => {
    const names = found.tokens, place = Math.min(around.at, names.length - 1);
    const ids = found.values.ids ? decode(found.values.ids) : null;
    const line = (/** @type {string} */ key) => (found.values[key] ? h("li", {}, h("h3", {}, t(key)), strip(rows(found.values[key])[place], t(key), { embedding: "e", position: "p" }[key] || "x")) : null);
    return [around.chooser, ids ? h("p", {}, t("tokenIds"), " ", h("b", {}, number(ids[place], 8))) : null, h("ol", { class: "steps" }, line("embedding"), line("position"), line("sum"))];
  },
  norm: (found, around) => [around.chooser, h("ol", { class: "steps" }, h("li", {}, h("h3", {}, t("stepNorm")), formula("n(x)"), strip(decode(found.values.before), "x"), strip(decode(found.values.normed), "n(x)")))],
  head: (found) => {
    const p = decode(found.values.probabilities);
    return [h("h3", {}, t("answersNow")), bars(found.names.answers.map((/** @type {string} */ name, /** @type {number} */ i) => ({ name, value: p[i] })), { most: 1 })];
  },
  gates: (found) => [h("h3", {}, t("gates")), h("p", { class: "muted" }, t("gatesHelp")), Object.entries(found.values).map(([name, numbers]) => {
    const key = `gate_${name.split(".").pop()}`;
    return h("figure", { style: { margin: "0 0 18px" }, "data-gate": name }, h("figcaption", {}, h("b", {}, t(key)), name.includes("back") ? " ←" : name.includes("ahead") ? " →" : ""), heat(numbers, found.tokens, t(key)));
  })],
  "state-space": (found, around) => [around.chooser, stateSpaceSteps(found, (channel) => around.go({ channel }))],
  linear: (found, around) => [around.chooser, linearSteps(found)],
  experts: (found) => {
    const p = rows(found.values.probabilities), chosen = rows(found.values.chosen);
    return [h("p", { class: "muted" }, t("expertsHelp")), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("expert") }, h("table", { class: "tight" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("token")), p[0] && Array.from(p[0], (_, e) => h("th", { scope: "col", class: "num" }, `${t("expert")} ${e + 1}`)))),
      h("tbody", {}, p.map((line, i) => h("tr", {}, h("th", { scope: "row" }, visible(found.tokens[i] ?? "")), Array.from(line, (v, e) => h("td", { class: `num${Array.from(chosen[i]).includes(e) ? " here" : ""}`, "data-value": v }, percent(v))))))))];
  },
  "feed-forward": (found, around) => {
    const inner = decode(found.values.inner);
    return [around.chooser, h("h3", {}, t("hiddenUnits", { token: visible(found.tokens[around.at] ?? "") })), strip(inner, t("hiddenUnits", { token: "" }), ""), h("p", { class: "muted" }, t("hiddenHelp", { active: percent(found.facts.active, 0), n: number(found.facts.hidden, 8) })), h("h3", {}, t("addsToStream")), strip(decode(found.values.out), t("addsToStream"), "f(x)")];
  },
};

/** @param {any} found @returns {any[]} */
const stream = (found) => [h("h3", {}, t("addsToStream")), heat(found.values.out, found.tokens, t("addsToStream"))];

/** What an n-gram has counted, and how a next token comes by its probability. @param {Element} place @param {import("./run.js").Opened} opened */
async function counts(place, opened) {
  const query = route().query;
  const box = h("textarea", { id: "text", rows: 2, spellcheck: "false", value: query.get("text") ?? firstText(opened.info) });
  /** @type {number | null} */ let token = query.get("token") === null ? null : Number(query.get("token"));
  const body = h("div", { "aria-live": "polite" });
  let shown = token;
  const fill = () => { remember({ text: box.value, token }); return busy(body, async () => {
    const found = await post(`${at(opened.id)}/counts`, { text: box.value, token });
    shown = found.token;
    return [kneserNey(found, (chosen) => { token = chosen; return fill(); }), h("section", { class: "card" }, h("h2", {}, t("counts")), h("p", { class: "muted" }, t("countsHelp")), [...found.orders].reverse().map((/** @type {any} */ one) => h("div", {},
      h("h3", {}, `${t("context")} `, h("code", {}, one.context.length ? one.context.map(visible).join(" ") : t("nothingBefore")), ` · ${number(one.total, 12)}`),
      bars(one.names.map((/** @type {string} */ name, /** @type {number} */ i) => ({ name, value: one.counts[i] })), { write: (v) => number(v, 12), label: t("times") }))))];
  }); };
  box.addEventListener("input", later(() => { token = null; return fill(); }, 300));
  put(place, h("section", { class: "card" }, h("div", { class: "field" }, h("label", { for: "text" }, t("read")), box)), body,
    foot(() => ({ command: `attentif generate ${shell(opened.info.path)} ${shell(box.value)} --max-tokens 1`, python: `${opening(opened.info, null, ["from attentif.inspect.counts import ngram_steps"])}\nngram_steps(run.model, run.task.prompt(run.tokenizers, ${python(box.value)}), ${shown})` }), body, opened.id));
  await fill();
}
