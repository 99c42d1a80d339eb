// SPDX-License-Identifier: BSD-3-Clause
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const rowHeight = 18;
const mostRows = 1000;  // of the table
const callers = 2;  // in a row of it

const element = id => document.getElementById(id);

function make(kind, text, name) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
}

function size(bytes) {
  const units = ["KiB", "MiB", "GiB", "TiB"];
  if (bytes < 1024) return `${Math.round(bytes)} B`;
  let unit = -1;
  do { bytes /= 1024; ++unit; } while (bytes >= 1024 && unit + 1 < units.length);
  return `${bytes.toFixed(1)} ${units[unit]}`;
}

const share = (part, whole) => whole === 0 ? "" : `${(100 * part / whole).toFixed(1)}%`;
const count = number => number.toLocaleString("en-US");

// The tree of calls, outermost first.

function newNode(name, parent) {
  return {name, parent, bytes: 0, objects: 0, depth: parent ? parent.depth + 1 : 0, left: 0, children: new Map()};
}

const root = newNode("all", null);
for (const site of data.sites) {
  let node = root;
  const add = () => { node.bytes += site.bytes; node.objects += site.objects; };
  add();
  for (let i = site.functions.length - 1; i >= 0; --i) {
    const id = site.functions[i];
    if (!node.children.has(id)) node.children.set(id, newNode(data.names[id], node));
    node = node.children.get(id);
    add();
  }
}
for (const stack = [root]; stack.length > 0;) {
  const node = stack.pop();
  let left = node.left;
  for (const child of [...node.children.values()].sort((a, b) => b.bytes - a.bytes)) {
    child.left = left;
    left += child.bytes;
    stack.push(child);
  }
}

function colour(name) {
  let hash = 2166136261;
  for (const c of name.split("<", 2)[0] || name) hash = Math.imul(hash ^ c.codePointAt(0), 16777619) >>> 0;
  return `hsl(${12 + hash % 44},${70 + (hash >>> 6) % 20}%,${62 + (hash >>> 12) % 10}%)`;
}

// The flame graph. Boxes narrower than a pixel are left out.

let focus = root;
let wanted = "";

const found = node => wanted !== "" && node !== root && node.name.toLowerCase().includes(wanted);

function describe(node) {
  return `${node.name}: ${size(node.bytes)}, ${share(node.bytes, root.bytes)}, about ${count(node.objects)} objects`;
}

function box(node, left, width, above) {
  const made = make("div", node.name, above ? "above" : "");
  made.style.cssText =
    `left:${left}px;top:${node.depth * rowHeight}px;width:${width}px;background:${colour(node.name)}`;
  if (width < 8) made.style.padding = "0";
  if (found(node)) made.classList.add("found");
  made.title = describe(node);
  made.onmouseenter = () => { element("detail").textContent = describe(node); };
  made.onclick = () => { focus = node; draw(); };
  return made;
}

function draw() {
  const flame = element("flame");
  const width = flame.clientWidth;
  const scale = focus.bytes === 0 ? 0 : width / focus.bytes;
  const boxes = document.createDocumentFragment();
  let deepest = focus.depth;
  for (let above = focus.parent; above; above = above.parent) boxes.append(box(above, 0, width, true));
  for (const stack = [focus]; stack.length > 0;) {
    const node = stack.pop();
    if (node.bytes * scale < 1) continue;
    deepest = Math.max(deepest, node.depth);
    boxes.append(box(node, (node.left - focus.left) * scale, node.bytes * scale, false));
    stack.push(...node.children.values());
  }
  flame.replaceChildren(boxes);
  flame.style.height = `${(deepest + 1) * rowHeight}px`;
  element("reset").disabled = focus === root;
  element("path").textContent = focus === root ? "" : describe(focus);
}

// A stack counts once, however many of its functions are found.
function search() {
  wanted = element("search").value.trim().toLowerCase();
  let matched = 0;
  for (const stack = [root]; wanted !== "" && stack.length > 0;) {
    const node = stack.pop();
    if (found(node)) matched += node.bytes;
    else stack.push(...node.children.values());
  }
  element("matched").textContent = wanted === "" ? "" : `${size(matched)}, ${share(matched, root.bytes)} in matching calls`;
  draw();
  drawTable();
}

// The table.

