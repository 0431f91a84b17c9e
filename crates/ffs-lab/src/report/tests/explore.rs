//! The page as a person uses it, in a browser without a screen: what is seen, not the markup.

use std::path::{Path, PathBuf};

use super::synthetic;
use crate::headless::Browser;
use crate::report::Report;

/// Windows of a telephone, a laptop and a wide screen.
const WINDOWS: [(u32, u32); 3] = [(390, 844), (1280, 800), (1920, 1080)];

/// The page of a study in which runs are missing here and there, and of a second machine.
fn page(dir: &Path) -> PathBuf {
    let study = synthetic::study(2);
    let mut other = study.clone();
    other.plan.target = "sim:machine=ide2001-7200".to_owned();
    for metric in other.jobs.iter_mut().flat_map(|job| &mut job.outcome.metrics) {
        metric.elapsed *= 0.5;
    }
    let report = Report::of(&study).unwrap().with(&other).unwrap();
    report.write(dir).unwrap().page
}

/// Pairs of texts of a drawing that cover each other.
const COVERED: &str = "(() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg.v')) {
    const texts = [...svg.querySelectorAll('text')]
      .map(t => [t.textContent, t.getBoundingClientRect()]).filter(([, b]) => b.width > 0);
    texts.forEach(([a, x], n) => texts.slice(n + 1).forEach(([b, y]) => {
      const wide = Math.min(x.right, y.right) - Math.max(x.left, y.left);
      const high = Math.min(x.bottom, y.bottom) - Math.max(x.top, y.top);
      if (wide > 1 && high > 3.5) found.push(svg.id + ': ' + a + ' / ' + b);
    }));
  }
  return found.join('; ');
})()";

/// Entries of the navigation and controls that are not completely in the window's width.
const OUTSIDE: &str = "(() => [...document.querySelectorAll('nav a, .tools *, .rows .value')]
  .filter(e => { const b = e.getBoundingClientRect();
    return b.width > 0 && (b.left < 0 || b.right > innerWidth + 0.5); })
  .map(e => e.textContent).join('; '))()";

#[test]
fn the_page_is_seen_whole_on_every_screen_and_in_both_colours() {
    let Some(mut browser) = Browser::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = page(dir.path());
    let mut pictures = Vec::new();
    for (width, height) in WINDOWS {
        for dark in [false, true] {
            browser.window(width, height, dark);
            browser.open(&page, "");
            browser.value("document.querySelectorAll('details').forEach(d => d.open = true)");
            let at = format!("{width} wide, dark: {dark}");
            let over = "document.documentElement.scrollWidth - innerWidth";
            assert!(browser.value(over).as_f64().unwrap() <= 0.0, "{at}: wider than the window");
            assert_eq!(browser.text(OUTSIDE), "", "{at}: outside of the window");
            assert_eq!(browser.text(COVERED), "", "{at}: texts cover each other");
            assert_eq!(browser.complaints, [""; 0], "{at}");
            let picture = browser.picture();
            assert!(!pictures.contains(&picture), "{at}: the same picture as another");
            pictures.push(picture);
        }
    }
    assert!(browser.paper().len() > 100_000, "the page on paper has no figures");
}

/// The words of the row or mark that has the focus or the pointer.
const TIP: &str = "(() => { const t = document.getElementById('tip');
  return t.hidden ? '' : t.innerText; })()";

/// What a chart shows, in words.
fn chart(id: &str) -> String {
    format!("document.querySelector('#{id} .chart').innerText")
}

#[test]
fn figures_are_walked_by_the_keyboard() {
    let Some(mut browser) = Browser::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = page(dir.path());
    browser.window(1280, 800, false);
    browser.open(&page, "");
    let reach = |browser: &mut Browser, selector: &str| {
        let there = format!("!!document.activeElement.matches({selector:?})");
        for _ in 0..60 {
            browser.press("Tab");
            if browser.value(&there) == true {
                return;
            }
        }
        panic!("60 presses of Tab do not reach {selector}");
    };
    reach(&mut browser, "nav a");
    reach(&mut browser, "#gains input[type=radio]");
    let before = browser.text(&chart("gains"));
    browser.press("ArrowRight");
    let published = browser.text(&chart("gains"));
    assert_ne!(before, published);
    assert!(browser.text("location.hash").contains("g-view=published"));
    reach(&mut browser, "#gains .rows li");
    let first = browser.text(TIP);
    assert!(first.contains("published: "), "{first}");
    browser.press("ArrowDown");
    let second = browser.text(TIP);
    assert!(!second.is_empty() && second != first, "{second}");
    browser.press("Escape");
    assert_eq!(browser.text(TIP), "");
    reach(&mut browser, "#whatif-figure input[type=checkbox]");
    let before = browser.text(&chart("whatif-figure"));
    browser.press(" ");
    assert_ne!(browser.text(&chart("whatif-figure")), before);
    browser.value("document.querySelector('#x11-untar svg.v').focus()");
    browser.press("ArrowRight");
    assert!(browser.text(TIP).contains('×'), "{}", browser.text(TIP));
    assert_eq!(browser.complaints, [""; 0]);
}

