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
const MOST_EXACT = 2000;
const TRACKS = 256;

// One lane at a time, so that the caller can stop in between. `before` are the lanes of the last schedule.
export function* buildLanes(schedule, before) {
  const old = new Map(before.map((lane) => [lane.name, lane]));
  const lanes = [];
  for (const one of schedule.resources) {
    lanes.push(buildLane(one, old.get(one.resource)));
    yield;
  }
  return lanes.sort((a, b) => order(a.site, b.site) || order(a.name, b.name));
}
const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// `2026-11-16T09:00:00Z` in seconds since 1970, without the cost of Date.parse: a schedule has very many times.
const midnights = new Map();
const two = (text, at) => text.charCodeAt(at) * 10 + text.charCodeAt(at + 1) - 528;
export function instant(text) {
  if (text.length !== 20 || text[19] !== 'Z') return seconds(text);
  const date = ((two(text, 0) * 100 + two(text, 2)) * 100 + two(text, 5)) * 100 + two(text, 8);
  let midnight = midnights.get(date);
  if (midnight === undefined) midnights.set(date, midnight = seconds(`${text.slice(0, 11)}00:00:00Z`));
  return midnight + two(text, 11) * 3600 + two(text, 14) * 60 + two(text, 17);
}

function buildLane(one, old) {
  const blocks = one.blocks || [];
  const count = blocks.length;
  const begins = new Float64Array(count), ends = new Float64Array(count), sorted = new Uint32Array(count);
  let isSorted = true;
  for (let at = 0; at < count; at++) {
    begins[at] = instant(blocks[at].begin);
    ends[at] = instant(blocks[at].end);
    sorted[at] = at;
    if (begins[at] < begins[at - 1]) isSorted = false;
  }
  // Services sort them by begin, but do not promise it for those of peers.
  if (!isSorted) sorted.sort((a, b) => begins[a] - begins[b]);
  const resource = resourceNamed(one.resource);
  const lane = {
    name: one.resource, site: siteOf(one.resource), short: shortName(one.resource),
    kind: resource?.kind || '', capacity: one.capacity, lost: one.lost || 0, blocks,
    places: new Map(), levels: readLevels(one.levels),
    free: readFree(one.free),
  };
  (sorted.length > MOST_EXACT ? packTracks : pack)(lane, sorted, begins, ends, old?.places || new Map());
  // The latest end so far grows with the index, so the first box that reaches into a window is found by bisection.
  let reach = -Infinity;
  lane.reach = lane.end.map((end) => (reach = Math.max(reach, end)));
  return lane;
}

// A box stays where it was in the last schedule, if there is still room for it. Jobs of others have no id.
const keyOf = (block, kind) => block.id || `${kind} ${block.end} ${block.capacity}`;

// First fit by begin: jobs from the bottom, reservations from the top, so both stay readable and nothing overlaps.
// A box with no gap wide enough is cut into strips, as the papers do; its area stays capacity × time.
function pack(lane, sorted, begins, ends, places) {
  const pieces = { begin: [], end: [], low: [], high: [], kind: [], ref: [] };
  const active = [];
  for (const ref of sorted) {
    const block = lane.blocks[ref];
    const begin = begins[ref], end = ends[ref], kind = kindOf(block);
    const fromTop = kind >= RESERVED || lane.levels !== null;
    const key = keyOf(block, kind);
    const parts = fit(gapsOf(active, lane.capacity, begin), block.capacity, fromTop, places.get(key));
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
  Object.assign(lane, {
    count: pieces.begin.length, begin: Float64Array.from(pieces.begin), end: Float64Array.from(pieces.end), low: Float32Array.from(pieces.low),
    high: Float32Array.from(pieces.high), kindAt: Uint8Array.from(pieces.kind), ref: Uint32Array.from(pieces.ref),
  });
}

// First fit in tracks of equal capacity. A box without room lies over others, each time a little further up.
function packTracks(lane, sorted, begins, ends, places) {
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
    const begin = begins[ref], end = ends[ref], kind = kindOf(block), key = keyOf(block, kind);
    const wanted = Math.min(TRACKS, Math.max(1, Math.round(block.capacity / size)));
    const fromTop = kind >= RESERVED || lane.levels !== null;
    const isFree = (first) => {
      for (let track = first; track < first + wanted; track++) if (!(taken[track] <= begin)) return false;
      return true;
    };
    let first = Math.round(places.get(key) / size);
    if (!(first >= 0 && isFree(first))) {
      let run = 0, track = 0;
      for (; track < TRACKS && run < wanted; track++) run = taken[fromTop ? TRACKS - 1 - track : track] <= begin ? run + 1 : 0;
      first = fromTop ? TRACKS - track : track - wanted;
      if (run < wanted) {
        first = spill;
        spill = (spill + wanted * 3 + 1) % Math.max(1, TRACKS - wanted);
      }
    }
    for (let track = first; track < first + wanted && track < TRACKS; track++) taken[track] = Math.max(taken[track], end);
    lane.begin[at] = begin;
    lane.end[at] = end;
    lane.low[at] = first * size;
    lane.high[at] = Math.min(lane.capacity, first * size + block.capacity);
    lane.kindAt[at] = kind;
    lane.places.set(key, lane.low[at]);
  }
}

function insert(active, one) {
  let at = active.length;
  while (at > 0 && active[at - 1].low > one.low) at--;
  active.splice(at, 0, one);
}

// Drops what has ended from `active`, which is sorted by `low`, and returns the gaps between the rest.
function gapsOf(active, capacity, begin) {
  const gaps = [];
  let from = 0, kept = 0;
  for (const one of active) {
    if (one.end <= begin) continue;
    active[kept++] = one;
    if (one.low > from) gaps.push([from, one.low]);
    if (one.high > from) from = one.high;
  }
  active.length = kept;
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
  return { begin: instant(levels.begin), step: levels.step_seconds, used };
}

function readFree(free) {
  return free ? free.map((one) => [instant(one.begin), one.capacity]) : null;
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
    : lane.count > MOST_EXACT ? summedSorted(lane) : summed(lane.capacity - lane.lost, lane.blocks.flatMap(({ begin, end, capacity }) => [[instant(begin), -capacity], [instant(end), capacity]]));
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
