// The picture on the screen: two canvases (boxes below, marks above), rows of lanes, and a cached bitmap while it moves.

import { freeAt, freeLine, pieceAt, sumFree } from './boxes.js';
import { drawAxis, drawLanes } from './draw.js';
import { drawOverlay, piece } from './overlay.js';
import { h } from './dom.js';
import { CanvasPen } from './pens.js';
import { readPalette } from './palette.js';
import { nowSeconds } from './time.js';

export const AXIS = 48;
// Lanes of one site stand closer together than those of two.
const GAP = 6, SITE_GAP = 14;
// A drawing cheaper than this many milliseconds is made anew in every frame, which is sharper than a moved bitmap.
const CHEAP = 9;
// A moved bitmap is replaced by a sharp drawing after the picture has rested for this many milliseconds.
const REST = 110;
// How far the bitmap reaches beyond each edge, as a share of the view.
const MARGIN = 0.5;
export const SHORTEST = 300, LONGEST = 400 * 86400;

// Height grows with the square root of capacity. Other kinds than processors have units that do not compare.
export function laneHeight(lane) {
  const root = 6.5 * Math.sqrt(lane.capacity);
  return lane.kind && lane.kind !== 'processors' ? Math.min(52, Math.max(42, root)) : Math.min(152, Math.max(48, root));
}

export class Chart {
  constructor({ onView }) {
    this.base = h('canvas.base', { 'aria-hidden': 'true' });
    this.top = h('canvas.marks', { id: 'timeline-canvas', role: 'img', tabindex: '0', 'aria-label': 'Timeline', 'aria-describedby': 'timeline-summary' });
    this.element = h('div.plot', null, h('div.sheet', null, this.base, this.top));
    Object.assign(this, {
      lanes: [], rows: [], free: null, from: 0, until: 1, width: 0, height: 0, scroll: 0, ratio: 1, version: 0,
      bitmap: null, cost: 0, movedAt: 0, onView, pending: false, dirty: true, marks: null, palette: readPalette(), me: null,
    });
  }

  setLanes(lanes) {
    this.lanes = lanes;
    this.layout();
  }

  layout() {
    let y = AXIS;
    const sum = this.lanes.reduce((all, lane) => all + laneHeight(lane), 56);
    const gaps = this.lanes.reduce((all, lane, at) => all + (lane.site === this.lanes[at + 1]?.site ? GAP : SITE_GAP), 0);
    const room = this.height - AXIS - 10 - gaps;
    // Lanes share spare room, up to a third more height; more would make small lanes look important.
    const stretch = Math.min(1.35, Math.max(1, room / sum));
    this.rows = this.lanes.map((lane, at) => {
      if (at) y += lane.site === this.lanes[at - 1].site ? GAP : SITE_GAP;
      const row = { lane, y, height: Math.round(laneHeight(lane) * stretch) };
      y += row.height;
      return row;
    });
    const summed = this.lanes.filter((lane) => lane.kind === 'processors' || !lane.kind);
    this.summed = summed.length ? summed : this.lanes;
    if (this.freeOf !== this.lanes) this.freeSteps = sumFree(this.summed);
    this.freeOf = this.lanes;
    this.freeRow = this.lanes.length ? { y: y + SITE_GAP, height: Math.round(56 * stretch) } : null;
    this.content = y + SITE_GAP + (this.freeRow ? this.freeRow.height + 8 : 0);
    this.element.style.height = `${Math.max(this.content, this.height)}px`;
    this.changed();
  }

