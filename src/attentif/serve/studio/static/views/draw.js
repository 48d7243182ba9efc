/** A digit drawn with the mouse, recognised as one draws, with the attention over its patches. */
import { at, decode, get, post } from "../api.js";
import { h, later, put } from "../dom.js";
import { t } from "../i18n.js";
import { remember, route } from "../router.js";
import { foot, opening, shell } from "../same.js";
import { bars, busy } from "../widgets.js";
import { another } from "./try.js";

const SIZE = 280, STEP = 14;  // pixels that an arrow key moves the pen
/** @type {Record<string, number[]>} */ const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** @param {Element} place @param {import("./run.js").Opened} opened */
export async function show(place, opened) {
  const canvas = h("canvas", { class: "draw", width: SIZE, height: SIZE, tabindex: 0, role: "img", "aria-label": t("draw") });
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const found = h("div", { "aria-live": "polite" });
  /** @type {number | null} */ let example = route().query.get("example") === null ? null : Number(route().query.get("example"));
  /** @type {Promise<number> | null} */ let size = null;
  const clear = () => { pen.fillStyle = "#000"; pen.fillRect(0, 0, SIZE, SIZE); remember({ example: example = null }); put(found, h("p", { class: "hint" }, t("drawHint"))); };
  const answer = () => busy(found, async () => {
    size ??= typicalSize(opened.id);
    const seen = example === null ? framed(canvas, await size) : canvas;
    const body = { ...(example === null ? { picture: seen.toDataURL("image/png").split(",")[1] } : { example }), step: opened.step() };
    const [told, tokens] = await Promise.all([post(`${at(opened.id)}/answer`, body), post(`${at(opened.id)}/tokens`, body)]);
    const { names, probabilities } = told.outcome;
    const last = tokens.maps[tokens.maps.length - 1];
    const maps = last && tokens.grid ? await post(`${at(opened.id)}/maps`, { ...body, path: last }) : null;
    return [h("p", { class: "answer", id: "answer" }, names[0]), bars(names.map((/** @type {string} */ name, /** @type {number} */ i) => ({ name, value: probabilities[i] })), { most: 1 }),
      maps ? [h("h3", {}, t("patchAttention")), over(seen, maps, tokens)] : null, example === null && await size ? h("small", {}, t("drawFrame")) : null];
  });
  const ask = later(answer, 120);
  const use = async (/** @type {Record<string, string>} */ row, /** @type {number} */ number) => {
    const picture = new Image();
    picture.src = row.image;
    await picture.decode();
    pen.imageSmoothingEnabled = false;
    pen.drawImage(picture, 0, 0, SIZE, SIZE);
    remember({ example: example = number });
    return answer();
  };
  let down = false;
  const point = (/** @type {PointerEvent} */ event) => { const box = canvas.getBoundingClientRect(); return [((event.clientX - box.left) * SIZE) / box.width, ((event.clientY - box.top) * SIZE) / box.height]; };
  canvas.addEventListener("pointerdown", (event) => { down = true; canvas.setPointerCapture(event.pointerId); pen.beginPath(); pen.moveTo(...point(event)); draw(event); });
  canvas.addEventListener("pointermove", (event) => { if (down) draw(event); });
  canvas.addEventListener("pointerup", () => { down = false; ask(); });
  const draw = (/** @type {PointerEvent} */ event) => { line(point(event)); };
  const line = (/** @type {number[]} */ [x, y]) => {
    if (example !== null) clear();
    Object.assign(pen, { strokeStyle: "#fff", lineWidth: 32, lineCap: "round", lineJoin: "round" });
    pen.lineTo(x, y);
    pen.stroke();
    ask();
  };
  // The same with the keyboard: arrows draw, with Shift they move the pen alone.
  let tip = [SIZE / 2, SIZE / 4];
  const dot = h("i", { class: "tip", "aria-hidden": "true" });
  const mark = () => Object.assign(dot.style, { left: `${(100 * tip[0]) / SIZE}%`, top: `${(100 * tip[1]) / SIZE}%` });
  canvas.addEventListener("keydown", (event) => {
    const way = ARROWS[event.key];
    if (!way) return;
    event.preventDefault();
    pen.beginPath();
    pen.moveTo(tip[0], tip[1]);
    tip = tip.map((v, i) => Math.max(0, Math.min(SIZE, v + STEP * way[i])));
    if (!event.shiftKey) line(tip);
    mark();
  });
  mark();
  put(place, h("div", { class: "grid side" },
    h("section", { class: "card" }, h("h2", {}, t("draw")), h("div", { class: "board" }, canvas, dot), h("div", { class: "row" }, h("button", { type: "button", onclick: clear }, t("clear")), another(opened, use)), h("small", {}, t("drawKeys"))),
    h("section", { class: "card" }, h("h2", {}, t("answering")), found)),
    foot(() => ({ command: `attentif predict ${shell(opened.info.path)} digit.png`, python: `${opening(opened.info, opened.step())}\nrun.predict(["digit.png"])` }), found, opened.id));
  if (example === null) return clear();
  const { rows } = await get(`${at(opened.id)}/examples`);
  return rows[example] ? use(rows[example], example) : clear();
}

/** The box around what is drawn, or null: left, top, width, height. @param {CanvasRenderingContext2D} pen */
function inkBox(pen) {
  const { width, height } = pen.canvas, { data } = pen.getImageData(0, 0, width, height);
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      if (data[4 * (y * width + x)] > 40) [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x), Math.max(bottom, y)];
  return right < 0 ? null : [left, top, right - left + 1, bottom - top + 1];
}

/** What share of the picture a digit of the test split takes; 0 where that cannot be told. @param {string} id */
async function typicalSize(id) {
  const { rows } = await get(`${at(id)}/examples`);
  const shares = await Promise.all(rows.slice(0, 24).filter((/** @type {any} */ row) => row.image?.startsWith("data:image/")).map(async (/** @type {any} */ row) => {
    const picture = new Image();
    picture.src = row.image;
    await picture.decode();
    const canvas = h("canvas", { width: picture.naturalWidth, height: picture.naturalHeight }), pen = canvas.getContext("2d");
    pen.drawImage(picture, 0, 0);
    const box = inkBox(pen);
    return box ? Math.max(box[2] / canvas.width, box[3] / canvas.height) : 0;
  }));
  return shares.length ? shares.reduce((sum, one) => sum + one, 0) / shares.length : 0;
}

/** The drawing in the middle and as large as the digits that the model knows: it learned from such pictures. @param {HTMLCanvasElement} canvas @param {number} size */
function framed(canvas, size) {
  const box = size ? inkBox(/** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"))) : null;
  if (!box) return canvas;
  const made = h("canvas", { width: SIZE, height: SIZE }), pen = made.getContext("2d");
  const scale = (SIZE * size) / Math.max(box[2], box[3]), [width, height] = [box[2] * scale, box[3] * scale];
  pen.fillRect(0, 0, SIZE, SIZE);
  pen.drawImage(canvas, box[0], box[1], box[2], box[3], (SIZE - width) / 2, (SIZE - height) / 2, width, height);
  return made;
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
