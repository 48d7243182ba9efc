/** Two models on one input: answers, how each cuts the text (aligned by characters), maps, and where they disagree in a whole file. */
import { at, decode, get, post, stream } from "../api.js";
import { h, later, put } from "../dom.js";
import { compact, duration, lang, number, partName, percent, score, t, taskName } from "../i18n.js";
import { href, remember, route } from "../router.js";
import { foot, python, shell } from "../same.js";
import { bars, busy, effects, grid, matrix, problem, table, visible, withTable } from "../widgets.js";
import { firstText } from "./try.js";

const READS = new Set(["text", "source"]);

/** @param {Element} place @param {string[]} _ @param {URLSearchParams} query */
export async function show(place, _, query) {
  const [{ runs }, { files }] = await Promise.all([get("/runs"), get("/training")]);
  const usable = runs.filter((/** @type {any} */ run) => run.state !== "damaged" && !["image", "forecast", "word2vec", "glove", "ibm1", "speech", "signal", "paint"].includes(run.task));
  if (usable.length < 2) return put(place, h("h1", {}, t("compare")), h("p", { class: "hint" }, t("needsTwo")));
  const task = (/** @type {string} */ id) => usable.find((/** @type {any} */ one) => one.id === id)?.task;
  const pairs = usable.find((/** @type {any} */ run) => usable.some((/** @type {any} */ other) => other.id !== run.id && other.task === run.task));
  const first = query.get("a") || (pairs || usable[0]).id;
  const second = query.get("b") || (usable.find((/** @type {any} */ run) => run.id !== first && run.task === task(first)) || usable.find((/** @type {any} */ run) => run.id !== first)).id;
  const choose = (/** @type {string} */ id, /** @type {string} */ chosen) => h("select", { id, onchange: () => fill(true) }, usable.map((/** @type {any} */ run) => h("option", { value: run.id, selected: run.id === chosen }, `${run.id} · ${taskName(run.task)} · ${run.model}`)));
  const [a, b] = [choose("a", first), choose("b", second)];
  const box = h("textarea", { id: "text", rows: 2, spellcheck: "false", value: query.get("text") ?? "" });
  const left = h("div"), right = h("div"), ruler = h("div"), all = h("div", {}, h("div", { class: "grid two" }, left, right), ruler);
  /** @type {any} */ let infos = {};
  const fill = async (fresh = false) => {
    const ids = [a.value, b.value];
    infos = Object.fromEntries(await Promise.all([...new Set(ids)].map(async (id) => [id, await get(at(id))])));
    if (fresh || !box.value) box.value = firstText(infos[a.value]);
    remember({ a: a.value, b: b.value, text: box.value });
    const cut = await Promise.all([side(left, infos[a.value], box.value), side(right, infos[b.value], box.value)]);
    put(ruler, cut[0]?.spans && cut[1]?.spans ? aligned(box.value, ids, /** @type {any} */ (cut)) : null);
  };
  box.addEventListener("input", later(() => fill(), 350));
  put(place, h("h1", {}, t("compare")), h("p", { class: "muted" }, t("compareLead")),
    h("section", { class: "card" }, h("div", { class: "field" }, h("label", { for: "text" }, t("read")), box), h("div", { class: "grid two pair" }, h("div", { class: "field" }, h("label", { for: "a" }, t("firstModel")), a), h("div", { class: "field" }, h("label", { for: "b" }, t("secondModel")), b))),
    all, disagreements(() => [a.value, b.value], files),
    foot(() => ({ command: [a, b].map((one) => `attentif predict ${shell(infos[one.value].path)} ${shell(box.value)}`).join("\n"), python: `import attentif\n\nfor folder in (${[a, b].map((one) => JSON.stringify(infos[one.value].path)).join(", ")}):\n    run = attentif.load(folder)\n    print(run${infos[a.value].capabilities.includes("generate") ? `.generate(${python(box.value)}, max_tokens=1, alternatives=8)` : `.predict([${python(box.value)}])`})` }), all, "compare"));
  await fill();
}

