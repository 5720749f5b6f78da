//! Redaction of event fields, for logs that keep fields apart.

use std::fmt;

use tracing::field::{Field, Value, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::redact::redacted;

/// Most fields of an event in `tracing`.
const FIELDS_MAX: usize = 32;

/// Passes events to another layer with their fields as redacted text. Spans are not passed on.
#[derive(Debug)]
pub(super) struct RedactedFields<L> {
    next: L,
}

impl<L> RedactedFields<L> {
    pub(super) fn new(next: L) -> Self {
        Self { next }
    }
}

impl<S: Subscriber, L: Layer<S>> Layer<S> for RedactedFields<L> {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut texts = Texts::default();
        event.record(&mut texts);
        let fields = event.metadata().fields();
        let Some(any) = fields.iter().next() else { return };
        let mut values: [(&Field, Option<&dyn Value>); FIELDS_MAX] = [(&any, None); FIELDS_MAX];
        for (place, (field, text)) in values.iter_mut().zip(&texts.0) {
            *place = (field, Some(text));
        }
        let values = fields.value_set(&values);
        self.next.on_event(&Event::new(event.metadata(), &values), context);
    }
}

#[derive(Default)]
struct Texts(Vec<(Field, String)>);

impl Visit for Texts {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.clone(), redacted(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.clone(), redacted(&format!("{value:?}"))));
    }
}
