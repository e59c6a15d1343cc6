// Buttons of a reservation. Each asks for what it needs in a dialog, and shows a refusal beside the buttons.

import { api } from './api.js';
import { announce, ask, busy, field, h, isLocked, lock, select } from './dom.js';
import { slotText } from './details.js';
import { refreshHeld, refreshSchedule } from './live.js';
import { condition, counted } from './refusal.js';
import { state } from './state.js';
import { clockRate, countdown, length, moment, seconds, stamp, typed } from './time.js';

// The document of the answer, as PUT wants it: `webhook` is secret and never sent back.
function requestOf(reservation) {
  const { webhook: _, ...request } = reservation.request || {};
  return structuredClone(request);
}

export function actionsFor(reservation, reload, fault) {
  const { id, state: now, version, slots, owner } = reservation;
  const mine = state.user?.operator || state.user?.name === owner;
  const isGuest = owner !== state.user?.name && (reservation.shared_with || []).includes(state.user?.name);
  if ((!mine && !isGuest) || !slots.length) return [];
  const last = Math.max(...slots.map((slot) => seconds(slot.end)));

  // Runs an action: the dialog, the call, the reload; a refusal is shown with what would fit.
  const button = (name, text, kind, act) => h(`button.button${kind ? `.${kind}` : ''}`, {
    type: 'button', 'data-action': name, onclick: async (event) => {
      const { target } = event;
      if (isLocked(target)) return;
      fault.hidden = true;
      lock(target, true);
      try {
        const done = await busy(target, act());
        if (done) announce(done);
        if (done) refreshHeld();
        if (done) refreshSchedule();
        if (done) await reload();
      } catch (error) {
        const offers = (error.document?.counter_offers || []).map((one) => condition(one.change));
        fault.textContent = counted(error.message, slots.length) + (offers.length ? `. It would fit ${offers.join(', or ')}.` : '');
        fault.hidden = false;
      }
      lock(target, false);
    },
  }, text);

  const extend = async () => {
    const by = h('input', { id: 'extend-by', value: '1h', autocomplete: 'off' });
    if (await ask('Extend', field('By', by, `Now it ends ${moment(last)}.`), [['', 'Close'], ['extend', 'Extend', 'primary']]) !== 'extend') return '';
    const { seconds: more } = await api.read(by.value, 'length');
    await api.extend(id, version, stamp(last + more));
    return `extended by ${length(more)}`;
  };

  const prolong = async () => {
    const by = h('input', { id: 'hold-for', value: '5m', autocomplete: 'off' });
    if (await ask('Hold longer', field('From now, for', by), [['', 'Close'], ['hold', 'Hold', 'primary']]) !== 'hold') return '';
    const { seconds: wanted } = await api.read(by.value, 'length');
    const { held_for_seconds: left } = await api.holdLonger(id, wanted * clockRate());
    // Services limit holds, and none outlasts the begin of what it holds.
    fault.hidden = left > wanted * clockRate() * 0.95;
    fault.textContent = `It can be held for ${countdown(left / clockRate())} only.`;
    return 'held longer';
  };

  const change = async () => {
    const request = requestOf(reservation);
    // Extensions and releases are not part of the request; without this a change would undo them.
    const parts = structuredClone(request.parts);
    parts.forEach((part, at) => {
      const [begin, end] = [seconds(slots[at].begin), seconds(slots[at].end)];
      part.capacity = slots[at].capacity;
      part.duration_seconds = Math.max(part.duration_seconds, end - begin);
      if (seconds(part.latest_end) < end) part.latest_end = slots[at].end;
    });
    const isActive = now === 'active';
    const shown = new Map();
    const rows = parts.map((part, at) => {
      const input = (key, value, extra) => {
        const one = h('input', { id: `change-${key}-${at}`, value, autocomplete: 'off', ...extra });
        shown.set(one, value);
        return one;
      };
      return {
        part, capacity: input('capacity', String(part.capacity), { inputmode: 'numeric' }), length: input('length', length(part.duration_seconds).replace(' ', '')),
        from: input('from', typed(seconds(part.earliest_start)), { disabled: isActive }), until: input('until', typed(seconds(part.latest_end))),
      };
    });
    const name = h('input', { id: 'change-name', value: request.name || '', maxlength: '100' });
    const note = h('textarea', { id: 'change-note', value: request.note || '', maxlength: '1000', rows: '2' });
    const labels = h('input', { id: 'change-labels', value: Object.entries(request.labels || {}).map(([key, value]) => `${key}=${value}`).join(', ') });
    const body = [rows.map((row, at) => h('fieldset.part', null, h('legend', null, rows.length > 1 ? `Part ${at + 1}` : 'Terms'),
      h('div.row', null, field('Capacity', row.capacity), field('How long', row.length)), h('div.row', null, field('From', row.from), field('Until', row.until)))),
    field('Name', name), field('Note', note), field('Labels', labels, 'key=value, key=value')];
    if (await ask('Change', body, [['', 'Close'], ['change', 'Change', 'primary']]) !== 'change') return '';
    // Only fields that were touched are read again, so that seconds which the form does not show are kept. If none was,
    // the terms are sent as they came, and nothing is planned anew.
    for (const { part, ...fields } of rows) {
      const read = async (key, take) => {
        const { value } = fields[key];
        if (value === shown.get(fields[key])) return;
        await take(value);
        request.parts = parts;
      };
      await read('capacity', (text) => { part.capacity = Number(text.replaceAll(',', '')); });
      await read('length', async (text) => { part.duration_seconds = (await api.read(text, 'length')).seconds; });
      await read('from', async (text) => { part.earliest_start = (await api.read(text, 'time')).time; });
      await read('until', async (text) => { part.latest_end = (await api.read(text, 'time')).time; });
    }
    request.name = name.value.trim() || null;
    request.note = note.value.trim() || null;
    request.labels = Object.fromEntries(labels.value.split(',').map((one) => one.trim()).filter(Boolean).map((one) => [one.split('=')[0].trim(), one.slice(one.indexOf('=') + 1).trim()]));
    await api.change(id, version, request);
    return 'changed';
  };

  const release = async () => {
    const part = select(slots.map((slot, at) => [String(at), `part ${at + 1}: ${slotText(slot)}`]), '0', { id: 'release-part' });
    const keep = h('input', { id: 'release-keep', value: '0', inputmode: 'numeric' });
    const from = h('input', { id: 'release-from', value: 'now', autocomplete: 'off' });
    const body = [slots.length > 1 && field('Part', part), field('Keep', keep, 'Capacity that stays booked; 0 ends it.'), field('From', from)];
    if (await ask('Release capacity', body, [['', 'Close'], ['release', 'Release', 'primary']]) !== 'release') return '';
    const { time } = await api.read(from.value, 'time');
    await api.release(id, { ...(slots.length > 1 ? { part: Number(part.value) } : {}), from: time, keep: Number(keep.value) || 0 });
    return 'released';
  };

  const share = async () => {
    const users = h('input', { id: 'share-with', value: (reservation.shared_with || []).join(', '), autocomplete: 'off' });
    if (await ask('Share', field('With', users, 'Names, or project:NAME, separated by commas. They see it and submit jobs into it.'), [['', 'Close'], ['share', 'Share', 'primary']]) !== 'share') return '';
    const request = requestOf(reservation);
    request.shared_with = users.value.split(',').map((one) => one.trim()).filter(Boolean);
    await api.change(id, version, request);
    return 'shared';
  };

  const cancel = async () => {
    const begun = now === 'active';
    const text = begun ? 'It has begun: its jobs end, and the rest of its time is free for others.' : 'Its room is free for others at once.';
    if (await ask('Cancel this reservation?', h('p', null, text), [['', 'Keep it'], ['cancel', 'Cancel reservation', 'danger']]) !== 'cancel') return '';
    await api.cancel(id);
    return 'cancelled';
  };

  const decline = async () => {
    const choices = [['', 'Close'], ['block', `Decline and block ${owner}`], ['decline', 'Decline', 'primary']];
    const chosen = await ask('Decline the invitation?', h('p', null, `It is no longer shown to you. If you block ${owner}, further invitations are not shown either.`), choices);
    if (!chosen) return '';
    await api.answerInvitation(id, 'declined');
    if (chosen === 'block') await api.block(owner);
    // It cannot be shown any more.
    announce('declined');
    window.location.hash = '#/mine';
    return '';
  };

  if (!mine) {
    const isOver = ['completed', 'cancelled', 'terminated', 'expired', 'rejected'].includes(now);
    const accept = async () => { await api.answerInvitation(id, 'accepted'); return 'accepted'; };
    return isOver ? [] : [reservation.invitation && button('accept', 'Accept', 'primary', accept), button('decline', 'Decline …', '', decline)].filter(Boolean);
  }
  const isBooked = ['committed', 'active', 'change-requested'].includes(now);
  return [
    now === 'held' && button('commit', 'Commit', 'primary', async () => { await api.commit(id); return 'committed'; }),
    now === 'held' && button('prolong', 'Hold longer …', '', prolong),
    isBooked && button('extend', 'Extend …', '', extend), isBooked && reservation.request && button('change', 'Change …', '', change),
    isBooked && button('release', 'Release …', '', release), (isBooked || now === 'held') && reservation.request && button('share', 'Share …', '', share),
    (isBooked || now === 'held') && button('cancel', now === 'held' ? 'Give back …' : 'Cancel …', 'danger', cancel),
  ];
}
