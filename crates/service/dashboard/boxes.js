// Turns a schedule into lanes of boxes in typed arrays: sorted by begin, packed by capacity, searched by time.

import { seconds } from './time.js';
import { resourceNamed, shortName, siteOf } from './state.js';

export const RUNNING = 0, PLANNED = 1, RESERVED = 2, HELD = 3, FOREIGN = 4;
export const KINDS = ['running-job', 'waiting-job', 'reservation', 'hold', 'foreign'];
export const WORDS = ['running', 'planned', 'reserved', 'held', 'other'];

// Unknown kinds (a newer service may have more) are shown as foreign.
const kindOf = (block) => {
  const at = KINDS.indexOf(block.kind);
  return at < 0 ? FOREIGN : at;
};

// Lanes with more boxes than this are repacked without regard to where boxes were; at that size nobody follows one box.
const MOST_STEADY = 5000;

export function buildLanes(schedule, before) {
  const old = new Map((before || []).map((lane) => [lane.name, lane]));
  const lanes = schedule.resources.map((one) => buildLane(one, old.get(one.resource)));
  lanes.sort((a, b) => order(a.site, b.site) || order(a.name, b.name));
  return lanes;
}
const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

function buildLane(one, old) {
  const blocks = one.blocks || [];
  const count = blocks.length;
  const begins = new Float64Array(count);
  const ends = new Float64Array(count);
  for (let at = 0; at < count; at++) {
    begins[at] = seconds(blocks[at].begin);
    ends[at] = seconds(blocks[at].end);
  }
  const sorted = Uint32Array.from({ length: count }, (_, at) => at).sort((a, b) => begins[a] - begins[b]);
  const resource = resourceNamed(one.resource);
  const lane = {
    name: one.resource, site: siteOf(one.resource), short: shortName(one.resource),
    kind: resource?.kind || '', capacity: one.capacity, lost: one.lost || 0, blocks,
    places: new Map(), levels: readLevels(one.levels),
    free: readFree(one.free),
  };
  pack(lane, sorted, begins, ends, old);
  return lane;
}

// First fit by begin: jobs from the bottom, reservations from the top, so both stay readable and nothing overlaps.
// A box with no gap wide enough is cut into strips, as the papers do; its area stays capacity × time.
function pack(lane, sorted, begins, ends, old) {
  const pieces = { begin: [], end: [], low: [], high: [], kind: [], ref: [] };
  const steady = sorted.length <= MOST_STEADY;
  let active = [];
  for (const ref of sorted) {
    const block = lane.blocks[ref];
    const begin = begins[ref], end = ends[ref], kind = kindOf(block);
    active = active.filter((one) => one.end > begin);
    const fromTop = kind >= RESERVED || lane.levels !== null;
    const key = steady ? `${kind} ${block.id || `${block.end} ${block.capacity}`}` : null;
    const parts = fit(gapsOf(active, lane.capacity), block.capacity, fromTop, steady ? old?.places?.get(key) : undefined);
    const placed = parts.length ? parts : [[Math.max(0, lane.capacity - block.capacity), lane.capacity]];
    if (key !== null) lane.places.set(key, placed[0][0]);
    for (const [low, high] of placed) {
      insert(active, { low, high, end });
      pieces.begin.push(begin);
      pieces.end.push(end);
      pieces.low.push(low);
      pieces.high.push(high);
      pieces.kind.push(kind);
      pieces.ref.push(ref);
    }
  }
  lane.count = pieces.begin.length;
  lane.begin = Float64Array.from(pieces.begin);
  lane.end = Float64Array.from(pieces.end);
  lane.low = Float32Array.from(pieces.low);
  lane.high = Float32Array.from(pieces.high);
  lane.kindAt = Uint8Array.from(pieces.kind);
  lane.ref = Uint32Array.from(pieces.ref);
  // The latest end so far grows with the index, so the first box that reaches into a window is found by bisection.
  lane.reach = new Float64Array(lane.count);
  let reach = -Infinity;
  for (let at = 0; at < lane.count; at++) lane.reach[at] = reach = Math.max(reach, lane.end[at]);
}

