/** Change it: switch something off, and see the answer beside the original one; heads ranked by what they do. */
import { at, get, post } from "../api.js";
import { h, later, put } from "../dom.js";
import { fixed, partName, t } from "../i18n.js";
import { inline } from "../math.js";
import { remember, route } from "../router.js";
import { foot, opening, python } from "../same.js";
import { bars, busy, problem, tokenList, visible } from "../widgets.js";
import { another, firstText, shownRow, textOf } from "./try.js";

/** @param {Element} place @param {import("./run.js").Opened} opened */
export async function show(place, opened) {
  const { id, info } = opened;
  const query = route().query;
  /** @type {any[]} */ let changes = [];
  try { changes = JSON.parse(query.get("changes") || "[]"); } catch { changes = []; }
  const box = h("textarea", { id: "text", rows: 2, spellcheck: "false", value: query.get("text") ?? firstText(info) });
  const found = h("div", { id: "changed", "aria-live": "polite" }), switches = h("div"), ranking = h("div");
  const parts = info.architecture.stacks.flatMap((/** @type {any} */ stack) => stack.blocks.flatMap((/** @type {any} */ block) => block.numbers.flatMap((/** @type {number} */ n) => block.sublayers.map((/** @type {any} */ one) => ({ ...one, path: `${stack.path}.blocks.${n}.${one.name}` })))));
  const drawing = !["text", "source"].includes(info.reads);
  let example = Number(query.get("example") || 0);
  const picture = h("div");
  const request = () => ({ ...(drawing ? { example } : { text: box.value }), step: opened.step() });
  const key = (/** @type {any} */ one) => JSON.stringify([one.kind, one.path, one.expert]);
  const set = (/** @type {any} */ change, /** @type {boolean} */ on) => { changes = [...changes.filter((one) => key(one) !== key(change)), ...(on ? [change] : [])]; go(); };
  const has = (/** @type {any} */ change) => changes.some((one) => key(one) === key(change));
  /** @type {any} */ let tokens = { tokens: [], heads: {} };
  const go = () => {
    remember({ ...(drawing ? { example } : { text: box.value }), changes: changes.length ? JSON.stringify(changes) : null });
    return busy(found, async () => [chips(changes, tokens, (change, on) => { set(change, on); put(switches, panel()); }), outcome(await post(`${at(id)}/change`, { ...request(), changes }), changes.length > 0)]);
  };
  const panel = () => controls(tokens, { parts, set, has, changes: () => changes, info, readTokens: (text) => post(`${at(id)}/tokens`, { text, step: opened.step() }) });
  const fill = async () => {
    await busy(switches, async () => { tokens = await post(`${at(id)}/tokens`, request()); return panel(); });
    await go();
  };
  const rank = () => busy(ranking, async () => {
    const list = await post(`${at(id)}/heads`, request());
    const most = Math.max(...list.map((/** @type {any} */ one) => Math.abs(one.effect)), 1e-9);
    return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("rank") }, h("table", { class: "tight ranking" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("head")), h("th", { scope: "col" }, t("causal")), h("th", { scope: "col", class: "num" }, ""), h("th", { scope: "col", class: "num" }, t("largest")), h("th", {}, h("span", { class: "sr" }, t("change"))))),
      h("tbody", {}, list.slice(0, 40).map((/** @type {any} */ one) => h("tr", {}, h("th", { scope: "row" }, `${partName(one.path)} · ${one.head + 1}`),
        h("td", { style: { minWidth: "9em" } }, h("div", { class: "bars", style: { gridTemplateColumns: "1fr" } }, h("div", { class: "track" }, h("div", { class: `fill${one.effect < 0 ? " other" : ""}`, style: { width: `${(100 * Math.abs(one.effect)) / most}%` } })))),
        h("td", { class: "num", "data-effect": one.effect }, fixed(one.effect, 4)), h("td", { class: "num" }, one.weight === null ? "" : fixed(one.weight, 3)),
        h("td", {}, h("button", { type: "button", class: "quiet", "aria-label": `${t("change")}: ${one.path} ${one.head + 1}`, onclick: () => set({ kind: "heads", path: one.path, heads: [one.head] }, true) }, "×")))))));
  });
  box.addEventListener("input", later(fill, 350));
  /** @type {any} */ let shown = null;
  put(place, h("p", { class: "muted" }, t("changesLead")),
    h("section", { class: drawing ? "card" : "card asking" }, drawing ? picture : h("div", { class: "field" }, h("label", { for: "text" }, t("read")), box), another(opened, (row, number) => { example = number; if (drawing) put(picture, shownRow(row, number)); if (!drawing) box.value = textOf(row, info.reads); remember(drawing ? { example } : { text: box.value }); return fill(); })),
    h("div", { class: "grid side" }, h("section", { class: "card" }, h("div", { class: "row end" }, h("h2", {}, t("change")), h("button", { type: "button", class: "quiet", onclick: () => { changes = []; fill(); } }, t("reset"))), switches),
      shown = h("div", {}, found, parts.some((/** @type {any} */ one) => one.sizes.heads) && h("section", { class: "card" }, h("div", { class: "row end" }, h("h2", {}, t("heads")), h("button", { type: "button", id: "rank", onclick: rank }, t("rank"))), h("p", { class: "muted" }, t("rankHelp")), ranking))),
    foot(() => code(opened, box.value, changes), shown, id));
  if (drawing) get(`${at(id)}/examples`).then(({ rows }) => rows[example] && put(picture, shownRow(rows[example], example)));
  await fill();
}

