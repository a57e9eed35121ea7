// What the pages do beyond links and forms: follow the cluster, arrow keys in the grid, the chart,
// and light or dark. Everything else works without it.
"use strict";
(() => {
  const body = document.body;
  const root = document.documentElement;
  const live = document.getElementById("live");
  let following = true;
  let missed = false;

  // --- light or dark ------------------------------------------------------------------------
  const themes = ["auto", "light", "dark"];
  const remembered = () => {
    try { return localStorage.getItem("theme") || "auto"; } catch { return "auto"; }
  };
  const show = (theme) => { root.dataset.theme = theme; };
  show(remembered());
  document.getElementById("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = root.dataset.theme === "auto" ? (dark ? "dark" : "light") : root.dataset.theme;
    const next = now === "dark" ? "light" : "dark";
    show(themes.includes(next) ? next : "auto");
    try { localStorage.setItem("theme", next); } catch { /* a browser that keeps nothing */ }
    draw();
  });

  // --- following the cluster ----------------------------------------------------------------
  const refresh = () => {
    if (!following || document.hidden) { missed = true; return; }
    missed = false;
    body.dispatchEvent(new CustomEvent("cluster-changed"));
    draw();
  };
  if (!live.hidden) {
    // What changes between this page and the stream is told too.
    const events = new EventSource(`live?since=${body.dataset.version || ""}`);
    events.addEventListener("changed", refresh);
    events.addEventListener("open", () => live.classList.remove("broken"));
    events.addEventListener("error", () => live.classList.add("broken"));
    addEventListener("pagehide", () => events.close());
    document.addEventListener("visibilitychange", () => { if (missed) refresh(); });
    live.addEventListener("click", () => {
      following = !following;
      live.setAttribute("aria-pressed", String(following));
      if (following && missed) refresh();
    });
  }

  // --- keys ---------------------------------------------------------------------------------
  const writing = (element) => /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName);
  const below = (cells, at, step) => {
    const from = cells[at].getBoundingClientRect();
    for (let n = at + step; n >= 0 && n < cells.length; n += step) {
      const to = cells[n].getBoundingClientRect();
      if ((to.top - from.top) * step > 2 && Math.abs(to.left - from.left) < from.width) return n;
    }
    return at;
  };
  document.addEventListener("keydown", (event) => {
    const on = event.target;
    if (event.key === "/" && !writing(on) && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      document.getElementById("q").focus();
      return;
    }
    const group = on.closest && on.closest(".cells");
    if (!group) return;
    const cells = [...group.querySelectorAll(".cell")];
    const at = cells.indexOf(on);
    const to = {
      ArrowRight: () => Math.min(at + 1, cells.length - 1),
      ArrowLeft: () => Math.max(at - 1, 0),
      ArrowDown: () => below(cells, at, 1),
      ArrowUp: () => below(cells, at, -1),
      Home: () => 0,
      End: () => cells.length - 1,
    }[event.key];
    if (!to || at < 0) return;
    event.preventDefault();
    cells[at].tabIndex = -1;
    const next = cells[to()];
    next.tabIndex = 0;
    next.focus();
  });

  // --- the chart ----------------------------------------------------------------------------
  let chart = null;
  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  async function draw() {
    const place = document.getElementById("chart");
    if (!place) return;
    const answer = await fetch("samples");
    if (!answer.ok) return;
    const columns = await answer.json();
    if (chart) chart.destroy();
    place.replaceChildren();
    const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
    const line = (label, name) => ({ label, stroke: color(name), width: 2, points: { show: columns[0].length < 2 } });
    chart = new uPlot({
      width: Math.max(place.clientWidth, 200), height: 170,
      axes: [axis, { ...axis, size: 62 }],
      series: [{}, line("run", "--blue"), line("wait", "--amber")],
      scales: { y: { range: (_, low, high) => [0, Math.max(high || 0, 1) * 1.1] } },
      cursor: { show: false }, legend: { show: true, live: false },
    }, columns, place);
  }
  addEventListener("resize", draw);
  draw();
})();
