//! The fenced blocks of a Markdown file.

use std::path::Path;

/// A document at its path from the top of the repository.
pub(crate) struct Document {
    pub(crate) path: &'static str,
    pub(crate) text: String,
}

/// A fenced block.
pub(crate) struct Block {
    /// The language that stands behind its fence.
    pub(crate) language: String,
    /// What stands behind the language: the name of a file, or of an answer.
    pub(crate) name: String,
    pub(crate) text: String,
    /// The line of its fence.
    pub(crate) line: usize,
}

impl Document {
    pub(crate) fn read(path: &'static str) -> Document {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        Document { path, text }
    }

    /// All blocks; each must say what language it is in.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<Block> = None;
        for (line, text) in (1..).zip(self.text.lines()) {
            match (&mut open, text.trim_start().strip_prefix("```")) {
                (None, Some(info)) => {
                    let (language, name) = info.split_once(' ').unwrap_or((info, ""));
                    assert!(!language.is_empty(), "{}:{line}: no language", self.path);
                    open = Some(Block {
                        language: language.to_owned(),
                        name: name.to_owned(),
                        text: String::new(),
                        line,
                    });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(block), None) => block.text += &format!("{text}\n"),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block does not end", self.path);
        blocks
    }

    pub(crate) fn blocks_of(&self, language: &str) -> Vec<Block> {
        let mut blocks = self.blocks();
        blocks.retain(|block| block.language == language);
        blocks
    }

    /// The text of the one block with this name.
    pub(crate) fn named(&self, name: &str) -> String {
        let mut blocks = self.blocks();
        blocks.retain(|block| block.name == name);
        assert_eq!(blocks.len(), 1, "{}: blocks called {name}", self.path);
        blocks.remove(0).text
    }

    /// The rows of the tables below a heading, as cells.
    pub(crate) fn rows(&self, heading: &str) -> Vec<Vec<&str>> {
        let lines = self.text.lines().skip_while(|line| *line != heading);
        let rows: Vec<Vec<&str>> = lines
            .skip(1)
            .take_while(|line| !line.starts_with("## "))
            .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
            .map(|row| row.split('|').map(str::trim).collect())
            .collect();
        assert!(rows.len() > 2, "{}: no table below {heading}", self.path);
        // Without the heads of columns and the rule below them.
        rows[2..].to_vec()
    }
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
