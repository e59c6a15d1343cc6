// Draws what lies above the boxes and changes often: now, selection, offers, delayed jobs, blockers, countdowns.

import { RESERVED } from './boxes.js';
import { xOf } from './draw.js';
import { state } from './state.js';
import { countdown, hourMinute, length, plural, seconds } from './time.js';

export function drawOverlay(pen, view, marks) {
  pen.clip(0, view.axis, view.width, view.bottom - view.axis, () => {
    drawPast(pen, view);
    drawLinks(pen, view, marks);
    drawCountdowns(pen, view, marks);
    for (const blocker of marks.blockers) drawBlocker(pen, view, blocker);
    const isStrong = (offer) => offer.key === marks.chosenKey || offer.key === marks.hoveredKey;
    for (const offer of marks.offers) if (!isStrong(offer)) drawOffer(pen, view, offer, marks);
    for (const offer of marks.offers) if (isStrong(offer)) drawOffer(pen, view, offer, marks);
    // One label is enough to read the arrows: the longest delay. It is drawn last, above the other arrows.
    const longest = Math.max(...marks.moves.map((move) => move.delay));
    const labelled = marks.moves.find((move) => move.delay === longest);
    for (const move of marks.moves) if (move !== labelled) drawMove(pen, view, move, false);
    if (labelled) drawMove(pen, view, labelled, true);
    for (const [piece, look] of [[marks.hovered, 'soft'], [marks.selected, 'accent'], [marks.focused, 'accent']]) {
      if (piece) outline(pen, view, piece, view.palette[look], piece === marks.hovered ? 1.5 : 2.5);
    }
  });
  drawNow(pen, view);
}

// The past fades; a thin veil is cheaper than a second set of colours.
function drawPast(pen, view) {
  const x = xOf(view, view.now);
  const last = view.free || view.rows[view.rows.length - 1];
  if (x <= 0 || !last) return;
  pen.frame(0, view.axis, Math.min(x, view.width), last.top + last.height - view.axis, { fill: view.palette.ground, alpha: 0.45 });
}

function drawNow(pen, view) {
  const x = Math.round(xOf(view, view.now)) + 0.5;
  if (x < 0 || x > view.width) return;
  const last = view.free || view.rows[view.rows.length - 1];
  const bottom = last ? Math.min(view.bottom, last.top + last.height) : view.bottom;
  pen.path([[x, view.axis - 6], [x, bottom]], { stroke: view.palette.now, line: 1.5 });
  const half = 22, middle = Math.max(half, Math.min(view.width - half, x));
  pen.frame(middle - half, view.axis - 25, half * 2, 18, { fill: view.palette.now, radius: 9 });
  pen.text(middle, view.axis - 12, hourMinute(view.now), { fill: '#fff', size: 11, weight: 700, align: 'center' });
}

// The rectangle of a piece on the screen, or null if it lies outside of the view.
export function place(view, row, piece) {
  const { lane } = row;
  const unit = (row.height - 4) / Math.max(1, lane.capacity);
  const floor = row.top + row.height - 2;
  const left = Math.max(-8, xOf(view, piece.begin)), right = Math.min(view.width + 8, xOf(view, piece.end));
  if (right < 0 || left > view.width) return null;
  const top = floor - piece.high * unit, bottom = floor - piece.low * unit;
  const low = Math.max(3, bottom - top);
  return { x: left, y: Math.max(row.top + 2, (top + bottom) / 2 - low / 2), width: Math.max(3, right - left), height: low };
}

export function piece(lane, at) {
  return { lane: lane.name, begin: lane.begin[at], end: lane.end[at], low: lane.low[at], high: lane.high[at], at };
}

const rowOf = (view, name) => view.rows.find((row) => row.lane.name === name);

// Outlines the piece, and all other strips and parts of the same booking.
function outline(pen, view, one, stroke, line) {
  for (const [row, other] of family(view, one)) {
    const box = place(view, row, other);
    if (box) pen.frame(box.x - 1.5, box.y - 1.5, box.width + 2, box.height + 2, { stroke, line, radius: 3 });
  }
}

