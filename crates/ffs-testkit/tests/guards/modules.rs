//! The modules of a crate, and the paths through which each uses others.
//!
//! Code of tests is left out: a test may use every module. Calls of methods are no paths, so an
//! `impl` block outside of its type's module is not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use ffs_testkit::repository;
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// The names of a module and of those around it, from the root of the crate.
pub(crate) type ModulePath = Vec<String>;

/// The longest list of re-exports that is followed.
const DEPTH: usize = 16;

#[derive(Debug, Default)]
struct Module {
    file: String,
    /// Names that `use` brings in, and the path that each means.
    aliases: BTreeMap<String, ModulePath>,
    /// Paths of which `use` brings in everything.
    globs: Vec<ModulePath>,
    /// Names of items.
    items: BTreeSet<String>,
    /// Paths into this crate, with their lines.
    paths: Vec<(usize, ModulePath)>,
}

/// A use of another module: where it is, and what it leads to.
#[derive(Debug)]
pub(crate) struct Use {
    pub(crate) from: ModulePath,
    pub(crate) to: ModulePath,
    /// File, line and path.
    pub(crate) site: String,
}

#[derive(Debug, Default)]
pub(crate) struct Crate(BTreeMap<ModulePath, Module>);

impl Crate {
    /// Reads the crate whose root is the file `root`.
    pub(crate) fn read(root: &Path) -> Crate {
        let mut all = Crate::default();
        let folder = root.parent().unwrap();
        all.read_file(root, folder, Vec::new());
        all
    }

    fn read_file(&mut self, file: &Path, folder: &Path, path: ModulePath) {
        let text = fs::read_to_string(file).unwrap();
        let parsed = syn::parse_file(&text).unwrap_or_else(|why| panic!("{file:?}: {why}"));
        let mut reader = Reader { all: self, path: path.clone(), outside: Vec::new() };
        let shown = file.strip_prefix(repository::root()).unwrap_or(file);
        reader.module().file = shown.display().to_string();
        reader.visit_file(&parsed);
        for child in reader.outside {
            let below = &child[path.len()..child.len() - 1];
            let folder = below.iter().fold(folder.to_owned(), |folder, name| folder.join(name));
            let name = child.last().unwrap();
            let (flat, nested) = (folder.join(format!("{name}.rs")), folder.join(name));
            let file = if flat.exists() { flat } else { nested.join("mod.rs") };
            self.read_file(&file, &nested, child);
        }
    }

    /// The module that a path leads to, through re-exports.
    fn resolve(&self, path: &[String], depth: usize) -> Option<ModulePath> {
        let mut at = ModulePath::new();
        for (n, name) in path.iter().enumerate() {
            let module = self.0.get(&at)?;
            let mut child = at.clone();
            child.push(name.clone());
            if self.0.contains_key(&child) {
                at = child;
                continue;
            }
            if depth == 0 || module.items.contains(name) {
                return Some(at);
            }
            if let Some(target) = module.aliases.get(name) {
                let target = [target, &path[n + 1..]].concat();
                return self.resolve(&target, depth - 1);
            }
            let through = module.globs.iter().find_map(|glob| {
                let target = [&glob[..], &path[n..]].concat();
                let found = self.resolve(&target, depth - 1)?;
                (found.len() > glob.len() || self.0.get(&found)?.items.contains(name))
                    .then_some(found)
            });
            return Some(through.unwrap_or(at));
        }
        Some(at)
    }

    /// All uses of other modules.
    pub(crate) fn uses(&self) -> Vec<Use> {
        let mut uses = Vec::new();
        for (from, module) in &self.0 {
            for (line, path) in &module.paths {
                let Some(to) = self.resolve(path, DEPTH) else { continue };
                let site = format!("{}:{line}: {}", module.file, path.join("::"));
                uses.push(Use { from: from.clone(), to, site });
            }
        }
        uses
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.0.keys().map(|path| path.join("::"))
    }
}

/// Reads one file; `path` is the module of the item that is visited.
struct Reader<'a> {
    all: &'a mut Crate,
    path: ModulePath,
    /// Modules whose source is in another file.
    outside: Vec<ModulePath>,
}

