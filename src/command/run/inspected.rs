//! What the admin listener shows of a running gateway.

use std::sync::Arc;

use crate::admin::inspection::{Entries, Filter, Inspected, Pinned};
use crate::policy::plan::{Plan, Route};

/// The routes of a gateway.
pub(super) struct Routes(Vec<Arc<Route>>);

impl Routes {
    pub(super) fn of(plan: &Plan) -> Routes {
        Routes(plan.routes.clone())
    }
}

impl Inspected for Routes {
    fn entries(&self, _: &Filter, _: usize) -> Entries {
        Entries::default()
    }

    fn purge(&self, _: &Filter) -> usize {
        0
    }

    fn pins(&self) -> Vec<Pinned> {
        let pinned = self.0.iter().filter_map(|route| {
            let pin = route.pin.as_ref()?;
            Some(Pinned {
                route: route.name.clone(),
                file: pin.file.display().to_string(),
                on_change: pin.on_change,
                difference: None,
            })
        });
        pinned.collect()
    }
}
