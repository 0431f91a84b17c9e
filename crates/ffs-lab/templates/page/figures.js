// The drawn figures: marks with the pointer and the keyboard, switches, and published beside
// reproduced. Tables that can be sorted.

function sortable(place) {
  place.querySelectorAll('table.sortable thead tr').forEach(heads => {
    [...heads.children].forEach((head, column) => {
      if (head.querySelector('button')) return;
      const button = h('button', { type: 'button', class: 'sort' }, ...head.childNodes);
      head.replaceChildren(button);
      button.addEventListener('click', () => {
        const down = head.getAttribute('aria-sort') === 'ascending';
        [...heads.children].forEach(other => other.removeAttribute('aria-sort'));
        head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        sortRows(heads.closest('table').tBodies[0], column, down ? -1 : 1);
      });
    });
  });
}

// The number at the beginning of a cell: `1 234 s`, `×2.1`, `−3`.
function numberIn(text) {
  const found = text.replace(/[\u202f×+≤]/g, '').replace(/−/g, '-').trim().match(/^-?[\d.]+(e-?\d+)?/);
  const unit = { s: 1, ms: 1e-3, 'µs': 1e-6 }[text.trim().split(' ').pop()] ?? 1;
  return found ? Number(found[0]) * unit : null;
}

function sortRows(body, column, direction) {
  const key = row => (row.cells[column] ? row.cells[column].textContent : '').trim();
  const rows = [...body.rows].map((row, n) => ({ row, n, text: key(row), value: numberIn(key(row)) }));
  rows.sort((a, b) => {
    if ((a.value === null) !== (b.value === null)) return a.value === null ? 1 : -1;
    const order = a.value !== null ? a.value - b.value : a.text.localeCompare(b.text);
    return direction * order || a.n - b.n;
  });
  body.append(...rows.map(each => each.row));
}

// The marks of a drawing that have words, in reading order.
function marksOf(svg) {
  return [...svg.querySelectorAll('line,rect,polygon,polyline,circle')]
    .filter(mark => mark.querySelector('title') && !mark.classList.contains('band'));
}

// The words of a mark as a tooltip. A curve has one for each of its points.
function enliven(svg) {
  const marks = marksOf(svg);
  if (!marks.length || svg.dataset.alive) return;
  svg.dataset.alive = '1';
  const curves = marks.filter(mark => mark.tagName === 'polyline');
  const words = new Map(marks.map(mark => [mark, mark.querySelector('title').textContent]));
  marks.forEach(mark => mark.querySelector('title').remove());
  const stops = curves.length ? curvePoints(svg, curves, words) : markPoints(svg, marks, words);
  const ring = document.createElementNS(svg.namespaceURI, 'circle');
  ring.setAttribute('class', 'ring');
  ring.setAttribute('r', '6');
  ring.style.visibility = 'hidden';
  svg.append(ring);
  const show = stop => {
    ring.setAttribute('cx', stop.x);
    ring.setAttribute('cy', stop.y);
    ring.style.visibility = 'visible';
    svg.setAttribute('aria-label', stop.lines.join(', '));
    tip.show(stop.lines, () => {
      const matrix = svg.getScreenCTM();
      return { x: stop.x * matrix.a + matrix.e, y: stop.y * matrix.d + matrix.f };
    });
  };
  const hide = () => { ring.style.visibility = 'hidden'; tip.hide(); };
  let at = -1;
  svg.addEventListener('pointermove', event => {
    const matrix = svg.getScreenCTM();
    const x = (event.clientX - matrix.e) / matrix.a, y = (event.clientY - matrix.f) / matrix.d;
    const far = stop => stop.distance(x, y);
    const near = stops.filter(stop => !stop.mark.classList.contains('away'))
      .reduce((best, stop) => !best || far(stop) < far(best) ? stop : best, null);
    if (near && far(near) < 16) show(near);
    else hide();
  });
  svg.addEventListener('pointerleave', hide);
  svg.setAttribute('tabindex', '0');
  svg.addEventListener('keydown', event => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === 'Escape') hide();
    if (!step) return;
    event.preventDefault();
    const seen = stops.filter(stop => !stop.mark.classList.contains('away'));
    at = Math.max(0, Math.min(seen.length - 1, at + step));
    if (seen[at]) show(seen[at]);
  });
  svg.addEventListener('blur', hide);
}