/** One of the two; its tokens. @param {Element} place @param {any} info @param {string} text */
async function side(place, info, text) {
  /** @type {any} */ let tokens = null;
  await busy(place, async () => {
    const answer = await post(`${at(info.id)}/answer`, { text });
    const again = answer.seconds > 0.3 ? await post(`${at(info.id)}/answer`, { text }) : answer;  // the first answer of a model may have compiled its kernels
    tokens = info.network && READS.has(info.reads) ? await post(`${at(info.id)}/tokens`, { text }).catch(() => null) : null;
    const read = tokens ? tokens.source || tokens.tokens : [];
    const { outcome, words } = answer;
    const [best] = info.scores;
    return h("section", { class: "card", "data-run": info.id }, h("h2", {}, h("a", { href: href(["run", info.id, "try"], { text }) }, info.id)),
      h("p", { class: "muted" }, [info.model, info.parameters && `${compact(info.parameters)} ${t("parameters").toLowerCase()}`, best && `${best.name[lang()]} ${score(best, best.value)}`, info.seconds && t("trainedIn", { time: duration(info.seconds) }), t("answeredIn", { n: number(1000 * Math.min(answer.seconds, again.seconds), 2) })].filter(Boolean).join(" · ")),
      h("p", { class: "answer" }, outcome.text || visible(outcome.names[0] || "–")),
      outcome.names.length ? bars(outcome.names.slice(0, 8).map((/** @type {string} */ name, /** @type {number} */ i) => ({ name, value: outcome.probabilities[i] })), { most: 1 }) : null,
      words.length ? [h("h3", {}, t("wordsDid")), effects(words)] : null,
      read.length && !tokens.spans ? [h("h3", {}, `${t("tokensAs")} · ${t("tokensCount", { n: read.length })}`), h("div", { class: "tokens" }, read.slice(0, 300).map((/** @type {string} */ name) => h("code", { class: "pill" }, visible(name))))] : null,
      tokens?.maps.length ? map(info, text, tokens) : null);
  });
  return tokens;
}

/** A map of one part and head. @param {any} info @param {string} text @param {any} tokens */
function map(info, text, tokens) {
  const shown = h("div");
  const part = h("select", { "aria-label": t("part"), onchange: () => draw() }, tokens.maps.map((/** @type {string} */ path, /** @type {number} */ i) => h("option", { value: path, selected: i === tokens.maps.length - 1 }, partName(path))));
  const head = h("select", { "aria-label": t("head"), onchange: () => draw() });
  const draw = () => busy(shown, async () => {
    const found = await post(`${at(info.id)}/maps`, { text, path: part.value });
    const [heads, queries, width] = found.weights.shape;
    const now = Math.min(Number(head.value || 0), heads - 1);
    put(head, Array.from({ length: heads }, (_, n) => h("option", { value: n, selected: n === now }, String(n + 1))));
    if (found.keys) return h("p", { class: "muted" }, t("longMap", { n: queries, k: width }));
    const flat = decode(found.weights);
    const value = (/** @type {number} */ r, /** @type {number} */ c) => flat[(now * queries + r) * width + c];
    return withTable(matrix(value, found.rows, found.columns, { label: `${info.id} · ${partName(part.value)} · ${now + 1}`, size: 430 }), () => grid(value, found.rows, found.columns));
  });
  draw();
  return [h("h3", {}, t("mapOf")), h("div", { class: "row" }, part, h("label", { class: "plain" }, `${t("head")} `, head)), shown];
}

