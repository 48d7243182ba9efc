/** What has no softmax, by hand: a channel of a state space, a head of linear attention, the probability of an n-gram model. */
import { decode, rows } from "../api.js";
import { h } from "../dom.js";
import { fixed, number, percent, t } from "../i18n.js";
import { formula, inline } from "../math.js";
import { bars, grid, matrix, strip, table, visible, withTable } from "../widgets.js";
import { heat } from "./heat.js";

const NEAR = 40;  // tokens of a table

/** @param {string} title @param {string} source @param {...any} inside */
const step = (title, source, ...inside) => h("li", {}, h("h3", {}, inline(title)), formula(source), inside);

/** @param {string} label @param {string[]} heads @param {any[]} lines */
const scrolled = (label, heads, lines) => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, h("table", { class: "tight by-hand" },
  h("thead", {}, h("tr", {}, heads.map((name, i) => h("th", { scope: "col", class: i ? "num" : "" }, name)))), h("tbody", {}, lines)));

/** A vector with its values for whoever reads the page by a script. @param {string} name @param {ArrayLike<number>} vector @param {string} label */
const vector = (name, vector, label) => h("div", { "data-vector": name, "data-values": Array.from(vector).join(" ") }, strip(vector, label));

/** Tokens of a long text near the chosen one. @param {string[]} names @param {number} at */
function near(names, at) {
  const first = names.length <= NEAR ? 0 : Math.max(0, Math.min(names.length - NEAR, at - NEAR + 4));
  return names.slice(first, first + NEAR).map((name, i) => ({ name: visible(name), i: first + i }));
}

/** @param {any} found a PartView of kind "state-space" @param {(channel: number) => any} choose */
export function stateSpaceSteps(found, choose) {
  const of = (/** @type {string} */ name) => decode(found.values[name]);
  const { channels, channel, head, first, skip } = found.facts;
  const at = found.facts.query - first, token = visible(found.tokens[at]);
  const [u, delta, y, gate, gated] = ["u", "delta", "y", "gate", "gated"].map(of);
  const [B, C, states, decay] = ["B", "C", "state", "decay"].map((name) => rows(found.values[name]));
  const shown = near(found.tokens, at);
  const input = h("input", { type: "number", id: "channel", min: 0, max: channels - 1, value: channel, "aria-label": t("channel"), style: { width: "6em" }, onchange: (/** @type {any} */ e) => choose(Number(e.target.value)) });
  const named = head === channel ? t("channelOf", { n: channel, all: channels }) : t("channelHead", { n: channel, all: channels, head: head + 1 });
  const dot = C[at].reduce((sum, v, n) => sum + v * states[at][n], 0);
  const lines = shown.map(({ name, i }) => h("tr", {}, h("th", { scope: "row" }, name), [["delta", delta], ["u", u], ["y", y], ["gate", gate], ["gated", gated]].map(([key, values]) => {
    const value = /** @type {Float32Array} */ (values)[i];
    return h("td", { class: `num${i === at ? " here" : ""}`, [`data-${key}`]: value }, fixed(value, 4));
  })));
  const map = found.values.map ? rows(found.values.map) : null;
  return [h("div", { class: "row" }, h("label", { class: "plain" }, `${t("channel")} `, input), h("span", { class: "muted" }, named)),
    h("ol", { class: "steps" },
      step(t("stepNorm"), `n(x)     x ∈ ℝ^${of("before").length}`, strip(of("before"), "x"), strip(of("normed"), "n(x)")),
      step(t("stepDelta"), "Δ_t = softplus(W_Δ r_t + b_Δ)", h("p", { class: "muted" }, t("deltaHelp")), bars(shown.map(({ name, i }) => ({ name, value: delta[i] })), { write: (v) => fixed(v, 4), label: t("delta") })),
      step(t("stepDecay"), `Ā_t = exp(Δ_t A)     A ∈ ℝ^${states[0].length}`, vector("A", of("A"), "A"), vector("decay", decay[at], "Ā_t"), heat(found.values.decay, found.tokens, t("decayOver"), 1)),
      step(t("stepWrite"), "B_t, C_t = W_B u_t, W_C u_t", vector("B", B[at], "B_t"), vector("C", C[at], "C_t")),
      step(t("stepState", { token }), "h_t = Ā_t ⊙ h_{t−1} + Δ_t u_t B_t", vector("kept", of("kept"), `${t("kept")} : Ā_t ⊙ h_{t−1}`), vector("written", of("written"), `${t("written")} : Δ_t u_t B_t`), vector("state", states[at], "h_t"), h("small", {}, t("stateOver")), heat(found.values.state, found.tokens, t("stateOver"))),
      step(t("stepRead"), `y_t = C_t·h_t + D u_t = ${fixed(dot, 4)} + ${fixed(skip, 4)} · ${fixed(u[at], 4)} = ${fixed(y[at], 4)}`),
      step(t("stepGate"), "y_t ⊙ silu(z_t)", scrolled(t("stepGate"), [t("token"), "Δ", "u", "y", "silu(z)", "y·silu(z)"], lines)),
      step(t("stepOut"), "W_O (y ⊙ silu(z))     x ← x + W_O (…)", strip(of("out"), "W_O y"), strip(of("after"), "x")),
      map ? step(t("implied", { n: channel }), "y_t = Σ_s M[t, s] u_s", h("p", { class: "muted" }, t("impliedHelp")), withTable(matrix((r, c) => map[r][c], found.tokens, found.tokens, { label: t("implied", { n: channel }), chosen: at }), () => grid((r, c) => map[r][c], found.tokens, found.tokens))) : null)];
}

