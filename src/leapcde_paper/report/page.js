"use strict";
// Tables that sort, a filter by data set, charts drawn from the page's own data, and the explorer of paths.
const DATA = JSON.parse(document.getElementById("data").textContent);
const colourOf = name => DATA.colours[name] || "#9ca3af";  // the same in every chart
const inFront = name => DATA.front.includes(name);
const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes, ...children) {
  const shape = ["svg", "g", "path", "line", "circle", "text", "title"].includes(name);
  const node = shape ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

// ---- tables --------------------------------------------------------------------------------------------------------

function sortBy(table, column, button) {
  const head = button.closest("th"), up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = row => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? (column && !isNaN(parseFloat(cell.textContent)) ? parseFloat(cell.textContent) : cell.textContent) : Number(cell.dataset.value);
  };
  const empty = row => row.cells[column].textContent.trim() === "" || row.cells[column].textContent === "–";
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    if (empty(a) !== empty(b)) return empty(a) ? 1 : -1;  // what is missing stays at the end
    const x = value(a), y = value(b);
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
    return up ? order : -order;
  });
  table.tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll("table")) {
  [...table.tHead.rows[0].cells].forEach((cell, i) => {
    const button = cell.querySelector("button");
    if (button) button.addEventListener("click", () => sortBy(table, i, button));
  });
}

document.getElementById("filter").addEventListener("change", event => {
  const wanted = event.target.value;
  for (const article of document.querySelectorAll("[data-sets]"))
    article.hidden = wanted !== "" && !article.dataset.sets.split(" ").includes(wanted);
});

// ---- charts --------------------------------------------------------------------------------------------------------

function ticks(low, high, log) {
  if (log) {
    const found = [];
    for (let e = Math.ceil(low - 1e-9); e <= high + 1e-9; e += Math.max(1, Math.round((high - low) / 6))) found.push(e);
    return found.length > 1 ? found : [low, high];
  }
  const raw = (high - low) / 5 || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw);
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-6; v += step) found.push(v);
  return found;
}

const short = v => v === 0 ? "0" : Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3 ? v.toExponential(1) : String(+v.toPrecision(4));

function scale(values, log, from, to, reach = 0) {
  const put = v => log ? Math.log10(v) : v;
  const used = values.filter(v => v !== null && isFinite(put(v))).map(put);
  let low = Math.min(...used), high = Math.max(...used);
  if (low === high) { low -= 0.5; high += 0.5; }
  const missing = reach * Math.abs(used.reduce((a, b) => a + b, 0) / used.length) - (high - low);
  if (missing > 0) { low -= missing / 2; high += missing / 2; }  // what is nearly level looks so
  const pad = (high - low) * 0.05;
  low -= pad; high += pad;
  const at = v => from + (put(v) - low) / (high - low) * (to - from);
  return { at, ticks: ticks(low, high, log).map(v => ({ place: from + (v - low) / (high - low) * (to - from), text: short(log ? 10 ** v : v) })) };
}

const redraws = new Map();  // by the place of a chart, so that a turned phone draws all of them anew
window.addEventListener("resize", () => { for (const draw of redraws.values()) draw(); });