const columns = [
  {name: "Bytes", key: site => site.bytes, text: site => size(site.bytes)},
  {name: "Share", key: site => site.bytes, text: site => share(site.bytes, root.bytes)},
  {name: "Objects", key: site => site.objects, text: site => count(site.objects)},
  {name: "Mean size", key: site => site.bytes / site.objects, text: site => size(site.bytes / site.objects)},
  {name: "Samples", key: site => site.samples, text: site => count(site.samples)},
];
let sortedBy = columns[0];

function callSite(site) {
  const cell = make("td");
  const frame = i => {
    const line = document.createDocumentFragment();
    line.append(data.names[site.functions[i]] || "unknown");
    const source = data.names[site.sources[i]];
    if (source) line.append(" ", make("span", source, "source"));
    return line;
  };
  for (let i = site.own; i < Math.min(site.own + callers + 1, site.functions.length); ++i) {
    if (i > site.own) cell.append(make("span", " \u2190 ", "source"));
    cell.append(frame(i));
  }
  cell.onclick = () => {
    const open = cell.querySelector("ol");
    if (open) return open.remove();
    const list = make("ol");
    site.functions.forEach((_, i) => { const item = make("li"); item.append(frame(i)); list.append(item); });
    cell.append(list);
  };
  return cell;
}

function drawTable() {
  const table = make("table");
  const head = table.createTHead().insertRow();
  for (const column of columns) {
    const cell = make("th", column.name, column === sortedBy ? "sorted" : "");
    cell.onclick = () => { sortedBy = column; drawTable(); };
    head.append(cell);
  }
  head.append(make("th", "Call site (click for the stack)"));
  const body = table.createTBody();
  const shown = data.sites
    .filter(site => wanted === "" || site.functions.some(id => data.names[id].toLowerCase().includes(wanted)))
    .sort((a, b) => sortedBy.key(b) - sortedBy.key(a));
  for (const site of shown.slice(0, mostRows)) {
    const row = body.insertRow();
    for (const column of columns) row.append(make("td", column.text(site)));
    row.append(callSite(site));
  }
  element("sites").replaceChildren(table);
  if (shown.length > mostRows) element("sites").append(make("p", `and ${shown.length - mostRows} more`));
}

// The timeline.

function svg(kind, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawTimeline() {
  const points = data.timeline;
  if (points.length < 2) return;
  element("timeline-section").hidden = false;
  const lines = [["in use", "var(--in-use)", 1], ["memory of the heap", "var(--heap)", 2], ["resident", "var(--resident)", 3]];
  const [width, height, left, bottom] = [1400, 190, 80, 22];
  const last = points[points.length - 1][0] || 1;
  const most = Math.max(1, ...points.flatMap(point => point.slice(1))) * 1.05;
  const x = time => left + (width - left - 10) * time / last;
  const y = bytes => (height - bottom) * (1 - bytes / most) + 6;
  const plot = svg("svg", {viewBox: `0 0 ${width} ${height + 8}`});
  for (let i = 0; i <= 4; ++i) {
    const bytes = most / 1.05 * i / 4;
    plot.append(svg("line", {x1: left, x2: width - 10, y1: y(bytes), y2: y(bytes), stroke: "var(--line)"}));
    plot.append(svg("text", {x: left - 8, y: y(bytes) + 4, "text-anchor": "end"}, size(bytes)));
    plot.append(svg("text", {x: x(last * i / 4), y: height + 2, "text-anchor": i === 4 ? "end" : "middle"},
      `${(last * i / 4000).toFixed(1)} s`));
  }
  for (const [, stroke, at] of lines) {
    const path = points.map(point => `${x(point[0]).toFixed(1)},${y(point[at]).toFixed(1)}`).join(" ");
    plot.append(svg("polyline", {points: path, fill: "none", stroke, "stroke-width": 2}));
  }
  const legend = make("p", undefined, "legend");
  for (const [name, stroke] of lines) {
    const entry = make("span");
    const mark = make("i");
    mark.style.background = stroke;
    entry.append(mark, name);
    legend.append(entry);
  }
  element("timeline").replaceChildren(plot, legend);
}

element("title").textContent = data.title;
document.title = data.title;
element("subtitle").textContent = data.subtitle;
for (const note of data.notes) element("notes").append(make("li", note));
element("reset").onclick = () => { focus = root; draw(); };
element("search").oninput = search;
window.onresize = draw;
drawTimeline();
// page.html#search=WORDS begins with a search.
element("search").value = new URLSearchParams(location.hash.slice(1)).get("search") ?? "";
search();
