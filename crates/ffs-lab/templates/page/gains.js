// The gains of the switches: one row for each result, a piece for each switch.

const names = data.factors.map(factor => factor.name);
const full = (1 << names.length) - 1;

// The steps from no switch to all, and the best.
function measuredSteps(result) {
  if (!result.path) return null;
  const steps = result.path.map(([factor, gain, significant]) => ({ factor, gain, significant }));
  return { steps, all: steps.reduce((all, step) => all * step.gain, 1) };
}

// The published combinations in the order of inclusion, the most helpful first.
function publishedSteps(result) {
  const times = result.published;
  if (!times || times[0] === undefined) return null;
  let at = 0, all = 1;
  const steps = [];
  for (;;) {
    const more = Object.keys(times).map(Number).filter(m => m !== at && (m & at) === at);
    const size = mask => maskName(mask & ~at, names).split('+').length;
    const least = Math.min(...more.map(size));
    const next = more.filter(m => size(m) === least).sort((a, b) => times[a] - times[b])[0];
    if (next === undefined) break;
    const gain = times[at] / times[next];
    steps.push({ mask: next & ~at, gain, significant: true });
    all *= gain;
    at = next;
  }
  return { steps, all, mask: at };
}

const gainAt = (result, mask) =>
  result.costs[0] && result.costs[mask] ? result.costs[0] / result.costs[mask] : null;

function stepWords(step) {
  const name = step.mask === undefined ? names[step.factor] : maskName(step.mask, names);
  return `${name} ${times(step.gain)}${step.significant ? '' : ' (not significant)'}`;
}

// The pieces of a bar, and its dashed continuation to the best combination.
function pieces(path, best) {
  const marks = [];
  let level = 1;
  for (const step of path.steps) {
    const to = level * step.gain;
    const factor = step.factor ?? names.findIndex((_, bit) => step.mask >> bit & 1);
    if (to > level) {
      const name = step.mask === undefined ? data.factors[factor].name : maskName(step.mask, names);
      marks.push({
        from: Math.min(level, path.all), to: Math.min(to, path.all),
        class: `b${factor % 8}${step.significant ? '' : ' dull'}`,
        text: step.significant ? name : '',
      });
    }
    level = to;
  }
  if (path.all < 1) marks.push({ from: path.all, to: 1, class: 'loss' });
  if (best && best > path.all * 1.01) {
    marks.push({ from: Math.max(1, path.all), to: best, class: 'rest' });
  }
  return marks;
}

// The results of the figure: those of Figure 10, and all of benchmarks that it lacks.
function gainResults(apart) {
  const inFigure = new Set(data.results.filter(r => r.named).map(r => r.bench));
  const all = data.results.filter(r => r.kind !== 'cpu-percent' && (r.named || !inFigure.has(r.bench)));
  if (apart) return all.map(result => ({ result, alike: [] }));
  const rows = new Map();
  for (const result of all) {
    if (rows.has(result.like)) rows.get(result.like).alike.push(result);
    else rows.set(result.like, { result, alike: [] });
  }
  return [...rows.values()];
}

function gainRow({ result, alike }, view) {
  const here = measuredSteps(result), there = publishedSteps(result);
  const bench = data.benchmarks[result.bench].title;
  const label = result.title + (alike.length ? ` and ${alike.length} alike` : '');
  const best = result.best;
  const tipLines = () => [
    `${bench}: ${result.title}`,
    here && `here: ${times(here.all)} with all; ${here.steps.map(stepWords).join(', ')}`,
    best && here && best[1] > here.all * 1.01 && `best: ${times(best[1])} with ${maskName(best[0], names)}`,
    there && `published: ${times(there.all)} with ${maskName(there.mask, names)}; ` +
      there.steps.map(stepWords).join(', '),
    result.named && `significant in the paper's Figure 10: ${result.named.join(', ') || 'none'}`,
    alike.length && `alike within 2 %: ${alike.map(other => other.title).join(', ')}`,
  ].filter(Boolean);
  const ratio = there && gainAt(result, there.mask) && gainAt(result, there.mask) / there.all;
  const row = { label, href: result.id, tip: tipLines, group: bench, result, here, there, ratio };
  if (view === 'here') {
    if (!here) return { ...row, value: 'combinations are missing', order: 0 };
    return { ...row, marks: pieces(here, best && best[1]), value: times(here.all), order: here.all };
  }
  if (view === 'published') {
    if (there) return { ...row, marks: pieces(there), value: times(there.all), order: there.all };
    if (result.named) return { ...row, value: result.named.join(', ') || 'none', class: 'words', order: 0 };
    return null;
  }
  if (!ratio) return null;
  const near = nearness(ratio);
  return {
    ...row, marks: [{ at: ratio, class: near }], value: times(ratio), class: near, order: ratio,
  };
}

