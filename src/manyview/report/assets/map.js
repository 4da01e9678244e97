(() => {
  "use strict";

  const chart = JSON.parse(document.getElementById("data").textContent);
  const count = chart.sample.length;
  const near = 14; // pixels

  function text(at) {
    const lines = [`sample ${chart.sample[at]}`, `cluster ${chart.cluster[at]}`];
    if (chart.confidence) lines[1] += `, confidence ${chart.confidence[at].toFixed(2)}`;
    if (chart.runner) lines.push(`runner-up: cluster ${chart.runner[at]}`);
    if (chart.class) lines.push(`class ${chart.class[at]}`);
    return lines.join("\n");
  }

  // points are in the order of their clusters
  function step(at, key) {
    const here = chart.cluster[at];
    const steps = {
      ArrowRight: () => Math.min(at + 1, count - 1),
      ArrowLeft: () => Math.max(at - 1, 0),
      ArrowDown: () => {
        const next = chart.cluster.findIndex((cluster, other) => other > at && cluster !== here);
        return next < 0 ? at : next;
      },
      ArrowUp: () => {
        const first = chart.cluster.indexOf(here);
        return first > 0 ? chart.cluster.indexOf(chart.cluster[first - 1]) : 0;
      },
      Home: () => 0,
      End: () => count - 1,
    };
    if (!(key in steps)) return null;
    return at < 0 ? 0 : steps[key]();
  }

  for (const frame of document.querySelectorAll(".map")) {
    const svg = frame.querySelector("svg");
    const tip = frame.querySelector("output");
    const ring = svg.querySelector(".ring");
    const points = [...svg.querySelectorAll("use")].map((use) => [use.x.baseVal.value, use.y.baseVal.value]);
    let shown = -1;

    function show(at) {
      if (at === shown) return;
      shown = at;
      tip.hidden = ring.style.display = "";
      if (at < 0) {
        tip.hidden = true;
        ring.style.display = "none";
        return;
      }
      const [x, y] = points[at];
      ring.setAttribute("cx", x);
      ring.setAttribute("cy", y);
      ring.style.display = "inline";
      tip.textContent = text(at);
      const place = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
      const box = frame.getBoundingClientRect();
      const left = place.x - box.left + 12;
      tip.style.left = `${Math.max(0, Math.min(left, box.width - tip.offsetWidth))}px`;
      const above = place.y - box.top - tip.offsetHeight - 10;
      tip.style.top = `${above > 0 ? above : place.y - box.top + 12}px`;
    }

    function nearest(event) {
      const inverse = svg.getScreenCTM().inverse();
      const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(inverse);
      let best = -1;
      let least = (near * inverse.a) ** 2;
      points.forEach(([px, py], at) => {
        const distance = (px - x) ** 2 + (py - y) ** 2;
        if (distance < least) [best, least] = [at, distance];
      });
      return best;
    }

    frame.addEventListener("pointermove", (event) => show(nearest(event)));
    frame.addEventListener("pointerdown", (event) => show(nearest(event)));
    frame.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && show(-1));
    frame.addEventListener("blur", () => show(-1));
    frame.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return show(-1);
      const next = step(shown, event.key);
      if (next === null) return undefined;
      event.preventDefault();
      return show(next);
    });
  }
  document.documentElement.dataset.drawn = "true";
})();