/** Changes as Python writes them. @param {any} one @returns {string} */
function written(one) {
  const path = JSON.stringify(one.path);
  switch (one.kind) {
    case "heads": return `HeadsOff(${path}, (${one.heads.map((/** @type {number} */ head) => `${head},`).join(" ")}))`;
    case "part": return `PartOff(${path})`;
    case "residual": return one.path ? `ResidualOff(${path})` : "ResidualOff()";
    case "positions": return "PositionsOff()";
    case "unscaled": return "AttentionScale(unscaled=True)";
    case "mask": return "MaskOff()";
    case "sharpen": return `AttentionScale(${one.factor})`;
    case "expert": return `ExpertOff(${path}, ${one.expert})`;
    case "vector": return one.word ? `TokenVector(${one.place}, run.tokenizer.encode(${python(one.word)}, wrap="none").ids[0])` : `TokenVector(${one.place})`;
    default: return `Patch(${path}, ${one.place}, inspect.make_batch([run.tokenizer.encode(${python(one.text)}).ids]), ${one.place_there})`;
  }
}

/** @param {import("./run.js").Opened} opened @param {string} text @param {any[]} changes */
function code(opened, text, changes) {
  const { info } = opened;
  const calls = changes.map(written), names = [...new Set(calls.map((one) => one.split("(")[0]))].sort();
  const ask = info.capabilities.includes("fill") ? `run.fill(${python(text)})` : info.capabilities.includes("generate") && !info.capabilities.includes("translate") ? `run.model(inspect.make_batch([run.task.prompt(run.tokenizers, ${python(text)})]))[0][0, -1].softmax(-1)` : `run.predict([${python(text)}])`;
  const imports = ["from attentif import inspect", ...(names.length ? [`from attentif.inspect.interventions import ${names.join(", ")}`] : [])];
  const body = JSON.stringify({ text, step: opened.step(), changes });
  return {
    command: `curl ${location.origin}/studio/api/runs/${encodeURIComponent(info.id)}/change -H "X-Attentif-Token: $TOKEN" -H 'Content-Type: application/json' -d '${body.replace(/'/g, "'\\''")}'`,
    python: `${opening(info, opened.step(), imports)}\nwith inspect.intervene(run.model, [${calls.join(", ")}]):\n    print(${ask})`,
  };
}

