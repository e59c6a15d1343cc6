// Between the Ask form and the documents of the API.

import { api } from './api.js';
import { length, seconds, short, stamp } from './time.js';

// `gpus>=4, mhz>=2600, os=linux, arch=x86|arm, ssd`
export function readRequirements(text) {
  return text.split(',').map((one) => one.trim()).filter(Boolean).map((one) => {
    const [, attribute, sign, rest] = /^([\w.\-/]+)\s*(>=|<=|=)?\s*(.*)$/.exec(one) || [];
    const value = (word) => (/^-?\d+$/.test(word) ? Number(word) : word);
    if (!attribute || (sign && !rest) || (!sign && rest)) throw new Error(`'${one}' is not an attribute; write gpus>=4, os=linux, arch=x86|arm or ssd`);
    if (!sign) return { test: 'present', attribute };
    if (sign === '=') {
      const values = rest.split('|').map((word) => value(word.trim()));
      return values.length > 1 ? { test: 'one-of', attribute, values } : { test: 'is', attribute, value: values[0] };
    }
    if (!/^\d+$/.test(rest)) throw new Error(`'${one}' needs a whole number after ${sign}`);
    return { test: sign === '>=' ? 'at-least' : 'at-most', attribute, value: Number(rest) };
  });
}

export function writeRequirements(requirements = []) {
  const signs = { 'at-least': '>=', 'at-most': '<=', is: '=' };
  return requirements.map((one) => {
    if (one.test === 'present') return one.attribute;
    if (one.test === 'one-of') return `${one.attribute}=${one.values.join('|')}`;
    return `${one.attribute}${signs[one.test]}${one.value}`;
  }).join(', ');
}

// `gres/gpu:a100=2, mem=64G, license/qpu=1`; memory in MiB.
const MEBIBYTES = { '': 1, M: 1, G: 1024, T: 1048576 };
export function readTres(text) {
  return Object.fromEntries(text.split(',').map((one) => one.trim()).filter(Boolean).map((one) => {
    const [, name, number, unit] = /^([\w.\-/:]+)\s*=\s*([1-9]\d*)([MGT]?)$/.exec(one) || [];
    if (!name || (unit && name !== 'mem')) throw new Error(`'${one}' is not an amount; write gres/gpu:a100=2, mem=64G or license/qpu=1`);
    return [name, Number(number) * MEBIBYTES[unit]];
  }));
}

export const writeTres = (tres) => Object.entries(tres || {}).map(([name, number]) => `${name}=${number}`).join(', ');

export const withTres = (tres) => (writeTres(tres) ? ` with ${writeTres(tres)}` : '');

// Reads a field; a refusal names the field, so that the form can show it there.
async function read(text, kind, name, at) {
  try {
    const answer = await api.read(text.trim(), kind);
    return kind === 'length' ? answer.seconds : answer.time;
  } catch (error) {
    // Only what was typed is a fault of the field.
    throw [400, 422].includes(error.status) ? Object.assign(new Error(error.message), { field: name, part: at }) : error;
  }
}

// `form`: {name, objective, parts: [{capacity, what, length, from, until, attributes, tres, when, where, to}]}
export async function makeRequest(form) {
  const parts = await Promise.all(form.parts.map(async (part, at) => {
    // `64`, or `32..64` for as much as there is; the same for lengths.
    const [capacity, most = capacity] = String(part.capacity).split('..').map((one) => Number(one.replaceAll(',', '')));
    if (!Number.isInteger(capacity) || capacity < 1 || !(most >= capacity)) {
      throw Object.assign(new Error('capacity must be a whole number, at least 1, or a range such as 32..64'), { field: 'capacity', part: at });
    }
    const lengths = part.length.split('..').slice(0, 2).map((one) => read(one, 'length', 'length', at));
    const [from, until, duration, longest = duration] = await Promise.all([
      read(part.from, 'time', 'from', at), read(part.until, 'time', 'until', at), ...lengths]);
    const typed = (field, reader) => {
      try {
        return reader(part[field] || '');
      } catch (error) {
        throw Object.assign(error, { field, part: at });
      }
    };
    const [requirements, tres] = [typed('attributes', readRequirements), typed('tres', readTres)];
    const [, attribute, value] = /^\s*([\w.\-/]+)\s*=\s*([1-9]\d*)\s*$/.exec(part.machine || '') || [];
    if (part.machine?.trim() && !attribute) throw Object.assign(new Error('name a machine by an attribute, such as mhz=2600'), { field: 'machine', part: at });
    const [sort, name] = [part.what.slice(0, part.what.indexOf(':')), part.what.slice(part.what.indexOf(':') + 1)];
    return {
      ...(sort === 'resource' ? { resource: name, kind: part.kindOf } : { kind: name }),
      capacity, duration_seconds: duration, earliest_start: from, latest_end: until,
      ...(requirements.length ? { requirements } : {}), ...(Object.keys(tres).length ? { tres } : {}),
      ...(attribute ? { measured_on: { attribute, value: Number(value) } } : {}),
      ...(most > capacity || longest > duration ? { up_to: { capacity: most, duration_seconds: longest } } : {}),
    };
  }));
  const constraints = form.parts.flatMap((part, second) => {
    if (second === 0) return [];
    const first = Math.min(Number(part.to) || 0, second - 1);
    const time = {
      together: { type: 'offset', first, second, by_seconds: 0 },
      after: { type: 'after', first, second },
      before: { type: 'ends-before', first: second, second: first },
    }[part.when];
    const ends = form.parts.map((_, at) => at).filter((at) => at !== second).slice(0, 2);
    const place = {
      same: { type: 'same-site', first, second },
      other: { type: 'different-sites', first, second },
      joins: ends.length === 2 ? { type: 'joins', link: second, ends } : undefined,
    }[part.where];
    return [time, place].filter(Boolean);
  });
  return {
    parts, ...(constraints.length ? { constraints } : {}), objective: form.objective,
    ...(form.name?.trim() ? { name: form.name.trim() } : {}),
    ...(form.parts[0].priority?.trim() ? { priority: form.parts[0].priority.trim() } : {}),
  };
}