// Searched once for each piece: there may be very many boxes.
function family(view, one) {
  const row = rowOf(view, one.lane);
  if (!row) return [];
  const id = row.lane.blocks[row.lane.ref[one.at]]?.id;
  if (!id) return [[row, one]];
  one.family ||= view.rows.flatMap(({ lane }) => Array.from(lane.ref.keys())
    .filter((at) => lane.blocks[lane.ref[at]].id === id).map((at) => piece(lane, at)));
  return one.family.map((part) => [rowOf(view, part.lane), part]).filter(([found]) => found);
}

// A co-reservation is one thing: a thin line joins its parts across lanes. Many lines would be a tangle, and slow; then
// only the selected one has a line.
const MOST_LINKS = 100;

function drawLinks(pen, view, { joined, selectedId }) {
  const isSeen = ({ begin, end }) => begin < view.until && end > view.from;
  let links = [...joined].filter(([, parts]) => parts.some(isSeen));
  if (links.length > MOST_LINKS) links = links.filter(([id]) => id === selectedId);
  for (const [id, parts] of links) {
    const points = [];
    for (const part of parts) {
      const row = rowOf(view, part.lane);
      const box = row && place(view, row, part);
      // Near the end of the box, away from its label.
      if (box) points.push([Math.min(view.width, box.x + box.width) - Math.min(10, box.width / 2), box.y + box.height / 2]);
    }
    if (points.length < 2) continue;
    const strong = id === selectedId;
    pen.path(points, { stroke: view.palette['reserved-line'], line: strong ? 2.5 : 1.25, alpha: strong ? 1 : 0.65 });
    for (const [x, y] of points) pen.frame(x - 2.5, y - 2.5, 5, 5, { fill: view.palette['reserved-line'], radius: 2.5 });
  }
}

function drawCountdowns(pen, view, marks) {
  for (const { parts, left } of marks.held) {
    for (const part of parts) {
      const row = rowOf(view, part.lane);
      const box = row && place(view, row, part);
      if (!box) continue;
      const text = countdown(left);
      const width = 14 + text.length * 6.5;
      const y = Math.min(row.top + row.height - 18, Math.max(row.top + 2, box.y + 4));
      pen.frame(Math.max(2, box.x + 4), y, width, 16, { fill: view.palette.held, stroke: view.palette['held-line'], radius: 8 });
      pen.text(Math.max(2, box.x + 4) + width / 2, y + 12, text, { fill: view.palette['held-text'], size: 11, weight: 700, align: 'center' });
    }
  }
}

function drawOffer(pen, view, offer, marks) {
  const { palette } = view;
  const tone = offer.delayed ? 'delay' : 'good';
  const strong = offer.key === marks.chosenKey || offer.key === marks.hoveredKey;
  // Beside a chosen offer the others step back.
  const quiet = !strong && (marks.hoveredKey || marks.chosenKey);
  const points = [];
  for (const slot of offer.places) {
    const row = rowOf(view, slot.lane);
    const box = row && place(view, row, slot);
    if (!box) continue;
    points.push([Math.max(0, box.x) + Math.min(10, box.width / 2), box.y + box.height / 2]);
    pen.frame(box.x + 0.75, box.y + 0.75, box.width - 1.5, Math.max(4, box.height - 1.5), {
      fill: palette[tone], stroke: palette[`${tone}-line`], line: strong ? 2.5 : 1.5, dash: strong ? [] : [4, 3], radius: 3,
      alpha: strong ? 1 : quiet ? 0.4 : 0.92,
    });
    if (box.width > 52 && box.height > 15 && !quiet && !(strong && marks.moves.length)) {
      const text = offer.delayed ? `${plural(offer.delayed, 'job')} later` : 'no delay';
      const style = { fill: palette[`${tone}-text`], size: 11, weight: 600, room: box.width - 12 };
      pen.text(Math.max(0, box.x) + 7, box.y + Math.min(15, box.height / 2 + 4), text, style);
    }
  }
  if (points.length > 1) pen.path(points, { stroke: palette[`${tone}-line`], line: strong ? 2 : 1, dash: [3, 3] });
}