#[test]
fn an_address_leads_to_the_same_view() {
    let Some(mut browser) = Browser::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = page(dir.path());
    browser.window(1280, 800, true);
    browser.open(&page, "");
    let all = browser.text(&chart("gains"));
    browser.open(&page, "#overview?g-view=ratio&g-bench=mh&g-sort=gain");
    let few = browser.text(&chart("gains"));
    assert!(few.len() < all.len() / 3 && few.contains("MH folder: create"), "{few}");
    assert!(!few.contains("untar"), "{few}");
    browser.open(&page, "#published?n-which=all&n-sort=far&n-bench=x11&n-switch=su");
    let count = |browser: &mut Browser| {
        browser.value("document.querySelectorAll('#numbers .rows li').length").as_u64().unwrap()
    };
    let some = count(&mut browser);
    assert!((2..60).contains(&some), "{some}");
    browser.open(&page, "#whatif?w-machine=paper&v-machine=ide2001-7200&w-on=su&v-on=su");
    let chart = browser.text(&chart("whatif-figure"));
    assert!(chart.matches("×2.00").count() > 5, "twice as fast everywhere: {chart}");
    browser.open(&page, "#mh-rm");
    let shown = "(() => { const b = document.getElementById('mh-rm').getBoundingClientRect();
      return b.height > 100 && b.top < innerHeight && b.bottom > 0; })()";
    assert_eq!(browser.value(shown), true, "a closed result is opened and shown");
    let damaged = "#overview?g-view=%E0%A4%A&g-bench=nothing&g-sort=<b>&=&g-switch=zz";
    browser.open(&page, damaged);
    assert!(browser.text("document.querySelector('#gains .chart').innerText").len() > 10);
    assert_eq!(browser.complaints, [""; 0]);
}

#[test]
fn tables_behind_figures_are_sorted_and_marks_have_words() {
    let Some(mut browser) = Browser::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = page(dir.path());
    browser.window(1280, 800, false);
    browser.open(&page, "#curves");
    for place in ["#gains", "#whatif-figure", "#numbers", "#curves figure"] {
        let rows = format!("document.querySelector('{place} table').tBodies[0].rows.length");
        assert!(browser.value(&rows).as_u64().unwrap() > 3, "{place} has a table");
    }
    let sorted = "(() => {
      const table = document.querySelector('#gains table');
      table.closest('details').open = true;
      table.querySelectorAll('thead button')[1].click();
      return [...table.tBodies[0].rows].map(r => parseFloat(r.cells[1].textContent.slice(1)));
    })()";
    let values = browser.value(sorted);
    let values: Vec<f64> = values.as_array().unwrap().iter().filter_map(|v| v.as_f64()).collect();
    assert!(values.len() > 10 && values.is_sorted(), "{values:?}");
    browser.point("#fig2 polyline");
    browser.point("#gains .rows li:nth-child(2)");
    let words = browser.text(TIP);
    assert!(words.contains("here: ×"), "{words}");
    let ratios = "(() => {
      document.querySelectorAll('#curves .tools input')[3].click();
      return document.querySelectorAll('#curves .rows li').length;
    })()";
    assert!(browser.value(ratios).as_u64().unwrap() > 3, "the curves as ratios");
    assert_eq!(browser.complaints, [""; 0]);
}

#[test]
fn levels_are_chosen_from_a_menu() {
    let Some(mut browser) = Browser::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let report = Report::of(&synthetic::levels(2)).unwrap();
    let page = report.write(dir.path()).unwrap().page;
    for (width, height) in WINDOWS {
        browser.window(width, height, false);
        browser.open(&page, "");
        browser.value("document.querySelectorAll('details').forEach(d => d.open = true)");
        let over = "document.documentElement.scrollWidth - innerWidth";
        assert!(browser.value(over).as_f64().unwrap() <= 0.0, "{width}: wider than the window");
        assert_eq!(browser.text(OUTSIDE), "", "{width}: outside of the window");
        assert_eq!(browser.text(COVERED), "", "{width}: texts cover each other");
    }
    // Each option halves the time. At first all switches are on: su and the last level of big.
    let shown = |browser: &mut Browser| browser.text(&chart("whatif-figure"));
    assert!(shown(&mut browser).contains("×4.0"), "{}", shown(&mut browser));
    let choose = |value: &str| {
        format!(
            "(() => {{ const menu = document.querySelectorAll('#whatif-figure .side select')[1];
              menu.value = '{value}'; menu.dispatchEvent(new Event('change'));
              return [...menu.options].map(o => o.textContent).join(' '); }})()"
        )
    };
    let levels = browser.text(&choose(""));
    assert_eq!(levels, "maxvnodes=5000 20000 90000");
    assert!(browser.text("location.hash").contains("v-on=su"));
    assert!(shown(&mut browser).contains("×2.0"), "{}", shown(&mut browser));
    browser.open(&page, "#whatif?w-on=big%3D20000&v-on=su,big%3D20000,big%3D90000");
    let shown = shown(&mut browser);
    assert!(shown.contains("×2.0") || shown.contains("×1.9"), "{shown}");
    let note = browser.text("document.querySelector('#whatif-figure .note').textContent");
    assert!(note.contains("with su+big=90000 than with big=20000"), "{note}");
    browser.point("#thing-run-levels-2-big circle");
    let words = browser.text(TIP);
    assert!(words.contains("% of the base"), "{words}");
    assert_eq!(browser.complaints, [""; 0]);
}
