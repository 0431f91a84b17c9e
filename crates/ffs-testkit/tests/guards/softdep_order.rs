//! The files of the soft-updates engine call only files above them in the table of its `mod.rs`.
//!
//! The compiler cannot see that order: the methods of `Softdep` are one type in many files. The
//! guard reads the table, and checks every call of a method on `self` and every import.

use std::collections::BTreeMap;
use syn::visit::{self, Visit};

use crate::files::{self, Source};

const FOLDER: &str = "crates/ffs-core/src/ordering/softdep/";

/// The files of the table in its order, without extension.
fn table(header: &str) -> Vec<String> {
    let rows = header.lines().filter_map(|line| line.strip_prefix("//! | `"));
    let cells = rows.filter_map(|row| row.split_once(" | ")).map(|(cell, _)| cell);
    let names = cells.flat_map(|cell| cell.split(',').map(|name| name.trim().trim_matches('`')));
    names.map(str::to_owned).collect()
}

/// Methods of `Softdep` that a file defines, and the methods that it calls on `self`.
#[derive(Default)]
struct Methods {
    defined: Vec<String>,
    called: Vec<String>,
    in_engine: bool,
}

impl<'ast> Visit<'ast> for Methods {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let syn::Type::Path(path) = &*item.self_ty else { return };
        let is_test = item.attrs.iter().any(|attribute| attribute.path().is_ident("cfg"));
        self.in_engine = path.path.is_ident("Softdep") && !is_test;
        visit::visit_item_impl(self, item);
        self.in_engine = false;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if self.in_engine {
            self.defined.push(item.sig.ident.to_string());
        }
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let is_self =
            matches!(&*call.receiver, syn::Expr::Path(path) if path.path.is_ident("self"));
        if self.in_engine && is_self {
            self.called.push(call.method.to_string());
        }
        visit::visit_expr_method_call(self, call);
    }
}

/// The file of the table that a source belongs to: a folder counts as its name.
fn file_of(source: &Source) -> Option<String> {
    let path = source.path.strip_prefix(FOLDER)?;
    let name = path.split('/').next()?.trim_end_matches(".rs");
    (name != "mod" && name != "tests").then(|| name.to_owned())
}

/// Modules that a source imports from the engine's folder.
fn imports(source: &Source) -> Vec<String> {
    let depth = source.path.strip_prefix(FOLDER).map_or(0, |path| path.matches('/').count());
    let prefix = "super::".repeat(depth + 1);
    let uses = source.text.split("#[cfg(test)]").next().unwrap_or_default().lines();
    let uses = uses.filter_map(|line| line.trim_start().strip_prefix("use "));
    let names = uses.filter_map(|path| path.strip_prefix(prefix.as_str()));
    names
        .filter(|name| !name.starts_with("super"))
        .filter_map(|n| n.split("::").next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn calls_go_up_the_table() {
    let sources: Vec<Source> = files::all().into_iter().filter(Source::is_rust).collect();
    let of_engine: Vec<(String, &Source)> =
        sources.iter().filter_map(|source| Some((file_of(source)?, source))).collect();
    let header = sources.iter().find(|source| source.path == format!("{FOLDER}mod.rs"));
    let order = table(&header.unwrap().text);
    let place = |name: &str| order.iter().position(|file| file == name);
    let mut methods: BTreeMap<String, usize> = BTreeMap::new();
    let mut calls: Vec<(usize, String, String)> = Vec::new();
    let mut found = Vec::new();
    for (file, source) in &of_engine {
        let Some(at) = place(file) else {
            found.push(format!("{}: not in the table of mod.rs", source.path));
            continue;
        };
        let mut visitor = Methods::default();
        visitor.visit_file(&syn::parse_file(&source.text).unwrap());
        methods.extend(visitor.defined.into_iter().map(|method| (method, at)));
        calls.extend(visitor.called.into_iter().map(|call| (at, source.path.clone(), call)));
        for import in imports(source) {
            if place(&import).is_some_and(|other| other > at) {
                found.push(format!("{}: imports `{import}`, which is below", source.path));
            }
        }
    }
    for (at, path, method) in &calls {
        if methods.get(method).is_some_and(|defined| defined > at) {
            found.push(format!("{path}: calls `{method}`, which is below in the table"));
        }
    }
    assert!(calls.len() > 200, "found only {} calls", calls.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}
