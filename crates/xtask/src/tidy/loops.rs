//! Import loops within a crate: no more than [`MOST`] files may import each other in a circle.
//!
//! Files of a loop can only be understood together. To break a loop, move the types that its files share to a
//! file that imports none of them.
//!
//! Method: every file of `src` is a node; paths that begin with `crate`, `self`, `super` or a module of the
//! file are edges. A re-exported name (`pub use`) leads to the file that defines it. Tests are left out:
//! `#[cfg(test)]`, `tests.rs`, `*_tests.rs` and folders named `tests`. Macros are not expanded, methods are
//! not resolved.
//!
//! Invariant: the sizes in [`KNOWN`] only decrease. Must not depend on: the compiler, other rules.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{
    tokens::{Scan, Token, scan},
    tree::{Findings, Tree},
};

/// The maximum number of files in a loop.
const MOST: usize = 5;

/// Crates with longer loops, and the number of files in their longest loop. Do not add crates.
const KNOWN: [(&str, usize); 0] = [];

/// Checks all crates.
pub fn check(tree: &Tree, findings: &mut Findings) {
    for (name, files) in crates(tree) {
        let known = KNOWN.iter().find(|(k, _)| *k == name).map(|(_, size)| *size);
        judge(&name, &Graph::of(&files).loops(), known, findings);
    }
}

/// The imports within each loop that is too long.
pub fn describe(tree: &Tree) -> String {
    let mut text = String::new();
    for (name, files) in crates(tree) {
        let graph = Graph::of(&files);
        for found in graph.loops().iter().filter(|l| l.len() > MOST) {
            text += &format!("crates/{name}/src: a loop of {} files\n", found.len());
            for file in found {
                for (to, (line, path)) in graph.edges[file].iter().filter(|(to, _)| found.contains(*to)) {
                    text += &format!("  {file}:{line} {path} -> {to}\n");
                }
            }
        }
    }
    text
}

/// The source files of each crate by their path below `src`, without tests.
fn crates(tree: &Tree) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut crates: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (file, text) in tree.texts("rs") {
        if let Some((name, file)) = source_file(file) {
            crates.entry(name).or_default().insert(file, text);
        }
    }
    crates
}

/// `crates/NAME/src/FILE` as (NAME, FILE).
fn source_file(file: &Path) -> Option<(String, String)> {
    let (name, file) = file.strip_prefix("crates").ok()?.to_str()?.split_once("/src/")?;
    let is_test = file.split('/').any(|p| p == "tests" || p == "tests.rs") || file.ends_with("_tests.rs");
    (!is_test).then(|| (name.to_owned(), file.to_owned()))
}

fn judge(name: &str, loops: &[Vec<String>], known: Option<usize>, findings: &mut Findings) {
    let longest = loops.iter().map(Vec::len).max().unwrap_or(0);
    let here = "crates/xtask/src/tidy/loops.rs";
    match known {
        Some(size) if longest <= MOST => findings.warnings.push(format!(
            "crates/{name}: no loop of more than {MOST} files is left (it had {size}): remove it from KNOWN in {here}"
        )),
        Some(size) if longest < size => findings.warnings.push(format!(
            "crates/{name}: its longest import loop has {longest} files, no longer {size}: lower the number in {here}"
        )),
        Some(size) if longest == size => {}
        _ => {
            let most = known.unwrap_or(MOST);
            for found in loops.iter().filter(|l| l.len() > most) {
                findings.errors.push(format!(
                    "crates/{name}/src: {} files import each other in a circle, at most {most} may: {}; \
                     move what they share to a file that imports none of them (`cargo xtask tidy --loops` \
                     lists the imports)",
                    found.len(),
                    found.join(", ")
                ));
            }
        }
    }
}

/// A name that a `use` imports into a file: its path, and whether it is re-exported.
struct Import<'a> {
    path: Vec<&'a str>,
    passed_on: bool,
    line: usize,
}

/// Imports and paths of one file.
#[derive(Default)]
struct File<'a> {
    /// The path of its module; empty for the root of the crate.
    module: Vec<String>,
    /// By local name.
    imports: BTreeMap<&'a str, Import<'a>>,
    /// Used paths, with globs of `use`.
    paths: Vec<(Vec<&'a str>, usize)>,
    /// Identifiers outside `use`.
    words: BTreeSet<&'a str>,
}

/// The imports between files, with line and path.
struct Graph {
    edges: BTreeMap<String, BTreeMap<String, (usize, String)>>,
}

