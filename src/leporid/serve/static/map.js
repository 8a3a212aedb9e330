"use strict";
/* The embedding map: points drawn in batches of one colour, a grid to find what is under the pointer. */
class ItemMap {
  constructor(canvas, tip, onPick) {
    Object.assign(this, { canvas, tip, onPick, data: null, groups: [], history: [], recommended: [], names: [], only: new Set() });
    this.view = { x: 0, y: 0, scale: 1 };
    this.hover = -1;
    this.frames = 0;
    this.pointers = new Map();
    new ResizeObserver(() => this.resize()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    canvas.addEventListener("wheel", (e) => { e.preventDefault(); this.zoom(Math.exp(-e.deltaY / 400), e.offsetX, e.offsetY); }, { passive: false });
    canvas.addEventListener("pointerdown", (e) => this.down(e));
    canvas.addEventListener("pointermove", (e) => this.move(e));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (e) => this.up(e));
    canvas.addEventListener("pointerleave", () => this.setHover(-1));
    canvas.addEventListener("keydown", (e) => this.key(e));
  }
  static COLOURS = 13;
  setData(data) { this.data = data; this.buildGrid(); this.placeNames(); this.all(); }
  toggle(group) {
    /* Show only the chosen groups, or all where none is chosen; returns whether this one is. */
    const chosen = !this.only.delete(group);
    if (chosen) this.only.add(group);
    this.setHover(-1);
    this.draw();
    return chosen;
  }
  hidden(i) { return this.only.size > 0 && !this.only.has(this.groups[i]); }
  placeNames() {
    /* A cluster's name stands at its member nearest to the median, the largest cluster first. */
    const { x, y, cluster = [], clusters = [] } = this.data;
    const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
    this.names = clusters.map((name, c) => {
      const members = cluster.flatMap((other, i) => (other === c ? [i] : []));
      const mx = median(members.map((i) => x[i])), my = median(members.map((i) => y[i]));
      const far = (i) => (x[i] - mx) ** 2 + (y[i] - my) ** 2;
      return { name, c, size: members.length, at: members.reduce((a, b) => (far(b) < far(a) ? b : a), members[0]) };
    }).filter(({ size }) => size).sort((a, b) => b.size - a.size);
  }
  setGroups(groups) { this.groups = groups; this.only.clear(); this.byGroup = new Map(); groups.forEach((g, i) => { if (!this.byGroup.has(g)) this.byGroup.set(g, []); this.byGroup.get(g).push(i); }); this.draw(); }
  setMarks(history, recommended) { this.history = history; this.recommended = recommended; this.draw(); }
  buildGrid() {
    this.cells = new Map();
    this.data.x.forEach((x, i) => {
      const key = this.cell(x, this.data.y[i]);
      if (!this.cells.has(key)) this.cells.set(key, []);
      this.cells.get(key).push(i);
    });
  }
  cell(x, y) { return Math.floor((x + 1) * 50) * 1000 + Math.floor((y + 1) * 50); }
  resize() {
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(this.canvas.clientWidth * ratio);
    this.canvas.height = Math.round(this.canvas.clientHeight * ratio);
    this.draw();
  }
  wide() { return this.canvas.clientWidth * 0.47 * this.view.scale; }
  tall() { return this.canvas.clientHeight * 0.47 * this.view.scale; }
  screen(i) {
    return [this.canvas.clientWidth / 2 + (this.data.x[i] - this.view.x) * this.wide(),
            this.canvas.clientHeight / 2 - (this.data.y[i] - this.view.y) * this.tall()];
  }
  world(sx, sy) {
    return [this.view.x + (sx - this.canvas.clientWidth / 2) / this.wide(),
            this.view.y - (sy - this.canvas.clientHeight / 2) / this.tall()];
  }
  zoom(factor, sx = this.canvas.clientWidth / 2, sy = this.canvas.clientHeight / 2) {
    const [x, y] = this.world(sx, sy);
    this.view.scale = Math.min(80, Math.max(0.6, this.view.scale * factor));
    const [nx, ny] = this.world(sx, sy);
    this.view.x += x - nx; this.view.y += y - ny;
    this.draw();
  }
  all() { this.view = { x: 0, y: 0, scale: 1 }; this.draw(); }
  pan(dx, dy) { this.view.x -= dx / this.wide(); this.view.y += dy / this.tall(); this.draw(); }
  key(e) {
    const step = 40, moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (moves[e.key]) this.pan(...moves[e.key]);
    else if (e.key === "+" || e.key === "=") this.zoom(1.4);
    else if (e.key === "-") this.zoom(1 / 1.4);
    else if (e.key === "0") this.all();
    else return;
    e.preventDefault();
  }
  down(e) {
    this.canvas.setPointerCapture(e.pointerId);
    this.pointers.set(e.pointerId, [e.offsetX, e.offsetY]);
    this.travelled = 0;
  }
  move(e) {
    const before = this.pointers.get(e.pointerId);
    if (!before) { this.setHover(this.at(e.offsetX, e.offsetY)); return; }
    const dx = e.offsetX - before[0], dy = e.offsetY - before[1];
    this.travelled += Math.abs(dx) + Math.abs(dy);
    if (this.pointers.size === 2) {
      const other = [...this.pointers].find(([id]) => id !== e.pointerId)[1];
      const spread = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
      this.zoom(spread([e.offsetX, e.offsetY]) / spread(before), other[0], other[1]);
    } else if (this.travelled > 4) this.pan(dx, dy);
    this.pointers.set(e.pointerId, [e.offsetX, e.offsetY]);
  }
  up(e) {
    const held = this.pointers.delete(e.pointerId);
    if (held && e.type === "pointerup" && this.travelled <= 4) {
      const i = this.at(e.offsetX, e.offsetY);
      this.setHover(i);
      if (i >= 0) this.onPick(i);
    }
  }
  at(sx, sy) {
    /* The nearest point within 9 pixels. */
    if (!this.data) return -1;
    const [x, y] = this.world(sx, sy), rx = 9 / this.wide(), ry = 9 / this.tall();
    let best = -1, nearest = 81;
    for (let cx = Math.floor((x - rx + 1) * 50); cx <= Math.floor((x + rx + 1) * 50); cx++)
      for (let cy = Math.floor((y - ry + 1) * 50); cy <= Math.floor((y + ry + 1) * 50); cy++)
        for (const i of this.cells.get(cx * 1000 + cy) || []) {
          if (this.hidden(i)) continue;
          const [px, py] = this.screen(i), d = (px - sx) ** 2 + (py - sy) ** 2;
          if (d < nearest) { nearest = d; best = i; }
        }
    return best;
  }
  setHover(i) {
    if (i === this.hover) return;
    this.hover = i;
    this.tip.hidden = i < 0;
    if (i >= 0) {
      const [x, y] = this.screen(i);
      this.tip.textContent = this.data.titles[i];
      this.tip.style.left = `${Math.max(0, Math.min(x + 12, this.canvas.clientWidth - this.tip.offsetWidth - 4))}px`;
      this.tip.style.top = `${Math.max(0, y - 34)}px`;
    }
    this.draw();
  }
  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.paint(); });
  }
  paint() {
    if (!this.data || !this.byGroup) return;
    const c = this.canvas.getContext("2d"), ratio = devicePixelRatio || 1;
    const w = this.canvas.clientWidth, h = this.canvas.clientHeight, style = getComputedStyle(document.documentElement);
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, w, h);
    /* Few points may be large; ten thousand must leave each other room. */
    const base = Math.min(6, Math.max(2.2, 150 / Math.sqrt(this.data.x.length)));
    const side = Math.min(9, base + Math.sqrt(this.view.scale) - 0.5), half = side / 2;
    const ax = this.wide(), ay = this.tall(), bx = w / 2 - this.view.x * ax, by = h / 2 + this.view.y * ay;
    for (const [group, members] of this.byGroup) {
      if (this.only.size && !this.only.has(group)) continue;
      c.fillStyle = style.getPropertyValue(`--group-${Math.max(group, 0) % ItemMap.COLOURS}`);
      for (const i of members) {
        const x = bx + this.data.x[i] * ax, y = by - this.data.y[i] * ay;
        if (x > -9 && y > -9 && x < w + 9 && y < h + 9) c.fillRect(x - half, y - half, side, side);
      }
    }
    const text = style.getPropertyValue("--text"), accent = style.getPropertyValue("--accent");
    const ring = (i, radius, fill, stroke) => {
      const [x, y] = this.screen(i);
      c.beginPath(); c.arc(x, y, radius, 0, 7);
      if (fill) { c.fillStyle = fill; c.fill(); }
      c.lineWidth = 2; c.strokeStyle = stroke; c.stroke();
    };
    for (const i of this.recommended) ring(i, 5.5, accent, text);
    for (const i of this.history) ring(i, 8, null, text);
    if (this.hover >= 0) ring(this.hover, 6, null, accent);
    this.paintNames(c, text, style.getPropertyValue("--card"));
    this.frames++;
  }
  paintNames(c, text, card) {
    const taken = [];
    c.font = "600 13px system-ui, sans-serif";
    c.textAlign = "center"; c.textBaseline = "middle"; c.lineJoin = "round"; c.lineWidth = 4;
    for (const { name, c: cluster, at } of this.names) {
      if (this.groups === this.data.cluster && this.only.size && !this.only.has(cluster)) continue;
      const [x, y] = this.screen(at), half = c.measureText(name).width / 2 + 3;
      const left = Math.min(Math.max(x, half), this.canvas.clientWidth - half);
      if (Math.abs(left - x) > half || taken.some((t) => Math.abs(t.x - left) < t.half + half && Math.abs(t.y - y) < 18)) continue;
      taken.push({ x: left, y, half });
      c.strokeStyle = card; c.strokeText(name, left, y);
      c.fillStyle = text; c.fillText(name, left, y);
    }
  }
}