/** @param {any} answer @param {boolean} changed */
function outcome(answer, changed) {
  const { before, after, measure } = answer;
  const panel = (/** @type {string} */ title, /** @type {any} */ one, other = false) => h("section", { class: "card", "data-side": other ? "after" : "before" }, h("h2", {}, title), h("p", { class: "answer" }, one.text || (one.kind === "next" ? visible(one.names[0]) : one.names[0]) || "–"), one.names.length ? bars(one.names.slice(0, 8).map((/** @type {string} */ name, /** @type {number} */ i) => ({ name, value: one.probabilities[i] })), { most: 1, other }) : null);
  const difference = measure[1] - measure[0];
  return [h("div", { class: "grid two" }, panel(t("before"), before), panel(t("after"), after, true)), h("p", { class: "hint", style: { margin: "14px 0 18px" }, "data-measure": measure.join(" ") }, changed ? t("effectOn", { before: fixed(measure[0], 3), after: fixed(measure[1], 3), change: `${difference > 0 ? "+" : ""}${fixed(difference, 3)}` }) : t("noChange"))];
}

/** @typedef {{parts: any[], set: (change: any, on: boolean) => void, has: (change: any) => boolean, changes: () => any[], info: any, readTokens: (text: string) => Promise<any>}} Panel */

/** @param {any} tokens @param {Panel} panel */
function controls(tokens, panel) {
  const { parts, set, has, changes } = panel;
  const check = (/** @type {any} */ change, /** @type {string} */ label) => h("label", { class: "check" }, h("input", { type: "checkbox", checked: has(change), "data-change": JSON.stringify(change), onchange: (/** @type {any} */ e) => set(change, e.target.checked) }), h("span", {}, inline(label)));
  const causal = parts.some((one) => one.notes.includes("causal"));
  const attends = Object.keys(tokens.heads).length > 0;
  const sharpShown = h("output", { class: "num" }), now = changes().find((one) => one.kind === "sharpen")?.factor || 1;
  const sharp = h("input", { type: "range", id: "sharpen", min: -3, max: 3, step: 0.25, oninput: () => { const factor = 2 ** Number(sharp.value); sharpShown.textContent = `× ${fixed(factor, 2)}`; }, onchange: () => { const factor = 2 ** Number(sharp.value); set({ kind: "sharpen", factor }, factor !== 1); } });
  sharp.value = String(Math.log2(now));
  sharpShown.textContent = `× ${fixed(now, 2)}`;
  const open = (/** @type {string} */ title, /** @type {any} */ inside, shown = false) => h("details", { open: shown }, h("summary", {}, title), inside);
  const headBoxes = Object.entries(tokens.heads).map(([path, count]) => h("div", {}, h("small", {}, partName(path)), h("div", { class: "row", role: "group", "aria-label": path, style: { gap: "4px" } }, Array.from({ length: /** @type {number} */ (count) }, (_, n) => {
    const mine = () => changes().find((one) => one.kind === "heads" && one.path === path)?.heads || [];
    return h("button", { type: "button", "data-head": `${path}:${n}`, "aria-pressed": String(mine().includes(n)), "aria-label": `${path} ${t("head")} ${n + 1}`, onclick: (/** @type {any} */ e) => {
      const heads = mine().includes(n) ? mine().filter((/** @type {number} */ one) => one !== n) : [...mine(), n];
      e.currentTarget.setAttribute("aria-pressed", String(heads.includes(n)));
      set({ kind: "heads", path, heads }, heads.length > 0);
    } }, String(n + 1));
  }))));
  const experts = parts.filter((one) => one.sizes.experts).flatMap((one) => Array.from({ length: one.sizes.experts }, (_, n) => check({ kind: "expert", path: one.path, expert: n }, `${partName(one.path)} · ${t("expert")} ${n + 1}`)));
  return [
    attends ? check({ kind: "positions" }, t("positionsOff")) : null, attends ? check({ kind: "unscaled" }, t("unscaledOff")) : null, causal ? check({ kind: "mask" }, t("maskOff")) : null, check({ kind: "residual", path: "" }, t("residualOff")),
    attends ? h("div", { class: "field" }, h("label", { for: "sharpen" }, h("span", {}, t("sharpen")), sharpShown), sharp) : null,
    attends ? open(t("heads"), headBoxes, true) : null,
    open(t("layersOff"), parts.map((one) => check({ kind: "part", path: one.path }, partName(one.path)))),
    experts.length ? open(t("expertsOff"), experts) : null,
    tokens.grid ? null : open(t("vectorOf"), vector(tokens, set)), tokens.grid || tokens.source ? null : open(t("patch"), patch(tokens, panel))];
}

