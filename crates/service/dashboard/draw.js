// Draws lanes, boxes, free capacity and the time axis with a pen. The view says which time lies where:
// {from, until, width, axis, bottom, rows: [{lane, top, height}], free: {top, height, line, most} | null, palette, now, me}.

import { FOREIGN, HELD, PLANNED, RESERVED, RUNNING, visible } from './boxes.js';
import { count, ticks } from './time.js';

// Rectangles of one colour, kept between frames to spare the garbage collector.
class Batch {
  constructor() {
    this.data = new Float32Array(4096);
    this.count = 0;
  }

  push(x, y, width, height) {
    const at = this.count * 4;
    if (at === this.data.length) {
      const larger = new Float32Array(at * 2);
      larger.set(this.data);
      this.data = larger;
    }
    this.data[at] = x;
    this.data[at + 1] = y;
    this.data[at + 2] = width;
    this.data[at + 3] = height;
    this.count++;
  }
}

const SHADES = ['running', 'running-2', 'running-3'];
const batches = new Map();

function batch(name) {
  if (!batches.has(name)) batches.set(name, new Batch());
  return batches.get(name);
}

// In drawing order, with the fill of each.
const ORDER = [
  ['edge', (p) => p.line], ['ground', (p) => p.lane], ['grid', (p) => p.line],
  ['density-4', (p) => p['foreign-line']], ['density-0', (p) => p.running], ['density-1', (p) => [p.planned, p['planned-line']]],
  ['density-2', (p) => p['reserved-line']], ['density-3', (p) => p['held-line']],
  ...SHADES.map((shade) => [shade, (p) => p[shade]]),
  // The frame of a broken box of any kind lies below all fills.
  ['broken', (p) => p.broken],
  ['planned-line', (p) => p['planned-line']], ['planned', (p) => p.planned],
  ['foreign-line', (p) => p['foreign-line']], ['foreign', (p) => [p.foreign, p['foreign-line']]],
  ['reserved-line', (p) => p['reserved-line']], ['reserved', (p) => p.reserved],
  ['held-line', (p) => p['held-line']], ['held', (p) => [p.held, p['held-line']]],
];
const NAMES = [null, 'planned', 'reserved', 'held', 'foreign'];
// Looked up once: the inner loop runs for every box.
const FILLS = NAMES.map((name) => name && batch(name));
const LINES = NAMES.map((name) => name && batch(`${name}-line`));
const RUNS = SHADES.map((shade) => batch(shade));
const DENSITIES = [0, 1, 2, 3, 4].map((kind) => batch(`density-${kind}`));

export const xOf = (view, at) => ((at - view.from) * view.width) / (view.until - view.from);

export function drawLanes(pen, view) {
  for (const _ of laneSteps(pen, view));
}

// One lane for each step, so that a picture of very many boxes can be drawn in several frames.
export function* laneSteps(pen, view) {
  for (const row of view.rows) {
    if (row.top > view.bottom || row.top + row.height < view.axis) continue;
    drawLane(pen, view, row);
    yield;
  }
  if (view.free) drawFree(pen, view);
}

function drawLane(pen, view, row) {
  const { palette } = view;
  for (const one of batches.values()) one.count = 0;
  batch('edge').push(0, row.top, view.width, row.height);
  batch('ground').push(0, row.top + 1, view.width, row.height - 2);
  for (const mark of ticksOf(view)) batch('grid').push(pen.snap(xOf(view, mark.at)), row.top, mark.major ? 1.5 : 1, row.height);
  const labels = [];
  collect(pen, view, row, labels);
  pen.batches(row.top, row.top + row.height, ORDER.filter(([name]) => batches.get(name)?.count)
    .map(([name, fill]) => [fill(palette), batches.get(name).data, batches.get(name).count]));
  for (const label of labels) drawLabel(pen, view, label);
}

// Labels of the axis need room; a picture that is wider than the view has the same marks as the view.
const ticksOf = (view) => (view.ticks ||= ticks(view.from, view.until, Math.max(2, view.width / (view.room || 92))));

let density = new Float32Array(0);

function collect(pen, view, row, labels) {
  const { lane } = row;
  const scale = view.width / (view.until - view.from);
  const unit = (row.height - 4) / Math.max(1, lane.capacity);
  const floor = row.top + row.height - 2;
  const columns = Math.ceil(view.width);
  const pixel = 1 / (pen.ratio || 1);
  let crowded = false;
  const [first, last] = visible(lane, view.from, view.until);
  for (let at = first; at < last; at++) {
    const begin = lane.begin[at], end = lane.end[at];
    if (end <= view.from) continue;
    const size = (end - begin) * scale;
    const kind = lane.kindAt[at];
    if (size < 1 && kind < RESERVED) {
      if (!crowded) {
        crowded = true;
        if (density.length < columns * 5) density = new Float32Array(columns * 5);
        else density.fill(0);
      }
      const column = Math.floor((begin - view.from) * scale);
      if (column >= 0 && column < columns) density[column * 5 + kind] += (lane.high[at] - lane.low[at]) * size;
      continue;
    }
    // Far outside of the view a box is cut off, because large coordinates lose precision.
    const left = pen.snap(Math.max(-4, (begin - view.from) * scale));
    const right = Math.max(left + pixel, pen.snap(Math.min(view.width + 4, (end - view.from) * scale)));
    let top = pen.snap(floor - lane.high[at] * unit);
    let bottom = pen.snap(floor - lane.low[at] * unit);
    const least = kind >= RESERVED ? 3 : pixel;
    if (bottom - top < least) {
      top = Math.max(row.top + 2, pen.snap((top + bottom - least) / 2));
      bottom = top + least;
    }
    let width = right - left, height = bottom - top;
    // A gap of one pixel keeps neighbours apart where there is room for it.
    if (width >= 3) width -= 1;
    if (height >= 4) height -= 1;
    if (kind === RUNNING) {
      RUNS[((end + lane.low[at]) % 3) | 0].push(left, top, width, height);
    } else {
      const block = lane.blocks[lane.ref[at]];
      const isBroken = block.missing > 0;
      const line = width < 3 || height < 3 ? 0 : isBroken || (view.me && block.owner === view.me && kind >= RESERVED) ? 2 : 1;
      (isBroken ? batch('broken') : LINES[kind]).push(left, top, width, height);
      if (line) FILLS[kind].push(left + line, top + line, width - 2 * line, height - 2 * line);
    }
    if (width > 36 && height > 13) labels.push({ lane, at, left, top, width, height });
  }
  if (crowded) stack(row, unit, floor, columns, (column, kind) => density[column * 5 + kind]);
  if (lane.levels) stackLevels(view, row, unit, floor, columns);
}

