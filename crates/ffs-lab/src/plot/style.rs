//! The colours and classes of the figures, in a page and in separate files.

/// The light and the dark colours. Those of series can be distinguished with each kind of colour
/// blindness (after Okabe and Ito), and have enough contrast to both backgrounds.
pub(crate) const COLOURS: &str = "\
:root{color-scheme:light dark;--paper:#fdfdfb;--card:#fff;--ink:#1c2127;--soft:#59626d;\
--rule:#d9dcdf;\
--faint:#eef0f1;--c0:#0067a5;--c1:#c25100;--c2:#00805a;--c3:#a8457e;--c4:#7a6200;--c5:#3a7ca5;\
--c6:#5b5f66;\
--c7:#8a3ffc;--good:#00704e;--bad:#b23a00;--on-c:#fff}\
@media (prefers-color-scheme:dark){:root{--paper:#14171a;--card:#1a1e22;--ink:#e4e7ea;\
--soft:#a1aab3;\
--rule:#363c43;--faint:#23282d;--c0:#62b5e8;--c1:#f0973a;--c2:#3fc795;--c3:#e594c4;--c4:#dcc65a;\
--c5:#8ec9ec;--c6:#b4bac1;--c7:#bd97ff;--good:#4fd09f;--bad:#ff9a62;--on-c:#101316}}\
@media print{:root{color-scheme:light;--paper:#fff;--card:#fff;--ink:#000;--soft:#444;--rule:#bbb;\
--faint:#eee;--c0:#0067a5;--c1:#c25100;--c2:#00805a;--c3:#a8457e;--c4:#7a6200;--c5:#3a7ca5;\
--c6:#5b5f66;\
--c7:#8a3ffc;--good:#00704e;--bad:#b23a00;--on-c:#fff}}";

/// The number of colours of series. Further series begin with the first colour again.
pub(crate) const SERIES: usize = 8;

/// The style rules of the classes.
pub(crate) const SHAPES: &str = "\
.v{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',sans-serif;\
font-size:12px;\
font-variant-numeric:tabular-nums;overflow:visible}\
.v text{fill:var(--ink);stroke:none}.v .soft{fill:var(--soft)}.v .small{font-size:10.5px}\
.v .tiny{font-size:9.5px}.v .bold{font-weight:600}.v .group{font-weight:600;font-size:13px}\
.v .grid{stroke:var(--faint);stroke-width:1}.v .axis{stroke:var(--rule);stroke-width:1}\
.v .one{stroke:var(--soft);stroke-width:1.2}.v .curve{fill:none;stroke-width:1.8;\
stroke-linejoin:round}\
.v .edge{fill:none;stroke-width:1.2;stroke-opacity:.75}.v .strong{stroke-width:2.6;\
stroke-opacity:1}\
.v .node{fill:var(--ink)}.v .rest{fill:none;stroke-width:1.1;stroke-dasharray:3 2.5}\
.v .on{fill:var(--on-c);font-weight:600}.v .ref{stroke:var(--soft);stroke-width:1;\
stroke-dasharray:1.5 3}\
.v .halo{stroke:var(--card);stroke-width:3px;paint-order:stroke;stroke-linejoin:round}\
.v .d0{stroke-dasharray:none}.v .d1{stroke-dasharray:6 3}.v .d2{stroke-dasharray:2 2.5}\
.v .d3{stroke-dasharray:8 3 2 3}.v .dull{fill-opacity:.38}.v .off{fill:var(--rule)}\
.v .band{fill:var(--c2);fill-opacity:.1}.v .dot{fill-opacity:.6}\
.v .f0{fill:var(--c0)}.v .f1{fill:var(--c1)}.v .f2{fill:var(--c2)}.v .f3{fill:var(--c3)}\
.v .f4{fill:var(--c4)}\
.v .f5{fill:var(--c5)}.v .f6{fill:var(--c6)}.v .f7{fill:var(--c7)}\
.v .s0{stroke:var(--c0)}.v .s1{stroke:var(--c1)}.v .s2{stroke:var(--c2)}.v .s3{stroke:var(--c3)}\
.v .s4{stroke:var(--c4)}.v .s5{stroke:var(--c5)}.v .s6{stroke:var(--c6)}.v .s7{stroke:var(--c7)}\
.v text.f0{fill:var(--c0)}.v text.f1{fill:var(--c1)}.v text.f2{fill:var(--c2)}\
.v text.f3{fill:var(--c3)}\
.v text.f4{fill:var(--c4)}.v text.f5{fill:var(--c5)}.v text.f6{fill:var(--c6)}\
.v text.f7{fill:var(--c7)}\
.v text.on{fill:var(--on-c)}";