impl Reader<'_> {
    fn module(&mut self) -> &mut Module {
        self.all.0.entry(self.path.clone()).or_default()
    }

    /// The path from the root of the crate, if `path` begins with `crate`, `self` or `super`.
    fn absolute(&self, path: &[String]) -> Option<ModulePath> {
        let mut base = self.path.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => base.clear(),
            "self" => {}
            "super" => {
                base.pop();
            }
            _ => return None,
        }
        rest = &rest[1..];
        while rest.first().is_some_and(|name| name == "super") {
            base.pop();
            rest = &rest[1..];
        }
        Some([&base, rest].concat())
    }

    fn add_path(&mut self, line: usize, path: &[String]) {
        if let Some(path) = self.absolute(path) {
            self.module().paths.push((line, path));
        }
    }

    /// Enters what a tree of `use` brings in. `prefix` is the path so far.
    fn add_use(&mut self, tree: &syn::UseTree, prefix: &mut ModulePath, line: usize) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.add_use(&path.tree, prefix, line);
                prefix.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(tree, prefix, line);
                }
            }
            syn::UseTree::Glob(_) => self.add_glob(prefix, line),
            syn::UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.add_alias(&name, &name, prefix, name_line(tree, line));
            }
            syn::UseTree::Rename(rename) => {
                let (name, alias) = (rename.ident.to_string(), rename.rename.to_string());
                self.add_alias(&name, &alias, prefix, name_line(tree, line));
            }
        }
    }

    /// A path of `use`. One without `crate`, `self` or `super` begins in this module or leads to
    /// another crate.
    fn use_path(&self, path: &[String]) -> ModulePath {
        self.absolute(path).unwrap_or_else(|| [&self.path, path].concat())
    }

    fn add_glob(&mut self, prefix: &[String], line: usize) {
        self.add_path(line, prefix);
        let target = self.use_path(prefix);
        self.module().globs.push(target);
    }

    fn add_alias(&mut self, name: &str, alias: &str, prefix: &[String], line: usize) {
        let mut path = prefix.to_vec();
        let mut alias = alias;
        if name == "self" {
            alias = prefix.last().map_or(alias, String::as_str);
        } else {
            path.push(name.to_owned());
        }
        self.add_path(line, &path);
        let target = self.use_path(&path);
        // A name that would mean itself comes from another crate.
        if target.last().map(String::as_str) != Some(alias) || target.len() != self.path.len() + 1 {
            self.module().aliases.insert(alias.to_owned(), target);
        }
    }

    /// Paths in the arguments of a macro.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: ModulePath = Vec::new();
        // Colons since the last name of the path.
        let (mut colons, mut line) = (0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if colons == 2 && !path.is_empty() => {
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Ident(ident) => {
                    self.add_path(line, &path);
                    path = vec![ident.to_string()];
                    (colons, line) = (0, ident.span().start().line);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.add_tokens(group.stream());
                    self.add_path(line, &std::mem::take(&mut path));
                }
                _ => self.add_path(line, &std::mem::take(&mut path)),
            }
        }
        self.add_path(line, &path);
    }
}

fn name_line(tree: &syn::UseTree, line: usize) -> usize {
    match tree {
        syn::UseTree::Name(name) => name.ident.span().start().line,
        syn::UseTree::Rename(rename) => rename.ident.span().start().line,
        _ => line,
    }
}

/// Whether an item is compiled for tests only.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg = attribute.path().is_ident("cfg");
        attribute.path().is_ident("test")
            || is_cfg && attribute.parse_args::<syn::Ident>().is_ok_and(|name| name == "test")
    })
}

fn name_of(item: &syn::Item) -> Option<&syn::Ident> {
    match item {
        syn::Item::Const(item) => Some(&item.ident),
        syn::Item::Enum(item) => Some(&item.ident),
        syn::Item::Fn(item) => Some(&item.sig.ident),
        syn::Item::Macro(item) => item.ident.as_ref(),
        syn::Item::Static(item) => Some(&item.ident),
        syn::Item::Struct(item) => Some(&item.ident),
        syn::Item::Trait(item) => Some(&item.ident),
        syn::Item::Type(item) => Some(&item.ident),
        syn::Item::Union(item) => Some(&item.ident),
        _ => None,
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test(attributes(item)) {
            return;
        }
        if let Some(name) = name_of(item) {
            self.module().items.insert(name.to_string());
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.path.push(item.ident.to_string());
        if item.content.is_some() {
            let file = self.all.0[&self.path[..self.path.len() - 1]].file.clone();
            self.module().file = file;
            visit::visit_item_mod(self, item);
        } else {
            self.outside.push(self.path.clone());
        }
        self.path.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let line = item.use_token.span.start().line;
        self.add_use(&item.tree, &mut Vec::new(), line);
    }

    /// `pub(in path)` uses nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if let Some(first) = path.segments.first() {
            self.add_path(first.ident.span().start().line, &names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.add_tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }
}

/// The roots of the crates, each with the name of its folder.
pub(crate) fn roots() -> Vec<(String, PathBuf)> {
    let mut roots = Vec::new();
    for name in repository::crates() {
        for root in ["src/lib.rs", "src/main.rs"] {
            let root = repository::root().join("crates").join(&name).join(root);
            if root.exists() {
                roots.push((name.clone(), root));
            }
        }
    }
    roots
}

/// A crate of a root and flat modules, without files.
#[cfg(test)]
pub(crate) fn from_texts(texts: &[(&str, &str)]) -> Crate {
    let mut all = Crate::default();
    for (path, text) in texts {
        let path: ModulePath =
            path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let mut reader = Reader { all: &mut all, path, outside: Vec::new() };
        reader.module().file = "text".to_owned();
        reader.visit_file(&syn::parse_file(text).unwrap());
    }
    all
}
