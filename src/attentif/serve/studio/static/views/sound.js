/** A sound: recorded, chosen, or of the test split; its spectrogram as the network reads it, and what was heard. */
import { at, post, rows } from "../api.js";
import { h, put } from "../dom.js";
import { t } from "../i18n.js";
import { remember, route } from "../router.js";
import { foot, opening, shell } from "../same.js";
import { bars, busy, grid, matrix, problem, withTable } from "../widgets.js";
import { another } from "./try.js";

const RATE = 16_000, LONGEST = 20;  // samples a second; seconds

/** @param {Element} place @param {import("./run.js").Opened} opened */
export async function show(place, opened) {
  const found = h("div", { "aria-live": "polite" }, h("p", { class: "hint" }, t("soundHint")));
  const trouble = h("div"), heard = h("audio", { controls: true, hidden: true });
  let named = "sound.wav";
  const ask = (/** @type {any} */ given) => busy(found, async () => {
    const body = { ...given, step: opened.step() };
    const [answer, frames] = await Promise.all([post(`${at(opened.id)}/answer`, body), post(`${at(opened.id)}/frames`, body)]);
    const { outcome } = answer;
    return [h("section", { class: "card" }, h("h2", {}, t("heard")), h("p", { class: "answer", id: "answer" }, outcome.text || outcome.names[0] || t("nothingHeard")), outcome.names.length ? bars(outcome.names.map((/** @type {string} */ name, /** @type {number} */ i) => ({ name, value: outcome.probabilities[i] })), { most: 1 }) : null),
      h("section", { class: "card" }, h("h2", {}, t("spectrogram")), h("p", { class: "muted" }, t("spectrogramHelp")), spectrogram(frames))];
  });
  const use = async (/** @type {Blob} */ blob) => {
    put(trouble);
    try {
      const wave = await samples(blob);
      const file = await dataUri(wav(wave));
      Object.assign(heard, { hidden: false, src: URL.createObjectURL(wav(wave)) });
      remember({ example: null });
      await ask({ file });
    } catch (error) {
      put(trouble, problem(error));
    }
  };
  const chosen = h("input", { type: "file", id: "file", accept: "audio/*", onchange: () => { const file = chosen.files?.[0]; if (file) { named = file.name; use(file); } } });
  put(place, h("section", { class: "card" },
    h("div", { class: "row" }, recorder(use, (error) => put(trouble, problem(error))), h("label", { class: "plain", for: "file" }, t("soundFile")), chosen, another(opened, (_, number) => { heard.hidden = true; remember({ example: number }); ask({ example: number }); })), heard, trouble), found,
    foot(() => ({ command: `attentif predict ${shell(opened.info.path)} ${shell(named)}`, python: `${opening(opened.info, opened.step())}\nrun.predict([${JSON.stringify(named)}])` }), found, opened.id));
  const example = route().query.get("example");
  if (example !== null) await ask({ example: Number(example) });
}

/** A button that records until it is pressed again. @param {(blob: Blob) => void} use @param {(error: unknown) => void} failed */
function recorder(use, failed) {
  /** @type {MediaRecorder | null} */ let recording = null;
  const button = h("button", { type: "button", id: "record", class: "primary", "aria-pressed": "false", onclick: async () => {
    if (recording) return recording.stop();
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
      /** @type {Blob[]} */ const parts = [];
      recording = new MediaRecorder(stream);
      recording.ondataavailable = (event) => parts.push(event.data);
      recording.onstop = () => {
        for (const track of stream.getTracks()) track.stop();
        recording = null;
        button.textContent = t("record");
        button.setAttribute("aria-pressed", "false");
        use(new Blob(parts));
      };
      recording.start();
      setTimeout(() => recording?.stop(), LONGEST * 1000);
      button.textContent = t("stopRecording");
      button.setAttribute("aria-pressed", "true");
    } catch (error) {
      failed(error instanceof DOMException ? new Error(t("noMicrophone")) : error);
    }
  } }, t("record"));
  return button;
}

/** One channel at RATE, at most LONGEST seconds, of any sound that the browser can play. @param {Blob} blob @returns {Promise<Float32Array>} */
async function samples(blob) {
  const context = new AudioContext();
  try {
    const sound = await context.decodeAudioData(await blob.arrayBuffer());
    const length = Math.ceil(Math.min(sound.duration, LONGEST) * RATE);
    const offline = new OfflineAudioContext(1, Math.max(length, 1), RATE);
    const source = new AudioBufferSourceNode(offline, { buffer: sound });
    source.connect(offline.destination);
    source.start();
    return (await offline.startRendering()).getChannelData(0);
  } catch (error) {
    throw error instanceof DOMException ? new Error(t("noSound")) : error;
  } finally {
    await context.close();
  }
}

/** A WAV file of 16 bits. @param {Float32Array} wave */
export function wav(wave) {
  const view = new DataView(new ArrayBuffer(44 + 2 * wave.length));
  const letters = (/** @type {number} */ place, /** @type {string} */ text) => [...text].forEach((letter, i) => view.setUint8(place + i, letter.charCodeAt(0)));
  letters(0, "RIFF");
  view.setUint32(4, 36 + 2 * wave.length, true);
  letters(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, RATE, true);
  view.setUint32(28, 2 * RATE, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  letters(36, "data");
  view.setUint32(40, 2 * wave.length, true);
  wave.forEach((v, i) => view.setInt16(44 + 2 * i, Math.round(Math.max(-1, Math.min(1, v)) * 32767), true));
  return new Blob([view], { type: "audio/wav" });
}

/** @param {Blob} blob @returns {Promise<string>} */
const dataUri = (blob) => new Promise((done) => { const reader = new FileReader(); reader.onload = () => done(String(reader.result).replace(/^data:[^;]*/, "data:audio/wav")); reader.readAsDataURL(blob); });

/** Time from left to right, low channels at the bottom. @param {import("../api.js").Numbers} frames */
function spectrogram(frames) {
  const [time, channels] = frames.shape;
  const lines = rows(frames);
  let low = Infinity, high = -Infinity;
  for (const line of lines) for (const v of line) { low = Math.min(low, v); high = Math.max(high, v); }
  const bands = Array.from({ length: channels }, (_, i) => String(channels - i)), times = Array.from({ length: time }, (_, i) => String(i + 1));
  return withTable(matrix((r, c) => (lines[c][channels - 1 - r] - low) / (high - low || 1), bands, times, { label: t("spectrogram"), tall: Math.max(2, 240 / channels), most: 1 }), () => grid((r, c) => lines[c][channels - 1 - r], bands, times));
}
