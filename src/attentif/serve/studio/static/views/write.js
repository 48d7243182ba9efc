/** Generation: tokens as they come, the distribution of every step, sliders that redraw it at once, branches. */
import { at, decode, post, stream } from "../api.js";
import { h, later, put } from "../dom.js";
import { fixed, percent, t } from "../i18n.js";
import { remember, route } from "../router.js";
import { foot, opening, python, shell } from "../same.js";
import { bars, busy, problem, redrawBars, refreshTable, table, visible, withTable } from "../widgets.js";
import { firstText } from "./try.js";

const SHOWN = 14;
/** A token as it stands in a text: the signs for spaces and line ends are spaces and line ends again. @param {string} name */
const plain = (name) => (name === "" ? "∅" : name.replace(/␣/g, " ").replace(/⏎/g, "⏎\n"));

/** @type {WeakMap<Float32Array, Uint32Array>} */ const orders = new WeakMap();
/** Tokens by falling logit, sorted once: sliders do not change their order. @param {Float32Array} logits */
function orderOf(logits) {
  const known = orders.get(logits);
  if (known) return known;
  const order = Uint32Array.from(logits.keys()).sort((a, b) => logits[b] - logits[a]);
  orders.set(logits, order);
  return order;
}

/**
 * Probabilities after temperature, top-k and top-p, as `attentif.decode.sampling` has them. @param {Float32Array} logits
 * @param {{temperature: number, topK: number | null, topP: number}} how @returns {Float64Array}
 */
export function distribution(logits, how) {
  const n = logits.length;
  const order = orderOf(logits);
  const p = new Float64Array(n);
  if (!how.temperature) {
    p[order[0]] = 1;
    return p;
  }
  const kept = how.topK ? logits[order[Math.min(how.topK, n) - 1]] : -Infinity;
  const top = logits[order[0]];
  let total = 0;
  for (const i of order) {
    if (logits[i] < kept) break;
    total += p[i] = Math.exp((logits[i] - top) / how.temperature);
  }
  let before = 0, rest = 0;
  for (const i of order) {
    if (p[i] && before > 0 && how.topP < 1 && before / total >= how.topP) { p[i] = 0; continue; }
    before += p[i];
    rest += p[i];
  }
  for (const i of order) p[i] /= rest;
  return p;
}

/**
 * A tree of what was written: every token once under the one before it. @typedef {{id: number, name: string, p: number, text: string, children: Branch[], parent: Branch | null}} Branch
 */

/** The tokens from the root to here. @param {Branch} leaf @returns {Branch[]} */
const trail = (leaf) => (leaf.parent ? [...trail(leaf.parent), leaf] : []);

/** The child with this token, made where it is not there yet. @param {Branch} parent @param {{id: number, name: string, p: number}} token @returns {Branch} */
function grow(parent, token) {
  const known = parent.children.find((one) => one.id === token.id);
  if (known) return known;
  const made = { ...token, text: "", children: [], parent };
  parent.children.push(made);
  return made;
}

