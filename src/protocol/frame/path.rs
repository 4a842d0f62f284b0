//! Chosen argument paths: which objects below `params.arguments` are looked into.

use std::sync::Arc;

/// The arguments whose values a scan is to find. Cheap to clone.
///
/// A path is a list of member names, from `params.arguments` on: `["where", "zone"]` is
/// `params.arguments.where.zone`, and the empty path is `params.arguments` itself. Paths lead
/// through objects only. Every object that a path looks into is read strictly: a repeated key
/// in it is a flaw.
#[derive(Clone, Debug, Default)]
pub struct Paths(Option<Arc<Tree>>);

#[derive(Debug)]
struct Tree {
    nodes: Vec<Node>,
    len: usize,
}

/// A place below `params.arguments`.
#[derive(Debug, Default)]
struct Node {
    /// The indexes of the paths that end here.
    paths: Vec<usize>,
    children: Vec<(Box<str>, usize)>,
}

/// The index of a node; the first is `params.arguments`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NodeId(usize);

impl Paths {
    /// Plants the paths; [`Outline::argument`](super::Outline::argument) takes their indexes
    /// in this list.
    pub fn new<P, S>(paths: impl IntoIterator<Item = P>) -> Paths
    where
        P: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        let mut tree = Tree {
            nodes: vec![Node::default()],
            len: 0,
        };
        for path in paths {
            let end = path
                .into_iter()
                .fold(0, |node, name| tree.child(node, name.as_ref()));
            tree.nodes[end].paths.push(tree.len);
            tree.len += 1;
        }
        Paths((tree.len > 0).then(|| Arc::new(tree)))
    }

    /// How many paths there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |tree| tree.len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The node of `params.arguments`, if any path begins there.
    pub(super) fn root(&self) -> Option<NodeId> {
        self.0.as_ref().map(|_| NodeId(0))
    }

    /// The node of a member of the object at a node.
    pub(super) fn member(&self, at: NodeId, name: &[u8]) -> Option<NodeId> {
        let children = &self.node(at)?.children;
        let (_, child) = children
            .iter()
            .find(|(child, _)| child.as_bytes() == name)?;
        Some(NodeId(*child))
    }

    /// Whether any path goes on from here.
    pub(super) fn looks_into(&self, at: NodeId) -> bool {
        self.node(at).is_some_and(|node| !node.children.is_empty())
    }

    /// The indexes of the paths that end here.
    pub(super) fn ending_at(&self, at: NodeId) -> &[usize] {
        self.node(at).map_or(&[], |node| &node.paths)
    }

    fn node(&self, at: NodeId) -> Option<&Node> {
        self.0.as_ref()?.nodes.get(at.0)
    }
}

impl Tree {
    /// The child of that name; it is made if there is none.
    fn child(&mut self, node: usize, name: &str) -> usize {
        let children = &self.nodes[node].children;
        if let Some((_, child)) = children.iter().find(|(child, _)| **child == *name) {
            return *child;
        }
        let child = self.nodes.len();
        self.nodes.push(Node::default());
        self.nodes[node].children.push((name.into(), child));
        child
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_share_a_beginning_share_nodes() {
        let paths = Paths::new([
            vec!["where", "zone"],
            vec!["where"],
            vec![],
            vec!["where", "zone"],
        ]);
        assert_eq!(paths.len(), 4);
        let root = paths.root().unwrap();
        assert_eq!(paths.ending_at(root), [2]);
        let place = paths.member(root, b"where").unwrap();
        assert_eq!(paths.ending_at(place), [1]);
        assert!(paths.looks_into(place));
        let zone = paths.member(place, b"zone").unwrap();
        assert_eq!(paths.ending_at(zone), [0, 3]);
        assert!(!paths.looks_into(zone));
        assert_eq!(paths.member(root, b"zone"), None);
    }

    #[test]
    fn no_paths_look_nowhere() {
        let paths = Paths::new(Vec::<Vec<&str>>::new());
        assert!(paths.is_empty());
        assert_eq!(paths.root(), None);
    }
}
