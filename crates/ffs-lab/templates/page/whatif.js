// What if: two settings of machine, memory and switches side by side, from results that were run.

// The settings of targets in which the studies of the page differ.
const settingNames = [...new Set(data.studies.flatMap(study => Object.keys(study.settings)))]
  .filter(name => new Set(data.studies.map(study => study.settings[name])).size > 1);
const allSwitches = [...new Set(data.studies.flatMap(study => study.factors))];

// One side of the comparison: the study with the chosen settings, and the switches.
function side(key, switches) {
  const on = state.get(key + '-on', switches).split(',').filter(name => allSwitches.includes(name));
  const value = name => state.get(`${key}-${name}`, data.studies[0].settings[name] || '');
  const fits = study => settingNames.every(name => (study.settings[name] || '') === value(name));
  const has = study => on.every(name => study.factors.includes(name));
  const found = data.studies.filter(fits);
  const study = found.find(has);
  const words = settingNames.map(name => `${name} ${value(name) || 'default'}`);
  const title = [...words, on.join('+') || 'no switch'].join(', ');
  const why = !found.length ? 'was not run'
    : study ? '' : `has no run with ${on.filter(n => !found[0].factors.includes(n)).join(', ')}`;
  const mask = study ? on.reduce((all, name) => all | 1 << study.factors.indexOf(name), 0) : 0;
  const cost = n => study && study.costs[n] ? study.costs[n][mask] ?? null : null;
  return { title, why, cost, on };
}

// The published seconds of a result with these switches. They are of the machine of the paper.
const publishedCost = (result, on) => {
  const mask = on.reduce((all, name) => all | (names.includes(name) ? 1 << names.indexOf(name) : 0), 0);
  return result.published && on.every(name => names.includes(name)) ? result.published[mask] : undefined;
};

function whatIfRow(result, n, from, to) {
  const before = from.cost(n), after = to.cost(n);
  const ratio = before !== null && after ? before / after : null;
  const bench = data.benchmarks[result.bench];
  const say = cost => cost === null ? 'not run' : `${short(shown(result, cost))} ${result.unit}`;
  const fullSize = Math.abs(bench.share - 1) < 0.01 ? '' : ' (at full size)';
  const published = side => {
    const cost = publishedCost(result, side.on);
    return cost === undefined ? null : `${short(cost)} s${fullSize}`;
  };
  return {
    label: result.title, group: bench.title, href: result.id, ratio, result,
    cells: [before, after].map(say), published: [published(from), published(to)],
    marks: ratio ? [{ from: 1, to: ratio, class: ratio >= 1 ? 'gain' : 'loss' }] : [],
    value: ratio ? times(ratio) : 'not run',
    tip: () => [
      `${bench.title}: ${result.title}`, `${from.title}: ${say(before)}`, `${to.title}: ${say(after)}`,
      ratio && (ratio >= 1 ? `${times(ratio)} better` : `${times(1 / ratio)} worse`),
      published(from) && `published: ${published(from)} with ${from.on.join('+') || 'none'}`,
      published(to) && `published: ${published(to)} with ${to.on.join('+') || 'none'}`,
    ].filter(Boolean),
  };
}

function drawWhatIf(chart) {
  const from = side('w', ''), to = side('v', names.join(','));
  const bench = state.get('w-bench', ''), sort = state.get('w-sort', 'plan');
  let rows = data.results.map((result, n) => ({ result, n }))
    .filter(({ result, n }) => result.kind !== 'cpu-percent'
      && (bench ? data.benchmarks[result.bench].words === bench : result.like === n))
    .map(({ result, n }) => whatIfRow(result, n, from, to));
  if (sort === 'gain') rows.sort((a, b) => (b.ratio || 0) - (a.ratio || 0));
  const ratios = rows.map(row => row.ratio).filter(Boolean);
  const axis = axes.log(Math.min(1, ...ratios), Math.max(1.1, ...ratios));
  const titles = sort === 'gain' ? [''] : [...new Set(rows.map(row => row.group))];
  drawRows(chart, titles.map(title => ({
    title, axis, format: times2,
    rows: rows.filter(row => !title || row.group === title)
      .map(row => title ? row : { ...row, label: `${row.group}: ${row.label}` }),
  })), 'There is no result.');
  const sorted = [...ratios].sort((a, b) => a - b);
  const half = ratios.length / 2;
  const middle = Math.sqrt(sorted[Math.ceil(half) - 1] * sorted[Math.floor(half)]);
  const why = [from, to].filter(s => s.why).map(s => `${s.title} ${s.why}.`).join(' ');
  return {
    note: `How many times better a result is with ${to.title} than with ${from.title}` +
      `${middle ? `: ${times(middle)} in the median of ${ratios.length} results` : ''}. ${why}` +
      (bench ? '' : ' Of results alike, one is shown.'),
    heads: ['result', from.title, to.title, 'times better', 'published before', 'published after'],
    rows: rows.map(row => [`${row.group}: ${row.label}`, ...row.cells,
      row.ratio ? times(row.ratio) : '–', ...row.published]),
  };
}

function whatIfFigure(place) {
  const used = new Set(data.results.map(result => result.bench));
  const sideControls = (key, label, switches, redraw) => h('div', { class: 'side' }, h('b', null, label),
    settingNames.map(name => menu(name, `${key}-${name}`,
      [...new Set(data.studies.map(study => study.settings[name] || ''))]
        .map(value => [value, value || 'default']), data.studies[0].settings[name] || '', redraw)),
    allSwitches.length ? toggles('switches on', key + '-on', allSwitches, switches, redraw) : null);
  figure(place, redraw => [
    sideControls('w', 'Before', '', redraw),
    sideControls('v', 'After', names.join(','), redraw),
    menu('Benchmark', 'w-bench', benchmarkOptions(used), '', redraw),
    menu('Sort by', 'w-sort', [['plan', 'order of the study'], ['gain', 'gain']], 'plan', redraw),
  ], drawWhatIf);
}
