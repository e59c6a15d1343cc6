// The picture on the screen. Boxes are drawn on a canvas that is larger than the view: while the view moves, the browser
// shifts and stretches it, and the next one is drawn lane by lane, for some milliseconds of each frame. Axis and marks
// lie on a second canvas, which is drawn in each frame.

import { freeAt, freeLine, pieceAt, sumFree } from './boxes.js';
import { drawAxis, laneSteps } from './draw.js';
import { drawOverlay, piece } from './overlay.js';
import { h } from './dom.js';
import { CanvasPen } from './pens.js';
import { readPalette } from './palette.js';
import { nowSeconds } from './time.js';

export const AXIS = 48;
// Lanes of one site stand closer together than those of two.
const GAP = 6, SITE_GAP = 14;
// The view rests if it has not moved for this many milliseconds. Then the exact picture is drawn.
const REST = 50;
// Milliseconds of a frame for drawing boxes: while the view moves half a frame, so that slow machines keep up.
const BUDGET = 7, BUDGET_AT_REST = 50;
// How far a picture reaches beyond the edges of the view: as a share of its width, and in pixels of height.
const BESIDE = 0.5, BELOW = 120;
// A picture that is stretched or shrunk further than this is replaced while the view still moves.
const MOST_STRETCH = 2, LEAST_STRETCH = 0.62;
// No service shows more than a year by default.
export const SHORTEST = 300, LONGEST = 366 * 86400;

// Sums of times are rounded, so the length of a view changes a little when it moves.
const isOne = (stretch) => Math.abs(stretch - 1) < 1e-6;

// Height grows with the square root of capacity. Other kinds than processors have units that do not compare.
export function laneHeight(lane) {
  const root = 6.5 * Math.sqrt(lane.capacity);
  return lane.kind && lane.kind !== 'processors' ? Math.min(52, Math.max(42, root)) : Math.min(152, Math.max(48, root));
}