/** Both tokenizers over the same letters. @param {string} text @param {string[]} ids @param {{spans: ([number, number] | null)[], tokens: string[], source: string[] | null}[]} cut */
function aligned(text, ids, cut) {
  const letters = Array.from(text).slice(0, 400);
  const line = (/** @type {typeof cut[0]} */ one, /** @type {string} */ id, /** @type {number} */ row) => one.spans.map((span, i) => (span && span[1] > span[0] && span[0] < letters.length
    ? h("span", { class: `cut${row === 3 ? " below" : ""}`, "data-run": id, title: visible((one.source || one.tokens)[i]), style: { gridColumn: `${span[0] + 1} / ${Math.min(span[1], letters.length) + 1}`, gridRow: row } }) : null));
  const count = (/** @type {typeof cut[0]} */ one) => t("tokensCount", { n: (one.source || one.tokens).length });
  const together = cut[0].spans.filter((span) => span && cut[1].spans.some((other) => other && other[0] === span[0] && other[1] === span[1])).length;
  return h("section", { class: "card" }, h("h2", {}, t("tokensAs")), h("p", { class: "muted" }, t("alignedHelp", { a: ids[0], na: count(cut[0]), b: ids[1], nb: count(cut[1]), n: together })),
    withTable(h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("tokensAs") }, h("div", { class: "ruler", style: { gridTemplateColumns: `repeat(${letters.length}, 1.15ch)` } }, line(cut[0], ids[0], 1), letters.map((letter, i) => h("b", { style: { gridColumn: i + 1, gridRow: 2 } }, letter === " " ? "\u00a0" : visible(letter))), line(cut[1], ids[1], 3))),
      () => table([t("run_"), t("token"), t("characters")], cut.flatMap((one, k) => one.spans.map((span, i) => [ids[k], visible((one.source || one.tokens)[i]), span ? `${span[0]}–${span[1]}` : "–"])))));
}

/** @param {() => string[]} ids @param {string[]} files */
function disagreements(ids, files) {
  const found = h("div", { "aria-live": "polite", id: "disagreements" });
  const file = h("select", { id: "rows" }, h("option", { value: "" }, t("ownTest")), files.map((name, n) => h("option", { value: n }, name)));
  /** @type {AbortController | null} */ let asking = null;
  const go = h("button", { type: "button", id: "disagree", onclick: async () => {
    asking?.abort();
    asking = new AbortController();
    const [first, second] = ids();
    const bar = h("progress", { max: 1, value: 0, "aria-label": t("loading") });
    put(found, bar);
    try {
      /** @type {any} */ let last = null;
      await stream("/both", { first, second, file: file.value === "" ? null : Number(file.value) }, (seen) => { last = seen; bar.value = seen.done / Math.max(seen.total, 1); }, asking.signal);
      put(found, last ? summary(last, [first, second]) : h("p", { class: "hint" }, "–"));
    } catch (error) {
      if (!(error instanceof DOMException)) put(found, problem(error));
    }
  } }, t("compareRows"));
  return h("section", { class: "card" }, h("h2", {}, t("disagree")), h("p", { class: "muted" }, t("disagreeHelp")), h("div", { class: "row" }, h("label", { class: "plain", for: "rows" }, t("file")), file, go), found);
}

/** @param {any} seen @param {string[]} ids */
function summary(seen, ids) {
  const share = (/** @type {number} */ n, /** @type {number} */ of) => (of ? `${percent(n / of)} (${n} / ${of})` : "–");
  const chance = (/** @type {number | null} */ p) => (p === null ? "" : ` ${percent(p, 0)}`);
  return [h("p", { class: "answer num-line", "data-agree": seen.agree }, t("agreeOn", { share: share(seen.agree, seen.total) })),
    seen.labelled ? h("p", {}, ids.map((id, k) => t("rightShare", { id, share: share(seen.right[k], seen.labelled) })).join(" · ")) : null,
    seen.differences.length ? h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("disagree") }, h("table", {}, h("thead", {}, h("tr", {}, [t("row"), t("read"), ...ids, ...(seen.labelled ? [t("label")] : [])].map((name, i) => h("th", { scope: "col", class: i ? "" : "num" }, name)))),
      h("tbody", {}, seen.differences.map((/** @type {any} */ one) => h("tr", {}, h("td", { class: "num" }, one.row), h("td", {}, h("a", { class: "text", href: href(["compare"], { ...Object.fromEntries(route().query), text: one.text }) }, one.text)),
        one.answers.map((/** @type {string} */ answer, /** @type {number} */ k) => h("td", { class: one.label ? (answer === one.label ? "right" : "wrong") : "" }, answer, h("small", {}, chance(one.probabilities[k])))), seen.labelled ? h("td", {}, one.label) : null))))) : null];
}
