"use strict";
// Draws the one timeline: lanes (phases, faults, canaries) above curves, cursors linked. Data is plain JSON in the page;
// every text in it was made harmless before, and is only ever drawn on a canvas or set as text.
(() => {
  const data = JSON.parse(document.getElementById("timeline-data").textContent);
  const AXIS_PX = 58, LANE_PX = 24, PLOT_PX = 150, BRIDGED = 2;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const pad = (number, digits) => String(number).padStart(digits, "0");

  function clock(s) {
    if (s == null) return "–";
    const tenths = Math.round(s * 10), h = Math.floor(tenths / 36000), m = Math.floor(tenths / 600) % 60;
    const rest = pad(Math.floor(tenths / 10) % 60, 2) + (tenths % 10 ? "." + (tenths % 10) : "");
    return h ? h + ":" + pad(m, 2) + ":" + rest : m + ":" + rest;
  }
  const figure = (v) => (Math.abs(v) >= 1000 ? Math.round(v).toLocaleString("en") : String(Number(v.toPrecision(3))));
  const units = {
    "s": (v) => (v === 0 ? "0" : v < 1 ? figure(v * 1e3) + " ms" : figure(v) + " s"),
    "share": (v) => figure(v * 100) + " %",
    "bytes": (v) => (v === 0 ? "0" : v >= 2 ** 30 ? figure(v / 2 ** 30) + " GiB" : v >= 2 ** 20 ? figure(v / 2 ** 20) + " MiB" : figure(v / 2 ** 10) + " KiB"),
  };
  const shown = (unit) => (v) => (v == null ? "–" : (units[unit] || ((x) => figure(x)))(v));

  // A sample that came late leaves one empty place: bridge it. A longer silence stays a gap in the curve.
  function bridged(values) {
    const out = values.slice();
    for (let i = 0; i < out.length; ) {
      if (out[i] !== null) { i++; continue; }
      let end = i;
      while (end < out.length && out[end] === null) end++;
      if (end - i <= BRIDGED && i > 0 && end < out.length) out.fill(undefined, i, end);
      i = end;
    }
    return out;
  }

  const clip = (u, from, to) => {
    const a = Math.max(u.valToPos(from, "x", true), u.bbox.left);
    const b = Math.min(u.valToPos(to, "x", true), u.bbox.left + u.bbox.width);
    return b >= a ? [a, Math.max(b - a, 1)] : null;
  };

  function shade(u) {
    const ctx = u.ctx;
    ctx.save();
    ctx.fillStyle = colour("fault");
    for (const f of data.faults) {
      const at = f.first_s === null ? null : clip(u, f.first_s, f.heal_s === null ? data.end_s : f.heal_s);
      if (at) ctx.fillRect(at[0], u.bbox.top, at[1], u.bbox.height);
    }
    ctx.strokeStyle = colour("line");
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const p of data.phases) {
      const x = Math.round(u.valToPos(p.start_s, "x", true)) + 0.5;
      if (x <= u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
      ctx.beginPath(); ctx.moveTo(x, u.bbox.top); ctx.lineTo(x, u.bbox.top + u.bbox.height); ctx.stroke();
    }
    ctx.restore();
  }

  function drawLanes(u) {
    const ctx = u.ctx, r = devicePixelRatio, lane = u.bbox.height / data.lanes.length;
    const middle = (row) => u.bbox.top + lane * (row + 0.5);
    ctx.save();
    ctx.beginPath(); ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height); ctx.clip();
    ctx.font = 11 * r + "px " + colour("sans");
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    for (const p of data.phases) {
      const at = clip(u, p.start_s, p.end_s);
      if (!at) continue;
      ctx.fillStyle = colour("phase");
      ctx.fillRect(at[0] + r, middle(0) - 9 * r, Math.max(at[1] - 2 * r, r), 18 * r);
      ctx.fillStyle = colour("phase-ink");
      const label = p.n ? p.name + " " + p.n : p.name;
      if (ctx.measureText(label).width < at[1] - 10 * r) ctx.fillText(label, at[0] + 5 * r, middle(0));
    }
    for (const f of data.faults) {
      const y = middle(data.lanes.indexOf(f.fault)), at = clip(u, f.arm_s, f.heal_s === null ? data.end_s : f.heal_s);
      if (!at) continue;
      ctx.fillStyle = colour("fault-bar");
      ctx.fillRect(at[0], y - 5 * r, at[1], 10 * r);
      if (f.first_s === null) {
        ctx.fillStyle = colour("ink");
        ctx.fillText("never fired", at[0] + at[1] + 5 * r, y);
      }
      if (f.heal_s !== null) {
        const x = u.valToPos(f.heal_s, "x", true);
        ctx.fillStyle = colour("fault-tick");
        ctx.fillRect(x - r, y - 8 * r, 2 * r, 16 * r);
      }
    }
    ctx.strokeStyle = colour("fault-tick");
    ctx.lineWidth = r;
    for (const [fault, times] of data.fires_s) {
      const y = middle(data.lanes.indexOf(fault));
      ctx.beginPath();
      for (const t of times) {
        const x = u.valToPos(t, "x", true);
        ctx.moveTo(x, y - 5 * r); ctx.lineTo(x, y + 5 * r);
      }
      ctx.stroke();
    }
    if (data.canaries_s.length) {
      const y = middle(data.lanes.length - 1);
      for (const [t, state] of data.canaries_s) {
        const x = u.valToPos(t, "x", true);
        ctx.beginPath();
        if (state === "equal") { ctx.fillStyle = colour("pass"); ctx.arc(x, y, 2.6 * r, 0, 7); }
        else if (state === "corrupt") { ctx.fillStyle = colour("fail"); ctx.rect(x - 5 * r, y - 5 * r, 10 * r, 10 * r); }
        else { ctx.fillStyle = colour("unknown"); ctx.moveTo(x, y - 5 * r); ctx.lineTo(x + 4.5 * r, y + 3.5 * r); ctx.lineTo(x - 4.5 * r, y + 3.5 * r); }
        ctx.fill();
      }
    }
    ctx.restore();
  }

  const xAxis = (label) => ({
    stroke: colour("soft"), font: "11px " + colour("sans"), size: label ? 26 : 6, gap: 3, incrs: TIME_STEPS,
    grid: { stroke: colour("hair"), width: 1 }, ticks: { show: false },
    values: (u, splits) => splits.map((s) => (label ? clock(s) : "")),
  });
  const common = (height, hooks) => ({
    width: 400, height, hooks, padding: [6, 28, 0, 0],
    cursor: { sync: { key: "run", setSeries: false }, y: false, points: { size: 6 } },
  });

  function lanes(host) {
    const rows = data.lanes.length;
    return new uPlot({
      ...common(rows * LANE_PX + 34, { draw: [drawLanes] }),
      legend: { show: false },
      scales: { x: { time: false }, y: { range: [0, rows] } },
      series: [{}, { points: { show: false }, stroke: "transparent" }],
      axes: [xAxis(true), {
        stroke: colour("soft"), font: "11px " + colour("sans"), size: AXIS_PX, gap: 4, ticks: { show: false },
        grid: { stroke: colour("hair"), width: 1 }, splits: () => data.lanes.map((_, row) => rows - row - 0.5),
        values: () => data.lanes.map((name) => (name.length > 9 ? name.slice(0, 8) + "…" : name)),
      }],
    }, [[0, data.end_s], [null, null]], host);
  }

  // Shares and rates stand on zero. Memory does not: a leak of a few MiB must show beside hundreds.
  function span(unit, lo, hi) {
    if (unit === "share") return [0, Math.max(1, hi) * 1.04];
    if (unit !== "bytes") return [0, (hi || 1) * 1.04];
    const room = Math.max((hi - lo) * 0.12, 2 ** 20);
    return [Math.max(0, lo - room), hi + room];
  }
  const decades = (u, splits) => splits.map((v) => (Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6 ? v : null));
  const BYTE_STEPS = Array.from({ length: 28 }, (_, power) => 2 ** (power + 14));
  const TIME_STEPS = [0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

  function curve(host, chart, last) {
    const text = shown(chart.unit);
    return new uPlot({
      ...common(PLOT_PX + (last ? 20 : 0), { drawClear: [shade] }),
      scales: {
        x: { time: false },
        y: chart.log ? { distr: 3 } : { range: (u, lo, hi) => span(chart.unit, lo, hi) },
      },
      series: [{ label: "at", value: (u, v) => clock(v) }, ...chart.lines.map((line) => ({
        label: line.label, stroke: colour(line.key), width: line.key === "p99" || line.key === "bad" ? 1.6 : 1.3,
        value: (u, v) => text(v), points: { show: chart.x_s.length < 40, size: 4 },
      }))],
      axes: [xAxis(last), {
        stroke: colour("soft"), font: "11px " + colour("sans"), size: AXIS_PX, gap: 4, space: 28, ticks: { show: false },
        ...(chart.unit === "bytes" ? { incrs: BYTE_STEPS } : {}),
        grid: { stroke: colour("hair"), width: 1, ...(chart.log ? { filter: decades } : {}) },
        ...(chart.log ? { filter: decades } : {}),
        values: (u, splits) => splits.map((v) => (v === null ? "" : text(v))),
      }],
    }, [[0, ...chart.x_s, data.end_s], ...chart.lines.map((line) => [null, ...bridged(line.values), null])], host);
  }

  let plots = [];
  function build() {
    plots.forEach((plot) => plot.destroy());
    plots = [lanes(document.getElementById("plot-lanes"))];
    data.charts.forEach((chart, index) => plots.push(curve(document.getElementById("plot-" + chart.key), chart, index === data.charts.length - 1)));
    fit();
  }
  function fit() {
    for (const plot of plots) {
      const width = plot.root.parentElement.clientWidth;
      if (width && width !== plot.width) plot.setSize({ width, height: plot.height });
    }
  }
  build();
  new ResizeObserver(fit).observe(document.getElementById("plot-lanes"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
})();
