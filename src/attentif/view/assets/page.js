// The language switch and the plotly figures of every .attentif root: a whole page, or the fragments of a notebook.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)").matches; // there, dragging scrolls the page and must not zoom a figure
  const hovers = matchMedia("(hover: hover)").matches; // elsewhere plotly would leave its buttons on top of the figure
  const FRENCH = {
    moduleType: "locale", name: "fr", format: {},
    dictionary: {
      "Autoscale": "Échelle automatique", "Box Select": "Sélection", "Double-click to zoom back out": "Double-clic pour dézoomer",
      "Download plot as a PNG": "Télécharger en PNG", "Download plot as a png": "Télécharger en PNG", "Pan": "Déplacer", "Reset axes": "Rétablir les axes", "Zoom": "Zoom", "Zoom in": "Agrandir", "Zoom out": "Réduire",
    },
  };

  // A figure travels once, in English, with the places where French differs: [[["layout", "xaxis", "title", "text"], "pas"], ...]
  const inLanguage = (spec, lang) => {
    const figure = structuredClone({ data: spec.data, layout: spec.layout });
    for (const [path, value] of lang === "fr" ? spec.fr : []) {
      const last = path.at(-1);
      path.slice(0, -1).reduce((node, key) => node[key], figure)[last] = value;
    }
    return figure;
  };

  // Colours that a figure names are those of the light scheme; only keys such as color, fillcolor, bordercolor hold them.
  const recoloured = (value, colours, key = "") => {
    if (typeof value === "string") return /color$/.test(key) ? colours[value] ?? value : value;
    if (Array.isArray(value)) return value.map((item) => recoloured(item, colours, key));
    if (!value || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, recoloured(item, colours, name)]));
  };

  const draw = (root, printing = false) => {
    const templates = JSON.parse(root.querySelector("script.templates")?.textContent || "null");
    if (!templates) return;
    const lang = root.dataset.lang;
    for (const place of root.querySelectorAll("figure.plot")) {
      const scheme = dark.matches && !printing ? "dark" : "light";
      const spoken = inLanguage(JSON.parse(place.querySelector("script").textContent), lang);
      const figure = scheme === "dark" ? recoloured(spoken, templates.colours) : spoken;
      figure.layout.template = templates[scheme];
      figure.layout.dragmode = touch ? false : "zoom";
      const config = { responsive: true, displaylogo: false, displayModeBar: hovers && "hover", locale: lang, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
      Plotly.react(place.querySelector(".canvas"), figure.data, figure.layout, config);
      place.dataset.drawn = lang;
    }
  };

  const speak = (root, lang) => {
    root.dataset.lang = lang;
    if (root === document.documentElement) {
      root.lang = lang;
      document.title = root.querySelector("title").dataset[lang];
    }
    for (const button of root.querySelectorAll(".langs button")) button.setAttribute("aria-pressed", button.value === lang);
    for (const element of root.querySelectorAll("[data-aria-fr]")) element.setAttribute("aria-label", element.dataset[lang === "fr" ? "ariaFr" : "ariaEn"]);
    draw(root);
    root.dispatchEvent(new CustomEvent("attentif-look"));
  };

  // The table of contents stands open where it takes a line or two, and closes once it has led somewhere elsewhere.
  const contents = (menu) => {
    const wide = matchMedia("(min-width: 1000px)");
    const fit = () => { menu.open = wide.matches; };
    wide.addEventListener("change", fit);
    for (const link of menu.querySelectorAll("a")) link.addEventListener("click", fit);
    fit();
  };

  const start = (root) => {
    if (root.dataset.ready) return;
    root.dataset.ready = "yes";
    root.querySelectorAll("details.contents").forEach(contents);
    for (const button of root.querySelectorAll(".langs button")) {
      button.addEventListener("click", () => {
        try { localStorage.setItem("attentif-lang", button.value); } catch { /* a page from disk may be denied storage: the choice lasts until it is closed */ }
        speak(root, button.value);
      });
    }
    dark.addEventListener("change", () => speak(root, root.dataset.lang));
    addEventListener("beforeprint", () => {
      for (const folded of root.querySelectorAll("details")) folded.open = true;
      draw(root, true);
    });
    addEventListener("afterprint", () => draw(root));
    window.attentifMaps?.(root);
    speak(root, window.attentifLang);
  };

  if (window.Plotly) Plotly.register(FRENCH);
  document.querySelectorAll(".attentif").forEach(start);
})();