function insert(active, one) {
  let at = active.length;
  while (at > 0 && active[at - 1].low > one.low) at--;
  active.splice(at, 0, one);
}

function gapsOf(active, capacity) {
  const gaps = [];
  let from = 0;
  for (const { low, high } of active) {
    if (low > from) gaps.push([from, low]);
    if (high > from) from = high;
  }
  if (from < capacity) gaps.push([from, capacity]);
  return gaps;
}

function fit(gaps, wanted, fromTop, place) {
  const near = place === undefined ? undefined : gaps.find(([low, high]) => low <= place && place + wanted <= high);
  if (near) return [[place, place + wanted]];
  if (fromTop) gaps.reverse();
  const whole = gaps.find(([low, high]) => high - low >= wanted);
  if (whole) return fromTop ? [[whole[1] - wanted, whole[1]]] : [[whole[0], whole[0] + wanted]];
  const parts = [];
  let rest = wanted;
  for (const [low, high] of gaps) {
    const size = Math.min(rest, high - low);
    parts.push(fromTop ? [high - size, high] : [low, low + size]);
    rest -= size;
    if (rest <= 0) break;
  }
  return parts;
}

function readLevels(levels) {
  if (!levels) return null;
  const used = KINDS.map((kind) => levels.used?.[kind] || []);
  return { begin: seconds(levels.begin), step: levels.step_seconds, used };
}

function readFree(free) {
  return free ? free.map((one) => [seconds(one.begin), one.capacity]) : null;
}

// Indices [first, last) of the boxes that may overlap the window.
export function visible(lane, from, until) {
  return [bisect(lane.reach, from), bisect(lane.begin, until)];
}

// The first index whose value is above `value`.
function bisect(values, value) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Free capacity as steps [[begin, capacity], …]. Computed from the boxes if the service does not send it.
export function freeSteps(lane) {
  if (lane.free) return lane.free;
  const moves = new Map();
  for (const block of lane.blocks) {
    const begin = seconds(block.begin), end = seconds(block.end);
    moves.set(begin, (moves.get(begin) || 0) - block.capacity);
    moves.set(end, (moves.get(end) || 0) + block.capacity);
  }
  let free = lane.capacity - lane.lost;
  lane.free = [[-Infinity, free]];
  for (const at of [...moves.keys()].sort((a, b) => a - b)) lane.free.push([at, (free += moves.get(at))]);
  return lane.free;
}

export function freeAt(lane, at) {
  const steps = freeSteps(lane);
  let low = 0, high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle][0] > at) high = middle;
    else low = middle + 1;
  }
  return Math.max(0, low ? steps[low - 1][1] : lane.capacity - lane.lost);
}

// Free capacity of several lanes together.
export function sumFree(lanes, from, until) {
  const moves = new Map();
  let sum = 0;
  for (const lane of lanes) {
    let last = freeAt(lane, from);
    sum += last;
    for (const [at, capacity] of freeSteps(lane)) {
      if (at <= from || at >= until) continue;
      const now = Math.max(0, capacity);
      moves.set(at, (moves.get(at) || 0) + now - last);
      last = now;
    }
  }
  const steps = [[from, sum]];
  for (const at of [...moves.keys()].sort((a, b) => a - b)) steps.push([at, (sum += moves.get(at))]);
  return steps;
}

// The piece at a time and capacity, the last drawn first; `slack` in both units makes thin boxes easy to hit.
export function pieceAt(lane, at, capacity, timeSlack, capacitySlack) {
  const [first, last] = visible(lane, at - timeSlack, at + timeSlack);
  let best = -1, bestMiss = Infinity;
  for (let index = first; index < last; index++) {
    const missTime = Math.max(0, lane.begin[index] - at, at - lane.end[index]) / (timeSlack || 1);
    const missHeight = Math.max(0, lane.low[index] - capacity, capacity - lane.high[index]) / (capacitySlack || 1);
    // Reservations lie above jobs in the drawing order, so they win a tie.
    const miss = missTime + missHeight - (lane.kindAt[index] >= RESERVED ? 0.01 : 0);
    if (missTime <= 1 && missHeight <= 1 && miss < bestMiss) [best, bestMiss] = [index, miss];
  }
  return best;
}
