(() => {
  "use strict";

  const charts = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const symbols = ["circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star"];
  const printWidth = 320;
  const mostCovered = 40; // square pixels

  function theme() {
    const style = getComputedStyle(root);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    const names = ["paper", "panel", "ink", "muted", "rule", "accent", "tuned"];
    return {
      ...Object.fromEntries(names.map((name) => [name, read(name)])),
      marks: Array.from({ length: 10 }, (_, at) => read(`c${at}`)),
      font: getComputedStyle(document.body).fontFamily,
    };
  }

  const isTouch = matchMedia("(pointer: coarse)").matches;

  function layout(look, extra) {
    const axis = {
      gridcolor: look.rule,
      linecolor: look.muted,
      zeroline: false,
      fixedrange: true,
      ticks: "",
      title: { font: { color: look.muted } },
    };
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: look.font, size: 13, color: look.ink },
      hoverlabel: { bgcolor: look.ink, bordercolor: look.ink, font: { color: look.paper, size: 13 }, align: "left" },
      hovermode: "closest",
      showlegend: false,
      dragmode: false,
      ...extra,
      xaxis: { ...axis, ...extra.xaxis },
      yaxis: { ...axis, ...extra.yaxis },
    };
  }

  function spread({ rows }, look, width) {
    const colour = (row) => (row.tuned ? look.tuned : look.accent);
    const seeds = { x: [], y: [], text: [], colour: [], symbol: [] };
    const ranges = { x: [], y: [] };
    const published = { x: [], y: [], text: [] };
    rows.forEach((row, at) => {
      const crowd = Math.min(0.22, 0.03 * (row.values.length - 1));
      row.values.forEach((score, seed) => {
        seeds.x.push(score);
        // a fixed pattern, so that the page is reproducible
        seeds.y.push(at + crowd * (((seed * 0.618034) % 1) * 2 - 1));
        seeds.text.push(`${row.name}, seed ${row.seeds[seed]}: ${score.toFixed(1)} %`);
        seeds.colour.push(colour(row));
        seeds.symbol.push(row.tuned ? "square" : "circle");
      });
      ranges.x.push(Math.min(...row.values), Math.max(...row.values), null);
      ranges.y.push(at, at, null);
      if (row.published !== null) {
        published.x.push(row.published);
        published.y.push(at);
        published.text.push(`${row.name}, published: ${row.published.toFixed(1)} %`);
      }
    });
    const data = [
      { x: ranges.x, y: ranges.y, mode: "lines", line: { color: look.muted, width: 1 }, hoverinfo: "skip" },
      {
        x: seeds.x, y: seeds.y, text: seeds.text, mode: "markers", hoverinfo: "text",
        marker: { color: seeds.colour, symbol: seeds.symbol, size: 8, opacity: 0.55 },
      },
      {
        x: rows.map((row) => row.mean), y: rows.map((_, at) => at), mode: "markers", hoverinfo: "text",
        text: rows.map((row) => `${row.name}, mean: ${row.mean.toFixed(1)} %`),
        marker: { color: rows.map(colour), symbol: "line-ns", size: 20, line: { color: rows.map(colour), width: 3 } },
      },
      {
        ...published, mode: "markers", hoverinfo: "text",
        marker: { color: look.ink, symbol: "diamond-open", size: 10, line: { width: 1.6 } },
      },
    ];
    return {
      data,
      layout: layout(look, {
        width,
        height: 48 + 32 * rows.length,
        margin: { l: 8, r: 12, t: 8, b: 32 },
        xaxis: { nticks: 7 },
        yaxis: {
          tickvals: rows.map((_, at) => at), ticktext: rows.map((row) => row.name),
          range: [rows.length - 0.5, -0.5], automargin: true, showgrid: false, ticklabelstandoff: 6,
        },
      }),
    };
  }

  const canvas = document.createElement("canvas").getContext("2d");

  function textWidth(escaped) {
    canvas.font = `13px ${getComputedStyle(document.body).fontFamily}`;
    return canvas.measureText(escaped.replace(/&\w+;/g, "<")).width;
  }

  // label a point only where the label covers no other
  function labelled(points, place, room) {
    const taken = points.map((point) => ({ ...place(point), w: 12, h: 12 }));
    const sides = [
      ["middle right", 1, 0], ["middle left", -1, 0], ["top center", 0, -1], ["bottom center", 0, 1],
      ["top right", 1, -1], ["bottom right", 1, 1], ["top left", -1, -1], ["bottom left", -1, 1],
    ];
    const overlap = (a, b) =>
      Math.max(0, (a.w + b.w) / 2 - Math.abs(a.x - b.x)) * Math.max(0, (a.h + b.h) / 2 - Math.abs(a.y - b.y));
    return points.map((point, own) => {
      const { x, y } = place(point);
      const w = textWidth(point.name);
      let best = null;
      for (const [side, right, down] of sides) {
        const box = { x: x + right * (w / 2 + 8), y: y + down * (right ? 12 : 15), w, h: 15 };
        const outside = Math.max(0, w / 2 - box.x) + Math.max(0, box.x + w / 2 - room);
        const cost = 40 * outside + taken.reduce((sum, other, at) => sum + (at === own ? 0 : overlap(box, other)), 0);
        if (best === null || cost < best.cost) best = { side, box, cost };
      }
      if (best.cost > mostCovered) return { name: "", side: "middle right" };
      taken.push(best.box);
      return { name: point.name, side: best.side };
    });
  }

  function time({ points }, look, width) {
    const height = 340;
    const margin = { l: 44, r: 12, t: 12, b: 44 };
    const logs = points.map((point) => Math.log10(point.seconds));
    const accs = points.map((point) => point.acc);
    const ends = points.flatMap((point) => [point.acc - point.std, point.acc + point.std]);
    const pad = (low, high, least, part) => {
      const more = Math.max(least, part * (high - low));
      return [low - more, high + more];
    };
    const x = pad(Math.min(...logs), Math.max(...logs), 0.3, 0.12);
    const y = pad(Math.min(...ends), Math.max(...ends), 4, 0.1);
    const inner = { w: width - margin.l - margin.r, h: height - margin.t - margin.b };
    const place = (point) => ({
      x: (inner.w * (Math.log10(point.seconds) - x[0])) / (x[1] - x[0]),
      y: (inner.h * (y[1] - point.acc)) / (y[1] - y[0]),
    });
    const colour = points.map((point) => (point.tuned ? look.tuned : look.accent));
    const labels = labelled(points, place, inner.w);
    const shown = (seconds) => (seconds < 10 ? seconds.toPrecision(2) : seconds.toFixed(0));
    return {
      data: [
        {
          x: points.map((point) => point.seconds), y: accs, mode: "markers+text", hoverinfo: "text", cliponaxis: false,
          text: labels.map((label) => label.name), textposition: labels.map((label) => label.side),
          hovertext: points.map((p) => `${p.name}<br>ACC ${p.acc.toFixed(1)} ± ${p.std.toFixed(1)} %<br>${shown(p.seconds)} s`),
          error_y: { type: "data", array: points.map((point) => point.std), thickness: 1, width: 0, color: look.muted },
          marker: { color: colour, size: 10, symbol: points.map((point) => (point.tuned ? "square" : "circle")) },
          textfont: { color: look.ink },
        },
      ],
      layout: layout(look, {
        width, height, margin,
        xaxis: {
          type: "log", range: x, title: { text: "seconds", standoff: 8, font: { color: look.muted, size: 13 } },
          tickvals: [0.0001, 0.001, 0.01, 0.1, 1, 10, 100, 1000, 10000, 100000].flatMap((ten) => (x[1] - x[0] < 2.6 ? [ten, 2 * ten, 5 * ten] : [ten])),
          tickformat: "~g",
        },
        yaxis: { range: y, nticks: 7 },
      }),
    };
  }

  function convergence({ lines }, look, width) {
    const names = [...new Set(lines.map((line) => line.name))];
    const dashes = ["solid", "dash", "dot", "dashdot"];
    const seen = new Set();
    const last = Math.max(...lines.flatMap((line) => line.iterations));
    const data = lines.map((line) => {
      const at = names.indexOf(line.name);
      const isFirst = !seen.has(line.name);
      seen.add(line.name);
      return {
        x: line.iterations, y: line.values, name: line.name, legendgroup: String(at), showlegend: isFirst,
        mode: line.values.length > 1 ? "lines" : "markers", hoverinfo: "text",
        text: line.values.map((objective, k) => `${line.name}, seed ${line.seed}<br>iteration ${line.iterations[k]}: ${objective}`),
        line: { color: look.marks[at % 10], width: 1.6, dash: dashes[at % 4] }, marker: { color: look.marks[at % 10] },
        opacity: lines.length > 12 ? 0.45 : 0.75,
      };
    });
    return {
      data,
      layout: layout(look, {
        width, height: 340, margin: { l: 8, r: 12, t: 36, b: 44 },
        showlegend: true,
        legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", itemclick: false, itemdoubleclick: false },
        xaxis: {
          title: { text: "iteration", standoff: 8, font: { color: look.muted, size: 13 } },
          rangemode: "tozero", tickformat: "d",
          // by itself it has fractional ticks for few iterations, which round to repeated labels
          ...(last <= 10 ? { dtick: 1 } : {}),
        },
        yaxis: { automargin: true, nticks: 7 },
      }),
    };
  }

  function map(chart, look, width, by) {
    const named = chart.clusters.map((cluster) => `cluster ${cluster}`);
    const beyond = chart.classes.length - chart.matched;
    // a class and its cluster share a mark; those without partner follow
    const markOf = (at) => (by === "class" || at < chart.matched ? at : at + beyond);
    const sampleName = (point) => `sample ${chart.sample[point]}` + (chart.ids ? `: ${chart.ids[point]}` : "");
    const groups = new Map();
    chart[by].forEach((at, point) => groups.set(at, [...(groups.get(at) || []), point]));
    const { anchors } = chart;
    const reach = 1.12 + anchors.room;
    const height = Math.min(width, 520);
    const largest = Math.max(...chart.clusters.map((_, at) => chart.cluster.filter((own) => own === at).length));
    // slightly less than the distance between two samples of a cluster
    const apart = ((anchors.room * height) / (2 * reach + 0.2)) * Math.sqrt(Math.PI / largest);
    const size = Math.max(3, Math.min(7, 0.8 * apart));
    const data = [...groups.entries()].sort(([a], [b]) => a - b).map(([at, members]) => ({
      x: members.map((point) => chart.x[point]),
      y: members.map((point) => chart.y[point]),
      mode: "markers", hoverinfo: "text",
      text: members.map((p) => `${sampleName(p)}<br>class ${chart.classes[chart.class[p]]}<br>${named[chart.cluster[p]]}`),
      marker: { color: look.marks[markOf(at) % 10], symbol: symbols[markOf(at) % 8], size, opacity: 0.85, line: { width: 0 } },
    }));
    const isBrief = anchors.cluster.length > 20 || width < 640;
    const annotations = anchors.cluster.map((at, k) => ({
      x: reach * anchors.x[k], y: reach * anchors.y[k],
      xanchor: anchors.x[k] > 0.3 ? "left" : anchors.x[k] < -0.3 ? "right" : "center",
      text: isBrief ? String(chart.clusters[at]) : named[at], showarrow: false,
      font: { color: look.muted, size: anchors.cluster.length > 20 ? 10 : 12 },
    }));
    const axis = { visible: false, fixedrange: isTouch, range: [-reach - 0.1, reach + 0.1] };
    return {
      data,
      layout: layout(look, {
        width, height, margin: { l: 0, r: 0, t: 0, b: 0 }, annotations,
        dragmode: isTouch ? false : "zoom",
        xaxis: axis,
        yaxis: { ...axis, scaleanchor: "x" },
      }),
    };
  }

  const kinds = { spread, time, convergence };
  const config = { displayModeBar: false, responsive: false, doubleClick: "reset", showTips: false };

  function figure(node, width) {
    const look = theme();
    const [, id, by] = node.id.match(/^(map-\d+)-(\w+)$/) || [];
    if (id) return map(charts[id], look, width, by);
    return kinds[charts[node.id].kind](charts[node.id], look, width);
  }

  function draw(node, width = node.clientWidth) {
    if (!width) return undefined;
    const { data, layout: form } = figure(node, width);
    return Plotly.react(node, data, form, config);
  }

  const nodes = [...document.querySelectorAll(".plot")];
  const widths = new Map();

  // yield between figures to keep the page responsive
  async function drawAll() {
    for (const node of nodes) {
      widths.set(node, node.clientWidth);
      await draw(node);
      await new Promise((done) => setTimeout(done));
    }
    root.dataset.drawn = "true";
    const observer = new ResizeObserver((entries) => {
      if (root.classList.contains("printing")) return;
      for (const { target } of entries) {
        if (widths.get(target) === target.clientWidth) continue;
        widths.set(target, target.clientWidth);
        draw(target);
      }
    });
    nodes.forEach((node) => observer.observe(node));
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => nodes.forEach((node) => draw(node)));
  addEventListener("beforeprint", () => {
    root.classList.add("printing");
    nodes.forEach((node) => draw(node, printWidth));
  });
  addEventListener("afterprint", () => {
    root.classList.remove("printing");
    nodes.forEach((node) => draw(node));
  });

  drawAll();
})();
