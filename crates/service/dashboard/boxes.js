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

// Lanes with more boxes than this are packed in whole tracks: faster, and at that size a box is a few pixels high at most.
const MOST_EXACT = 4000;
const TRACKS = 256;

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
  if (sorted.length > MOST_EXACT) {
    packTracks(lane, sorted, begins, ends);
    return;
  }
  const pieces = { begin: [], end: [], low: [], high: [], kind: [], ref: [] };
  let active = [];
  for (const ref of sorted) {
    const block = lane.blocks[ref];
    const begin = begins[ref], end = ends[ref], kind = kindOf(block);
    active = active.filter((one) => one.end > begin);
    const fromTop = kind >= RESERVED || lane.levels !== null;
    const key = `${kind} ${block.id || `${block.end} ${block.capacity}`}`;
    const parts = fit(gapsOf(active, lane.capacity), block.capacity, fromTop, old?.places?.get(key));
    const placed = parts.length ? parts : [[Math.max(0, lane.capacity - block.capacity), lane.capacity]];
    lane.places.set(key, placed[0][0]);
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
  setReach(lane);
}

// First fit in tracks of equal capacity. A box without room lies over others, each time a little further up.
function packTracks(lane, sorted, begins, ends) {
  const count = sorted.length;
  Object.assign(lane, {
    count, begin: new Float64Array(count), end: new Float64Array(count), low: new Float32Array(count), high: new Float32Array(count),
    kindAt: new Uint8Array(count), ref: sorted,
  });
  const size = lane.capacity / TRACKS;
  const taken = new Float64Array(TRACKS).fill(-Infinity);
  let spill = 0;
  for (let at = 0; at < count; at++) {
    const ref = sorted[at], block = lane.blocks[ref];
    const begin = begins[ref], end = ends[ref];
    const wanted = Math.min(TRACKS, Math.max(1, Math.round(block.capacity / size)));
    let run = 0, track = 0;
    for (; track < TRACKS && run < wanted; track++) run = taken[track] <= begin ? run + 1 : 0;
    let first = track - wanted;
    if (run < wanted) {
      first = spill;
      spill = (spill + wanted * 3 + 1) % Math.max(1, TRACKS - wanted);
    }
    for (track = first; track < first + wanted && track < TRACKS; track++) taken[track] = Math.max(taken[track], end);
    lane.begin[at] = begin;
    lane.end[at] = end;
    lane.low[at] = first * size;
    lane.high[at] = Math.min(lane.capacity, first * size + block.capacity);
    lane.kindAt[at] = kindOf(block);
  }
  setReach(lane);
}

function setReach(lane) {
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

// Free capacity as steps: `at` and `free`, two arrays. Computed from the boxes if the service does not send it.
export function freeSteps(lane) {
  lane.steps ||= lane.free
    ? { at: Float64Array.from(lane.free, (one) => one[0]), free: Float64Array.from(lane.free, (one) => Math.max(0, one[1])) }
    : lane.count > MOST_EXACT ? summedSorted(lane) : summed(lane.capacity - lane.lost, lane.blocks.flatMap(({ begin, end, capacity }) => [[seconds(begin), -capacity], [seconds(end), capacity]]));
  return lane.steps;
}

function summed(start, moves) {
  moves.sort((a, b) => a[0] - b[0]);
  const at = new Float64Array(moves.length + 1), free = new Float64Array(moves.length + 1);
  at[0] = -Infinity;
  free[0] = start;
  let size = 1, value = start;
  for (const [when, change] of moves) {
    value += change;
    if (at[size - 1] !== when) at[size++] = when;
    free[size - 1] = value;
  }
  return { at: at.subarray(0, size), free: free.subarray(0, size) };
}

// The same for very many boxes, without an object for each.
function summedSorted(lane) {
  const { count, begin, end, ref, blocks } = lane;
  const byEnd = Uint32Array.from({ length: count }, (_, index) => index).sort((a, b) => end[a] - end[b]);
  const at = new Float64Array(2 * count + 1), free = new Float64Array(2 * count + 1);
  let value = lane.capacity - lane.lost, size = 1, opened = 0, closed = 0;
  at[0] = -Infinity;
  free[0] = value;
  while (closed < count) {
    const opens = opened < count && begin[opened] < end[byEnd[closed]];
    const when = opens ? begin[opened] : end[byEnd[closed]];
    value += opens ? -blocks[ref[opened++]].capacity : blocks[ref[byEnd[closed++]]].capacity;
    if (at[size - 1] !== when) at[size++] = when;
    free[size - 1] = value;
  }
  return { at: at.subarray(0, size), free: free.subarray(0, size) };
}

export function freeAt(lane, at) {
  const steps = freeSteps(lane);
  const index = bisect(steps.at, at);
  return Math.max(0, index ? steps.free[index - 1] : lane.capacity - lane.lost);
}

// Free capacity of several lanes together.
export function sumFree(lanes) {
  let start = 0;
  const moves = [];
  for (const lane of lanes) {
    const { at, free } = freeSteps(lane);
    let last = Math.max(0, free[0] ?? lane.capacity);
    start += last;
    for (let index = 1; index < at.length; index++) {
      const now = Math.max(0, free[index]);
      if (now !== last) moves.push([at[index], now - last]);
      last = now;
    }
  }
  return summed(start, moves);
}

// The steps of a window as a line with at most two points for each pixel: the least that is free within it.
export function freeLine(steps, from, until, width) {
  const scale = width / (until - from);
  let index = Math.max(0, bisect(steps.at, from) - 1);
  const line = [[0, steps.free[index] ?? 0]];
  for (index++; index < steps.at.length && steps.at[index] < until; index++) {
    const x = (steps.at[index] - from) * scale;
    const [lastX, lastFree] = line[line.length - 1];
    if (x - lastX >= 1) line.push([x, steps.free[index]]);
    else line[line.length - 1] = [lastX, Math.min(lastFree, steps.free[index])];
  }
  return line;
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
