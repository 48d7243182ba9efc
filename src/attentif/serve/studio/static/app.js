/** The shell: header, languages, colours, and the view that the address asks for. */
import { h, put } from "./dom.js";
import { lang, t } from "./i18n.js";
import { href, route } from "./router.js";
import { problem } from "./widgets.js";

/** Views are fetched when they are first needed. @type {Record<string, () => Promise<{show: (place: Element, parts: string[], query: URLSearchParams) => any}>>} */
const VIEWS = {
  runs: () => import("./views/runs.js"),
  run: () => import("./views/run.js"),
  training: () => import("./views/training.js"),
  several: () => import("./views/several.js"),
  compare: () => import("./views/compare.js"),
  course: () => import("./views/course.js"),
};
const LINKS = ["runs", "training", "compare", "course"];
const version = document.querySelector('meta[name="attentif-version"]')?.getAttribute("content") || "";

/** @param {"fr" | "en"} wanted */
function speak(wanted) {
  document.documentElement.lang = wanted;
  localStorage.setItem("attentif.lang", wanted);
  frame();
  show();
}

/** @param {string} wanted */
function paint(wanted) {
  if (wanted === "auto") {
    delete document.documentElement.dataset.scheme;
    localStorage.removeItem("attentif.scheme");
  } else {
    document.documentElement.dataset.scheme = wanted;
    localStorage.setItem("attentif.scheme", wanted);
  }
  frame();
  show();
}

const main = h("main", { id: "main", tabindex: -1 });

function frame() {
  const here = route().parts[0] || "runs";
  const scheme = document.documentElement.dataset.scheme || "auto";
  put(document.body,
    h("a", { class: "skip", href: "#main", onclick: (/** @type {Event} */ event) => { event.preventDefault(); main.focus(); } }, t("skip")),
    h("header", { class: "bar" }, h("div", {},
      h("a", { class: "brand", href: href(["runs"]) }, h("img", { src: "/studio/static/icon.svg", alt: "" }), "Attentif"),
      h("nav", { "aria-label": "Studio" }, LINKS.map((name) => h("a", { href: href([name]), "data-bold": t(name), "aria-current": name === here || (name === "runs" && (here === "run" || here === "several")) ? "page" : null }, t(name)))),
      h("div", { class: "tools" },
        h("div", { class: "segmented", role: "group", "aria-label": t("language") }, ["fr", "en"].map((one) => h("button", { type: "button", lang: one, title: one === "fr" ? "Français" : "English", "aria-pressed": String(lang() === one), onclick: () => speak(/** @type {any} */ (one)) }, one.toUpperCase()))),
        h("label", { class: "sr", for: "scheme" }, t("scheme")),
        h("select", { id: "scheme", onchange: (/** @type {any} */ event) => paint(event.target.value) }, ["auto", "light", "dark"].map((one) => h("option", { value: one, selected: one === scheme }, t(one))))))),
    main,
    h("footer", {}, t("footer", { version })));
}

const PATIENCE = 150;  // milliseconds for which the view before stays
let shown = 0;
async function show() {
  const mine = ++shown;
  const { parts, query } = route();
  const asked = query.get("lang");
  if ((asked === "fr" || asked === "en") && asked !== lang()) {
    document.documentElement.lang = asked;
  }
  frame();
  const load = VIEWS[parts[0] || "runs"];
  if (!load) return put(main, h("h1", {}, t("notFound")));
  try {
    const view = await load();
    const place = h("div", {});
    const whole = view.show(place, parts.slice(1), query);
    await Promise.race([whole, new Promise((done) => setTimeout(done, PATIENCE))]);  // what is fast comes at once, what is slow comes in parts
    if (mine === shown) put(main, place);
    await whole;
    if (mine === shown) {
      main.dataset.state = parts.join("/");
      const heading = place.querySelector("h1");
      document.title = `${heading?.textContent || t("runs")} · Attentif`;
    }
  } catch (error) {
    if (mine === shown) {
      put(main, problem(error));
      main.dataset.state = parts.join("/");
    }
  }
}

window.addEventListener("hashchange", () => { show(); window.scrollTo(0, 0); });
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
frame();
show();
