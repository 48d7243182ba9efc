// Before the first paint: the chosen scheme and language, so that nothing flashes.
(() => {
  const scheme = localStorage.getItem("attentif.scheme");
  if (scheme === "light" || scheme === "dark") document.documentElement.dataset.scheme = scheme;
  const asked = new URLSearchParams(location.hash.split("?")[1] || "").get("lang") || localStorage.getItem("attentif.lang");
  const lang = asked === "fr" || asked === "en" ? asked : navigator.language.toLowerCase().startsWith("fr") ? "fr" : "en";
  document.documentElement.lang = lang;
})();
