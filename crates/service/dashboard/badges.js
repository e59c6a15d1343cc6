// States as words with a colour and a sign, the same words as on the command line.

import { h } from './dom.js';

const TONE = {
  held: 'held', requested: 'held', 'change-requested': 'held', committed: 'good', active: 'good', running: 'good', up: 'good', ok: 'good',
  ready: 'good', done: 'quiet', completed: 'quiet', expired: 'quiet', cancelled: 'quiet', rejected: 'bad', terminated: 'bad', silent: 'bad', lost: 'bad',
  slow: 'held', waiting: 'held', placing: 'held', claiming: 'held', 'out-of-time': 'bad', 'could-not-start': 'bad', 'reservation-over': 'quiet',
};
// States of jobs that are no words of their own.
const WORDS = {
  claiming: 'waiting for permission to start', 'out-of-time': 'out of time', 'reservation-over': 'ended with its reservation', 'could-not-start': 'could not start',
};
export const stateWord = (state) => WORDS[state] || state;
const SIGN = { good: '●', held: '◔', bad: '!', quiet: '○' };

export function badge(word, tone = TONE[word] || 'quiet') {
  return h(`span.badge.${tone}`, { 'data-state': word }, h('span', { 'aria-hidden': 'true' }, SIGN[tone]), ` ${stateWord(word)}`);
}

export function stateBadge(reservation) {
  const { condition, refused, invitation } = reservation;
  if (invitation) return h('span', null, badge(reservation.state), ' ', badge('invitation', 'held'));
  const broken = condition && condition !== 'whole' && !['cancelled', 'completed', 'terminated', 'expired', 'rejected'].includes(reservation.state);
  if (broken) return h('span', null, badge(reservation.state), ' ', badge(condition, 'bad'));
  return refused ? badge(`rejected: ${refused.code}`, 'bad') : badge(reservation.state);
}
