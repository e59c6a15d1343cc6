// Cards of own holds: a countdown as bar and number, and the two ways out of it.

import { api } from './api.js';
import { announce, busy, fill, h } from './dom.js';
import { leftOf, refreshHeld, refreshSchedule } from './live.js';
import { counted } from './refusal.js';
import { hashOf } from './route.js';
import { change, on, state } from './state.js';
import { count, countdown, range, seconds } from './time.js';

export function heldCards() {
  const element = h('div.holds', { id: 'holds' });
  let timer = 0;

  function draw() {
    // The focus stays where it was, because a refresh replaces the buttons.
    const focused = element.contains(document.activeElement) && document.activeElement.dataset;
    const [id, action] = focused ? [focused.id, focused.action] : [];
    fill(element, state.held.filter((hold) => leftOf(hold) > 0).map(card));
    if (id) element.querySelector(`[data-id="${id}"][data-action="${action}"]`)?.focus();
    clearInterval(timer);
    if (state.held.length) timer = setInterval(tick, 250);
    tick();
  }

  function card(hold) {
    const { reservation } = hold;
    const { slots, id } = reservation;
    const fault = h('p.error', { role: 'alert', hidden: true });
    const act = (work, text) => async (event) => {
      const buttons = [...event.target.parentElement.querySelectorAll('button')];
      buttons.forEach((one) => { one.disabled = true; });
      try {
        const after = await busy(element, work(id));
        change('held', { held: state.held.filter((one) => one.reservation.id !== id) });
        change('selected', { selected: after.state === 'committed' ? { id, lane: slots[0]?.resource } : null });
        announce(text);
        refreshSchedule();
      } catch (error) {
        fault.textContent = counted(error.message, slots.length);
        fault.hidden = false;
        buttons.forEach((one) => { one.disabled = false; });
        refreshHeld();
      }
    };
    const whole = slots.every((slot) => slot.begin === slots[0].begin && slot.end === slots[0].end);
    return h('section.hold', { 'data-hold': id, 'aria-label': `Held: ${reservation.name || id}` },
      h('div.title-row', null, h('h3', null, 'Held', reservation.name && `: ${reservation.name}`),
        h('strong.left', null, h('span', { 'data-left': id }, countdown(leftOf(hold))), ' left')),
      slots.length > 0 && whole && h('p.soft', null, range(seconds(slots[0].begin), seconds(slots[0].end))),
      h('ul.plain', null, slots.map((slot) => h('li', null, `${slot.resource} ${count(slot.capacity)}`,
        !whole && h('span.soft', null, ` ${range(seconds(slot.begin), seconds(slot.end))}`)))),
      h('div.meter', { 'aria-hidden': 'true' }, h('div', { 'data-bar': id })), fault,
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
        announce('the hold has expired; its room is free again');
        element.querySelector(`[data-hold="${id}"]`)?.remove();
        refreshHeld();
        refreshSchedule();
      }
    }
  }

  on('held', draw);
  draw();
  return element;
}
