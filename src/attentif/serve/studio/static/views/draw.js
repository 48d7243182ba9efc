/** A digit drawn with the mouse, recognised as one draws, with the attention over its patches. */
import { at, decode, post } from "../api.js";
import { h, later, put } from "../dom.js";
import { t } from "../i18n.js";
import { foot, opening, shell } from "../same.js";
import { bars, busy } from "../widgets.js";

const SIZE = 280;

/** @param {Element} place @param {import("./run.js").Opened} opened */
export async function show(place, opened) {
  const canvas = h("canvas", { class: "draw", width: SIZE, height: SIZE, tabindex: 0, role: "img", "aria-label": t("draw") });
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const found = h("div", { "aria-live": "polite" }, h("p", { class: "hint" }, t("draw")));
  const clear = () => { pen.fillStyle = "#000"; pen.fillRect(0, 0, SIZE, SIZE); put(found, h("p", { class: "hint" }, t("draw"))); };
  clear();
  const ask = later(() => busy(found, async () => {
    const body = { picture: canvas.toDataURL("image/png").split(",")[1], step: opened.step() };
    const [answer, tokens] = await Promise.all([post(`${at(opened.id)}/answer`, body), post(`${at(opened.id)}/tokens`, body)]);
    const { names, probabilities } = answer.outcome;
    const last = tokens.maps[tokens.maps.length - 1];
    const maps = last && tokens.grid ? await post(`${at(opened.id)}/maps`, { ...body, path: last }) : null;
    return [h("p", { class: "answer", id: "answer" }, names[0]), bars(names.map((/** @type {string} */ name, /** @type {number} */ i) => ({ name, value: probabilities[i] })), { most: 1 }),
      maps ? [h("h3", {}, t("patchAttention")), over(canvas, maps, tokens)] : null];
  }), 120);
  let down = false;
  const point = (/** @type {PointerEvent} */ event) => { const box = canvas.getBoundingClientRect(); return [((event.clientX - box.left) * SIZE) / box.width, ((event.clientY - box.top) * SIZE) / box.height]; };
  canvas.addEventListener("pointerdown", (event) => { down = true; canvas.setPointerCapture(event.pointerId); pen.beginPath(); pen.moveTo(...point(event)); draw(event); });
  canvas.addEventListener("pointermove", (event) => { if (down) draw(event); });
  canvas.addEventListener("pointerup", () => { down = false; ask(); });
  const draw = (/** @type {PointerEvent} */ event) => {
    Object.assign(pen, { strokeStyle: "#fff", lineWidth: 24, lineCap: "round", lineJoin: "round" });
    pen.lineTo(...point(event));
    pen.stroke();
    ask();
  };
  put(place, h("div", { class: "grid side" },
    h("section", { class: "card" }, h("h2", {}, t("draw")), canvas, h("p", {}, h("button", { type: "button", onclick: clear }, t("clear")))),
    h("section", { class: "card" }, h("h2", {}, t("answering")), found)),
    foot(() => ({ command: `attentif predict ${shell(opened.info.path)} digit.png`, python: `${opening(opened.info, opened.step())}\nrun.predict(["digit.png"])` }), found, opened.id));
}

/** What the class token (or the mean over queries) looks at, over the drawing. @param {HTMLCanvasElement} drawn @param {any} maps @param {any} tokens */
function over(drawn, maps, tokens) {
  const [rows, columns] = tokens.grid;
  const flat = decode(maps.weights);
  const [heads, queries, keys] = maps.weights.shape;
  return h("div", { class: "heads" }, Array.from({ length: heads }, (_, head) => {
    const canvas = h("canvas", { width: 140, height: 140, role: "img", "aria-label": `${t("head")} ${head + 1}` });
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    pen.drawImage(drawn, 0, 0, 140, 140);
    const weight = new Float64Array(rows * columns);
    const asked = tokens.first && queries > 1 ? [0] : Array.from({ length: queries }, (_, q) => q);
    for (const q of asked) for (let k = 0; k < rows * columns; k++) weight[k] += flat[(head * queries + q) * keys + k + tokens.first] / asked.length;
    const most = Math.max(...weight);
    weight.forEach((w, k) => {
      pen.fillStyle = `rgb(86 180 233 / ${(0.8 * w) / most})`;
      pen.fillRect((140 / columns) * (k % columns), (140 / rows) * Math.floor(k / columns), 140 / columns, 140 / rows);
    });
    return h("figure", {}, h("figcaption", {}, `${t("head")} ${head + 1}`), canvas);
  }));
}
