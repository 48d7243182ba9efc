// Before anything is shown: choose the language (?lang=fr, else the one chosen before, else the browser's) and notice errors.
(() => {
  const remembered = () => { try { return localStorage.getItem("attentif-lang"); } catch { return null; } };
  const asked = new URLSearchParams(location.search).get("lang");
  const browser = (navigator.language || "en").toLowerCase().startsWith("fr") ? "fr" : "en";
  window.attentifLang = ["fr", "en"].find((lang) => lang === (asked || remembered())) || browser;
  const html = document.documentElement;
  if (!html.classList.contains("attentif")) return; // a fragment: the rest of the notebook is not ours
  html.lang = html.dataset.lang = window.attentifLang;
  const failed = (message) => { html.dataset.error = [html.dataset.error, message].filter(Boolean).join("; "); };
  addEventListener("error", (event) => failed(event.message));
  addEventListener("unhandledrejection", (event) => failed(String(event.reason)));
  document.addEventListener("securitypolicyviolation", (event) => failed(`${event.violatedDirective} ${event.blockedURI}`));
})();
