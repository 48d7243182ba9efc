/** The studio's HTTP API. Every error becomes an `Error` whose message is a sentence for the page. */

import { lang } from "./i18n.js";

const token = document.querySelector('meta[name="attentif-token"]')?.getAttribute("content") || "";

/** @typedef {{shape: number[], data: string}} Numbers */

/** Errors and caveats come in the page's language. */
const headers = () => ({ "X-Attentif-Token": token, "Accept-Language": lang() });

/** @param {Response} answer */
async function refuse(answer) {
  let message = `HTTP ${answer.status}`;
  try {
    message = (await answer.json()).error.message;
  } catch {
    /* the status says all there is */
  }
  throw new Error(message);
}

/** @param {string} path @returns {Promise<any>} */
export async function get(path) {
  const answer = await fetch(`/studio/api${path}`, { headers: headers() });
  return answer.ok ? answer.json() : refuse(answer);
}

/** @param {string} path @param {object} body @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function post(path, body, signal) {
  const answer = await send(path, body, signal);
  return answer.ok ? answer.json() : refuse(answer);
}

/** @param {string} path @param {object} body @param {AbortSignal} [signal] */
function send(path, body, signal) {
  return fetch(`/studio/api${path}`, { method: "POST", headers: { ...headers(), "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
}

/**
 * Server-sent events of a request. @param {string} path @param {object | null} body null: a GET
 * @param {(item: any) => void} hear @param {AbortSignal} signal
 */
export async function stream(path, body, hear, signal) {
  const answer = body === null ? await fetch(`/studio/api${path}`, { headers: headers(), signal }) : await send(path, body, signal);
  if (!answer.ok || !answer.body) await refuse(answer);
  const reader = /** @type {any} */ (answer.body).pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop() || "";
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "))?.slice(6);
      if (data === undefined || data === "[DONE]") continue;
      const item = JSON.parse(data);
      if (event.startsWith("event: failed")) throw new Error(item.message);
      hear(item);
    }
  }
}

/** The numbers of a tensor. @param {Numbers} numbers @returns {Float32Array} */
export function decode(numbers) {
  const bytes = Uint8Array.from(atob(numbers.data), (letter) => letter.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

/** Rows of a matrix. @param {Numbers} numbers @returns {Float32Array[]} */
export function rows(numbers) {
  const flat = decode(numbers);
  const width = numbers.shape[numbers.shape.length - 1];
  return Array.from({ length: flat.length / width }, (_, row) => flat.subarray(row * width, (row + 1) * width));
}

/** @param {string} id */
export const at = (id) => `/runs/${encodeURIComponent(id)}`;
