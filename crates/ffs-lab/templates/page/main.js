// Puts the figures into the page, and follows the address.

document.documentElement.classList.add('alive');
document.body.append(tip.box);
state.read();

const places = [['gains', gainsFigure], ['whatif-figure', whatIfFigure], ['numbers', numbersFigure]];
for (const [id, make] of places) {
  const place = document.getElementById(id);
  if (place) make(place);
}
document.querySelectorAll('.inside[id]').forEach(resultFigures);
const curves = document.getElementById('curves');
if (curves) curveFigures(curves);
sortable(document);

// A drawing gets its tooltips when the pointer or the focus first comes near it.
for (const svg of document.querySelectorAll('svg.v')) {
  svg.setAttribute('tabindex', '0');
  svg.addEventListener('pointerenter', () => enliven(svg), { once: true });
  svg.addEventListener('focus', () => enliven(svg), { once: true });
}

// The entry of the section in view.
const entries = new Map([...document.querySelectorAll('nav a')]
  .map(a => [a.getAttribute('href').slice(1), a]));
const seen = new IntersectionObserver(found => found.forEach(({ target, isIntersecting }) => {
  if (!isIntersecting) return;
  entries.forEach(a => a.removeAttribute('aria-current'));
  entries.get(target.dataset.entry).setAttribute('aria-current', 'true');
}), { rootMargin: '-20% 0px -75% 0px' });
document.querySelectorAll('main > section[id]').forEach(section => {
  const entry = section.id.startsWith('b-') ? 'benchmarks' : section.id;
  section.dataset.entry = entry;
  if (entries.has(entry)) seen.observe(section);
});

addEventListener('hashchange', () => {
  const plain = !location.hash.includes('?');
  const section = state.read();
  if (!plain) state.listeners.forEach(update => update());
  else if (state.values.size) state.write();
  reveal(section);
});
reveal(state.read());

// On paper everything that is closed and has figures is open.
addEventListener('beforeprint', () => tip.hide());
addEventListener('scroll', () => tip.scrolled(), { passive: true });
