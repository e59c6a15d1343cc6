// Where offers and delayed jobs are drawn in their lanes.

import { visible } from './boxes.js';
import { seconds } from './time.js';

// Offers lie in free room where there is a gap that is wide enough for their whole time, else at the top.
export function placeOffers(lanes, offers) {
  const taken = new Map();
  return offers.map((offer) => ({
    key: offer.key,
    delayed: offer.delayed,
    offer,
    places: offer.slots.map((slot) => {
      const lane = lanes.find((one) => one.name === slot.resource);
      if (!lane) return null;
      const begin = seconds(slot.begin), end = seconds(slot.end);
      const others = taken.get(lane.name) || [];
      const low = room(lane, begin, end, slot.capacity, others);
      const place = { lane: lane.name, begin, end, low, high: low + slot.capacity };
      taken.set(lane.name, [...others, place]);
      return place;
    }).filter(Boolean),
  }));
}

function room(lane, begin, end, capacity, others) {
  const [first, last] = visible(lane, begin, end);
  const boxes = [];
  for (let at = first; at < last; at++) {
    if (lane.end[at] > begin && lane.begin[at] < end) boxes.push([lane.low[at], lane.high[at]]);
  }
  const beside = others.filter((other) => other.begin < end && begin < other.end).map((other) => [other.low, other.high]);
  const top = Math.max(0, lane.capacity - capacity);
  return gap(lane, [...boxes, ...beside], capacity) ?? gap(lane, boxes, capacity) ?? top;
}

// The highest gap, so that offers lie among the reservations and not among the jobs.
function gap(lane, boxes, capacity) {
  boxes.sort((a, b) => b[1] - a[1]);
  let from = lane.capacity;
  for (const [low, high] of boxes) {
    if (from - high >= capacity) break;
    from = Math.min(from, low);
  }
  return from >= capacity ? from - capacity : null;
}

// `effects` are answers to what-if: planned jobs before and after.
export function placeMoves(lanes, effects) {
  return effects.flatMap((effect) => {
    const lane = lanes.find((one) => one.name === effect.resource);
    const after = new Map((effect.after || []).map((job) => [job.job, job]));
    const before = new Map((effect.before || []).map((job) => [job.job, job]));
    if (!lane) return [];
    return (effect.delayed || []).map(({ job, delay_seconds: delay }) => {
      const [old, next] = [before.get(job), after.get(job)];
      if (!old || !next) return null;
      const low = lowOf(lane, old, job);
      const shape = (one) => ({ begin: seconds(one.begin), end: seconds(one.end), low, high: low + old.capacity });
      return { lane: lane.name, before: shape(old), after: shape(next), delay };
    }).filter(Boolean);
  });
}

function lowOf(lane, job, id) {
  const begin = seconds(job.begin);
  const [first, last] = visible(lane, begin, begin + 1);
  for (let at = first; at < last; at++) {
    const block = lane.blocks[lane.ref[at]];
    if (block.id === id || (Math.abs(lane.begin[at] - begin) < 1 && block.capacity === job.capacity)) return lane.low[at];
  }
  return 0;
}