/** @param {Element} place @param {import("./run.js").Opened} opened */
export async function show(place, opened) {
  const query = route().query;
  const box = h("textarea", { id: "text", rows: 2, spellcheck: "false", value: query.get("text") ?? firstText(opened.info) });
  /** @type {Branch} */ let root = { id: -1, name: "", p: 1, text: "", children: [], parent: null };
  let leaf = root, place_ = root;  // the end of what is written, and the token after which the distribution is shown
  /** @type {{logits: Float32Array, top: number[], names: string[]} | null} */ let next = null;
  /** @type {AbortController | null} */ let writing = null;
  const paper = h("div", { class: "written", "aria-live": "off", id: "written" }), dist = h("div", { id: "distribution" }), tree = h("div", { id: "tree", class: "scroll tree", tabindex: 0, role: "region", "aria-label": t("branches") }), trouble = h("div");
  const slider = (/** @type {string} */ id, /** @type {string} */ key, /** @type {any} */ range, /** @type {string} */ first, /** @type {(v: number) => string} */ say) => {
    const out = h("output", { class: "num", for: id }), input = h("input", { type: "range", id, ...range });
    input.value = query.get(id) ?? first;
    const moved = () => { out.textContent = say(Number(input.value)); };
    const keep = later(() => remember({ [id]: input.value }), 150);  // browsers refuse an address that changes with every frame
    input.addEventListener("input", () => { moved(); keep(); draw(); });
    moved();
    return { input, field: h("div", { class: "field" }, h("label", { for: id }, h("span", {}, t(key)), out), input) };
  };
  const T = slider("temperature", "temperature", { min: 0, max: 2, step: 0.05 }, "0.8", (v) => fixed(v, 2));
  const K = slider("topk", "topK", { min: 0, max: 50, step: 1 }, "0", (v) => (v ? String(v) : t("all")));
  const P = slider("topp", "topP", { min: 0.05, max: 1, step: 0.05 }, "1", (v) => fixed(v, 2));
  const N = slider("tokens", "tokensToWrite", { min: 1, max: 120, step: 1 }, "40", String);
  const how = () => ({ temperature: Number(T.input.value), topK: Number(K.input.value) || null, topP: Number(P.input.value) });
  const ids = (/** @type {Branch} */ end) => trail(end).map((one) => one.id);

  /** Redraw the bars of the present distribution in place: the sliders call this in every frame. */
  let draw = () => {};
  const chart = () => {
    if (!next) return [];
    const { logits, top, names } = next;
    const plain_ = distribution(logits, { temperature: 1, topK: null, topP: 1 });
    const shown = () => { const p = distribution(logits, how()); return top.map((id, i) => ({ name: names[i], value: p[id], off: !p[id], id })); };
    const list = bars(shown().slice(0, SHOWN), { most: 1, click: (i) => choose(shown()[i]) });
    const numbers = withTable(h("span"), () => table([t("token"), t("original"), t("probability")], shown().map((one) => [visible(one.name), plain_[one.id], one.value])));
    draw = () => { redrawBars(list, shown().slice(0, SHOWN), { most: 1 }); refreshTable(numbers); };
    return [list, numbers];
  };
  const look = () => busy(dist, async () => {
    const found = await post(`${at(opened.id)}/next`, { text: box.value, ids: ids(place_), step: opened.step() });
    next = { logits: decode(found.logits), top: found.top, names: found.names };
    return chart();
  });
  const stand = (/** @type {Branch} */ end, /** @type {Branch} */ before = end) => { leaf = end; place_ = before; page(); return look(); };
  const page = () => {
    remember({ ids: ids(leaf).join(".") || null });
    put(paper, box.value, trail(leaf).map((one) => piece(one)));
    put(tree, root.children.length ? branches(root) : h("p", { class: "muted" }, t("noBranches")));
  };
  /** A span and no button: a line may end inside it. The distribution shown is the one that the token was drawn from. */
  const piece = (/** @type {Branch} */ one) => {
    const act = () => { if (one.parent) stand(leaf, one.parent); };
    return h("span", { role: "button", tabindex: 0, "aria-pressed": String(place_ !== leaf && one.parent === place_), title: percent(one.p, 1), "data-id": one.id, onclick: act, onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } } }, plain(one.name));
  };
  /** Tokens that follow one another alone are one line; where they part, the lines are indented. @param {Branch} from @returns {any} */
  const branches = (from) => h("ul", {}, from.children.map((child) => {
    const line = [child];
    while (line[line.length - 1].children.length === 1) line.push(line[line.length - 1].children[0]);
    const end = line[line.length - 1], on = trail(leaf).includes(end) || end === leaf || line.includes(leaf);
    const text = line.map((one) => plain(one.name).replace(/\n/g, "")).join("");
    return h("li", {}, h("button", { type: "button", class: "mono branch", "aria-pressed": String(on), onclick: () => stand(end) }, text.length > 64 ? `${text.slice(0, 40)} … ${text.slice(-20)}` : text), h("small", {}, ` ${percent(child.p, 1)}`), end.children.length ? branches(end) : null);
  }));
  const choose = (/** @type {{id: number, name: string, value: number}} */ token) => stand(grow(place_, { id: token.id, name: token.name, p: token.value }));
  const write = async () => {
    if (writing) { writing.abort(); return; }
    put(trouble);
    leaf = place_;
    writing = new AbortController();
    go.textContent = t("stop");
    dist.classList.add("busy");
    try {
      const { temperature, topK, topP } = how();
      await stream(`${at(opened.id)}/write`, { text: box.value, ids: ids(leaf), step: opened.step(), tokens: Number(N.input.value), temperature, top_k: topK, top_p: topP }, (item) => {
        leaf = place_ = grow(leaf, { id: item.id, name: item.name, p: item.probability });
        put(paper, box.value, trail(leaf).map((one) => piece(one)));
      }, writing.signal);
    } catch (error) {
      if (!(error instanceof DOMException)) put(trouble, problem(error));
    }
    writing = null;
    go.textContent = t("write");
    return stand(leaf);
  };
  const restart = () => { root = { id: -1, name: "", p: 1, text: "", children: [], parent: null }; return stand(root); };
  const go = h("button", { class: "primary", type: "button", onclick: write }, t("write"));
  box.addEventListener("input", later(() => { remember({ text: box.value }); restart(); }, 300));
  const body = h("div", { class: "grid wide" },
    h("div", {},
      h("section", { class: "card" }, h("div", { class: "field" }, h("label", { for: "text" }, t("read")), box), h("div", { class: "row" }, go, h("button", { type: "button", onclick: restart }, t("reset"))), trouble, paper, h("small", {}, t("branchHelp"))),
      h("section", { class: "card" }, h("h2", {}, t("branches")), tree)),
    h("section", { class: "card" }, h("h2", {}, t("nextToken")), h("div", { class: "sliders" }, T.field, K.field, P.field, N.field), dist, h("small", {}, t("nextHelp"))));
  put(place, body, foot(() => {
    const { temperature, topK, topP } = how();
    const path = shell(opened.info.path), words = [`--temperature ${temperature}`, topK ? `--top-k ${topK}` : "", topP < 1 ? `--top-p ${topP}` : "", `--max-tokens ${N.input.value}`].filter(Boolean).join(" ");
    const options = [`max_tokens=${N.input.value}`, `temperature=${temperature}`, ...(topK ? [`top_k=${topK}`] : []), ...(topP < 1 ? [`top_p=${topP}`] : []), "alternatives=8"].join(", ");
    return { command: `attentif generate ${path} ${shell(box.value)} ${words}`, python: `${opening(opened.info, opened.step())}\nrun.generate(${python(box.value)}, ${options})` };
  }, body, opened.id));
  const kept = (query.get("ids") || "").split(".").filter(Boolean).map(Number);
  if (kept.length) await replay(kept);
  else await stand(root);

  /** Tokens of the address, one after the other: a link holds the text that was written. @param {number[]} wanted */
  async function replay(wanted) {
    const { names } = await post(`${at(opened.id)}/names`, { ids: wanted }).catch(() => ({ names: [] }));
    let end = root;
    names.forEach((/** @type {string} */ name, /** @type {number} */ i) => { end = grow(end, { id: wanted[i], name, p: NaN }); });
    await stand(end);
  }
}