/** @param {any} found a PartView of kind "linear" */
export function linearSteps(found) {
  const of = (/** @type {string} */ name) => decode(found.values[name]);
  const { heads, head, query, eps } = found.facts;
  const token = visible(found.tokens[query]);
  const [weights, dots, seen] = ["weights", "dots", "seen"].map(of);
  const features = rows(found.values.k_features), denominator = of("denominator");
  const shown = near(found.tokens, query);
  const lines = shown.map(({ name, i }) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "num", "data-dot": dots[i] }, seen[i] ? fixed(dots[i], 4) : `– (${t("masked")})`), h("td", { class: `num${weights[i] === Math.max(...weights) ? " here" : ""}`, "data-weight": weights[i] }, fixed(weights[i], 4))));
  const width = Math.min(8, features[0].length);
  const all = seen.every(Boolean) && query < seen.length - 1;
  return h("ol", { class: "steps" },
    step(t("stepNorm"), `n(x)     x ∈ ℝ^${of("before").length}`, strip(of("before"), "x"), strip(of("normed"), "n(x)")),
    step(t("stepQ", { token }), `q = W_Q n(x)     ${t("head")} ${head + 1} / ${heads}`, strip(of("q"), "q")),
    step(t("stepFeatures", { token }), "φ(q), φ(k_s)", vector("q_features", of("q_features"), "φ(q)"), withTable(strip(features[query], "φ(k)"), () => table([t("token"), ...Array.from({ length: width }, (_, i) => `φ${i + 1}`)], shown.map(({ name, i }) => [name, ...Array.from(features[i]).slice(0, width)])))),
    step(all ? t("stepSumsAll") : t("stepSums", { token }), "S = Σ_s φ(k_s) v_sᵀ     z = Σ_s φ(k_s)", heat(found.values.sums, Array.from(features[0], (_, i) => `φ${i + 1}`), t("sumsLabel")), h("small", {}, t("sumsLabel")), vector("total", of("total"), "z")),
    step(t("stepReadSums"), denominator.length === 1 ? `φ(q)ᵀ S / (φ(q)ᵀ z + ε)     φ(q)ᵀ z + ε = ${number(denominator[0], 5)}` : `φ(q)ᵀ diag(z + ε)⁻¹ S     ε = ${number(eps, 2)}`, h("div", { "data-denominator": denominator[0] }, vector("mixed", of("mixed"), "φ(q)ᵀ S / …"))),
    step(t("stepImplied"), "α_s = φ(q)·φ(k_s) / (φ(q)ᵀ z + ε)     Σ_s α_s v_s", scrolled(t("stepImplied"), [t("token"), t("features"), t("weight")], lines), bars(shown.map(({ name, i }) => ({ name, value: weights[i] })), { write: (v) => fixed(v, 4), label: t("weights") }), h("p", { class: "hint" }, t("linearNote"))),
    step(t("stepJoin"), `W_O [y_1 … y_${heads}]`, strip(of("joined"), "y"), strip(of("out"), "W_O y")),
    step(t("stepResidual"), "x ← x + W_O y", strip(of("after"), "x")));
}

/** How one next token comes by its probability. @param {any} found Counts @param {(token: number) => any} choose */
export function kneserNey(found, choose) {
  const context = (/** @type {string[]} */ names) => (names.length ? names.map(visible).join(" ") : t("nothingBefore"));
  const cell = (/** @type {string} */ key, /** @type {number} */ value, /** @type {string} */ text, here = false) => h("td", { class: `num${here ? " here" : ""}`, [`data-${key}`]: value }, text);
  const lines = found.steps.map((/** @type {any} */ one) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, context(one.context))),
    cell("count", one.count, number(one.count, 12)), cell("total", one.total, number(one.total, 12)), cell("discount", one.discount, fixed(one.discount, 4)), cell("gamma", one.gamma, fixed(one.gamma, 4)), cell("lower", one.lower, fixed(one.lower, 6)), cell("share", one.probability, fixed(one.probability, 6), true)));
  return [
    h("section", { class: "card" }, h("h2", {}, t("nextTokens")), bars(found.names.map((/** @type {string} */ name, /** @type {number} */ i) => ({ name, value: found.probabilities[i] })), { most: 1, click: (i) => choose(found.next[i]) })),
    h("section", { class: "card", id: "kneser-ney" }, h("h2", {}, t("knTitle", { token: visible(found.token_name) })), h("p", { class: "muted" }, t("knHelp")),
      formula("P_k(w | h) = max(c(h w) − D, 0) / Σ c(h v) + γ(h) · P_{k−1}(w | h′)"),
      scrolled(t("knTitle", { token: visible(found.token_name) }), [t("context"), t("knCount"), t("knTotal"), t("knDiscount"), t("knGamma"), t("knLower"), t("probability")], lines),
      h("p", { class: "num-line" }, `P(${visible(found.token_name)}) = ${percent(found.steps.at(-1).probability, 2)}`))];
}