// Fills the form with a request, for example a counter-offer.
export function formOf(request) {
  const parts = request.parts.map((part) => ({
    capacity: String(part.capacity), what: part.resource ? `resource:${part.resource}` : `kind:${part.kind || 'processors'}`,
    length: length(part.duration_seconds), from: short(seconds(part.earliest_start)), until: short(seconds(part.latest_end)),
    attributes: writeRequirements(part.requirements), tres: writeTres(part.tres), when: 'any', where: 'any', to: '0',
  }));
  for (const one of request.constraints || []) {
    const part = parts[one.type === 'joins' ? one.link : one.type === 'ends-before' ? one.first : one.second];
    if (!part) continue;
    if (one.type !== 'joins') part.to = String(one.type === 'ends-before' ? one.second : one.first);
    if (one.type === 'offset') part.when = 'together';
    if (one.type === 'after') part.when = 'after';
    if (one.type === 'ends-before') part.when = 'before';
    if (one.type === 'same-site') part.where = 'same';
    if (one.type === 'different-sites') part.where = 'other';
    if (one.type === 'joins') part.where = 'joins';
  }
  return { name: request.name || '', objective: request.objective, parts };
}

// The request for exactly this offer. A single slot may begin later within its slack, at the same terms, so that a
// moment of thought does not cost the offer.
export function requestFor(request, offer, widened = false) {
  const parts = offer.slots.map((slot, at) => {
    const similar = widened && offer.latest ? offer.latest - offer.begin : 0;
    const slack = offer.slots.length === 1 ? Math.max(slot.slack_seconds || 0, similar) : 0;
    // The offer has fixed the capacity and the length.
    const { duration_seconds: _, up_to: __, measured_on: ___, ...part } = request.parts[at];
    return {
      ...part, resource: slot.resource, capacity: slot.capacity, duration_seconds: seconds(slot.end) - seconds(slot.begin),
      earliest_start: slot.begin, latest_end: stamp(seconds(slot.end) + slack),
    };
  });
  return { ...request, parts };
}

// Offers that differ only a little in their begin are shown once.
export function groupOffers(answer) {
  const groups = [];
  for (const { slots } of answer.offers) {
    const impact = slots.map((slot) => slot.impact || {});
    const sum = (name) => impact.reduce((all, one) => all + (one[name] || 0), 0);
    const offer = {
      key: slots.map((slot) => `${slot.resource} ${slot.begin} ${slot.capacity}`).join('; '), slots,
      delayed: sum('delayed_jobs'), total: sum('total_delay_seconds'),
      longest: Math.max(0, ...impact.map((one) => one.longest_delay_seconds || 0)),
      cost: slots.reduce((all, slot) => all + (slot.cost || 0), 0), begin: Math.min(...slots.map((slot) => seconds(slot.begin))),
      end: Math.max(...slots.map((slot) => seconds(slot.end))), similar: 0,
    };
    const terms = (one) => `${one.slots.map((slot) => slot.resource).join()} ${one.delayed} ${one.longest} ${one.cost}`;
    const like = groups.find((one) => terms(one) === terms(offer) && Math.abs(one.begin - offer.begin) < (one.end - one.begin) / 2);
    if (!like) groups.push(offer);
    else {
      like.similar++;
      like.latest = Math.max(like.latest || like.begin, offer.begin);
    }
  }
  return groups;
}

const SORTS = {
  'least-impact': (a, b) => a.delayed - b.delayed || a.total - b.total || a.end - b.end || a.cost - b.cost,
  'earliest-end': (a, b) => a.end - b.end || a.total - b.total || a.cost - b.cost,
  'lowest-cost': (a, b) => a.cost - b.cost || a.end - b.end,
};
export const sortOffers = (offers, objective) => [...offers].sort(SORTS[objective]);