function markPoints(svg, marks, words) {
  const toSegment = (x, y, m) => {
    const [x1, y1, x2, y2] = ['x1', 'y1', 'x2', 'y2'].map(name => Number(m.getAttribute(name)));
    const [dx, dy] = [x2 - x1, y2 - y1];
    const part = Math.max(0, Math.min(1, ((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy || 1)));
    return Math.hypot(x - x1 - part * dx, y - y1 - part * dy) + 3;
  };
  return marks.map(m => {
    const box = m.getBBox();
    const middle = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
    const outside = (x, y) => Math.hypot(Math.max(box.x - x, 0, x - box.x - box.width),
      Math.max(box.y - y, 0, y - box.y - box.height));
    const distance = m.tagName === 'line' ? (x, y) => toSegment(x, y, m) : outside;
    return { mark: m, ...middle, distance, lines: words.get(m).split(/(?<=^[^:]*): /) };
  }).sort((a, b) => a.x - b.x || b.y - a.y);
}

// The points of curves, with the numbers of the table behind the figure.
function curvePoints(svg, curves, words) {
  const behind = svg.closest('figure').querySelector('table');
  const rows = behind ? [...behind.tBodies[0].rows] : [];
  const heads = behind ? [...behind.tHead.rows[0].cells].map(cell => cell.textContent) : [];
  return curves.flatMap(curve => {
    const name = words.get(curve), column = heads.indexOf(name);
    const filled = rows.filter(row => column > 0 && row.cells[column].textContent.trim() !== '–');
    const points = curve.getAttribute('points').split(' ').map(pair => pair.split(',').map(Number));
    return points.map(([x, y], n) => {
      const row = filled[n];
      const value = row && `${row.cells[column].textContent} µs at ${row.cells[0].textContent} entries`;
      const distance = (px, py) => Math.hypot(px - x, py - y);
      return { mark: curve, x, y, distance, lines: [name, value].filter(Boolean) };
    });
  });
}

// The ratios of the numbers at a workload and metric, as rows.
function ratioRows(place, fits) {
  const rows = data.numbers.filter(fits).map(number => numberRow(number, 'ratio')).filter(Boolean);
  const far = Math.max(2, ...rows.map(r => Math.max(r.number.ratio, 1 / r.number.ratio))) * 1.1;
  drawRows(place, [{
    title: '', axis: axes.log(1 / far, far), band: [1 / 1.3, 1.3], format: times2, rows,
  }], 'No published number was reproduced.');
}

// The controls of the figures of one result.
function resultFigures(place, n) {
  const result = data.results.find(r => r.id === place.id);
  const views = place.querySelectorAll('[data-view]');
  if (!result || !views.length) return;
  const key = 'r-' + result.id;
  const ratio = h('div', { class: 'ratios' });
  const update = () => {
    const view = state.get(key, 'here');
    views.forEach(part => { part.hidden = part.dataset.view !== view; });
    ratio.hidden = view !== 'ratio';
    if (view === 'ratio') {
      ratioRows(ratio, number => number.bench === result.bench
        && number.at.endsWith('/' + result.metric) && data.sections[number.section].counted);
    }
  };
  const off = new Set();
  const dim = () => place.querySelectorAll('svg.v .edge, svg.v polygon, svg.v line[class^="s"]')
    .forEach(part => part.classList.toggle('away',
      [...off].some(f => part.classList.contains('f' + f) || part.classList.contains('s' + f))));
  const tools = h('div', { class: 'tools' });
  const fill = () => {
    tools.replaceChildren(...[
      result.published && choices('Figures', key, [['here', 'reproduced'],
        ['published', 'published'], ['ratio', 'ratio']], 'here', update),
      names.length > 1 && h('fieldset', { class: 'choices' }, h('legend', null, 'Switches'),
        names.map((name, f) => h('label', { class: 't' + f % 8 }, h('input', {
          type: 'checkbox', checked: !off.has(f % 8),
          change: event => { off[event.target.checked ? 'delete' : 'add'](f % 8); dim(); },
        }), h('span', null, name)))),
    ].filter(Boolean));
    update();
  };
  views[0].before(tools, ratio);
  state.listeners.push(fill);
  fill();
}

// The curves: curves, published levels, or the ratios of published numbers.
function curveFigures(place) {
  const ratio = h('div', { class: 'card', hidden: true });
  const figures = place.querySelector('.grid');
  const update = () => {
    const view = state.get('c-view', 'both');
    figures.hidden = view === 'ratio';
    ratio.hidden = view !== 'ratio';
    figures.querySelectorAll('.curve').forEach(c => c.classList.toggle('away', view === 'published'));
    figures.querySelectorAll('.ref').forEach(c => c.classList.toggle('away', view === 'here'));
    if (view === 'ratio') ratioRows(ratio, number => number.at.startsWith('micro/'));
  };
  const tools = h('div', { class: 'tools' });
  const fill = () => {
    tools.replaceChildren(choices('Show', 'c-view', [['both', 'both'], ['here', 'reproduced'],
      ['published', 'published'], ['ratio', 'ratio']], 'both', update));
    update();
  };
  figures.before(tools, ratio);
  state.listeners.push(fill);
  fill();
}