  resize(width, height) {
    const ratio = Math.min(3, devicePixelRatio || 1);
    if (width === this.width && height === this.height && ratio === this.ratio) return;
    Object.assign(this, { width, height, ratio });
    for (const canvas of [this.base, this.top]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    this.pens = [this.base, this.top].map((canvas) => new CanvasPen(canvas.getContext('2d'), ratio));
    this.layout();
  }

  setTheme() {
    this.palette = readPalette();
    this.pens?.forEach((pen) => pen.hatches.clear());
    this.changed();
  }

  // Data or geometry has changed: the bitmap is useless.
  changed() {
    this.version++;
    this.refresh();
  }

  refresh() {
    this.dirty = true;
    this.paint();
  }

  setView(from, until, byUser = true) {
    const span = Math.min(LONGEST, Math.max(SHORTEST, until - from));
    const middle = (from + until) / 2;
    this.from = middle - span / 2;
    this.until = middle + span / 2;
    this.movedAt = performance.now();
    this.refresh();
    this.onView?.(byUser);
  }

  zoom(factor, x = this.width / 2) {
    const at = this.timeAt(x), span = this.until - this.from;
    const next = Math.min(LONGEST, Math.max(SHORTEST, span * factor));
    const from = at - ((at - this.from) * next) / span;
    this.setView(from, from + next);
  }

  pan(pixels) {
    const shift = (pixels * (this.until - this.from)) / this.width;
    this.setView(this.from + shift, this.until + shift);
  }

  timeAt(x) {
    return this.from + (x * (this.until - this.from)) / this.width;
  }

  view(from = this.from, until = this.until, width = this.width) {
    const rows = this.rows.map((row) => ({ lane: row.lane, top: row.y - this.scroll, height: row.height }));
    let free = null;
    if (this.freeRow) {
      const most = this.summed.reduce((sum, lane) => sum + lane.capacity, 0);
      free = { top: this.freeRow.y - this.scroll, height: this.freeRow.height, most, line: () => freeLine(this.freeSteps, from, until, width) };
    }
    return {
      from, until, width, axis: AXIS, bottom: this.height, rows, free, palette: this.palette, now: nowSeconds(),
      me: this.me, heldIds: this.heldIds,
    };
  }

  paint() {
    if (this.pending || !this.width) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
    });
  }

  draw() {
    if (!this.pens) return;
    const view = this.view();
    if (this.dirty) {
      this.dirty = false;
      this.drawBase(view);
    }
    const [, pen] = this.pens;
    this.clear(pen);
    if (this.marks) drawOverlay(pen, view, this.marks());
    this.frames = (this.frames || 0) + 1;
  }

  clear({ context }) {
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
  }

  drawBase(view) {
    const [pen] = this.pens;
    const isMoving = performance.now() - this.movedAt < REST;
    this.clear(pen);
    if (this.cost < CHEAP || !isMoving) {
      const begun = performance.now();
      pen.clip(0, AXIS, this.width, this.height - AXIS, () => drawLanes(pen, view));
      this.cost = performance.now() - begun;
      this.bitmap = null;
    } else {
      this.blit(pen, view);
      // One sharp drawing as soon as the picture rests.
      clearTimeout(this.sharpen);
      this.sharpen = setTimeout(() => this.refresh(), REST + 10);
    }
    drawAxis(pen, view);
  }

  blit(pen, view) {
    const { bitmap } = this;
    const span = view.until - view.from;
    const fits = bitmap && bitmap.version === this.version && bitmap.scroll === this.scroll
      && bitmap.from <= view.from && bitmap.until >= view.until && bitmap.span / span < 2.2;
    // A zoom leaves the bitmap soon. Until the next one its edges stay blank, which is better than a late frame.
    const age = bitmap ? performance.now() - bitmap.made : Infinity;
    if (!bitmap || bitmap.version !== this.version || (!fits && age > Math.max(150, this.cost * 5))) this.makeBitmap(view);
    const { canvas, from, until } = this.bitmap;
    const scale = canvas.width / (until - from);
    const y = Math.round(AXIS * this.ratio), height = canvas.height - y;
    pen.context.setTransform(1, 0, 0, 1, 0, 0);
    pen.context.imageSmoothingEnabled = false;
    pen.context.drawImage(canvas, (view.from - from) * scale, y, span * scale, height, 0, y, this.base.width, height);
    pen.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
  }

  // Zooming out leaves the bitmap quickly, so it is made larger than the view at half the detail in time.
  makeBitmap(view) {
    const span = view.until - view.from;
    const isZoomingOut = this.bitmap && span > this.bitmap.span * 1.02;
    const margin = isZoomingOut ? span * 1 : span * MARGIN;
    const from = view.from - margin, until = view.until + margin;
    const width = Math.round(this.width * (1 + 2 * MARGIN));
    const canvas = this.bitmap?.canvas || document.createElement('canvas');
    canvas.width = Math.round(width * this.ratio);
    canvas.height = this.base.height;
    const pen = new CanvasPen(canvas.getContext('2d'), this.ratio);
    pen.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const begun = performance.now();
    drawLanes(pen, this.view(from, until, width));
    this.cost = performance.now() - begun;
    this.bitmap = { canvas, from, until, span, scroll: this.scroll, version: this.version, made: performance.now() };
  }

  // What lies at a point: {row, piece?, at, free}.
  hit(x, y) {
    const row = this.rows.find((one) => y >= one.y - this.scroll && y < one.y - this.scroll + one.height);
    if (!row || y < AXIS) return null;
    const { lane } = row;
    const at = this.timeAt(x);
    const perPixel = lane.capacity / (row.height - 4);
    const capacity = (row.y - this.scroll + row.height - 2 - y) * perPixel;
    const slack = (3 * (this.until - this.from)) / this.width;
    const index = pieceAt(lane, at, capacity, slack, 3 * perPixel);
    return { row, lane, at, free: freeAt(lane, at), piece: index < 0 ? null : piece(lane, index) };
  }
}
