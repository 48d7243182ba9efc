/** Try it: a panel for what the run can do. */
import { at, decode, get, post } from "../api.js";
import { h, later, put } from "../dom.js";
import { fixed, percent, t } from "../i18n.js";
import { remember, route } from "../router.js";
import { foot, opening, python, shell } from "../same.js";
import { bars, busy, effects, grid, matrix, plane, spans, table, withTable } from "../widgets.js";

/** What a text box begins with, by recipe or by capability. @type {Record<string, string>} */
const EXAMPLES = {
  numbers: "quatre cent vingt et un", classify: "Un film magnifique et des acteurs très justes.", translate: "quatre cent vingt et un", fill: "Le film est ___ .", generate: "def read(self", neighbours: "plage", tag: "Marie Curie est née à Varsovie.", answer: "Où est née Marie Curie ?",
};
const PASSAGE = "Marie Curie est née à Varsovie en 1867. Elle a étudié la physique à Paris, où elle a découvert le radium avec Pierre Curie.";

/** Which panel a run has. @param {any} info */
export function kindOf(info) {
  const can = info.capabilities;
  if (info.reads === "image" && !can.includes("answer")) return "picture";
  for (const name of ["fill", "translate", "classify", "tag", "answer", "generate", "forecast", "transcribe", "neighbours", "paint"]) if (can.includes(name)) return name;
  return "";
}

/** The example text of a run. @param {any} info */
export const firstText = (info) => EXAMPLES[info.recipe] || EXAMPLES[kindOf(info)] || "";

/** @type {Record<string, string>} */
const PANELS = { picture: "draw", generate: "write", forecast: "series", transcribe: "sound" };

/** @param {Element} place @param {import("./run.js").Opened} opened */
export async function show(place, opened) {
  const kind = kindOf(opened.info);
  const panel = opened.info.reads === "audio" ? "sound" : PANELS[kind];
  if (panel) return (await import(`./${panel}.js`)).show(place, opened);
  if (kind === "neighbours") return words(place, opened);
  if (!kind || kind === "paint") return put(place, h("p", { class: "hint" }, t("noPanel", { what: opened.info.capabilities.join(", ") })));
  return texts(place, opened, kind);
}

/** @param {Element} place @param {import("./run.js").Opened} opened @param {string} kind */
async function texts(place, opened, kind) {
  const query = route().query;
  const { reads, beside } = opened.info;
  const first = (/** @type {string} */ role) => query.get(role) ?? (role === "context" ? PASSAGE : "");
  const box = h("textarea", { id: "text", rows: 2, spellcheck: "false", value: query.get("text") ?? firstText(opened.info) });
  const others = beside.map((/** @type {string} */ role) => ({ role, box: h("textarea", { id: role, rows: role === "context" ? 5 : 2, spellcheck: "false", value: first(role) }) }));
  const found = h("div", { "aria-live": "polite" });
  /** @type {AbortController | null} */ let asking = null;
  const given = () => Object.fromEntries(others.filter((/** @type {any} */ one) => one.box.value.trim()).map((/** @type {any} */ one) => [one.role, one.box.value]));
  const ask = () => {
    remember({ text: box.value, ...Object.fromEntries(others.map((/** @type {any} */ one) => [one.role, one.box.value])) });
    asking?.abort();
    asking = new AbortController();
    const signal = asking.signal;
    if (!box.value.trim()) return put(found, h("p", { class: "hint" }, t("emptyText")));
    return busy(found, async () => {
      const answer = await post(`${at(opened.id)}/answer`, { text: box.value, beside: given(), step: opened.step() }, signal);
      return kind === "translate" ? translated(opened, box.value, answer, signal) : answered(answer, box.value);
    });
  };
  for (const one of [box, ...others.map((/** @type {any} */ other) => other.box)]) one.addEventListener("input", later(ask, 220));
  const field = (/** @type {any} */ input, /** @type {string} */ label) => h("div", { class: "field" }, h("label", { for: input.id }, label), input);
  const more = others.map((/** @type {any} */ one) => (one.role === "pair" ? h("details", { open: Boolean(one.box.value) }, h("summary", {}, t("readPair")), field(one.box, t("readPair"))) : field(one.box, t("passage"))));
  put(place,
    h("section", { class: "card asking" }, field(box, t(reads === "question" ? "askedQuestion" : "read")), more, kind === "fill" ? h("small", {}, t("fillHelp")) : null, another(opened, (row) => {
      box.value = textOf(row, reads);
      for (const one of others) one.box.value = row[one.role] ?? "";
      ask();
    })),
    found,
    foot(() => ({ command: command(opened, kind, box.value, given()), python: code(opened, kind, box.value, given()) }), found, opened.id));
  await ask();
}

/** The text of a row of the test split; words of a tagged sentence come a line each. @param {Record<string, string>} row @param {string} reads */
export const textOf = (row, reads) => { const text = row[reads] ?? row.text ?? row.source ?? Object.values(row)[0]; return row.tags === undefined && !/^(\S+\n)+\S+$/.test(text) ? text : text.replace(/\n/g, " "); };

/** A row of a run that reads no texts: its picture, or its number. @param {Record<string, string>} row @param {number} number */
export const shownRow = (row, number) => (row.image?.startsWith("data:image/") ? h("img", { class: "shown", src: row.image, alt: t("exampleNumber", { n: number + 1 }) }) : h("p", { class: "muted" }, t("exampleNumber", { n: number + 1 })));