function chart(home, data, high) {
  const off = new Set();
  const tip = make("div", { class: "tip", "aria-live": "polite" });
  const legend = make("div", { class: "legend" });
  const frame = make("div");
  data.series.forEach((one, i) => {
    const dot = make("i", { style: `background:${colourOf(one.name)}` });
    legend.append(make("button", { type: "button", "aria-pressed": "true", onclick: event => {
      off.has(i) ? off.delete(i) : off.add(i);
      event.currentTarget.setAttribute("aria-pressed", String(!off.has(i)));
      draw();
    } }, dot, one.name));
  });

  function draw() {
    const width = Math.max(280, frame.clientWidth || home.clientWidth), left = 66;
    const height = data.kind === "ranks" ? 70 + 30 * data.series.length : high || Math.max(230, 0.62 * width), bottom = height - 38;
    const shown = data.series.map((one, i) => [one, i]).filter(([, i]) => !off.has(i)).sort(([a], [b]) => inFront(a.name) - inFront(b.name));
    const logy = data.logy && data.series.every(one => one.y.every(v => v === null || v > 0));
    const ranks = data.kind === "ranks", half = ranks ? data.critical / 2 : 0;
    const used = shown.length ? shown : [[data.series[0], 0]];
    const x = scale(used.flatMap(([one]) => one.x.flatMap(v => [v - half, v + half])), data.logx, left, width - 10);
    const y = scale(used.flatMap(([one]) => one.y.flatMap((v, k) => one.err && one.err[k] ? [v - one.err[k], v + one.err[k]] : [v])).filter(v => !logy || v > 0), logy, bottom, 12, data.reach);
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${data.title}: ${data.y} against ${data.x}` });
    for (const t of x.ticks) svg.append(make("line", { class: "grid", x1: t.place, x2: t.place, y1: 12, y2: bottom }), make("text", { x: t.place, y: bottom + 15, "text-anchor": "middle" }, t.text));
    if (!ranks) for (const t of y.ticks) svg.append(make("line", { class: "grid", x1: left, x2: width - 10, y1: t.place, y2: t.place }), make("text", { x: left - 6, y: t.place + 4, "text-anchor": "end" }, t.text));
    svg.append(make("text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, data.x));
    if (!ranks) svg.append(make("text", { x: 0, y: 0, transform: `translate(12 ${bottom / 2 + 6}) rotate(-90)`, "text-anchor": "middle" }, data.y));
    for (const [one, i] of shown) {
      const colour = colourOf(one.name);
      if (data.kind === "line" && !one.dots) {
        const points = one.x.map((v, k) => one.y[k] === null ? null : `${x.at(v)},${y.at(one.y[k])}`).filter(Boolean);
        svg.append(make("path", { d: `M${points.join("L")}`, fill: "none", stroke: colour, "stroke-width": data.plain ? 2 : inFront(one.name) ? 2.5 : 1.2 }));
      }
      if (data.plain && !one.dots) continue;
      one.x.forEach((v, k) => {
        if (one.y[k] === null || v === null) return;
        const px = x.at(v), py = y.at(one.y[k]);
        if (ranks) svg.append(make("line", { x1: x.at(v - half), x2: x.at(v + half), y1: py, y2: py, stroke: colour, "stroke-width": 6, "stroke-opacity": 0.25 }), make("text", { x: left - 58, y: py - 6 }, `${one.name} ${v.toFixed(2)}`));
        if (one.err && one.err[k]) svg.append(make("line", { x1: px, x2: px, y1: y.at(one.y[k] - one.err[k]), y2: y.at(one.y[k] + one.err[k]), stroke: colour }));
        const words = ranks ? `${one.name}: average rank ${v.toFixed(2)}` : `${one.name}: ${data.x} ${short(v)}, ${data.y} ${short(one.y[k])}` + (one.err && one.err[k] ? ` ± ${short(one.err[k])}` : "");
        const tell = () => { tip.textContent = words; };
        const few = one.x.length <= 25;
        svg.append(make("circle", { cx: px, cy: py, r: one.dots ? 2.2 : 4, fill: colour, onpointerenter: tell, onclick: tell, onfocus: tell, ...(few ? { tabindex: 0, "aria-label": words } : {}) }, make("title", {}, words)));
      });
    }
    frame.replaceChildren(svg);
  }
  home.replaceChildren(make("h4", {}, data.title), frame, legend, tip);
  redraws.set(home, draw);
  draw();
}

for (const home of document.querySelectorAll("[data-chart]")) {
  const [figure, index] = home.dataset.chart.split(",").map(Number);
  chart(home, DATA.figures[figure].charts[index]);
}

// ---- paths ---------------------------------------------------------------------------------------------------------

const pick = { model: document.getElementById("path-model"), sample: document.getElementById("path-sample"), channel: document.getElementById("path-channel") };

function fill(select, names) {
  const before = select.selectedIndex;
  select.replaceChildren(...names.map((name, i) => make("option", { value: i }, name)));
  select.selectedIndex = before >= 0 && before < names.length ? before : 0;
}

function explore() {
  const one = DATA.paths[pick.model.value], s = Number(pick.sample.value), c = Number(pick.channel.value);
  const name = one.channels[c], t = one.t[s];
  const seen = one.seen_t[s].map((v, k) => [v, one.seen[s][c][k]]).filter(([v, w]) => v !== null && w !== null);
  const series = [{ name: "X", x: t, y: one.X[s][c] }, { name: one.learned, x: t, y: one.Y[s][c] }];
  series.push({ name: "observed", x: seen.map(p => p[0]), y: seen.map(p => p[1]), dots: true });
  const common = { x: "time", kind: "line", plain: true, logx: false, logy: false };
  chart(document.getElementById("path-chart"), { ...common, title: `${one.name}, test sample ${s}`, y: name, series }, 300);
  chart(document.getElementById("path-slope"), { ...common, title: `slope of Y, ${name}`, y: "dY/dt", series: [{ name: one.learned, x: t, y: one.dY[s][c] }] }, 200);
}

function choose() {
  const one = DATA.paths[pick.model.value];
  fill(pick.sample, one.t.map((_, i) => `sample ${i}`));
  fill(pick.channel, one.channels);
  explore();
}

if (DATA.paths.length) {
  fill(pick.model, DATA.paths.map(one => one.name));
  choose();
  pick.model.addEventListener("change", choose);
  pick.sample.addEventListener("change", explore);
  pick.channel.addEventListener("change", explore);
} else {
  document.getElementById("path-chart").textContent = "No record of these keeps its paths.";
}
document.documentElement.dataset.ready = "yes";
