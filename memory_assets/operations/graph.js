"use strict";
// Draws nodes and edges on the canvas of a page, or of a file that `memory graph` wrote. Their places are computed before.
const map = document.getElementById("map");
if (map) {
  const canvas = map.querySelector("canvas"), output = map.querySelector("output"), chosenLine = document.getElementById("chosen");
  const pen = canvas.getContext("2d");
  const { nodes, edges } = JSON.parse(document.getElementById("graph-data").textContent);
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const links = new Map(nodes.map((node) => [node.id, []]));
  for (const edge of edges) {
    edge.from = byId.get(edge.source);
    edge.to = byId.get(edge.target);
    links.get(edge.source).push([edge, edge.to]);
    links.get(edge.target).push([edge, edge.from]);
  }
  const inOrder = [...nodes].sort((a, b) => (b.step === 0) - (a.step === 0) || b.degree - a.degree);
  const DASHED = new Set(["CONTRADICTS", "INVALIDATED_BY"]);
  let scale = 1, left = 0, top = 0, chosen = null, walked = 0, waiting = false, width = 0, height = 0;
  let found = new Set(nodes), confidence = 0, type = "";

  const size = (node) => (node.is_memory ? 4 + 7 * node.relevance : 3.5);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const isShown = (edge) => edge.confidence >= confidence && (!type || edge.type === type);
  const follow = (to) => chosenLine?.querySelector(`[data-to="${to}"]`).click();
  const redraw = () => { if (!waiting) { waiting = true; requestAnimationFrame(draw); } };

  function fit() {
    width = canvas.clientWidth; height = canvas.clientHeight;
    canvas.width = width * devicePixelRatio; canvas.height = height * devicePixelRatio;
    const xs = nodes.map((node) => node.x), ys = nodes.map((node) => node.y);
    const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    scale = Math.min(3 * devicePixelRatio * 20, 0.85 * Math.min(width / (x1 - x0 || 1), height / (y1 - y0 || 1)));
    left = width / 2 - scale * (x0 + x1) / 2; top = height / 2 - scale * (y0 + y1) / 2;
    redraw();
  }

  function draw() {
    waiting = false;
    const begun = performance.now();
    const ink = colour("ink"), dim = colour("dim"), accent = colour("accent"), line = colour("line"), card = colour("card"), fault = colour("fault");
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const at = (node) => [left + scale * node.x, top + scale * node.y];
    const strokes = [[line, 1, [], (edge) => edge.type === "MENTIONS"], [dim, 1, [], (edge) => edge.type !== "MENTIONS" && !DASHED.has(edge.type)],
      [fault, 1.5, [5, 4], (edge) => DASHED.has(edge.type)], [accent, 2.5, [], (edge) => chosen && (edge.from === chosen || edge.to === chosen)]];
    pen.globalAlpha = found.size < nodes.length ? 0.15 : 1;
    for (const [style, thickness, dash, fits] of strokes) {
      pen.strokeStyle = style; pen.lineWidth = thickness; pen.setLineDash(dash); pen.beginPath();
      for (const edge of edges) if (isShown(edge) && fits(edge)) { pen.moveTo(...at(edge.from)); pen.lineTo(...at(edge.to)); }
      pen.stroke();
    }
    pen.setLineDash([]);
    for (const [style, isMemory, isBright] of [[accent, true, false], [dim, false, false], [accent, true, true], [dim, false, true]]) {
      pen.fillStyle = style; pen.globalAlpha = isBright ? 1 : 0.1; pen.beginPath();
      for (const node of nodes) if (node.is_memory === isMemory && found.has(node) === isBright) { const [x, y] = at(node); pen.moveTo(x, y); pen.arc(x, y, size(node), 0, 7); }
      pen.fill();
    }
    for (const node of nodes) if (node.step === 0 || node === chosen) {
      const [x, y] = at(node);
      pen.strokeStyle = node === chosen ? fault : ink; pen.lineWidth = 2; pen.beginPath(); pen.arc(x, y, size(node) + 3, 0, 7); pen.stroke();
    }
    pen.font = "12px system-ui, sans-serif"; pen.textAlign = "center"; pen.lineJoin = "round"; pen.lineWidth = 3; pen.strokeStyle = card; pen.fillStyle = ink;
    const near = chosen ? new Set([chosen, ...links.get(chosen.id).map(([, other]) => other)]) : new Set();
    const boxes = [];
    const name = (node) => {
      const [place, y] = at(node), text = node.label.length > 28 ? `${node.label.slice(0, 27)}…` : node.label;
      const half = 3.4 * text.length, x = place < 0 || place > width ? place : Math.max(half, Math.min(place, width - half));
      const box = [x - half, y - size(node) - 16, x + half, y - size(node) - 1];
      if (boxes.length > 80 || box[2] < 0 || box[3] < 0 || box[0] > width || box[1] > height) return;
      if (boxes.some((other) => other[0] < box[2] && box[0] < other[2] && other[1] < box[3] && box[1] < other[3])) return;
      boxes.push(box);
      pen.strokeText(text, x, y - size(node) - 4); pen.fillText(text, x, y - size(node) - 4);
    };
    near.forEach(name);
    inOrder.forEach((node) => near.has(node) || (found.has(node) && name(node)));
    map.dataset.milliseconds = (performance.now() - begun).toFixed(1);
  }

  function choose(node, edge) {
    chosen = node; walked = 0;
    if (chosenLine) chosenLine.hidden = !node;
    if (!node) { output.textContent = ""; redraw(); return; }
    const how = edge ? `${edge.type}${edge.note ? ` (${edge.note})` : ""} → ` : "";
    output.textContent = `${how}${node.label} · ${node.kind} · ${node.degree} edges`;
    if (chosenLine) offer(node);
    const x = left + scale * node.x, y = top + scale * node.y;
    if (x < 20 || y < 20 || x > width - 20 || y > height - 20) { left += width / 2 - x; top += height / 2 - y; }
    redraw();
  }

  function offer(node) {
    chosenLine.querySelector("strong").textContent = node.label;
    const begin = nodes.filter((each) => each.step === 0).map((each) => `id=${each.id}`).join("&");
    const to = { open: `/ui/memories/${node.id}`, expand: `/ui/graph?${begin}&id=${node.id}&${map.dataset.address}`, begin: `/ui/graph?id=${node.id}&${map.dataset.address}` };
    for (const link of chosenLine.querySelectorAll("a")) {
      link.href = to[link.dataset.to];
      link.hidden = link.dataset.to === "open" && !node.is_memory;
    }
  }

  function zoom(factor, x = width / 2, y = height / 2) {
    const wanted = Math.min(400, Math.max(0.5, scale * factor));
    left = x - (x - left) * wanted / scale; top = y - (y - top) * wanted / scale; scale = wanted;
    redraw();
  }

  const pointers = new Map();
  let moved = 0, spread = 0;
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); pointers.set(event.pointerId, event); moved = 0; spread = 0; });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    pointers.set(event.pointerId, event);
    if (pointers.size === 2) {
      const [one, other] = [...pointers.values()];
      const now = Math.hypot(one.offsetX - other.offsetX, one.offsetY - other.offsetY);
      if (spread) zoom(now / spread, (one.offsetX + other.offsetX) / 2, (one.offsetY + other.offsetY) / 2);
      spread = now; moved = 9;
      return;
    }
    left += event.offsetX - before.offsetX; top += event.offsetY - before.offsetY;
    moved += Math.abs(event.offsetX - before.offsetX) + Math.abs(event.offsetY - before.offsetY);
    redraw();
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => {
    pointers.delete(event.pointerId);
    if (end === "pointercancel" || moved > 5) return;
    let best = null, least = 18;
    for (const node of nodes) {
      const distance = Math.hypot(left + scale * node.x - event.offsetX, top + scale * node.y - event.offsetY);
      if (distance < least) { best = node; least = distance; }
    }
    choose(best);
  });
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY); }, { passive: false });
  canvas.addEventListener("dblclick", () => { if (chosen) follow("expand"); });

  let came = null;
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[event.key];
    if (step) { left += step[0]; top += step[1]; redraw(); }
    else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "n" || event.key === "p") {
      if (!chosen) { came = null; choose(nodes[0]); }
      else {
        const around = links.get((came || chosen).id);
        if (!came) { came = chosen; walked = event.key === "n" ? -1 : 0; }
        const next = (walked + (event.key === "n" ? 1 : -1) + around.length) % around.length;
        if (around.length) { const [edge, other] = around[next]; choose(other, edge); walked = next; }
      }
    }
    else if (event.key === " " && chosen) { came = null; choose(chosen); }
    else if (event.key === "Enter" && chosen) follow(chosen.is_memory ? "open" : "begin");
    else if (event.key === "e" && chosen) follow("expand");
    else if (event.key === "Escape") { came = null; choose(null); }
    else return;
    event.preventDefault();
  });
  const filters = document.getElementById("filters");
  if (filters) {
    const field = filters.elements;
    for (const each of new Set(edges.map((edge) => edge.type))) field.type.add(new Option(each));
    filters.addEventListener("input", () => {
      const words = field.words.value.toLowerCase().split(/\s+/).filter(Boolean);
      found = new Set(nodes.filter((node) => words.every((word) => `${node.label} ${node.id}`.toLowerCase().includes(word))));
      confidence = Number(field.confidence.value); type = field.type.value;
      field.found.value = words.length ? `${found.size} found` : "";
      redraw();
    });
    filters.addEventListener("submit", (event) => event.preventDefault());
  }
  new ResizeObserver(fit).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}
