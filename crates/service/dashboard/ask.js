// The panel beside the picture: the form, offers, a refusal, holds, and the selected box.

import { api } from './api.js';
import { announce, busy, fill, h, select } from './dom.js';
import { detailsOf, slotText } from './details.js';
import { heldCards } from './holds.js';
import { requestForm } from './form.js';
import { refreshHeld, refreshSchedule, timed } from './live.js';
import { counted, showRefusal } from './refusal.js';
import { formOf, groupOffers, makeRequest, requestFor, sortOffers } from './request.js';
import { go } from './route.js';
import { change, on, state } from './state.js';
import { clockRate, hourMinute, length, nowSeconds, plural, range, seconds, short, stamp } from './time.js';

// By the clock of the person who looks at the page.
const HOLD_FOR = 300;
// More offers than are shown: those that differ only a little are shown as one.
const ASKED = 24, LEAST = 3, SHOWN = 6;
const SORTS = [['least-impact', 'least delay'], ['earliest-end', 'earliest'], ['lowest-cost', 'cheapest']];

export const costText = (cost) => (cost > 0 ? `cost ${cost.toFixed(2)}` : 'no cost');

export function delayText(offer) {
  if (!offer.delayed) return 'nobody waits longer';
  return `${plural(offer.delayed, 'job')} later${offer.longest ? `, up to ${length(offer.longest)}` : ''}`;
}

// Whole minutes for which an offer can be held: a hold does not outlast the begin of what it holds. What begins sooner
// than in a minute is committed at once, because nobody could decide in that time.
const minutesOf = ({ begin }) => Math.floor(Math.min(HOLD_FOR, (begin - nowSeconds()) / clockRate()) / 60);

