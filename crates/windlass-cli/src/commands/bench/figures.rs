//! The figures of one measurement, and how they compare.

use comfy_table::Cell;
use serde_json::{Map, Value, json};

/// The figures of one measurement. What was not measured is missing, never made up.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    pub(super) enqueue_one_per_s: Option<f64>,
    pub(super) enqueue_bulk_per_s: Option<f64>,
    pub(super) drain_per_s: Option<f64>,
    pub(super) drain_without_history_per_s: Option<f64>,
    pub(super) pickup_p50_ms: Option<f64>,
    pub(super) pickup_p99_ms: Option<f64>,
    pub(super) rss_mb: Option<f64>,
}

impl Figures {
    fn named(&self) -> [(&'static str, Option<f64>); 7] {
        [
            ("enqueue_one_per_s", self.enqueue_one_per_s),
            ("enqueue_bulk_per_s", self.enqueue_bulk_per_s),
            ("drain_per_s", self.drain_per_s),
            ("drain_without_history_per_s", self.drain_without_history_per_s),
            ("pickup_p50_ms", self.pickup_p50_ms),
            ("pickup_p99_ms", self.pickup_p99_ms),
            ("rss_mb", self.rss_mb),
        ]
    }

    pub(super) fn to_json(&self) -> Value {
        let known = self
            .named()
            .into_iter()
            .filter_map(|(name, figure)| Some((name.to_owned(), json!(rounded(figure?)))));
        Value::Object(known.collect::<Map<_, _>>())
    }

    /// Ours by theirs, where both were measured.
    pub(super) fn ratios(&self, limit: &Self) -> Value {
        let pairs = self.named().into_iter().zip(limit.named());
        let ratios = pairs.filter_map(|((name, ours), (_, theirs))| {
            Some((name.to_owned(), json!((ours? / theirs? * 1000.0).round() / 1000.0)))
        });
        Value::Object(ratios.collect::<Map<_, _>>())
    }

    pub(super) fn rows(&self, limit: Option<&Self>) -> (Vec<&'static str>, Vec<Vec<Cell>>) {
        let shown = |figure: Option<f64>| {
            Cell::new(figure.map_or_else(|| "–".to_owned(), |f| rounded(f).to_string()))
        };
        let Some(limit) = limit else {
            let rows =
                self.named().into_iter().map(|(name, figure)| vec![Cell::new(name), shown(figure)]).collect();
            return (vec!["FIGURE", "WINDLASS"], rows);
        };
        let rows = self.named().into_iter().zip(limit.named()).map(|((name, ours), (_, theirs))| {
            let ratio = ours.zip(theirs).map(|(ours, theirs)| ours / theirs);
            let ratio = Cell::new(ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")));
            vec![Cell::new(name), shown(ours), shown(theirs), ratio]
        });
        (vec!["FIGURE", "WINDLASS", "BY HAND", "RATIO"], rows.collect())
    }
}

/// Three digits after the point for small figures, none for big ones.
fn rounded(figure: f64) -> f64 {
    if figure >= 1000.0 { figure.round() } else { (figure * 1000.0).round() / 1000.0 }
}