impl Graph {
    fn of(texts: &BTreeMap<String, String>) -> Graph {
        let mut scans: BTreeMap<&str, Scan<'_>> =
            texts.iter().map(|(file, text)| (file.as_str(), scan(text))).collect();
        let tests: BTreeSet<String> = scans
            .iter()
            .flat_map(|(file, scan)| {
                let module = module_of(file);
                scan.test_modules.iter().map(move |m| [module.join("::"), (*m).to_owned()].join("::"))
            })
            .collect();
        scans.retain(|file, scan| {
            let module = module_of(file);
            let path = if module.len() < 2 { format!("::{}", module.join("::")) } else { module.join("::") };
            !scan.only_tests && !tests.contains(&path)
        });
        // From the end: if both exist, `crate` is `lib.rs`; `main.rs` uses it from outside.
        let modules: BTreeMap<Vec<String>, &str> = scans.keys().rev().map(|f| (module_of(f), *f)).collect();
        let files: BTreeMap<&str, File<'_>> =
            scans.iter().map(|(name, scan)| (*name, read(module_of(name), &scan.tokens, &modules))).collect();
        let find = |from: &str, path: &[&str]| resolve(&files, &modules, from, path, 0);
        let mut edges: BTreeMap<String, BTreeMap<String, (usize, String)>> = BTreeMap::new();
        for (name, file) in &files {
            let here = edges.entry((*name).to_owned()).or_default();
            // A re-export alone is not a use.
            let used = file.imports.iter().filter(|(name, i)| !i.passed_on || file.words.contains(*name));
            let used = used.map(|(_, i)| (&i.path, i.line));
            for (path, line) in file.paths.iter().map(|(p, l)| (p, *l)).chain(used) {
                if let Some(to) = find(name, path).filter(|to| to != name) {
                    here.entry(to.to_owned()).or_insert_with(|| (line, path.join("::")));
                }
            }
        }
        Graph { edges }
    }

    /// Groups of files that import each other, each in alphabetical order.
    fn loops(&self) -> Vec<Vec<String>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.edges.keys().map(|file| (file.as_str(), self.reachable(file))).collect();
        let mut seen = BTreeSet::new();
        let mut loops = Vec::new();
        for (file, reached) in &reach {
            let group: Vec<String> = reached
                .iter()
                .filter(|other| reach.get(*other).is_some_and(|r| r.contains(file)))
                .map(|other| (*other).to_owned())
                .collect();
            if group.len() > 1 && group.iter().all(|f| !seen.contains(f)) {
                seen.extend(group.iter().cloned());
                loops.push(group);
            }
        }
        loops
    }

    fn reachable<'a>(&'a self, from: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            for next in self.edges.get(file).into_iter().flat_map(BTreeMap::keys) {
                if reached.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        reached
    }
}

/// The module path of a file below `src`.
fn module_of(file: &str) -> Vec<String> {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let mut module: Vec<String> = path.split('/').map(str::to_owned).collect();
    let last = module.last().map_or("", String::as_str);
    if last == "mod" || module.len() == 1 && matches!(last, "lib" | "main") {
        module.pop();
    }
    module
}

/// Parses imports and paths from the tokens of a file.
fn read<'a>(module: Vec<String>, tokens: &[Token<'a>], modules: &BTreeMap<Vec<String>, &str>) -> File<'a> {
    let is_child = |name: &str| {
        let child: Vec<String> = module.iter().cloned().chain([name.to_owned()]).collect();
        modules.contains_key(&child)
    };
    let mut file = File::default();
    // The brace depths at which inline modules began.
    let mut inner: Vec<usize> = Vec::new();
    let (mut at, mut depth) = (0, 0_usize);
    while at < tokens.len() {
        let Token { text, line } = tokens[at];
        let before = |n: usize| at.checked_sub(n).map_or("", |i| tokens[i].text);
        let next = tokens.get(at + 1).map_or("", |t| t.text);
        match text {
            "{" => {
                depth += 1;
                if before(2) == "mod" {
                    inner.push(depth);
                }
            }
            "}" => {
                inner.pop_if(|d| *d == depth);
                depth = depth.saturating_sub(1);
            }
            "use" if next != "<" => {
                let passed_on = matches!(before(1), "pub" | ")");
                at += 1;
                let mut names = Vec::new();
                use_tree(tokens, &mut at, &mut Vec::new(), &mut names);
                for (path, name) in names {
                    let Some(path) = outside(path, inner.len()) else { continue };
                    let ours = matches!(path[0], "crate" | "self" | "super") || is_child(path[0]);
                    if !ours {
                        continue;
                    }
                    if name == "*" {
                        file.paths.push((path, line));
                    } else {
                        file.imports.insert(name, Import { path, passed_on, line });
                    }
                }
                continue;
            }
            _ => {
                // Names of modules, fields and methods are not uses of an import with the same name.
                if !matches!(before(1), "mod" | ".") {
                    file.words.insert(text);
                }
                let begins = before(1) != "::"
                    && before(1) != "."
                    && !(before(1) == "in" && before(2) == "(" && before(3) == "pub")
                    && (matches!(text, "crate" | "self" | "super") || is_child(text));
                if begins && next == "::" {
                    let mut path = vec![text];
                    while tokens.get(at + 1).is_some_and(|t| t.text == "::")
                        && tokens.get(at + 2).is_some_and(|t| is_name(t.text))
                    {
                        path.push(tokens[at + 2].text);
                        at += 2;
                    }
                    file.paths.extend(outside(path, inner.len()).map(|p| (p, line)));
                }
            }
        }
        at += 1;
    }
    file.module = module;
    file
}