export class Chart {
  constructor({ onView }) {
    this.picture = h('canvas');
    this.window = h('div.window', { 'aria-hidden': 'true' }, this.picture);
    this.top = h('canvas.marks', { id: 'timeline-canvas', role: 'img', tabindex: '0', 'aria-label': 'Timeline', 'aria-describedby': 'timeline-summary' });
    this.element = h('div.plot', null, h('div.sheet', null, this.window, this.top));
    Object.assign(this, {
      lanes: [], rows: [], from: 0, until: 1, width: 0, height: 0, scroll: 0, ratio: 1,
      // The picture that is shown, and the one that is being drawn.
      shown: null, next: null, isCurrent: false, movedAt: 0, onView, pending: false, marks: null, palette: readPalette(), me: null,
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
    this.top.width = Math.round(width * ratio);
    this.top.height = Math.round(height * ratio);
    Object.assign(this.top.style, { width: `${width}px`, height: `${height}px` });
    Object.assign(this.window.style, { top: `${AXIS}px`, width: `${width}px`, height: `${Math.max(0, height - AXIS)}px` });
    this.pen = new CanvasPen(this.top.getContext('2d'), ratio);
    this.layout();
  }

  setTheme() {
    this.palette = readPalette();
    this.changed();
  }

  // Data or geometry has changed. The old picture stays until the new one is drawn.
  changed() {
    this.next = null;
    this.isCurrent = false;
    this.paint();
  }

  setView(from, until, byUser = true) {
    const span = Math.min(LONGEST, Math.max(SHORTEST, until - from));
    const middle = (from + until) / 2;
    this.from = middle - span / 2;
    this.until = middle + span / 2;
    this.movedAt = performance.now();
    this.paint();
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

  // The view, or a larger part of the chart: seconds, pixels, and the upper and lower edge in pixels of the content.
  view(from = this.from, until = this.until, width = this.width, top = this.scroll, bottom = top + this.height) {
    const rows = this.rows.map((row) => ({ lane: row.lane, top: row.y - top, height: row.height }));
    let free = null;
    if (this.freeRow) {
      const most = this.summed.reduce((sum, lane) => sum + lane.capacity, 0);
      free = { top: this.freeRow.y - top, height: this.freeRow.height, most, line: () => freeLine(this.freeSteps, from, until, width) };
    }
    return {
      from, until, width, axis: AXIS, bottom: bottom - top, rows, free, palette: this.palette, now: nowSeconds(),
      me: this.me, heldIds: this.heldIds,
    };
  }

  // At most one drawing in each frame.
  paint() {
    if (this.pending || !this.width) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
    });
  }

  draw() {
    if (!this.pen) return;
    this.drawBoxes();
    this.shift();
    const view = this.view();
    const { context } = this.pen;
    context.clearRect(0, 0, this.width, this.height);
    drawAxis(this.pen, view);
    if (this.marks) drawOverlay(this.pen, view, this.marks());
  }

  drawBoxes() {
    const rested = performance.now() - this.movedAt - REST;
    if (rested < 0) {
      this.restTimer ||= setTimeout(() => {
        this.restTimer = 0;
        this.paint();
      }, 1 - rested);
    }
    // The first picture is drawn at once: there is nothing else to show.
    const stop = performance.now() + (!this.shown ? Infinity : rested < 0 ? BUDGET : BUDGET_AT_REST);
    if (!this.next && this.needsPicture(rested >= 0)) this.next = this.beginPicture();
    if (!this.next) return;
    const { steps, ...picture } = this.next;
    let isDone = false;
    do isDone = steps.next().done; while (!isDone && performance.now() < stop);
    if (isDone) this.show(picture);
    // Another one may be needed by now.
    if (!isDone || this.needsPicture(rested >= 0)) this.paint();
  }

  needsPicture(isResting) {
    const { shown, from, until, scroll, width } = this;
    if (!shown || !this.isCurrent) return true;
    const span = until - from, stretch = shown.span / span;
    if (isResting && (!isOne(stretch) || shown.viewFrom !== from)) return true;
    // Soon enough, so that the next one is ready when the view leaves this one. A zoom is limited by the stretch.
    const near = !isResting && isOne(stretch) ? (span * BESIDE) / 2 : 0;
    return stretch > MOST_STRETCH || stretch < LEAST_STRETCH || from - near < shown.from || until + near > shown.until
      || scroll < shown.top || Math.min(this.content, scroll + this.height) > shown.top + shown.height || shown.width !== width;
  }

  beginPicture() {
    const { from, until, ratio, width, scroll } = this;
    const span = until - from;
    // Whole pixels, so that boxes are as sharp as in a picture without margins.
    const beside = Math.round(width * BESIDE), wide = width + 2 * beside;
    const top = Math.max(0, Math.round(scroll) - BELOW);
    const height = Math.max(1, Math.ceil(Math.min(this.content, scroll + this.height + BELOW)) - top);
    const margin = (span * beside) / width;
    const canvas = new OffscreenCanvas(Math.round(wide * ratio), Math.round(height * ratio));
    const view = { ...this.view(from - margin, until + margin, wide, top, top + height), axis: 0, edge: beside };
    this.isCurrent = true;
    const steps = laneSteps(new CanvasPen(canvas.getContext('2d'), ratio), view);
    return { canvas, steps, from: view.from, until: view.until, viewFrom: from, span, top, height, width, wide };
  }

  // An image is handed to the browser once; a canvas with a drawing context would be copied in each frame.
  show({ canvas, ...picture }) {
    this.next = null;
    this.shown = picture;
    this.picture.getContext('bitmaprenderer').transferFromImageBitmap(canvas.transferToImageBitmap());
    Object.assign(this.picture.style, { width: `${picture.wide}px`, height: `${picture.height}px` });
  }

  // Puts the picture where its times and rows belong.
  shift() {
    const { from, until, scroll, width, shown } = this;
    const scale = width / (until - from);
    const x = (shown.from - from) * scale, y = shown.top - scroll - AXIS;
    const stretch = shown.span / (until - from) * (shown.width === width ? 1 : width / shown.width);
    // A fraction of a pixel would blur it.
    const left = isOne(stretch) ? Math.round(x * this.ratio) / this.ratio : x;
    this.picture.style.transform = `translate(${left}px, ${y}px) scale(${isOne(stretch) ? 1 : stretch}, 1)`;
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