function drawGains(chart) {
  const view = state.get('g-view', 'here'), sort = state.get('g-sort', 'plan');
  const bench = state.get('g-bench', ''), option = state.get('g-switch', '');
  const bit = names.indexOf(option);
  const step = row => row.here && row.here.steps.find(s => s.factor === bit);
  let rows = gainResults(state.get('g-all', '') === '1').map(each => gainRow(each, view))
    .filter(Boolean);
  const all = rows.length;
  if (bench) rows = rows.filter(row => data.benchmarks[row.result.bench].words === bench);
  if (bit >= 0) rows = rows.filter(row => step(row) && step(row).significant);
  const key = { gain: row => row.order, far: row => Math.abs(Math.log(row.ratio || 1)) }[sort] ||
    (bit >= 0 && sort === 'switch' ? row => step(row).gain : null);
  if (key) rows.sort((a, b) => key(b) - key(a));
  const high = Math.max(1.5, ...rows.map(row => Math.max(row.order,
    view === 'here' && row.result.best ? row.result.best[1] : 0)));
  const low = Math.min(1, ...rows.map(row => row.order).filter(order => order > 0));
  const away = Math.max(2, high, 1 / low) * 1.05;
  const axis = view === 'ratio' ? axes.log(1 / away, away) : axes.log(low < 0.995 ? low : 1, high);
  const band = view === 'ratio' ? [1 / 1.3, 1.3] : null;
  const titles = key ? [''] : [...new Set(rows.map(row => row.group))];
  const groups = titles.map((title, n) => ({
    title, axis, band, format: times2,
    rows: rows.filter(row => key || row.group === title)
      .map(row => key ? { ...row, label: `${row.group}: ${row.label}` } : row),
    head: n === 0,
  }));
  drawRows(chart, groups, 'No result has such a number.');
  const note = {
    here: 'How many times better a result is with all switches than with none. The pieces are the ' +
      'gains of the switches; a dashed piece goes on to the best combination.',
    published: 'The same from published times, where the combinations were published, without ' +
      'regard to their significance; elsewhere the switches that Figure 10 of the paper names, in ' +
      'its order.',
    ratio: 'The gain here divided by the published gain of the same combination. The band is a ' +
      'factor of 1.3 in both directions.',
  }[view];
  return {
    note: `${note} ${rows.length} of ${all} rows.`,
    heads: ['result', 'gain here', 'published gain', 'with', 'steps here', 'best'],
    rows: rows.map(row => [
      `${row.group}: ${row.label}`, row.here && times(row.here.all), row.there && times(row.there.all),
      row.there && maskName(row.there.mask, names), row.here && row.here.steps.map(stepWords).join(', '),
      row.result.best && `${maskName(row.result.best[0], names)} ${times(row.result.best[1])}`,
    ]),
  };
}

const times2 = value => '×' + short(value);

function gainsFigure(place) {
  const used = new Set(data.results.map(result => result.bench));
  const comparable = data.results.some(result => result.published || result.named);
  figure(place, redraw => [
    comparable && choices('Show', 'g-view',
      [['here', 'reproduced'], ['published', 'published'], ['ratio', 'ratio']], 'here', redraw),
    menu('Benchmark', 'g-bench', benchmarkOptions(used), '', redraw),
    names.length > 0 && menu('Significant switch', 'g-switch',
      [['', 'any'], ...data.factors.map(f => [f.name, f.long])], '', redraw),
    menu('Sort by', 'g-sort', [['plan', 'order of the study'], ['gain', 'gain'],
      ['switch', 'gain of the switch'], ['far', 'distance from the paper']], 'plan', redraw),
    check('results alike one by one', 'g-all', redraw),
  ], drawGains);
}
