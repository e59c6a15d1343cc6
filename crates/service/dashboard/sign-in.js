// Sign-in: a token pasted once, the identity provider, or a name in an open demo. And signing out.

import { api } from './api.js';
import { announce, busy, field, fill, h } from './dom.js';
import { route } from './route.js';
import { change, state } from './state.js';

// In an open demo any name will do; these are the names of the guided tour.
const NAMES = ['ada', 'bob', 'eve', 'grace'];

export function showSignIn(main) {
  const fault = h('p.error', { role: 'alert', hidden: true });
  const back = route().params.back || '/timeline';
  const card = h('section.card.sign-in', { id: 'sign-in' });
  fill(main, h('div.page.small', null, card));

  async function enter(body) {
    fault.hidden = true;
    try {
      const session = await busy(card, api.signIn(body));
      change('session', { user: session?.user ?? null, signIn: session?.sign_in || state.signIn });
      announce(`signed in as ${state.user?.name}`);
      location.hash = `#${back.startsWith('/') ? back : `/${back}`}`;
    } catch (error) {
      fault.textContent = error.message;
      fault.hidden = false;
    }
  }

  async function leave() {
    try {
      const session = await api.signOut();
      change('session', { user: null, signIn: session?.sign_in || state.signIn });
      draw();
    } catch (error) {
      fault.textContent = error.message;
      fault.hidden = false;
    }
  }

  function draw() {
    const { token, oidc, choose_user: choose } = state.signIn;
    const pasted = h('input', { id: 'token', name: 'token', type: 'password', autocomplete: 'off', required: true });
    const name = h('input', { id: 'user-name', name: 'user', autocomplete: 'username', placeholder: 'another name' });
    fill(card, h('h1', null, state.user ? `Signed in as ${state.user.name}` : 'Sign in'), h('p.soft', null, `to ${state.service.name || 'Bookahead'}`), fault,
      state.user && h('p', null, state.user.operator && 'You are an operator. ', h('button.button', { type: 'button', id: 'sign-out', onclick: leave }, 'Sign out')),
      choose && h('section', null, h('h2', null, 'Choose a user'), h('p.soft', null, 'This demo has no authentication: take any name.'),
        h('div.actions.start', { id: 'choose-user' }, NAMES.map((one) => h('button.button', { type: 'button', 'data-user': one, onclick: () => enter({ user: one }) }, one))),
        h('form.inline', { onsubmit: (event) => { event.preventDefault(); if (name.value.trim()) enter({ user: name.value.trim() }); } },
          h('label.hidden', { for: 'user-name' }, 'Another name'), name, h('button.button', { type: 'submit' }, 'Use'))),
      oidc && h('section', null, h('a.button.primary.wide', { id: 'oidc', href: `v1/session/oidc?back=${encodeURIComponent(`#${back}`)}` }, 'Sign in with your institution')),
      token && h('section', null, h('h2', null, 'Token'), h('form', { id: 'token-form', onsubmit: (event) => { event.preventDefault(); enter({ token: pasted.value.trim() }); } },
        field('Paste a token', pasted, 'It is sent once and kept in a cookie that scripts cannot read.'), h('button.button', { type: 'submit' }, 'Sign in'))));
  }
  draw();
}