/** Rows of the test split, one after the other. @param {import("./run.js").Opened} opened @param {(row: Record<string, string>, number: number) => void} use */
export function another(opened, use) {
  /** @type {any[] | null} */ let rows = null;
  let next = 0;
  const trouble = h("span", { class: "muted" });
  const button = h("button", { type: "button", id: "another", onclick: async () => {
    button.disabled = true;
    try {
      rows ??= (await get(`${at(opened.id)}/examples`)).rows;
      if (!rows?.length) trouble.textContent = t("noExamples");
      else { use(rows[next % rows.length], next % rows.length); next += 1; }
    } catch (error) {
      trouble.textContent = error instanceof Error ? error.message : "";
    }
    button.disabled = false;
  } }, t("another"));
  return h("div", { class: "row" }, button, trouble);
}

/** @param {any} answer @param {string} text */
function answered(answer, text) {
  const { outcome, words: did } = answer;
  const { entities, start, end, context } = outcome.details;
  const marked = entities ? spans(text, entities) : context && start !== undefined ? spans(context, [{ start, end, type: outcome.probability ? percent(outcome.probability) : "" }]) : null;
  return [
    h("div", { class: did.length ? "grid two" : "grid" },
      h("section", { class: "card" }, h("h2", {}, t("answering")),
        marked ? [entities ? null : h("p", { class: "answer", id: "answer" }, outcome.text || t("noAnswer")), marked] : h("p", { class: "answer", id: "answer" }, outcome.text || outcome.names[0] || t("noAnswer")),
        outcome.names.length ? bars(outcome.names.map((/** @type {string} */ name, /** @type {number} */ i) => ({ name, value: outcome.probabilities[i] })), { most: 1 }) : null,
        entities ? table([t("kind"), t("read"), t("characters")], entities.map((/** @type {any} */ one) => [one.type, one.text, `${one.start}–${one.end}`])) : null),
      did.length ? h("section", { class: "card" }, h("h2", {}, t("wordsDid")), effects(did), h("small", {}, t("wordsDidHelp"))) : null),
  ];
}

/** A translation with what its decoder looked at. @param {import("./run.js").Opened} opened @param {string} text @param {any} answer @param {AbortSignal} signal */
async function translated(opened, text, answer, signal) {
  const parts = [h("section", { class: "card" }, h("h2", {}, t("translation")), h("p", { class: "answer", id: "answer" }, answer.outcome.text || "–"))];
  const body = { text, step: opened.step() };
  const tokens = await post(`${at(opened.id)}/tokens`, body, signal);
  const crossing = tokens.maps.filter((/** @type {string} */ path) => path.includes("cross"));
  const path = crossing[crossing.length - 1];
  if (path && tokens.source) {
    const maps = await post(`${at(opened.id)}/maps`, { ...body, path }, signal);
    if (!maps.keys) {
      const [heads, rows, columns] = maps.weights.shape;
      const flat = decode(maps.weights);
      const mean = (/** @type {number} */ r, /** @type {number} */ c) => { let sum = 0; for (let k = 0; k < heads; k++) sum += flat[(k * rows + r) * columns + c]; return sum / heads; };
      const written = [...maps.rows.slice(1), "→"];  // at a place the decoder writes the next token
      parts.push(h("section", { class: "card" }, h("h2", {}, t("alignment")), h("p", { class: "muted" }, t("alignHelp")),
        withTable(matrix(mean, written, maps.columns, { label: t("alignment") }), () => grid(mean, written, maps.columns))));
    }
  }
  return parts;
}

/** @param {import("./run.js").Opened} opened @param {string} kind @param {string} text @param {Record<string, string>} given */
function command({ info }, kind, text, given) {
  if (kind === "fill") return `attentif fill ${shell(info.path)} ${shell(text)}`;
  const words = Object.entries(given).map(([role, value]) => ` --${role} ${shell(value)}`).join("");
  return `attentif predict ${shell(info.path)} ${shell(text)}${words}`;
}

/** @param {import("./run.js").Opened} opened @param {string} kind @param {string} text @param {Record<string, string>} given */
function code(opened, kind, text, given) {
  const input = Object.keys(given).length ? { [opened.info.reads]: text, ...given } : text;
  return `${opening(opened.info, opened.step())}\n${kind === "fill" ? `run.fill(${python(text)})` : `run.predict([${python(input)}])`}`;
}

/** Word vectors: neighbours and a map. @param {Element} place @param {import("./run.js").Opened} opened */
async function words(place, opened) {
  const box = h("input", { type: "text", id: "text", value: route().query.get("text") ?? EXAMPLES.neighbours });
  const near = h("div"), drawn = h("div"), both = h("div", { class: "grid side" }, h("section", { class: "card" }, h("h2", {}, t("neighbours")), near), h("section", { class: "card" }, h("h2", {}, t("map")), drawn));
  const ask = async () => {
    remember({ text: box.value });
    /** @type {any[]} */ let list = [];
    const word = box.value.trim();
    await busy(near, async () => {
      list = await post(`${at(opened.id)}/neighbours`, { word, count: 12 });
      return bars(list.map((one) => ({ name: one.word, value: one.cosine })), { most: 1, write: (v) => fixed(v, 3), click: (i) => { box.value = list[i].word; ask(); } });
    });
    await busy(drawn, async () => {
      const map = await post(`${at(opened.id)}/map`, { words: list.length ? [word, ...list.map((one) => one.word)] : [], count: 150 });
      return [h("p", { class: "muted" }, t("mapHelp", { share: percent(map.explained, 0) })), plane(map, word, list.map((one) => one.word), (name) => { box.value = name; ask(); })];
    });
  };
  box.addEventListener("input", later(ask, 350));
  put(place, h("section", { class: "card" }, h("div", { class: "field" }, h("label", { for: "text" }, t("word")), box)), both,
    foot(() => ({ command: `attentif neighbours ${shell(opened.info.path)} ${shell(box.value.trim())}`, python: `${opening(opened.info, null)}\nrun.neighbours(${python(box.value.trim())}, count=12)` }), both, opened.id));
  await ask();
}