export function askPanel() {
  let request = null, objective = 'least-impact', number = 0;
  const effects = new Map();
  const form = requestForm(send);
  const results = h('div.results', { id: 'results' });
  const details = h('div', { id: 'details' });
  const holds = heldCards();
  const element = h('aside.side', { id: 'ask', 'aria-label': 'Ask', tabindex: '-1' }, details, holds, h('h2', null, 'Ask'), form.element, results);

  async function send(values) {
    const mine = ++number;
    form.clearFaults();
    clear();
    try {
      await busy(element, ask(values, mine));
    } catch (error) {
      if (mine !== number) return;
      if (error.field) form.showFault(error);
      else refuse(error, values.parts.length);
    }
  }

  async function ask(values, mine) {
    request = await makeRequest({ ...values, objective });
    const answer = await api.probe(request, ASKED);
    if (mine !== number) return;
    await askLater(answer);
    if (mine !== number) return;
    const offers = sortOffers(groupOffers(answer), objective).slice(0, SHOWN);
    change('offers', { offers, blockers: [], chosen: null, effect: [] });
    showOffers(answer);
    announce(offers.length ? `${plural(offers.length, 'offer')}; the first: ${range(offers[0].begin, offers[0].end)}, ${delayText(offers[0])}` : 'no offers');
  }

  // The best offers often differ by minutes only. Later ones are asked for too, so that there is a choice.
  async function askLater(answer) {
    for (let round = 0; round < 2 && groupOffers(answer).length < LEAST; round++) {
      const last = Math.max(...answer.offers.flatMap(({ slots }) => slots.map((slot) => seconds(slot.end))));
      const later = request.parts.map((part) => ({ ...part, earliest_start: stamp(Math.max(last, seconds(part.earliest_start))) }));
      const hasRoom = later.every((part) => seconds(part.latest_end) - seconds(part.earliest_start) >= part.duration_seconds);
      if (!hasRoom) return;
      try {
        answer.offers.push(...(await api.probe({ ...request, parts: later }, ASKED)).offers);
      } catch {
        return;
      }
    }
  }

  function clear() {
    effects.clear();
    fill(results);
    change('offers', { offers: [], blockers: [], chosen: null, effect: [], hovered: null });
  }

  function refuse(error, parts) {
    change('offers', { offers: [], chosen: null, effect: [], blockers: error.document?.blockers || [] });
    fill(results, showRefusal(error, parts, (changed) => {
      const next = { ...changed, name: request?.name, labels: request?.labels };
      form.set(formOf(next));
      objective = SORTS.some(([key]) => key === changed.objective) ? changed.objective : objective;
      sendRequest(next);
    }));
    results.scrollIntoView({ block: 'nearest' });
    announce(`Refused: ${counted(error.message, parts)}`);
  }

  // A counter-offer is already a document; its times need no reading.
  async function sendRequest(document) {
    const mine = ++number;
    clear();
    request = { ...document, objective };
    for (const key of ['name', 'labels']) if (request[key] === undefined) delete request[key];
    try {
      const answer = await busy(element, api.probe(request, ASKED));
      if (mine !== number) return;
      change('offers', { offers: sortOffers(groupOffers(answer), objective).slice(0, SHOWN), blockers: [], chosen: null, effect: [] });
      showOffers(answer);
      choose(state.offers[0]?.key);
      results.querySelector('.offer')?.focus();
      announce(`${plural(state.offers.length, 'offer')}`);
    } catch (error) {
      if (mine === number) refuse(error, document.parts.length);
    }
  }

  function showOffers(answer) {
    const { offers } = state;
    if (!offers.length) {
      fill(results, h('p', { id: 'no-offers' }, 'No offers in this window. Widen the window or ask for less.'));
      return;
    }
    const sort = select(SORTS, objective, { id: 'sort', 'aria-label': 'Sort offers by', onchange: () => {
      objective = sort.value;
      send(form.read());
    } });
    const hold = h('button.button.primary.wide', { type: 'button', id: 'hold', disabled: true, onclick: take }, 'Choose an offer');
    fill(results, h('div.title-row', null, h('h3', null, plural(offers.length, 'offer')), h('label.sort', null, 'by: ', sort)),
      h('div.offers', { id: 'offers', role: 'radiogroup', 'aria-label': 'Offers', onkeydown: arrows }, offers.map(card)),
      (answer.maintenance || []).slice(0, 4).map((one) => h('p.soft.maintenance', null, `Maintenance “${one.name}”: ${range(seconds(one.begin), seconds(one.end))}`)),
      answer.looked_seconds_ago > 0 && h('p.soft', null, `as of ${length(answer.looked_seconds_ago)} ago`),
      h('div.take', null, h('p.note', { id: 'effect', 'aria-live': 'polite', hidden: true }), hold));
  }

  function card(offer, at) {
    const sites = offer.slots[0].site;
    return h(`button.offer${offer.delayed ? '.delays' : '.good'}`, {
      type: 'button', role: 'radio', 'aria-checked': 'false', 'data-offer': offer.key, 'data-delayed': offer.delayed, tabindex: at ? '-1' : '0',
      onclick: () => choose(offer.key), onpointerenter: () => hover(offer.key), onpointerleave: () => hover(null),
      onfocus: () => hover(offer.key), onblur: () => hover(null),
    },
    h('span.line', null, h('strong', null, range(offer.begin, offer.end)), offer.slots.length === 1 && h('span', null, sites)),
    offer.slots.length > 1 && offer.slots.map((slot) => h('span.line.soft', null, h('span', null, slotText(slot)),
      h('span', null, offer.slots.every((one) => one.begin === slot.begin) ? '' : short(seconds(slot.begin))))),
    h('span.line', null, h('span.delay', null, h('span', { 'aria-hidden': 'true' }, offer.delayed ? '◷ ' : '✓ '), delayText(offer)), h('span', null, costText(offer.cost))),
    offer.similar > 0 && h('span.line.soft', null, offer.similar === 1 ? `or at ${hourMinute(offer.latest)}` : `or ${offer.similar} other starts until ${hourMinute(offer.latest)}`));
  }

  function arrows(event) {
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const cards = [...results.querySelectorAll('.offer')];
    const next = cards[(cards.indexOf(document.activeElement) + step + cards.length) % cards.length];
    next.focus();
    choose(next.dataset.offer);
  }

  function hover(key) {
    if (state.hovered === key) return;
    change('offer-hover', { hovered: key });
    showEffect();
  }

  function choose(key) {
    const offer = state.offers.find((one) => one.key === key);
    if (!offer) return;
    change('offer-hover', { chosen: key });
    for (const one of results.querySelectorAll('.offer')) {
      const isIt = one.dataset.offer === key;
      one.setAttribute('aria-checked', String(isIt));
      one.tabIndex = isIt ? 0 : -1;
    }
    const hold = results.querySelector('#hold');
    hold.disabled = false;
    const minutes = minutesOf(offer);
    hold.textContent = !state.user ? 'Sign in to hold' : minutes > 0 ? `Hold for ${plural(minutes, 'minute')}` : 'Book now';
    hold.dataset.book = minutes > 0 ? 'later' : 'now';
    showEffect();
  }

  // What the offer under the pointer, else the chosen one, would do to waiting jobs.
  async function showEffect() {
    const key = state.hovered || state.chosen;
    const offer = state.offers.find((one) => one.key === key);
    const note = results.querySelector('#effect');
    if (!offer || !note) {
      change('effect', { effect: [] });
      return;
    }
    if (!effects.has(key)) {
      const asked = Promise.all(offer.slots.map((slot) => api.whatIf(slot).catch(() => null)));
      effects.set(key, asked.then((answers) => answers.filter(Boolean)));
    }
    const effect = await effects.get(key);
    if (key !== (state.hovered || state.chosen)) return;
    change('effect', { effect });
    const delays = effect.flatMap((one) => one.delayed || []);
    // It stays once it is there, so that the button below it does not move away from the pointer.
    note.hidden = !state.chosen;
    const longest = Math.max(0, ...delays.map((one) => one.delay_seconds));
    note.textContent = delays.length
      ? `${plural(delays.length, 'planned job')} would start later, by up to ${length(longest)}. The arrows show where they would go.`
      : effect.length ? 'All planned jobs keep their start.' : 'The effect on planned jobs is not known.';
  }

  // If someone else was faster, a similar start of the same offer is as good.
  async function reserve(offer) {
    try {
      return await api.reserve(requestFor(request, offer), HOLD_FOR * clockRate());
    } catch (error) {
      if (!['no-room', 'no-window', 'no-candidate'].includes(error.code) || !offer.latest) throw error;
      return api.reserve(requestFor(request, offer, true), HOLD_FOR * clockRate());
    }
  }

  async function take() {
    const offer = state.offers.find((one) => one.key === state.chosen);
    if (!offer) return;
    if (!state.user) {
      go('sign-in', { back: '/timeline' });
      return;
    }
    const hold = results.querySelector('#hold');
    const isNow = hold.dataset.book === 'now';
    hold.disabled = true;
    try {
      const reservation = await busy(element, reserve(offer).then((one) => (isNow ? api.commit(one.id) : one)));
      if (isNow) change('selected', { selected: { id: reservation.id, lane: offer.slots[0].resource } });
      else change('held', { held: [timed(reservation), ...state.held.filter((one) => one.reservation.id !== reservation.id)] });
      clear();
      refreshSchedule();
      refreshHeld();
      announce(isNow ? 'committed' : 'held; commit it before the time is up');
      (element.querySelector('[data-action="commit"]') || element).focus();
    } catch (error) {
      refuse(error, offer.slots.length);
      results.querySelector('button')?.focus();
    }
  }

  on('offer-hover', () => {
    for (const one of results.querySelectorAll('.offer')) one.classList.toggle('hovered', one.dataset.offer === state.hovered);
    // The pointer may be over the picture instead of the list.
    if (state.hovered) showEffect();
  });
  on('offer-choose', () => choose(state.wantedOffer));
  on('selected', () => fill(details, detailsOf(state.selected)));
  on('event', (event) => {
    if (state.selected?.id && event.reservation === state.selected.id) fill(details, detailsOf(state.selected));
  });
  on('session', () => state.chosen && choose(state.chosen));
  queueMicrotask(() => form.refresh());
  return element;
}