/// A path as seen from the file, if it is inside `inner` inline modules. `None`: it stays within the file.
fn outside(mut path: Vec<&str>, inner: usize) -> Option<Vec<&str>> {
    for _ in 0..inner {
        match path.first() {
            Some(&"super") => {
                path.remove(0);
            }
            Some(&"crate") => break,
            _ => return None,
        }
    }
    if inner > 0 && path.first().is_some_and(|p| !matches!(*p, "crate" | "super")) {
        path.insert(0, "self");
    }
    (path.len() > 1 || !matches!(path.first(), None | Some(&("crate" | "self")))).then_some(path)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Parses what follows `use` up to its end, as (path, local name).
fn use_tree<'a>(
    tokens: &[Token<'a>],
    at: &mut usize,
    prefix: &mut Vec<&'a str>,
    found: &mut Vec<(Vec<&'a str>, &'a str)>,
) {
    let depth = prefix.len();
    let mut name = None;
    while let Some(token) = tokens.get(*at) {
        *at += 1;
        match token.text {
            "::" => {}
            "{" => {
                while tokens.get(*at).is_some_and(|t| !matches!(t.text, "}" | ";")) {
                    use_tree(tokens, at, prefix, found);
                    if tokens.get(*at).is_some_and(|t| t.text == ",") {
                        *at += 1;
                    }
                }
                *at += 1;
                prefix.truncate(depth);
                if depth == 0 && tokens.get(*at).is_some_and(|t| t.text == ";") {
                    *at += 1;
                }
                return;
            }
            "as" => {
                name = tokens.get(*at).map(|t| t.text);
                *at += 1;
            }
            "," | "}" | ";" => {
                if token.text != ";" || depth > 0 {
                    *at -= 1;
                }
                break;
            }
            // `a::{self}` means `a`.
            "self" if !prefix.is_empty() => {}
            "*" => name = Some("*"),
            text => prefix.push(text),
        }
    }
    if let Some(last) = prefix.last() {
        found.push((prefix.clone(), name.unwrap_or(last)));
    }
    prefix.truncate(depth);
}

/// The file that a path leads to, seen from a file: the deepest module in it, and then through re-exports of
/// that module.
fn resolve<'a>(
    files: &BTreeMap<&'a str, File<'_>>,
    modules: &BTreeMap<Vec<String>, &'a str>,
    from: &str,
    path: &[&str],
    hops: usize,
) -> Option<&'a str> {
    let mut module = files.get(from)?.module.clone();
    let mut rest = path;
    while let Some(first) = rest.first() {
        match *first {
            "crate" => module.clear(),
            "self" => {}
            "super" => {
                module.pop()?;
            }
            _ => break,
        }
        rest = &rest[1..];
    }
    while let Some(first) = rest.first() {
        module.push((*first).to_owned());
        if !modules.contains_key(&module) {
            module.pop();
            break;
        }
        rest = &rest[1..];
    }
    let to = *modules.get(&module)?;
    let import = rest.first().and_then(|name| files.get(to)?.imports.get(name));
    match import {
        Some(import) if hops < 8 => {
            let further: Vec<&str> = import.path.iter().copied().chain(rest[1..].iter().copied()).collect();
            resolve(files, modules, to, &further, hops + 1).or(Some(to))
        }
        _ => Some(to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        Graph::of(&files.iter().map(|(f, t)| ((*f).to_owned(), (*t).to_owned())).collect())
    }

    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let graph = graph(files);
        graph.edges.iter().flat_map(|(a, to)| to.keys().map(move |b| format!("{a} {b}"))).collect()
    }

    #[test]
    fn paths_become_edges() {
        let rest = [("a.rs", ""), ("b/mod.rs", "mod c;"), ("b/c.rs", "")];
        for (text, expected) in [
            ("use crate::a::X;", vec!["b/d.rs a.rs"]),
            ("use crate::{a::{X, Y as Z}, b::c};", vec!["b/d.rs a.rs", "b/d.rs b/c.rs"]),
            ("use super::c; use super::*;", vec!["b/d.rs b/c.rs", "b/d.rs b/mod.rs"]),
            ("fn f() { crate::a::g(super::c::H { x: 1 }) }", vec!["b/d.rs a.rs", "b/d.rs b/c.rs"]),
            ("mod m { use super::super::c; use super::E; }", vec!["b/d.rs b/c.rs"]),
            ("#[cfg(test)] mod tests { use crate::a; }", vec![]),
            ("// crate::a::b\npub(in crate::b) fn f() { x.self_(\"crate::a::b\") }", vec![]),
            ("use std::a; use a::b; fn f() { self.a::<u8>() }", vec![]),
        ] {
            let mut files = rest.to_vec();
            files.push(("b/d.rs", text));
            files.push(("lib.rs", "mod a; mod b;"));
            assert_eq!(edges(&files), expected, "{text}");
        }
    }

    #[test]
    fn names_lead_to_the_file_that_defines_them() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::{a, X, Y}; pub use b::T; pub use b as c; fn f(t: T) {}"),
            ("a.rs", "pub use crate::b::Y; pub struct X;"),
            ("b.rs", "pub struct Y; pub struct T;"),
            ("d.rs", "use crate::X;"),
            ("e.rs", "use crate::Y; fn f() { crate::c::g() }"),
            ("g.rs", "use crate::f;"),
        ];
        assert_eq!(edges(&files), ["d.rs a.rs", "e.rs b.rs", "g.rs lib.rs", "lib.rs b.rs"]);
    }

    #[test]
    fn main_file_beside_library_is_not_crate_root() {
        let files = [
            ("lib.rs", "mod a; pub use a::X;"),
            ("main.rs", "use name::a; fn main() { a::g() }"),
            ("a.rs", "use crate::Y;"),
        ];
        assert!(graph(&files).loops().is_empty());
    }

    #[test]
    fn children_are_found_without_a_prefix() {
        let files = [("lib.rs", "mod a; fn f() { a::g() }"), ("a.rs", "use super::f; fn g() {}")];
        assert_eq!(edges(&files), ["a.rs lib.rs", "lib.rs a.rs"]);
        assert_eq!(graph(&files).loops(), [["a.rs", "lib.rs"]]);
    }

    #[test]
    fn modules_of_tests_are_left_out() {
        let files = [
            ("lib.rs", "mod a; #[cfg(test)] mod proof;"),
            ("a.rs", "#[cfg(test)] mod check; fn f() {}"),
            ("a/check.rs", "use crate::a;"),
            ("proof.rs", "use crate::a;"),
        ];
        assert!(edges(&files).is_empty());
        for (file, counted) in [
            ("crates/s3/src/ops/get.rs", true),
            ("crates/s3/src/ops/tests/get.rs", false),
            ("crates/s3/src/tests.rs", false),
            ("crates/s3/src/sign_tests.rs", false),
            ("crates/s3/tests/all.rs", false),
        ] {
            assert_eq!(source_file(Path::new(file)).is_some(), counted, "{file}");
        }
    }

    #[test]
    fn loops_may_not_be_long_and_never_grow() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let ring = |size: usize| -> Vec<Vec<String>> {
            let texts = (0..size).map(|i| {
                let next = names[(i + 1) % size];
                (format!("{}.rs", names[i]), format!("fn f() {{ crate::{next}::f() }}"))
            });
            Graph::of(&texts.chain([("lib.rs".to_owned(), String::new())]).collect()).loops()
        };
        for (size, known, errors, warnings) in [
            (5, None, None, None),
            (6, None, Some("at most 5"), None),
            (6, Some(6), None, None),
            (7, Some(6), Some("at most 6"), None),
            (6, Some(7), None, Some("lower the number")),
            (5, Some(7), None, Some("remove it")),
        ] {
            let mut findings = Findings::default();
            judge("x", &ring(size), known, &mut findings);
            let fits = |found: &[String], expected: Option<&str>| match expected {
                Some(expected) => found.len() == 1 && found[0].contains(expected),
                None => found.is_empty(),
            };
            assert!(fits(&findings.errors, errors), "{size} {known:?}: {:?}", findings.errors);
            assert!(fits(&findings.warnings, warnings), "{size} {known:?}: {:?}", findings.warnings);
        }
    }
}