/** Tokens to choose one from. @param {string[]} names @param {string} label */
function chooser(names, label) {
  const list = h("div");
  const one = { list, place: 0, names, fill: (/** @type {string[]} */ others = one.names) => {
    one.names = others;
    one.place = Math.min(one.place, Math.max(0, others.length - 1));
    put(list, tokenList(others, one.place, (n) => { one.place = n; one.fill(); }, label));
  } };
  one.fill();
  return one;
}

/** @param {any} tokens @param {(change: any, on: boolean) => void} set */
function vector(tokens, set) {
  const word = h("input", { type: "text", id: "vector-word", placeholder: t("nothing") });
  const here = chooser(tokens.source || tokens.tokens, t("vectorOf"));
  return h("div", { class: "panel" }, here.list, h("div", { class: "field" }, h("label", { for: "vector-word" }, t("withVector")), word),
    h("button", { type: "button", id: "replace-vector", onclick: () => set({ kind: "vector", place: here.place, word: word.value.trim() || null }, true) }, t("replace")));
}

/** @param {any} tokens @param {Panel} panel */
function patch(tokens, { parts, set, readTokens }) {
  const here = chooser(tokens.tokens, t("patchHere")), there = chooser([], t("patchThere"));
  const trouble = h("div"), go = h("button", { type: "button", id: "patch", disabled: true, onclick: () => set({ kind: "patch", path: part.value, place: here.place, text: other.value, place_there: there.place }, true) }, t("patchDo"));
  const read = later(async () => {
    put(trouble);
    try { there.fill(other.value.trim() ? (await readTokens(other.value)).tokens : []); } catch (error) { put(trouble, problem(error)); }
    go.disabled = !there.names.length;
  }, 350);
  const other = h("input", { type: "text", id: "patch-text", oninput: read });
  const part = h("select", { id: "patch-part" }, parts.map((one) => h("option", { value: one.path }, partName(one.path))));
  return h("div", { class: "panel" }, h("small", {}, t("patchHelp")),
    h("div", { class: "field" }, h("label", { for: "patch-text" }, t("otherText")), other), h("div", { class: "field" }, h("span", {}, t("patchThere")), there.list), h("div", { class: "field" }, h("span", {}, t("patchHere")), here.list),
    h("div", { class: "field" }, h("label", { for: "patch-part" }, t("patchAfter")), part), trouble, go);
}

/** What is changed, each to be taken back. @param {any[]} changes @param {any} tokens @param {(change: any, on: boolean) => void} set */
function chips(changes, tokens, set) {
  const token = (/** @type {number} */ place) => visible((tokens.source || tokens.tokens)[place] ?? String(place + 1));
  const say = (/** @type {any} */ one) => {
    const part = one.path ? partName(one.path) : "";
    switch (one.kind) {
      case "heads": return t("chipHeads", { part, heads: one.heads.map((/** @type {number} */ n) => n + 1).join(", ") });
      case "part": return t("chipPart", { part });
      case "residual": return t("residualOff");
      case "positions": return t("positionsOff");
      case "unscaled": return t("unscaledOff");
      case "mask": return t("maskOff");
      case "sharpen": return `${t("sharpen")} × ${fixed(one.factor, 2)}`;
      case "expert": return t("chipPart", { part: `${part} · ${t("expert")} ${one.expert + 1}` });
      case "vector": return t("chipVector", { token: token(one.place), word: one.word || "0" });
      default: return t("chipPatch", { token: token(one.place), text: one.text, part });
    }
  };
  return changes.length ? h("ul", { class: "chips" }, changes.map((one) => h("li", {}, h("span", {}, inline(say(one))), h("button", { type: "button", "aria-label": `${t("takeBack")} ${say(one)}`, onclick: () => set(one, false) }, "×")))) : null;
}
