"use strict";
// Tables: a click on a header sorts by it, words in the box keep the rows that have all of them.
for (const box of document.querySelectorAll(".table")) {
  const body = box.querySelector("tbody"), heads = [...box.querySelectorAll("th")];
  const rows = [...body.rows], filter = box.querySelector("input.filter"), shown = box.querySelector("span.shown");
  const key = (row, column) => {
    const cell = row.cells[column], value = cell.dataset.value;
    return value === undefined ? cell.textContent : value === "" ? null : Number(value);
  };
  heads.forEach((head, column) => head.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach(each => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    rows.sort((a, b) => {
      const x = key(a, column), y = key(b, column);
      if (x === null || y === null) return (x === null) - (y === null);
      const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return down ? -order : order;
    });
    body.append(...rows);
  }));
  const keep = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let many = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
      many += !row.hidden;
    }
    shown.textContent = `${many} of ${rows.length} rows`;
  };
  if (filter) {
    filter.addEventListener("input", keep);
    keep();
  }
}

// The explorer: a sweep made before, one point of it chosen by five sliders, a line over the axis asked for.
const place = document.querySelector(".explorer");
if (place) {
  const data = JSON.parse(document.getElementById("explorer-data").textContent);
  const axes = data.axes, names = axes.map(axis => axis.name), at = axes.map(axis => axis.start);
  const sizes = axes.map(axis => axis.values.length);
  const strides = sizes.map((_, i) => sizes.slice(i + 1).reduce((a, b) => a * b, 1));
  const column = place.querySelector("select.column"), across = place.querySelector("select.across");
  const drawing = place.querySelector("svg"), answer = place.querySelector(".answer");
  const value = index => data.columns[column.value].values[index.reduce((sum, i, n) => sum + i * strides[n], 0)];
  const make = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, each] of Object.entries(attributes)) made.setAttribute(key, each);
    if (text !== undefined) made.textContent = text;
    drawing.append(made);
  };
  const draw = () => {
    const x = names.indexOf(across.value), about = data.columns[column.value], axis = axes[x];
    const points = axis.values.map((_, i) => value(at.map((each, n) => n === x ? i : each)));
    const known = points.filter(each => each !== null);
    const top = Math.max(100, ...known);
    const left = 56, right = 690, high = 20, low = 330;
    const px = i => axis.values.length > 1 ? left + (right - left) * i / (axis.values.length - 1) : (left + right) / 2;
    const py = share => low - (low - high) * share / top;
    drawing.replaceChildren();
    for (let tick = 0; tick <= 4; tick++) {
      const share = top * tick / 4;
      make("line", {x1: left, x2: right, y1: py(share), y2: py(share), stroke: "#e4e4e4"});
      make("text", {x: left - 8, y: py(share) + 4, "text-anchor": "end", "font-size": 12}, `${Math.round(share)} %`);
    }
    axis.values.forEach((each, i) =>
      make("text", {x: px(i), y: low + 20, "text-anchor": "middle", "font-size": 12}, axis.labels[i]));
    make("text", {x: (left + right) / 2, y: low + 42, "text-anchor": "middle", "font-size": 13}, axis.words);
    const line = points.map((each, i) => each === null ? null : `${px(i)},${py(each)}`).filter(Boolean).join(" ");
    make("polyline", {points: line, fill: "none", stroke: "#0072B2", "stroke-width": 2});
    points.forEach((each, i) => {
      if (each === null) return;
      const chosen = i === at[x];
      make("circle", {cx: px(i), cy: py(each), r: chosen ? 7 : 4, fill: chosen ? "#D55E00" : "#0072B2"});
    });
    const now = value(at);
    answer.textContent = `${about.words}: ${now === null ? "infeasible" : now.toFixed(1) + " %"}`;
  };
  place.querySelectorAll("input[type=range]").forEach((slider, n) => {
    const output = slider.parentElement.querySelector("output");
    const move = () => { at[n] = Number(slider.value); output.textContent = axes[n].labels[at[n]]; draw(); };
    slider.addEventListener("input", move);
    output.textContent = axes[n].labels[at[n]];
  });
  column.addEventListener("change", draw);
  across.addEventListener("change", draw);
  draw();
}
