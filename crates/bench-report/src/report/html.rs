//! Small pieces of HTML: escaped text and tables.
//!
//! Invariant: text of results reaches the page only through [`text`].

/// Text as HTML, in element content and in quoted attributes.
pub fn text(raw: &str) -> String {
    let mut safe = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Control characters have no place in a page.
            c if c.is_control() && c != '\n' => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// A cell: its text, a smaller line under it, and a class.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// The text of the cell.
    pub text: String,
    /// A smaller line.
    pub small: String,
    /// The class of the smaller line: `good`, `bad` or nothing.
    pub tone: &'static str,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }
}

/// A table whose first `words` columns are words and the others numbers.
pub struct Table {
    /// Classes of the table: `stack` for one that becomes a list on phones.
    pub class: &'static str,
    /// What it holds, for those who cannot see the page; shown above it unless empty.
    pub caption: String,
    /// Columns of words.
    pub words: usize,
    /// Headings.
    pub head: Vec<String>,
    /// Rows.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// As HTML. Columns without any content are left out.
    pub fn html(&self) -> String {
        let used: Vec<usize> = (0..self.head.len())
            .filter(|&i| {
                i < self.words || self.rows.iter().any(|r| r.get(i).is_some_and(|c| !c.text.is_empty()))
            })
            .collect();
        let class = |i: usize| if i < self.words { "w" } else { "n" };
        let mut html = format!("<table class=\"{}\">", self.class);
        if !self.caption.is_empty() {
            html.push_str(&format!("<caption>{}</caption>", text(&self.caption)));
        }
        html.push_str("<thead><tr>");
        for &i in &used {
            html.push_str(&format!("<th scope=\"col\" class=\"{}\">{}</th>", class(i), text(&self.head[i])));
        }
        html.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            html.push_str("<tr>");
            for &i in &used {
                let cell = row.get(i).cloned().unwrap_or_default();
                let small = match cell.small.as_str() {
                    "" => String::new(),
                    small => format!("<small class=\"{}\">{}</small>", cell.tone, text(small)),
                };
                let inner = text(&cell.text);
                if i == 0 {
                    html.push_str(&format!("<th scope=\"row\" class=\"{}\">{inner}{small}</th>", class(i)));
                } else if cell.text.is_empty() && small.is_empty() {
                    html.push_str(&format!("<td class=\"{}\"></td>", class(i)));
                } else {
                    let label = text(&self.head[i]);
                    html.push_str(&format!(
                        "<td class=\"{}\" data-label=\"{label}\"><span>{inner}{small}</span></td>",
                        class(i)
                    ));
                }
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table>");
        html
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(text("<a href=\"x\" b='&'>\u{1b}"), "&lt;a href=&quot;x&quot; b=&#39;&amp;&#39;&gt; ");
        let table = Table {
            class: "",
            caption: "<c>".into(),
            words: 1,
            head: vec!["<h>".into(), "empty".into(), "n".into()],
            rows: vec![vec!["<r>".into(), "".into(), "1".into()]],
        };
        let html = table.html();
        assert!(
            !html.contains("<c>")
                && !html.contains("<h>")
                && !html.contains("<r>")
                && !html.contains("empty"),
            "{html}"
        );
    }
}
