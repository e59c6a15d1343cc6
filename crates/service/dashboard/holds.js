// Cards of own holds: a countdown as bar and number, and the two ways out of it.

import { api } from './api.js';
import { announce, busy, h, isLocked, lock, refill } from './dom.js';
import { slotText } from './details.js';
import { leftOf, refreshHeld, refreshSchedule } from './live.js';
import { counted } from './refusal.js';
import { hashOf } from './route.js';
import { change, on, state } from './state.js';
import { countdown, range, seconds } from './time.js';

export function heldCards() {
  const element = h('div.holds', { id: 'holds' });
  let timer = 0;
  // Refusals by id, because each refresh draws the cards again.
  const faults = new Map();

  function draw() {
    refill(element, state.expired.map(expired), state.held.map(card));
    clearInterval(timer);
    if (state.held.length) timer = setInterval(tick, 250);
    tick();
  }

  function expired(reservation) {
    const close = () => change('held', { expired: state.expired.filter((one) => one !== reservation) });
    return h('section.hold.over', { 'data-expired': reservation.id }, h('div.title-row', null, h('h2', null, 'Expired', reservation.name && `: ${reservation.name}`),
      h('button.icon-button', { type: 'button', 'aria-label': 'Close', 'data-action': 'close', 'data-id': reservation.id, onclick: close }, '×')),
    h('p.soft', null, 'It was not committed in time. Its room is free again.'));
  }

  function card(hold) {
    const { reservation } = hold;
    const { slots, id } = reservation;
    const act = (work, text) => async (event) => {
      const buttons = [...event.target.parentElement.querySelectorAll('button')];
      if (isLocked(event.target)) return;
      buttons.forEach((one) => lock(one, true));
      faults.delete(id);
      hold.settled = true;
      try {
        const after = await busy(element, work(id));
        change('selected', { selected: after.state === 'committed' ? { id, lane: slots[0]?.resource } : null });
        change('held', { held: state.held.filter((one) => one.reservation.id !== id) });
        announce(text);
        refreshSchedule();
      } catch (error) {
        hold.settled = false;
        faults.set(id, counted(error.message, slots.length));
        draw();
        refreshHeld();
      }
    };
    const whole = slots.every((slot) => slot.begin === slots[0].begin && slot.end === slots[0].end);
    return h('section.hold', { 'data-hold': id, 'aria-label': `Held: ${reservation.name || id}` },
      h('div.title-row', null, h('h2', null, 'Held', reservation.name && `: ${reservation.name}`),
        h('strong.left', null, h('span', { 'data-left': id }, countdown(leftOf(hold))), ' left')),
      slots.length > 0 && whole && h('p.soft', null, range(seconds(slots[0].begin), seconds(slots[0].end))),
      h('ul.plain', null, slots.map((slot) => h('li', null, slotText(slot),
        !whole && h('span.soft', null, ` ${range(seconds(slot.begin), seconds(slot.end))}`)))),
      h('div.meter', { 'aria-hidden': 'true' }, h('div', { 'data-bar': id })), faults.has(id) && h('p.error', { role: 'alert' }, faults.get(id)),
      h('div.actions', null, h('a.link', { href: hashOf(`reservation/${id}`) }, 'Details'),
        h('button.button', { type: 'button', 'data-action': 'give-back', 'data-id': id, onclick: act(api.cancel, 'given back') }, 'Give back'),
        h('button.button.primary', { type: 'button', 'data-action': 'commit', 'data-id': id, onclick: act(api.commit, 'committed') }, 'Commit')));
  }

  function tick() {
    for (const hold of state.held) {
      const { id } = hold.reservation;
      const left = leftOf(hold);
      const text = element.querySelector(`[data-left="${id}"]`);
      const bar = element.querySelector(`[data-bar="${id}"]`);
      if (text) text.textContent = countdown(left);
      if (bar) bar.style.width = `${Math.min(100, (100 * left) / (hold.lasts || 1))}%`;
      if (left === 0 && !hold.over) {
        hold.over = true;
        for (const button of element.querySelectorAll(`[data-hold="${id}"] button`)) lock(button, true);
        refreshHeld();
        refreshSchedule();
      }
    }
  }

  on('held', draw);
  draw();
  return element;
}
