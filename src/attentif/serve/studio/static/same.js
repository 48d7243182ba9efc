/** What takes a view out of the page: the command and the Python lines that give the same, one HTML file, a PNG, its address. */
import { h, put } from "./dom.js";
import { t } from "./i18n.js";

/** A word for the shell. @param {string} text */
export const shell = (text) => (/^[\w./:=-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`);

/** A literal of Python. @param {any} value @returns {string} */
export const python = (value) => (value === null || value === undefined ? "None" : value === true ? "True" : value === false ? "False" : Array.isArray(value) ? `[${value.map(python).join(", ")}]` : typeof value === "object" ? `{${Object.entries(value).map(([key, one]) => `${JSON.stringify(key)}: ${python(one)}`).join(", ")}}` : JSON.stringify(value));

/** The lines that open a run, at the weights that the page shows. @param {any} info @param {number | null} step @param {string[]} [imports] */
export function opening(info, step, imports = []) {
  const weights = step === null ? [] : [`read_weights(run.folder.weights_by_step()[${step}], run.model)`];
  const names = ["import attentif", ...imports, ...(step === null ? [] : ["from attentif.training.weights import read_weights"])].sort((a, b) => Number(a.startsWith("from")) - Number(b.startsWith("from")));
  return [...names, "", `run = attentif.load(${JSON.stringify(info.path)})`, ...weights].join("\n");
}

/**
 * The foot of a view. What it says is worked out when it is opened, and again when the view changes: it is that of the state in the page.
 * @param {() => {command?: string, python: string}} say @param {Element} element what is saved @param {string} name of the file
 */
export function foot(say, element, name) {
  const body = h("div");
  const details = h("details", { class: "same", ontoggle: () => details.open && fill() }, h("summary", {}, t("same")), body);
  const fill = () => {
    const { command, python: code } = say();
    put(body, [...(command ? [command] : []), code].map((text, i) => h("div", { class: "copied" }, h("pre", { tabindex: 0, "data-code": command && i === 0 ? "command" : "python" }, text), button("copy", async (own) => { await navigator.clipboard?.writeText(text); said(own, "copied"); }))));
  };
  new MutationObserver(() => details.open && fill()).observe(element, { childList: true, subtree: true });
  return h("div", { class: "foot" }, details, h("div", { class: "row" },
    button("saveHtml", () => saveHtml(element, name)), button("savePng", () => savePng(element, name)), button("copyLink", async (own) => { await navigator.clipboard?.writeText(location.href); said(own, "copied"); })));
}

/** @param {string} key @param {(own: HTMLElement) => any} act */
const button = (key, act) => h("button", { type: "button", class: "quiet", "data-save": key, onclick: (/** @type {any} */ event) => act(event.currentTarget) }, t(key));

/** @param {HTMLElement} own @param {string} key */
function said(own, key) {
  const before = own.textContent;
  own.textContent = t(key);
  setTimeout(() => { own.textContent = before; }, 1200);
}

/** A copy without controls, its canvases as pictures. @param {Element} element */
function frozen(element) {
  const copy = /** @type {Element} */ (element.cloneNode(true));
  const canvases = element.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((canvas, i) => {
    const picture = new Image();
    picture.src = canvases[i].toDataURL("image/png");
    picture.alt = canvas.getAttribute("aria-label") || "";
    picture.style.width = canvas.style.width || `${canvas.getBoundingClientRect().width || canvas.width}px`;
    canvas.replaceWith(picture);
  });
  copy.querySelectorAll("iframe").forEach((frame) => frame.remove());
  copy.querySelectorAll("button, input, select, textarea").forEach((control, i) => {
    control.setAttribute("disabled", "");
    const own = /** @type {any} */ (element.querySelectorAll("button, input, select, textarea")[i]);
    if (control.tagName === "TEXTAREA") control.textContent = own.value;
    else if (control.tagName === "INPUT") control.setAttribute("value", own.value);
  });
  return copy;
}

const style = async () => (await fetch("/studio/static/style.css")).text();

/** @param {Blob} blob @param {string} name */
function download(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** One file without scripts, which opens anywhere. @param {Element} element @param {string} name */
async function saveHtml(element, name) {
  const page = document.implementation.createHTMLDocument(name);
  page.documentElement.lang = document.documentElement.lang;
  const policy = page.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
  const charset = page.createElement("meta");
  charset.setAttribute("charset", "utf-8");
  page.head.prepend(charset, policy);
  const main = page.createElement("main");
  main.append(heading(), frozen(element));
  page.body.append(main);
  const css = await style();  // put in as text: this page's own policy would refuse the element
  const html = page.documentElement.outerHTML.replace("</head>", () => `<style>${css}</style></head>`);
  download(new Blob([`<!DOCTYPE html>\n${html}`], { type: "text/html" }), `${name}.html`);
}

/** What the picture is of. */
function heading() {
  const title = document.querySelector("main h1")?.textContent || "Attentif";
  return h("header", {}, h("h1", {}, title));
}

/** The view as a picture: the browser draws it once more, from a copy of its elements and the style sheet. @param {Element} element @param {string} name */
async function savePng(element, name) {
  const box = element.getBoundingClientRect();
  const width = Math.ceil(box.width) + 40, height = Math.ceil(element.scrollHeight || box.height) + 40, scale = 2;
  const root = document.createElementNS("http://www.w3.org/1999/xhtml", "div");
  const css = document.createElementNS("http://www.w3.org/1999/xhtml", "style");
  css.textContent = `${await style()}\n.picture { background: var(--paper); color: var(--ink); font: 16px/1.55 var(--font); padding: 20px; box-sizing: border-box; width: ${width}px; min-height: ${height}px; }`;
  const body = h("div", { class: "picture" }, frozen(element));
  root.append(css, body);
  const dark = getComputedStyle(document.documentElement).colorScheme.includes("dark") && !getComputedStyle(document.documentElement).colorScheme.includes("light");
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" data-scheme="${dark ? "dark" : "light"}"><foreignObject width="100%" height="100%">${new XMLSerializer().serializeToString(root)}</foreignObject></svg>`;
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await picture.decode();
  const canvas = h("canvas", { width: width * scale, height: height * scale });
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.scale(scale, scale);
  pen.drawImage(picture, 0, 0);
  canvas.toBlob((/** @type {Blob} */ blob) => download(blob, `${name}.png`), "image/png");
}
