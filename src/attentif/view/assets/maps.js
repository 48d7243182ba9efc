// Attention maps by layer and head. The weights of all heads are one array of bytes, b = 255 √w, in the order layer, head, row, column.
window.attentifMaps = (root) => {
  const WORDS = {
    fr: { mean: "moyenne des têtes", looks: "regarde", looked: "est regardé par", quote: (t) => `«\u00a0${t}\u00a0»`, percent: (p) => `${p.replace(".", ",")}\u202f%`, head: "tête", layer: "couche" },
    en: { mean: "mean of the heads", looks: "looks at", looked: "is looked at by", quote: (t) => `“${t}”`, percent: (p) => `${p}%`, head: "head", layer: "layer" },
  };
  const SHOWN = 5; // tokens named in the sentence under the text
  const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const short = (text, length = 18) => (text.length > length ? text.slice(0, length - 1) + "…" : text);

  const palette = (element) => {
    const style = getComputedStyle(element);
    const stops = [0, 1, 2, 3, 4].map((i) => style.getPropertyValue(`--heat-${i}`).trim().match(/\w\w/g).map((h) => parseInt(h, 16)));
    return Array.from({ length: 256 }, (_, byte) => {
      const place = (byte / 255) * 4, left = Math.min(3, Math.floor(place)), part = place - left;
      return stops[left].map((low, channel) => Math.round(low + part * (stops[left + 1][channel] - low)));
    });
  };

  const start = (block) => {
    const data = JSON.parse(block.querySelector("script").textContent);
    const bytes = bytesOf(data.bytes);
    const { rows, layers } = data;
    const cross = data.columns !== null;
    const columns = data.columns ?? rows;
    const T = rows.length, S = columns.length;
    const firsts = layers.reduce((starts, layer) => [...starts, starts.at(-1) + layer.heads], [0]);
    const find = (selector) => block.querySelector(selector);
    const [layerSelect, headSelect, sideSelect] = [".layer", ".head", ".side"].map(find);
    const [overview, big] = [find(".overview canvas"), find(".big canvas")];
    const lines = [...block.querySelectorAll(".line")];
    // head -1 is the mean of the heads; side "row": a query token is active, side "column": a key token
    const now = { layer: 0, head: 0, side: "row", token: 0 };
    // The page opens on the head and the token that look most surely elsewhere: neither at themselves nor at the first or the last token,
    // where heads with nothing to say rest.
    const mostTelling = () => {
      let best = -1, chosen = now;
      layers.forEach((layer, l) => {
        for (let h = 0; h < layer.heads; h++) {
          const shades = tile(l, h);
          let sum = 0, top = 0, token = 0;
          for (let i = 0; i < T; i++) {
            let most = 0;
            for (let j = cross ? 0 : 1; j < S - 1; j++) if (cross || j !== i) most = Math.max(most, shades[i * S + j]);
            sum += most;
            if (most > top && i > 0 && i < T - 1) [top, token] = [most, i];
          }
          if (sum > best) { best = sum; chosen = { ...now, layer: l, head: h, token }; }
        }
      });
      return chosen;
    };
    let colours;

    const tile = (layer, head) => bytes.subarray((firsts[layer] + head) * T * S, (firsts[layer] + head + 1) * T * S);
    const weightsOf = (layer, head) => {
      if (head >= 0) return Float32Array.from(tile(layer, head), (b) => (b / 255) ** 2);
      const mean = new Float32Array(T * S);
      for (let h = 0; h < layers[layer].heads; h++) tile(layer, h).forEach((b, i) => { mean[i] += (b / 255) ** 2 / layers[layer].heads; });
      return mean;
    };
    const picture = (shades) => {
      const canvas = Object.assign(document.createElement("canvas"), { width: S, height: T });
      const image = new ImageData(S, T);
      shades.forEach((b, i) => image.data.set([...colours[b], 255], 4 * i));
      canvas.getContext("2d").putImageData(image, 0, 0);
      return canvas;
    };
    const sized = (canvas, width, height) => {
      const ratio = devicePixelRatio || 1;
      Object.assign(canvas, { width: width * ratio, height: height * ratio });
      Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      return pen;
    };
    const variable = (name) => getComputedStyle(block).getPropertyValue(name).trim();

    // --- every head of every layer, small
    const heads = Math.max(...layers.map((layer) => layer.heads));
    const numbers = layers.map((layer, l) => layer.name.match(/ (\d+)( |$)/)?.[1] ?? l + 1); // a chosen layer keeps its own
    const geometry = () => {
      const tileWidth = Math.max(14, Math.min(64, (Math.min(block.clientWidth, 500) - 40) / heads - 3));
      return { left: 26, top: 22, width: tileWidth, height: Math.max(14, Math.min(64, (tileWidth * T) / S)) };
    };
    let tiles;
    const drawOverview = () => {
      const { left, top, width, height } = geometry();
      const pen = sized(overview, left + heads * (width + 3), top + layers.length * (height + 3));
      pen.font = `12px ${variable("--font")}`;
      pen.fillStyle = variable("--muted");
      pen.textAlign = "center";
      for (let h = 0; h < heads; h++) pen.fillText(h + 1, left + h * (width + 3) + width / 2, 14);
      layers.forEach((layer, l) => {
        pen.fillText(numbers[l], 10, top + l * (height + 3) + height / 2 + 4);
        for (let h = 0; h < layer.heads; h++) {
          const [x, y] = [left + h * (width + 3), top + l * (height + 3)];
          pen.imageSmoothingEnabled = T > height;
          pen.drawImage(tiles[l][h], x, y, width, height);
          const chosen = l === now.layer && (h === now.head || now.head < 0);
          pen.strokeStyle = variable(chosen ? "--other" : "--line");
          pen.lineWidth = chosen ? 3 : 1;
          pen.strokeRect(x, y, width, height);
        }
      });
    };
    overview.addEventListener("click", (event) => {
      const { left, top, width, height } = geometry();
      const head = Math.floor((event.offsetX - left) / (width + 3)), layer = Math.floor((event.offsetY - top) / (height + 3));
      if (head >= 0 && layer >= 0 && head < layers[layer]?.heads) choose(layer, head);
    });

    // --- the chosen head, large
    let frame;
    const drawBig = (weights) => {
      const pen = big.getContext("2d");
      pen.font = `13px ${variable("--font")}`;
      const widest = (tokens) => Math.ceil(Math.max(...tokens.map((t) => pen.measureText(short(t)).width))) + 8;
      const left = widest(rows), top = Math.ceil(widest(columns) * 0.87) + 8;
      const cell = Math.max(11, Math.min(30, Math.floor((find(".big").clientWidth - left - 24) / S)));
      frame = { left, top, cell };
      const page = sized(big, left + cell * S + widest(columns) / 2, top + cell * T + 2);
      page.imageSmoothingEnabled = false;
      page.drawImage(picture(Uint8Array.from(weights, (w) => Math.round(255 * Math.sqrt(w)))), left, top, cell * S, cell * T);
      page.strokeStyle = variable("--line");
      page.strokeRect(left, top, cell * S, cell * T);
      page.font = `${Math.min(13, cell + 1)}px ${variable("--font")}`;
      const ink = (side, i) => variable(now.side === side && now.token === i ? "--other-text" : "--ink");
      page.textAlign = "right";
      rows.forEach((token, i) => { page.fillStyle = ink("row", i); page.fillText(short(token), left - 5, top + cell * (i + 0.5) + 4); });
      page.textAlign = "left";
      columns.forEach((token, j) => {
        page.save();
        page.translate(left + cell * (j + 0.5) + 3, top - 5);
        page.rotate(-Math.PI / 3);
        page.fillStyle = ink("column", j);
        page.fillText(short(token), 0, 0);
        page.restore();
      });
      page.strokeStyle = variable("--other");
      page.lineWidth = 2;
      if (now.side === "row") page.strokeRect(left, top + cell * now.token, cell * S, cell);
      else page.strokeRect(left + cell * now.token, top, cell, cell * T);
    };
    big.addEventListener("pointermove", (event) => {
      const row = Math.floor((event.offsetY - frame.top) / frame.cell), column = Math.floor((event.offsetX - frame.left) / frame.cell);
      const token = now.side === "row" ? row : column;
      if (row >= 0 && row < T && column >= 0 && column < S && token !== now.token) { now.token = token; redraw(); }
    });

    // --- the text itself
    const buttons = lines.map((line, place) => {
      const side = place === 0 ? "row" : "column";
      const made = (side === "row" ? rows : columns).map((token, i) => {
        const button = Object.assign(document.createElement("button"), { type: "button", className: "tok", textContent: token, tabIndex: i === 0 ? 0 : -1 });
        const activate = () => { if (cross) now.side = side; if (now.token !== i || cross) { now.token = i; redraw(); } };
        button.addEventListener("pointerenter", activate);
        button.addEventListener("focus", activate);
        line.append(button, document.createElement("wbr"));
        return button;
      });
      line.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        const at = made.indexOf(document.activeElement);
        if (!step || at < 0) return;
        event.preventDefault();
        const next = made[(at + step + made.length) % made.length];
        made.forEach((button) => { button.tabIndex = button === next ? 0 : -1; });
        next.focus();
      });
      return made;
    });

    const redraw = () => {
      const words = WORDS[root.dataset.lang];
      const weights = weightsOf(now.layer, now.head);
      const byRow = now.side === "row";
      const others = byRow ? columns : rows;
      const share = Array.from(others, (_, i) => (byRow ? weights[now.token * S + i] : weights[i * S + now.token]));
      for (const button of buttons.flat()) { button.style.setProperty("--shade", 0); button.classList.remove("active"); }
      const shaded = cross && byRow ? buttons[1] : buttons[0], active = cross && !byRow ? buttons[1] : buttons[0];
      shaded.forEach((button, i) => button.style.setProperty("--shade", Math.sqrt(share[i]).toFixed(3)));
      active[now.token].classList.add("active");
      const percent = (w) => words.percent((100 * w).toFixed(w < 0.0995 ? 1 : 0));
      const top = share.map((w, i) => [w, i]).sort((a, b) => b[0] - a[0]).slice(0, SHOWN).filter(([w]) => w >= 0.001);
      const named = top.map(([w, i]) => `${words.quote(others[i])} ${percent(w)}`).join(", ");
      find(".status").textContent = `${words.quote((byRow ? rows : columns)[now.token])} ${byRow ? words.looks : words.looked} ${named || "—"}`;
      drawBig(weights);
    };
    const choose = (layer, head) => {
      Object.assign(now, { layer, head: Math.min(head, layers[layer].heads - 1) });
      fill();
      drawOverview();
      redraw();
    };
    const fill = () => {
      const words = WORDS[root.dataset.lang];
      layerSelect.replaceChildren(...layers.map((layer, l) => new Option(root.dataset.lang === "fr" ? layer.fr : layer.name, l)));
      headSelect.replaceChildren(...Array.from({ length: layers[now.layer].heads }, (_, h) => new Option(h + 1, h)), new Option(words.mean, -1));
      sideSelect.replaceChildren(new Option(words.looks, "row"), new Option(words.looked, "column"));
      Object.assign(layerSelect, { value: now.layer });
      Object.assign(headSelect, { value: now.head });
      Object.assign(sideSelect, { value: now.side });
    };
    layerSelect.addEventListener("change", () => choose(Number(layerSelect.value), now.head));
    headSelect.addEventListener("change", () => choose(now.layer, Number(headSelect.value)));
    sideSelect.addEventListener("change", () => { Object.assign(now, { side: sideSelect.value, token: 0 }); redraw(); });

    const look = () => {
      colours = palette(block);
      tiles = layers.map((layer, l) => Array.from({ length: layer.heads }, (_, h) => picture(tile(l, h))));
      choose(now.layer, now.head);
      block.dataset.drawn = root.dataset.lang;
    };
    Object.assign(now, mostTelling());
    root.addEventListener("attentif-look", look);
    let width = block.clientWidth;
    new ResizeObserver(() => { if (block.clientWidth !== width) { width = block.clientWidth; drawOverview(); redraw(); } }).observe(block);
  };

  root.querySelectorAll(".maps").forEach(start);
};