// A waiting job that the chosen offer delays: outlined where it would run now, dashed where it would go, an arrow between.
function drawMove(pen, view, move, isLabelled) {
  const row = rowOf(view, move.lane);
  if (!row) return;
  const { palette } = view;
  const from = place(view, row, move.before), to = place(view, row, move.after);
  if (from) pen.frame(from.x, from.y, from.width, from.height, { stroke: palette['delay-line'], line: 2, radius: 2 });
  if (to) pen.frame(to.x, to.y, to.width, to.height, { stroke: palette['delay-line'], line: 1.5, dash: [3, 3], fill: palette.delay, radius: 2, alpha: 0.85 });
  const start = Math.max(4, Math.min(view.width - 4, xOf(view, move.before.begin)));
  const stop = Math.max(4, Math.min(view.width - 4, xOf(view, move.after.begin)));
  const box = from || to;
  if (!box || stop - start < 6) return;
  const y = box.y + box.height / 2;
  pen.path([[start, y], [stop - 5, y]], { stroke: palette['delay-line'], line: 2 });
  pen.path([[stop - 8, y - 5], [stop, y], [stop - 8, y + 5]], { fill: palette['delay-line'] });
  if (isLabelled && stop - start > 46) {
    const text = `+${length(move.delay)}`;
    const width = text.length * 6.4 + 10;
    pen.frame((start + stop - width) / 2, y - 9, width, 17, { fill: palette.ground, stroke: palette['delay-line'], radius: 8 });
    pen.text((start + stop) / 2, y + 4, text, { fill: palette['delay-text'], size: 11, weight: 600, align: 'center' });
  }
}

function drawBlocker(pen, view, { lane, begin, end, low, high }) {
  const row = rowOf(view, lane);
  const box = row && place(view, row, { begin, end, low, high });
  if (!box) return;
  pen.frame(box.x, box.y, box.width, box.height, { stroke: view.palette.broken, line: box.height < 8 || box.width < 8 ? 1.25 : 2.5, radius: 2 });
  if (box.width > 16 && box.height > 14) {
    pen.text(Math.max(0, box.x) + box.width - 12, box.y + 14, '!', { fill: view.palette.broken, size: 13, weight: 700, align: 'center' });
  }
}

// Parts of bookings that have boxes in several lanes, by id. A site books one part at a time, so only brokers have such.
export function findJoined(lanes) {
  const first = new Map(), found = new Map();
  if (state.service.role === 'site') return found;
  lanes.forEach((lane, number) => {
    for (let at = 0; at < lane.count; at++) {
      const { id } = lane.kindAt[at] >= RESERVED ? lane.blocks[lane.ref[at]] : {};
      if (!id) continue;
      // One number for lane and box: most bookings have one part, and an object for each would take long.
      const known = first.get(id);
      if (known === undefined) first.set(id, number * 1e7 + at);
      const before = Math.floor(known / 1e7);
      if (known === undefined || before === number) continue;
      if (!found.has(id)) found.set(id, [piece(lanes[before], known % 1e7)]);
      const parts = found.get(id);
      if (parts[parts.length - 1].lane !== lane.name) parts.push(piece(lane, at));
    }
  });
  return found;
}

// Boxes in the lanes that a refusal names as blockers.
export function findBlockers(lanes, blockers) {
  const kinds = { 'running-job': ['running-job'], 'waiting-job': ['waiting-job'], reservation: ['reservation', 'hold', 'foreign'], maintenance: ['maintenance'] };
  const found = [];
  for (const blocker of blockers) {
    const begin = blocker.begin && seconds(blocker.begin), end = blocker.end && seconds(blocker.end);
    for (const lane of lanes) {
      for (let at = 0; at < lane.count; at++) {
        const block = lane.blocks[lane.ref[at]];
        if (!kinds[blocker.kind]?.includes(block.kind) || (end && Math.abs(lane.end[at] - end) > 1)) continue;
        // The begin of a running job is that of the answer, not that of the job.
        if (begin && blocker.kind !== 'running-job' && Math.abs(lane.begin[at] - begin) > 1) continue;
        found.push(piece(lane, at));
      }
    }
  }
  return found;
}