// Stacked columns of mean use, one column for each pixel.
function stack(row, unit, floor, columns, used) {
  for (let column = 0; column < columns; column++) {
    let height = 0;
    for (let kind = 0; kind < 5; kind++) {
      const size = used(column, kind) * unit;
      if (size <= 0) continue;
      const shown = Math.min(size, row.height - 4 - height);
      if (shown > 0) DENSITIES[kind].push(column, floor - height - shown, 1, shown);
      height += size;
    }
  }
}

function stackLevels(view, row, unit, floor, columns) {
  const { begin, step, used } = row.lane.levels;
  const each = (view.until - view.from) / view.width;
  stack(row, unit, floor, columns, (column, kind) => {
    const at = Math.floor((view.from + (column + 0.5) * each - begin) / step);
    return used[kind][at] || 0;
  });
}

const TEXT = ['text', 'soft', 'reserved-text', 'held-text', 'foreign-text'];

function drawLabel(pen, view, { lane, at, left, top, width, height }) {
  const block = lane.blocks[lane.ref[at]];
  const kind = lane.kindAt[at];
  // The name of a box that began before the view stands at the edge of the view.
  const edge = view.edge || 0;
  const shift = left + width > edge + 30 ? Math.max(0, edge - left) : Math.max(0, -left);
  const x = left + shift + 7, room = width - shift - 12;
  const fill = view.palette[TEXT[kind]];
  if (room < 24) return;
  const isBroken = block.missing > 0;
  let title = block.name || block.owner || '';
  if (kind === FOREIGN) title = block.name || (block.kind === 'maintenance' ? 'Maintenance' : '');
  // A hold shows its countdown, which the overlay draws.
  if (kind === HELD && view.heldIds?.has(block.id)) return;
  if (isBroken) title = `⚠ ${block.missing} missing ${title}`;
  if (!title) return;
  pen.text(x, top + Math.min(16, height / 2 + 4), title, { fill, size: 11.5, weight: kind >= RESERVED ? 600 : 400, room });
  if (height > 34 && kind !== PLANNED) {
    const more = [block.owner && block.owner !== title ? block.owner : '', count(block.capacity)].filter(Boolean).join(' · ');
    pen.text(x, top + 31, more, { fill, size: 11, room });
  }
}

function drawFree(pen, view) {
  const { free, palette } = view;
  const unit = (free.height - 8) / Math.max(1, free.most);
  const floor = free.top + free.height - 0.5;
  pen.frame(-1, free.top + 0.5, view.width + 2, free.height - 1, { fill: palette.lane, stroke: palette.line });
  const line = [];
  for (const [x, capacity] of free.line()) {
    const y = floor - Math.max(0, capacity) * unit;
    if (line.length) line.push([x, line[line.length - 1][1]]);
    line.push([x, y]);
  }
  if (!line.length) return;
  line.push([view.width, line[line.length - 1][1]]);
  pen.path([[line[0][0], floor], ...line, [view.width, floor]], { fill: palette.free });
  pen.path(line, { stroke: palette['free-line'], line: 1.5 });
}

export function drawAxis(pen, view) {
  const { palette } = view;
  // The line below the labels belongs to the time at the now-line.
  const y = view.axis - 33;
  let end = -Infinity;
  for (const mark of ticksOf(view)) {
    const x = xOf(view, mark.at);
    const half = mark.text.length * 3.3;
    // A label never touches the one before it, nor is it cut off at the edge.
    const middle = Math.max(half, x);
    if (middle - half < end || x + half > view.width) continue;
    end = middle + half + 10;
    pen.text(middle, y, mark.text, { fill: mark.major ? palette.text : palette.soft, size: 11.5, weight: mark.major ? 600 : 400, align: 'center' });
  }
}

// Everything as a picture for paper: names at the left, the axis, and a legend.
export function drawSheet(pen, view, { title, names, legend }) {
  const { palette } = view;
  pen.frame(0, 0, pen.width, pen.height, { fill: palette.ground });
  pen.text(16, 24, title, { fill: palette.text, size: 14, weight: 600 });
  for (const { row, head, lines } of names) {
    pen.text(16, row.top + 16 + view.offset, head, { fill: palette.text, size: 12, weight: 600 });
    lines.forEach((line, at) => pen.text(16, row.top + 32 + at * 15 + view.offset, line, { fill: palette.soft, size: 11 }));
  }
  let x = view.left;
  for (const [word, look] of legend) {
    pen.frame(x, pen.height - 24, 14, 11, { ...look, radius: 2 });
    pen.text(x + 19, pen.height - 15, word, { fill: palette.soft });
    x += 34 + word.length * 6.2;
  }
}
