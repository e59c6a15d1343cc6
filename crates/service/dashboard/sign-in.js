// Sign-in: a token pasted once, the identity provider, or a name in an open demo. And signing out.

import { api } from './api.js';
import { announce, busy, field, fill, h } from './dom.js';
import { route } from './route.js';
import { change, state } from './state.js';

// In an open demo any name will do; these are the names of the guided tour, and the one that may see and change all.
const NAMES = ['ada', 'bob', 'eve', 'grace', 'operator'];

// Why the identity provider's page led back here without a user.
const FAULTS = {
  stale: 'That took too long, or was begun in another browser. Sign in again.',
  denied: 'Your institution refused to sign you in.',
  refused: 'The answer of your institution was refused. The operator of this service finds the reason in its log.',
  unavailable: 'Your institution cannot be asked at present. Try again in a moment.',
};

// Read when it is needed, because the address may change while this view is shown.
const back = () => route().params.back || '/timeline';

export function showSignIn(main) {
  const came = FAULTS[route().params.fault];
  const fault = h('p.error', { role: 'alert', hidden: !came }, came);
  const card = h('section.card.sign-in', { id: 'sign-in' });
  fill(main, h('div.page.small', null, card));

  async function enter(body) {
    fault.hidden = true;
    try {
      const session = await busy(card, api.signIn(body));
      change('session', { user: session?.user ?? null, signIn: session?.sign_in || state.signIn });
      announce(`signed in as ${state.user?.name}`);
      location.hash = `#/${back().replace(/^\//, '')}`;
    } catch (error) {
      fault.textContent = error.message;
      fault.hidden = false;
    }
  }

  async function leave(everywhere) {
    try {
      const session = everywhere ? await api.signOutEverywhere() : await api.signOut();
      change('session', { user: null, signIn: session?.sign_in || state.signIn });
      draw();
      announce(everywhere ? 'signed out everywhere' : 'signed out');
      main.focus();
    } catch (error) {
      fault.textContent = error.message;
      fault.hidden = false;
    }
  }

  function draw() {
    const { token, oidc, choose_user: choose } = state.signIn;
    // A portal in front of the service signs its users in and out.
    const ways = token || oidc || choose;
    const pasted = h('input', { id: 'token', name: 'token', type: 'password', autocomplete: 'off', required: true });
    const name = h('input', { id: 'user-name', name: 'user', autocomplete: 'username', placeholder: 'another name' });
    fill(card, h('h1', null, state.user ? `Signed in as ${state.user.name}` : 'Sign in'), h('p.soft', null, `${state.user ? 'at' : 'to'} ${state.service.name || 'Bookahead'}${state.user?.operator ? ', as an operator' : ''}`), fault,
      !ways && h('p', null, state.user ? 'Your portal has signed you in.' : 'Your portal has not signed you in. Reload the page, or renew your token.'),
      state.user && ways && h('section', null, h('div.actions.start', null, h('button.button', { type: 'button', id: 'sign-out', onclick: () => leave() }, 'Sign out'),
        !choose && h('button.button', { type: 'button', id: 'sign-out-everywhere', title: 'Ends all your sessions and tokens at this service', onclick: () => leave(true) }, 'Sign out everywhere'))),
      choose && h('section', null, h('h2', null, state.user ? 'Change the user' : 'Choose a user'), h('p.soft', null, 'There are no passwords here: choose any name.'),
        h('div.actions.start', { id: 'choose-user' }, NAMES.map((one) => h('button.button', { type: 'button', 'data-user': one, onclick: () => enter({ user: one }) }, one))),
        h('form.inline', { onsubmit: (event) => { event.preventDefault(); if (name.value.trim()) enter({ user: name.value.trim() }); } },
          h('label.hidden', { for: 'user-name' }, 'Another name'), name, h('button.button', { type: 'submit' }, 'Use'))),
      oidc && h('section', null, h('a.button.primary.wide', { id: 'oidc', href: `sign-in?back=${encodeURIComponent(`#${back()}`)}` }, 'Sign in with your institution')),
      token && h('section', null, h('h2', null, 'Token'), h('form', { id: 'token-form', onsubmit: (event) => { event.preventDefault(); enter({ token: pasted.value.trim() }); } },
        field('Paste a token', pasted, 'It is sent once and kept in a cookie that scripts cannot read.'), h('button.button', { type: 'submit' }, 'Sign in'))));
  }
  draw();
}
